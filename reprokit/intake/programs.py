"""Programs and files that a report shows in fences and consoles: their names, and what they lack. Pure."""

from __future__ import annotations

import ast
import builtins
import posixpath
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from reprokit.intake.pieces import ReportPiece, table

MOST = 200_000
"""Most characters of a program that is parsed; no one pastes more as an example."""
_CONSOLE = re.compile(r"^\s*(?:>>> ?|\.\.\. ?)", re.MULTILINE)
_TYPED = re.compile(r"^\s*>>>", re.MULTILINE)
_CELL = re.compile(r"^\s*In \[\d*\]: ?", re.MULTILINE)
_FILE_NAME = re.compile(r"(?<![\w/.])(?P<path>(?:[\w-]+/)*[\w-]+\.[a-z]\w{0,4})(?![\w/])")
_LOGGED = re.compile(r"Traceback \(most recent|^[ \t]*File \"|^\w{0,80}(?:Error|Exception)\b", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
_DESCRIBES = re.compile(
    r"(?:[ \t]*(?:(?:import|from)\s.*|#.*|\S{0,40}show_\w+\(\)"
    r"|print\s?\(?.*(?:version|platform|sys\.|show_|is_available|device).*)?(?:\n|\Z)){1,40}"
)
"""A program that only prints what is installed."""
_TESTS = re.compile(r"^(?:async )?def test_\w*\(|^class Test\w*\b.*:", re.MULTILINE)
_FRAME = re.compile(
    r'^[ \t]*File "(?P<file>[^"\n]{1,300})", line (?P<line>[0-9]{1,9}), in .{1,80}\n[ \t]*(?P<code>\S.{0,300})',
    re.MULTILINE,
)


@dataclass(frozen=True, kw_only=True)
class Language:
    """A row of ``data/languages.yaml``."""

    suffix: str
    infos: str
    start: str = ""
    sign: str = ""
    needs: str = ""


@cache
def languages() -> Mapping[str, Language]:
    """The name on a fence -> its language."""
    rows = [Language(suffix=suffix, **row) for suffix, row in table("languages").items()]
    return {info: language for language in rows for info in language.infos.split()}


@dataclass(frozen=True, kw_only=True)
class Script:
    """A program as the report shows it."""

    name: str
    """Of its file."""
    text: str
    piece: ReportPiece
    language: Language
    imports: tuple[str, ...] = ()
    """Top-level names, in their order."""
    named: bool = False
    """The name comes from the report."""
    undefined: tuple[str, ...] = ()
    """Names that it uses but does not define."""
    whole: bool = True
    """It is a program rather than a part of one."""
    ran: bool = False
    """A traceback of the report shows its lines."""

    @property
    def start(self) -> str:
        """The command that runs it; empty where a compiler, whose options only the report could name, comes first."""
        if self.language.suffix == ".py" and _TESTS.search(self.text) and "__main__" not in self.text:
            return f"python -m pytest {self.name}"
        return self.language.start.format(file=self.name)

    @property
    def missing(self) -> Iterator[str]:
        """What it lacks, one sentence each."""
        if self.undefined:
            more = f" and {len(self.undefined) - 6} more" if len(self.undefined) > 6 else ""
            yield f"{self.name} uses {', '.join(self.undefined[:6])}{more}, but does not define or import it."
        if not self.whole:
            yield f"{self.name} is a part of a program: complete it."
        if needs := self.language.needs:
            yield f"{self.name} needs {needs}: add it to environment.apt, or install it in environment.setup."


def find_scripts(pieces: Sequence[ReportPiece], *, stated: bool = False) -> list[Script]:
    """The programs among the pieces, in the order of the report; only ``stated`` ones may import and nothing else."""
    found = [program for piece in pieces if piece.code and (program := _python(piece, stated) or _other(piece))]
    frames = [hit for piece in pieces if piece.code for hit in _FRAME.finditer(piece.text[:MOST])]
    return [_name_by_traceback(one, frames) for one in found]


def _name_by_traceback(program: Script, frames: Sequence[re.Match[str]]) -> Script:
    """The program with the name of its file in a traceback, where that shows one of its lines under its number."""
    lines = program.text.split("\n")
    for frame in frames:
        at = int(frame["line"][:9])
        if 0 < at <= len(lines) and lines[at - 1].strip() == frame["code"].strip():
            name = posixpath.basename(frame["file"].replace("\\", "/"))
            fits = not program.named and re.fullmatch(r"[\w-]+\.py", name)
            return replace(program, name=name if fits else program.name, named=program.named or bool(fits), ran=True)
    return program


def _python(piece: ReportPiece, stated: bool) -> Script | None:
    language = languages()["python"]
    fenced = piece.info in language.infos.split()
    if len(piece.text) > MOST or not (fenced or piece.info in ("", "text", "console")):
        return None
    text, typed = _source(piece)
    tree = parse_python(text)
    if tree is None or not tree.body:
        return _script(piece, text, language, whole=False) if fenced and not _LOGGED.search(text) else None
    acts = any(isinstance(node, ast.Call) for node in ast.walk(tree))
    if (_DESCRIBES.fullmatch(text.strip()) and not stated) or not (fenced or typed or (acts and _imports(tree))):
        return None
    return replace(
        _script(piece, text, language, whole=acts or typed or bool(_TESTS.search(text))),
        imports=_imports(tree),
        undefined=_undefined_names(tree),
    )


def _other(piece: ReportPiece) -> Script | None:
    """A program in another language, by the name on its fence."""
    language = languages().get(piece.info)
    if language is None or language.suffix == ".py" or len(piece.text) > MOST or _LOGGED.search(piece.text):
        return None
    whole = bool(re.search(language.sign, piece.text, re.MULTILINE))
    return _script(piece, piece.text, language, whole=whole)


def _script(piece: ReportPiece, text: str, language: Language, *, whole: bool) -> Script:
    name = file_name_of(piece, (language.suffix,))
    tests = language.suffix == ".py" and _TESTS.search(text)
    return Script(
        name=name or f"{'test_' if tests else ''}repro{language.suffix}",
        text=text.strip("\n") + "\n",
        piece=piece,
        language=language,
        named=bool(name),
        whole=whole,
    )


_DATA = (".yaml", ".yml", ".json", ".ini", ".cfg", ".toml", ".csv", ".tsv", ".txt", ".xml", ".html", ".dat", ".in")


def data_files(pieces: Sequence[ReportPiece]) -> Iterator[tuple[str, ReportPiece]]:
    """(file name, piece) of fenced text that is data or configuration, and that the report names."""
    for piece in pieces:
        data = piece.kind == "fenced" and piece.info not in languages() and len(piece.text) <= MOST
        if data and (name := file_name_of(piece, _DATA)):
            yield name, piece


def file_name_of(piece: ReportPiece, suffixes: tuple[str, ...]) -> str:
    """The file name of a piece in the report: on the line before it, in its heading, or in its first comment; or ''."""
    first = piece.text.partition("\n")[0]
    comment = first[:200] if re.match(r"\s*(?:#|//|/\*|;)", first) else ""
    # A long heading is about the bug rather than about the file.
    short = (piece.lead if len(piece.lead) < 120 else "", piece.heading if len(piece.heading) < 40 else "")
    for text in (comment, *short):
        names = {hit["path"] for hit in _FILE_NAME.finditer(text) if hit["path"].endswith(suffixes)}
        if len(names) == 1:
            return names.pop()
    return ""


def _source(piece: ReportPiece) -> tuple[str, bool]:
    """(the program in a piece, whether it was typed into a console): only the typed lines where it was."""
    text = _CONTROL.sub("", piece.text)
    if _CELL.search(text) and ">>>" not in text:
        text = _CELL.sub(">>> ", re.sub(r"^\s*\.\.\.: ?", "... ", text, flags=re.MULTILINE))
    if not _TYPED.search(text):
        return text, False
    return "\n".join(_CONSOLE.sub("", line) for line in text.split("\n") if _CONSOLE.match(line)), True


def parse_python(text: str) -> ast.Module | None:
    """What a text says as Python; None for another text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


_BUILT_IN = frozenset({*dir(builtins), "__file__", "__name__", "__doc__"})


def _undefined_names(tree: ast.Module) -> tuple[str, ...]:
    """The names that a program uses and never binds, in order; () where it has an ``import *``."""
    bound: set[str] = set()
    used: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            used.setdefault(node.id)
        elif isinstance(node, ast.Name):
            bound.add(node.id)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
    return () if "*" in bound else tuple(name for name in used if name not in bound and name not in _BUILT_IN)


def _imports(tree: ast.Module) -> tuple[str, ...]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module.partition(".")[0])
    return tuple(dict.fromkeys(name for name in names if name not in sys.stdlib_module_names))


_INLINE = re.compile(r"\bpython[\d.]* (?:-\w )*-c (?P<quote>['\"])(?P<text>.{1,2000}?)(?P=quote)(?=\s|$)", re.DOTALL)


def imports_in_command(command: str) -> tuple[str, ...]:
    """The top-level names that the programs in a command line import: ``python -c "import wibble"``."""
    trees = (parse_python(hit["text"]) for hit in _INLINE.finditer(command))
    return tuple(dict.fromkeys(name for tree in trees if tree for name in _imports(tree)))
