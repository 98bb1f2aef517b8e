"""Words and their ids."""

import hashlib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path

from seqcredit.errors import UserError, in_words
from seqcredit.types import EOS, FIRST_WORD, UNK

EOS_SYMBOL = "</s>"
UNK_SYMBOL = "<unk>"
SYMBOLS = (EOS_SYMBOL, UNK_SYMBOL)


@dataclass(frozen=True)
class Vocabulary:
    """The words of one language; a word's id is its place. Places 0 and 1 hold the symbols for eos and unk."""

    words: tuple[str, ...]
    eos: int = EOS

    def __post_init__(self) -> None:
        if self.words[:FIRST_WORD] != SYMBOLS:
            raise UserError(f"A vocabulary starts with {EOS_SYMBOL} and {UNK_SYMBOL}: put them on its first two lines.")
        if any(not word or "\n" in word for word in self.words):
            raise UserError("A vocabulary has one word a line: remove the empty lines.")
        if len(self._ids) != len(self.words) - FIRST_WORD or not self._ids.keys().isdisjoint(SYMBOLS):
            twice, _ = Counter(self.words).most_common(1)[0]
            raise UserError(f"A vocabulary has every word once, and {twice!r} is there twice: remove one of them.")

    @classmethod
    def build(cls, counts: Counter[str], min_count: int = 1, max_size: int | None = None) -> "Vocabulary":
        """The words seen `min_count` times or more, the most frequent first, equals in alphabetical order.

        `max_size` bounds the whole vocabulary, its two symbols included.
        """
        often = [(-count, word) for word, count in counts.items() if count >= min_count and word not in SYMBOLS]
        words = [word for _, word in sorted(often)]
        return cls((*SYMBOLS, *words)[:max_size])

    def __len__(self) -> int:
        return len(self.words)

    @cached_property
    def _ids(self) -> dict[str, int]:
        # Without the two symbols: a text in which "</s>" is written means the unknown word, not the end.
        return {word: number for number, word in enumerate(self.words) if number >= FIRST_WORD}

    def encode(self, words: Iterable[str]) -> list[int]:
        """Ids of words, without eos."""
        return [self._ids.get(word, UNK) for word in words]

    def decode(self, ids: Iterable[int]) -> list[str]:
        """Words before the first eos."""
        known = list(takewhile(lambda number: number != self.eos, ids))
        if min(known, default=self.eos) < 0:
            raise IndexError(f"{min(known)} is not the id of a word")
        return [self.words[number] for number in known]

    @property
    def text(self) -> str:
        """What `save` writes: one word a line, in the order of their ids."""
        return "".join(f"{word}\n" for word in self.words)

    @property
    def checksum(self) -> str:
        """SHA-256 of the text."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def save(self, path: Path) -> None:
        """Write the words, one a line."""
        path.write_bytes(self.text.encode())

    @classmethod
    def load(cls, path: Path) -> "Vocabulary":
        """Read what `save` wrote."""
        with (
            in_words(
                OSError, lambda error: f"Cannot read the vocabulary {path}: {error.strerror}; give a file that exists."
            ),
            in_words(UnicodeDecodeError, f"{path} is not a vocabulary: it is not UTF-8; prepare the data again."),
            in_words(UserError, lambda error: f"{path} is not a vocabulary. {error}"),
        ):
            # Cut at newlines alone: a word may hold another character that Unicode counts as a line break.
            return cls(tuple(path.read_bytes().decode().removesuffix("\n").split("\n")))
