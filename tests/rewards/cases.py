"""Random batches with many repeated n-grams, and what must hold of every reward on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from seqcredit.types import ABSENT, EOS, UNK, Reward, pad, pad_references

Score = Callable[[Sequence[int], Sequence[Sequence[int]]], float]

FOREIGN = 99  # a word that no reference has

sentences = st.lists(st.integers(UNK, 4), max_size=8)


@dataclass(frozen=True)
class Case:
    hypotheses: list[list[int]]
    references: list[list[list[int]]]
    eos: bool = True  # False: the longest hypothesis fills the tensor, no eos follows it

    @property
    def tokens(self) -> Tensor:
        return pad(self.hypotheses, max(map(len, self.hypotheses)) + self.eos)

    @property
    def padded_references(self) -> Tensor:
        return pad_references(self.references)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    size = draw(st.integers(1, 3))
    hypotheses = draw(st.lists(sentences, min_size=size, max_size=size))
    groups = st.lists(sentences, min_size=1, max_size=3)
    references = draw(st.lists(groups, min_size=size, max_size=size))
    return Case(hypotheses, references, draw(st.booleans()))


def assert_brute_force(
    reward: Reward, score: Score, case: Case, unk_matches: bool = True, unfinished: Score | None = None
) -> None:
    """Every prefix on its own, by the definition; `unfinished` scores those after which the sequence goes on."""
    tokens = case.tokens
    expected = torch.zeros(len(tokens), tokens.shape[1] + 1, dtype=torch.float64)
    for b, (words, references) in enumerate(zip(case.hypotheses, case.references, strict=True)):
        words = words if unk_matches else [FOREIGN if w == UNK else w for w in words]
        for t in range(tokens.shape[1] + 1):
            going = t <= len(words) and t < tokens.shape[1]
            expected[b, t] = (unfinished if unfinished and going else score)(words[:t], references)
    got = reward.prefix_scores(tokens, case.padded_references)
    torch.testing.assert_close(got, expected, rtol=1e-12, atol=1e-12)


def assert_invariant(reward: Reward, case: Case) -> None:
    """What must not matter does not matter, to the last bit."""
    tokens, references = case.tokens, case.padded_references
    scores = reward.prefix_scores(tokens, references)

    longer = torch.nn.functional.pad(tokens, (0, 3), value=EOS)
    padded = reward.prefix_scores(longer, references)
    assert torch.equal(padded[:, : scores.shape[1]], scores)
    assert torch.equal(padded[:, scores.shape[1] :], scores[:, -1:].expand(-1, 3))
    rubbish = longer.where((longer == EOS).cumsum(1) < 2, 3)
    assert torch.equal(reward.prefix_scores(rubbish, references), padded)

    fill = torch.where(references[..., :1] == ABSENT, ABSENT, EOS).expand(-1, -1, 5)
    assert torch.equal(reward.prefix_scores(tokens, torch.cat([references, fill], -1)), scores)
    wider = torch.cat([references, fill], -1)
    wider = wider.where((wider == EOS).cumsum(-1) < 2, 3)
    assert torch.equal(reward.prefix_scores(tokens, wider), scores)

    if references.shape[-1] > 1:  # the longest one without its eos
        assert torch.equal(reward.prefix_scores(tokens, references[..., :-1]), scores)

    absent = torch.full_like(references[:, :1], ABSENT)
    for more in ([references, absent, absent], [absent, references]):
        assert torch.equal(reward.prefix_scores(tokens, torch.cat(more, 1)), scores)

    turned = reward.prefix_scores(tokens.flip(0), references.flip(0))
    assert torch.equal(turned.flip(0), scores)
    many = reward.prefix_scores(tokens.repeat(7, 1), references.repeat(7, 1, 1))
    assert torch.equal(many, scores.repeat(7, 1))


def assert_close(got: float | Tensor, expected: float) -> None:
    torch.testing.assert_close(
        torch.as_tensor(got, dtype=torch.float64),
        torch.tensor(expected, dtype=torch.float64),
        rtol=1e-12,
        atol=1e-12,
    )


def last_score(reward: Reward, words: list[int], references: list[list[int]]) -> Tensor:
    """The score of one whole sentence."""
    return reward.prefix_scores(pad([words]), pad_references([references]))[0, -1]


def text(words: Sequence[int]) -> str:
    """Ids as words for outside implementations."""
    return " ".join(f"w{w}" for w in words)
