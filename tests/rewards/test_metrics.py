"""Metrics against outside judges: sacreBLEU, pycocoevalcap, and an edit distance written by hand."""

import hashlib
import math
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from seqcredit.errors import UserError
from seqcredit.named import GIVEN
from seqcredit.rewards import EditDistance, OnlyFinished, TextReward
from seqcredit.rewards.metrics import (
    AT_ONCE,
    BLEU,
    CHRF,
    CIDER,
    EDIT,
    EXACT,
    METRICS,
    ROUGE_L,
    WRONG,
    Metric,
    corpus,
    corpus_bleu,
    corpus_bleus,
    label_of,
    mean_reward,
    metric,
    own,
    sentence_bleu,
    streams,
)
from seqcredit.types import Known

HYPOTHESES = [["the", "cat", "sat", "on", "the", "mat"], ["a", "<unk>", "barks"], ["hello", "there", "my", "friend"]]
REFERENCES = [
    [["the", "cat", "sat", "on", "a", "mat"], ["the", "cat", "was", "on", "the", "mat"]],
    [["a", "dog", "barks"]],
    [["hello", "there", "my", "old", "friend"]],
]
SINGLE = [[group[0]] for group in REFERENCES]
sentences = st.lists(st.sampled_from(["the", "a", "dog", "cat", "sees", "runs", "."]), min_size=1, max_size=8)
corpora = st.lists(
    st.tuples(st.one_of(st.just([]), sentences), st.lists(sentences, min_size=1, max_size=3)), min_size=1, max_size=6
)


def texts(lines: Sequence[Sequence[str]]) -> list[str]:
    return [" ".join(words) for words in lines]


def test_streams_mark_what_is_missing() -> None:
    assert streams(REFERENCES)[1] == ["the cat was on the mat", None, None]


def test_bleu_is_sacrebleus() -> None:
    expected = sacrebleu.corpus_bleu(texts(HYPOTHESES), [texts(g[0] for g in SINGLE)], tokenize="none", force=True)
    score = corpus_bleu(HYPOTHESES, SINGLE)
    assert score.value == expected.score
    assert "tok:none" in score.signature
    assert "version:" in score.signature
    assert corpus_bleu(HYPOTHESES, REFERENCES).value > score.value


def test_an_unknown_word_matches_nothing() -> None:
    known = corpus_bleu([["a", "dog", "barks", "now"]], [[["a", "dog", "barks", "now"]]]).value
    unknown = corpus_bleu([["a", "<unk>", "barks", "now"]], [[["a", "dog", "barks", "now"]]]).value
    assert known > 99.9 > unknown


def test_chrf_is_sacrebleus() -> None:
    expected = sacrebleu.corpus_chrf(texts(HYPOTHESES), [texts(g[0] for g in SINGLE)])
    assert corpus(CHRF, HYPOTHESES, SINGLE).value == expected.score


@settings(max_examples=60, deadline=None)
@given(corpora)
def test_bleu_and_chrf_are_sacrebleus_to_the_last_digit(examples: list[tuple[list[str], list[list[str]]]]) -> None:
    """Value and signature, with as many references as there are."""
    hypotheses, references = [words for words, _ in examples], [group for _, group in examples]
    most = max(map(len, references))
    wanted = [[" ".join(group[n]) if n < len(group) else None for group in references] for n in range(most)]
    for mine, theirs in ((BLEU, sacrebleu.BLEU(tokenize="none", force=True)), (CHRF, sacrebleu.CHRF())):
        expected = theirs.corpus_score(texts(hypotheses), wanted).score
        assert corpus(mine, hypotheses, references) == (expected, str(theirs.get_signature()))


@settings(max_examples=60, deadline=None)
@given(corpora, st.sampled_from(sorted(METRICS)), st.randoms(use_true_random=False))
def test_the_sum_of_all_rows_gives_the_score(
    examples: list[tuple[list[str], list[list[str]]]], name: str, chance: random.Random
) -> None:
    """In any order, and of a sample with repetitions as of a corpus that has them; CIDEr's frequencies stay."""
    hypotheses, references = [words for words, _ in examples], [group for _, group in examples]
    judge = METRICS[name]
    rows = judge.statistics(hypotheses, references)
    whole = corpus(judge, hypotheses, references).value
    mixed = chance.sample(range(len(rows)), len(rows))
    assert judge.score(rows[mixed].sum(0)) == pytest.approx(whole, rel=1e-12)
    drawn = chance.choices(range(len(rows)), k=len(rows))
    if name != "cider":
        again = corpus(judge, [hypotheses[i] for i in drawn], [references[i] for i in drawn]).value
        assert judge.score(rows[drawn].sum(0)) == pytest.approx(again, rel=1e-6)


