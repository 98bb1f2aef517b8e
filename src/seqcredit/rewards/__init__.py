"""How good is a prefix? Every class here scores all prefixes of a batch at once.

`Custom` and `TextReward` wrap any function, `OnlyFinished`, `OwnReference` and `Weighted` any reward.

>>> import torch
>>> tokens, references = torch.tensor([[5, 7, 3, 0]]), torch.tensor([[[5, 7, 2, 0]]])  # 0 is eos
>>> EditDistance().prefix_scores(tokens, references)  # of the first 0, 1, 2, 3 words, and of all with eos
tensor([[-3., -2., -1., -1., -1.]])
>>> Custom(lambda words, references: float(len(words))).prefix_scores(tokens, references)
tensor([[0., 1., 2., 3., 3.]])
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
from seqcredit.rewards.text import TextReward
from seqcredit.rewards.weighted import Weighted

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
    "TextReward",
    "Weighted",
]
