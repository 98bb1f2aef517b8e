"""Does the suite notice? Each mutant changes one line of the source; some test of its own file must then fail.

    python tests/mutants.py            all of them
    python tests/mutants.py losses     those whose file name contains a word
    python tests/mutants.py --every 8  every eighth, which is what `make test` has time for

A mutant is made in a copy of the package and tested in a forked process, so that torch is loaded only once.
"""

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

import hypothesis  # noqa: F401  loaded before the fork, like torch: each takes its time
import jaxtyping  # noqa: F401
import pytest
import torch

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "seqcredit"
AT_ONCE = 2


class Mutant(NamedTuple):
    file: str  # below the package; its tests stand at the same place below tests/
    before: str  # occurs once in the file
    after: str

    def __str__(self) -> str:
        return f"{self.file}: {self.before.strip()!r} -> {self.after.strip()!r}"


VALUES = "credit/values.py"
LOSSES = "credit/losses.py"
PROPOSALS = "credit/proposals.py"
ENUMERATION = "credit/oracle/enumeration.py"
HAMMING = "credit/oracle/hamming.py"
EDIT = "credit/oracle/edit.py"
ERROR = "credit/oracle/error.py"
ROLLOUTS = "credit/oracle/rollouts.py"
BLEU = "rewards/bleu.py"
DISTANCES = "rewards/edit.py"
ROUGE = "rewards/rouge.py"
CHRF = "rewards/chrf.py"
CIDER = "rewards/cider.py"
CUSTOM = "rewards/custom.py"
FINISHED = "rewards/finished.py"
PREFIXES = "rewards/prefixes.py"
LSTM = "models/lstm.py"
CRITIC = "models/critic.py"
RECURRENCE = "models/recurrence.py"
SEARCH = "models/search.py"
FUSED = "credit/fused.py"
TABLES = "credit/tables.py"
OBJECTIVES = "training/objectives.py"
SCORING = "training/scoring.py"
LEARNER = "training/learner.py"
WATCH = "training/watch.py"
EXACT = "training/exact.py"
BUILD = "training/build.py"
PLAN = "experiments/plan.py"
FORECAST = "experiments/forecast.py"
SWEEP = "experiments/sweep.py"
CONFIG = "config.py"
DRAWS = "draws.py"
COMPARE = "results/significance.py"
RESULT_TABLES = "results/tables.py"
LAYOUTS = "results/layouts.py"
LOG = "training/log.py"
METRICS = "rewards/metrics.py"
FIGURES = "rewards/figures.py"
EVALUATE = "results/evaluate.py"
COMPARISON = "results/compare.py"
CELLS = "results/cells.py"
RECORDS = "results/record.py"
REPORT = "results/report.py"
PLOTS = "results/plots.py"
HEADROOM = "results/headroom.py"
WATCHING = "inspect/watch.py"
INSPECTION = "inspect/numbers.py"
PAGE = "inspect/page.py"
SCRIPT = "inspect/page.js"
SERVER = "inspect/app.py"

