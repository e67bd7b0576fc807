"""Command lines of a report: what was run, which variables were set, what was installed before. Pure.

The first word of a line decides what it is (``data/commands.yaml``); the output of a program, rows of package lists and
sentences that begin with a program's name are never commands.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from reprokit.intake.pieces import ReportPiece
from reprokit.intake.table import table

SHELLS = frozenset(
    {"bash", "sh", "shell", "zsh", "console", "shell-session", "bat", "cmd", "batch", "powershell", "ps1", "terminal"}
    | {"ksh", "csh", "fish", "nu", "nushell", "shellsession", "sh-session", "bash-session", "dos", "pwsh"}
)
_RECIPES = frozenset({"dockerfile", "docker", "yaml", "yml"})
_PLAIN_INFO = frozenset({"", "text", "txt", "plain", "none", "log", "shellscript", "output", "plaintext"})
LONGEST = 20_000
"""Most characters of a command line."""
MOST_LINES = 200
"""Most commands of prose that belong together."""
MOST = 50
"""Most lines of one command."""
_TILE = r"(?:\([^()\n]{1,80}\)\s*)?"
PROMPT = re.compile(
    rf"^\s*{_TILE}(?:[\w.<>-]+@[\w.<>-]*[:\s~/][^\n$#%]{{0,80}}[$#%] ?"
    r"|\[(?:[\w.<>-]+@|<email>)[^\]\n]{1,80}\][$#%] ?"
    rf"|(?:ba|)sh-\d[\d.]*[$#] ?|[$%❯➜λ»∞✗±] +(?:[\w.-]+ git:\(\S{{1,60}}\) (?:✗ )?)?(?=[\w./(])"
    rf"|[\w.<>-]+@[\w.<>-]+[ :][~/][^\s>]{{0,80}}(?: \([^()\n]{{1,60}}\))?> (?=[\w./])"
    r"|[~/][\w./-]{0,80} ?[%#$] (?=[\w./])|\$(?=[a-z./])"
    r"|[`╰└]?[─-]+[$>#❯] ?(?=[\w./])(?!Running in |[0-9a-f]{12}$)|[\w.<>-]+:[^\s$]{1,60} [\w.<>-]{1,40}[$%] (?=\S)"
    r"|(?:PS )?(?:[A-Z]:\\|~\\|~(?=>))[^>\n]{0,120}>\s*|(?:In \[\d+\]: )?(?:!(?=[a-z])|%(?=(?:pip|conda|cd)\b)))"
)
"""What shells and notebooks print before a command."""
STEP_OF_IMAGE = re.compile(
    r"\b(?:The command|process) ['\"]/bin/(?:ba)?sh(?: -\w+)* -c (?P<rest>.{1,5000}?)['\"] "
    r"(?:returned a non-zero|did not complete)"
)
"""What ``docker build`` says of the step that failed."""
_MARK = re.compile(
    r"^\s*(?:\+{1,3} |(?:executing|running|run|cmd|command)[:=] *|> ?|\$)(?=[\w./\"'$])",
    re.IGNORECASE,
)
"""What logs, and shells with ``set -x``, print before a command."""
_REMARK = re.compile(r"\s+(?:<-{1,3}|<={2,3}|←)\s+(?=[^\W\d]).*$")
"""What a reporter writes behind a command: ``npm i wib  <-- fails here``."""
_NOTHING = re.compile(r"[\W_]*(?:n/?a|none|no|nothing|not applicable|no response|无|没有)[\W_]*", re.IGNORECASE)
"""What stands in a form where there is no command to show."""
_CONTINUES = re.compile(r"^>(?: |$)")
"""What shells print before the further lines of a command."""
BUILT = re.compile(
    r"^[ \t]*(?:g?make(?:\[\d+\])?: (?:\*\*\*|Entering)|ninja: build stopped|FAILED: |\*\* libs"
    r"|ERROR: compilation failed|(?:running build_ext|building '[\w.]{1,80}' extension)$)",
    re.MULTILINE,
)
"""What builds print, beside the lines of the compiler that they start."""
_ASSIGN = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"]*\"|'[^']*'|(?:\\.|[^\s;&|\\])*)(?:\s+|$)")
_EXPORT = re.compile(r"^(?:export|set|setenv|SET|declare -x|ENV)\s+(?P<rest>[A-Za-z_]\w*[ =].*)$")
_BACKSLASHED = re.compile(
    r"(?<![^\s=])(?:\.{1,2}\\)?[\w.-]+(?:\\[\w.-]+)*\\[\w.-]*\w(?=\s|$)|(?<![^\s=])\.\\[\w.-]+(?=\s|$)"
)
"""Paths as ``.\\src\\a.py``, by themselves or behind an option's ``=``."""

