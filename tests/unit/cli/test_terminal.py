"""Everything to a terminal goes through one exit, and nothing of what comes from outside acts on it."""

from __future__ import annotations

import ast
import io
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reprokit
from reprokit.cli import invoke
from reprokit.cli.display.live import console, print_table
from reprokit.cli.display.output import Output
from reprokit.cli.display.plain import PlainListener
from reprokit.core.terminal import echo, plain, shown, style, visible
from tests.unit.nights import Nights

ATTACKS = {
    "clear": "\x1b[2J",
    "title": "\x1b]0;pwned\x07",
    "link": "\x1b]8;;https://evil.example\x1b\\here",
    "clipboard": "\x1b]52;c;cHduZWQ=\x07",
    "report": "\x1b[6n",
    "hidden": "\x1b[8m",
    "colour": "\x1b[31m",
    "up": "\x1b[5A\x1b[K",
    "alternate": "\x1b[?1049h",
    "device": "\x1bP+q544e\x1b\\",
    "c1-csi": "\x9b2J",
    "c1-osc": "\x9d0;pwned\x9c",
    "c1-next-line": "\x85",
    "backspace": "\x08" * 8,
    "return": "\rok",
    "bell": "\x07",
    "delete": "\x7f",
    "nul": "\0",
    "form-feed": "\x0c",
    "shift": "\x0e\x0f",
    "override": "\u202eexe.txt",
    "isolate": "\u2066x\u2069",
    "mark": "\u200f",
    "arabic-mark": "\u061c",
    "separator": "\u2028x",
    "zero-width": "\u200b",
    "joiner": "\u2060",
    "bom": "\ufeff",
    "tag": "\U000e0041",
    "annotation": "\ufff9x\ufffb",
    "half": "\udc9b",
}
ACTING = re.compile(
    "[\0-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f]"
)


class Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("name", ATTACKS)
def test_what_would_act_is_visible(name: str) -> None:
    attack = ATTACKS[name]
    for made in (visible(attack), shown(attack), plain(attack), click.unstyle(shown(style(attack, fg="red")))):
        assert not ACTING.search(made), made
    kept = "".join(c for c in attack if not ACTING.match(c))
    assert re.sub(r"\\(x..|u....|U........)", "", visible(attack)) == kept


@given(st.text())
def test_no_text_acts(text: str) -> None:
    assert not ACTING.search(shown(text))
    assert not ACTING.search(plain(text))


def test_what_people_write_stays() -> None:
    for text in ("café", "名称\u3000空格", "x\u00a0y", "👩\u200d💻", "a\tb\nc", "ñ", "العربية"):
        assert visible(text) == text
    assert visible("a\r\nb") == "a\nb"
    assert plain("10%\r20%\r\n\x1b[32mok\x1b[0m") == "10%\n20%\nok"


def test_our_colours_survive_and_those_of_others_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"{style('bold', bold=True)} and \x1b[1mnot\x1b[0m"
    terminal = Terminal()
    echo(text, file=terminal)
    assert terminal.getvalue() == "\x1b[1mbold\x1b[0m and \\x1b[1mnot\\x1b[0m\n"
    pipe = io.StringIO()
    echo(text, file=pipe)
    assert pipe.getvalue() == "bold and \\x1b[1mnot\\x1b[0m\n"
    forged = style("x", fg="red").replace(style("", fg="red")[1:17], "0" * 16)
    assert "\x1b" not in shown(forged)


@pytest.mark.parametrize("name", ATTACKS)
def test_a_program_that_is_shown_as_it_runs_does_not_act(name: str) -> None:
    stream = Terminal()
    listener = PlainListener(Output(stream), verbose=True)
    attack = f"before {ATTACKS[name]} after".encode("utf-8", "surrogatepass")
    listener.output(1, attack + b"\n")
    listener.build_output([1], attack.decode("utf-8", "replace"))
    listener.note(attack.decode("utf-8", "replace"))
    assert not ACTING.search(stream.getvalue())
    assert all(line.startswith(("  #1 | ", "  build | ", "note: ", "")) for line in stream.getvalue().splitlines())


@pytest.mark.parametrize("name", ATTACKS)
def test_a_table_of_rich_holds_no_code_but_its_own(name: str, tmp_path: Path) -> None:
    nights = Nights(tmp_path / "s")
    cells = nights.run({"1": "R"}, reason=f"x{ATTACKS[name].encode('utf-8', 'replace').decode()}y").cells
    for width in (40, 100, 10_000):
        own = console(io.StringIO(), width)
        print_table(own, cells)
        own.print(f"raw {ATTACKS[name]}", markup=False)
        assert not ACTING.search(own.file.getvalue())  # type: ignore[attr-defined]


