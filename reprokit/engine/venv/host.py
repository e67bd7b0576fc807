"""What this host has to make virtual environments of, and what it lets us enforce: looked at, never assumed."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

from reprokit.engine import site as sites
from reprokit.case.cellspec import Limits
from reprokit.engine.leftovers import private_folder
from reprokit.engine.protocol import Trial
from reprokit.engine.venv import cgroups, keeping, sandbox, trials
from reprokit.environment import versions
from reprokit.environment.axes import AXES
from reprokit.environment.axis import HostPrograms
from reprokit.environment.model import Interpreter
from reprokit.environment.host import Host
from reprokit.environment.host import HostCapabilities
from reprokit.environment.measured import Measured
from reprokit.environment.probe import command
from reprokit.core.errors import EngineError
from reprokit.core.home import home

SECONDS = 30
"""Time for a program of the host to tell its version."""

_ASK = """\
import json, os, sys
print(json.dumps([".".join(map(str, sys.version_info[:3])), os.path.realpath(sys.executable), sys.base_prefix,
                  " ".join(sys.version.split()), sys.prefix == sys.base_prefix]))
"""


@functools.cache
def powers() -> HostCapabilities:
    """What this host permits, each tried once in this process."""
    namespaces = _refused(cut_off=False)
    network = namespaces or _refused(cut_off=True)
    return HostCapabilities(namespaces=namespaces, network=network, **cgroups.refusals())


def _refused(*, cut_off: bool) -> str:
    """Why a program cannot be shut off from this host, '' when it can."""
    with private_folder("try") as scratch:
        (scratch / "root").mkdir()
        program = sandbox.SandboxProgram(
            command=("true",),
            environ={"PATH": os.defpath},
            folder="/",
            namespaces=True,
            root=scratch / "root",
            cut_off=cut_off,
        )
        try:
            sandbox.run(program, lambda data: None, threading.Event())
        except EngineError as error:
            what = "network namespaces" if cut_off else "namespaces"
            return f"this host permits this user no {what} ({str(error).rpartition(': ')[2]})"
    return ""


@functools.cache
def host() -> Host:
    """This host, measured by the probe that measures images, and the Pythons and compilers that it has."""
    output: list[bytes] = []
    probe = Trial(image="", command=command(), env={}, workdir="/", limits=Limits(timeout=120.0))
    trials.run(probe, None, powers(), output.append, threading.Event(), nullcontext())
    measured = Measured.parse(b"".join(output).decode(errors="replace"))
    apt = measured.packages.get("apt") or None
    found = {axis.name: dict(programs(axis.host_programs)) for axis in AXES if axis.host_programs}
    return Host(
        os=measured.os or "unknown",
        glibc=measured.glibc or "",
        pythons=tuple(one for one in pythons() if _reachable(one.path)),
        uv_pythons=uv_pythons(),
        gccs=found.pop("gcc"),
        gcc=measured.gcc,
        cuda=measured.cuda,
        cudnn=measured.cudnn,
        measured=measured.further,
        programs=found,
        apt=apt,
        cpus=os.cpu_count() or 1,
        root=os.getuid() == 0,
        powers=powers(),
    )


def pythons() -> Iterator[Interpreter]:
    """The Pythons of this host, the distribution's own first, then the newest; no virtual environments."""
    found: dict[str, Interpreter] = {}
    for path in candidates():
        answer = _output([path, "-I", "-S", "-c", _ASK])
        with suppress(ValueError, TypeError):
            version, real, prefix, build, itself = json.loads(answer)
            if itself and real not in found:
                found[real] = Interpreter(version=version, path=real, prefix=prefix, build=build)
    yield from sorted(
        found.values(),
        key=lambda one: (one.prefix == "/usr", versions.order(one.version), one.path),
        reverse=True,
    )


def _reachable(path: str) -> bool:
    """Whether trials can run that program: root's run as nobody, and see root's home only where it can be shown them."""
    if os.getuid() != 0 or not powers().namespaces:
        return True
    return all(place.stat().st_mode & 0o001 for place in (Path(path), *Path(path).parents))


def candidates() -> list[str]:
    """Programs that may be a Python: on PATH, of the distribution, of pyenv, of uv."""
    patterns = ["/usr/bin", "/usr/local/bin", *os.environ.get("PATH", "").split(os.pathsep)]
    found = [path for folder in patterns for path in sorted(Path(folder).glob("python3*")) if _plain(path)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or home(os.environ) / ".pyenv")
    data = Path(os.environ.get("XDG_DATA_HOME") or home(os.environ) / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    for folder in (pyenv / "versions", uv, keeping.pythons()):
        found += [path for path in sorted(folder.glob("*/bin/python3*")) if _plain(path)]
    unique = dict.fromkeys(os.path.realpath(path) for path in found)
    return [path for path in unique if not _is_script(path)]


def _plain(path: Path) -> bool:
    return re.fullmatch(r"python3(\.\d+)?", path.name) is not None


def _is_script(path: str) -> bool:
    """Whether it is a shim of pyenv, say, which finds another Python elsewhere."""
    try:
        with open(path, "rb") as stream:  # noqa: PTH123
            return stream.read(2) == b"#!"
    except OSError:
        return True


def programs(wanted: HostPrograms) -> Iterator[tuple[str, str]]:
    """The distribution's programs that can serve an axis, with all that belong beside them: program -> version."""
    first = re.escape(wanted.names[0])
    for path in sorted(Path("/usr/bin").glob(f"{wanted.names[0]}*")):
        version = re.fullmatch(rf"{first}(-\d+(?:\.\d+)*)?", path.name)
        if version and all(path.with_name(f"{name}{version[1] or ''}").exists() for name in wanted.names[1:]):
            if found := re.search(r"\d+(\.\d+)*", _output([str(path), *wanted.version])):
                yield str(path), found[0]


def uv_version() -> str:
    """The version of the uv on PATH, '' without one."""
    found = re.search(r"\d+(\.\d+)+", _output(["uv", "--version"])) if shutil.which("uv") else None
    return found[0] if found else ""


def uv_pythons() -> tuple[str, ...]:
    """The Pythons that uv could install, where the site's settings let it."""
    settings = sites.settings()
    if "uv" not in settings.python_providers or not shutil.which("uv"):
        return ()
    words = ["uv", "python", "list", "--only-downloads", "--all-versions", "--output-format", "json", "--no-config"]
    if settings.uv_python_downloads:
        words += ["--python-downloads-json-url", settings.uv_python_downloads]
    with suppress(ValueError, KeyError, TypeError):
        listed: Iterable[dict[str, str]] = json.loads(_output(words))
        plain = [one for one in listed if one["implementation"] == "cpython" and one.get("variant") == "default"]
        return tuple(dict.fromkeys(one["version"] for one in plain if re.fullmatch(r"[\d.]+", one["version"])))
    return ()


def _output(words: list[str]) -> str:
    """What a program of the host prints, '' when it fails."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, cwd="/")
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
