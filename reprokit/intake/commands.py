"""Command lines of a report: behind prompts, in fences of shells, and of known programs alone in a fence. Pure.

The first word of a line decides what it does (``data/commands.yaml``).
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache

from reprokit.intake.pieces import ReportPiece, table

SHELLS = frozenset(
    {"bash", "sh", "shell", "zsh", "console", "shell-session", "bat", "cmd", "batch", "powershell", "ps1", "terminal"}
    | {"ksh", "csh", "fish", "shellsession", "sh-session", "bash-session", "pwsh"}
)
_PLAIN_INFO = frozenset({"", "text", "txt", "plain", "plaintext", "none"})
LONGEST = 20_000
"""Most characters of a command line."""
MOST = 200
"""Most lines of one command, and most commands of one piece."""
PROMPT = re.compile(
    r"^\s*(?:\([^()\n]{1,80}\)\s*)?(?:[\w.<>-]+@[\w.<>-]*[:\s~/][^\n$#%]{0,80}[$#%] ?"
    r"|\[(?:[\w.<>-]+@|<email>)[^\]\n]{1,80}\][$#%] ?|(?:ba|)sh-\d[\d.]*[$#] ?|[$%❯➜] +(?=[\w./(])"
    r"|[~/][\w./-]{0,80} ?[%#$] (?=[\w./])|[\w.<>-]+:[^\s$]{1,60} [\w.<>-]{1,40}[$%] (?=\S)"
    r"|(?:PS )?(?:[A-Z]:\\|~\\)[^>\n]{0,120}>\s*"
    r"|(?:In \[\d+\]: )?(?:!(?=[a-z])|%(?=(?:pip|conda|cd)\b)))"
)
"""What shells and notebooks print before a command."""
_CONTINUES = re.compile(r"^>(?: |$)")
"""What shells print before the further lines of a command."""
_ASSIGN = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"]*\"|'[^']*'|(?:\\.|[^\s;&|\\])*)(?:\s+|$)")
_EXPORT = re.compile(r"^(?:export|set|setenv|SET|declare -x)\s+(?P<rest>[A-Za-z_]\w*[ =].*)$")
_WRAPPERS = re.compile(
    r"^(?:(?:sudo|srun|strace|stdbuf|nice|env|numactl|time|nohup|exec|command|xvfb-run|compute-sanitizer|valgrind)"
    r"\s+(?:-\S+(?:\s+\d+(?=\s))?\s+)*|timeout\s+(?:-\S+\s+)*\S+\s+|gdb\s.{0,60}--args\s+)+"
)
"""Programs that start another one."""
_BUILDS_TREE = re.compile(
    r"setup\.py\s+(?:install|develop|build\w*)"
    r"|\bpip\S{0,9} (?:install|wheel)\b(?=.{0,300}\s(?:['\"]?\.{1,2}/?(?:\[|\s|$|['\"])|-e\s|-r\s|\./|\S{1,200}\.whl))"
)
"""Installations of a tree, or of what a file lists, which no requirement of a case says."""
_SHOWS = re.compile(
    r"^\S+\s+(?:--?version|-V|version|--?help|-h|-m\s+pip\s+(?:list|freeze|show)|-m\s+(?:venv|virtualenv))\b(?!\S*\.)"
    r"|^(?:\S*pip[\d.]*|\S*conda|mamba|uv(?: pip)?|poetry|npm|git|apt\S*|cargo|go)\s+"
    r"(?:list|show|freeze|info|env(?! (?:create|update)\b)|status|log|diff|config|branch)\b"
    r"|^(?:source|\.)\s+\S*activate(?:\s|$)|\bcollect_env|\bnvidia-smi\b"
    r"|^\S+\s+-c\s+(['\"])[^'\"]{0,200}(?:\.__version__|\.version\S*|\.is_available\(\)|\.show\w*\(\))\s*\)?;?\s*\1\s*$"
)
"""Lines that only show what is installed, or choose an environment, of which an image has one."""
_SCRIPT = re.compile(r"(?:\.{1,2}/|~/|/)?[\w./+-]+\.(?:sh|out|bash)(?:\s|$)|\.{1,2}/[\w./+-]+(?:\s|$)")
_WRITES = re.compile(r"(?:cat|echo|printf|tee)\s(?:[^\n|]{0,2000}\s)?>{1,2}\s*(?!/dev/)[\w./-]")
_NOTHING = re.compile(r"[\W_]*(?:n/?a|none|no|nothing|not applicable|no response|无|没有)[\W_]*", re.IGNORECASE)
"""What stands in a form where there is no command to show."""
_TOLD = re.compile(
    r"\S+\s+(?:v?\d+(?:\.\w+)+\b(?!/)|\(|version\b|[:=-]+>?\s).*|\S+(?: [A-Za-z,']+){4,}[.!]?|\S*[:：]"
    r"|\S* ?[\u3040-\u9fff].*"
    r"|(?:python|node|bash|sh)[\d.]*(?: [a-z]+)+|.*\.{3} \w+"
)
"""Rows of lists, and sentences, that begin with the name of a program."""


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """One command with its continuation lines and here-documents, as written."""

    text: str
    line: int
    """Its first line in the report."""
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


def find_shells(pieces: Sequence[ReportPiece], taken: Sequence[tuple[int, int]]) -> list[Shell]:
    """The command lines of all pieces, except in the spans ``taken`` (environments, tracebacks)."""
    found = []
    for piece in pieces:
        if piece.kind in ("fenced", "indented", "console"):
            found.append(read_shell(piece, taken))
        elif piece.kind == "prose":
            found.append(_read_answers(piece))
    return [one for one in found if one.lines]


_ANSWER = re.compile(
    r"[\s>*-]*(?:\*\*)?(?:[\w ]{0,30}\b(?:command|cmd)(?: line)?|(?:运行|执行)?命令)(?:\*\*)?\s*[:：]\s*(?:\*\*)?\s*"
    r"(?P<mark>`?)(?P<text>[\w./~$][^`\n]{2,2000})(?P=mark)\s*|[\s>*-]*(?:\d{1,2}[.)]\s*)?`(?P<alone>[^`\n]{3,2000})`\s*",
    re.IGNORECASE,
)
"""A line of a form, ``Command: ...``, or one that is nothing but marked code."""


def _read_answers(piece: ReportPiece) -> Shell:
    """The commands of a form's answers in prose, and lines that are nothing but a marked command."""
    shell = Shell(piece)
    for number, line in enumerate(piece.text.split("\n")):
        found = _ANSWER.fullmatch(line[:3000])
        text = PROMPT.sub("", (found["text"] or found["alone"]).strip()) if found else ""
        if found and (role := role_of(text, sure=bool(found["text"] and found["mark"]))):
            shell.lines.append(CommandLine(text=text, line=piece.line + number, role=role))
    return shell


