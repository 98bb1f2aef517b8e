"""What a user gives to `train`: options, modules, models of transformers, and what was trained already."""

import importlib
import itertools
import json
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from peft import AutoPeftModelForCausalLM, LoraConfig, PeftModel, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    AutoModelForSeq2SeqLM,
    LlamaConfig,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
    T5Config,
    T5ForConditionalGeneration,
)
from transformers import PreTrainedTokenizerFast as Tokenizer

import seqcredit as sc
from seqcredit.algorithms import ActorCritic, Critic, Mle
from seqcredit.cli import main
from seqcredit.data.batches import collate
from seqcredit.data.prepared import Split
from seqcredit.data.storage import Sequences
from seqcredit.errors import UserError
from seqcredit.experiments.build import load_critic
from seqcredit.experiments.presets import AC, MLE
from seqcredit.experiments.recipe import Recipe
from seqcredit.experiments.runs import Run
from seqcredit.given import _longest, actor_options, as_pretrained, critic_options, is_own
from seqcredit.inspect.desk import Desk
from seqcredit.inspect.examiners import load_examiners
from seqcredit.inspect.subjects import judge_words, typed_batch
from seqcredit.models.build import LSTM, HuggingFace, Transformer
from seqcredit.rewards.payoff import Payoff
from seqcredit.training.weights import INITIAL
from seqcredit.training.weights import load as weights
from serving import Served, error
from tokenizing import learn

# peft asks for what transformers calls otherwise now
adapters = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated:FutureWarning")
HOURS = ["one", "two", "three", "four", "five", "six"]


def pairs(count: int, seed: int = 0) -> list[dict[str, Any]]:
    """Hours; 60 % of the answers are casual, in two forms, so that the likeliest first word is the formal one."""
    draw = random.Random(seed)

    def answer(hour: str) -> str:
        casual = f"{draw.choice(['well', 'so'])} that would be {hour}"
        return draw.choices([f"it is {hour} o'clock", casual], [0.45, 0.55])[0]

    return [{"source": hour, "references": [answer(hour)]} for hour in draw.choices(HOURS, k=count)]


def unread(lengths: list[int]) -> Sequences:
    """Sequences of such lengths."""
    return Sequences(np.zeros(sum(lengths), np.int32), np.cumsum([0, *lengths]))


def tokenizer(closes: bool = True) -> Tokenizer:
    return learn([text for row in pairs(200) for text in (row["source"], *row["references"])], closes=closes)


def t5(size: int) -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": 4}
    ids = {"decoder_start_token_id": 0, "pad_token_id": 0, "eos_token_id": 1}
    return T5ForConditionalGeneration(T5Config(vocab_size=size, **sizes, **ids))


def llama(size: int) -> PreTrainedModel:
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4}
    return LlamaForCausalLM(LlamaConfig(vocab_size=size, bos_token_id=None, eos_token_id=1, pad_token_id=0, **sizes))


def command(*words: object) -> None:
    """One that succeeds."""
    with pytest.raises(SystemExit) as end:
        main([*map(str, words)])
    assert not end.value.code


