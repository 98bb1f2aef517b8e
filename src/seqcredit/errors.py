"""Errors that the user can fix."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

E = TypeVar("E", bound=BaseException)
LONGEST = 600  # characters of a sentence


class UserError(Exception):
    """One sentence: what, where, what to do. The command line prints it and exits with 2."""


def one_line(error: object) -> str:
    """What is said, on one line of a length that can be read, whatever a user has put into it."""
    text = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in str(error))
    return text if len(text) <= LONGEST else f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"


def require(valid: object, sentence: str) -> None:
    """What must be so, and what is said where it is not."""
    if not valid:
        raise UserError(sentence)


@contextmanager
def in_words(kinds: type[E] | tuple[type[E], ...], sentence: str | Callable[[E], str]) -> Iterator[None]:
    """Errors of some kinds within are the user's to mend: one sentence, which may be made of the error."""
    try:
        yield
    except kinds as error:
        asked = kinds if isinstance(kinds, tuple) else (kinds,)
        if isinstance(error, UserError) and UserError not in asked:
            raise  # it is in words already
        raise UserError(sentence if isinstance(sentence, str) else sentence(error)) from error


def needing(package: str, extra: str, what: str) -> AbstractContextManager[None]:
    """An import of a package that only some need: where it is absent, one sentence says how to get it."""
    return in_words(ImportError, f"{what} needs the package {package}: run `pip install 'seqcredit[{extra}]'`.")