_MARKED = re.compile(r"`([^`\n]{3,2000})`")


def named_in_prose(pieces: Sequence[ReportPiece]) -> list[CommandLine]:
    """The commands of known programs, with arguments, that sentences have between marks of code."""
    found = []
    for piece in pieces:
        for number, line in enumerate(piece.text.split("\n"), piece.line) if piece.kind == "prose" else ():
            for text in _MARKED.findall(line[:3000]):
                if " " in text.strip() and program_of(text) in _roles() and role_of(text) == "run":
                    found.append(CommandLine(text=text, line=number, role="run"))
    return found


def read_shell(piece: ReportPiece, taken: Sequence[tuple[int, int]] = ()) -> Shell:
    """The command lines of pasted text. ``taken``: spans of lines that are something else, such as an environment."""
    shell = Shell(piece)
    lines = piece.text.split("\n")
    prompted = any(PROMPT.match(line) for line in lines)
    if not (prompted or piece.info in SHELLS or piece.info in _PLAIN_INFO) or piece.kind == "traceback":
        return shell
    texts = [
        (text, piece.line + at)
        for text, at in _logical(lines, only_prompted=prompted)
        if text.strip() and not re.match(r"\s*(?:#|//|::|REM\b)", text)
    ]
    sure = prompted or (piece.info in SHELLS and len(texts) == 1)
    found = [(text, line, role_of(text, sure=sure)) for text, line in texts]
    # Without a prompt or a shell's name on the fence, it has commands only where all of its lines are known ones.
    if not prompted and piece.info not in SHELLS and not all(role for *_, role in found):
        return shell
    for text, line, role in found[:MOST]:
        if role and not any(first <= line <= last for first, last in taken):
            shell.lines += split_roles(text, line, role)
    return shell


