"""What a run is judged by: a metric is a row of numbers for each example, and a formula of the sum of the rows.

So the same rows give the figure of a test set, of a part of it, and of every sample that a bootstrap draws from it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from seqcredit.errors import UserError, in_words, require
from seqcredit.named import FAILS, GIVEN, find, fingerprint, is_named, said, shown
from seqcredit.options import nearest
from seqcredit.rewards.calls import finite
from seqcredit.rewards.cider import CiderD
from seqcredit.rewards.edit import EditDistance
from seqcredit.rewards.prefixes import reference_lengths
from seqcredit.rewards.rouge import RougeL
from seqcredit.rewards.scores import final_scores
from seqcredit.rewards.text import wanted_by
from seqcredit.types import FIRST_WORD, Known, Reward, pad, pad_references

if TYPE_CHECKING:
    import sacrebleu

    Judge = sacrebleu.BLEU | sacrebleu.CHRF

Words = Sequence[str]
References = Sequence[Sequence[Words]]  # those of each example
Statistics = NDArray[np.float64]  # a row an example
Sums = NDArray[np.floating]
Rows = Callable[[Sequence[Words], References], Statistics]

DEFAULT, REWARD = "bleu", "reward"
AT_ONCE = 256  # examples that a reward scores together


class Score(NamedTuple):
    """A figure that can be published."""

    value: float
    signature: str


@dataclass(frozen=True)
class Counted:
    """BLEU and chrF of tokenized text, in percent: sacreBLEU's own counts, sacreBLEU's own formula.

    Papineni et al. (2002), Popovic (2015). References are words as they were before unknown ones were replaced, so an
    unknown word of the hypothesis matches nothing.
    """

    name: str
    label: str
    width: int  # of a row; BLEU's: length, that of the nearest reference, n-grams that match, and how many there are
    higher: bool = True
    digits: int = 2

    def statistics(self, hypotheses: Sequence[Words], references: References) -> Statistics:
        """What is known of each example, SacreBLEU's counts: whole numbers."""
        _check_sizes(hypotheses, references)
        _check_references(references)
        if not hypotheses:
            return np.empty((0, self.width))
        judge, known = _sacrebleu(self.name), streams(references)
        return np.array(judge._extract_corpus_statistics(_texts(hypotheses), known), np.float64)  # type: ignore[arg-type]

    def score(self, sums: Sums) -> float:
        """The figure of the sum of some rows, of the corpus or any sample of it: sacreBLEU's, in their precision."""
        return float(_sacrebleu(self.name)._compute_score_from_stats(list(sums)).score)

    def example(self, row: Sums) -> float:
        """Of one sentence: BLEU without the n-grams that it is too short for."""
        return float(_sacrebleu(self.name, alone=True)._compute_score_from_stats(list(row)).score)

    def signature(self, references: References) -> str:
        """How it is measured: sacreBLEU's, with the number of references."""
        few = list({len(group): group for group in references}.values())
        return _by_sacrebleu(_sacrebleu(self.name), [group[0] for group in few], few).signature


@cache
def _sacrebleu(name: str, alone: bool = False) -> "Judge":
    import sacrebleu

    return sacrebleu.BLEU(tokenize="none", force=True, effective_order=alone) if name == "bleu" else sacrebleu.CHRF()


def _by_sacrebleu(judge: "Judge", hypotheses: Sequence[Words], references: References) -> Score:
    value = judge.corpus_score(_texts(hypotheses), streams(references)).score  # type: ignore[arg-type]
    return Score(value, str(judge.get_signature()))


def streams(references: References) -> list[list[str | None]]:
    """References by number, as sacreBLEU takes them: None where a sentence has fewer."""
    most = max(map(len, references), default=0)
    return [[" ".join(group[n]) if n < len(group) else None for group in references] for n in range(most)]


@dataclass(frozen=True)
class Ratio:
    """A sum over another one, such as a mean or a rate. A row holds what each of them gets from an example."""

    name: str
    label: str
    rows: Rows = field(repr=False)
    says: str  # its signature
    higher: bool = True
    digits: int = 2
    times: float = 100.0
    width: int = 2

    def statistics(self, hypotheses: Sequence[Words], references: References) -> Statistics:
        """What is summed, and what it is divided by."""
        _check_sizes(hypotheses, references)
        return self.rows(hypotheses, references) if hypotheses else np.empty((0, self.width))

    def score(self, sums: Sums) -> float:
        """The ratio; 0 of nothing."""
        above, below = map(float, sums)
        return self.times * above / below if below else self.times * above

    def example(self, row: Sums) -> float:
        """The ratio of one example."""
        return self.score(row)

    def signature(self, references: References) -> str:
        """The same for all references."""
        return self.says