MUTANTS = [
    # Sign, missing tau, missing entropy, mask, off by one after eos: values
    Mutant(VALUES, "return prefix_scores.diff(dim=-1)", "return -prefix_scores.diff(dim=-1)"),
    Mutant(VALUES, ".unsqueeze(-1) - 1\n", ".unsqueeze(-1)\n"),
    Mutant(VALUES, "position >= last", "position == last"),
    Mutant(VALUES, "table.gather(-1, tokens.unsqueeze(-1))", "table.gather(-1, tokens.roll(1, -1).unsqueeze(-1))"),
    Mutant(VALUES, "tau * torch.logsumexp(q / tau, -1)", "torch.logsumexp(q / tau, -1)"),
    Mutant(VALUES, "tau * torch.logsumexp(q / tau, -1)", "-tau * torch.logsumexp(-q / tau, -1)"),
    Mutant(VALUES, "value = q.amax(-1) if tau == 0", "value = q.amin(-1) if tau == 0"),
    Mutant(VALUES, "torch.softmax(q / tau, -1)", "torch.softmax(-q / tau, -1)"),
    Mutant(VALUES, "torch.softmax(q / tau, -1)", "torch.softmax(q, -1)"),
    Mutant(VALUES, "policy = best / best.sum(-1, keepdim=True)", "policy = best"),
    Mutant(VALUES, "return torch.where(forced.unsqueeze(-1), only_eos, policy)", "return policy"),
    Mutant(VALUES, "value = -(p * logp.masked_fill", "value = (p * logp.masked_fill"),
    Mutant(VALUES, "logp.masked_fill(p == 0, 0)", "logp"),
    Mutant(VALUES, "else value.masked_fill(forced, 0)", "else value"),
    Mutant(VALUES, "value = value + tau * entropy(logp)", "value = value - tau * entropy(logp)"),
    Mutant(VALUES, "value = value + tau * entropy(logp)", "pass"),
    Mutant(VALUES, "(logp.exp() * q).sum(-1)", "(logp.exp() * q).mean(-1)"),
    Mutant(VALUES, "values[..., 1:], torch.zeros_like(values[..., :1])", "values"),
    Mutant(VALUES, "rewards + following", "rewards - following"),
    Mutant(VALUES, "following.masked_fill(tokens == EOS, 0)", "following"),
    Mutant(VALUES, "following.masked_fill(tokens == EOS, 0)", "following.masked_fill(tokens.roll(-1, -1) == EOS, 0)"),
    Mutant(VALUES, "return targets.masked_fill(~token_mask(tokens), 0)", "return targets"),
    # Losses
    Mutant(LOSSES, "return -chosen(logp, tokens).masked_fill", "return chosen(logp, tokens).masked_fill"),
    Mutant(LOSSES, "-chosen(logp, tokens).masked_fill(~token_mask(tokens), 0)", "-chosen(logp, tokens)"),
    Mutant(
        LOSSES, "-chosen(logp, tokens).masked_fill(~token_mask(tokens), 0)", "-chosen(logp, tokens) * (tokens != 0)"
    ),
    Mutant(LOSSES, "return soft_policy(scores, tau)", "return soft_policy(-scores, tau)"),
    Mutant(LOSSES, "return weights.unsqueeze(-1) * mle(logp, tokens)", "return mle(logp, tokens)"),
    Mutant(
        LOSSES,
        "look_ahead, padding = q if target_q is None else",
        "look_ahead, padding = q.detach() if target_q is None else",
    ),
    Mutant(LOSSES, "else target_q.detach()", "else target_q"),
    Mutant(LOSSES, "soft_value(look_ahead, tau, forced)", "soft_value(look_ahead, tau)"),
    Mutant(LOSSES, "soft_value(look_ahead, tau, forced), tokens)", "-soft_value(look_ahead, tau, forced), tokens)"),
    Mutant(LOSSES, "target = soft_policy(q.detach(), tau, forced)", "target = soft_policy(q.detach(), tau)"),
    Mutant(LOSSES, "target = soft_policy(q.detach(), tau, forced)", "target = soft_policy(q, tau, forced)"),
    Mutant(LOSSES, "to_target = -(target *", "to_target = (target *"),
    Mutant(LOSSES, "to_sample = -chosen", "to_sample = chosen"),
    Mutant(LOSSES, "torch.where(kappa, to_target, to_sample)", "torch.where(kappa, to_sample, to_target)"),
    Mutant(LOSSES, "kappa * to_target + (1 - kappa) * to_sample", "kappa * to_target + to_sample"),
    Mutant(LOSSES, "return weights.unsqueeze(-1) * mixture", "return mixture"),
    Mutant(LOSSES, "mixture.masked_fill(~token_mask(tokens), 0)", "mixture"),
    Mutant(LOSSES, "tau if future_entropy else 0.0", "tau"),
    Mutant(LOSSES, "tau if future_entropy else 0.0", "0.0"),
    Mutant(LOSSES, "one_step_targets(rewards, values, tokens).detach()", "one_step_targets(rewards, values, tokens)"),
    Mutant(LOSSES, "tau if future_entropy else 0.0, forced)", "tau if future_entropy else 0.0)"),
    Mutant(LOSSES, "(q - q.mean(-1, keepdim=True)).square()", "q.square()"),
    Mutant(LOSSES, 'square.sum(-1) if form == "sum" else square.mean(-1)', "square.sum(-1)"),
    Mutant(LOSSES, "spread.masked_fill(_not_chosen(tokens, forced), 0)", "spread.masked_fill(~token_mask(tokens), 0)"),
    Mutant(LOSSES, "    q = q.detach()\n", ""),
    Mutant(LOSSES, "return -gain.masked_fill", "return gain.masked_fill"),
    Mutant(LOSSES, ".sum(-1) + tau * entropy(logp)", ".sum(-1) - tau * entropy(logp)"),
    Mutant(LOSSES, ".sum(-1) + tau * entropy(logp)", ".sum(-1)"),
    Mutant(LOSSES, "(q - tau * direction)", "(q + tau * direction)"),
    Mutant(LOSSES, "normalize(logp.detach(), dim=-1)", "normalize(logp, dim=-1)"),
    Mutant(LOSSES, "padding | forced", "padding"),
    Mutant(LOSSES, "padding = ~token_mask(tokens)", "padding = tokens == 0"),
    # Proposals
    Mutant(PROPOSALS, "inside[:, 0] = False", "pass"),
    Mutant(PROPOSALS, "inside = inside & is_word.unsqueeze(1)", "pass"),
    Mutant(PROPOSALS, "FIRST_WORD + _below(torch.full_like", "_below(torch.full_like"),
    Mutant(PROPOSALS, "(start + n).unsqueeze(-1)", "(start + n + 1).unsqueeze(-1)"),
    Mutant(PROPOSALS, "(size - n + 1).clamp(min=1)", "(size - n).clamp(min=1)"),
    # Oracles
    Mutant(ENUMERATION, "q[nodes, 1:] += value[space.children(level)]", "q[nodes, 1:] -= value[space.children(level)]"),
    Mutant(ENUMERATION, "soft_value(q, tau, forced[nodes])", "soft_value(q, tau)"),
    Mutant(ENUMERATION, "expected_value(q, logp[nodes], tau, forced[nodes])", "expected_value(q, logp[nodes], tau)"),
    Mutant(ENUMERATION, "closing = self.finished - self.unfinished", "closing = self.unfinished - self.finished"),
    Mutant(ENUMERATION, "logp[:, EOS].masked_fill(space.forced, 0)", "logp[:, EOS]"),
    Mutant(ENUMERATION, "torch.log_softmax(payoffs.finished / tau, 0)", "torch.log_softmax(payoffs.finished, 0)"),
    Mutant(HAMMING, "log_a = math.log(self.actions - 1) - 1 / self.tau", "log_a = math.log(self.actions - 1)"),
    Mutant(HAMMING, "more <= self.bound - 1 - words", "more <= self.bound - words"),
    Mutant(HAMMING, "self.reference[:known]] += 1", "self.reference[:known]] -= 1"),
    Mutant(EDIT, "(rows[..., -1] - following[..., -1])", "(following[..., -1] - rows[..., -1])"),
    Mutant(EDIT, "deleted = rows[..., 1:] + 1", "deleted = rows[..., 1:] + 2"),
    Mutant(EDIT, "math.log(mass) if mass > 0 else -math.inf", "0.0"),
    Mutant(EDIT, "for t in range(bound - 2, -1, -1)", "for t in range(bound - 1, -1, -1)"),
    Mutant(EDIT, "- self.value[0, self.start] / self.tau", "- self.value[0, 0] / self.tau"),
    Mutant(ERROR, "error[..., EOS], error.mean(-1)", "error.mean(-1), error.mean(-1)"),
    Mutant(ERROR, "torch.log_softmax(exact_q / tau, -1) - ", "torch.log_softmax(exact_q / tau, -1) + "),
    Mutant(ROLLOUTS, "extra + (tau * entropy(logp))", "extra - (tau * entropy(logp))"),
    Mutant(ROLLOUTS, "scores[:, -1] - scores[:, prefixes.shape[1]]", "scores[:, -1] - scores[:, 0]"),
    Mutant(ROLLOUTS, "z * returns.std(1) / rollouts**0.5", "z * returns.std(1)"),
    Mutant(ROLLOUTS, "scores[:, t + 1] - scores[:, t] + after.mean", "after.mean"),
    # Rewards
    Mutant(BLEU, "return (m + 1) / (n + 1)", "return m / n.clamp(min=1)"),
    Mutant(BLEU, ").clamp(max=0)\n", ").clamp(max=1)\n"),
    Mutant(BLEU, "torch.where(shorter, size - gap, size + gap)", "size + gap"),
    Mutant("rewards/ngrams.py", "references, order).amax(2)", "references, order).amin(2)"),
    Mutant(BLEU, "if not self.unfinished_brevity:", "if self.unfinished_brevity:"),
    Mutant(BLEU, "log_brevity.masked_fill(~ended(tokens), 0)", "torch.zeros_like(log_brevity)"),
    Mutant(FINISHED, "masked_fill(~ended(tokens), 0)", "masked_fill(ended(tokens), 0)"),
    Mutant(FINISHED, ".masked_fill(~ended(tokens), 0)", ""),
    Mutant(PREFIXES, "    over[:, -1] = True\n", ""),
    Mutant(PREFIXES, "over = pad(~is_word(tokens), (1, 0))", "over = pad(~is_word(tokens), (0, 1))"),
    Mutant(DISTANCES, "scores = -distance.gather", "scores = distance.gather"),
    Mutant(DISTANCES, ".cummin(-1).values", ""),
    Mutant(DISTANCES, "prefix_sums(words == aligned) - longer", "prefix_sums(words == aligned) + longer"),
    Mutant(ROUGE, ".cummax(-1).values", ""),
    Mutant(ROUGE, "shorter = self.order - 1", "shorter = self.order"),
    Mutant(CHRF, "/ orders\n        recall", "/ self.order\n        recall"),
    Mutant(CIDER, "(2 * nth - 1)", "(2 * nth)"),
    Mutant(CIDER, "torch.exp(-(gap**2)", "torch.exp((gap**2)"),
    Mutant(CUSTOM, "range(len(ids) + 1)", "range(1, len(ids) + 1)"),
    # Networks, search, randomness
    Mutant(LSTM, ".masked_fill(~memory.mask.unsqueeze(1), -torch.inf)", ""),
    Mutant(LSTM, "torch.cat([bos, self.embedding(tokens[:, :-1])], 1)", "self.embedding(tokens)"),
    Mutant(LSTM, "torch.tensor([-HOLD, HOLD, 0.0, 0.0])", "torch.tensor([0.0, HOLD, 0.0, 0.0])"),
    Mutant(LSTM, ".div_(1 - self.dropout)", ""),
    Mutant(SEARCH, "going = going & (t < limit[rows] - 1)", "pass"),
    Mutant(PROPOSALS, "((ranks + 1) ** uniform).long() - 1", "(ranks * uniform).long()"),
    Mutant(PROPOSALS, "device=references.device) < 0.5, own", "device=references.device) < 0.9, own"),
    Mutant(PROPOSALS, "own = references.gather(1, _below(size", "own = references.roll(1, 0).gather(1, _below(size"),
    Mutant(SEARCH, "uniform[rows, t]", "uniform[: len(rows), t]"),
    Mutant(SEARCH, "masks[rows, t]", "masks[: len(rows), t]"),
    Mutant(SEARCH, "(found.scores[:, -1] >= reach)", "(found.scores[:, -1] > -torch.inf)"),
    Mutant(SEARCH, "logp = torch.where(forced.view(B, 1, 1), certain, logp)", "pass"),
    Mutant(DRAWS, "return torch.minimum(index, last)", "return index"),
    Mutant(DRAWS, "right=True", "right=False"),
    Mutant(DRAWS, "numbers[self.first :", "numbers[0 :"),
    # Objectives
    Mutant(OBJECTIVES, "q, rollout.target, tokens, phase, forced)", "q, q, tokens, phase, forced)"),
    Mutant(OBJECTIVES, "judged.loss / noise.total / phase.samples", "judged.loss / noise.total"),
    Mutant(OBJECTIVES, "loss / noise.total / phase.samples, watched", "loss / noise.total, watched"),
    Mutant(OBJECTIVES, "actor_loss + phase.mle_weight * reference_loss", "actor_loss"),
    Mutant(OBJECTIVES, "phase.tau if phase.weight_tau is None else phase.weight_tau", "phase.tau"),
    Mutant(OBJECTIVES, ".flip(1).cumsum(1).flip(1)", ".cumsum(1)"),
    # The fast path, the tables that it works on, and the choice between both paths
    Mutant(TABLES, "common[:, 0] = borrowed[:, 0] = False", "borrowed[:, 0] = False"),
    Mutant(TABLES, "number[:, :1], number)", "number[:, 1:2], number)"),
    Mutant(TABLES, "each[:, 0] +=", "each[:, 0] -="),
    Mutant(TABLES, ".masked_fill(tokens == EOS, -1)", ""),
    Mutant(RECURRENCE, "before_c[:size], out=cells[now])", "before_h[:size], out=cells[now])"),
    Mutant(RECURRENCE, "of_c[:size].add_(of_cells[now])", "of_c[:size]"),
    Mutant(RECURRENCE, "descending=True, stable=True", "stable=True"),
    Mutant(LSTM, "hidden[start], cells[start], weights", "hidden[start], hidden[start], weights"),
    Mutant(LSTM, "real.sum(-1) - 1 - last", "real.sum(-1) - last"),
    Mutant(LSTM, "index_put((b, row), masks[b, t])", "index_put((b, row), masks[b, row % 2])"),
    Mutant(TABLES, "(places % T == T - 1)", "(places % T == T)"),
    Mutant(TABLES, "(tokens.flatten()[places] == EOS) | ", ""),
    Mutant(TABLES, "torch.arange(1, len(places) + 1,", "torch.arange(0, len(places),"),
    Mutant(TABLES, "token_mask(tokens).flatten()", "(tokens != EOS).flatten()"),
    Mutant(FUSED, "learner.learn_chosen(tokens, states, -weights)", "learner.learn_chosen(tokens, states, weights)"),
    Mutant(FUSED, "if not isinstance(kappa, Tensor) and kappa == 0:", "if False:"),
    Mutant(FUSED, "weights * (share - 1))", "weights * (1 - share))"),
    Mutant(FUSED, "learner.learn_eos(-by_eos)", "pass"),
    Mutant(FUSED, "by_q[rows, None], value=-1)", "by_q[rows, None], value=1)"),
    Mutant(FUSED, "by_q * (normaliser - agreement)", "by_q * (normaliser + agreement)"),
    Mutant(FUSED, "by_q, by_eos = _split(taught, forced)", "by_q, by_eos = _split(taught, None)"),
    Mutant(FUSED, "states) - rewards", "states) + rewards"),
    Mutant(
        FUSED,
        "by_value, _ = _split(2 * mass * (values - before), forced)",
        "by_value, _ = _split(2 * mass * (values - before), None)",
    ),
    Mutant(
        FUSED,
        "learner.learn_chosen(tokens, states, 2 * weights * residual)",
        "learner.learn_chosen(tokens, states, weights * residual)",
    ),
    Mutant(FUSED, "residual = excess - look_ahead", "residual = excess + look_ahead"),
    Mutant(FUSED, "value if forced is None else torch.where(forced[rows], eos[rows], value)", "value"),
    Mutant(
        FUSED,
        "            energy = critic.scores",
        "            entropy[rows] *= -1\n            energy = critic.scores",
    ),
    Mutant(FUSED, "if tau != 0:", "if False:"),
    Mutant(FUSED, "energy.sub_(gain[rows, None]).mul_(policy)", "energy.mul_(policy)"),
    Mutant(
        FUSED,
        "        return _bounded(values, entropy, target, tau if future_entropy else 0.0, forced, bound_value)",
        "        return _bounded(values, entropy, target, tau, forced, bound_value)",
    ),
    Mutant(FUSED, "logp.norm(dim=-1, keepdim=True)", "logp.norm(keepdim=True)"),
    Mutant(FUSED, "values = values + tau * entropy", "values = values - tau * entropy"),
    Mutant(FUSED, "torch.where(forced, target.eos(), values)", "values"),
    Mutant(FUSED, "error = chosen - targets", "error = targets - chosen"),
    Mutant(FUSED, "loss = td_weight * (weights", "loss = (weights"),
    Mutant(
        FUSED, "free, _ = _split(learner.by_state(weights, states), forced)", "free = learner.by_state(weights, states)"
    ),
    Mutant(FUSED, "critic.learn_words(words, readout, 2 * of_states)", "critic.learn_words(words, readout, of_states)"),
    Mutant(FUSED, "unsqueeze(-1)], 1) - mean", "unsqueeze(-1)], 1)"),
    Mutant(
        FUSED, "return soft_policy(scores, tau), scores.amax(-1)", "return soft_policy(scores, tau), scores.amin(-1)"
    ),
    Mutant(FUSED, "tau * (scores.amax(-1) - policy", "(scores.amax(-1) - policy"),
    Mutant(
        FUSED,
        "numbers.masked_fill(forced, 0), numbers.masked_fill(~forced, 0)",
        "numbers.masked_fill(forced, 0), numbers",
    ),
    Mutant(TABLES, ".clamp(min=torch.finfo(self.sums).min / 4)", ""),
    Mutant(TABLES, "self.sums = torch.promote_types(dtype, torch.float32)", "self.sums = dtype"),
    Mutant(TABLES, "self.zeros().index_add_(0, states, numbers)", "numbers"),
    Mutant(TABLES, "else some.nonzero()", "else (~some).nonzero()"),
    Mutant(TABLES, "(features * readout).sum(-1) + self.bias[tokens]", "(features * readout).sum(-1)"),
    Mutant(TABLES, ".sum(-1) + policy @ self.bias", ".sum(-1)"),
    Mutant(
        TABLES,
        "self.gradient.features[rows] += column * (product @ self.weight)",
        "self.gradient.features[rows] += product @ self.weight",
    ),
    Mutant(TABLES, "self.gradient.bias.addmv_(slope.T, scale)", "pass"),
    Mutant(TABLES, "self.gradient.weight.index_add_(0, tokens, column * self.features[rows])", "pass"),
    Mutant(TABLES, "self.gradient.bias[words].addmv_(readout, matrix[:, -1])", "pass"),
    Mutant(TABLES, "        total.addmm_(left, right)", "        total.copy_(left @ right)"),
    Mutant(TABLES, "(upstream * part if need", "(part if need"),
    Mutant(
        SCORING,
        "target.packed(packing),\n        phase.tau,\n        phase.entropy_form",
        "q.packed(packing),\n        phase.tau,\n        phase.entropy_form",
    ),
    Mutant(SCORING, 'share = 1.0 if phase.td_form == "squared" else 0.5', "share = 1.0"),
    Mutant(SCORING, 'later = q if phase.look_ahead == "constant" else target', "later = target"),
    Mutant(SCORING, "gains + look_ahead(values, following)", "gains"),
    Mutant(SCORING, "loss + phase.smoothing * losses.smoothing", "loss - phase.smoothing * losses.smoothing"),
    Mutant(TABLES, "each = weights.unsqueeze(-1)", "each = weights.square().unsqueeze(-1)"),
    Mutant(SCORING, "phase.tau if phase.future_entropy else 0.0", "phase.tau"),
    Mutant(SCORING, 'forced if phase.bound_value == "eos" else None', "forced"),
    # An update, and the alarm
    Mutant(LEARNER, '(name == "actor" and self.kind == "critic")', "False"),
    Mutant(LEARNER, "self.phase.target_rate)  #", "1 - self.phase.target_rate)  #"),
    Mutant(LEARNER, "clip_grad_norm_(parameters, self._clip(name))", "clip_grad_norm_(parameters, 1e9)"),
    Mutant(LEARNER, "rate = phase.critic_learning_rate", "pass"),
    Mutant(WATCH, "now[key] < least * first", "now[key] > least * first"),
    Mutant(WATCH, "min(0.0, 1 - 1 / known", "max(0.0, 1 - 1 / known"),
    # Recipes, and what is built from them
    Mutant(CONFIG, "lambda x: 0 < x < inf", "lambda x: 0 < x"),
    Mutant(CONFIG, "lambda x: 0 <= x < inf", "lambda x: not x < 0"),
    Mutant(CONFIG, "lambda x: 0 <= x <= 1", "lambda x: 0 <= x < 1"),
    Mutant(CONFIG, "lambda x: 0 <= x < 1)", "lambda x: 0 <= x <= 1)"),
    Mutant(CONFIG, "lambda x: 0 < x <= 1", "lambda x: 0 <= x <= 1"),
    Mutant(CONFIG, "x >= 2 and x % 2 == 0", "x >= 2"),
    Mutant(CONFIG, "reversed(kind.__mro__)", "[kind]"),
    Mutant(CONFIG, "if values.get(key) is not None and not allowed", "if not values.get(key, 1) and not allowed"),
    Mutant(
        CONFIG,
        '{"paper": (0.04, 0.05), "released": (0.045, 0.04)}',
        '{"paper": (0.05, 0.04), "released": (0.04, 0.045)}',
    ),
    Mutant(CONFIG, "issubclass(kind, Critic)", "kind is Critic"),
    Mutant(CONFIG, "{**defaults, **rest}", "{**defaults, **rest, **tau}"),
    Mutant(CONFIG, "fed = recipe.actor.input_feeding", "fed = recipe.critic.input_feeding"),
    Mutant(CONFIG, "    _check_unfinished(recipe.payoff, where)\n", ""),
    Mutant(SEARCH, "(features, weight, bias, ", "(features, weight, None, "),
    Mutant(SEARCH, "(features, weight, bias, ", "(-features, weight, bias, "),
    Mutant(TABLES, "if key not in self.kept or len(self.kept[key]) < size", "if key not in self.kept"),
    Mutant(BUILD, "else payoff.scaled", "else False"),
    Mutant(BUILD, "same = scaled == payoff.scaled or payoff.metric not in SCALED", "same = scaled == payoff.scaled"),
    Mutant(BUILD, "same = scaled == payoff.scaled or payoff.metric not in SCALED", "same = True"),
    Mutant(BUILD, '"linear-bleu", "edit")  #', '"linear-bleu")  #'),
    Mutant(BUILD, 'payoff.unfinished == "nothing"', 'payoff.unfinished != "score"'),
    Mutant(BUILD, 'payoff.unfinished != "without_brevity"', "True"),
    # Tables and logs
    Mutant(COMPARE, "np.quantile((second - first)", "np.quantile((first - second)"),
    Mutant(COMPARE, "MIDDLE = (0.025, 0.975)", "MIDDLE = (0.05, 0.95)"),
    Mutant(COMPARE, "(chance + 1) / len(changes)", "chance / len(changes)"),
    Mutant(COMPARE, "times if paired else", "times if not paired else"),
    Mutant(COMPARE, "np.random.default_rng(SEED), len", "np.random.default_rng(SEED + 1), len"),
    Mutant(COMPARE, "samples, np.random.default_rng(SEED))", "samples, np.random.default_rng(SEED + 1))"),
    Mutant(RESULT_TABLES, "[cell.seed for cell in first] == [", "[cell.seed for cell in first] != ["),
    Mutant(LAYOUTS, "(row, 3) for row in better(metric, found)", "(row, 3) for row in better(BLEU, found)"),
    Mutant(RESULT_TABLES, "best = max if metric.higher else min", "best = max"),
    Mutant(RESULT_TABLES, "if value is not None and not lost]", "if value is not None]"),
    Mutant(RESULT_TABLES, "sum(lost for lost, _ in found)", "sum(lost for lost, value in found if value is not None)"),
    Mutant(RESULT_TABLES, "{mine - theirs:+.{d}f}", "{theirs - mine:+.{d}f}"),
    Mutant(RESULT_TABLES, "LATEX.get(letter, letter) for", "letter for"),
    Mutant(COMPARE, "(short if np.array_equal(short, sums) else sums)", "short"),
    Mutant(COMPARE, "(short if np.array_equal(short, sums) else sums)", "sums[::-1]"),
    Mutant(COMPARE, "-abs(d.system - d.baseline)", "abs(d.system - d.baseline)"),
    Mutant(METRICS, "effective_order=alone", "effective_order=False"),
    Mutant(METRICS, "self.times * above / below", "self.times * below / above"),
    Mutant(METRICS, "{len(group): group for group in references}", "{1: group for group in references}"),
    Mutant(METRICS, "(errors / sizes.clamp(min=1)).argmin(1", "(errors / sizes.clamp(min=1)).argmax(1"),
    Mutant(METRICS, "(errors / sizes.clamp(min=1)).argmin(1", "errors.argmin(1"),
    Mutant(METRICS, 'RougeL(pool="coco")', 'RougeL(pool="best")'),
    Mutant(METRICS, "_each(1 - _exact(", "_each(_exact("),
    Mutant(METRICS, "hypotheses[start : start + AT_ONCE]", "hypotheses[:AT_ONCE]"),
    Mutant(METRICS, 'getattr(function, "higher_is_better", True)', 'getattr(function, "higher_is_better", False)'),
    Mutant(METRICS, "or not math.isfinite(value)", ""),
    Mutant(
        METRICS, '_edit, "token error rate|reference:best", higher=False)', '_edit, "token error rate|reference:best")'
    ),
    Mutant(FIGURES, 'if name == mine and "score" in result:', 'if "score" in result:'),
    Mutant(FIGURES, "round(score.value, metric.digits + 2)", "round(score.value, 2)"),
    Mutant(EVALUATE, "if name == TEST:\n", "if True:\n"),
    Mutant(EVALUATE, 'result["hypotheses_checksum"] == checksum(file)', "True"),
    Mutant(EVALUATE, "< CLOSE", "< 1"),
    Mutant(EVALUATE, "same = len(hypotheses) == len(references)", "same = True"),
    Mutant(EVALUATE, "search.width != final.width", "False"),
    Mutant(EVALUATE, "return path if path.exists() else run.folder", "return run.folder"),
    Mutant(EVALUATE, 'and run.recipe.on_divergence == "record"', ""),
    Mutant(COMPARISON, "if list(one) != list(two):", "if len(list(one)) != len(list(two)):"),
    Mutant(COMPARISON, "bootstrap([first], [second]", "bootstrap([second], [first]"),
    Mutant(COMPARISON, '"" if judge.higher else', '"" if not judge.higher else'),
    Mutant(
        RECORDS, "gzip.compress(_lines(rows).encode(), mtime=0)", "gzip.compress(_lines(rows).encode(), mtime=None)"
    ),
    Mutant(RECORDS, "str(int(x)) if x.is_integer() else repr(x)", "str(int(x))"),
    Mutant(RECORDS, "str(int(x)) if x.is_integer() else repr(x)", "repr(x)"),
    Mutant(RESULT_TABLES, "if seeds == 1 else set()", "if seeds else set()"),
    Mutant(RESULT_TABLES, "if not abs(scores[0] - (cell.score or 0)) < 10 ** -(d + 1):", "if not scores[0]:"),
    Mutant(RESULT_TABLES, "or len(after) < len(second):", "and len(after) < len(second):"),
    Mutant(CELLS, "stem.removesuffix(ending) if stem.endswith(ending)", "stem if stem.endswith(ending)"),
    Mutant(CELLS, "lambda cell: cell.signature or None", "lambda cell: None"),
    Mutant(CELLS, "lambda cell: cell.metric.name if cell.metric else None", "lambda cell: None"),
    Mutant(CELLS, "_measure(self.run, self.metric.name)", "_measure(self.run, None)"),
    Mutant(CELLS, "kept = self.metric.name == self.judged_by.name", "kept = True"),
    Mutant(CELLS, "(key(cell), cell.seed), cell)", "(key(cell), 1), cell)"),
    Mutant(CELLS, "found.shape[1] != metric.width", "found.shape[1] < metric.width"),
    Mutant(CELLS, "or not np.isfinite(found).all()", ""),
    Mutant(CELLS, 'found.name != "manifest.json"', "found.name"),
    Mutant(CELLS, "not in (*varied, *BUDGET)", "not in varied"),
    Mutant(HEADROOM, "worth.max(1, keepdim=True)", "worth.min(1, keepdim=True)"),
    Mutant(HEADROOM, "return torch.stack(scores).mean(0)", "return torch.stack(scores).min(0).values"),
    Mutant(HEADROOM, "expected_payoffs(self.reward, candidates, judges)", "found.logp"),
    Mutant(HEADROOM, "samples.unbind(1)", "samples[:, 1:].unbind(1)"),
    Mutant(HEADROOM, "nats + surprise", "surprise"),
    Mutant(
        HEADROOM, "corpus(metric, texts, references)", "corpus(metric, [group[0] for group in references], references)"
    ),
    Mutant(HEADROOM, "earned.get(way, 0.0) + payoff", "payoff"),
    Mutant(HEADROOM, "np.linspace(0, len(split) - 1, min(most, len(split)))", "np.linspace(0, len(split) - 2, most)"),
    Mutant(REPORT, "tables.against(theirs, mine, tests)", "tables.against(mine, theirs, tests)"),
    Mutant(REPORT, "missing += [] if here else [pattern]", "missing += []"),
    Mutant(REPORT, "or path.read_bytes() != data", ""),
    Mutant(REPORT, "max(3, longest + 1)", "3"),
    Mutant(REPORT, "os.path.relpath(path, self.page)", "os.path.relpath(path, self.home)"),
    Mutant(REPORT, 'f"{where}: {said}"', "said"),
    Mutant(REPORT, "shown=place.link(cell.path)", "shown=str(cell.path)"),
    Mutant(REPORT, "if note not in said]", "if note]"),
    Mutant(PLOTS, "        if not cell.diverged:\n", "        if True:\n"),
    Mutant(PLOTS, "[*map(fmean, runs)]", "[*map(max, runs)]"),
    Mutant(PLOTS, "fmean(cell.score or 0.0 for cell in mle)", "max(cell.score or 0.0 for cell in mle)"),
    Mutant(PLOTS, " and p.future_entropy]", "]"),
    Mutant(PLOTS, 'return "black" if 0.299 * red', 'return "white" if 0.299 * red'),
    Mutant(PLOTS, "rows, columns = sorted(grid)", "rows, columns = sorted(grid, reverse=True)"),
    Mutant(WATCHING, "round((1 - y) * (tall - 1))", "round(y * (tall - 1))"),
    Mutant(WATCHING, "return median(speeds[-RECENT:])", "return min(speeds[-RECENT:])"),
    Mutant(WATCHING, 'sum(phase.lengths(batches)) - last["updates"]', "sum(phase.lengths(batches))"),
    Mutant(WATCHING, "</span>{escape(state.label)}'", "</span>{state.label}'"),
    Mutant(WATCHING, '"" if all(state.done', '"" if any(state.done'),
    Mutant(WATCHING, "base - (value - low) / (high", "base - (high - value) / (high"),
    Mutant(LOG, 'offset = total if entry["event"] == "phase_end" else offset', "pass"),
    Mutant(LOG, 'text.split(b"\\n")[:-1]', 'text.split(b"\\n")'),
    Mutant(LOG, 'entry["phase"] in q_phases', "False"),
    Mutant(LOG, 'f"validation_{name}" if name in TRAINED else name', "name"),
    Mutant(LOG, 'kept[first - 1]["total"] >= total', 'kept[first - 1]["total"] > total'),
    # Sweeps: runs of other settings, circles, times, what is done, locks
    Mutant(PLAN, "len(cell.recipe.phase) and searched:", "len(cell.recipe.phase):"),
    Mutant(PLAN, "if there != cell.recipe or begun != start:", "if there != cell.recipe:"),
    Mutant(PLAN, "kept is None or config.parse(kept, cell.id) != cell.recipe", "kept is None"),
    Mutant(PLAN, "(kept is None or config", "(kept is not None and config"),
    Mutant(PLAN, "if len(plan.taken(cell)) == len(cell.recipe.phase) and", "if False and"),
    Mutant(PLAN, "end if ends.count(end) == 1 else", "end if ends.count(end) >= 1 else"),
    Mutant(PLAN, "    if at is not None:\n        round_", "    if False:\n        round_"),
    Mutant(PLAN, 'return f"{word}-{seed}"', 'return f"{word}-{seeds[0]}"'),
    Mutant(FORECAST, "if b[0] >= a[0]]", "if b[0] > a[0]]"),
    Mutant(FORECAST, "min(seconds, PAUSE * usual)", "seconds"),
    Mutant(FORECAST, "max(whole - done, 0) * rate", "whole * rate"),
    Mutant(FORECAST, "needs.get(name) not in pending", "True"),
    Mutant(FORECAST, "mean if most is None else min(mean, most)", "mean"),
    Mutant(SWEEP, 'return "resume" if begun(plan.run(cell.id)) else "train"', 'return "train"'),
    Mutant(SWEEP, "fcntl.LOCK_EX |", "fcntl.LOCK_SH |"),
    Mutant(SWEEP, '(not cell.records or (folder / "result.json").exists())', "True"),
    Mutant(SWEEP, "return bool(foreign) or bool(lines)", "return bool(foreign)"),
    Mutant(SWEEP, "needed = [*cell.against, *(", "needed = [*("),
    Mutant(SWEEP, "if c.records and not recorded(plan, c)] + shared", "if c.records and not recorded(plan, c)]"),
    # The credit page: its numbers, its file, its script, its server
    Mutant(INSPECTION, "advantage = taken - value - (tau", "advantage = taken - value + (tau"),
    Mutant(
        INSPECTION,
        "one_step_targets(rewards, ahead, tokens) - taken",
        "taken - one_step_targets(rewards, ahead, tokens)",
    ),
    Mutant(INSPECTION, "if examiner.soft else expected_value", "if not examiner.soft else expected_value"),
    Mutant(INSPECTION, "later[:, 1:], torch.zeros_like(later[:, :1])", "later[:, :1], later[:, 1:]"),
    Mutant(INSPECTION, "order = np.argsort(q", "order = np.argsort(followed"),
    Mutant(INSPECTION, "return torch.where(forced.unsqueeze(-1), certain, logp)", "return logp"),
    Mutant(INSPECTION, 'self.tau if getattr(self.phase, "future_entropy", True) else 0.0', "self.tau"),
    Mutant(INSPECTION, "prepared, split, [number - 1])", "prepared, split, [number - 2])"),
    Mutant("rewards/bleu.py", 'if self.brevity == "mean" else', 'if self.brevity != "mean" else'),
    Mutant("rewards/linear.py", "right / precisions - (size", "right / precisions + (size"),
    Mutant("rewards/linear.py", "* wanted - orders).clamp", "* wanted + orders).clamp"),
    Mutant("rewards/linear.py", "wanted.clamp(min=1)).clamp(max=1)", "wanted.clamp(min=1))"),
    Mutant("rewards/linear.py", "/ self.length**2", "* self.length**2"),
    Mutant("training/trainer.py", "and phase.keeps_start:", "and True:"),
    Mutant(
        CONFIG, 'phase.words == "likely" and phase.proposal in', 'phase.words == "likely" and phase.proposal not in'
    ),
    Mutant(WATCHING, "len(phase.lengths(batches)) if batches", "phase.epochs if batches"),
    Mutant("training/trainer.py", "left / (left + 1)", "left / (left + 2)"),
    Mutant("training/trainer.py", "progress.epoch == len(lengths) and", "progress.epoch < len(lengths) and"),
    Mutant("training/trainer.py", "sum(lengths) - progress.updates", "lengths[0] - progress.updates"),
    Mutant("config.py", "most - done) for done", "most) for done"),
    Mutant("models/critic.py", "(mask & there.unsqueeze(-1))", "mask"),
    Mutant("models/critic.py", "there / there.sum(1, keepdim=True)", "there / there.shape[1]"),
    Mutant(INSPECTION, "end = row.index(EOS) + 1", "end = row.index(EOS)"),
    Mutant(PAGE, "subjects[AT_ONCE:])", "subjects[AT_ONCE + 1 :])"),
    Mutant(PAGE, "return round(number * THOUSAND)", "return round(number * 100)"),
    Mutant(PAGE, "default-src 'none';", "default-src *;"),
    Mutant(PAGE, "abs(x) for credit", "x for credit"),
    Mutant(PAGE, 'path = there.get(subject["source"])', 'path = folder / subject["source"]'),
    Mutant(SCRIPT, 'share < 0 ? "minus" : "plus"', 'share < 0 ? "plus" : "minus"'),
    Mutant(SCRIPT, "keys[b] - keys[a]", "keys[a] - keys[b]"),
    Mutant(SCRIPT, "value.trim().toLowerCase()", "value.trim()"),
    Mutant(SCRIPT, "one.scores[t + 1] / THOUSAND", "one.scores[t] / THOUSAND"),
    Mutant(
        SCRIPT,
        "undefined) node.append(child)",
        'undefined) child.nodeType ? node.append(child) : node.insertAdjacentHTML("beforeend", child)',
    ),
    Mutant(SERVER, "best = EOS if last else int(logp.argmax())", "best = EOS if last else int(logp.argmin())"),
    Mutant(SERVER, 'not in ("same-origin", "none")', 'not in ("same-origin", "none", "cross-site")'),
    Mutant(SERVER, 'origin.partition("://")[2] != headers["host"]', "not origin"),
    Mutant(SERVER, "            if size > self.largest:", "            if size < 0:"),
    Mutant(SERVER, "return not _is_loopback(host)", "return True"),
    Mutant(SERVER, "if width * height > PIXELS:", "if width < 0:"),
    Mutant(SERVER, """ + "; frame-ancestors 'none'\"""", ""),
    Mutant(SERVER, 'extra="forbid"', 'extra="ignore"'),
    # A better Q: several steps, eos, copying, its own policy; and how far it is from the exact one
    Mutant(VALUES, "for n in (1, steps + 1))", "for n in (1, steps))"),
    Mutant(LOSSES, "sums_ahead(later, steps - 1)", "sums_ahead(later, steps)"),
    Mutant(LOSSES, "later = (chosen(look_ahead, tokens)", "later = (chosen(q, tokens)"),
    Mutant(LOSSES, "(q[..., EOS] - gains)", "(q[..., EOS] + gains)"),
    Mutant(
        FUSED, "_split(_after(-slope, following, table), forced)", "_split(_after(slope, following, table), forced)"
    ),
    Mutant(
        FUSED,
        "            learner.learn_eos(by_eos)\n            learner.learn_chosen",
        "            learner.learn_chosen",
    ),
    Mutant(TABLES, "torch.where(self.common, padded[:, :1], padded)", "padded"),
    Mutant(PROPOSALS, "torch.minimum(agreed, words)], 1)", "agreed], 1)"),
    Mutant(PROPOSALS, ".long().cumprod(-1)", ".long()"),
    Mutant(CRITIC, "codes * memory.mask.unsqueeze(-1)", "codes"),
    Mutant(CRITIC, "self.readout.weight[:, -self.copy :]", "self.readout.weight[:, : self.copy]"),
    Mutant(CRITIC, "torch.linalg.qr(blocks).Q", "blocks"),
    Mutant(SCORING, "(each * (found - packing.take(gains)).square())", "(found - packing.take(gains)).square()"),
    Mutant(SCORING, "sums_ahead(packing.fill(after), phase.steps - 1)", "sums_ahead(packing.fill(after), phase.steps)"),
    Mutant(OBJECTIVES, "            loss = loss + phase.exact_eos * error", "            loss = loss + error"),
    Mutant(OBJECTIVES, "        loss = loss + phase.exact_eos * error\n    return loss", "        return loss"),
    Mutant(OBJECTIVES, "tokens, references) - scores)[:, :-1]", "tokens, references) - scores)[:, 1:]"),
    Mutant(OBJECTIVES, "temperature=phase.tau", "temperature=1.0"),
    Mutant(OBJECTIVES, "distance / longer", "distance"),
    Mutant(OBJECTIVES, "gains[..., :-1]", "gains[..., 1:]"),
    Mutant(FINISHED, "unfinished_brevity=True", "unfinished_brevity=False"),
    Mutant(EXACT, "CreditError(absolute / self.states, kl / self.states)", "CreditError(absolute, kl / self.states)"),
    Mutant(EXACT, "model.train(was_training)", "model.train()"),
    Mutant(EXACT, "if again or self._known is None", "if self._known is None"),
    Mutant(CONFIG, "phase.exact and not plain_edit(payoff)", "not plain_edit(payoff)"),
]