def _logical(lines: Sequence[str], *, only_prompted: bool) -> Iterator[tuple[str, int]]:
    """Command lines with their continuations, each with its first line (from 0)."""
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        at += 1
        prompt = PROMPT.match(line)
        if only_prompted and not prompt:
            continue
        body = [line[prompt.end() :] if prompt else line]
        while at < len(lines) and len(body) < MOST and body[-1].rstrip().endswith(("\\", " ^", " `")):
            body.append(_CONTINUES.sub("", lines[at]))
            at += 1
        while at < len(lines) and len(body) < MOST and prompt and _CONTINUES.match(lines[at]) and _open(body):
            body.append(_CONTINUES.sub("", lines[at]))
            at += 1
        if here := re.search(r"<<-?\s*['\"]?(\w+)['\"]?", body[-1]):
            while at < len(lines) and body[-1].strip() != here[1]:
                body.append(_CONTINUES.sub("", lines[at]) if prompt else lines[at])
                at += 1
        text = "\n".join(body).strip()
        yield re.sub(r"[ \t]+[\^`][ \t]*\n", " \\\\\n", text), start


def _open(body: Sequence[str]) -> bool:
    """Whether a quote is open at the end of the lines, so that a shell asks for another one."""
    try:
        shlex.split("\n".join(body))
    except ValueError:
        return True
    return False


@cache
def _roles() -> Mapping[str, str]:
    """Program -> what it does; '' for one that only shows something."""
    programs = table("commands")["programs"]
    return {name: "" if role == "shows" else role for role, names in programs.items() for name in names.split()}


def program_of(text: str) -> str:
    """The program that a command line starts, without folder, version and what starts it; '' for none."""
    rest = _WRAPPERS.sub("", split_assignments(text.strip())[1])
    word = rest.split(maxsplit=1)[0] if rest else ""
    name = word.rpartition("/")[2].rpartition("\\")[2].removesuffix(".exe")
    return name if name in _roles() else re.sub(r"-?\d+(?:\.\d+)*$", "", name)


def role_of(text: str, *, sure: bool = False) -> str:
    """The role of a command line (:class:`CommandLine`), '' for other text.

    ``sure``: it is a command, whatever program it starts.
    """
    bare = text.strip()
    if not bare or len(bare) > LONGEST or _NOTHING.fullmatch(bare) or (not sure and _TOLD.fullmatch(bare)):
        return ""
    variables, rest = split_assignments(re.sub(r"\\\n\s*", "", bare))
    if _EXPORT.match(bare) or (variables and not rest and all(name.isupper() for name in variables)):
        return "export"
    if len(several := split_commands(bare)) > 1:
        roles = [role_of(part, sure=sure) for part in several]
        return next((role for role in ("run", "setup", "prep", "cd", "export") if role in roles), "")
    rest = _WRAPPERS.sub("", rest)
    name = program_of(rest)
    if re.match(r"(?:cd|pushd)(?:\s|$)", rest):
        return "cd"
    if _SHOWS.search(rest):
        return ""
    role = _roles().get(name)
    if _WRITES.match(rest):
        return "prep"
    if (role and _BUILDS_TREE.search(rest)) or re.search(r"^\S*py\S*\s+-m\s+pip\s+install", rest):
        return "setup"
    if role == "setup":
        return _installer_role(name, rest)
    if role == "run" and " " not in rest.strip() and name in _INTERPRETERS:
        return ""  # what follows is typed into it
    return role if role is not None else "run" if sure or _SCRIPT.match(rest) else ""