@pytest.fixture
def captions() -> tuple[list[list[str]], list[list[list[str]]]]:
    """Sixty pictures with five captions each, of few words, so that much matches."""
    rng = random.Random(1)
    words = ["a", "the", "dog", "cat", "runs", "sits", "on", "in", "grass", "water", "red", "big"]

    def sentence() -> list[str]:
        return rng.choices(words, k=rng.randint(4, 12))

    references = [[sentence() for _ in range(5)] for _ in range(60)]
    return [[rng.choice([word, word, rng.choice(words)]) for word in group[2]] for group in references], references


def test_captions_are_scored_as_by_pycocoevalcap(captions) -> None:
    hypotheses, references = captions
    given = {i: [" ".join(words)] for i, words in enumerate(hypotheses)}
    known = {i: [" ".join(words) for words in group] for i, group in enumerate(references)}
    bleus, _ = Bleu(4).compute_score(known, given, verbose=0)
    assert [score.value for score in corpus_bleus(hypotheses, references)] == pytest.approx([100 * b for b in bleus])
    assert bleus[3] > 0.05
    for judge, theirs in ((CIDER, Cider()), (ROUGE_L, Rouge())):
        mean, each = theirs.compute_score(known, given)
        assert corpus(judge, hypotheses, references).value == pytest.approx(100 * mean)
        rows = judge.statistics(hypotheses, references)
        assert [judge.example(row) for row in rows] == pytest.approx([100 * one for one in each], rel=1e-5)


def test_figures_of_captions_say_how_they_were_made(captions) -> None:
    signatures = [score.signature for score in corpus_bleus(*captions)]
    assert all("nrefs:5" in signature and "smooth:none" in signature for signature in signatures)
    assert "CIDEr-D" in corpus(CIDER, *captions).signature
    assert "beta:1.2" in corpus(ROUGE_L, *captions).signature


def levenshtein(one: Sequence[str], other: Sequence[str]) -> int:
    """By recursion over the whole table, as it is defined."""
    table = {(i, 0): i for i in range(len(one) + 1)} | {(0, j): j for j in range(len(other) + 1)}
    for i in range(1, len(one) + 1):
        for j in range(1, len(other) + 1):
            same = table[i - 1, j - 1] + (one[i - 1] != other[j - 1])
            table[i, j] = min(same, table[i - 1, j] + 1, table[i, j - 1] + 1)
    return table[len(one), len(other)]


@settings(max_examples=60, deadline=None)
@given(corpora)
def test_the_token_error_rate_is_by_the_best_reference(examples: list[tuple[list[str], list[list[str]]]]) -> None:
    errors = tokens = 0
    for words, group in examples:
        rate, size = min((levenshtein(words, reference) / len(reference), -len(reference)) for reference in group)
        assert EDIT.example(EDIT.statistics([words], [group])[0]) == pytest.approx(100 * rate)
        errors, tokens = errors - rate * size, tokens - size
    hypotheses, references = [words for words, _ in examples], [group for _, group in examples]
    if len({len(r) for group in references for r in group}) == 1:  # otherwise two references may be equally good
        assert corpus(EDIT, hypotheses, references).value == pytest.approx(100 * errors / tokens)
    single = [group[:1] for group in references]
    wrong = sum(levenshtein(words, group[0]) for words, group in zip(hypotheses, single, strict=True))
    expected = 100 * wrong / sum(len(group[0]) for group in single)
    assert corpus(EDIT, hypotheses, single).value == pytest.approx(expected)


def test_exact_and_wrong_sequences() -> None:
    hypotheses = [["a", "b"], ["c"], ["a"], []]
    references = [[["x"], ["a", "b"]], [["c", "d"]], [["a"]], [["a"]]]
    assert corpus(EXACT, hypotheses, references).value == 50
    assert corpus(WRONG, hypotheses, references).value == 50
    assert [EXACT.example(row) for row in EXACT.statistics(hypotheses, references)] == [100, 0, 100, 0]
    assert [WRONG.example(row) for row in WRONG.statistics(hypotheses, references)] == [0, 100, 0, 100]
    assert (EXACT.higher, WRONG.higher, EDIT.higher, BLEU.higher) == (True, False, False, True)


def test_a_sentence_alone_is_sacrebleus() -> None:
    for words, group in zip(HYPOTHESES, REFERENCES, strict=True):
        theirs = sacrebleu.sentence_bleu(" ".join(words), texts(group), tokenize="none", use_effective_order=True)
        assert sentence_bleu(words, group) == theirs.score
    two = BLEU.statistics([["a", "dog"]], [[["a", "dog"]]])[0]
    assert (BLEU.example(two), BLEU.score(two)) == (pytest.approx(100), 0)


