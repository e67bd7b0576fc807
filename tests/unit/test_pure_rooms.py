"""The rooms below ``store`` compute: they start no process, open no connection, handle no signal and write no file.

``core`` alone has atomic files, locks, HTTP, the confined child and the terminal, for the rooms above it.
And data between functions are records, in all rooms: one that takes or gives a dict of anything handles JSON of others.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "reprokit"
PURE = ("case", "environment", "evidence")
MODULES = {"subprocess", "socket", "ssl", "multiprocessing", "threading", "tempfile", "shutil", "asyncio"}
MODULES |= {"http", "httpx", "urllib.request", "pty", "fcntl", "ctypes", "sqlite3", "atexit"}
OF_CORE = {"fetch", "http_client", "github_api", "issues", "interrupts", "tty"}
"""Modules of ``core`` whose use would be an effect."""
METHODS = {"write_text", "write_bytes", "mkdir", "rmdir", "unlink", "touch", "symlink_to", "hardlink_to", "chmod"}
OF_OS = {"kill", "killpg", "system", "popen", "fork", "remove", "rename", "makedirs", "pipe", "open"}
INSIDE = "environment/probe_inside.py"
"""Runs inside an image, with the image's own Python."""


def effects(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            module = (node.module or "") if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                whole = f"{module}.{alias.name}" if module else alias.name
                if whole.partition(".")[0] in MODULES or whole in MODULES or module in MODULES:
                    yield f"imports {whole}"
                parts = whole.split(".")
                if parts[:2] == ["reprokit", "core"] and parts[2:3] and parts[2] in OF_CORE:
                    yield f"imports {whole}"
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            of, name = node.value.id, node.attr
            if (of == "signal" and name != "Signals") or (of == "os" and name in OF_OS):
                yield f"uses {of}.{name}"
        elif isinstance(node, ast.Call):
            function = node.func
            name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
            if isinstance(function, ast.Attribute) and name in METHODS:
                yield f"calls .{name}()"
            if name == "open" and any(mode in MODES for mode in _texts(node)):
                yield f"opens for writing: {ast.unparse(node)}"


MODES = {"r+", "r+b", "w+b", *(f"{one}{kind}{plus}" for one in "wax" for kind in ("", "b", "t") for plus in ("", "+"))}


def _texts(call: ast.Call) -> Iterator[object]:
    for value in (*call.args, *(keyword.value for keyword in call.keywords)):
        if isinstance(value, ast.Constant):
            yield value.value


@pytest.mark.parametrize("room", PURE)
def test_a_pure_room_has_no_effects(room: str) -> None:
    files = [path for path in sorted((PACKAGE / room).rglob("*.py")) if not path.as_posix().endswith(INSIDE)]
    assert len(files) > 10
    found = {str(path.relative_to(PACKAGE)): sorted(set(effects(ast.parse(path.read_text())))) for path in files}
    assert {path: what for path, what in found.items() if what} == {}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import subprocess", "imports subprocess"),
        ("def f():\n    from socket import create_connection", "imports socket.create_connection"),
        ("from reprokit.core import fetch", "imports reprokit.core.fetch"),
        ("signal.signal(1, f)", "uses signal.signal"),
        ("os.kill(1, 2)", "uses os.kill"),
        ("Path(x).write_text(y)", "calls .write_text()"),
        ("path.open('w+b', buffering=0)", "opens for writing: path.open('w+b', buffering=0)"),
        ("open(x, mode='a')", "opens for writing: open(x, mode='a')"),
    ],
)
def test_each_kind_of_effect_is_found(text: str, said: str) -> None:
    assert said in list(effects(ast.parse(text)))


def test_reading_and_the_names_of_signals_do_not_count() -> None:
    text = "import signal\nsignal.Signals(9).name\npath.open('rb')\nopen(x)\nPath(x).read_text()"
    assert list(effects(ast.parse(text))) == []


LOOSE = re.compile(r"(dict|Mapping)\[str, (Any|object)\]")
ALLOWED = {
    "case/[aces]*": "a case as YAML gives it, before it is checked, or as a draft is written; JSON Schema",
    "case/limits.py: *": "JSON of container engines",
    "case/model.py: *.*": "cells of a report, and a fix, as YAML gives them",
    "cli/*": "options by name, as click gives them; JSON Schema",
    "core/github_api.py: *": "JSON of GitHub",
    "engine/*: *": "JSON of container engines, of a kept virtual environment, and of the program that starts in one",
    "environment/[cfm]*": "JSON Schema; constants of frameworks",
    "environment/[ar]*": "what serves each axis, by its name: each axis has a type of its own",
    "evidence/build_causes.py: *": "texts of an output, by the names of groups of patterns",
    "evidence/records.py: *": "what a run and a search were asked, as they read it again",
    "evidence/spans.py: read_timings": "findings of a run, by key",
    "github/*: *.*": "an event and a matrix of GitHub, as it gives and takes them",
    "intake/*: *": "a draft of a case; tables of data; JSON of pip",
    "search/*": "cases as YAML gives them, what a search was asked, as it reads it again",
    "store/[dm]*: *": "findings of a run, by key",
}
"""Modules, functions and fields that may, and why. Let it shrink."""


def loose_names() -> Iterator[str]:
    """``MODULE: NAME`` of each function and field of a record, but for those that read and write JSON themselves."""
    trees = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}
    whole = [one for tree in trees.values() for one in tree.body if isinstance(one, (ast.Assign, ast.AnnAssign))]
    named = [one for one in whole if one.value and LOOSE.match(ast.unparse(one.value))]
    aliases = {ast.unparse(one.targets[0] if isinstance(one, ast.Assign) else one.target) for one in named}
    loose = re.compile("|".join([LOOSE.pattern, *(rf"\b{name}\b" for name in aliases)]))
    for path, tree in trees.items():
        module = path.relative_to(PACKAGE).as_posix()
        classes = [one for one in tree.body if isinstance(one, ast.ClassDef) and not one.name.startswith("_")]
        for one in (one for body in (tree.body, *(one.body for one in classes)) for one in body):
            if isinstance(one, ast.FunctionDef) and not one.name.startswith("_") and not one.name.endswith("_json"):
                given = (*one.args.posonlyargs, *one.args.args, *one.args.kwonlyargs)
                kinds = [each.annotation for each in given if each.annotation] + [one.returns or ast.Constant(None)]
                if any(loose.search(ast.unparse(each)) for each in kinds):
                    yield f"{module}: {one.name}"
        for record in classes:
            for field in (one for one in record.body if isinstance(one, ast.AnnAssign)):
                name = ast.unparse(field.target)
                if name[0] != "_" and loose.search(ast.unparse(field.annotation)):
                    yield f"{module}: {record.name}.{name}"


def test_only_json_of_others_is_a_dict_of_anything_between_functions() -> None:
    found = list(loose_names())
    rows = {
        one: [each for each in ALLOWED if fnmatch(one, each) or fnmatch(one.partition(":")[0], each)] for one in found
    }
    assert [one for one in found if not rows[one]] == [], "make it a record"
    assert {each for some in rows.values() for each in some} == set(ALLOWED), "a row is about nothing: remove it"
