"""Credit error: how far a learned Q is from an exact one, token by token."""

from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from seqcredit.credit.values import soft_policy
from seqcredit.types import EOS, token_mask


class CreditError(NamedTuple):
    """Means over all tokens of all sequences."""

    absolute: float  # |Q - exact Q|, over the actions allowed
    kl: float  # KL(exact token target || learned token target)


def absolute_error(
    q: Float[Tensor, "*B T V"],
    exact_q: Float[Tensor, "*B T V"],
    tokens: Int[Tensor, "*B T"],
    forced: Bool[Tensor, "*B T"] | None = None,
) -> Float[Tensor, "*B T"]:
    """Mean of |Q - exact Q| over the actions allowed before each token; 0 on padding."""
    error = (q - exact_q).abs()
    mean = error.mean(-1) if forced is None else torch.where(forced, error[..., EOS], error.mean(-1))
    return mean.masked_fill(~token_mask(tokens), 0)


def target_kl(
    q: Float[Tensor, "*B T V"],
    exact_q: Float[Tensor, "*B T V"],
    tokens: Int[Tensor, "*B T"],
    tau: float,
    forced: Bool[Tensor, "*B T"] | None = None,
) -> Float[Tensor, "*B T"]:
    """KL(P_exact || P_learned) of the token-level targets before each token; 0 on padding."""
    exact, learned = soft_policy(exact_q, tau, forced), soft_policy(q, tau, forced)
    if tau > 0:  # logarithms of the energies themselves: no probability is lost to rounding
        ratio = torch.log_softmax(exact_q / tau, -1) - torch.log_softmax(q / tau, -1)
        ratio = ratio if forced is None else ratio.masked_fill(forced.unsqueeze(-1), 0)
    else:
        ratio = exact.log() - learned.log()
    return (exact * ratio.masked_fill(exact == 0, 0)).sum(-1).masked_fill(~token_mask(tokens), 0)


def credit_error(
    q: Float[Tensor, "*B T V"],
    exact_q: Float[Tensor, "*B T V"],
    tokens: Int[Tensor, "*B T"],
    tau: float,
    forced: Bool[Tensor, "*B T"] | None = None,
) -> CreditError:
    """Both errors, averaged over tokens: soft Q-learning against Q*, a critic against Q^pi of its actor."""
    count = token_mask(tokens).sum()
    absolute = absolute_error(q, exact_q, tokens, forced).sum() / count
    return CreditError(float(absolute), float(target_kl(q, exact_q, tokens, tau, forced).sum() / count))
