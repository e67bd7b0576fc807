"""Command lines of a report: what was run, which variables were set, what was installed before. Pure.

The first word of a line decides what it is; the output of a program is never taken for a command.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from reprokit.intake.pieces import ReportPiece

SHELLS = frozenset(
    {"bash", "sh", "shell", "zsh", "console", "shell-session", "bat", "cmd", "batch", "powershell", "ps1"}
)
_PLAIN_INFO = frozenset({"", "text", "txt", "plain", "none", "log"})
LONGEST = 20_000
"""Most characters of a command line."""
_PROMPT = re.compile(
    r"^\s*(?:\([\w.-]+\)\s*)?(?:[\w.<>-]+@[\w.<>-]+[:\s][^\n$#]{0,80}[$#] ?|\[[\w.<>-]+@[^\]\n]{1,80}\][$#] ?|\$ "
    r"(?=\S)|(?:PS )?(?:[A-Z]:|~)\\[^>\n]{0,120}>\s*|!(?=\w))"
)
_ASSIGN = re.compile(r"(?P<name>[A-Za-z_]\w*)=(?P<value>\"[^\"]*\"|'[^']*'|[^\s;&|]*)(?:\s+|$)")
_EXPORT = re.compile(r"^(?:export|set|setenv|SET|declare -x|ENV)\s+(?P<rest>[A-Za-z_]\w*[ =].*)$")
_POWERSHELL = re.compile(r"^\$env:(?P<name>\w+)\s*=\s*(?P<value>.*)$", re.IGNORECASE)

_BACKSLASHED = re.compile(
    r"(?<![^\s=])(?:\.{1,2}\\)?[\w.-]+(?:\\[\w.-]+)*\\[\w.-]*\w(?=\s|$)|(?<![^\s=])\.\\[\w.-]+(?=\s|$)"
)
"""Paths as ``.\\src\\a.py``, by themselves or behind an option's ``=``."""

RUNS = re.compile(
    r"^(?:time\s+|nohup\s+|timeout\s+\S+\s+|srun\s+(?:-\S+\s+)*|gdb\s.*--args\s+|strace\s+(?:-\S+\s+)*|winpty\s+)?"
    r"(?:[\w./~-]*/)?"
    r"(?:python[\d.]*w?(?:\.exe)?|py|ipython3?|pypy3?|pytest|py\.test|tox|torchrun|accelerate|deepspeed|mpirun|mpiexec|horovodrun|fleetrun"
    r"|paddle\w*|hub|ppocr\w*|mim|lmdeploy|swift|vllm|yolo|ultralytics|llamafactory-cli|transformers-cli|optimum-cli|trtexec|onnxsim"
    r"|tensorboard|streamlit|celery|gunicorn|uvicorn|flask|scrapy|spark-submit|ray|node|deno|bun|npx|java|dotnet|ruby|perl|Rscript|julia|go|cargo|rustc"
    r"|make|cmake|ninja|meson|bazel|gcc(?:-\d+)?|g\+\+(?:-\d+)?|cc|c\+\+|clang(?:\+\+)?(?:-\d+)?|nvcc|ptxas|hipcc|gfortran|swig|cython|f2py"
    r"|bash|sh)(?:\s|$)"
    r"|^\.{1,2}/[\w./-]+(?:\s|$)|^[\w./-]+\.(?:sh|py|out)(?:\s|$)"
)
"""Beginnings of lines that run something."""
SETUP = re.compile(
    r"^(?:sudo\s+(?:-\S+\s+)*)?(?:pip\d?(?:\.\d+)?|conda|mamba|micromamba|apt|apt-get|aptitude|yum|dnf|apk|brew|pacman|choco|winget|uv|pipx|poetry|npm|yarn"
    r"|git|wget|curl|unzip|tar|gunzip|mkdir|md|cp|mv|rm|ln|chmod|chown|touch|source|\.|activate|module|docker|nvidia-docker|podman|docker-compose"
    r"|nvidia-smi|uname|lsb_release|ls|ll|dir|cat|type|head|tail|echo|which|where|whereis|env|printenv|pwd|clear|exit|history|ulimit|ldd|dpkg|rpm|df|free|lspci|huggingface-cli|hf|modelscope"
    r"|sudo|su|ssh|scp|tmux|screen|vim?|nano|code|kill|ps|top|htop|watch|find|grep|sed|awk|virtualenv|pyenv|workon|deactivate)(?:\s|$)"
    r"|^(?:\S*python[\d.]*|py)\s+(?:-m\s+(?:pip|venv|virtualenv|ensurepip|conda|torch\.utils\.collect_env|detectron2\.utils\.collect_env)\b|--version|-V\b"
    r"|\S*setup\.py\s+(?:install|develop|build\w*|bdist\w*)|\S*collect_env\.py|\S*get_environment_info\.py)"
    r"|^(?:\S*/)?(?:nvcc|gcc|g\+\+|cmake|make|node|java|go|cargo|rustc|clang)\s+(?:--version|-version|-V|-v|version)\s*$"
)
"""Beginnings of lines that prepare, install or inspect something: environment, never the command."""
BUILDS = re.compile(
    r"(?:^|[\s;&|/])(?:gcc|g\+\+|cc|c\+\+|clang|clang\+\+|nvcc|hipcc|make|cmake|ninja|meson|bazel|f2py"
    r"|cython)(?:-\d+)?(?:\s|$)|setup\.py\s+(?:install|develop|build)|pip\S{0,9} install (?:-\S{1,9} ){0,9}(?:\.|git\+)"
)
"""Lines that compile something, so that the compiler matters."""
_COMPLETE = re.compile(r"^\s*(?:#|//|::|REM\b)", re.IGNORECASE)


