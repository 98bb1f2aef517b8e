import random

import pytest
import sacrebleu
from pycocoevalcap.bleu.bleu import Bleu
from pycocoevalcap.cider.cider import Cider
from pycocoevalcap.rouge.rouge import Rouge

from seqcredit.rewards.corpus import corpus_bleu, corpus_bleus, corpus_chrf, corpus_cider, corpus_rouge_l, streams

HYPOTHESES = [["the", "cat", "sat", "on", "the", "mat"], ["a", "<unk>", "barks"], ["hello", "there", "my", "friend"]]
REFERENCES = [
    [["the", "cat", "sat", "on", "a", "mat"], ["the", "cat", "was", "on", "the", "mat"]],
    [["a", "dog", "barks"]],
    [["hello", "there", "my", "old", "friend"]],
]


def test_streams_mark_what_is_missing() -> None:
    assert streams(REFERENCES)[1] == ["the cat was on the mat", None, None]


def test_bleu_is_sacrebleus() -> None:
    single = [[group[0]] for group in REFERENCES]
    texts = [" ".join(words) for words in HYPOTHESES]
    expected = sacrebleu.corpus_bleu(texts, [[" ".join(g[0]) for g in single]], tokenize="none", force=True)
    score = corpus_bleu(HYPOTHESES, single)
    assert score.value == expected.score
    assert "tok:none" in score.signature
    assert "version:" in score.signature
    assert corpus_bleu(HYPOTHESES, REFERENCES).value > score.value


def test_an_unknown_word_matches_nothing() -> None:
    known = corpus_bleu([["a", "dog", "barks", "now"]], [[["a", "dog", "barks", "now"]]]).value
    unknown = corpus_bleu([["a", "<unk>", "barks", "now"]], [[["a", "dog", "barks", "now"]]]).value
    assert known > 99.9 > unknown


def test_chrf_is_sacrebleus() -> None:
    texts = [" ".join(words) for words in HYPOTHESES]
    single = [[group[0]] for group in REFERENCES]
    expected = sacrebleu.corpus_chrf(texts, [[" ".join(g[0]) for g in single]])
    assert corpus_chrf(HYPOTHESES, single).value == expected.score


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
    assert corpus_cider(hypotheses, references).value == pytest.approx(100 * Cider().compute_score(known, given)[0])
    assert corpus_rouge_l(hypotheses, references).value == pytest.approx(100 * Rouge().compute_score(known, given)[0])


def test_figures_of_captions_say_how_they_were_made(captions) -> None:
    signatures = [score.signature for score in corpus_bleus(*captions)]
    assert all("nrefs:5" in signature and "smooth:none" in signature for signature in signatures)
    assert "CIDEr-D" in corpus_cider(*captions).signature
    assert "beta:1.2" in corpus_rouge_l(*captions).signature
