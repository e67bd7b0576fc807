"""What this host has to make virtual environments of: looked at, never assumed."""

from __future__ import annotations

import functools
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import nullcontext, suppress
from importlib import metadata
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit.case.cellspec import Limits
from reprokit.core.home import home
from reprokit.engine import site as sites
from reprokit.engine.protocol import Trial
from reprokit.engine.venv import environments, trials
from reprokit.environment import versions
from reprokit.environment.axes import AXES
from reprokit.environment.axis import HostPrograms
from reprokit.environment.host import Host
from reprokit.environment.measured import Measured
from reprokit.environment.model import HostDistribution, HostPackage, Interpreter
from reprokit.environment.probe import command

SECONDS = 30
"""Time for a program of the host to tell its version."""
_ASK_PATH = 'import json, sys; print(json.dumps([".".join(map(str, sys.version_info[:3])), *sys.path]))'

_ASK = """\
import json, os, sys
print(json.dumps([".".join(map(str, sys.version_info[:3])), os.path.realpath(sys.executable), sys.base_prefix,
                  " ".join(sys.version.split()), sys.prefix == sys.base_prefix]))
"""


@functools.cache
def measure_host() -> Host:
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
    for name, place in sites.settings().host_packages.items():
        try:
            yield _describe_package(name, place)
        except (LookupError, ValueError) as error:  # a file there may be broken
            yield HostPackage(name=name, place=str(place), why=str(error.args[0]))


@functools.cache
def _packages_of(place: Path) -> tuple[str, Mapping[str, metadata.Distribution], Counter[str]]:
    """Of an environment: the version of its Python, what is installed there by canonical name, and how many of these
    share the first part of their modules' paths. Raises LookupError.
    """
    python = place / "bin" / "python"
    if not python.exists():
        raise LookupError(f"{place} has no bin/python: name the folder of a Python environment")
    try:
        version, *folders = json.loads(_output([str(python), "-I", "-c", _ASK_PATH]))
    except ValueError:
        raise LookupError("its Python does not answer") from None
    installed: dict[str, metadata.Distribution] = {}
    for one in metadata.distributions(path=folders):
        if one.metadata["Name"]:
            installed.setdefault(canonicalize_name(one.metadata["Name"]), one)
    return (
        version,
        installed,
        Counter(part for one in installed.values() for part in {p.parts[0] for p in _modules(one)}),
    )


def _describe_package(name: str, place: Path) -> HostPackage:
    """A package with all that it requires there, itself first. Raises LookupError for what cannot be served."""
    python, installed, owners = _packages_of(place)
    waiting: list[str] = [canonicalize_name(name)]
    if waiting[0] not in installed:
        raise LookupError("it is not installed there")
    found: dict[str, HostDistribution] = {}
    for key in waiting:  # which grows meanwhile
        if key in found or key not in installed:  # what is not installed there is not required there
            continue
        found[key] = _describe_distribution(installed[key], owners)
        for text in installed[key].requires or ():
            with suppress(InvalidRequirement):
                requirement = Requirement(text)
                if "extra" not in str(requirement.marker or ""):
                    waiting.append(canonicalize_name(requirement.name))
    several = tuple(found.values())
    return HostPackage(name=name, place=str(place), version=several[0].version, python=python, distributions=several)


def _describe_distribution(one: metadata.Distribution, owners: Counter[str]) -> HostDistribution:
    """Where it lies, and what of it has to be seen: whole packages, or the parts of those that several share."""
    name = one.metadata["Name"]
    record = one.read_text("RECORD")
    if not record:
        raise LookupError(f"{name} has no list of its files (RECORD): only what pip installed can be served")
    if json.loads(one.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"):
        raise LookupError(f"{name} is an editable install, whose modules lie elsewhere: install it without -e")
    paths = [path.parts for path in _modules(one)]
    entries = {"/".join(parts[: 2 if owners[parts[0]] > 1 else 1]) for parts in paths}
    info = sorted(entry for entry in entries if entry.endswith((".dist-info", ".egg-info")))
    if len(info) != 1:
        raise LookupError(f"{name} has {len(info)} folders of metadata")
    return HostDistribution(
        name=canonicalize_name(name),
        version=one.version,
        site=os.path.realpath(str(one.locate_file(""))),  # lib64 may be a link
        info=info[0],
        entries=tuple(sorted(entries - set(info))),
        record=hashlib.sha256(record.encode()).hexdigest()[:16],
    )


def _modules(one: metadata.Distribution) -> list[metadata.PackagePath]:
    """Its files that lie where modules do: programs are beside that, and other files may be anywhere."""
    return [p for p in one.files or () if not p.is_absolute() and p.parts[:1] not in ((), ("..",), ("__pycache__",))]


def candidates() -> list[str]:
    """Programs that may be a Python: on PATH, of the distribution, of pyenv, of uv."""
    patterns = ["/usr/bin", "/usr/local/bin", *os.environ.get("PATH", "").split(os.pathsep)]
    found = [path for folder in patterns for path in _matching(folder, "python3*") if _plain(path)]
    pyenv = Path(os.environ.get("PYENV_ROOT") or home(os.environ) / ".pyenv")
    data = Path(os.environ.get("XDG_DATA_HOME") or home(os.environ) / ".local" / "share")
    uv = Path(os.environ.get("UV_PYTHON_INSTALL_DIR") or data / "uv" / "python")
    found += [place / "bin" / "python" for place in sites.settings().host_packages.values()]
    for folder in (pyenv / "versions", uv, environments.top() / "pythons"):
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
