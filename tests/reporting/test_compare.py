import pytest

from seqcredit.errors import UserError
from seqcredit.reporting.compare import differences, paired_bootstrap

REFERENCES = [[f"word{i} is number {i} of the list".split()] for i in range(60)]
GOOD = [group[0] for group in REFERENCES]
BAD = [[*words[:4], "xx", *words[5:]] if i % 2 else words for i, words in enumerate(GOOD)]


def test_a_real_difference_is_significant_and_none_is_not() -> None:
    result = paired_bootstrap(BAD, GOOD, REFERENCES, samples=300)
    assert result.system == pytest.approx(100)
    assert result.baseline < 90
    assert result.p < 0.05
    assert "bs:300" in result.signature
    assert paired_bootstrap(GOOD, GOOD, REFERENCES, samples=300).p > 0.5


def test_the_sentences_that_differ_most_come_first() -> None:
    worse = [*GOOD]
    worse[7] = ["nonsense"]
    found = differences(GOOD, worse, REFERENCES)
    assert found[0].sentence == 7
    assert found[0].baseline == pytest.approx(100)
    assert found[0].system < 1
    assert abs(found[1].system - found[1].baseline) < 1e-9


def test_different_sizes_are_refused() -> None:
    with pytest.raises(UserError, match="60 and 59 hypotheses for 60 references"):
        paired_bootstrap(GOOD, GOOD[:-1], REFERENCES)
