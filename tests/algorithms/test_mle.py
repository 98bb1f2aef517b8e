"""Maximum likelihood by hand."""

import torch

from algorithms.tiny import BATCH, models, run
from seqcredit.algorithms import Mle
from seqcredit.types import token_mask


def test_mle_is_the_log_probability_of_the_reference() -> None:
    nets = models(dropout=0.0)
    tokens, actor = BATCH.references[:, 0], nets.actor
    logp = actor.score(actor.encode(BATCH.source), tokens).table().log_softmax(-1)
    by_hand = -(logp.gather(-1, tokens.unsqueeze(-1)).squeeze(-1) * token_mask(tokens)).sum() / 4
    outcome = run(Mle("mle", 0.1), nets)
    torch.testing.assert_close(outcome.losses["actor"], by_hand)
    total, count = outcome.sums["nll"]
    torch.testing.assert_close(total / count, (4 * by_hand / token_mask(tokens).sum()).detach())
    assert not total.requires_grad