class Job(NamedTuple):
    """A file of the package, what stands in it, and the tests to run."""

    file: str
    text: str
    tests: list[str]


def tests_of(file: str) -> list[Path]:
    paths = [ROOT / "tests" / name for name in ((TABLES, FUSED) if file == TABLES else (file,))]  # what is made of them
    return [path.with_name(f"test_{path.stem}.py") for path in paths]


class Verdict(NamedTuple):
    """pytest's exit code, 1 being a failed test, and which one failed first."""

    code: int
    failed: str


class _Note:
    """Writes down the first test that fails."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.path.exists():
            self.path.write_text(report.nodeid)


def run_tests(folder: Path, tests: list[str]) -> int:
    """pytest's exit code for `tests` with the package of that folder; the process ends with it."""
    sys.path.insert(0, str(folder))
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os.chdir(ROOT)
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "-W", "ignore:Module already imported"]
    return int(pytest.main([*options, *tests], plugins=[_Note(folder / "failed")]))


def start(job: Job, folder: Path) -> int:
    """Copy the package with another text for one file, and fork a process that tests it."""
    shutil.copytree(SOURCE, folder / "seqcredit", ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "seqcredit" / job.file).write_text(job.text)
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = run_tests(folder, job.tests)
        finally:
            os._exit(code)
    return child