def test_the_mean_reward_is_that_of_the_reward() -> None:
    numbers = {word: i for i, word in enumerate(sorted({w for g in REFERENCES for r in g for w in r} | {"<unk>"}), 2)}
    hypotheses, references = 100 * HYPOTHESES, 100 * SINGLE  # more than are scored at once
    expected = -np.mean([levenshtein(w, g[0]) for w, g in zip(HYPOTHESES, SINGLE, strict=True)])
    for reward in (EditDistance(), OnlyFinished(EditDistance())):  # which comes with eos alone
        judge = mean_reward(reward, lambda words: [numbers[word] for word in words])
        assert corpus(judge, hypotheses, references).value == pytest.approx(expected)
    with pytest.raises(UserError, match="'reward' needs the data of a run"):
        metric("reward")


def test_rewards_of_more_than_are_scored_at_once_are_in_their_places() -> None:
    count = AT_ONCE + 1
    judge = mean_reward(EditDistance(dtype=torch.float64), lambda words: [int(word) for word in words])
    rows = judge.statistics([["2"] * (n % 7) for n in range(count)], [[["2"]]] * count)
    assert rows.tolist() == [[-abs(n % 7 - 1), 1] for n in range(count)]


def test_rewards_and_metrics_of_the_source() -> None:
    """Who asks for it gets that of its own example; where some have none, nobody has."""

    def read(texts: list[str]) -> torch.Tensor:
        return torch.tensor([[int(text)] for text in texts])

    def further(text: str, source: str) -> float:
        return len(text) + 10 * float(source)

    def both(text: str, references: list[str], source: str) -> float:
        return further(text, source) + 1000 * len(references)

    spelled = TextReward(further, lambda ids: "x" * len(ids), lambda ids: str(ids[0]))
    hypotheses, groups = [["2"], ["2", "2"]], [Known([["2"]], "3"), Known([["2"], ["2"]], "4")]
    judge = mean_reward(spelled, lambda words: [int(word) for word in words], sources=read)
    assert judge.statistics(hypotheses, groups)[:, 0].tolist() == [31, 42]
    for unknown in ([groups[0], [["2"]]], [[["2"]], [["2"]]]):
        with pytest.raises(UserError, match="asks for the source, which is not given here"):
            judge.statistics(hypotheses, unknown)
    unread = mean_reward(spelled, lambda words: [int(word) for word in words])
    with pytest.raises(UserError, match="asks for the source, which is not given here"):
        unread.statistics(hypotheses, groups)
    assert own("m:further", further).statistics(hypotheses, groups)[:, 0].tolist() == [31, 43]
    assert own("m:both", both).statistics(hypotheses, groups)[:, 0].tolist() == [1031, 2043]
    with pytest.raises(UserError, match=r"^The metric m:further asks for the source, which is not known here\.$"):
        own("m:further", further).statistics(hypotheses, [groups[0], [["2"]]])


def test_a_metric_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "def starts(text, references):\n    return float(any(text[:3] == r[:3] for r in references))\n"
        "def errors(text, references):\n    return abs(len(text) - len(references[0]))\n"
        "errors.higher_is_better, errors.label, errors.signature = False, 'letters off', 'letters|first'\n"
        "number = 3\n"
    )
    found = metric("mine:starts", tmp_path)
    digits = hashlib.sha256((tmp_path / "mine.py").read_bytes()).hexdigest()[:8]
    assert corpus(found, HYPOTHESES, REFERENCES) == (2 / 3, f"mine:starts|code:{digits}")
    assert (found.name, found.label, found.higher) == ("mine:starts", "starts", True)
    other = metric("mine:errors", tmp_path)
    assert corpus(other, HYPOTHESES, REFERENCES) == (pytest.approx((2 + 2 + 4) / 3), "letters|first")
    assert (other.label, other.higher) == ("letters off", False)
    with pytest.raises(UserError, match=r"mine:number is no function: a metric is function\(text, references\)"):
        metric("mine:number", tmp_path)


def test_a_metric_of_ones_own_may_be_a_ratio_of_sums() -> None:
    def hits(text: str, references: list[str]) -> tuple[int, int]:
        return (3, 4) if "cat" in text else (0, 1)

    found = own("m:hits", hits)
    rows = found.statistics([["cat"], ["dog"]], [[["cat"]], [["cat"]]])
    assert rows.tolist() == [[3, 4], [0, 1]]
    assert found.score(rows.sum(0)) == 3 / 5  # not the mean of 3/4 and 0
    assert found.example(rows[0]) == 3 / 4
    for bad in ((1.0, 2.0, 3.0), (1.0, math.nan), (), (1.0, -1.0)):
        with pytest.raises(UserError, match=r"^The metric m:f returned .* for 'a': "):
            own("m:f", lambda text, references, bad=bad: bad).statistics([["a"]], [[["a"]]])


