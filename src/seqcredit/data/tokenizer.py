"""A model's own tokenizer instead of vocabularies: text becomes its ids, and ids become text."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from seqcredit.data.vocabulary import Vocabulary
from seqcredit.errors import in_words, needing
from seqcredit.types import Alphabet

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

TOKENIZER, ALPHABET = "tokenizer", "alphabet.json"
Messages = Sequence[Mapping[str, str]]  # of a chat: {"role": "user", "content": ...}


@dataclass(frozen=True)
class Pieces(Vocabulary):
    """The ids of a model with a tokenizer of its own; its words are the tokenizer's pieces, and eos is where it is."""

    unk: int | None = None

    def __post_init__(self) -> None:
        """Whatever a tokenizer has is right."""

    @cached_property
    def _ids(self) -> dict[str, int]:
        return {word: number for number, word in enumerate(self.words)}

    def encode(self, words: Iterable[str]) -> list[int]:
        """Ids of pieces."""
        return [self._ids[word] for word in words]


class ModelTokenizer:
    """A Hugging Face tokenizer, with the alphabet of the model that it belongs to."""

    def __init__(self, tokenizer: "PreTrainedTokenizerBase", alphabet: Alphabet, chat: bool = False) -> None:
        self.tokenizer, self.alphabet, self.chat = tokenizer, alphabet, chat

    @cached_property
    def vocabulary(self) -> Pieces:
        """Every id of the model; those that the tokenizer does not know have a number for a name."""
        known = len(self.tokenizer)
        names = self.tokenizer.convert_ids_to_tokens(list(range(min(known, self.alphabet.size))))
        spare = [f"<{number}>" for number in range(len(names), self.alphabet.size)]
        return Pieces((*names, *spare), self.alphabet.eos, self.alphabet.unk)

    def source_ids(self, text: str) -> list[int]:
        """A source as the model reads it, special tokens included; in a chat they are written in the text."""
        return list(self.tokenizer(text, add_special_tokens=not self.chat)["input_ids"])

    def target_ids(self, text: str) -> list[int]:
        """A text as the model writes it; eos is for the end alone, and what is no action cannot be written."""
        ids = self.tokenizer(text_target=text, add_special_tokens=False)["input_ids"]
        return [number for number in ids if number in self._writable]

    @cached_property
    def _writable(self) -> set[int]:
        actions = self.alphabet.actions
        numbers = range(self.alphabet.size) if actions is None else actions.nonzero().squeeze(1).tolist()
        return set(numbers) - {self.alphabet.eos}

    def text(self, ids: Iterable[int]) -> str:
        """What ids before the first eos say."""
        before = takewhile(lambda number: number != self.alphabet.eos, ids)
        return str(self.tokenizer.decode(list(before), skip_special_tokens=True))

    def pieces(self, ids: Iterable[int]) -> list[str]:
        """Ids by their names."""
        return [self.vocabulary.words[number] for number in ids]

    def prompt(self, source: str | Messages) -> str:
        """A source as text: messages go through the tokenizer's chat template, and so does a text in a chat."""
        if isinstance(source, str) and not self.chat:
            return source
        messages = [{"role": "user", "content": source}] if isinstance(source, str) else [*map(dict, source)]
        unfit = "The tokenizer's chat template cannot be used"
        with in_words(Exception, lambda error: f"{unfit} ({error}): give sources as text."):  # whatever it raises
            return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

    @cached_property
    def checksum(self) -> str:
        """Of all that ids depend on."""
        parts = [self.vocabulary.text, json.dumps(_record(self.alphabet)), str(self.chat)]
        return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def save(self, folder: Path) -> None:
        """The tokenizer's own files, and the alphabet."""
        self.tokenizer.save_pretrained(folder)
        (folder / ALPHABET).write_text(json.dumps(_record(self.alphabet)) + "\n")

    @classmethod
    def load(cls, folder: Path, chat: bool = False) -> "ModelTokenizer":
        """What `save` wrote."""
        with needing("transformers", "hf", "A tokenizer from Hugging Face"):
            from transformers import AutoTokenizer
        damaged = f"{folder} does not hold a tokenizer that can be read: prepare the data again."
        with in_words((OSError, ValueError, KeyError, TypeError), damaged):
            record = json.loads((folder / ALPHABET).read_text())
            alphabet = Alphabet(record["size"], record["eos"], record["unk"], _mask(record["size"], record["barred"]))
            return cls(AutoTokenizer.from_pretrained(folder), alphabet, chat)


def _record(alphabet: Alphabet) -> dict[str, object]:
    barred = [] if alphabet.actions is None else (~alphabet.actions).nonzero().squeeze(1).tolist()
    return {"size": alphabet.size, "eos": alphabet.eos, "unk": alphabet.unk, "barred": barred}


def _mask(size: int, barred: list[int]) -> torch.Tensor | None:
    """Ids that may be chosen: all but the barred ones."""
    if not barred:
        return None
    actions = torch.ones(size, dtype=torch.bool)
    actions[barred] = False
    return actions
