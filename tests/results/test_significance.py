import random
import re
from itertools import zip_longest

import numpy as np
import pytest
import sacrebleu
from sacrebleu.significance import PairedTest

from cellar import by_sacrebleu
from seqcredit.errors import UserError
from seqcredit.results.significance import bootstrap, differences, of_means, resampled
from seqcredit.rewards.metrics import BLEU, CHRF, EDIT, corpus, own

REFERENCES = [[f"word{i} is number {i} of the list".split()] for i in range(60)]
GOOD = [group[0] for group in REFERENCES]
BAD = [[*words[:4], "xx", *words[5:]] if i % 2 else words for i, words in enumerate(GOOD)]


def test_a_real_difference_is_significant_and_none_is_not() -> None:
    result = bootstrap([BAD], [GOOD], REFERENCES, samples=300)
    assert result.system == pytest.approx(100)
    assert result.baseline < 90
    assert result.p < 0.05
    assert "bs:300" in result.signature
    same = bootstrap([GOOD], [GOOD], REFERENCES, samples=300)
    assert (same.p, same.interval) == (1, (0, 0))


def test_the_sentences_that_differ_most_come_first() -> None:
    worse = [*GOOD]
    worse[7] = ["nonsense"]
    found = differences(GOOD, worse, REFERENCES)
    assert found[0].example == 7
    assert found[0].baseline == pytest.approx(100)
    assert found[0].system < 1
    assert abs(found[1].system - found[1].baseline) < 1e-9


def test_different_sizes_are_refused() -> None:
    with pytest.raises(UserError, match="60 and 59 hypotheses for 60 references"):
        bootstrap([GOOD], [GOOD[:-1]], REFERENCES)
    with pytest.raises(UserError, match="59 hypotheses"):
        BLEU.statistics(GOOD[:-1], REFERENCES)
    with pytest.raises(UserError, match="60 and 59 hypotheses"):
        differences(GOOD, GOOD[:-1], REFERENCES)


def test_the_interval_is_of_the_samples_alone_and_p_of_any_change() -> None:
    """The corpus itself stands first and is not drawn: +10, and the one sample says +4."""
    found = of_means([np.array([0.0, 1.0])], [np.array([10.0, 5.0])], "nrefs:1|x")
    assert found.interval == (4, 4)
    same = of_means([np.array([1.0, 2.0, 3.0])], [np.array([1.0, 3.0, 3.0])], "nrefs:1|x")
    assert same.p == pytest.approx(2 / 3)  # the corpus does not differ, one sample of two does


def spoilt(share: float, seed: int) -> list[list[str]]:
    chance = random.Random(seed)
    return [["xx" if chance.random() < share else word for word in words] for words in GOOD]


@pytest.mark.parametrize("share", [0.2, 0.19, 0.18, 0.1])
def test_with_one_run_each_it_is_sacrebleu(share: float) -> None:
    ours = bootstrap([spoilt(0.2, 1)], [spoilt(share, 2)], REFERENCES)
    assert (ours.p, ours.signature) == by_sacrebleu(spoilt(0.2, 1), spoilt(share, 2), REFERENCES)
    wanted = [[" ".join(words) for words in GOOD]]
    lines = ([" ".join(words) for words in said] for said in (spoilt(0.2, 1), spoilt(share, 2)))
    theirs = [sacrebleu.corpus_bleu(said, wanted, tokenize="none", force=True).score for said in lines]
    assert (ours.baseline, ours.system) == pytest.approx(theirs, rel=1e-6)


ODD = [[], ["a"], *([f"w{i}", "and", "a", "b", "c", "a", "b"] for i in range(20))]
ONE = [[["x", "y"]], [["a", "b"]], *([[f"w{i}", "a", "b", "a", "b", "c"]] for i in range(20))]
MANY = [group + [["and", "a", "b", "c"], ["a"] * 9][: i % 3] for i, group in enumerate(ONE)]


@pytest.mark.parametrize("references", [ONE, MANY], ids=["one reference", "one to three"])
def test_counts_are_sacrebleus(references: list[list[list[str]]]) -> None:
    """Its own statistics, its corpus BLEU, and its p for the same draws."""
    lines = [" ".join(words) for words in ODD]
    streams = list(zip_longest(*([" ".join(words) for words in group] for group in references)))
    metric = sacrebleu.BLEU(tokenize="none", force=True, references=streams)
    found = BLEU.statistics(ODD, references)
    assert found.tolist() == [list(map(int, row)) for row in metric._extract_corpus_statistics(lines, None)]
    assert found.shape == (22, 10)
    assert len(set(map(tuple, found[:, 1:].T))) == 9  # no two columns are alike
    whole = metric.corpus_score(lines, None).score
    assert resampled(found, 3)[0] == pytest.approx(whole, rel=1e-6)  # of the bootstrap, which sacreBLEU does in float32
    other = [words[:-1] for words in ODD]
    ours = bootstrap([ODD], [other], references)
    assert ours.p > 0.001
    assert (ours.p, ours.signature) == by_sacrebleu(ODD, other, references)