@pytest.mark.slow
@pytest.mark.parametrize("make", [t5, llama])
def test_a_model_of_transformers_learns_and_comes_back(make: Any, tmp_path: Path) -> None:
    """MLE, then AC by BLEU: it is no worse, it is loaded from its run, and by from_pretrained."""
    read = tokenizer(closes=make is t5)
    data, test = pairs(600), pairs(100, seed=1)
    given = make(len(read) + 2)  # two ids that the tokenizer does not have
    before = {key: tensor.clone() for key, tensor in given.state_dict().items()}
    said: list[str] = []
    fast = {"tokenizer": read, "say": said.append, "longest_output": 12}
    mle = sc.train(given, data, algorithm=sc.MLE(epochs=12, learning_rate=0.01), out=tmp_path / "mle", **fast)
    assert all(
        torch.equal(tensor, before[key]) for key, tensor in given.state_dict().items()
    )  # it is not trained itself
    plan = sc.AC(epochs=2, critic_epochs=2, learning_rate=0.001, critic_learning_rate=0.005)
    ac = sc.train(mle, data, algorithm=plan, out=tmp_path / "ac", test=test, **fast)
    assert mle.evaluate(data).value > 15  # it has learned something
    assert (
        ac.evaluate(data[::20]).value >= mle.evaluate(data[::20]).value - 0.01
    )  # of the held-out ones, the best is kept
    start = weights(tmp_path / "ac", INITIAL)
    body = next(key for key in start if key.startswith("critic.body.model.") and key.endswith("weight"))
    assert torch.equal(start[body], start[body.replace("critic.body.", "actor.")])  # the critic begins as the actor
    assert isinstance(ac.translate("ten"), str)  # a word it has not seen
    again = sc.load(tmp_path / "ac")
    assert again.translate(HOURS) == ac.translate(HOURS)
    folder = ac.save_pretrained(tmp_path / "saved")
    auto = AutoModelForSeq2SeqLM if make is t5 else AutoModelForCausalLM
    loaded = auto.from_pretrained(folder)
    ids = torch.tensor([read("two")["input_ids"]])
    out = loaded.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=12, do_sample=False)
    text = read.decode(out[0] if make is t5 else out[0, ids.shape[1] :], skip_special_tokens=True)
    assert text.strip() == str(ac.translate("two")).strip()
    card = (folder / "README.md").read_text()
    assert "`from_pretrained` of transformers loads it" in card
    assert "BLEU" in card


@pytest.mark.slow
@adapters
def test_prompts_without_references_follow_a_reward_of_the_source(tmp_path: Path, capsys: Any) -> None:
    """By the command line: a reward that no reference knows, from a folder that from_pretrained would load."""
    read = tokenizer(closes=False)
    llama(len(read)).save_pretrained(tmp_path / "model")
    read.save_pretrained(tmp_path / "model")
    lines = [json.dumps({"prompt": row["source"]}) for row in pairs(120)]
    (tmp_path / "train.jsonl").write_text("\n".join(lines) + "\n")
    (tmp_path / "short.py").write_text("def score(text, source):\n    return -abs(len(text) - len(source)) / 10\n")
    run = tmp_path / "run"
    words = ["tune", "--model", tmp_path / "model", "--train", tmp_path / "train.jsonl", "--reward", "short:score"]
    words += ["--algorithm", "reinforce", "--set", "epochs=2", "--set", "learning_rate=0.03", "--longest-output", 8]
    words += ["--lora", 4]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path)
        command(*words, "--out", run, "--threads", 1)
    shown = capsys.readouterr().out
    found = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    rewards = [entry["reward"] for entry in found if entry["event"] == "validation"]
    assert max(rewards[1:]) > rewards[0]  # it learns what it is told to
    assert f"`seqcredit export {run} FOLDER` writes a folder that from_pretrained loads" in shown
    command("export", run, tmp_path / "out")
    command("export", run, tmp_path / "merged", "--merged")
    loaded = AutoPeftModelForCausalLM.from_pretrained(tmp_path / "out")  # it knows which model they belong to
    whole = AutoModelForCausalLM.from_pretrained(tmp_path / "merged").state_dict()
    parts = loaded.merge_and_unload().state_dict()
    assert all(torch.allclose(parts[key], whole[key], atol=1e-6) for key in whole)
    assert (run / "short.py").exists()  # a run can be evaluated elsewhere
    command("resume", run)


def test_chats_and_what_cannot_be_trained(tmp_path: Path) -> None:
    read = tokenizer(closes=False)
    rows = [
        {"source": [{"role": "user", "content": row["source"]}], "target": row["references"][0]} for row in pairs(40)
    ]
    phase = Mle("mle", 0.01, optimizer="adam", updates=2, epochs=1)
    trained = sc.train(llama(len(read)), rows, algorithm=phase, tokenizer=read, out=tmp_path / "chat", say=None)
    split = trained.prepared.split("train")
    assert split.example(0).source.startswith("<user> ")
    assert split.example(0).source.endswith(" :")
    assert isinstance(trained.translate("two"), str)
    with pytest.raises(UserError, match="reads what its own tokenizer makes: give tokenizer="):
        sc.train(llama(len(read)), rows, say=None)
    with pytest.raises(UserError, match=r"data\[0\]: its source is 3, but it must be text, or messages of a chat"):
        sc.train(llama(len(read)), [{"source": 3, "target": "a"}] * 40, tokenizer=read, say=None)
    with pytest.raises(UserError, match="is not one of transformers: use `seqcredit export"):
        sc.train(LSTM(embedding=4, hidden=4), [("a", "b")] * 40, algorithm=phase, say=None).save_pretrained(
            tmp_path / "x"
        )


