"""Programs and configuration that a report quotes: which of them are complete, and their file names. Pure."""

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

from reprokit.intake import notebooks
from reprokit.intake.commands import SHELLS
from reprokit.intake.pieces import ReportPiece
from reprokit.intake.table import table

_CONSOLE = re.compile(r"^\s*(?:>>> ?|\.\.\. ?)", re.MULTILINE)
_TYPED = re.compile(r"^\s*>>>", re.MULTILINE)
_CELL = re.compile(r"^\s*In \[\d*\]: ?", re.MULTILINE)
_FILE_NAME = re.compile(r"(?<![\w/.])(?P<path>(?:[\w-]+/)*[\w-]+\.[a-z]\w{0,4})(?![\w/])")
_REPRODUCE = re.compile(
    r"reproduc|repro\b|\bmwe\b|minimal|example|snippet|(?<!de)script|code|command|to run|test case|how to|steps"
    r"|复现|重现|代码|脚本|命令|指令|示例|运行",
    re.IGNORECASE,
)
MOST = 200_000
"""Most characters of a program that is parsed; no one pastes more as an example."""


@dataclass(frozen=True, kw_only=True)
class Language:
    """A language of fenced programs. ``infos``: names on fences, ``start``: the commands that run a file of it.

    ``sign``: what a program has, rather than a fragment of one. ``needs``: a program that images do not have.
    """

    suffix: str
    infos: str
    start: str
    sign: str = r""
    compiles: bool = False
    needs: str = ""
    clues: Sequence[str] = ()


@cache
def languages() -> Mapping[str, Language]:
    """The name on a fence -> its language."""
    rows = [Language(suffix=suffix, **row) for suffix, row in table("languages").items()]
    return {info: language for language in rows for info in language.infos.split()}


