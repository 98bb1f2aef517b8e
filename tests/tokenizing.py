"""A real tokenizer of transformers, learned from a few texts, with special tokens as T5 has them."""

from collections.abc import Iterable

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

CHAT = (
    "{% for m in messages %}<{{ m['role'] }}> {{ m['content'] }} {% endfor %}{% if add_generation_prompt %}:{% endif %}"
)


def learn(texts: Iterable[str], size: int = 80, closes: bool = True) -> PreTrainedTokenizerFast:
    """Byte pairs; `closes` puts eos behind a source, as T5 does."""
    made = Tokenizer(models.BPE(unk_token="<unk>"))
    made.pre_tokenizer, made.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>", "<extra>"]
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=size, special_tokens=special, show_progress=False))
    if closes:
        made.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    names = {"pad_token": "<pad>", "eos_token": "</s>", "unk_token": "<unk>", "extra_special_tokens": ["<extra>"]}
    return PreTrainedTokenizerFast(tokenizer_object=made, chat_template=CHAT, **names)