_WRAPPERS = re.compile(
    r"^(?:(?:sudo|srun|strace|stdbuf|nice|env|numactl|time|nohup|winpty|exec|command|xvfb-run|compute-sanitizer|valgrind)"
    r"\s+(?:-\S+(?:\s+\d+(?=\s))?\s+)*|timeout\s+(?:-\S+\s+)*\S+\s+|gdb\s.{0,60}--args\s+)+"
)
"""Programs that start another one."""

BUILDS_TREE = re.compile(
    r"setup\.py\s+(?:install|develop|build\w*|bdist\w*|egg_info)"
    r"|\bpip\S{0,9} (?:install|wheel)\b(?=.{0,300}\s(?:['\"]?\.{1,2}/?(?:\[|\s|$|['\"])|-e\s|-r\s|\./|\S{1,200}\.whl))"
)
"""Installations of a tree, or of what a file lists, which no requirement of a case says."""
BUILDS = re.compile(
    r"(?:^|[\s;&|/])(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|nvcc|hipcc|make|cmake|ninja|meson|bazel|f2py"
    r"|cython)(?:-\d+)?(?:\s|$)|setup\.py\s+(?:install|develop|build)|pip\S{0,9} install (?:-\S{1,9} ){0,9}(?:\.|git\+)"
)
"""Lines that compile something, so that the compiler matters."""
_SHOWS = re.compile(
    r"^(?:\S*pip[\d.]*|\S*conda|mamba|uv(?: pip)?|poetry|npm|git|apt\S*|brew|cargo|go)\s+"
    r"(?:list|show|freeze|info|env(?! (?:create|update)\b)|status|log|diff|config|branch)\b"
    r"|^\S*(?:gcc|g\+\+|cc|clang|clang\+\+)\S*\s+-v\s*$|^\S+\s+(?:--?version|-V|version|--?help|-h|-m\s+(?:pip\s+(?:list|freeze|show|--version)|venv|virtualenv))\b(?!\S*\.)"
    r"|^\S+\s+-c\s+(['\"])[^'\"]{0,200}(?:\.__version__|\.version\S*|\.is_available\(\)|\.__file__|\.show\w*\(\))\s*\)?;?\s*\1\s*$"
)
"""Lines that only show what is installed, whatever their program."""
_COMMENT = re.compile(r"^\s*(?:#|//|::|REM\b|--\s)", re.IGNORECASE)
_ROW = re.compile(
    r"^[\w.+/-]+(?:\[\S*\])?(?:\s+[v~^]?=*\(?\d+(?:\.\d+)+\S*(?:\s+\S+){0,4}|\s*[=~<>!]=.*|==?[\d.]+(?:=\S+)?"
    r"|\s+(?:linux|darwin|windows)/\w+|(?<=^python\d\.\d)\s+[A-Za-z]{2,30}\d+(?:\.\d+)+|\s*:\s.*|\s+\([^)]*\)\s.*|\s+\|.*|(?:\s[\w.]+){0,4}\s\.{4,}\s.*|\s+(?:version|release|v)\b.*|\s+=\s.*|\s+-+>.*)$",
    re.IGNORECASE,
)
"""Rows of lists: ``name version``, ``name==version``, ``name: value``, ``name (build) version``."""
_SAID = re.compile(
    r"\b(?:did not run|returned (?:a )?non|failed with|is not a|not found$|command not found|No such file"
    r"|Leaving directory)|^go (?:to|into|back|through|on|ahead|with)\b|^Running (?:setup\.py|command)\b|\bCommand ['\"]"
    r"|^(?:import|from)\s|^\S+\.(?:py|go|js|rs) [.FEsxX]{1,200}(?:\s+\[ *\d{1,3}%\])?$"
    r"|^\S+ (?:is|was|are|has|can|cannot|does|did|will|failed|error|fatal|warning|fails|works|crashes"
    r"|hangs)\b(?![-=./])"
)
_HAN = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")
_LOOKS = re.compile(r"(?:\.{0,2}/)?[A-Za-z_][\w.+/-]*(?:\s+(?:--?[A-Za-z]|[\w./~$-]+[./]\w|[a-z][\w-]*\b)|$)")
_OPTIONS = re.compile(r"\s(?:--?[A-Za-z][\w-]*|\S*/\S+|\S+\.\w{1,6}|\S+=\S+|&&|\|)(?=[\s=]|$)")


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """One command with its continuation lines and here-documents, as written. ``line``: its first in the report."""

    text: str
    line: int
    role: str
    """``run``, ``setup``, ``prep``, ``cd``, ``export``."""


