"""Functions of texts as rewards: what they are given, how often they are called, and where a text is scored."""

import doctest
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from rewards.cases import Case, assert_invariant, cases
from seqcredit.credit.values import token_rewards
from seqcredit.errors import UserError
from seqcredit.rewards import Custom, OnlyFinished, OwnReference, TextReward, text
from seqcredit.rewards.finished import finished_scores
from seqcredit.rewards.text import wanted_by, whole_words
from seqcredit.types import ABSENT, pad, pad_references

WORDS = ["</s>", "?", "a", "bb", "ccc"]
PIECES = ["</s>", "?", " fun", "ny", " dog", "s", " a"]
TOKENS = pad([[2, 3], [2, 1], [], [2, 3]], 5)
REFERENCES = pad_references([[[2, 3, 4]], [[2, 3, 4]], [[2], [3, 4]], [[2, 3, 4]]])
NONE = torch.zeros(4, 0, 1, dtype=torch.long)
SOURCE = torch.tensor([[3, 4, 0], [4, 0, ABSENT], [2, 2, 0], [3, 4, 0]])
EXACT = torch.float64


def spell(ids: Sequence[int]) -> str:
    return " ".join(WORDS[i] for i in ids)


def join(ids: Sequence[int]) -> str:
    return "".join(PIECES[i] for i in ids).lstrip()


def letters(text: str, references: Sequence[str]) -> float:
    """Something that every letter changes, and 0 of nothing."""
    known = sum(map(len, references)) + 1
    return sum((n + 1) ** 0.5 * ord(letter) for n, letter in enumerate(text)) / known


def both(texts: list[str], references: list[list[str]]) -> list[float]:
    return [letters(*pair) for pair in zip(texts, references, strict=True)]


def test_its_examples_run() -> None:
    found = doctest.testmod(text)
    assert (found.attempted > 6, found.failed) == (True, 0)


# What the function is given.


@given(cases(), st.booleans())
@settings(max_examples=50, deadline=None)
def test_words_that_are_joined_are_those_of_custom(case: Case, batched: bool) -> None:
    function = both if batched else letters
    found = TextReward(function, spell, batched=batched, dtype=EXACT)
    expected = Custom(function, WORDS, text=True, batched=batched, dtype=EXACT)
    sides = case.tokens, case.padded_references
    assert torch.equal(found.prefix_scores(*sides), expected.prefix_scores(*sides))
    assert torch.equal(found.final_scores(*sides, None), expected.final_scores(*sides, None))
    assert_invariant(found, case)


class Asked:
    """A function of any sides that remembers what it was asked, and says 0, 1, 2, ..."""

    def __init__(self) -> None:
        self.calls: list[tuple[object, ...]] = []

    def plain(self, text: str, references: list[str]) -> int:
        self.calls.append((text, references))
        return len(self.calls) - 1

    def by_source(self, text: str, source: str) -> int:
        self.calls.append((text, source))
        return len(self.calls) - 1

    def by_all(self, text: str, references: list[str], source: str) -> int:
        self.calls.append((text, references, source))
        return len(self.calls) - 1

    def batch(self, texts: list[str], references: list[list[str]], sources: list[str]) -> Tensor:
        self.calls += zip(texts, references, sources, strict=True)
        return torch.arange(len(texts)).float()


def read(ids: Sequence[int]) -> str:
    """A source as its model has it, with eos and all."""
    return "-".join(WORDS[i] for i in ids)


PLAIN = [("", ["a bb ccc"]), ("a", ["a bb ccc"]), ("a bb", ["a bb ccc"]), ("a ?", ["a bb ccc"])]
PLAIN += [("", ["a", "bb ccc"])]
FIRST, SECOND, THIRD = "bb-ccc-</s>", "ccc-</s>", "a-a-</s>"
BY_SOURCE = [("", FIRST), ("a", FIRST), ("a bb", FIRST), ("", SECOND), ("a", SECOND), ("a ?", SECOND), ("", THIRD)]
BY_ALL = [(said, ["a", "bb ccc"] if source == THIRD else ["a bb ccc"], source) for said, source in BY_SOURCE]