_INTERPRETERS = frozenset(
    {"python", "ipython", "node", "bash", "sh", "zsh", "ruby", "julia", "php", "perl", "psql", "cmake"}
)
_INSTALLING = {
    "git": r"clone|checkout|switch|submodule|apply",
    "conda": r"install|create|env|update",
    "mamba": r"install|create|env|update",
    "virtualenv": r"\S+",
    "npm": r"i|ci|install|add",
}


def _installer_role(name: str, rest: str) -> str:
    """The role of a program that installs: ``setup``, or ``run`` for what else it does (``npm run``, ``uv run``)."""
    words = [word for word in rest.split()[1:] if not word.startswith("-")]
    sub = words[0] if words else ""
    if re.fullmatch(_INSTALLING.get(name, r"install|add|sync|update|upgrade|wheel|download|build-dep|pip"), sub):
        return "setup"
    return "run" if name not in ("git", "docker") and sub in ("run", "test", "start", "build", "exec", "dev") else ""


def split_assignments(text: str) -> tuple[dict[str, str], str]:
    """The variables set before a command on its own line (``A=b python x.py``), and the command."""
    found: dict[str, str] = {}
    at = 0
    while hit := _ASSIGN.match(text, at):
        found[hit["name"]] = _unquote(hit["value"])
        at = hit.end()
    return found, text[at:]


def read_exports(text: str) -> dict[str, str]:
    """The variables that an export or a ``set`` of Windows sets."""
    bare = re.sub(r"\\\n\s*", "", text.strip())
    hit = _EXPORT.match(bare)
    if hit and bare.startswith("setenv"):
        name, _, value = hit["rest"].partition(" ")
        return {name: _unquote(value.strip())}
    return split_assignments(re.split(r"\s+#|\s*(?:&&|;)", hit["rest"])[0] if hit else bare)[0]


def _unquote(value: str) -> str:
    return value[1:-1] if len(value) >= 2 and value[0] == value[-1] and value[0] in "\"'" else value


def split_commands(text: str) -> list[str]:
    """The commands of a line that ``&&`` or ``;`` joins, outside of quotes and continuations; the line if it is one."""
    if "\n" in text or not re.search(r"&&|;", text):
        return [text]
    parts = re.findall(r"&&|;|(?:\"[^\"]*\"|'[^']*'|(?!&&)[^;\"']|[\"'])+", text)
    return [part.strip() for part in parts if part.strip() not in ("", "&&", ";")]


def split_roles(text: str, line: int, role: str) -> Iterator[CommandLine]:
    """A line as written; one that installs something and then runs something else as several lines."""
    several = split_commands(text)
    roles = [role_of(part) for part in several]
    if len(several) > 1 and "setup" in roles and set(roles) - {"setup", ""}:
        yield from (
            CommandLine(text=part, line=line, role=one) for part, one in zip(several, roles, strict=True) if one
        )
    else:
        yield CommandLine(text=text, line=line, role=role)


# -- what is installed ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What setup lines install."""

    pip: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    dnf: tuple[str, ...] = ()
    clones: tuple[tuple[str, str, str], ...] = ()
    """(address, folder, branch or '') of ``git clone``."""


_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?(?:(?:===?|~=|!=|[<>]=?)[\w.*+!-]+(?:,(?:===?|~=|!=|[<>]=?)[\w.*+!-]+)*)?"
    r"|(?:git\+)?https://\S+"
)
_PIP_OPTIONS = {
    **{name: name for name in ("--index-url", "--extra-index-url", "--find-links")},
    "-i": "--index-url",
    "-f": "--find-links",
}
_OTHER_VALUES = frozenset({"-c", "--constraint", "--trusted-host", "-r", "--requirement", "-e", "--editable", "-t"})


