"""`seqcredit plot credit`: the credit of every token of an output, as a heat map."""

import math
import textwrap
from pathlib import Path

from seqcredit.inspect.subjects import Subject
from seqcredit.results.plots import ink, load_pyplot, save

DIVERGING = ("reward", "advantage")  # quantities of which zero is the middle


def credit(subject: Subject, path: Path) -> None:
    """Tokens by quantities; every row has its own scale, and that of rewards and advantages has zero in its middle."""
    shown = subject.credits[0]
    quantities = {
        "reward": shown.rewards,
        "Q": shown.q,
        "value": shown.value,
        "advantage": shown.advantage,
        "entropy": shown.entropy,
        "probability": [math.exp(logp) for logp in shown.logp],
    }
    count, names = len(shown.words), list(quantities)
    size = (max(6.0, 0.62 * count + 1.6), 0.42 * len(names) + 1.9)
    figure, panels = load_pyplot().subplots(len(names), 1, figsize=size)
    figure.get_layout_engine().set(h_pad=0.01, hspace=0)
    for panel, name in zip(panels, names, strict=True):
        values = quantities[name] or []
        largest = max(map(abs, values)) or 1.0
        low, high = (-largest, largest) if name in DIVERGING else (min(0.0, *values), max(values))
        colours = "PuOr" if name in DIVERGING else "cividis"
        image = panel.imshow([values], cmap=colours, aspect="auto", vmin=low, vmax=high)
        for c, value in enumerate(values):
            text = f"{round(value, 2) + 0.0:.2f}"
            panel.text(c, 0, text, ha="center", va="center", fontsize=8, color=ink(image, value))
        panel.set_yticks([0], [name])
        panel.set_xticks([])
        panel.tick_params(length=0)
        for side in panel.spines.values():
            side.set_visible(False)
    panels[-1].set_xticks(range(count), shown.words, rotation=45, ha="right", rotation_mode="anchor")
    width = int(size[0] * 15)
    said = (("source", subject.source), ("reference", subject.references[0]))
    text = "\n".join("\n    ".join(textwrap.wrap(f"{name}: {words}", width)) for name, words in said)
    panels[0].set_title(text, loc="left", fontsize=9)
    save(figure, path)