# How good are hypotheses, all of them together? Both kinds have a `name`, which is the key in results and logs and the
# word on the command line, and a `label`, as tables say it; whether more is better (`higher`), how many `digits` tables
# show, and how many numbers a row has (`width`).
Metric = Counted | Ratio


def corpus(metric: Metric, hypotheses: Sequence[Words], references: References) -> Score:
    """The figure of a whole test set."""
    sums = metric.statistics(hypotheses, references).sum(0)
    return Score(metric.score(sums), metric.signature(references))


def _each(values: Sequence[float] | torch.Tensor | Statistics) -> Statistics:
    """Rows of a mean."""
    each = np.asarray(values, np.float64)
    return np.stack([each, np.ones_like(each)], 1)


def _rouge_l(hypotheses: Sequence[Words], references: References) -> Statistics:
    """F of the best precision and the best recall. Lin (2004)."""
    words, known = _ids(hypotheses, references)
    return _each(final_scores(RougeL(pool="coco"), pad(words), pad_references(known)))


def _cider(hypotheses: Sequence[Words], references: References) -> Statistics:
    """CIDEr-D. Vedantam et al. (2015).

    Document frequencies come from all of the references, once: those of a sample that a bootstrap draws stay the same.
    """
    words, known = _ids(hypotheses, references)
    tokens = pad_references(known)
    return _each(final_scores(CiderD.from_references(tokens), pad(words), tokens))


def _edit(hypotheses: Sequence[Words], references: References) -> Statistics:
    """Tokens inserted, deleted and replaced, and those of the reference for which that is the smallest share."""
    words, known = _ids(hypotheses, references)
    tokens, wanted, distance = pad(words), pad_references(known), EditDistance(dtype=torch.float64)
    errors = torch.stack([-final_scores(distance, tokens, one) for one in wanted.split(1, 1)], 1)  # absent: inf
    sizes = reference_lengths(wanted).double()
    best = (errors / sizes.clamp(min=1)).argmin(1, keepdim=True)
    return torch.cat([errors.gather(1, best), sizes.gather(1, best)], 1).numpy()


def _exact(hypotheses: Sequence[Words], references: References) -> Statistics:
    """Whether each equals one of its references."""
    pairs = zip(hypotheses, references, strict=True)
    return _each([float(any(list(words) == list(one) for one in group)) for words, group in pairs])


def _wrong(hypotheses: Sequence[Words], references: References) -> Statistics:
    return _each(1 - _exact(hypotheses, references)[:, 0])


BLEU = Counted("bleu", "BLEU", 10)
CHRF = Counted("chrf", "chrF", 18)
ROUGE_L = Ratio("rouge-l", "ROUGE-L", _rouge_l, "ROUGE-L|beta:1.2|pool:coco")
CIDER = Ratio("cider", "CIDEr-D", _cider, "CIDEr-D|n:4|sigma:6|df:references")
EDIT = Ratio("edit", "token error rate", _edit, "token error rate|reference:best", higher=False)
WRONG = Ratio("wrong", "wrong sequences", _wrong, "wrong sequences|reference:any", higher=False)
EXACT = Ratio("exact", "exact match", _exact, "exact match|reference:any")
METRICS: dict[str, Metric] = {each.name: each for each in (BLEU, CHRF, ROUGE_L, CIDER, EDIT, WRONG, EXACT)}


def mean_reward(
    reward: Reward,
    ids: Callable[[Words], list[int]],
    signature: str = "mean reward",
    sources: Callable[[list[str]], torch.Tensor] | None = None,
) -> Metric:
    """The mean reward of whole sequences; `ids` turns words into what the reward reads, `sources` the sources."""

    def rows(hypotheses: Sequence[Words], references: References) -> Statistics:
        found = []
        for start in range(0, len(hypotheses), AT_ONCE):
            words = pad([ids(each) for each in hypotheses[start : start + AT_ONCE]])
            groups = references[start : start + AT_ONCE]
            known = pad_references([[ids(each) for each in group] for group in groups])
            texts = [group.source for group in groups if isinstance(group, Known)]
            source = sources(texts) if sources and len(texts) == len(groups) else None
            found += final_scores(reward, words, known, source).tolist()
        return _each(found)

    return Ratio(REWARD, "reward", rows, signature, digits=4, times=1.0)


