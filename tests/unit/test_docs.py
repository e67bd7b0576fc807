"""The documents in English and Chinese say the same, and name commands, options and files that there are."""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from reprokit.cli import COMMANDS, cli

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").glob("*.md") if ".zh-CN" not in path.name)]
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def chinese(path: Path) -> Path:
    return path.with_suffix(".zh-CN.md")


def blocks(path: Path) -> list[tuple[str, str]]:
    """The fenced blocks with their language, without comments, which are in the reader's."""
    return [
        (language, "\n".join(re.sub(r"\s+#\s.*", "", line) for line in body.splitlines()))
        for _, language, body in FENCE.findall(path.read_text(encoding="utf-8"))
    ]


def outline(path: Path) -> list[str]:
    """What each line outside of fences is, as far as it is not plain text: a heading of a level, a row of a table."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return re.findall(r"^(?:#+(?= )|[|-])", text, re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The addresses of a document's headings, as GitHub makes them."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_both_languages_show_the_same(path: Path) -> None:
    assert blocks(chinese(path)) == blocks(path)
    assert outline(chinese(path)) == outline(path)


@pytest.mark.parametrize("path", [*DOCUMENTS, *map(chinese, DOCUMENTS)], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if not target.startswith("https://"):
            name, _, anchor = target.partition("#")
            there = path.parent / name if name else path
            assert there.exists(), f"{path.name}: {target}"
            assert not anchor or anchor in anchors(there), f"{path.name}: {target}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_the_commands_that_are_shown_exist_with_their_options(path: Path) -> None:
    lines = [line for language, body in blocks(path) if language == "console" for line in body.splitlines()]
    shown = [part for line in lines if line.startswith("$ ") for part in re.split(r"[;&|]+", line[2:])]
    found = [words for words in map(str.split, shown) if words[:1] == ["reprokit"]]
    assert found
    for words in found:
        assert words[1] in COMMANDS, words
        command = cli.get_command(click.Context(cli), words[1])
        assert command is not None
        known = {name for each in command.params for name in each.opts} | {"--help"}
        own = words[2 : words.index("--")] if "--" in words else words[2:]
        used = {word.partition("=")[0] for word in own if re.match(r"--?[a-z]", word)}
        assert used <= known, f"{path.name}: {' '.join(words)}: {used - known}"