@dataclass
class Shell:
    """The command lines that belong together, in order."""

    piece: ReportPiece
    lines: list[CommandLine] = field(default_factory=list)

    def of(self, *roles: str) -> list[CommandLine]:
        """The lines of some roles."""
        return [line for line in self.lines if line.role in roles]


_ITEM = re.compile(r"^\s*(?:>\s?)*\s*(?:[-*+•]\s+|\(?\d{1,2}[.)、](?:\s+|(?=[a-z./])))?")
"""Marks of quotes and lists before a command in prose."""
_ASKED = re.compile(
    r"(?:\*\*)?[^:：`\n]{0,100}(?:command ?(?:line)?|命令|指令)[^:：\n]{0,30}[:：](?:\*\*)?\s*"
    r"`?(?P<rest>[\w./~$][^`\n]{2,500})`?",
    re.IGNORECASE,
)
"""The line of a form that asks for a command."""


def in_prose(piece: ReportPiece, taken: Sequence[tuple[int, int]] = ()) -> list[Shell]:
    """Commands that are all of a line or an item of prose: behind a prompt, in backticks, of a known program.

    So is what a line ``Command: ...`` has. Those on lines that follow each other belong together.
    """
    found: list[Shell] = []
    lines = piece.text.split("\n")
    built, last, skip, above = BUILT.search(piece.text) is not None, -2, -1, ""
    for number, line in enumerate(lines):
        if number <= skip or not line.strip():
            last += number == last + 1  # an empty line tears nothing
            continue
        text, sure = ("", False)
        if len(line) <= 5000 and not within(piece.line + number, taken):
            text, sure = _whole(line, asked=bool(_ASKS_FOR.search(piece.heading)))
        if text and (role := role_of(text, lenient=sure, sure=sure)) and not printed_by_build(text, built):
            while text.endswith("\\") and number + 1 + text.count("\n") < len(lines):
                text += f"\n{lines[number + 1 + text.count(chr(10))].rstrip()}"
            text = "\n".join([text, *quoted(text, lines[number + 1 : number + 1 + MOST])]) if "\n" not in text else text
            if last != number - 1:
                found.append(Shell(replace(piece, lead=above.strip()[:200] or piece.lead)))
            if len(found[-1].lines) < MOST_LINES:
                found[-1].lines += parts(text.rstrip("\\").rstrip(), piece.line + number, role)
            last = skip = number + text.count("\n")
        above = line
    return found


_ASKS_FOR = re.compile(r"\bcommand|命令|指令", re.IGNORECASE)


def _whole(line: str, *, asked: bool) -> tuple[str, bool]:
    """(the command that is all of a line of prose, '' for other text; whether it is marked as one).

    ``asked``: the heading above it asks for a command.
    """
    bare = _ITEM.sub("", line).strip()
    if prompt := PROMPT.match(bare):
        return bare[prompt.end() :], True
    if marked := re.fullmatch(r"(`+)([^`]{1,2000})\1[.。,，;；]?", bare):
        return PROMPT.sub("", marked[2]).removeprefix("$ "), " " in marked[2].strip()
    if answer := _ASKED.fullmatch(bare):
        rest = answer["rest"].strip()
        return ("", False) if rest.split()[0].lower().strip(",.") in words() else (rest, True)
    if asked and role_of(bare, lenient=True):
        return bare, True
    first = assignments(bare)[1]
    role = roles().get(program_of(first)) or ("run" if first.startswith(("./", "../")) else "")
    short = len(first.split()) < (4 if role in ("setup", "prep") else 2)
    sets = not first or re.match(r"(?:export|cd)\s", bare)
    return (
        (bare, False) if sets or (role and (short or _OPTIONS.search(first) or first.endswith(" .."))) else ("", False)
    )


