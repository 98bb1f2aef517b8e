"""CIDEr-D against the definition and against pycocoevalcap."""

import math
import random
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pycocoevalcap.cider.cider import Cider

from rewards.cases import Case, assert_brute_force, cases, sentences, text
from seqcredit.errors import UserError
from seqcredit.rewards import CiderD
from seqcredit.types import pad, pad_references

Groups = Sequence[Sequence[Sequence[int]]]


def ngrams(words: Sequence[int], n: int) -> Counter[tuple[int, ...]]:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def cider(words: Sequence[int], references: Sequence[Sequence[int]], corpus: Groups, order: int, sigma: float) -> float:
    total = 0.0
    for n in range(1, order + 1):
        frequency = Counter(g for group in corpus for g in set().union(*(ngrams(r, n) for r in group)))

        def vector(sentence: Sequence[int], n: int = n, df: Counter[tuple[int, ...]] = frequency) -> dict:
            return {g: c * math.log(len(corpus) / max(1, df[g])) for g, c in ngrams(sentence, n).items()}

        ours = vector(words)
        for reference in references:
            theirs = vector(reference)
            product = sum(min(ours[g], theirs[g]) * theirs[g] for g in ours.keys() & theirs.keys())
            norm = math.hypot(*ours.values()) * math.hypot(*theirs.values())
            gap = max(len(words) - 1, 0) - max(len(reference) - 1, 0)
            total += product / norm * math.exp(-(gap**2) / (2 * sigma**2)) if norm else 0.0
    return 10 * total / order / len(references)


groups = st.lists(sentences, min_size=1, max_size=3)


@given(cases(), st.lists(groups, min_size=1, max_size=5), st.integers(1, 5), st.sampled_from([2.0, 6.0]), st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_prefix(case: Case, corpus: Groups, order: int, sigma: float, unk: bool) -> None:
    reward = CiderD.from_references(pad_references(corpus), order, sigma, unk, torch.float64)
    assert_brute_force(reward, partial(cider, corpus=corpus, order=order, sigma=sigma), case, unk)


def test_an_unseen_word_is_not_the_end_of_a_sentence() -> None:
    """Two documents end with 2; what follows 2 in the hypothesis is a word that nobody has seen."""
    corpus = [[[2]], [[3, 2]], [[4]], [[5]]]
    reward = CiderD.from_references(pad_references(corpus), 2, dtype=torch.float64)
    score = partial(cider, corpus=corpus, order=2, sigma=6.0)
    assert_brute_force(reward, score, Case([[2, 99], [3, 2, 99, 4]], [[[2, 4]], [[3, 2]]]))


def random_corpus(seed: int) -> tuple[list[list[int]], list[list[list[int]]]]:
    rng = random.Random(seed)

    def sentence() -> list[int]:
        return [rng.randint(1, 9) for _ in range(rng.randint(1, 12))]

    references = [[sentence() for _ in range(rng.randint(1, 5))] for _ in range(20)]
    hypotheses = [rng.choice([sentence(), group[0][:-1] + sentence()[:3]]) for group in references]
    return [*hypotheses[:-1], []], references


@pytest.mark.parametrize("seed", range(5))
def test_equals_pycocoevalcap(seed: int) -> None:
    hypotheses, references = random_corpus(seed)
    theirs = {i: [text(r) for r in group] for i, group in enumerate(references)}
    ours = {i: [text(words)] for i, words in enumerate(hypotheses)}
    _, expected = Cider().compute_score(theirs, ours)
    tensor = pad_references(references)
    scores = CiderD.from_references(tensor, dtype=torch.float64).prefix_scores(pad(hypotheses), tensor)
    torch.testing.assert_close(scores[:, -1], torch.from_numpy(expected), rtol=1e-12, atol=1e-12)
    assert scores[:, -1].max() > 1


def test_large_ids_do_not_collide() -> None:
    """The words 2, 3 and 4 with ids near 2^31 score the same."""
    corpus = [[[2, 3, 4, 2]], [[3, 3, 2]], [[4, 2, 3, 4]]]
    large = [[[w + 2_000_000_000 for w in r] for r in group] for group in corpus]
    scores = []
    for groups in (corpus, large):
        tensor = pad_references(groups)
        scores.append(CiderD.from_references(tensor).prefix_scores(pad([g[0][::-1] for g in groups]), tensor))
    assert torch.equal(*scores)


def test_moves() -> None:
    reward = CiderD.from_references(pad_references([[[2, 3]], [[3]]]))
    assert {table.device.type for table in (*reward.to("meta").keys, *reward.to("meta").idf)} == {"meta"}


@pytest.mark.parametrize("options", [{"order": 0}, {"sigma": 0.0}, {"references": torch.zeros(0, 1, 1).long()}])
def test_invalid_options(options: dict[str, object]) -> None:
    with pytest.raises(UserError, match=r"1 or more|above 0|no references"):
        CiderD.from_references(**{"references": pad_references([[[2]]]), **options})