@dataclass(frozen=True, kw_only=True)
class CommandLine:
    """One command with its continuation lines and here-documents, as written. ``line``: its first in the report."""

    text: str
    line: int
    role: str
    """``run``, ``setup``, ``cd``, ``export``."""


@dataclass
class Shell:
    """The command lines of one piece, in order."""

    piece: ReportPiece
    lines: list[CommandLine] = field(default_factory=list)

    def of(self, role: str) -> list[CommandLine]:
        """The lines of one role."""
        return [line for line in self.lines if line.role == role]


def read(piece: ReportPiece, taken: Sequence[tuple[int, int]] = ()) -> Shell:
    """The command lines of a piece. ``taken``: spans of lines that are something else, such as an environment."""
    shell = Shell(piece)
    prompted = [bool(_PROMPT.match(line)) for line in piece.text.split("\n")]
    known = piece.info in SHELLS
    if not (known or piece.info in _PLAIN_INFO or any(prompted)):
        return shell
    for text, at in _logical(piece.text, only_prompted=any(prompted)):
        role = role_of(text, lenient=known and not any(prompted))
        if role and not within(piece.line + at, taken):
            shell.lines.append(CommandLine(text=text, line=piece.line + at, role=role))
    return shell


def within(line: int, spans: Sequence[tuple[int, int]]) -> bool:
    """Whether a line lies in one of some spans of lines."""
    return any(first <= line <= last for first, last in spans)


def role_of(text: str, *, lenient: bool = False) -> str:
    """The role of a command line (:class:`CommandLine`), '' for other text. ``lenient``: only commands are expected."""
    bare = text.strip()
    if not bare or len(bare) > LONGEST or _COMPLETE.match(bare):
        return ""
    if _EXPORT.match(bare) or _POWERSHELL.match(bare) or _only_assigns(bare):
        return "export"
    _, rest = assignments(bare)
    if re.match(r"(?:cd|pushd|chdir)(?:\s|$)", rest):
        return "cd" if "&&" not in rest and ";" not in rest else "run"
    if SETUP.match(rest):
        return "setup" if not _sentence(rest) else ""
    if RUNS.match(rest) and not _sentence(rest):
        return "run"
    looks = re.match(r"[a-z_][\w.+-]*(?:\s+(?:--?\w|[\w./-]+\.\w)|$)", rest) and not _sentence(rest)
    return "run" if lenient and looks and "Error" not in rest and ": " not in rest[:60] else ""