@pytest.mark.parametrize(
    ("name", "wants", "calls"),
    [
        ("plain", "references", PLAIN),
        ("by_source", "source", BY_SOURCE),
        ("by_all", "both", BY_ALL),
        ("batch", "both", BY_ALL),
    ],
)
def test_called_once_for_each_different_text(name: str, wants: str, calls: list[tuple[object, ...]]) -> None:
    """Of those that are compared with the same; what was asked before is remembered."""
    asked = Asked()
    reward = TextReward(getattr(asked, name), spell, read, batched=name == "batch")
    assert reward.wants == wants
    scores = reward.source_scores(TOKENS, REFERENCES, SOURCE)
    assert asked.calls == calls
    assert scores.dtype == torch.float32
    sides = {"plain": slice(2), "by_source": slice(0, None, 2)}.get(name, slice(3))
    for row, said, group, source in zip(
        scores.tolist(),
        [["", "a", "a bb"], ["", "a", "a ?"], [""], ["", "a", "a bb"]],
        [["a bb ccc"], ["a bb ccc"], ["a", "bb ccc"], ["a bb ccc"]],
        [FIRST, SECOND, THIRD, FIRST],
        strict=True,
    ):
        numbers = [calls.index((one, group, source)[sides]) for one in said]
        assert row == numbers + numbers[-1:] * (6 - len(numbers))
    assert torch.equal(reward.source_scores(TOKENS, REFERENCES, SOURCE), scores)
    assert torch.equal(reward.final_scores(TOKENS, REFERENCES, SOURCE), scores[:, -1])
    assert asked.calls == calls


@pytest.mark.parametrize("references", [NONE, torch.full((4, 2, 3), ABSENT)])
@pytest.mark.parametrize("at", ["tokens", "words", "end"])
def test_no_references_at_all(references: Tensor, at: str) -> None:
    asked = Asked()
    for reward in (TextReward(asked.plain, spell, at=at), Custom(asked.plain, WORDS, text=True)):
        for wrapped in (reward, OwnReference(reward), OnlyFinished(reward)):
            assert wrapped.prefix_scores(TOKENS, references).shape == (4, 6)
    assert {str(known) for _, known in asked.calls} == {"[]"}


def test_what_the_function_does_to_its_lists_stays_there() -> None:
    def score(text: str, references: list[str]) -> int:
        references.append("mine")
        return len(references)

    assert set(TextReward(score, spell).prefix_scores(TOKENS, REFERENCES).flatten().tolist()) == {2, 3}


def test_texts_are_spelled_once_and_without_eos() -> None:
    seen: list[list[int]] = []

    def spells(ids: Sequence[int]) -> str:
        seen.append(list(ids))
        return spell(ids)

    TextReward(letters, spells).prefix_scores(TOKENS, REFERENCES)
    assert sorted(seen[:4]) == [[], [2], [2, 1], [2, 3]]
    assert sorted(seen[4:]) == [[2], [2, 3, 4], [3, 4]]


def test_who_knows_how_ids_are_read_keeps_to_it() -> None:
    known = TextReward(letters).read_by(spell, read)
    assert (known.spell, known.spell_source) == (spell, read)
    assert known.read_by(read, spell) is known


# What it may be.


class Module(nn.Module):
    def forward(self, texts: list[str], sources: list[str]) -> Tensor:
        return torch.zeros(len(texts))


@pytest.mark.parametrize(
    ("function", "wants"),
    [
        (lambda text, references: 0, "references"),
        (lambda words, known: 0, "references"),
        (lambda *_: 0, "references"),
        (lambda text, references, threshold=0.5: 0, "references"),
        (lambda text, references, threshold=0.5, source=None: 0, "references"),
        (lambda text, source: 0, "source"),
        (lambda text, source, threshold=0.5: 0, "source"),
        (lambda texts, sources: 0, "source"),
        (lambda text, references, source: 0, "both"),
        (lambda text, references, source=None: 0, "both"),
        (Asked().by_source, "source"),
        (Module(), "source"),
        (min, "references"),  # no signature
    ],
)
def test_what_a_function_wants(function: Callable[..., object], wants: str) -> None:
    assert wanted_by(function) == wants


