"""A network that several processes train: each has a copy, or, in `shards.py`, a part of every weight.

Policies are asked for scores, states and samples and never called, so there is nothing to be gained by wrapping them.
What torch's DistributedDataParallel and `fully_shard` wrap is a module that has their weights and gives a loss: all
that they do is done on the way back, from that loss to those weights.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, nullcontext

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from seqcredit.training.processes import Processes


class Losing(nn.Module):
    """Weights, and a loss of them.

    The loss is in a function's hands: where `fully_shard` sees it come in, it takes its gradient for the last one.
    """

    def __init__(self, weights: nn.Module) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, loss: Callable[[], Tensor]) -> Tensor:
        """The loss as it is."""
        return loss()


class Held:
    """A network that this process has for itself."""

    def __init__(self, network: nn.Module) -> None:
        self.network = network

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add the gradients of a loss to those of this network and of no other; after the last, all are summed."""
        loss.backward(inputs=self.learning())

    def learning(self) -> list[Tensor]:
        """The weights that learn."""
        return [weight for weight in self.network.parameters() if weight.requires_grad]

    def gather(self) -> None:
        """From now on it has all of its weights."""

    def release(self) -> None:
        """From now on it has this process's part of them."""

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Whole tensors, or this process's parts of them, become the network's state."""
        like = self.network.state_dict()
        self.network.load_state_dict({key: self.part(tensor, like.get(key, tensor)) for key, tensor in tensors.items()})

    def whole(self, tensor: Tensor) -> Tensor:
        """All of a tensor of this network, for which all processes ask together."""
        return tensor

    def part(self, tensor: Tensor, like: Tensor) -> Tensor:
        """What this process has of a whole tensor, where another is that is shared out in the same way."""
        return tensor.to(like.device)


class Copy(Held):
    """A network of which every process has a copy.

    Gradients are summed in buckets while others are still to come. A weight that no process has used gets none, as in
    a process alone.
    """

    def __init__(self, network: nn.Module, processes: Processes) -> None:
        super().__init__(network)
        self.processes = processes
        learning = self.learning()
        idle = nn.Parameter(learning[0].new_zeros(1))  # torch warns where every weight is of use
        weights = nn.ParameterList([*learning, idle])
        self.losing = DistributedDataParallel(
            Losing(weights), find_unused_parameters=True, gradient_as_bucket_view=True
        )

    def backward(self, loss: Tensor, last: bool) -> None:
        """Losses are shares of the batch's, but torch takes the mean of their gradients."""
        with nullcontext() if last else self.losing.no_sync():
            self.losing(lambda: loss * self.processes.size).backward(inputs=self.learning())


def hold(network: nn.Module, processes: Processes, trained: bool) -> Held:
    """A network as some processes are to have it; a copy that is not trained needs nobody."""
    if processes.sharded:
        from seqcredit.training.shards import Shards  # what it needs takes seconds to import

        return Shards(network, processes)
    return Copy(network, processes) if trained and processes.size > 1 else Held(network)


@contextmanager
def whole(held: Collection[Held]) -> Iterator[None]:
    """Some networks have all of their weights."""
    for each in held:
        each.gather()
    try:
        yield
    finally:
        for each in held:
            each.release()