def _sentence(text: str) -> bool:
    """Whether a line that begins with a program's name is a sentence (``make sure that ...``)."""
    words = text.split()
    if len(re.findall(r"[\u3040-\u9fff\uac00-\ud7af]", text)) > len(text) / 3:
        return True
    if text.rstrip().endswith((".", "。", "，", "?", "？", "!", "：", ":")) and not text.rstrip().endswith(" ."):
        return len(words) > 3 and not any(word.startswith("-") or "/" in word for word in words[1:])
    plain = sum(bool(re.fullmatch(r"[a-z]+,?", word)) for word in words[1:])
    return (len(words) > 5 and plain > 0.7 * len(words)) or bool(
        re.match(r"(?:python|java|node|go)\s+(?:version|[\d.:=]+\b)", text, re.I)
    )


def _only_assigns(text: str) -> bool:
    names, rest = assignments(text)
    return bool(names) and not rest and all(re.fullmatch(r"[A-Z][A-Z0-9_]+", name) for name in names)


def assignments(text: str) -> tuple[dict[str, str], str]:
    """The variables set before a command on its own line (``A=b python x.py``), and the command."""
    found: dict[str, str] = {}
    at = 0
    while hit := _ASSIGN.match(text, at):
        found[hit["name"]] = _unquoted(hit["value"])
        at = hit.end()
    return found, text[at:]


def exported(text: str) -> dict[str, str]:
    """The variables that an export, a ``set`` of Windows, a PowerShell assignment or a Dockerfile's ENV sets."""
    bare = text.strip()
    if hit := _POWERSHELL.match(bare):
        return {hit["name"]: _unquoted(hit["value"].strip())}
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


