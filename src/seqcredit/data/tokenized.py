"""From examples in plain text to a prepared folder whose ids are those of a model's own tokenizer."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path

from seqcredit.data.manifest import FORMAT, Manifest, PrepareOptions, SplitCounts
from seqcredit.data.storage import MANIFEST, OFFSETS, checksum, growing_array, new_folder, write_sequences
from seqcredit.data.text import Example, TextOptions
from seqcredit.data.tokenizer import TOKENIZER, ModelTokenizer
from seqcredit.errors import require


def prepare_text(splits: Mapping[str, Iterable[Example]], out: Path, tokenizer: ModelTokenizer) -> Manifest:
    """Write a prepared folder, which appears whole or not at all. An example may have no references."""
    with new_folder(out) as folder:
        tokenizer.save(folder / TOKENIZER)
        counts = {name: _write(folder, name, examples, tokenizer) for name, examples in splits.items()}
        files = {str(p.relative_to(folder)): checksum(p) for p in sorted(folder.rglob("*")) if p.is_file()}
        options = PrepareOptions(TextOptions(tokenizer="chat" if tokenizer.chat else "plain"), tokenized=True)
        size = len(tokenizer.vocabulary)
        manifest = Manifest(FORMAT, "text", options, size, size, counts, files)
        (folder / MANIFEST).write_bytes(manifest.text().encode())
    return manifest


def _write(folder: Path, name: str, examples: Iterable[Example], tokenizer: ModelTokenizer) -> SplitCounts:
    """One split: texts and ids. Where there is no reference, an empty one stands for it among the ids."""
    kept, pairs, seen = 0, 0, {"source": Counter[bool](), "references": Counter[bool]()}
    with (
        (folder / f"{name}.source.txt").open("w", encoding="utf-8", newline="\n") as sources,
        (folder / f"{name}.references.txt").open("w", encoding="utf-8", newline="\n") as references,
        growing_array(folder / f"{name}.references.groups.npy", OFFSETS) as firsts,
        write_sequences(folder / f"{name}.source") as source,
        write_sequences(folder / f"{name}.references") as reference,
    ):
        firsts([0])
        for kept, example in enumerate(examples, 1):
            read = tokenizer.source_ids(example.source)
            require(read, f"{name}, example {kept}: its source is empty: give it some text.")
            group = [tokenizer.target_ids(text) for text in example.references] or [[]]
            source(read)
            for ids in group:
                reference(ids)
            pairs += len(group)
            firsts([pairs])
            seen["source"].update(number == tokenizer.alphabet.unk for number in read)
            seen["references"].update(number == tokenizer.alphabet.unk for ids in group for number in ids)
            sources.write(json.dumps(example.source, ensure_ascii=False) + "\n")
            references.write(json.dumps(example.references, ensure_ascii=False) + "\n")
    require(kept, f"Nothing is in the split {name!r}: give it some examples.")
    words = [count.total() for count in seen.values()]
    unknown = [count[True] / max(1, count.total()) for count in seen.values()]
    return SplitCounts(kept, pairs, words[0], words[1], unknown[0], unknown[1], 0, 0)