def own(name: str, function: object) -> Metric:
    """The mean of the user's `function(text, references) -> float`; it may ask for the `source`, as a reward may.

    Where it returns two numbers, such as errors and words, it is the sum of the first over the sum of the second. It
    may say of itself what it is called (`label`), how it measures (`signature`), and `higher_is_better = False`. In the
    signature of one that does not say how it measures, 8 digits stand for what it is made of.
    """
    if not callable(function):
        raise UserError(f"{name} is no function: a metric is function(text, references) -> float.")
    wants = wanted_by(function, name)

    def score(words: Words, group: Sequence[Words]) -> tuple[float, float]:
        text = " ".join(words)
        known: list[str | list[str]] = [] if wants == "source" else [_texts(group)]
        if wants != "references":
            require(isinstance(group, Known), f"The metric {name} asks for the source, which is not known here.")
            known += [group.source] if isinstance(group, Known) else []
        with in_words(FAILS, lambda error: f"The metric {name} failed for {text!r}. {said(error)}."):
            value = function(text, *known)
            value = value.tolist() if isinstance(value, torch.Tensor | np.ndarray | np.generic) else value
        two = isinstance(value, tuple | list) and len(value) == 2
        above, below = map(finite, value if two else (value, 1.0))
        if above is None or below is None:
            wanted = "return a finite number, or two: what is summed, and what its sum is divided by"
            raise UserError(f"The metric {name} returned {shown(value)} for {text!r}: {wanted}.")
        require(below >= 0, f"The metric {name} returned {shown(value)} for {text!r}: what is divided by is below 0.")
        return above, below

    def rows(hypotheses: Sequence[Words], references: References) -> Statistics:
        return np.array([score(*each) for each in zip(hypotheses, references, strict=True)], np.float64)

    label = str(getattr(function, "label", label_of(name)))
    about = str(getattr(function, "signature", f"{name}|code:{fingerprint(function)}"))
    return Ratio(name, label, rows, about, bool(getattr(function, "higher_is_better", True)), 4, 1.0)


def metric(name: str, folder: Path | None = None) -> Metric:
    """A metric by its name: one of `METRICS`, or the user's "my_file:function"."""
    if name in METRICS:
        return METRICS[name]
    if is_named(name):
        return own(name, find(name, folder))
    if name == REWARD:
        raise UserError("The metric 'reward' needs the data of a run, and there is none here: choose another one.")
    if name == GIVEN:
        raise UserError(
            "This metric was given in Python, and only Python knows it: choose another one with --metric, or put the "
            "function into a file of its own and name it FILE:FUNCTION."
        )
    near = nearest(name, [*METRICS, REWARD], "there are")
    raise UserError(f"There is no metric {name!r}{near}, or one of your own as FILE:FUNCTION.")


def label_of(name: str) -> str:
    """What tables call a metric of which only the name is known."""
    return METRICS[name].label if name in METRICS else name.rpartition(":")[2]


def corpus_bleu(hypotheses: Sequence[Words], references: References) -> Score:
    """BLEU in percent."""
    return corpus(BLEU, hypotheses, references)


def corpus_bleus(hypotheses: Sequence[Words], references: References) -> list[Score]:
    """BLEU-1 to BLEU-4 in percent, as captions are judged: not smoothed."""
    import sacrebleu

    judges = (sacrebleu.BLEU(tokenize="none", force=True, max_ngram_order=n, smooth_method="none") for n in range(1, 5))
    return [_by_sacrebleu(judge, hypotheses, references) for judge in judges]


def sentence_bleu(words: Words, references: Sequence[Words]) -> float:
    """BLEU of one sentence in percent."""
    return BLEU.example(BLEU.statistics([words], [references])[0])


def _texts(sentences: Sequence[Words]) -> list[str]:
    return [" ".join(words) for words in sentences]


def _check_sizes(hypotheses: Sequence[Words], references: References) -> None:
    said, known = len(hypotheses), len(references)
    require(said == known, f"There are {said:,} hypotheses for {known:,} examples: give one for each.")


def _check_references(references: References) -> None:
    if not all(references):
        number = [*map(bool, references)].index(False) + 1
        raise UserError(f"Example {number} has no reference: give it one, or choose a metric that needs none.")


def _ids(hypotheses: Sequence[Words], references: References) -> tuple[list[list[int]], list[list[list[int]]]]:
    """Numbers for words, the same ones every time."""
    _check_references(references)
    number: dict[str, int] = {}

    def encode(words: Words) -> list[int]:
        return [number.setdefault(word, len(number) + FIRST_WORD) for word in words]

    known = [[encode(words) for words in group] for group in references]
    return [encode(words) for words in hypotheses], known