def _logical(text: str, *, only_prompted: bool) -> Iterator[tuple[str, int]]:
    """Command lines with their continuations, each with its first line (from 0)."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        start, line = at, lines[at]
        at += 1
        prompt = _PROMPT.match(line)
        if only_prompted and not prompt:
            continue
        body = [line[prompt.end() :] if prompt else line]
        while (
            at < len(lines) and body[-1].rstrip().endswith(("\\", " ^", " `")) and not body[-1].rstrip().endswith(":\\")
        ):
            body.append(re.sub(r"^> ?", "", lines[at]))
            at += 1
        if here := re.search(r"<<-?\s*['\"]?(\w+)['\"]?", body[-1]):
            while at < len(lines) and lines[at - 1].strip() != here[1]:
                body.append(lines[at])
                at += 1
        yield "\n".join(body).strip("\n"), start


def portable(text: str) -> str:
    """A command line of a Windows shell in a form that bash reads: its continuations become backslashes.

    Backslashes in relative paths become slashes; paths with a drive letter stay, since nothing can replace them.
    """
    text = _BACKSLASHED.sub(lambda match: match[0].replace("\\", "/"), text)
    if "\n" not in text:
        return text.strip()
    return re.sub(r"[ \t]+[\^`][ \t]*\n", " \\\\\n", text).strip("\n")


@dataclass(frozen=True, kw_only=True)
class Installed:
    """What setup lines install. ``ignored``: lines with nothing that a case can hold.

    ``unisolated``: those of ``pip`` that are built with ``--no-build-isolation``, behind what other lines install.
    """

    pip: tuple[str, ...] = ()
    unisolated: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    apt: tuple[str, ...] = ()
    clones: tuple[tuple[str, str, str], ...] = ()
    """(address, folder, branch) of ``git clone``."""
    refs: tuple[str, ...] = ()
    ignored: tuple[CommandLine, ...] = ()


_REQUIREMENT = re.compile(
    r"[A-Za-z0-9][\w.-]*(?:\[[\w,.-]+\])?(?:(?:===?|~=|!=|[<>]=?)[\w.*+!-]+(?:,(?:===?|~=|!=|[<>]=?)[\w.*+!-]+)*)?"
)
_PIP_VALUES = frozenset(
    {"-i", "--index-url", "--extra-index-url", "-f", "--find-links", "-c", "--constraint", "--trusted-host"}
)
_KEPT_OPTIONS = {
    **{name: name for name in ("--index-url", "--extra-index-url", "--find-links")},
    "-i": "--index-url",
    "-f": "--find-links",
}
_UNISOLATED = "--no-build-isolation"
_PIP_FLAGS = frozenset({"--pre", _UNISOLATED})


def installs(lines: Sequence[CommandLine]) -> Installed:
    """What the setup lines install. Requirements are kept as written; ``-r FILE`` is ignored."""
    pip: list[str] = []
    options: list[str] = []
    unisolated: list[str] = []
    apt: list[str] = []
    clones: list[tuple[str, str, str]] = []
    refs: list[str] = []
    ignored: list[CommandLine] = []
    for line in lines:
        words = _words(line.text)
        if "install" in words and any(
            re.search(r"pip\d?(?:\.\d+)?$", word) for word in words[: words.index("install")]
        ):
            found, opts = _pip(words[words.index("install") + 1 :])
            if pip and _UNISOLATED in opts:
                unisolated += found
                opts.remove(_UNISOLATED)
            pip += found
            options += opts
            if not found:
                ignored.append(line)
        elif "install" in words and {"apt", "apt-get"} & set(words):
            rest = words[words.index("install") + 1 :]
            apt += [word for word in rest if re.fullmatch(r"[a-z0-9][a-z0-9.+-]+", word)]
        elif words[:2] == ["git", "clone"] and (clone := _clone(words[2:])):
            clones.append(clone)
        elif words[:2] in (["git", "checkout"], ["git", "switch"]) and len(words) > 2:
            refs += [word for word in words[2:] if not word.startswith("-")][:1]
        else:
            ignored.append(line)
    return Installed(
        pip=tuple(dict.fromkeys(pip)),
        unisolated=tuple(dict.fromkeys(unisolated)),
        options=tuple(dict.fromkeys(options)),
        apt=tuple(dict.fromkeys(apt)),
        clones=tuple(dict.fromkeys(clones)),
        refs=tuple(refs),
        ignored=tuple(ignored),
    )


def _words(text: str) -> list[str]:
    bare = re.split(r"\s#|&&|;|\|", text.replace("\\\n", " "))[0]
    try:
        return shlex.split(bare)
    except ValueError:
        return bare.split()


def _pip(words: Sequence[str]) -> tuple[list[str], list[str]]:
    found: list[str] = []
    options: list[str] = []
    skip = ""
    for word in words:
        if skip:
            if skip in _KEPT_OPTIONS and word.startswith("http"):
                options.append(f"{_KEPT_OPTIONS[skip]} {shlex.quote(word)}")
            skip = ""
        elif word in _PIP_VALUES or word in {"-r", "--requirement", "-e", "--editable", "-t", "--target"}:
            skip = word
        elif word in _PIP_FLAGS:
            options.append(word)
        elif _REQUIREMENT.fullmatch(word) or re.match(r"(?:git\+)?https://\S+", word):
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
    if not places or not re.match(r"https?://|git@", places[0]):
        return None
    url = re.sub(r"^git@([\w.-]+):", r"https://\1/", places[0])
    folder = places[1] if len(places) > 1 else url.rstrip("/").removesuffix(".git").rpartition("/")[2]
    return url.removesuffix(".git").rstrip("/"), folder, branch