def read(piece: ReportPiece, taken: Sequence[tuple[int, int]] = ()) -> Shell:
    """The command lines of pasted text. ``taken``: spans of lines that are something else, such as an environment."""
    shell = Shell(piece)
    lines = piece.text.split("\n")
    shell_like = piece.info in SHELLS or _only_commands(piece, lines)
    prompted = any(PROMPT.match(line) for line in lines)
    if not (shell_like or piece.info in _PLAIN_INFO or prompted):
        return shell
    output = BUILT.search(piece.text) is not None
    texts = list(_logical(lines, only_prompted=prompted))
    known = shell_like and not _printed(piece) and not _mostly_output([text for text, _ in texts])
    alone = sum(bool(text.strip()) and not _COMMENT.match(text) for text, _ in texts) == 1
    sure = prompted or (known and alone)
    for text, at in texts:
        if within(piece.line + at, taken):
            continue
        role = role_of(text, lenient=known or prompted, sure=sure)
        if role and not (not prompted and printed_by_build(text, output)):
            shell.lines += parts(text, piece.line + at, role)
    for step in STEP_OF_IMAGE.finditer(piece.text):
        line = piece.line + piece.text.count("\n", 0, step.start())
        shell.lines += parts(step["rest"], line, role_of(step["rest"], lenient=True) or "run")
    return shell


def _mostly_output(texts: Sequence[str]) -> bool:
    """Whether a fence with many texts has the output of a program: most of them do not look like a command."""
    written = [text for text in texts if text.strip() and not text.lstrip().startswith("#")]
    told = sum(not role_of(text, lenient=True) for text in written)
    return len(written) > _FEW // 2 and 2 * told > len(written)


def _only_commands(piece: ReportPiece, lines: Sequence[str]) -> bool:
    """Whether a fence that names another language has a few commands, and nothing else."""
    written = [line for line in lines if line.strip()]
    few = piece.info not in _PLAIN_INFO | _RECIPES and 0 < len(written) <= _FEW
    return few and all(role_of(line) for line in written)


_FEW = 8
"""Most commands in a fence that names another language."""


@cache
def words() -> frozenset[str]:
    """Words of sentences, none of which is the name of a program."""
    return frozenset(table("commands")["words"].split())