@pytest.mark.parametrize(
    ("function", "taken"),
    [
        (lambda: 0, r"\(\)"),
        (lambda text: 0, r"\(text\)"),
        (lambda text, source, references: 0, r"\(text, source, references\)"),
        (lambda text, references, source, more: 0, r"\(text, references, source, more\)"),
        (lambda text, *, references: 0, r"\(text, \*, references\)"),
    ],
)
def test_what_no_reward_is(function: Callable[..., object], taken: str) -> None:
    forms = r"\(text, references\), \(text, source\) or \(text, references, source\)\.$"
    with pytest.raises(UserError, match=rf"^mine: the function takes {taken}, but it must be one of {forms}"):
        TextReward(function, spell, spell, name="mine")


def test_options_that_are_none() -> None:
    with pytest.raises(UserError, match=r"^TextReward: at is 'word', but it must be one of tokens, words, end\.$"):
        TextReward(letters, spell, at="word")
    with pytest.raises(UserError, match=r"^TextReward: processes is -1, but it must be 0 or more\.$"):
        TextReward(letters, spell, processes=-1)


def test_a_source_that_is_not_there_or_no_text() -> None:
    asks = r"^TextReward: the function asks for the source, "
    with pytest.raises(UserError, match=asks + r"but here it has no text \(`spell_source`\): make it one of "):
        TextReward(Asked().by_all, spell)
    reward = TextReward(Asked().by_source, spell, spell)
    with pytest.raises(UserError, match=asks + r"which is not given here: ask for `source_scores`\.$"):
        reward.prefix_scores(TOKENS, REFERENCES)
    with pytest.raises(UserError, match=asks + r"but it is no text: make it one of \(text, references\)\.$"):
        reward.source_scores(TOKENS, REFERENCES, torch.zeros(4, 3))


def test_what_the_function_does_wrong_is_said_as_of_custom() -> None:
    def fails(text: str, references: list[str]) -> float:
        raise KeyError("mine")

    with pytest.raises(UserError, match=r"^my_file:f: the function failed\. KeyError: 'mine' \(test_text\.py, line "):
        TextReward(fails, spell, name="my_file:f").prefix_scores(TOKENS, REFERENCES)
    for answer, of in ((float("nan"), "nan for the prefix a"), ("x", "'x' for the prefix a")):
        wrong = TextReward(lambda text, references, answer=answer: answer if text == "a" else 0.0, spell)
        with pytest.raises(UserError, match=f"^TextReward: the function returned {of}, return a finite float"):
            wrong.prefix_scores(TOKENS, REFERENCES)
    with pytest.raises(UserError, match=r"^TextReward: the function returned 2 scores for 5 prefixes, return one "):
        TextReward(lambda *_: [0.0, 0.0], spell, batched=True).prefix_scores(TOKENS, REFERENCES)


# Where a text is scored.


def test_words_end_where_white_space_is() -> None:
    assert whole_words([""]) == [""]
    assert whole_words(["", "a"]) == ["", "a"]
    assert whole_words(["", "a", "a ", "a b"]) == ["", "a", "a ", "a b"]
    assert whole_words(["", "a ", "a bc", "a bcd"]) == ["", "a ", "a ", "a bcd"]  # white space that stands last
    assert whole_words(["", "\ufffd", "é", "é\n"]) == ["", "", "é", "é\n"]  # half a letter is no word
    assert whole_words(["", "a", "a", "a b"]) == ["", "", "a", "a b"]  # a token without a text


def test_words_by_hand() -> None:
    tokens, references = pad([[2, 3, 4, 5], [2, 3, 3], [4]]), pad_references([[[4]]] * 3)
    asked = Asked()
    found = TextReward(asked.plain, join, at="words").prefix_scores(tokens, references)
    assert [said for said, _ in asked.calls] == ["", "funny", "funny dogs", "funnyny", "dog"]
    assert found.tolist() == [[0, 0, 1, 1, 2, 2], [0, 0, 0, 3, 3, 3], [0, 4, 4, 4, 4, 4]]


pieces = st.lists(st.lists(st.integers(1, len(PIECES) - 1), max_size=8), min_size=1, max_size=3)


