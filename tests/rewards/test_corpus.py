import sacrebleu

from seqcredit.rewards.corpus import corpus_bleu, corpus_chrf, streams

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