def verdicts(jobs: list[Job]) -> list[Verdict]:
    """What pytest says of each: 1 is a failed test, 0 means that nobody noticed."""
    waiting, running, found = list(enumerate(jobs)), {}, [Verdict(99, "")] * len(jobs)
    with tempfile.TemporaryDirectory() as scratch:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                number, job = waiting.pop(0)
                running[start(job, Path(scratch) / str(number))] = number
            child, status = os.wait()
            number = running.pop(child)
            note = Path(scratch) / str(number) / "failed"
            found[number] = Verdict(os.waitstatus_to_exitcode(status), note.read_text() if note.exists() else "")
    return found


def mutate(mutant: Mutant) -> str:
    text = (SOURCE / mutant.file).read_text()
    if text.count(mutant.before) != 1:
        raise SystemExit(f"Not a mutant any more, {text.count(mutant.before)} places: {mutant}")
    return text.replace(mutant.before, mutant.after)


def main() -> int:
    words = sys.argv[1:]
    step = int(words[1]) if words[:1] == ["--every"] else 1
    wanted = MUTANTS[::step] if step > 1 else [m for m in MUTANTS if all(word in m.file for word in words)]
    torch.set_num_threads(1)
    os.environ["SEQCREDIT_UNCHECKED"] = "1"  # a mutant must fail by its numbers, not by its shapes; and it is faster
    found = verdicts([Job(m.file, mutate(m), [str(path) for path in tests_of(m.file)]) for m in wanted])
    for mutant, (code, failed) in zip(wanted, found, strict=True):
        told = {0: "SURVIVED", 1: "caught"}.get(code, f"BROKEN ({code})")
        print(f"{told:9} {mutant}{' by ' + failed.split('::')[-1] if failed else ''}")
    caught = [verdict.code for verdict in found].count(1)
    print(f"{caught} of {len(wanted)} mutants caught")
    return 0 if wanted and caught == len(wanted) and _healthy(wanted, found) else 1


def _healthy(wanted: list[Mutant], found: list[Verdict]) -> bool:
    """Whether the tests that caught something pass with nothing changed; else they have proved nothing."""
    catchers: dict[str, set[str]] = {}
    for mutant, verdict in zip(wanted, found, strict=True):
        catchers.setdefault(mutant.file, set()).add(verdict.failed)
    jobs = [Job(file, (SOURCE / file).read_text(), sorted(tests)) for file, tests in catchers.items()]
    broken = [job.file for job, verdict in zip(jobs, verdicts(jobs), strict=True) if verdict.code != 0]
    if broken:
        print(f"The tests of {', '.join(broken)} fail with nothing changed: mend them first.")
    return not broken


if __name__ == "__main__":
    sys.exit(main())
