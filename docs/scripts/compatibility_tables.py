"""Compares the tables with package indexes: ``python -m docs.scripts.compatibility_tables [--write]``.

Prints what an index has and a table lacks, and exits with 1 if there is any, with 3 if an index does not answer. Asks
only pip, as this host has it configured (index, mirrors, proxies, authorities). ``--write`` writes the tables that an
index alone can answer, with single files read out of the wheels of new releases by HTTP ranges (package ``remotezip``,
extra ``data``); every other table is kept by hand, with its sources in it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import click

from reprokit.core.errors import ReprokitError
from reprokit.core.terminal import echo
from reprokit.environment import tables, versions
from reprokit.environment.catalog import OURS, FrameworkWheel
from reprokit.environment.frameworks import build_cuda

PYTHONS = tuple(f"3.{minor}" for minor in range(6, 16))
PLATFORMS = (
    *(f"manylinux_2_{minor}_x86_64" for minor in (35, 34, 31, 28, 27, 24, 17)),
    *("manylinux2014_x86_64", "manylinux2010_x86_64", "manylinux1_x86_64", "linux_x86_64"),
)
JOBS = 4


@dataclass(frozen=True, kw_only=True)
class Package:
    """A package on Python's index: the file that names a framework's build, and the first release of interest."""

    name: str
    constants: str = ""
    first: str = "0"


PACKAGES = (
    Package(name="torch", constants="torch/version.py", first="1.4"),
    Package(name="paddlepaddle-gpu", constants="paddle/version/__init__.py", first="2.0"),
    Package(name="paddlepaddle", first="2.0"),
    Package(name="tensorflow", constants="tensorflow/python/platform/build_info.py", first="2.1"),
    Package(name="tensorflow-cpu", first="2.1"),
    Package(name="jaxlib", first="0.3"),
)

LISTS = {
    "cmake": {"wheels": Package(name="cmake", first="3.18")},
    "cudnn": {f'"{major}"': Package(name=f"nvidia-cudnn-cu{major}") for major in ("11", "12", "13")},
    "nccl": {f'"{major}"': Package(name=f"nvidia-nccl-cu{major}") for major in ("11", "12", "13")},
}
"""Tables that are lists of the releases of a package, by their keys as YAML."""
ELSEWHERE = {"torch": "torch", "paddlepaddle-gpu": "paddlepaddle", "jax": "jax"}
"""Packages of data/frameworks.yaml -> the package on Python's index that has the same releases."""


class IndexUnavailable(ReprokitError):
    """pip or an index did not answer as expected."""

    exit_status = 3


def _pip(*arguments: str) -> str:
    # A host's constraints are about what it installs, not about what there is.
    environ = {**os.environ, "PIP_CONSTRAINT": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "pip", *arguments], capture_output=True, text=True, env=environ, check=False
    )
    if done.returncode:
        raise IndexUnavailable(f"pip {' '.join(arguments[:2])} failed: {done.stderr.strip()[-300:]}")
    return done.stdout


def _target(python: str) -> list[str]:
    # Some releases require 3.6.2 or 3.9.1 at least; to pip, 3.6 alone is 3.6.0.
    return ["--only-binary=:all:", f"--python-version={python}.99", *(f"--platform={name}" for name in PLATFORMS)]


@cache
def available(package: str, python: str) -> list[str]:
    """The final releases on the index with a wheel for that Python on Linux x86-64, oldest first."""
    try:
        answer = _pip("index", "versions", package, *_target(python))
    except IndexUnavailable as error:
        if "No matching distribution" in str(error):
            return []
        raise
    line = next((line for line in answer.splitlines() if line.startswith("Available versions:")), "")
    found = [version.strip() for version in line.partition(":")[2].split(",")]
    return sorted((version for version in found if re.fullmatch(r"\d+(\.\d+)*", version)), key=versions.order)


def releases(package: Package, python: str = "3.11") -> list[str]:
    """The releases of interest that have a wheel for a Python, oldest first."""
    return [one for one in available(package.name, python) if versions.order(one) >= versions.order(package.first)]


