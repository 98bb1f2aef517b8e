"""Train sequence models with token-level credit."""

__version__: str


def __getattr__(name: str) -> object:
    """The version, when it is asked for: reading it takes longer than all else that `seqcredit --help` does."""
    if name == "__version__":
        from importlib.metadata import version

        return version("seqcredit")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