@given(pieces, st.booleans())
@settings(max_examples=60, deadline=None)
def test_every_way_earns_the_same_in_the_end(hypotheses: list[list[int]], eos: bool) -> None:
    """R of nothing being 0: the token rewards of all three sum to the score of the whole text. Words: brute force."""
    tokens = pad(hypotheses, max(map(len, hypotheses)) + eos)
    references = pad_references([[[4, 5]]] * len(tokens))
    scores = {
        at: TextReward(letters, join, at=at, dtype=EXACT).prefix_scores(tokens, references)
        for at in ("tokens", "words", "end")
    }
    whole = torch.tensor([letters(join(ids), ["dogs"]) for ids in hypotheses], dtype=EXACT)
    for each in scores.values():
        torch.testing.assert_close(token_rewards(each).sum(1), whole, rtol=0, atol=1e-9)
    plain = TextReward(letters, join, dtype=EXACT)
    assert torch.equal(scores["end"], OnlyFinished(plain).prefix_scores(tokens, references))
    for row, ids in enumerate(hypotheses):
        for end in range(tokens.shape[1] + 1):
            there = [t for t in range(min(end, len(ids)) + 1) if t in (0, len(ids)) or PIECES[ids[t]][0] == " "]
            assert scores["words"][row, end] == scores["tokens"][row, there[-1]]
    for at in ("tokens", "words", "end"):
        found = finished_scores(TextReward(letters, join, at=at, dtype=EXACT), tokens, references)
        assert torch.equal(found, scores["tokens"])


def test_words_of_their_own_all_end() -> None:
    """Where every token is a word, every prefix is scored."""
    every, words = (TextReward(letters, spell, at=at).prefix_scores(TOKENS, REFERENCES) for at in ("tokens", "words"))
    assert torch.equal(every, words)


def test_at_the_end_one_call_a_sequence() -> None:
    tokens = torch.randint(1, 5, (64, 16), generator=torch.Generator().manual_seed(0))
    references = pad_references([[[2]]] * 64)
    whole = {spell(ids) for ids in tokens.tolist()}
    assert len(whole) == 64
    for wrap in (
        lambda function: TextReward(function, spell, at="end"),
        lambda function: OnlyFinished(TextReward(function, spell)),
        lambda function: OnlyFinished(TextReward(function, spell, at="words")),
    ):
        asked = Asked()
        wrap(asked.plain).prefix_scores(tokens, references)
        assert len(asked.calls) == 64
        assert {said for said, _ in asked.calls} == whole


# Networks.


def test_a_network_in_a_closure() -> None:
    """Its answer is a tensor of its own kind; no gradient is kept."""
    generator, seen = torch.Generator().manual_seed(0), []
    network = nn.Linear(128, 1)
    nn.init.normal_(network.weight, generator=generator)

    def score(texts: list[str], references: list[list[str]]) -> Tensor:
        counts = torch.tensor([[float(said.count(chr(n))) for n in range(128)] for said in texts])
        seen.append(network(counts))
        return seen[-1].squeeze(1)

    reward = TextReward(score, spell, batched=True)
    found = reward.prefix_scores(TOKENS, REFERENCES)
    assert not seen[0].requires_grad
    counts = torch.zeros(128)
    counts[[ord("a"), ord(" ")]], counts[ord("b")] = 1.0, 2.0
    torch.testing.assert_close(found[0, 2], network(counts).detach()[0])


def test_a_classifier_of_texts_and_sources() -> None:
    """That of a library, with a tokenizer of its own, in batches as one by one."""
    transformers, tokenizers = pytest.importorskip("transformers"), pytest.importorskip("tokenizers")
    known = {"[PAD]": 0, "[UNK]": 1, **{word: number for number, word in enumerate(WORDS, 2)}}
    inner = tokenizers.Tokenizer(tokenizers.models.WordLevel(known, unk_token="[UNK]"))
    inner.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="[PAD]", unk_token="[UNK]")
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(known), hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8,
        num_labels=2, initializer_range=1.0,
    )  # fmt: skip
    model = transformers.BertForSequenceClassification(config).double().eval()

    def likely(texts: list[str], sources: list[str]) -> Tensor:
        both = [f"{said} ? {source}" for said, source in zip(texts, sources, strict=True)]
        return model(**tokenizer(both, padding=True, return_tensors="pt")).logits.softmax(-1)[:, 1]

    found = TextReward(likely, spell, spell, batched=True, dtype=EXACT).source_scores(TOKENS, NONE, SOURCE[:, :2].abs())
    one = torch.stack([likely([said], ["bb ccc"])[0] for said in ("", "a", "a bb")]).detach()
    torch.testing.assert_close(found[0, :3], one, rtol=0, atol=1e-12)
    assert found.std() > 0.01