def pythons_of(package: Package) -> dict[str, list[str]]:
    """Release -> the Pythons that it has wheels for, oldest first in both."""
    with ThreadPoolExecutor(JOBS) as pool:
        lists = dict(zip(PYTHONS, pool.map(partial(releases, package), PYTHONS), strict=True))
    found: dict[str, list[str]] = {}
    for python, listed in lists.items():
        for release in listed:
            found.setdefault(release, []).append(python)
    return dict(sorted(_some(found, package).items(), key=lambda row: versions.order(row[0])))


def _some(found: Any, package: Package) -> Any:
    """What was found. Raises IndexUnavailable for nothing: an index that lost a package would have no gaps."""
    if not found:
        raise IndexUnavailable(f"the index that pip is configured with has no wheel of {package.name}")
    return found


def build_of(package: Package, release: str, python: str) -> dict[str, Any]:
    """What the wheel of a release was built for: ``cuda`` and ``cudnn``, as far as it says."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        # ===: a local version of the same release (2.1.0+cpu, from a host's own wheels) is another build.
        asked = ["install", "--quiet", "--dry-run", "--ignore-installed", "--no-deps", f"--report={report}"]
        _pip(*asked, *_target(python), f"--target={folder}/target", f"{package.name}==={release}")
        found = json.loads(report.read_text("utf-8"))["install"][0]
        answer = _constants(found["download_info"]["url"], package.constants, Path(folder) / "site")
    row: dict[str, Any] = {}
    if (cuda := build_cuda(answer)) is not None:
        row["cuda"] = cuda
    if cudnn := _cudnn(answer, found["metadata"].get("requires_dist", ())):
        row["cudnn"] = cudnn
    return row


def _constants(url: str, path: str, site: Path) -> Mapping[str, Any]:
    """The constants in one file of a wheel, read as the probe reads them in an image."""
    if not path:
        return {}
    from remotezip import RemoteZip

    # What pip trusts, for the ranges that it does not read itself.
    trusted = os.environ.get("PIP_CERT") or os.environ.get("REQUESTS_CA_BUNDLE") or True
    with RemoteZip(url, verify=trusted) as wheel:
        # Some wheels carry their packages below NAME.data/purelib.
        inside = next((name for name in wheel.namelist() if name == path or name.endswith(f"/purelib/{path}")), None)
        if inside is None:
            return {}
        text = wheel.read(inside)
    (site / path).parent.mkdir(parents=True)
    (site / path).write_bytes(text)
    probe = tables.DATA.parent / "probe_inside.py"
    done = subprocess.run([sys.executable, "-S", probe], capture_output=True, env={"PYTHONPATH": str(site)}, check=True)
    frameworks = json.loads(done.stdout)["frameworks"]
    constants: Mapping[str, Any] = next(iter(frameworks.values()), {})
    return constants


def _cudnn(answer: Mapping[str, Any], requires: Iterable[str]) -> str:
    pinned = next((text for text in requires if re.match(r"nvidia-cudnn-cu\d+ ?\(?==", text)), "")
    if found := re.search(r"==\s*(\d[\d.]*)", pinned):
        return found.group(1)
    said = answer.get("cudnn_version") or answer.get("build_info", {}).get("cudnn_version") or ""
    return str(said) if str(said) not in ("False", "") else ""


def _row(package: Package, known: Mapping[str, FrameworkWheel], at: tuple[str, str]) -> dict[str, Any]:
    release, python = at
    if release in known:
        row = known[release]
        return {key: value for key, value in (("cuda", row.cuda), ("cudnn", row.cudnn)) if value}
    return build_of(package, release, python) if package.constants else {}


def builds(known: Mapping[str, Mapping[str, FrameworkWheel]], packages: Iterable[Package] = PACKAGES) -> Iterator[str]:
    """The rows of data/builds.yaml. Wheels of releases that are ``known`` are not read again: they never change."""
    for package in packages:
        rows = pythons_of(package)
        say = [(release, pythons[-1]) for release, pythons in rows.items()]
        with ThreadPoolExecutor(JOBS) as pool:
            built = list(pool.map(partial(_row, package, known.get(package.name, {})), say))
        yield f"{package.name}:"
        for (release, pythons), row in zip(rows.items(), built, strict=True):
            fields = [f"python: [{', '.join(pythons)}]", *(f'{key}: "{value}"' for key, value in row.items())]
            yield f'  "{release}": {{{", ".join(fields)}}}'
        echo(f"{package.name}: {len(rows)} releases", err=True)


def lists(packages: Mapping[str, Package]) -> Iterator[str]:
    """The rows of a table of LISTS."""
    for key, package in packages.items():
        row = f"{key}: [{', '.join(_some(releases(package), package))}]"
        yield from textwrap.wrap(row, 120, subsequent_indent="  ")


def uv_pythons() -> list[str]:
    """The releases of CPython that the newest uv can fetch for Linux x86-64 with glibc."""
    with tempfile.TemporaryDirectory() as folder:
        _pip("install", "--quiet", f"--target={folder}", "uv")
        asked = [f"{folder}/bin/uv", "python", "list", "--no-config", "--all-versions", "--only-downloads"]
        asked.append("--output-format=json")
        done = subprocess.run(asked, capture_output=True, text=True, env={"HOME": folder}, check=False)
    if done.returncode:
        raise IndexUnavailable(f"uv python list failed: {done.stderr.strip()[-300:]}")
    keys = (row["key"] for row in json.loads(done.stdout))
    return [found[1] for key in keys if (found := re.fullmatch(r"cpython-(\d+\.\d+\.\d+)-linux-x86_64-gnu", key))]


def gaps() -> Iterator[str]:
    """What an index has and a table lacks: the table, the package and its releases. Raises IndexUnavailable."""
    for package in PACKAGES:
        rows = OURS.builds().get(package.name, {})
        found = pythons_of(package)
        known = [name for name, pythons in found.items() if name in rows and set(pythons) <= set(rows[name].pythons)]
        yield from _gap("builds", package.name, found, known)
    for table, packages in LISTS.items():
        for key, package in packages.items():
            listed = _some(releases(package), package)
            yield from _gap(table, package.name, listed, tables.table(table)[key.strip('"')])
    toolkit = Package(name="cuda-toolkit")
    toolkits = [".".join(versions.parts(release)[:3]) for release in _some(releases(toolkit), toolkit)]
    yield from _gap("cuda", toolkit.name, toolkits, OURS.cuda_wheels())
    for name, indexed in ELSEWHERE.items():
        of = [row["builds"] for row in tables.table("frameworks").values() if row["package"] == name]
        first = min((release for row in of for release in row), key=versions.order, default="0")
        found = pythons_of(Package(name=indexed, first=first))
        yield from _gap("frameworks", name, found, [one for one in found if OURS.framework_builds(name, one)])
    yield from _gap("python", "uv's Pythons", uv_pythons(), tables.table("python")["uv"]["pythons"])


def _gap(table: str, what: str, found: Iterable[str], known: Iterable[str]) -> Iterator[str]:
    if lacking := sorted(set(found) - set(known), key=versions.order):
        yield f"{table}.yaml: {what} {', '.join(lacking)}"


def _write(name: str, rows: Iterable[str]) -> None:
    path = tables.DATA / f"{name}.yaml"
    old = path.read_text("utf-8")
    head = [line for line in old.split("\n") if line.startswith("#")]
    if (text := "\n".join([*head, *rows]) + "\n") != old:
        fresh = path.with_suffix(".new")
        fresh.write_text(text, encoding="utf-8")
        fresh.replace(path)
    echo(f"{path.name}: {'written' if text != old else 'as it was'}")


@click.command()
@click.option("--write", is_flag=True, help="Write the tables that indexes alone can answer.")
def main(write: bool) -> None:
    """List what the package index that pip is configured with has, and the tables in data/ lack."""
    try:
        if write:
            for name, packages in LISTS.items():
                _write(name, lists(packages))
            _write("builds", builds(OURS.builds()))
            return
        found = list(gaps())
    except ReprokitError as error:
        echo(str(error), err=True)
        sys.exit(error.exit_status)
    for line in found or ["the tables have all that the index has"]:
        echo(line)
    sys.exit(1 if found else 0)


if __name__ == "__main__":
    main()