@pytest.mark.parametrize("paired", [False, True])
def test_runs_are_drawn_and_sentences_and_the_means_compared(paired: bool) -> None:
    """The same by hand: lists of sentences drawn anew, sacreBLEU of each, and runs drawn for the mean."""
    groups = [[spoilt(0.2, seed) for seed in (1, 2, 6)], [spoilt(0.18, seed) for seed in (3, 4, 5, 7)[: 4 - paired]]]
    draws = np.random.default_rng(12345).choice(60, size=(40, 60), replace=True)
    generator = np.random.default_rng(12345)
    runs = [generator.choice(len(group), size=(40, len(group)), replace=True) for group in groups]
    runs = [runs[0], runs[0]] if paired else runs

    def mean(group: list[list[list[str]]], members: list[int], chosen: list[int]) -> float:
        wanted = [" ".join(GOOD[i]) for i in chosen]
        lines = [[" ".join(group[n][i]) for i in chosen] for n in members]
        return float(np.mean([sacrebleu.corpus_bleu(r, [wanted], tokenize="none", force=True).score for r in lines]))

    drawn = [[mean(group, *map(list, rows)) for rows in zip(r, draws)] for group, r in zip(groups, runs)]  # noqa: B905
    gains = sorted(np.subtract(drawn[1], drawn[0]))
    changes = np.abs(gains)
    first, second = (mean(group, list(range(len(group))), list(range(60))) for group in groups)
    p = (np.sum(changes - changes.mean() > abs(second - first)) + 1) / 41
    found = bootstrap(*groups, REFERENCES, samples=40, paired=paired)
    assert (found.baseline, found.system) == pytest.approx((first, second), rel=1e-6)
    assert 1 / 41 < p < 1
    assert found.p == pytest.approx(p)
    between = [gains[0] + (gains[1] - gains[0]) * 0.975, gains[-1] - (gains[-1] - gains[-2]) * 0.975]  # of 40
    assert found.interval == pytest.approx(between, rel=1e-4)
    assert bootstrap(groups[0], groups[0], REFERENCES, samples=40, paired=True).p == 1


def test_a_gain_of_one_seed_in_three_is_not_significant() -> None:
    """Sentences alone would have called it so: two runs are as before, the third is much better."""
    before = [spoilt(0.2, seed) for seed in (1, 2, 3)]
    once, always = [*before[:2], GOOD], [spoilt(0.05, seed) for seed in (1, 2, 3)]
    assert bootstrap(before, once, REFERENCES, paired=True).p > 0.05
    assert bootstrap(before, always, REFERENCES, paired=True).p < 0.01


@pytest.mark.parametrize("references", [ONE, MANY], ids=["one reference", "one to three"])
def test_chrf_is_resampled_as_by_sacrebleu(references: list[list[list[str]]]) -> None:
    lines = [(name, [" ".join(words) for words in said]) for name, said in (("a", ODD), ("b", [w[:-1] for w in ODD]))]
    streams = list(zip_longest(*([" ".join(words) for words in group] for group in references)))
    judge = sacrebleu.CHRF(references=streams)
    signatures, scores = PairedTest(lines, {"chrF": judge}, None, test_type="bs", n_samples=1000)()
    ours = bootstrap([ODD], [[words[:-1] for words in ODD]], references, metric=CHRF)
    assert (ours.p, ours.signature) == (scores["chrF2"][1].p_value, str(signatures["chrF2"]))
    assert (ours.baseline, ours.system) == pytest.approx([result.score for result in scores["chrF2"]], rel=1e-6)


def test_any_metric_is_resampled_alike() -> None:
    """By hand: the error rate of lists of sentences drawn anew, the same for both; fewer errors are a fall."""
    one, two = spoilt(0.3, 1), spoilt(0.1, 2)
    draws = np.random.default_rng(12345).choice(60, size=(40, 60), replace=True)

    def rate(said: list[list[str]], chosen: list[int]) -> float:
        return corpus(EDIT, [said[i] for i in chosen], [REFERENCES[i] for i in chosen]).value

    changes = [rate(two, list(row)) - rate(one, list(row)) for row in draws]
    found = bootstrap([one], [two], REFERENCES, samples=40, metric=EDIT)
    assert found.system - found.baseline == pytest.approx(rate(two, range(60)) - rate(one, range(60)), rel=1e-6)
    assert found.interval == pytest.approx(np.quantile(changes, (0.025, 0.975)), rel=1e-6)
    assert found.interval[1] < 0
    assert found.p < 0.05
    assert found.signature == "token error rate|bs:40|seed:12345|reference:best"


def test_statistics_that_are_not_whole_keep_their_precision() -> None:
    rows = np.array([[1e8 + 0.1, 1.0], [1e8 + 0.3, 1.0]])
    judge = own("m:f", lambda text, references: 0.0)
    assert resampled(rows, 5, judge)[0] == pytest.approx(1e8 + 0.2, abs=1e-6)  # float32 would have 1e8


def test_a_signature_of_one_word() -> None:
    judge = own("m:f", lambda text, references: float(len(text)))
    found = bootstrap([GOOD], [BAD], REFERENCES, 9, metric=judge).signature
    assert re.fullmatch(r"m:f\|bs:9\|seed:12345\|code:[0-9a-f]{8}", found)


def test_examples_differ_by_their_own_figure() -> None:
    worse = [*GOOD]
    worse[3] = ["nonsense"]
    found = differences(GOOD, worse, REFERENCES, EDIT)
    assert (found[0].example, found[0].baseline, found[0].system) == (3, 0, 100)
