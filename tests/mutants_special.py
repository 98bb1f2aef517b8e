"""Errors that no rule makes, and changes that are none.

A special mutant is found by the name of a function and an expression that stands in it once, so that the lines around
it may change; a test tells which of them no longer apply. What is `EQUIVALENT` changes no number that anybody sees.
"""

import ast
import re
from typing import NamedTuple

from mutants_operators import Mutation


class Special(NamedTuple):
    """Exchange what a pattern finds, once, inside a function or a class; in the whole file if none is named."""

    file: str
    inside: str
    pattern: str
    after: str

    def applied(self, text: str) -> Mutation:
        """The error in the text of its file; SystemExit if the pattern does not stand there exactly once."""
        start, end = _span(text, self.inside)
        found = [match for match in re.finditer(self.pattern, text) if start <= match.start() < end]
        if len(found) != 1:
            raise SystemExit(f"Not a mutant any more, {len(found)} places: {self.file}, {self.inside}: {self.pattern}")
        (match,) = found
        made = match.expand(self.after)
        line, column = text.count("\n", 0, match.start()) + 1, match.start() - text.rfind("\n", 0, match.start())
        return Mutation(line, column, "special", match[0], made, text[: match.start()] + made + text[match.end() :])


def _span(text: str, name: str) -> tuple[int, int]:
    """Where a function or a class begins and ends; the whole text if there is no name."""
    if not name:
        return 0, len(text)
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds) and node.name == name]
    if len(found) != 1:
        raise SystemExit(f"Not a mutant any more, {len(found)} of the name {name}")
    return starts[found[0].lineno - 1], starts[found[0].end_lineno or -1]


SPECIAL = (
    # The token beside the one that was taken; the eos of another; padding that takes the last eos with it
    Special("credit/values.py", "chosen", r"tokens\.unsqueeze\(-1\)", "tokens.roll(1, -1).unsqueeze(-1)"),
    Special("credit/values.py", "one_step_targets", r"tokens == eos", "tokens.roll(-1, -1) == eos"),
    Special("credit/losses.py", "mle", r"~token_mask\(tokens, eos\)", "tokens == eos"),
    Special("credit/losses.py", "_not_chosen", r"~token_mask\(tokens, eos\)", "tokens == eos"),
    # A gradient that stops where it must go through, and another network's Q
    Special("credit/losses.py", "soft_q", r"q if target_q is None", "q.detach() if target_q is None"),
    Special("credit/losses.py", "soft_q", r"chosen\(look_ahead", "chosen(q"),
    Special("credit/fused.py", "actor", r"tau if future_entropy else 0\.0", "tau"),
    Special("credit/tables.py", "", r"torch\.promote_types\(dtype, torch\.float32\)", "dtype"),
    Special("credit/tables.py", "", r"\.add_\(product\(shorter", ".copy_(product(shorter"),
    # Half of the words, and those of one's own reference
    Special("credit/proposals.py", "_likely", r"< 0\.5", "< 0.9"),
    Special("credit/proposals.py", "_likely", r"own = references", "own = references.roll(1, 0)"),
    Special("rewards/finished.py", "", r"unfinished_brevity=True", "unfinished_brevity=False"),
    # Randomness: a weight of zero, and the rows of another process
    Special("draws.py", "draw", r"right=True", "right=False"),
    Special("draws.py", "Noise", r"numbers\[self\.first :", "numbers[0 :"),
    # Figures: the same draws for all, the right interval, lengths and counts in their places, the same bytes each time
    Special(
        "results/significance.py", "of_means", r"np\.random\.default_rng\(SEED\)", "np.random.default_rng(SEED + 1)"
    ),
    Special(
        "results/significance.py",
        "resampled",
        r"np\.random\.default_rng\(SEED\)",
        "np.random.default_rng(len(counted))",
    ),
    Special("results/significance.py", "", r"MIDDLE = \(0\.025, 0\.975\)", "MIDDLE = (0.05, 0.95)"),
    Special("results/record.py", "", r"gzip\.compress\(text, mtime=0\)", "gzip.compress(text, mtime=None)"),
    Special("results/tables.py", "", r"LATEX\.get\(letter, letter\)", "letter"),
    Special("results/cells.py", "", r"\(key\(cell\), cell\.seed\), cell", "(key(cell), 1), cell"),
    Special("results/headroom.py", "", r"samples\.unbind\(1\)", "samples[:, 1:].unbind(1)"),
    Special("results/report.py", "link", r"self\.page", "self.home"),
    Special("results/report.py", "", r"tables\.against\(theirs, mine", "tables.against(mine, theirs"),
    Special("results/plots.py", "", r"map\(fmean, runs\)", "map(max, runs)"),
    # Sweeps: the right seed of what it starts from, and a lock that keeps others out
    Special("experiments/plan.py", "", r'return f"\{word\}-\{seed\}"', 'return f"{word}-{seeds[0]}"'),
    Special("experiments/sweep.py", "", r"fcntl\.LOCK_EX", "fcntl.LOCK_SH"),
    Special("experiments/progress.py", "", r"needed = \[\*cell\.against, ", "needed = ["),
    # The credit page: what may load, what is text, what is shown; and who may ask the server
    Special("inspect/page.py", "policy", r"default-src 'none'", "default-src *"),
    Special("inspect/page.py", "add_images", r'there\.get\((subject\["source"\])\)', r"folder / \1"),
    Special("inspect/watch.py", "", r"</span>\{escape\(state\.label\)\}", "</span>{state.label}"),
    Special("inspect/desk.py", "", r'extra="forbid"', 'extra="ignore"'),
    Special("inspect/app.py", "", r'"same-origin", "none"\)', '"same-origin", "none", "cross-site")'),
    Special("inspect/app.py", "", r' \+ "; frame-ancestors \'none\'"', ""),
    Special("inspect/page.js", "", r'\? "minus" : "plus"', '? "plus" : "minus"'),
    Special("inspect/page.js", "", r"keys\[b\] - keys\[a\]", "keys[a] - keys[b]"),
    Special("inspect/page.js", "", r"\.trim\(\)\.toLowerCase\(\)", ".trim()"),
    Special("inspect/page.js", "", r"scores\[t \+ 1\]", "scores[t]"),
    Special(
        "inspect/page.js",
        "",
        r"(undefined\)) node\.append\(child\)",
        r'\1 child.nodeType ? node.append(child) : node.insertAdjacentHTML("beforeend", child)',
    ),
)


