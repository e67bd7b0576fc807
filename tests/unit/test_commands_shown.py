"""Every ``reprokit COMMAND`` that documents, messages, help texts and comments show exists, with the options shown."""

from __future__ import annotations

import ast
import io
import re
import shlex
import tokenize
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from reprokit.cli import COMMANDS, cli
from tests.unit.test_docs import DOCUMENTS, ENGLISH_ONLY, FENCE, chinese

ROOT = Path(__file__).parents[2]
PAGES = [*DOCUMENTS, *map(chinese, DOCUMENTS), *ENGLISH_ONLY]
SOURCES = sorted((ROOT / "reprokit").rglob("*.py"))
INLINE = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
QUOTED = re.compile(r"(?:[`'\"]|\$ )(reprokit [a-z-][^`'\"\n]*)")
"""A command in a message or comment: behind a quote, a backtick or a prompt. Anything else is a sentence."""
OTHERS = {"--filter", "--extra", "--upgrade-package", "--reprokit", "--lf", "--dist", "--cache-from", "--tb"} | {
    "--gres",
    "--no-requeue",
    "--export",
}
"""Options of other programs that pages show alone."""


def unknown(shown: str) -> str:
    """What of a command line does not exist: the command, or options; '' if all of it does."""
    try:
        words = shlex.split(shown, comments=True)
    except ValueError:  # cut within a quotation
        words = shown.split()
    words = words[: words.index("--")] if "--" in words else words
    command: click.Command = cli
    rest = words[1:]
    while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
        if not re.fullmatch(r"[a-z][a-z-]*", rest[0].rstrip(",.:;)")):
            return ""  # a placeholder, such as X or ...
        name = rest[0].rstrip(",.:;)")
        found = command.get_command(click.Context(command), name)
        if found is None:
            return name
        command, rest = found, rest[1:]
    known = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"-h", "--help"}
    used = {word.partition("=")[0].rstrip(",.:;)") for word in rest if re.match(r"--?[a-z]", word)}
    return " ".join(sorted(used - known))


def of_page(path: Path) -> Iterator[str]:
    """The commands of a page: what is typed in its consoles, and code within its sentences."""
    text = path.read_text(encoding="utf-8")
    for _, language, body in FENCE.findall(text):
        if language == "console":
            lines = [line[2:] for line in body.splitlines() if line.startswith("$ ")]
            yield from (part for line in lines for part in parts(line))
    for code in INLINE.findall(FENCE.sub("", text)):
        yield from parts(code)


def parts(line: str) -> Iterator[str]:
    """The commands of a line that begin with ``reprokit``, without variables and installers before them."""
    for part in re.split(r"[;&|]+(?=\s)", re.sub(r"\s#\s.*", "", line)):
        command = re.sub(r"^(?:\w+=\S* )*", "", part.strip())
        command = re.sub(r"^(?:uvx|pipx run)(?: --(?:from|spec) \S+)? reprokit\S*", "reprokit", command)
        if command.split()[:1] == ["reprokit"]:
            yield command


def of_source(path: Path) -> Iterator[tuple[int, str]]:
    """The commands of a module's strings, docstrings included, and of its comments, with their lines."""
    text = path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, shown) for shown in QUOTED.findall(node.value))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield from ((token.start[0], shown) for shown in QUOTED.findall(token.string))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_show_commands_that_exist(path: Path) -> None:
    assert [f"{shown}: {wrong}" for shown in of_page(path) if (wrong := unknown(shown))] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_options_that_stand_alone_are_of_some_command(path: Path) -> None:
    known = {name for each in options(cli) for name in (*each.opts, *each.secondary_opts)}
    codes = INLINE.findall(FENCE.sub("", path.read_text(encoding="utf-8")))
    alone = {re.split(r"[ =]", code)[0] for code in codes if re.match(r"--[a-z]", code)}
    assert alone <= known | OTHERS


def test_every_option_is_on_a_page() -> None:
    """But ``integrate github comment --result``: only our own workflow has that."""
    pages = "\n".join(path.read_text(encoding="utf-8") for path in DOCUMENTS)
    shown = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", pages))
    missing = {each.opts[-1] for each in options(cli) if not shown & {*each.opts, *each.secondary_opts}}
    assert missing == {"--result"}


@pytest.mark.system
def test_messages_and_comments_show_commands_that_exist() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {shown}: {missing}"
        for path in SOURCES
        for line, shown in of_source(path)
        if (missing := unknown(shown))
    ]
    assert wrong == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_commands_that_exist(name: str) -> None:
    command = _command(name)
    lines = "\n".join([command.help or "", command.epilog or ""]).replace("\\\n", " ").splitlines()
    shown = [one for line in lines for one in parts(line.strip().removeprefix("Example: "))]
    assert [f"{one}: {wrong}" for one in shown if (wrong := unknown(one))] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_targets_of_make_exist(path: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"(?:`|\$ )make ([a-z-]+)", path.read_text(encoding="utf-8"))) <= targets


@pytest.mark.parametrize(
    ("shown", "wrong"),
    [
        ("reprokit pack", "pack"),
        ("reprokit gc --budget 20G", ""),
        ("reprokit run CASE --fix", ""),
        ("reprokit run CASE --fixed", "--fixed"),
        ("reprokit integrate github run-cells", ""),
        ("reprokit integrate github run-sells", "run-sells"),
        ("reprokit new -- python train.py --epochs 1", ""),
        ("reprokit --help", ""),
    ],
)
def test_what_does_not_exist_is_found(shown: str, wrong: str) -> None:
    assert unknown(shown) == wrong


def options(command: click.Command) -> Iterator[click.Option]:
    """All options of a command and of those below it."""
    if isinstance(command, click.Group):
        for name in command.list_commands(click.Context(command)):
            found = command.get_command(click.Context(command), name)
            assert found is not None
            yield from options(found)
    yield from (each for each in command.params if isinstance(each, click.Option) and not each.hidden)


def _command(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    assert command is not None
    return command