def test_two_versions_of_ones_own_have_two_signatures(tmp_path: Path) -> None:
    found = []
    for folder, number in (("one", 1), ("again", 1), ("other", 2)):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "mine_twice.py").write_text(f"def score(text, references):\n    return {number}.0\n")
        found.append(metric("mine_twice:score", tmp_path / folder).signature([]))
    assert found[0] == found[1] != found[2]

    def one(text: str, references: list[str]) -> float:
        return 1.0

    def other(text: str, references: list[str]) -> float:
        return 2.0

    typed: dict[str, Callable[[str, list[str]], float]] = {}  # as at a prompt, where no file holds it
    for name, code in (("a", "2.0 * len(text)"), ("b", "2.0 * len(text)"), ("c", "3.0 * len(text)")):
        exec(f"def {name}(text, references): return {code}", typed)
    assert own(GIVEN, one).signature([]) == own(GIVEN, one).signature([]) != own(GIVEN, other).signature([])
    a, b, c = (own(GIVEN, typed[name]).signature([]) for name in "abc")
    assert a == b != c


def test_a_metric_that_only_python_knows() -> None:
    said = r"^This metric was given in Python, and only Python knows it: choose another one with --metric, or put the f"
    with pytest.raises(UserError, match=said):
        metric(GIVEN)


@pytest.mark.parametrize("value", [torch.tensor(0.5), np.float32(0.5), np.array(0.5), 0.5, 1, True])
def test_numbers_of_all_kinds_are_numbers(value: object) -> None:
    assert corpus(own("m:f", lambda text, references: value), [["a"]], [[["a"]]]).value == float(value)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), None, "0.5", [0.5], torch.ones(3), (1.0, "2"), 10**400])
def test_what_is_no_number_is_said(value: object) -> None:
    with pytest.raises(UserError, match=r"The metric m:f (returned .* for 'a b': return a finite number|failed)"):
        corpus(own("m:f", lambda text, references: value), [["a", "b"]], [[["a"]]])


def test_an_error_of_ones_own_function_is_one_sentence() -> None:
    def broken(text: str, references: list[str]) -> float:
        return 1 / len(text)

    judge = own("m:broken", broken)
    with pytest.raises(UserError) as found:
        corpus(judge, [["a"], []], [[["a"]], [["b"]]])
    said = str(found.value)
    assert said.startswith("The metric m:broken failed for ''. ZeroDivisionError: division by zero (test_metrics.py")
    assert "\n" not in said


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("blue", "the nearest is 'bleu'"),
        ("rouge", "the nearest is 'rouge-l'"),
        ("xyz", "there are bleu, chrf, rouge-l"),
    ],
)
def test_an_unknown_name_names_the_nearest(name: str, said: str) -> None:
    with pytest.raises(UserError, match=said):
        metric(name)


@pytest.mark.parametrize("judge", METRICS.values(), ids=METRICS)
def test_one_hypothesis_for_each_example(judge: Metric) -> None:
    assert METRICS[judge.name] is judge
    with pytest.raises(UserError, match="There are 2 hypotheses for 3 examples"):
        judge.statistics(HYPOTHESES[:2], REFERENCES)
    assert judge.statistics([], []).shape == (0, judge.width) == (0, judge.statistics(HYPOTHESES, REFERENCES).shape[1])


@pytest.mark.parametrize("judge", [BLEU, CHRF, EDIT, ROUGE_L, CIDER], ids=lambda judge: judge.name)
def test_an_example_without_references_is_said(judge: Metric) -> None:
    with pytest.raises(UserError, match="Example 2 has no reference: give it one, or choose a metric that needs none"):
        corpus(judge, [["a"], ["b"]], [[["a"]], []])


def test_names_and_labels() -> None:
    assert (label_of("chrf"), label_of("my_file:score"), label_of("reward")) == ("chrF", "score", "reward")


def test_errors_beside_an_empty_reference_are_counted_one_by_one() -> None:
    """There is no length to divide by: two words too many are two errors, 200 percent."""
    row = EDIT.statistics([["a", "b"]], [[[]]])[0]
    assert EDIT.score(row) == EDIT.example(row) == 200.0
    assert EDIT.score(EDIT.statistics([[]], [[[]]])[0]) == 0.0
