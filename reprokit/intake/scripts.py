"""Programs and configuration that a report quotes: which of them are complete, and their file names. Pure."""

from __future__ import annotations

import ast
import builtins
import json
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

from reprokit.intake.pieces import ReportPiece

_PYTHON = frozenset({"python", "py", "python3", "py3", "pycon", "ipython", "python-console", "jupyter"})
_CONSOLE = re.compile(r"^\s*(?:>>> ?|\.\.\. ?)", re.MULTILINE)
_CELL = re.compile(r"^\s*In \[\d*\]: ?", re.MULTILINE)
_FILE_NAME = re.compile(
    r"(?<![\w/.])(?P<path>(?:[\w-]+/)*[\w-]+\.(?:py|ya?ml|json|ini|cfg|toml|sh|cu|cpp|cc|c))(?![\w/])"
)
_REPRODUCE = re.compile(
    r"reproduc|repro\b|minimal|example|snippet|script|code|command|to run|test case|how to|steps|复现|重现|代码"
    r"|脚本|命令"
    r"|指令|示例|运行",
    re.IGNORECASE,
)
_CONFIGS = {"yaml": "yaml", "yml": "yaml", "json": "json", "ini": "ini", "cfg": "ini", "toml": "toml"}
_C = {"c": ".c", "cpp": ".cpp", "c++": ".cpp", "cc": ".cc", "cxx": ".cxx", "cuda": ".cu", "cu": ".cu"}
MOST = 200_000
"""Most characters of a program that is parsed; no one pastes more as an example."""


@dataclass(frozen=True, kw_only=True)
class Script:
    """A program that can be run unchanged. ``name``: its file; ``imports``: top-level names, in their order.

    ``named``: the name comes from the report. ``score``: how likely it is the example; higher is more likely.
    """

    name: str
    text: str
    piece: ReportPiece
    imports: tuple[str, ...] = ()
    named: bool = False
    score: int = 0
    undefined: tuple[str, ...] = ()
    """Names that it uses but does not define: it is part of a larger program."""


@dataclass(frozen=True, kw_only=True)
class Config:
    """A piece of configuration. ``name``: its file in the report, '' where that names none."""

    kind: str
    name: str
    piece: ReportPiece


def programs(pieces: Sequence[ReportPiece]) -> list[Script]:
    """The Python programs among the pieces, the most likely example first, without code that only defines something."""
    found = [program for piece in pieces if piece.code and (program := _program(piece))]
    return sorted(found, key=lambda program: (-program.score, program.piece.line))


def _program(piece: ReportPiece) -> Script | None:
    if len(piece.text) > MOST or not (piece.info in _PYTHON or piece.info in ("", "text") or piece.kind == "console"):
        return None
    text = _source(piece)
    tree = _parsed(text)
    if tree is None or not tree.body:
        return None
    imports = _imports(tree)
    calls = any(isinstance(node, (ast.Expr, ast.Assign, ast.With, ast.For, ast.If, ast.Try)) for node in tree.body)
    acts = any(isinstance(node, ast.Call) for statement in tree.body for node in ast.walk(statement))
    typed = bool(_CONSOLE.search(piece.text))
    if not ((acts and calls) or (typed and imports)) or (piece.info not in _PYTHON and not imports):
        return None
    name = _named(piece, (".py",))
    undefined = _undefined(tree)
    score = (
        4 * bool(imports) + 2 * bool(_REPRODUCE.search(piece.under)) + bool(piece.info in _PYTHON) - 4 * bool(undefined)
    )
    return Script(
        name=name or "repro.py",
        text=text.strip("\n") + "\n",
        piece=piece,
        imports=imports,
        named=bool(name),
        score=score,
        undefined=undefined,
    )


def _source(piece: ReportPiece) -> str:
    """The program in a piece: only the typed lines where it is the text of a console."""
    text = piece.text
    if _CELL.search(text) and not _CONSOLE.search(text):
        text = _CELL.sub(">>> ", re.sub(r"^\s*\.\.\.: ?", "... ", text, flags=re.MULTILINE))
    if not _CONSOLE.search(text):
        return text
    return "\n".join(_CONSOLE.sub("", line) for line in text.split("\n") if _CONSOLE.match(line))


def _parsed(text: str) -> ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _undefined(tree: ast.Module) -> tuple[str, ...]:
    """The names that a program uses and never binds, in order; () where it has an ``import *``."""
    used: dict[str, None] = {}
    bound = set(dir(builtins)) | {"__file__", "__name__", "__doc__"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.setdefault(node.id)
        elif isinstance(node, ast.Name):
            bound.add(node.id)
        elif isinstance(node, ast.alias):
            if node.name == "*":
                return ()
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            bound.update(node.names)
        elif isinstance(node, (ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
    return tuple(name for name in used if name not in bound)


def _imports(tree: ast.Module) -> tuple[str, ...]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module.partition(".")[0])
    return tuple(dict.fromkeys(name for name in names if name not in sys.stdlib_module_names))


def compiled(pieces: Sequence[ReportPiece]) -> list[Script]:
    """The C, C++ and CUDA programs among the pieces: code with a ``main`` or an ``#include``."""
    found = []
    for piece in pieces:
        suffix = _C.get(piece.info)
        if suffix and len(piece.text) <= MOST and re.search(r"^\s*#\s*include\b|\bmain\s*\(", piece.text, re.MULTILINE):
            name = _named(piece, tuple(_C.values()))
            score = 2 * bool(_REPRODUCE.search(piece.under)) + 2 * bool(re.search(r"\bmain\s*\(", piece.text))
            found.append(
                Script(
                    name=name or f"repro{suffix}",
                    text=piece.text.strip("\n") + "\n",
                    piece=piece,
                    named=bool(name),
                    score=score,
                )
            )
    return sorted(found, key=lambda program: (-program.score, program.piece.line))


def configs(pieces: Sequence[ReportPiece]) -> list[Config]:
    """The configuration snippets: fenced as such, or with a file's name and its syntax."""
    found = []
    for piece in pieces:
        kind = _CONFIGS.get(piece.info, "")
        name = _named(piece, (".yaml", ".yml", ".json", ".ini", ".cfg", ".toml"))
        if not kind and name and piece.kind in ("fenced", "indented") and piece.info in ("", "text"):
            kind = _CONFIGS[name.rpartition(".")[2]]
        if kind and _is(kind, piece.text):
            found.append(Config(kind=kind, name=name, piece=piece))
    return found


def _is(kind: str, text: str) -> bool:
    if len(text) > MOST:
        return False
    if kind == "json":
        try:
            json.loads(text)
        except (ValueError, RecursionError):
            return False
        return True
    return bool(re.search(r"^\s*[\w.\"'-]+\s*[:=]|^\s*\[[\w.-]+\]|^\s*- ", text, re.MULTILINE))


def _named(piece: ReportPiece, suffixes: tuple[str, ...]) -> str:
    """The file name of a piece in the report: on the line before it, in its heading, or in its first comment; or ''."""
    first = piece.text.partition("\n")[0]
    comment = first[:200] if re.match(r"\s*(?:#|//|/\*|;)", first) else ""
    # A long heading is about the bug rather than about the file.
    for text in (
        comment,
        piece.lead if len(piece.lead) < 120 else "",
        piece.heading if len(piece.heading) < 40 else "",
    ):
        names = [hit["path"] for hit in _FILE_NAME.finditer(text) if hit["path"].endswith(suffixes)]
        if len(set(names)) == 1:
            return names[0]
    return ""
