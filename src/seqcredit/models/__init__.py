"""Who predicts, who judges? Actors and critics, and what any other model must do to be one.

`policy.Policy` says it: read, score all tokens at once, or step from one to the next. `wrapped.Wrapped` makes one of
any module that scores the next token; `build.LSTM` are the options of the paper's networks.

>>> from seqcredit.models.wrapped import Wrapped
>>> import torch
>>> class Net(torch.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.words = torch.nn.Embedding(5, 5)
...     def forward(self, source, tokens):  # scores of every token from the one before it
...         before = torch.nn.functional.pad(tokens[:, :-1], (1, 0))
...         return self.words(before)
>>> net = Wrapped(Net(), 5)
>>> net.score(net.encode(torch.tensor([[3, 0]])), torch.tensor([[2, 4, 0]])).table().shape
torch.Size([1, 3, 5])
"""