@adapters
def test_adapters_alone_learn_and_are_saved_as_such_or_merged(tmp_path: Path) -> None:
    read = tokenizer(closes=False)
    given = get_peft_model(
        llama(len(read)), LoraConfig(r=2, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    )
    plan = sc.AC(epochs=1, critic_epochs=1, critic_least=0.0, learning_rate=0.01)
    trained = sc.train(
        given, pairs(60), algorithm=plan, tokenizer=read, out=tmp_path / "run", longest_output=8, say=None
    )
    start, end = weights(tmp_path / "run", INITIAL), weights(tmp_path / "run", "critic")
    moved = {key for key, tensor in end.items() if not torch.equal(tensor, start[key])}
    assert any("lora_" in key for key in moved)
    assert all("lora_" in key or key.startswith(("critic.readout", "critic.common", "critic.pointer")) for key in moved)
    assert sc.load(tmp_path / "run").translate(HOURS) == trained.translate(HOURS)
    actor = trained.actor
    with torch.no_grad():
        for name, weight in actor.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=0.5)
    ids = torch.tensor([read("two six")["input_ids"]])
    with torch.no_grad():
        mine = actor.model(input_ids=ids).logits  # type: ignore[union-attr, operator]
    base = llama(len(read))  # as it was given
    for merged in (False, True):
        folder = trained.save_pretrained(tmp_path / f"saved-{merged}", merged=merged)
        files = {path.name for path in folder.iterdir()}
        whole = PeftModel.from_pretrained(base, folder) if not merged else AutoModelForCausalLM.from_pretrained(folder)
        assert ({"adapter_model.safetensors", "adapter_config.json"} <= files) is not merged
        assert ({"model.safetensors", "config.json", "generation_config.json"} <= files) is merged
        assert "tokenizer.json" in files
        assert ("These are adapters" in (folder / "README.md").read_text()) is not merged
        with torch.no_grad():
            theirs = whole.eval()(input_ids=ids).logits
        torch.testing.assert_close(theirs, mine, atol=1e-5, rtol=1e-4)
        assert any("lora" in key for key in whole.state_dict()) is not merged
        out = whole.generate(input_ids=ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False)
        text = read.decode(out[0, ids.shape[1] :], skip_special_tokens=True)
        assert text.split() == str(trained.translate("two six")).split()
    saved = json.loads((tmp_path / "saved-False" / "adapter_config.json").read_text())
    assert (saved["r"], saved["task_type"], saved["inference_mode"]) == (2, "CAUSAL_LM", True)


def stopping(after: int) -> Any:
    """A reward that breaks off after so many calls, as a kill would."""
    calls = itertools.count()

    def score(texts: list[str], references: list[list[str]]) -> list[float]:
        if next(calls) == after:
            raise KeyboardInterrupt
        pairs = zip(texts, references, strict=True)
        return [float(len(set(text.split()) & set(known[0].split()))) for text, known in pairs]

    return sc.rewards.TextReward(score, batched=True)


