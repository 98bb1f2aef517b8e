"""Train sequence models with token-level credit."""

from importlib.metadata import version

__version__ = version("seqcredit")
