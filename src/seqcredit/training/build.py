"""From a recipe and a prepared folder to networks and rewards."""

import torch

from seqcredit import config
from seqcredit.data.batches import collate
from seqcredit.data.prepared import Prepared
from seqcredit.errors import UserError
from seqcredit.models.captioner import Captioner
from seqcredit.models.critic import Critic
from seqcredit.models.lstm import Seq2Seq
from seqcredit.rewards import Bleu, ChrF, CiderD, EditDistance, Hamming, LinearBleu, OnlyFinished, OwnReference, RougeL
from seqcredit.training.objectives import Payoffs
from seqcredit.types import Reward

SCALED = ("bleu", "linear-bleu", "edit")  # the metrics that know `scaled`


def build_actor(recipe: config.Recipe, prepared: Prepared) -> Seq2Seq | Captioner:
    """The actor with its first weights, a function of the seed: it reads sentences, or looks at pictures."""
    m, actions = recipe.actor, len(prepared.target_vocabulary)
    generator = torch.Generator().manual_seed(recipe.seed)
    if prepared.pictures:
        if m.attention != "none" or m.input_feeding:
            raise UserError(
                f"{prepared.folder} holds pictures, which the actor looks at once: set attention to 'none' and "
                "input_feeding to false in [actor], as in the recipe flickr8k/mle."
            )
        return Captioner(
            prepared.manifest.picture_width, actions, m.embedding, m.hidden, m.layers, m.dropout, generator
        )
    if m.attention == "none":
        raise UserError(f"{prepared.folder} holds sentences: set attention to 'dot' or 'mlp' in [actor].")
    sizes = (len(prepared.source_vocabulary), actions)
    return Seq2Seq(*sizes, m.embedding, m.hidden, m.layers, m.attention, m.input_feeding, m.dropout, generator)


def build_critic(recipe: config.Recipe, prepared: Prepared) -> Critic:
    """The critic with its first weights. It reads the references that the pay-off counts."""
    m, actions = recipe.critic, len(prepared.target_vocabulary)
    if m.attention == "none":
        raise UserError("The critic reads the reference: set attention to 'dot' or 'mlp' in [critic].")
    generator = torch.Generator().manual_seed(recipe.seed + 1_000_003)
    size = (m.embedding, m.hidden, m.layers)
    kind = (m.attention, m.input_feeding, m.dropout)
    return Critic(actions, *size, *kind, generator, m.copy, recipe.payoff.references)


def build_payoffs(recipe: config.Recipe, phase: config.Phase, prepared: Prepared) -> Payoffs:
    """The pay-off of the token rewards, and that of the importance weights: one object where they are the same."""
    payoff = recipe.payoff
    scaled = phase.weight_scaled if isinstance(phase, config.Raml) else payoff.scaled
    reward = build_reward(payoff, prepared, payoff.scaled)
    same = scaled == payoff.scaled or payoff.metric not in SCALED
    return Payoffs(reward, reward if same else build_reward(payoff, prepared, scaled))


def build_reward(payoff: config.Payoff, prepared: Prepared, scaled: bool) -> Reward:
    """The reward of a pay-off, with its score of unfinished prefixes."""
    reward = _metric(payoff, prepared, scaled)
    if payoff.references == "own":
        reward = OwnReference(reward)
    return OnlyFinished(reward) if payoff.unfinished == "nothing" else reward


def _metric(payoff: config.Payoff, prepared: Prepared, scaled: bool) -> Reward:
    """A reward by its name."""
    unk = payoff.unk_matches
    match payoff.metric:
        case "bleu":
            return Bleu(
                smoothing=payoff.smoothing,
                scaled=scaled,
                unfinished_brevity=payoff.unfinished != "without_brevity",
                unk_matches=unk,
                brevity=payoff.brevity,
            )
        case "linear-bleu":
            return LinearBleu(
                precision=payoff.precision, falling=payoff.falling, length=payoff.length, scaled=scaled, unk_matches=unk
            )
        case "edit":
            return EditDistance(by_length=not scaled, unk_matches=unk)
        case "hamming":
            return Hamming(unk_matches=unk)
        case "rouge-l":
            return RougeL(unk_matches=unk)
        case "chrf":
            return ChrF(prepared.target_vocabulary.words, unk_matches=unk)
        case "cider":
            train = prepared.split("train")
            if len(train) > 200_000:
                raise UserError("CIDEr-D counts the references of at most 200,000 training examples.")
            references = collate(train, train.groups[:-1]).references
            return CiderD.from_references(references, unk_matches=unk)