class Equivalent(NamedTuple):
    """Files, a pattern of the change (`operator: before -> after`), a part of the line, and why nothing changes."""

    files: str
    change: str
    line: str
    why: str


EQUIVALENT: tuple[Equivalent, ...] = (
    Equivalent(
        "credit/fused.py", r"scratch\[0\] -> scratch\[1\]", ", _ = boltzmann", "the scores are not needed again"
    ),
    Equivalent("credit/edits.py", r"new_zeros\(alphabet", "", "only words are looked up, and each has its number"),
    Equivalent("credit/tables.py", r"", "CELLS", "how much at a time: only speed"),
    Equivalent("credit/tables.py", r"", "size = COLUMNS", "how much at a time: only speed"),
    Equivalent("credit/tables.py", r"-self\.bias\.new_zeros", "", "minus 0"),
    Equivalent("credit/tables.py", r"gradient", "", "what is detached is also under no_grad: either suffices"),
    Equivalent("credit/tables.py", r"dropped: .*no_grad", "", "all that comes in is detached: either suffices"),
    Equivalent("credit/tables.py", r"\.min / 5", "", "small is small enough"),
    Equivalent("credit/tables.py", r"real & \(place .* -> place", "", "no fork is beyond the words"),
    Equivalent("credit/oracle/edit.py", r"len\(states\) [-+]", "clamp", "the first row has the largest code of all"),
    Equivalent("credit/oracle/edit.py", r"-self\.reward\[state, :1\]", "", "eos gains 0"),
    Equivalent(
        "credit/oracle/edit.py", r"mask: .* -> self|constant", "(group == 0,", "after eos nobody asks for a state"
    ),
    Equivalent("credit/oracle/edit.py", r"bound [-+]", "for _ in range(bound - 1)", "rows at the bound are worth 0"),
    Equivalent("credit/oracle/edit.py", r"", "value[-1] = reward[:, 0]", "0, as it is already"),
    Equivalent(
        "credit/oracle/edit.py", r"mask|-math\.inf -> math\.inf", "value[t] = q.masked_fill", "junk is never the best"
    ),
    Equivalent("credit/oracle/.*", r"opposite: torch\.zeros", "value = torch.zeros", "each place is filled"),
    Equivalent("credit/oracle/hamming.py", r"range\(self\.bound - 1\)", "", "the last token is eos anyway"),
    Equivalent(
        "credit/oracle/.*",
        r"-> tokens\[:, t\] != (EOS|eos)|-> token != (EOS|eos)",
        "going =",
        "what has ended stays eos",
    ),
    Equivalent("credit/oracle/rollouts.py", r"bound - 1\)", "for t in", "what is cut off has ended"),
    Equivalent("credit/oracle/rollouts.py", r"masked_fill\(~going, eos\) ->", "", "after eos nothing counts"),
    Equivalent("credit/proposals.py", r"< 0\.5 ->", "", "half and half, either way"),
    Equivalent("credit/theorems.py", r"forgotten: actor", "", "what is forced has no logits, and no gradient"),
    Equivalent("credit/theorems.py", r"torch\.zeros", "logp =", "what is not filled is not asked for"),
    Equivalent("credit/theorems.py", r"constant: delta", "<", "a threshold"),
    Equivalent("credit/theorems.py", r"", "for _ in range(", "more rounds than are needed"),
    Equivalent("credit/theorems.py", r"logp\.detach\(\) -> logp", "", "the actor's loss takes Q for a constant"),
    Equivalent("credit/theorems.py", r"unfinished\[0\]", "", "a constant has no gradient"),
    Equivalent("rewards/bleu.py", r"constant: 2 \* size", "far =", "far away is far enough"),
    Equivalent(
        "rewards/prefixes.py", r"\[\.\.\., :1\] ->", "ABSENT", "an absent reference is absent in all its places"
    ),
    Equivalent("rewards/.*", r"forgotten", "torch.zeros_like(pad(", "only the shape counts"),
    Equivalent("rewards/metrics.py", r"mask", "Metric = Counted | Ratio", "a type, for those who read it"),
    Equivalent("models/cache.py", r"connective", "is not None", "of two that are joined both were written, or neither"),
    Equivalent("rewards/rouge.py", r"index", "ends = [row[", "the row holds 0 only"),
    Equivalent("results/tables.py", r"sign: mine - theirs ->", "isnan(", "either is no number if one is none"),
    Equivalent("inspect/subjects.py", r"opposite|factor", "step = max(1", "how many at a time: only speed"),
    Equivalent("inspect/subjects.py", r"opposite", "longest = max([40", "how many at a time: only speed"),
    Equivalent("(inspect|results)/.*", r"no_grad\(\) ->", "", "only memory"),
    Equivalent("inspect/numbers.py", r"group\[:, 0\] ->", "", "an absent reference is absent in all its places"),
    Equivalent("named.py", r"\[:9\]", "", "any letters will do"),
    Equivalent("inspect/examiners.py", r"-> holders or trained", "", "who has a critic's weights has trained it"),
    Equivalent("rewards/cider.py", r"before \* size - first", "", "another key, and as unique"),
    Equivalent("rewards/edit.py", r"tokens\.shape\[1\] \+ references", "missing =", "what is too long is cut off"),
    Equivalent("rewards/edit.py", r"UNMATCHED \+ 1", "", "neither is a word"),
    Equivalent(
        "search/beam.py",
        r"-> limit|-> found\.scores\[:, -1\] >= reach$",
        "done =",
        "at the bound nothing goes on, which is less than any result",
    ),
    Equivalent("search/beam.py", r"-> 3 \* W", "topk", "more continuations than are needed"),
    Equivalent("algorithms/along.py", r"table\.detach\(\)", "", "the losses take it for a constant"),
    Equivalent(
        "algorithms/(along|proposing).py", r"no_grad\(\) ->", "@torch.no_grad()", "only memory: it gives constants"
    ),
    Equivalent(
        "algorithms/(erac|rollout|soft_q|vaml).py",
        r"no_grad\(\) ->",
        "with torch.no_grad()",
        "only memory: the losses take it for a constant",
    ),
    Equivalent("algorithms/erac.py", r"-> found - wanted$", "masked_fill", "both are 0 on padding"),
    Equivalent("algorithms/rollout.py", r"connective", "dropped =", "a network drops something on both or on neither"),
    Equivalent("algorithms/rollout.py", r"mask: .* -> t", "words = ", "eos stands once, and after it nothing but eos"),
    Equivalent("algorithms/rollout.py", r"-> words\[:, :-1\]", "real =", "a word and eos stand together but once"),
    Equivalent("algorithms/rollout.py", r"mask: .* -> \(pair", "same =", "what equals words is words"),
    Equivalent("algorithms/proposing.py", r"index", "distance =", "the last token is eos, which is no word"),
    Equivalent("models/critic.py", r"negated_return", "torch.linalg.qr", "as much at right angles"),
    Equivalent("models/critic.py", r"-> -words \* width", "", "more codes than are needed"),
    Equivalent("models/(captioner|lstm).py", r"opposite", "nothing =", "of width 0"),
    Equivalent("models/wrapped.py", r"opposite", "return Words(", "of width 0"),
    Equivalent("models/writer.py", r"constant: 2 / 3", "SPARSE", "only speed"),
    Equivalent("models/writer.py", r"opposite: .*new_zeros", "grid =", "what is not filled is not read"),
    Equivalent("models/writer.py", r"opposite: .*zeros_like", "drops =", "what is not filled is not read"),
    Equivalent("search/sample.py", r"-> token != eos", "going =", "what has ended stays eos"),
)


def equivalent(file: str, line: str, change: str) -> bool:
    """Whether a change of a line is known to change nothing."""
    return any(
        re.fullmatch(known.files, file) and re.search(known.change, change) and known.line in line
        for known in EQUIVALENT
    )
