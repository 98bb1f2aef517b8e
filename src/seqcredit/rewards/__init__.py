"""How good is a prefix? Every class here scores all prefixes of a batch at once.

`Custom` wraps any function, `OnlyFinished` and `OwnReference` any reward.
"""

from seqcredit.rewards.bleu import Bleu
from seqcredit.rewards.chrf import ChrF
from seqcredit.rewards.cider import CiderD
from seqcredit.rewards.custom import Custom
from seqcredit.rewards.edit import EditDistance, Hamming
from seqcredit.rewards.finished import OnlyFinished
from seqcredit.rewards.linear import LinearBleu
from seqcredit.rewards.own import OwnReference
from seqcredit.rewards.rouge import RougeL, RougeN

__all__ = [
    "Bleu",
    "ChrF",
    "CiderD",
    "Custom",
    "EditDistance",
    "Hamming",
    "LinearBleu",
    "OnlyFinished",
    "OwnReference",
    "RougeL",
    "RougeN",
]
