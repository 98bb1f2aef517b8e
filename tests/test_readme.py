"""The README's code runs and does what it says, and its commands exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def test_commands_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"`?make (\w+)", README):
        assert f"\n{target}:" in makefile


def test_every_command_of_the_readme_is_one() -> None:
    from seqcredit.cli import _named

    for word in re.findall(
        r"seqcredit ([a-z]+)\b", "\n".join(re.findall(r"```\n(.*?)```|`(seqcredit [^`]+)`", README, re.DOTALL)[0])
    ):
        assert word in _named(), word
