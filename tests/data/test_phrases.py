from seqcredit.data.phrases import phrases


def test_the_same_seed_gives_the_same_sentences() -> None:
    assert list(phrases("train", 50)) == list(phrases("train", 50))
    assert list(phrases("train", 50, seed=1)) != list(phrases("train", 50))


def test_splits_share_no_sentence() -> None:
    sources = {name: {e.source for e in phrases(name, 150)} for name in ("train", "valid", "test")}
    assert all(len(found) == 150 for found in sources.values())
    assert not sources["train"] & sources["valid"]
    assert not sources["train"] & sources["test"]
    assert not sources["valid"] & sources["test"]


def test_several_valid_translations_say_the_same() -> None:
    examples = list(phrases("test", 200, references=4))
    assert sum(len(e.references) for e in examples) > 500
    for example in examples:
        assert len(set(example.references)) == len(example.references)
        assert all(text.endswith(" .") for text in example.references)
        assert len({"because" in text for text in example.references}) == 1


def test_grammar() -> None:
    """Verbs at the end, agreement, and articles before vowels."""
    examples = {e.source: e.references[0] for e in phrases("train", 1200)}
    past = [source for source in examples if " hat " in source and "weil" not in source]
    assert past
    assert all(source.split()[-2].startswith(("ge", "ver")) for source in past)
    for source in examples:
        assert " den frau" not in source
        assert " die hund" not in source
    assert any("an old" in text for text in examples.values())
    assert not any("a old" in text or "an big" in text for text in examples.values())