COMMANDS = [
    ["show"], ["show", "last", "1"], ["show", "last", "1", "--log"], ["show", "last", "--json"],
    ["history"], ["history", "nightly"], ["history", "--since", "2025-01-01"],
    ["list"], ["store", "rejudge", "--all"], ["show", "--why", "last"], ["diff", "last:1", "last:2"],
    ["report", "--format", "gha", "-o", "-"], ["store", "merge", "store", "--store", "other"],
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_record_that_would_act_is_shown_without_acting(
    command: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    nights = Nights(tmp_path / "store")
    attack = "".join(ATTACKS.values()).encode("utf-8", "replace").decode()
    for states in ({"1": "N", "2": "R"}, {"1": "R", "2": "R"}):
        nights.run(states, reason=f"reason {attack}", case_path=f"path {attack}.yaml", repeat=attack)
    (tmp_path / "store/runs/none.log").write_text(f"log {attack}\n")
    nights.store.close()
    with closing(sqlite3.connect(tmp_path / "store" / "reprokit.db")) as connection:
        connection.execute("UPDATE runs SET host = json_set(host, '$.engine', ?)", (f"Docker {attack}",))
        connection.execute("UPDATE cells SET dockerfile = ?", (f"FROM {attack}",))
        connection.commit()
    invoke([*command, *(["--store", "store"] if "--store" not in command else [])])
    printed = capsys.readouterr()
    assert printed.out + printed.err
    assert not ACTING.search(printed.out + printed.err)


PLACES = {
    "title": "title: '{}'", "id": "id: '{}'", "key": "'{}': x", "axis": "matrix: {{'{}': ['1']}}",
    "value": "matrix: {{os: ['{}']}}", "env": "env: {{'{}': x}}", "pip": "environment: {{pip: ['{}']}}",
}  # fmt: skip


@pytest.mark.parametrize("command", ["validate", "matrix"])
@pytest.mark.parametrize("place", PLACES)
def test_a_case_that_would_act_is_shown_without_acting(
    place: str, command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    texts = {"schema": "schema: reprokit/v1", "id": "id: x", "title": "title: t", "command": "command: 'true'"}
    for attack in ("\u202eexe", "\u2066x", "\u200f", "\x85", "\U000e0041"):  # what YAML lets through
        texts[place] = PLACES[place].format(attack)
        name = f"c{attack}.yaml".replace("\x85", "-")
        Path(name).write_text("\n".join(texts.values()) + "\n", encoding="utf-8")
        invoke([command, name])
        printed = capsys.readouterr()
        assert not ACTING.search(printed.out + printed.err)


def test_an_option_that_would_act_is_shown_without_acting(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (
        ["show", "\x1b[2J"],
        ["\x1b[2J"],
        ["run", "--\x1b[2J"],
        ["run", "\x1b[2J.yaml"],
        ["run", "--jobs", "\x1b[2J"],
    ):
        assert invoke(words) == 2
        assert not ACTING.search("".join(capsys.readouterr()))


ALLOWED = {
    "core/terminal.py",  # the exit
    "cli/display/live.py",  # Rich's, whose texts go through it
    "environment/probe_inside.py",  # run in an image
    "run/hashes_inside.py",
    "run/symbols_inside.py",
    "intake/collect.py",  # run in any Python of a reporter
    "engine/venv/inside.py",
    "engine/gpus/nvml.py",  # a process of its own, for the one that reads it
    "engine/gpus/xids.py",
}
PRINTERS = {"echo", "secho", "style", "echo_via_pager", "prompt", "confirm", "print_exc", "print_exception"}


NAMED = ("print", "Console(", "stdout.write", "stderr.write", ".echo", ".secho", ".style(", ".prompt(", ".confirm(")
"""One of these is in every text that does so."""


def _goes_round(node: ast.AST) -> bool:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("print", "Console", "pprint")
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        on = ast.unparse(node.func.value)
        if on in ("click", "traceback", "rich") and node.func.attr in (*PRINTERS, "print"):
            return on != "click" or node.func.attr != "prompt"
        return on in ("sys.stdout", "sys.stderr") and node.func.attr in ("write", "writelines")
    return False


def test_nothing_prints_round_the_exit() -> None:
    root = Path(reprokit.__file__).parent
    found = []
    for path in sorted(root.rglob("*.py")):
        text = path.read_text()
        if str(path.relative_to(root)) not in ALLOWED and any(word in text for word in NAMED):
            tree = ast.parse(text)
            found += [f"{path.relative_to(root)}:{node.lineno}" for node in ast.walk(tree) if _goes_round(node)]  # type: ignore[attr-defined]
    assert found == []