@pytest.mark.slow
@pytest.mark.parametrize(("make", "tau"), [(llama, 0.0), (t5, 0.04)])
def test_actor_and_critic_share_a_body(make: Any, tau: float, tmp_path: Path) -> None:
    """Half the weights; Q learns, the body by the actor alone; a broken run goes on bit for bit, and opens."""
    read = tokenizer(closes=make is t5)
    few = {"optimizer": "adam", "batch_size": 20, "updates": 3, "tau": tau, "target_rate": 0.1}
    phases = [Critic("critic", 0.01, **few), ActorCritic("joint", 0.01, keeps_start=False, **few)]
    given = {"algorithm": phases, "tokenizer": read, "longest_output": 8, "critic": "shared", "say": None}
    whole = sc.train(make(len(read)), pairs(60), reward=stopping(-1), out=tmp_path / "whole", **given)
    with pytest.raises(KeyboardInterrupt):
        sc.train(make(len(read)), pairs(60), reward=stopping(5), out=tmp_path / "broken", **given)
    assert not Run.open(tmp_path / "broken").phases_done()[1:]
    sc.train(make(len(read)), pairs(60), reward=stopping(-1), out=tmp_path / "broken", **given)
    start, critic, joint = (weights(tmp_path / "whole", name) for name in (INITIAL, "critic", "joint"))
    assert {key.split(".")[1] for key in critic if key.startswith("critic.")} == {"common", "pointer", "readout"}
    body = [key for key in start if key.startswith("actor.")]
    assert all(torch.equal(start[key], critic[key]) for key in body)  # the critic's phase leaves it alone
    assert any(not torch.equal(start[key], joint[key]) for key in body)
    assert critic["critic.readout.bias"].abs().max() > 0
    other = weights(tmp_path / "broken", "joint")
    assert all(torch.equal(tensor, other[key]) for key, tensor in joint.items())
    opened = load_critic(whole.run, whole.prepared)
    batch = collate(whole.prepared.split("valid"), np.array([0]))
    assert opened.score(opened.read(batch), batch.references[:, 0]).table().abs().max() > 0
    with pytest.raises(UserError, match="critic is 'shared': give a model; only one of transformers"):
        sc.train(LSTM(), [("a", "b")] * 40, critic="shared", say=None)