_PYTHON = frozenset({"python", "py", "python3", "py3", "pycon", "ipython", "python-console", "jupyter"})
_PART = re.compile(
    r"^\s*(?:import|from|def|class|for|with|async|@\w|if|try|return)\b|^\s*[\w.,\[\]'\" ]+ ?= ?\S|\w\(", re.M
)
_BEGINS = re.compile(
    r"\s*(?:import \w[\w., ]*(?:;.{1,200})?|from [\w.]+ import .*|class \w+.{0,80}:|def \w+\(.{0,200}\).{0,40}:)$"
)
_PRINTED_ERROR = re.compile(
    r"^[ \t]*(?:[-=]*>[ \t]*)?(?:Traceback \(most recent|[A-Z]\w{0,60}(?:Error|Exception): \S)", re.MULTILINE
)
"""What a program printed, pasted behind it."""
_LOGGED = re.compile(r"Traceback \(most recent|^[ \t]*File \"|^\w{0,80}(?:Error|Exception)\b", re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class Script:
    """A program as the report shows it. ``name``: its file; ``imports``: top-level names, in their order.

    ``named``: the name comes from the report. ``score``: how likely it is the example; higher is more likely.
    ``undefined``: names that it uses but does not define, ``binds``: those that it defines; ``whole``: it is a program
    rather than a part of one. ``typed``: into a console. ``blocks``: of the report, from which it is joined.
    """

    name: str
    text: str
    piece: ReportPiece
    language: Language
    imports: tuple[str, ...] = ()
    named: bool = False
    score: int = 0
    undefined: tuple[str, ...] = ()
    binds: frozenset[str] = frozenset()
    whole: bool = True
    typed: bool = False
    blocks: int = 1

    @property
    def alone(self) -> bool:
        """Whether it is one short statement, which ``python -c`` runs."""
        text = self.text.strip()
        plain = not self.named and self.whole and self.language.suffix == ".py" and not self.undefined
        return plain and len(text) < 100 and not re.search(r'[\n"$`!\\]', text)

    @property
    def tests(self) -> bool:
        """Whether it only defines tests, which pytest runs."""
        return self.language.suffix == ".py" and bool(_TESTS.search(self.text)) and not _MAIN.search(self.text)

    @property
    def start(self) -> str:
        """The commands that run it."""
        if self.alone:
            return f'python -c "{self.text.strip()}"'
        if self.tests:
            return f"python -m pytest {self.name}"
        return self.language.start.format(file=self.name, stem=posixpath.basename(self.name).rpartition(".")[0])

    @property
    def compiles(self) -> bool:
        """Whether a compiler makes it."""
        return self.language.compiles

    @property
    def missing(self) -> list[str]:
        """What it lacks, one sentence each."""
        names = ", ".join(self.undefined[:6]) + (f" and {len(self.undefined) - 6} more" * (len(self.undefined) > 6))
        needs = self.language.needs
        return [
            *([f"{self.name} uses {names}, but does not define or import it."] if names else []),
            *([] if self.whole else [f"{self.name} is a part of a program: complete it."]),
            *(
                [f"{self.name} needs {needs}: add it to environment.apt, or install it in environment.setup."]
                if needs
                else []
            ),
        ]


def completed(program: Script) -> Script:
    """A program with imports that people leave out of an example: ``np.zeros(3)`` without ``import numpy as np``."""
    used = [name for name in program.undefined if re.search(rf"(?<![\w.]){re.escape(name)}\.\w", program.text)]
    added = {name: line for name in used if (line := _import_of(name))}
    if program.language.suffix != ".py" or not added:
        return program
    lines = "".join(f"{line}  # added: the report uses {name} without it\n" for name, line in added.items())
    modules = tuple(line.split()[1].partition(".")[0] for line in added.values())
    return replace(
        program,
        text=lines + program.text,
        imports=(*program.imports, *(one for one in modules if one not in program.imports)),
        undefined=tuple(name for name in program.undefined if name not in added),
    )


def _import_of(name: str) -> str:
    """The import by which everyone has a name; '' where that is not certain."""
    if name in _CALLED_SO:
        return f"import {_CALLED_SO[name]} as {name}"
    return f"import {name}" if name in sys.stdlib_module_names or name in table("packages") else ""


_CALLED_SO = {
    "np": "numpy", "pd": "pandas", "plt": "matplotlib.pyplot", "mpl": "matplotlib", "tf": "tensorflow",
    "sns": "seaborn", "xr": "xarray", "nx": "networkx", "jnp": "jax.numpy", "nn": "torch.nn",
    "F": "torch.nn.functional", "gpd": "geopandas", "pl": "polars", "pa": "pyarrow", "da": "dask.array",
    "sc": "scanpy", "ad": "anndata",
}  # fmt: skip
"""What the documentation of these packages imports, and as what."""


def programs(pieces: Sequence[ReportPiece]) -> list[Script]:
    """The programs among the pieces, the most likely example first; of parts of programs only where there is no whole.

    An example that uses what another one before it defines goes on behind that one.
    """
    found: list[Script] = []
    for piece in pieces:
        program = _python(piece) or _other(piece) if piece.code else _in_prose(piece)
        if program:
            found.append(_joined(program, found) or program)
    if len(found) > 1 and (ran := _of_traces(pieces)):
        found = [replace(one, score=one.score + _RAN * (not ran.isdisjoint(_lines(one.text)))) for one in found]
    return sorted(found, key=lambda program: (-program.score, program.piece.line))


def _of_traces(pieces: Sequence[ReportPiece]) -> frozenset[str]:
    """The lines of programs that tracebacks show."""
    texts = [notebooks.as_tracebacks(piece.text) for piece in pieces if piece.code and "Traceback" in piece.text]
    return frozenset(line for text in texts for hit in _FRAME.finditer(text) for line in _lines(hit["code"]))


def _lines(text: str) -> Iterator[str]:
    """The lines of a program that say something."""
    return (line.strip() for line in text.split("\n") if len(line.strip()) > _SAYS_NOTHING)


_FRAME = re.compile(r'^[ \t]*File "[^"\n]{1,300}", line \d+, in .{1,80}\n[ \t]*(?P<code>\S.{0,300})', re.MULTILINE)
_SAYS_NOTHING = 8
"""Characters of a line that many programs have, such as ``main()``."""
_RAN = 3
"""What it adds to the score of a program that a traceback shows a line of it."""


def _joined(program: Script, before: Sequence[Script]) -> Script | None:
    """The program behind those before it that define what it uses; None where none does."""
    found = program
    for above in reversed(before[-_JOINED:]):
        helps = above.language is found.language and not above.named and set(found.undefined) & above.binds
        if not helps or found.named or found.blocks + above.blocks > _JOINED:
            continue
        text = f"{above.text}\n{found.text}"
        tree = parsed(text)
        if tree is None or len(text) > MOST:
            continue
        piece = replace(found.piece, text=text, line=above.piece.line)
        joined = _judged(piece, text, tree, typed=found.typed or above.typed)
        if joined and len(joined.undefined) < len({*found.undefined, *above.undefined}):
            score = max(above.score, program.score + 4 * (not joined.undefined)) + 1
            found = replace(joined, score=score, blocks=found.blocks + above.blocks, whole=joined.whole or above.whole)
    return found if found is not program else None


_JOINED = 8
"""Most blocks of a report that are one program."""


def _python(piece: ReportPiece) -> Script | None:
    if len(piece.text) > MOST or (piece.info in languages() and piece.info not in _PYTHON):
        return None
    fenced = piece.info in _PYTHON
    text, typed = _source(piece)
    tree = parsed(text)
    if tree is None and piece.kind == "fenced" and (printed := _PRINTED_ERROR.search(text)) and printed.start():
        text = text[: printed.start()]
        tree = parsed(text)
    if tree is None and (fenced or _IMPORTS.search(text) or text[:1] in " \t") and (straight := _straightened(text)):
        text, tree = straight, parsed(straight)
    plain = fenced or piece.info in ("", "text") or piece.kind == "console"
    shell = not plain and piece.info in SHELLS and tree is not None and (_gives(tree) or bool(_DEFINES.match(text)))
    if not (plain or shell) and (tree is None or not _imports(tree)):
        return None
    if tree is None or not tree.body:
        if whole := _in_prose(piece):
            return whole
        coded = piece.kind == "fenced" and _is_code(text) and not _guessed(text)
        part = (fenced or coded) and _PART.search(text) and not _LOGGED.search(text)
        return _script(piece, text, score=0, whole=False) if part else None
    return _judged(piece, text, tree, typed=typed)


def _judged(piece: ReportPiece, text: str, tree: ast.Module, *, typed: bool) -> Script | None:
    """The program of a piece, or the part of one, by what its statements do; None for what only looks like Python."""
    fenced = piece.info in _PYTHON
    imports, undefined = _imports(tree), _undefined(tree)
    calls = any(isinstance(node, (ast.Expr, ast.Assign, ast.With, ast.For, ast.If, ast.Try)) for node in tree.body)
    acts = any(isinstance(node, ast.Call) for statement in tree.body for node in ast.walk(statement))
    acts = acts or any(isinstance(statement, ast.Try) for statement in tree.body)
    alone = all(isinstance(node, (ast.Import, ast.ImportFrom)) for node in tree.body)
    tests = bool(_TESTS.search(text))
    if not (fenced or tests or (imports and ((acts and calls) or typed or alone))):
        coded = (
            acts
            and calls
            and bool(_gives(tree) or _named(piece, (".py",)) or _REPRODUCE.search(piece.under) or _is_code(text))
        )
        shown = piece.kind != "prose" and (coded or typed or _DEFINES.match(text)) and not _LOGGED.search(text)
        return _script(piece, text, score=-1, whole=False, tree=tree, typed=typed) if shown else None
    score = 4 * bool(imports) + 2 * bool(_REPRODUCE.search(piece.under)) + fenced - 4 * bool(undefined)
    score -= 4 * bool(_DESCRIBES.fullmatch(text.strip()[:_LONG])) + 5 * bool(_WORKS.search(piece.under))
    if all(isinstance(node, ast.Expr) for node in tree.body) and not (acts or typed):
        return None  # a value, such as a list of extensions
    if not (typed or alone or tests or (acts and calls)):
        return _script(piece, text, score=min(score, 0), whole=False, tree=tree, typed=typed)
    return _script(piece, text, score=score, tree=tree, typed=typed)


def _gives(tree: ast.Module) -> bool:
    """Whether a program gives what something returns a name: other text that parses as Python does not."""
    values = (node.value for node in tree.body if isinstance(node, ast.Assign))
    return any(isinstance(node, ast.Call) for value in values for node in ast.walk(value))


def _script(
    piece: ReportPiece,
    text: str,
    *,
    score: int,
    tree: ast.Module | None = None,
    language: Language | None = None,
    whole: bool = True,
    typed: bool = False,
) -> Script:
    language = language or languages()["python"]
    name = _named(piece, (language.suffix,))
    tests = language.suffix == ".py" and _TESTS.search(text) and not _MAIN.search(text)
    return Script(
        name=name or f"{'test_' if tests else ''}repro{language.suffix}",
        text=text.strip("\n") + "\n",
        piece=piece,
        language=language,
        imports=_imports(tree) if tree else (),
        named=bool(name),
        score=score,
        undefined=_undefined(tree) if tree else (),
        binds=_binds(tree) if tree else frozenset(),
        whole=whole,
        typed=typed,
    )


def _other(piece: ReportPiece) -> Script | None:
    """A program in another language, by the name on its fence."""
    language = languages().get(piece.info)
    if len(piece.text) > MOST or piece.info in _PYTHON or _LOGGED.search(piece.text):
        return None
    if language is None and piece.info in {"", "text", *SHELLS} and piece.kind in ("fenced", "indented"):
        language = None if _QUOTES_TREE.match(piece.lead) else _guessed(piece.text)
        if language:
            return _part(piece, piece.text, language)
    if language is None or not re.search(language.sign, piece.text, re.MULTILINE):
        return None
    score = 2 * bool(_REPRODUCE.search(piece.under)) + 2 * bool(re.search(r"\bmain\s*\(", piece.text))
    return _script(piece, piece.text, score=score, language=language)


def _part(piece: ReportPiece, text: str, language: Language) -> Script:
    """A program whose language only its text says: a whole one has what its language begins with."""
    whole = bool(re.search(language.sign, text, re.MULTILINE))
    return _script(
        piece, text, score=2 * bool(_REPRODUCE.search(piece.under)) - 2 * (not whole), language=language, whole=whole
    )


def _guessed(text: str) -> Language | None:
    """The language of a text, by the clues in it; None for fewer than two, or as many of another language."""
    lines = [line[:300] for line in text.split("\n") if line.strip()][:_CLUED]
    if _PRINTED.search(text):
        return None
    coded = sum(bool(_STATEMENT.search(line)) for line in lines)
    if not lines or coded < 0.6 * len(lines):
        return None
    head = "\n".join(lines)
    rows = {one.suffix: one for one in languages().values() if one.clues}
    counts = {suffix: sum(bool(re.search(clue, head, re.M)) for clue in one.clues) for suffix, one in rows.items()}
    best = max(counts, key=lambda suffix: counts[suffix])
    same = {suffix for suffix, count in counts.items() if count == counts[best]}
    best = ".cu" if same == {".cu", ".cpp"} else best  # which C++ is, too
    return rows[best] if counts[best] > 1 and (len(same) == 1 or best == ".cu") else None


_PRINTED = re.compile(
    r"^\s*#\d+\s|^\s*Lines? \d+\b|0x[0-9a-f]{6,}|[\w-]\.(?:[ch]\w{0,2}|rs|go|[jt]s|py|java|rb)[:(]\d+"
    r"|^diff --git |^@@ |^[-+]{3} [ab]/"
    r"|\b(?:error|warning|note|fatal)\b ?:|^\s*at \S+\(|^\[|\d\d:\d\d:\d\d|^[$%>] |^\s*\d+ ?\|",
    re.MULTILINE | re.IGNORECASE,
)
"""What stacks, compilers and logs print, and programs do not have."""
_CLUED = 400
"""Lines of a text that are searched for its language."""
_STATEMENT = re.compile(
    r"[;{},()\[\]][ \t]*(?:(?://|--|#).*)?$|^\s*(?://|--|#|/?\*)|^\s+\S|^\s*\w[\w.:]* ?[=(]|\b(?:end|do|then)$"
    r"|^\s*(?:local|require|use|import|package|using|let|var|const)\b"
)
"""What lines of programs have, in most languages."""


def _in_prose(piece: ReportPiece) -> Script | None:
    """A Python program that was pasted without a fence: from its first import to the last line with which it parses."""
    logged = _LOGGED.search(piece.text)
    lines = piece.text[: logged.start() if logged else None].split("\n")
    lines = [_QUOTED.sub("", line) for line in lines]
    starts = [at for at, line in enumerate(lines) if _BEGINS.match(line)]
    if not starts:
        return _block(piece, lines)
    body = lines[starts[0] : starts[0] + 300]
    indent = body[0][: len(body[0]) - len(body[0].lstrip())]
    body = [line.removeprefix(indent) for line in body]
    ends = [at for at in range(len(body), 0, -1) if body[at - 1].strip()][:40]
    for end in ends:
        text = "\n".join(body[:end])
        tree = parsed(text)
        if tree is not None and (end > 1 or isinstance(tree.body[0], (ast.Import, ast.ImportFrom))):
            part = replace(piece, text=text, line=piece.line + starts[0])
            return _script(part, text, score=3 - 4 * bool(_undefined(tree)), tree=tree)
    return None


def _block(piece: ReportPiece, lines: Sequence[str]) -> Script | None:
    """A program in another language between sentences: the longest block of its lines."""
    if piece.kind != "prose":
        return None
    best = (0, 0)
    start = -1
    for at, line in enumerate([*lines, "end of all ."]):
        if _STATEMENT.search(line[:300]) and not _SAYS.search(line[:300]):
            start = at if start < 0 else start
        elif line.strip() and start >= 0:
            best = max(best, (at - start, start))
            start = -1
    length, start = best
    text = "\n".join(lines[start : start + length]).rstrip()
    if python := _python_block(piece, lines):
        return python
    above = [line for line in lines[max(0, start - _ABOVE) : start] if _QUOTES_TREE.match(line)]
    language = _guessed(text) if length >= _BLOCK and len(text) < MOST and not above else None
    return _part(replace(piece, text=text, line=piece.line + start), text, language) if language else None


def _python_block(piece: ReportPiece, lines: Sequence[str]) -> Script | None:
    """The part of a Python program between sentences: the first lines that parse as one, two or more."""
    at = tried = 0
    while at < len(lines) and tried < _REPAIRS:
        start = at
        while at < len(lines) and (_codes(lines[at]) or (at > start and not lines[at].strip())):
            at += 1
        text = "\n".join(lines[start : min(at, start + _CLUED)]).rstrip()
        at = max(at, start + 1)
        if not _ASSIGNS.search(text):
            continue
        tried += 1
        tree = parsed(text)
        if tree is not None and text.count("\n") and _gives(tree):
            part = replace(piece, text=text, line=piece.line + start)
            return _script(part, text, score=-1, whole=False, tree=tree)
    return None


def _codes(line: str) -> bool:
    """Whether a line may be one of a Python program."""
    return bool(_CODE.fullmatch(line[:300]) or (line.startswith((" ", "\t")) and line.strip()))


_QUOTED = re.compile(r"^ {0,3}> ?(?!>)")
_QUOTES_TREE = re.compile(r"\s*(?:[0-9a-f]{7,40}|Lines? \d+.{0,20})$")
"""What is above lines that are quoted from a project's own tree."""
_ABOVE = 6
_BLOCK = 4
"""Fewest lines of a program between sentences."""
_SAYS = re.compile(r"^\s*(?:[-*+>]|\d+[.)])\s|`|https?://|^(?!\s*(?:--|//|#|/\*|[\"']))(?:\S+ +){6,}\S*(?<![;{}()])$")
"""What lines of prose have."""


_IMPORTS = re.compile(r"^[ \t]*(?:import|from)\s+\w", re.MULTILINE)
_DESCRIBES = re.compile(
    r"(?:[ \t]*(?:(?:import|from)\s.*|#.*|\S{0,40}show_\w+\(\)"
    r"|print\s?\(?.*(?:version|platform|sys\.|show_|is_available|device).*)?(?:\n|\Z)){1,40}"
)
"""A program that only prints what is installed."""
_WORKS = re.compile(
    r"\bwork-?arounds?\b|\balternatives?\b|\b(?:this|it|code) works?\b|\bworks (?:fine|well|as expected)"
    r"|^works?\W*$|\b(?:I am|I'm|was) able to\b|\bsolutions?\b|临时(?:解决|方案)|(?:可以|能)正常|正常(?:运行|工作)",
    re.IGNORECASE | re.MULTILINE,
)
"""Words above a program that does not fail."""
_TESTS = re.compile(
    r"^(?:async )?def test_\w*\(|^class Test\w*\b.*:\s*\n(?:.*\n){0,99}?[ \t]+(?:async )?def test_", re.MULTILINE
)
_MAIN = re.compile(r"^(?:if __name__|unittest\.main|pytest\.main|[\w.]*test_\w+\(|print\()", re.MULTILINE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f]")
_DEFINES = re.compile(r"(?:@\w.*\n)*(?:def|class) \w+.*:\s*\n\s+\S")
_CODE = re.compile(
    r"\s*(?:[\w.,\[\]'\" *:-]+ ?[-+*/|&]?= ?\S.*|\w[\w.]*\(.*|[\])}]+[,)\]}]*|#.*|@\w.*|['\"].*"
    r"|(?:import|from|def|class|for|with|if|elif|else|try|except|return|print)\b.*)"
)
_ASSIGNS = re.compile(r"^[A-Za-z_][\w.]{0,60}(?:, ?\w{1,40}){0,5} ?= ?(?:[\w.]{1,80}\(|[\[{(]$)", re.MULTILINE)
_CALLS = re.compile(r"^\s*[\w., ]+ = \w[\w.]*\(|^\w[\w.]*\(\w", re.MULTILINE)


def _is_code(text: str) -> bool:
    """Whether nearly all lines of a text, two or more, look like statements of Python, and one calls something."""
    lines = [line for line in text.split("\n") if line.strip()]
    fits = sum(bool(_CODE.fullmatch(line[:300]) or line.startswith((" ", "\t"))) for line in lines)
    return len(lines) > 1 and fits >= 0.9 * len(lines) and bool(_CALLS.search(text))


def _straightened(text: str) -> str:
    """A program whose lines were indented by accident, with the indentation that Python expects; '' where none fits."""
    lines = text.expandtabs(4).split("\n")
    for _ in range(_REPAIRS if len(text) < _LONG else 0):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                ast.parse("\n".join(lines))
        except IndentationError as error:
            at = (error.lineno or 0) - 1
            if not error.msg.startswith("unexpected") or not 0 <= at < len(lines):
                return ""
            depth = len(lines[at]) - len(lines[at].lstrip())
            above = next((line for line in reversed(lines[:at]) if line.strip()), "")
            wanted = len(above) - len(above.lstrip())
            while at < len(lines) and (not lines[at].strip() or len(lines[at]) - len(lines[at].lstrip()) >= depth):
                lines[at] = lines[at][min(depth - wanted, len(lines[at])) :] if lines[at].strip() else lines[at]
                at += 1
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return ""
        else:
            return "\n".join(lines)
    return ""


_REPAIRS = 50
"""Most blocks of a program whose indentation is repaired."""
_LONG = 20_000
"""Characters of a program from which on its indentation is not repaired."""


def data_files(pieces: Sequence[ReportPiece]) -> Iterator[tuple[str, ReportPiece]]:
    """(file name, or '' where the report gives none; piece) of fenced text that is data or configuration."""
    for piece in pieces:
        if piece.kind == "fenced" and piece.info not in languages() and len(piece.text) <= MOST:
            name = _named(piece, _CONFIGURES if piece.info in CONFIGS else _DATA)
            if name or piece.info in CONFIGS:
                yield name, piece


CONFIGS = frozenset({"yaml", "yml", "json", "ini", "cfg", "toml"})
_CONFIGURES = tuple(f".{info}" for info in sorted(CONFIGS))
_DATA = (".csv", ".tsv", ".txt", ".xml", ".html", ".md", ".dat", ".log", ".in")


def _source(piece: ReportPiece) -> tuple[str, bool]:
    """(the program in a piece, whether it was typed into a console): only the typed lines where it was."""
    text = _CONTROL.sub("", piece.text)
    if _CELL.search(text) and ">>>" not in text:
        text = _CELL.sub(">>> ", re.sub(r"^\s*\.\.\.: ?", "... ", text, flags=re.MULTILINE))
    if not _TYPED.search(text):
        return text, False
    return "\n".join(_CONSOLE.sub("", line) for line in text.split("\n") if _CONSOLE.match(line)), True


def parsed(text: str) -> ast.Module | None:
    """What a text says as Python; one in Python 2 as Python 3 would say it. None for another text."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        newer = text
        for old, new in _PYTHON2 if "print" in text or "except" in text else ():
            newer = old.sub(new, newer)
        return parsed(newer) if newer != text else None


_PYTHON2 = (
    (re.compile(r"(^|[:;])([ \t]*(?:print|exec))[ \t]+(?=[^\s=.,)\]])", re.MULTILINE), r"\1\2, "),
    (re.compile(r"\bexcept[ \t]+([\w.]{1,80}|\([^()\n]{1,200}\)),[ \t]*(\w{1,80})[ \t]*:"), r"except \1 as \2:"),
    (re.compile(r"\braise[ \t]+([\w.]{1,80}),(?=[ \t]*\S)"), r"raise \1 from "),
)
"""Statements of Python 2, and what stands for them where only the names in a program count."""


def _undefined(tree: ast.Module) -> tuple[str, ...]:
    """The names that a program uses and never binds, in order; () where it has an ``import *``."""
    names = (node for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    used = dict.fromkeys(node.id for node in names)
    bound = _binds(tree)
    return () if "*" in bound else tuple(name for name in used if not (name in bound or name in _BUILT_IN))


_BUILT_IN = frozenset({*dir(builtins), "__file__", "__name__", "__doc__"})


def _binds(tree: ast.Module) -> frozenset[str]:
    """The names that a program binds somewhere."""
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound.add(node.name)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, (ast.ExceptHandler, ast.MatchAs, ast.MatchStar)) and node.name:
            bound.add(node.name)
    return frozenset(bound)


def _imports(tree: ast.Module) -> tuple[str, ...]:
    names: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names += [alias.name.partition(".")[0] for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.append(node.module.partition(".")[0])
    return tuple(dict.fromkeys(name for name in names if name not in sys.stdlib_module_names))


_INLINE = re.compile(r"\bpython[\d.]* (?:-\w )*-c (?P<quote>['\"])(?P<text>.{1,2000}?)(?P=quote)(?=\s|$)", re.DOTALL)


def imported_by(command: str) -> tuple[str, ...]:
    """The top-level names that the programs in a command line import: ``python -c "import wibble"``."""
    trees = (parsed(hit["text"]) for hit in _INLINE.finditer(command))
    return tuple(dict.fromkeys(name for tree in trees if tree for name in _imports(tree)))


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
