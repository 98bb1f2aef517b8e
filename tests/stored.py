"""What a split holds on the disk, one sequence at a time."""

from seqcredit.data.prepared import Split
from seqcredit.data.storage import Pictures, Sequences


def sequence(half: Sequences, number: int) -> list[int]:
    """Ids of one sequence, without eos."""
    return half.ids[half.offsets[number] : half.offsets[number + 1]].tolist()


def source(split: Split, number: int) -> list[int] | list[float]:
    """Ids of a source, or the features of a picture."""
    half = split.source_half
    return half.features[number].tolist() if isinstance(half, Pictures) else sequence(half, number)


def references(split: Split, number: int) -> list[list[int]]:
    """Ids of the references of an example."""
    return [sequence(split.reference_half, one) for one in range(split.groups[number], split.groups[number + 1])]
