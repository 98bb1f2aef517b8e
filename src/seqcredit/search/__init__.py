"""How is a sequence chosen? Sampling, greedy and beam search, guided or not, each knowing a policy alone."""

from seqcredit.search.beam import Hypotheses, beam, replace_unknown
from seqcredit.search.guided import Guide
from seqcredit.search.sample import greedy, sample

__all__ = ["Guide", "Hypotheses", "beam", "greedy", "replace_unknown", "sample"]