def spoken(text: str) -> bool:
    """Whether a text is a person's words: most of its tokens are plain words, and one is a common one."""
    tokens = text.split()
    plain = [one for one in tokens if re.fullmatch(r"[^\W\d_]+", one)]
    return len(plain) > max(1, len(tokens) // 2) and any(one.lower() in words() for one in plain)


_SHOWN = re.compile(
    r"(?:errors?|output|traceback|logs?|messages?|results?|报错|错误|输出|日志|信息|结果)\W{0,3}$", re.IGNORECASE
)
"""The end of a line below which stands what was printed."""


def _printed(piece: ReportPiece) -> bool:
    """Whether the words around a pasted text call it output."""
    steps = re.search(r"\bsteps\b|reproduc|复现|重现|步骤", piece.lead, re.IGNORECASE)
    return bool(_SHOWN.search(piece.lead or piece.heading)) and not steps


def within(line: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a line lies in one of some spans of lines."""
    return any(first <= line <= last for first, last in spans)


def printed_by_build(text: str, output: bool) -> bool:
    """Whether it is a long line of a compiler, as builds print them. ``output``: it is among what a build printed."""
    compiler = _COMPILER.match(text)
    least = 2 if output and compiler and not compiler["builds"] else 6
    return bool(compiler and (output or compiler["path"])) and len(text.split()) > least


_COMPILER = re.compile(
    r"\s*(?P<path>(?:/[\w.+@-]{1,80}){1,20}/)?(?:[\w.]{1,40}-){0,5}(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|nvcc|hipcc|ld|ar|f2py|cython|(?P<builds>make|cmake))"
    r"(?:-\d+)?\s"
)


@cache
def roles() -> Mapping[str, str]:
    """Program -> what it does; '' for one that only shows something."""
    programs = table("commands")["programs"]
    return {name: "" if role == "shows" else role for role, names in programs.items() for name in names.split()}


def program_of(text: str) -> str:
    """The program that a command line starts, without folder, version and what starts it; '' for none."""
    rest = _WRAPPERS.sub("", text.strip())
    word = rest.split(maxsplit=1)[0] if rest else ""
    name = word.rpartition("/")[2].rpartition("\\")[2].removesuffix(".exe")
    return name if name in roles() else re.sub(r"-?\d+(?:\.\d+)*$", "", name)


def role_of(text: str, *, lenient: bool = False, sure: bool = False) -> str:
    """The role of a command line (:class:`CommandLine`), '' for other text.

    ``lenient``: only commands are expected; ``sure``: it is one, whatever program it starts.
    """
    bare = text.strip()
    if not bare or len(bare) > LONGEST or _COMMENT.match(bare) or _NOTHING.fullmatch(bare):
        return ""
    if _EXPORT.match(bare) or _only_assigns(bare):
        return "export"
    parts = split(bare)
    if len(parts) > 1:
        roles = [role_of(part, lenient=lenient, sure=sure) for part in parts]
        return next((role for role in ("run", "setup", "prep", "cd", "export") if role in roles), "")
    _, rest = assignments(bare)
    rest = _WRAPPERS.sub("", rest)
    if re.match(r"(?:cd|pushd|chdir)(?:\s+[^\s:：]+\s*|\s+([\"']).*\1\s*|\s*)$", rest):
        return "cd"
    first = rest.split("\n", 1)[0]
    if not first or first.endswith((":", "：")) or _ROW.match(first) or _SAID.search(first[:300]) or sentence(first):
        return ""
    if not sure and (_TELLS_OF.fullmatch(first) if (name := program_of(rest)) in _INTERPRETERS else _names(name, rest)):
        return ""
    role = _of_program(rest, first)
    if role is None and lenient and _LOOKS.match(rest) and "Error" not in first and ": " not in first[:60]:
        role = "run" if sure or _OPTIONS.search(first) else ""
    return role or ""


_INTERPRETERS = frozenset({"python", "ipython", "node", "bash", "sh", "zsh", "ruby", "julia", "php", "perl", "Rscript"})
_ASKS_FOR_MORE = _INTERPRETERS | {"psql", "sqlite3", "cmake"}
ALONE = frozenset(
    {"make", "gmake", "ninja", "scons", "tox", "nox", "pytest", "mypy", "flake8", "pylint", "black", "ruff", "isort"}
    | {"pyright", "cargo", "tsc"}
)
"""Programs that people start without an argument."""
_TELLS_OF = re.compile(r"\S+(?: [a-z]{2,}){1,4}")
"""An interpreter with nothing but words, none of which is a file: ``python package``."""
_SCRIPT = re.compile(
    r"(?:\.{1,2}/|~/|/)?[\w./+-]+\.(?:sh|out|bash|bat|exe)(?:\s|$)|(?:\.{1,2}/|~/|/)[\w./+-]+\.py(?:\s|$)"
    r"|[\w-][\w./+-]*\.py\s+(?:-|\S+[./=])|\.{1,2}[/\\][\w./\\+-]+(?:\s|$)"
    r"|(?:~?/[\w.+-]+){3,}\s+--[a-z]"
)
ASKS = re.compile(
    r"^(?:curl|wget|ab|wrk|hey)\s(?:[^\n]|\\\n){0,300}?(?:localhost|127\.0\.0\.1|0\.0\.0\.0)(?::(?P<port>\d{2,5}))?"
)
"""A request to a server of the same machine."""
_WRITES = re.compile(r"(?:cat|echo|printf|tee)\s(?:[^\n|]{0,2000}\s)?>{1,2}\s*(?!/dev/)[\w./-]")
"""A file that is written, from here on a step."""
_PIPED = re.compile(r"\|\s*(?:sudo\s+)?(?:bash|sh|\S*python\S*)(?:\s|$)")


def _names(name: str, rest: str) -> bool:
    """Whether a text is only the name of a known program, which does nothing without an argument."""
    return rest.strip() == name and roles().get(name) == "run" and name not in ALONE and "-" not in name


def _of_program(rest: str, first: str) -> str | None:
    """The role of a command by its program and its first words; None for an unknown program."""
    name = program_of(rest)
    role = roles().get(name)
    if (name == "cc" and "@" in first) or rest == "." or (" " not in rest and name in _ASKS_FOR_MORE):
        return ""  # people who are to read a reply; a sentence's end; what a program is typed into
    if re.search(r"^(?:source|\.)\s+\S*activate(?:\s|$)|\bdiagnose\.py\b|\bcollect_env", first):
        return ""  # an image has one environment, what prints the reporter's does nothing for a case
    if _SHOWS.match(rest):
        return ""
    if (_SCRIPT.match(rest) and role != "") or ASKS.match(rest) or (role in ("prep", "") and _PIPED.search(first)):
        return "run"
    if _WRITES.match(rest):
        return "prep"
    if BUILDS_TREE.search(rest) or re.search(r"^\S*py\S*\s+-m\s+pip\s", rest):
        return "setup"
    return _of_installer(name, rest) if role == "setup" else role


_INSTALLING = {
    "git": r"clone|checkout|switch|submodule|apply|reset",
    "npm": r"i|ci|install|add",
    "poetry": r"install|add|lock|update",
    "uv": r"pip|add|sync|tool|venv|lock",
    "conda": r"install|create|env|update",
    "docker": r"build",
}
_RUNNING = dict.fromkeys(("npm", "yarn", "pnpm"), r"run|test|start|build|exec|dev") | {
    **dict.fromkeys(("uv", "poetry", "conda", "pipx"), "run|init|build|publish|export"),
    "docker": "exec|run|start|stop|compose|network|load|save",
}
"""What these do beside installations: it fails where the report is about the program itself."""


_OUTCOME = re.compile(
    r"(?:succe|fail|work|error|crash|hang|pass)\w*[.,!]?|command|ok|done|is|[\u4e00-\u9fff].*", re.IGNORECASE
)
"""Words about an installation, in the place of what is installed."""


def _of_installer(name: str, rest: str) -> str:
    words = rest.split()
    sub = next((word for word in words[1:] if not word.startswith("-")), "")
    if name == "docker" and sub == "build" and not re.search(r"\s-|[./]", rest):
        return ""
    if name in _RUNNING and re.fullmatch(_RUNNING[name], sub):
        return "run"
    wanted = _INSTALLING.get(
        "conda" if name in ("mamba", "micromamba") else name,
        r"\S+" if name == "virtualenv" else r"install|add|update|upgrade|wheel|download|build-dep",
    )
    alone = sub in ("install", "add") and (
        name not in _RUNNING if len(words) < 3 else bool(_OUTCOME.fullmatch(words[2]))
    )
    return "setup" if re.fullmatch(wanted, sub) and not alone else ""


def sentence(text: str) -> bool:
    """Whether a line that begins with a program's name is a sentence (``make sure that ...``)."""
    words = text.split()
    if len(_HAN.findall(text)) > len(text) / 4:
        return True
    ends = text.endswith((".", "。", "，", "?", "？", "!", "：", ":", ",")) and not text.endswith((" .", "..", "/."))
    if ends and len(words) > 3 and not any(word.startswith("-") or "/" in word or "=" in word for word in words[1:]):
        return True
    plain = sum(bool(re.fullmatch(r"[A-Za-z]+[,.]?|I'm|don't|it's", word)) for word in words[1:])
    return len(words) > 5 and plain > 0.7 * len(words)


def _only_assigns(text: str) -> bool:
    names, rest = assignments(_joined(text))
    locale = sum(name.startswith("LC_") for name in names) > 1  # as R and others print it
    return (
        bool(names)
        and not rest
        and not locale
        and all(re.fullmatch(r"[A-Z][A-Z0-9]+(?:_\w+)?", name) for name in names)
    )


def _joined(text: str) -> str:
    """Continued lines as one."""
    return re.sub(r"\\\n\s*", "", text).rstrip("\\ \n")


def assignments(text: str) -> tuple[dict[str, str], str]:
    """The variables set before a command on its own line (``A=b python x.py``), and the command."""
    found: dict[str, str] = {}
    at = 0
    while hit := _ASSIGN.match(text, at):
        found[hit["name"]] = _unquoted(hit["value"])
        at = hit.end()
    return found, text[at:]


def exported(text: str) -> dict[str, str]:
    """The variables that an export, a ``set`` of Windows or a Dockerfile's ENV sets."""
    bare = _joined(text.strip())
    if hit := _EXPORT.match(bare):
        rest = hit["rest"]
        if bare.lower().startswith("set ") and "=" in rest:  # Windows: all up to the line's end
            name, _, value = rest.partition("=")
            return {name.strip(): _unquoted(value.strip())} if re.fullmatch(r"\w+", name.strip()) else {}
        if not re.match(r"\w+=", rest):
            name, _, value = rest.partition(" ")
            return {name: _unquoted(value.strip())} if bare.startswith(("ENV", "setenv")) else {}
        return assignments(re.split(r"\s+#|\s*(?:&&|;)", rest)[0])[0]
    return assignments(bare)[0]


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'" else value


def split(text: str) -> list[str]:
    """The commands of a line that ``&&`` or ``;`` joins, outside of quotes and continuations; the line if it is one."""
    if "\n" in text or not re.search(r"&&|;", text):
        return [text]
    parts = re.findall(r"&&|;|(?:\"[^\"]*\"|'[^']*'|(?!&&)[^;\"']|[\"'])+", text)
    return [part.strip() for part in parts if part.strip() not in ("", "&&", ";")]


def parts(text: str, line: int, role: str) -> Iterator[CommandLine]:
    """A line as written; one that installs something and then runs something else as several lines."""
    parts = split(text)
    roles = [role_of(part, lenient=True) for part in parts]
    if len(parts) > 1 and "setup" in roles and set(roles) - {"setup", ""}:
        yield from (CommandLine(text=part, line=line, role=one) for part, one in zip(parts, roles, strict=True) if one)
    else:
        yield CommandLine(text=text, line=line, role=role)


def _logical(lines: Sequence[str], *, only_prompted: bool) -> Iterator[tuple[str, int]]:
    """Command lines with their continuations, each with its first line (from 0)."""
    at = 0
    while at < len(lines):
        start, line = at, _REMARK.sub("", lines[at])
        at += 1
        prompt = PROMPT.match(line)
        # The first command of what was typed may stand without its prompt.
        if only_prompted and not prompt and (start or not role_of(line)):
            continue
        mark = None if prompt else _MARK.match(line)
        body = [line[(prompt or mark).end() :] if prompt or mark else line]  # type: ignore[union-attr]
        while (
            at < len(lines) and body[-1].rstrip().endswith(("\\", " ^", " `")) and not body[-1].rstrip().endswith(":\\")
        ):
            body.append(_CONTINUES.sub("", lines[at]))
            at += 1
        while prompt and at < len(lines) and _CONTINUES.match(lines[at]) and _is_open(body):
            body.append(_CONTINUES.sub("", lines[at]))
            at += 1
        if "\n" in (text := "\n".join(body)) or ASKS.match(text):
            more = quoted(text, lines[at : at + MOST])
            body += more
            at += len(more)
        if here := re.search(r"<<-?\s*['\"]?(\w+)['\"]?", body[-1]):
            while at < len(lines) and body[-1].strip() != here[1]:
                body.append(_CONTINUES.sub("", lines[at]) if prompt else lines[at])
                at += 1
        yield "\n".join(body).strip("\n"), start


def quoted(text: str, following: Sequence[str]) -> Sequence[str]:
    """The further lines of a command that has opened a quote and not closed it; () where none closes it."""
    odd = text.count("'") % 2
    for number, line in enumerate(following if odd else (), 1):
        odd ^= line.count("'") % 2
        if not odd:
            return following[:number]
    return ()


def _is_open(body: Sequence[str]) -> bool:
    """Whether a quote is open at the end of the lines, so that a shell asks for another one."""
    try:
        shlex.split("\n".join(body))
    except ValueError:
        return len(body) < MOST_LINES
    return False


def portable(text: str) -> str:
    """A command line of a Windows shell in a form that bash reads: its continuations become backslashes.

    Backslashes in relative paths become slashes; paths with a drive letter stay, since nothing can replace them.
    """
    text = re.sub(r"^py (?:-3(?:\.\d+)? )?(?=\S+\.py\b|-m )", "python ", text)
    text = re.sub(r"^(?=[\w-][\w./-]*\.py(?:\s|$))", "python ", text)
    text = re.sub(r"^(?=[\w-][\w-]*\.sh(?:\s|$))", "bash ", text)
    text = _BACKSLASHED.sub(lambda match: match[0].replace("\\", "/"), text)
    if "\n" not in text:
        return text.strip()
    return re.sub(r"[ \t]+[\^`][ \t]*\n", " \\\\\n", text).strip("\n")
