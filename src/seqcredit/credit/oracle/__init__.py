"""Exact Q*, V*, P_R and Q^pi: the judge of everything that is learned.

`enumeration` takes any reward on a small space, `hamming` and `edit` their own reward at any vocabulary, `rollouts` any
policy anywhere with a confidence interval; `error` measures a learned Q against an exact one.
"""

from seqcredit.credit.oracle.edit import EditOracle
from seqcredit.credit.oracle.enumeration import ExactTable, Payoffs, Space, evaluate, log_payoff, sample, score, solve
from seqcredit.credit.oracle.error import CreditError, absolute_error, credit_error, target_kl
from seqcredit.credit.oracle.hamming import HammingOracle
from seqcredit.credit.oracle.rollouts import Estimate, estimate_q, estimate_value

__all__ = [
    "CreditError",
    "EditOracle",
    "Estimate",
    "ExactTable",
    "HammingOracle",
    "Payoffs",
    "Space",
    "absolute_error",
    "credit_error",
    "estimate_q",
    "estimate_value",
    "evaluate",
    "log_payoff",
    "sample",
    "score",
    "solve",
    "target_kl",
]
