"""How is a sequence chosen? Sampling, greedy and beam search, each knowing a policy alone."""

from seqcredit.search.beam import Hypotheses, beam, replace_unknown
from seqcredit.search.sample import greedy, sample

__all__ = ["Hypotheses", "beam", "greedy", "replace_unknown", "sample"]