def installs_tree(line: CommandLine) -> bool:
    """Whether a setup line installs a tree, or what a file lists, so that only the command can hold it."""
    return bool(_BUILDS_TREE.search(line.text))


def read_installs(lines: Sequence[CommandLine]) -> Installed:
    """What the setup lines install. Requirements are kept as written; ``-r FILE`` and trees are ignored."""
    found: dict[str, list[str]] = {"pip": [], "options": [], "apt": [], "dnf": []}
    clones: list[tuple[str, str, str]] = []
    for words in (_words(part) for line in lines for part in split_commands(line.text.replace("\\\n", " "))):
        before, rest = (
            (words[: words.index("install")], words[words.index("install") + 1 :]) if "install" in words else ([], [])
        )
        if any(re.search(r"pip\d?(?:\.\d+)?$", word) for word in before):
            pip, options = _pip(rest)
            found["pip"] += pip
            found["options"] += options
        elif {"apt", "apt-get"} & set(before):
            found["apt"] += [word for word in rest if re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", word)]
        elif {"yum", "dnf", "microdnf"} & set(before):
            found["dnf"] += [word for word in rest if re.fullmatch(r"\w[\w.+-]+", word)]
        elif words[:2] == ["git", "clone"] and (clone := _clone(words[2:])):
            clones.append(clone)
        elif words[:2] in (["git", "checkout"], ["git", "switch"]) and clones:
            ref = next((word for word in words[2:] if re.fullmatch(r"\w[\w./-]*", word)), "")
            clones[-1] = (*clones[-1][:2], ref or clones[-1][2])
    unique = {key: tuple(dict.fromkeys(texts)) for key, texts in found.items()}
    return Installed(**unique, clones=tuple(dict.fromkeys(clones)))


def _words(text: str) -> list[str]:
    bare = re.split(r"\s[#(]|\||\s\d?&?>{1,2}", text)[0]
    try:
        return shlex.split(bare)
    except ValueError:
        return bare.split()


def _pip(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """(requirements, options) of the arguments of ``pip install``."""
    found: list[str] = []
    options: list[str] = []
    rest = iter(words)
    for word in rest:
        name, equals, value = word.partition("=") if word.startswith("--") else (word, "", "")
        if name in _PIP_OPTIONS:
            value = value if equals else next(rest, "")
            options += [f"{_PIP_OPTIONS[name]} {shlex.quote(value)}"] if value.startswith("http") else []
        elif word in _OTHER_VALUES:
            next(rest, "")
        elif word in ("--pre", "--no-build-isolation"):
            options.append(word)
        elif _REQUIREMENT.fullmatch(word) and not word.endswith((".whl", ".gz", ".zip")):
            found.append(word)
    return found, options


def _clone(words: Sequence[str]) -> tuple[str, str, str] | None:
    branch, places = "", []
    rest = iter(words)
    for word in rest:
        if word in {"-b", "--branch"}:
            branch = next(rest, "")
        elif word in {"--depth", "-j", "--jobs"}:
            next(rest, "")
        elif not word.startswith("-"):
            places.append(word)
    if not places or not re.fullmatch(r"(?:https?://|git@)[\w.@/~+:-]+", places[0]):
        return None
    url = re.sub(r"^git@([\w.-]+):", r"https://\1/", places[0]).rstrip("/").removesuffix(".git")
    folder = url.rpartition("/")[2]
    folder = places[1] if len(places) > 1 and re.fullmatch(r"[\w-][\w.-]*", places[1]) else folder
    if not re.fullmatch(r"[\w-][\w.-]*", folder) or not re.fullmatch(r"[\w./-]*", branch):
        return None
    return url, folder, branch