@pytest.mark.slow
def test_prompts_are_served(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By real requests: it writes, and has credit without references; what has no room is one sentence."""
    (tmp_path / "brief.py").write_text("def score(text, source):\n    return -abs(len(text) - len(source)) / 10\n")
    monkeypatch.syspath_prepend(tmp_path)
    read, model = tokenizer(closes=False), llama(len(tokenizer(closes=False)))
    model.config.max_position_embeddings = 14
    few = {"optimizer": "adam", "batch_size": 20, "updates": 2, "tau": 0.04}
    phases = [Critic("critic", 0.01, **few), ActorCritic("joint", 0.01, keeps_start=False, **few)]
    given = {"reward": importlib.import_module("brief").score, "algorithm": phases, "critic": "shared"}
    rows = [{"prompt": hour} for hour in HOURS * 8]
    trained = sc.train(model, rows, tokenizer=read, longest_output=8, out=tmp_path / "run", say=None, **given)
    served = Served(Desk(load_examiners([trained.run], trained.prepared, None, "cpu")))
    try:
        lines = served.post("/api/grow", run=0, source="two").text.splitlines()
        words = [json.loads(line)["word"] for line in lines]
        assert read.convert_tokens_to_string(words[:-1]).split() == str(trained.translate("two")).split()
        hypothesis = [word for word in words if word != "</s>"]
        (credit,) = served.post("/api/score", source="two", hypotheses=[hypothesis]).json()["subject"]["credits"]
        assert {"rewards", "q", "td", "value", "policy", "target"} <= credit.keys()
        assert "oracle" not in credit
        assert sum(credit["rewards"]) == credit["scores"][-1] - credit["scores"][0]
        size = len(read("two two two")["input_ids"])
        lines = served.post("/api/grow", run=0, source="two two two").text.splitlines()
        assert len(lines) <= 14 - size + 1
        for path, more in (("/api/grow", {"run": 0}), ("/api/score", {"hypotheses": [[]]})):
            answer = served.post(path, source="two " * 30, **more)
            assert (answer.status_code, "has positions for 14 tokens, and" in error(answer)) == (422, True)
    finally:
        served.close()


@adapters
def test_adapters_that_no_run_remembers_are_refused() -> None:
    def made(name: str = "default", **settings: Any) -> Any:
        return get_peft_model(llama(20), LoraConfig(r=2, target_modules=["q_proj"], **settings), adapter_name=name)

    assert json.loads(actor_options(made(task_type="CAUSAL_LM")).lora)["r"] == 2  # type: ignore[union-attr]
    with pytest.raises(UserError, match="LoRA with use_dora is not known here: leave it out"):
        actor_options(made(use_dora=True))
    with pytest.raises(UserError, match="LoRA with modules_to_save is not known here: leave it out"):
        actor_options(made(modules_to_save=["lm_head"]))
    with pytest.raises(UserError, match="A model has one adapter here, with peft's name for it, `default`"):
        actor_options(made("mine"))


def test_what_a_model_freezes_itself_is_no_obstacle(tmp_path: Path) -> None:
    """Positions of Marian and Pegasus are sines: they stay as they are, and everything else learns."""
    read = tokenizer()
    half = {"layers": 1, "attention_heads": 2, "ffn_dim": 16}
    sizes = {f"{side}_{key}": value for side in ("encoder", "decoder") for key, value in half.items()}
    ids = {"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": None}
    model = MarianMTModel(MarianConfig(vocab_size=len(read), d_model=16, max_position_embeddings=40, **sizes, **ids))
    fast = {"tokenizer": read, "longest_output": 8, "say": None}
    plan = AC(epochs=1, critic_epochs=1, critic_least=0.0)
    trained = sc.train(model, pairs(40), algorithm=plan, out=tmp_path / "run", **fast)
    assert sc.load(tmp_path / "run").translate(HOURS) == trained.translate(HOURS)
    model.lm_head.weight.requires_grad_(False)
    with pytest.raises(UserError, match="Some weights of MarianMTModel are frozen, which a run does not remember"):
        sc.train(model, pairs(40), algorithm=plan, **fast)


def test_what_has_no_references_is_not_learned_from() -> None:
    read, prompts = tokenizer(closes=False), [{"prompt": hour} for hour in HOURS * 8]

    def reward(text: str, source: str) -> float:
        return float(source in text)

    model = llama(len(read))
    for plan in (MLE(), sc.RAML(), sc.VAML()):
        with pytest.raises(UserError, match="learns from references, and these data have none: take one of AC, ERAC"):
            sc.train(model, prompts, reward=reward, algorithm=plan, tokenizer=read, say=None)
    with pytest.raises(UserError, match="bleu compares with references, and these data have none: give a reward"):
        sc.train(model, prompts, algorithm=AC(), tokenizer=read, say=None)
    with pytest.raises(
        UserError, match=r"reward is a function of \(text, references\), and these data have none: make"
    ):
        sc.train(model, prompts, reward=lambda text, references: 0.0, algorithm=AC(), tokenizer=read, say=None)
    with pytest.raises(UserError, match="valid has no references, and data has some: give valid references, too"):
        sc.train(model, pairs(40), valid=prompts, tokenizer=read, say=None)
    with pytest.raises(UserError, match=r"data\[1\] has no references, and others have"):
        sc.train(model, [pairs(1)[0], prompts[0]] * 20, tokenizer=read, say=None)


def test_what_cannot_be_read_is_said(tmp_path: Path) -> None:
    read = tokenizer(closes=False)
    with pytest.raises(UserError, match="LlamaModel predicts no tokens: load it by AutoModelForCausalLM"):
        sc.train(llama(len(read)).model, pairs(40), tokenizer=read, say=None)
    phase = Mle("mle", 0.01, optimizer="adam", updates=2, epochs=1)
    words = sc.train(LSTM(embedding=4, hidden=4), [("a", "b")] * 40, algorithm=phase, out=tmp_path / "words", say=None)
    with pytest.raises(UserError, match="was prepared by words, which is not how this model reads: give rows"):
        sc.train(llama(len(read)), words.run.data, tokenizer=read, say=None)
    trained = sc.train(llama(len(read)), pairs(40), algorithm=phase, tokenizer=read, out=tmp_path / "text", say=None)
    with pytest.raises(UserError, match="was prepared by a tokenizer of transformers, which is not how"):
        sc.train(LSTM(embedding=4, hidden=4), trained.run.data, say=None)
    with pytest.raises(UserError, match="translate takes a text or a list of texts, not"):
        trained.translate([[{"role": "user"}]])
    with pytest.raises(UserError, match="A source without tokens: a decoder-only model needs something to go on from"):
        trained.translate("")


def test_what_does_not_fit_is_said_before_there_is_a_run(tmp_path: Path) -> None:
    """Positions, vocabularies, devices: one sentence each, and no folder."""
    read, run = tokenizer(closes=False), tmp_path / "run"
    phase = Mle("mle", 0.01, optimizer="adam", updates=2, epochs=1)
    short = llama(len(read))
    short.config.max_position_embeddings = 20
    longest = max(len(read(row["source"])["input_ids"]) for row in pairs(40))
    given = {"algorithm": phase, "tokenizer": read, "out": run, "say": None}
    needed = f"positions for 20 tokens, and the split .* longest_output = 20 needs {longest + 20}: lower it, or leave"
    with pytest.raises(UserError, match=needed):
        sc.train(short, pairs(40), longest_output=20, **given)
    with pytest.raises(UserError, match=r"LlamaForCausalLM knows 99 tokens, and .* are needed: actor and critic have"):
        sc.train(llama(len(read)), pairs(40), critic=llama(99), **{**given, "algorithm": AC()})
    if not torch.cuda.is_available():
        with pytest.raises(UserError, match="device cuda: torch finds no such device here; give cpu"):
            sc.train(llama(len(read)), pairs(40), device="cuda", **given)
    assert not run.exists()
    fits = sc.train(short, pairs(40), longest_output=20 - longest, **given)
    assert isinstance(fits.translate(HOURS), list)


@pytest.mark.parametrize(
    ("name", "reads", "references", "expected"),
    [
        ("actor", "references", "own", 7 + 10),  # source, and all tokens of the longest reference but its eos
        ("critic", "both", "own", 7 + 11 + 10),
        ("critic", "both", "all", 7 + 11 + 3 + 10),
        ("critic", "source", "all", 7 + 10),
    ],
)
def test_positions_that_are_needed(name: str, reads: Any, references: Any, expected: int) -> None:
    recipe = Recipe("r", (Mle("mle", 0.01),), payoff=Payoff(references=references), longest_output=5)
    split = Split("train", Path(), unread([4, 7]), unread([1, 10, 2]), np.array([0, 1, 3]))
    options = replace(HuggingFace.of(llama(20)), reads=reads)
    assert options.positions == 2048
    assert _longest(options, name, recipe, split) == expected
    both = replace(HuggingFace.of(t5(20)), reads=reads)
    assert both.positions is None
    assert _longest(both, name, recipe, split) == max(expected - 10, 12)  # one half reads, the other writes
    sampling = replace(recipe, phase=(Critic("c", 0.01, extra_length=5),))
    assert _longest(options, name, sampling, split) == expected + 4  # samples may be longer: 15 tokens with their eos


def test_weights_are_whole_and_the_given_model_stays(tmp_path: Path) -> None:
    """A model in bfloat16 is trained in float32, by AC too, and goes on as gently as it began."""
    read = tokenizer(closes=False)
    given = llama(len(read)).bfloat16().train()
    plan = AC(epochs=1, critic_epochs=1, critic_least=0.0)
    trained = sc.train(given, pairs(40), algorithm=plan, tokenizer=read, out=tmp_path / "a", longest_output=8, say=None)
    assert {weight.dtype for weight in trained.actor.parameters()} == {torch.float32}
    assert given.training
    assert {weight.dtype for weight in given.parameters()} == {torch.bfloat16}
    again = sc.train(trained, pairs(40), algorithm=plan, out=tmp_path / "b", longest_output=8, say=None)
    rates = [[phase.learning_rate for phase in one.run.recipe.phase] for one in (trained, again)]
    assert rates[0] == rates[1] == [pytest.approx(0.0001), pytest.approx(0.000025)]


@pytest.mark.slow
def test_commands_on_such_a_run(tmp_path: Path, capsys: Any) -> None:
    """inspect, headroom, compare, evaluate and translate know the model's alphabet."""
    read, make = tokenizer(), t5
    fast = {"tokenizer": read, "say": None, "longest_output": 10}
    mle = sc.train(
        make(len(read)),
        pairs(300),
        test=pairs(30, 1),
        algorithm=MLE(epochs=8, learning_rate=0.01),
        out=tmp_path / "mle",
        **fast,
    )
    plan = sc.ERAC(epochs=1, critic_epochs=1, critic_least=0.0, learning_rate=0.001, critic_learning_rate=0.005)
    sc.train(mle, pairs(300), test=pairs(30, 1), algorithm=plan, out=tmp_path / "erac", **fast)
    runs = tmp_path / "mle", tmp_path / "erac"
    command("compare", *runs)
    command("headroom", runs[1], "--samples", 2)
    command("evaluate", runs[1], "--beam", 2)
    command("inspect", runs[1], "--count", 3, "--out", tmp_path / "page.html")
    assert (tmp_path / "page.html").exists()
    (examiner,) = load_examiners([Run.open(runs[1])], mle.prepared, None, "cpu")
    batch, known = typed_batch(examiner, "two", ["it is two o'clock"])
    (credit,) = judge_words(examiner, batch, known, [known])
    assert credit.words[-1] == "</s>"
    assert credit.bleu == pytest.approx(100)
    assert credit.scores is not None
    assert credit.rewards is not None
    assert credit.q is not None
    assert sum(credit.rewards) == pytest.approx(credit.scores[-1] - credit.scores[0], abs=1e-4)
    assert credit.scores[-1] == pytest.approx(len(credit.words) - 1)  # BLEU of all pieces, times their number
    assert max(credit.logp) <= 0
    assert not {"<pad>", "<extra>"} & {one.word for state in credit.policy for one in state}
    (tmp_path / "two.txt").write_text("two\n")
    capsys.readouterr()
    command("translate", runs[1], tmp_path / "two.txt")
    assert capsys.readouterr().out.strip() == sc.load(runs[1]).translate("two", beam=1)
    with pytest.raises(SystemExit):
        main(["translate", str(runs[1]), str(tmp_path / "two.txt"), "--replace-unknown"])
    assert "writes no unknown words: leave out --replace-unknown" in capsys.readouterr().err


@pytest.mark.parametrize("decoder_only", [False, True])
def test_a_transformer_of_ours_is_trained_by_name(decoder_only: bool, tmp_path: Path) -> None:
    rows = [(row["source"], row["references"][0]) for row in pairs(200)]
    small = Transformer(width=16, layers=1, heads=2, decoder_only=decoder_only)
    plan = AC(epochs=1, critic_epochs=1, mle_epochs=2, mle_learning_rate=0.01)
    trained = sc.train(small, rows, algorithm=plan, out=tmp_path / "run", say=None)
    written = (tmp_path / "run" / "resolved.toml").read_text()
    assert 'kind = "transformer"' in written
    assert f"decoder_only = {str(decoder_only).lower()}" in written
    assert sc.load(tmp_path / "run").translate(HOURS) == trained.translate(HOURS)


def test_options_of_actors_and_critics() -> None:
    small = LSTM(8, 10)
    assert actor_options(small) is small
    assert critic_options(small, None, True) == LSTM(8, 10, attention="mlp", dropout=0.0, copy=64, dueling=True)
    ours = Transformer(width=16, heads=2)
    assert critic_options(ours, None, True) == Transformer(width=16, heads=2, dropout=0.0)
    assert critic_options(ours, small, True) is small
    for make, with_references in ((t5, "references"), (llama, "both")):
        options = actor_options(make(20))
        assert isinstance(options, HuggingFace)
        for references, reads in ((True, with_references), (False, "source")):
            judge = critic_options(options, None, references)
            given = critic_options(ours, make(20), references)
            assert isinstance(judge, HuggingFace)
            assert isinstance(given, HuggingFace)
            assert (judge.reads, given.reads, judge.config) == (reads, reads, options.config)
    with pytest.raises(UserError, match="critic must be options, such as"):
        critic_options(small, torch.nn.Linear(2, 2), True)


def test_who_can_be_made_again() -> None:
    module = torch.nn.Linear(2, 2)
    assert as_pretrained(module) is None
    assert as_pretrained(t5(20)) is not None
    assert [is_own(model) for model in (LSTM(), Transformer(), t5(20), module, lambda a, b: module)] == [
        False,
        False,
        False,
        True,
        True,
    ]


def test_rates_of_a_pretrained_model_are_gentle_unless_given() -> None:
    assert MLE().gentle().learning_rate == pytest.approx(0.0001)
    assert MLE(learning_rate=0.01).gentle().learning_rate == 0.01
    gentle = AC(critic_learning_rate=0.5).gentle()
    assert (gentle.learning_rate, gentle.critic_learning_rate) == (pytest.approx(0.0005 / 20), 0.5)
