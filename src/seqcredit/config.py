"""Old names, until everything uses the new ones."""

from seqcredit.algorithms import ALGORITHMS as PHASES
from seqcredit.algorithms import ActorCritic, Critic, Mle, Phase, Raml, SoftQ, Vaml
from seqcredit.algorithms.exact import plain_edit
from seqcredit.algorithms.proposing import Proposing
from seqcredit.experiments.recipe import RECIPES, Recipe, found, load, parse, read_toml, resolved, until
from seqcredit.models.build import LSTM as Model
from seqcredit.options import check_keys, nearest
from seqcredit.rewards.payoff import Payoff

__all__ = [
    "PHASES",
    "RECIPES",
    "ActorCritic",
    "Critic",
    "Mle",
    "Model",
    "Payoff",
    "Phase",
    "Proposing",
    "Raml",
    "Recipe",
    "SoftQ",
    "Vaml",
    "check_keys",
    "found",
    "load",
    "nearest",
    "parse",
    "plain_edit",
    "read_toml",
    "resolved",
    "until",
]
