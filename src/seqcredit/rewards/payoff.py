"""The pay-off of a recipe: options, and the reward that they make."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeVar

from torch import Tensor

from seqcredit.errors import UserError, in_words, require
from seqcredit.named import GIVEN, find, is_named, said
from seqcredit.options import UP_TO_1, Options, Range, in_common, option
from seqcredit.rewards.bleu import Bleu
from seqcredit.rewards.chrf import ChrF
from seqcredit.rewards.cider import CiderD
from seqcredit.rewards.custom import Custom
from seqcredit.rewards.edit import EditDistance, Hamming
from seqcredit.rewards.finished import OnlyFinished, read_by
from seqcredit.rewards.linear import LinearBleu
from seqcredit.rewards.own import OwnReference
from seqcredit.rewards.rouge import RougeL
from seqcredit.rewards.text import Spell, TextReward, wanted_by
from seqcredit.types import Reward

T = TypeVar("T")
METRICS = ("bleu", "linear-bleu", "edit", "hamming", "rouge-l", "chrf", "cider")


def one_or_own(names: Sequence[str]) -> Range:
    """The range of an option that is one of some names, or a function of the user's own."""
    said = f"one of {', '.join(names)}, or FILE:FUNCTION of your own"
    return Range(said, lambda name: name in (*names, GIVEN) or is_named(name))


@dataclass(frozen=True)
class Payoff(Options):
    """The pay-off R. Which keys count depends on `metric`."""

    metric: str = option(
        "bleu", one_or_own(METRICS)
    )  # or "my_file:name", beside the recipe: a function of (text, references), or a reward with prefix_scores
    smoothing: Literal["add-one", "add-one-above-1", "floor", "exponential", "none"] = "add-one"  # bleu
    precision: float = option(0.6, UP_TO_1)  # linear-bleu: the actor's unigram precision on validation data
    falling: float = option(0.5, UP_TO_1)  # linear-bleu: the precision of n-grams divided by that of (n-1)-grams
    length: float = option(1.0, UP_TO_1)  # linear-bleu: the length of all outputs divided by that of the references
    scaled: bool = True  # bleu: times the reference's length, for the token rewards
    unk_matches: bool = True  # an unknown word matches an unknown word of the reference
    brevity: Literal["closest", "mean"] = "closest"  # bleu: which reference length the brevity penalty uses
    unfinished: Literal["score", "without_brevity", "nothing"] = "score"  # how an unfinished prefix is scored
    references: Literal["all", "own"] = "all"  # "own": only the reference that is learned from, as in the paper

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unfinished == "without_brevity" and self.metric != "bleu":
            raise UserError(
                f"Payoff: unfinished is 'without_brevity', but only bleu has a brevity penalty; for {self.metric} it "
                "must be one of score, nothing."
            )


class Spelling(NamedTuple):
    """How ids are read."""

    words: Sequence[str]  # of each id
    text: Spell  # of a sequence, in the alphabet of words
    source: Spell  # of a source, as the model reads it
    pieces: bool = False  # ids are parts of words


def reward_of(
    payoff: Payoff, spelling: Spelling, documents: Callable[[], Tensor], folder: Path | None = None
) -> Reward:
    """The reward of a pay-off; `documents` gives the references (D, R, L) of training, where they are needed."""
    reward = _metric(payoff, spelling, documents, folder)
    if payoff.references == "own":
        reward = OwnReference(reward)
    return OnlyFinished(reward) if payoff.unfinished == "nothing" else reward


def _metric(payoff: Payoff, spelling: Spelling, documents: Callable[[], Tensor], folder: Path | None) -> Reward:
    """A reward by its name."""
    unk = payoff.unk_matches
    match payoff.metric:
        case "bleu":
            return Bleu(**in_common(payoff, Bleu), unfinished_brevity=payoff.unfinished != "without_brevity")
        case "linear-bleu":
            return LinearBleu(**in_common(payoff, LinearBleu))
        case "edit":
            return EditDistance(by_length=not payoff.scaled, unk_matches=unk)
        case "hamming":
            return Hamming(unk_matches=unk)
        case "rouge-l":
            return RougeL(unk_matches=unk)
        case "chrf":
            require(
                not spelling.pieces, "chrf counts the letters of words, and these ids are parts of words: take bleu."
            )
            return ChrF(spelling.words, unk_matches=unk)
        case "cider":
            return CiderD.from_references(documents(), unk_matches=unk)
        case "python":
            raise UserError(
                "This pay-off was given in Python, and only Python knows it: put the function into a file of its own "
                "and name it FILE:FUNCTION, or go on in Python."
            )
        case name:
            found = instance(find(name, folder), name)
            if isinstance(found, Reward):
                return read_by(found, spelling.text, spelling.source)
            if not callable(found):
                raise UserError(f"{name} is not a function: make it one of (text, references) that returns a number.")
            if spelling.pieces or wanted_by(found, name) != "references":
                return TextReward(found, spelling.text, spelling.source, name=name)
            return Custom(found, spelling.words, unk_matches=unk, text=True, name=name)


def instance(found: T, name: str) -> T | Reward:
    """A reward in the place of a class of rewards, which is called without arguments; anything else as it is."""
    if not (isinstance(found, type) and issubclass(found, Reward)):
        return found
    with in_words(
        Exception, lambda error: f"{name} is a class, and {name}() failed; name one that is made. {said(error)}."
    ):
        return found()
