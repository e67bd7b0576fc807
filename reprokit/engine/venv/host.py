"""What this host has to make virtual environments of: looked at, never assumed."""

from __future__ import annotations

import functools
import glob
import json
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from reprokit.case.cellspec import Limits
from reprokit.core.home import home
from reprokit.engine import site as sites
from reprokit.engine.protocol import Trial
from reprokit.engine.venv import keeping, trials
from reprokit.environment import versions
from reprokit.environment.axes import AXES
from reprokit.environment.axis import HostPrograms
from reprokit.environment.host import Host
from reprokit.environment.measured import Measured
from reprokit.environment.model import HostDistribution, HostPackage, Interpreter
from reprokit.environment.probe import command

SECONDS = 30
"""Time for a program of the host to tell its version."""

_ASK = """\
import json, os, sys
print(json.dumps([".".join(map(str, sys.version_info[:3])), os.path.realpath(sys.executable), sys.base_prefix,
                  " ".join(sys.version.split()), sys.prefix == sys.base_prefix]))
"""


@functools.cache
def host() -> Host:
    """This host, measured by the probe that measures images, and the Pythons and compilers that it has."""
    output: list[bytes] = []
    probe = Trial(image="", command=command(), env={}, workdir="/", limits=Limits(timeout=120.0))
    trials.run(probe, None, output.append, threading.Event(), nullcontext())
    measured = Measured.parse(b"".join(output).decode(errors="replace"))
    found = {axis.name: dict(programs(axis.host_programs)) for axis in AXES if axis.host_programs}
    return Host(
        os=measured.os or "unknown",
        glibc=measured.glibc or "",
        pythons=tuple(pythons()),
        uv_pythons=uv_pythons(),
        packages=tuple(host_packages()),
        gccs=found.pop("gcc"),
        gcc=measured.gcc,
        cuda=measured.cuda,
        cudnn=measured.cudnn,
        measured=measured.further,
        programs=found,
        apt=measured.packages.get("apt") or None,
        rpm=measured.packages.get("rpm"),
        cpus=os.cpu_count() or 1,
        root=os.getuid() == 0,
    )


def pythons() -> Iterator[Interpreter]:
    """The Pythons of this host, the distribution's own first, then the newest; no virtual environments."""
    found: dict[str, Interpreter] = {}
    for path in candidates():
        with suppress(ValueError, TypeError):
            version, real, prefix, build, itself = json.loads(_output([path, "-I", "-S", "-c", _ASK]))
            if itself and real not in found:
                found[real] = Interpreter(version=version, path=real, prefix=prefix, build=build)
    yield from sorted(
        found.values(),
        key=lambda one: (one.prefix == "/usr", versions.order(one.version), one.path),
        reverse=True,
    )


def host_packages() -> Iterator[HostPackage]:
    """The packages that cells take from Python environments of this host, as these themselves describe them."""
    places: dict[Path, list[str]] = {}
    for name, place in sites.settings().host_packages.items():
        places.setdefault(place, []).append(name)
    for place, names in places.items():
        python = place / "bin" / "python"
        if not python.exists():
            why = f"{place} has no bin/python: name the folder of a Python environment"
            yield from (HostPackage(name=name, place=str(place), why=why) for name in names)
            continue
        told = _described(python, names)
        for name in names:
            one = dict(told.get(name, {"why": "its Python does not answer"}))
            several = tuple(
                HostDistribution(**{**each, "entries": tuple(each["entries"])}) for each in one.pop("distributions", ())
            )
            yield HostPackage(name=name, place=str(place), distributions=several, **one)


def _described(python: Path, names: list[str]) -> dict[str, dict[str, Any]]:
    """What an environment says of its packages."""
    script = Path(__file__).with_name("packages_inside.py").read_text("utf-8")
    with suppress(ValueError):
        found = json.loads(_output([str(python), "-I", "-c", script, *names]))
        if isinstance(found, dict):
            return found
    return {}


def candidates() -> list[str]:
    """Programs that may be a Python: on PATH, of the distribution, of pyenv, of uv."""
    patterns = ["/usr/bin", "/usr/local/bin", *os.environ.get("PATH", "").split(os.pathsep)]
    found = [path for folder in patterns for path in _matching(folder, "python3*") if _plain(path)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or home(os.environ) / ".pyenv")
    data = Path(os.environ.get("XDG_DATA_HOME") or home(os.environ) / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    found += [place / "bin" / "python" for place in sites.settings().host_packages.values()]
    for folder in (pyenv / "versions", uv, keeping.pythons()):
        found += [path for path in _matching(folder, "*/bin/python3*") if _plain(path)]
    unique = dict.fromkeys(os.path.realpath(path) for path in found)
    return [path for path in unique if not _is_script(path)]


def _matching(folder: str | Path, pattern: str) -> list[Path]:
    """The matching files below a folder, sorted; none where this user may not look into it (Path.glob raises there)."""
    return sorted(Path(folder, name) for name in glob.glob(pattern, root_dir=folder))  # noqa: PTH207


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
        if not version or not all(path.with_name(f"{name}{version[1] or ''}").exists() for name in wanted.names[1:]):
            continue
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
    environ = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, check=False, cwd="/", env=environ)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""
