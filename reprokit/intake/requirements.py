"""What the image of a drafted case installs: the packages that the report lists, installs or imports. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit.case import placeholders
from reprokit.case.model import RESERVED
from reprokit.core.text import whole_number
from reprokit.environment import versions
from reprokit.environment.catalog import OURS
from reprokit.evidence.model import Frame
from reprokit.intake.environment_model import EnvironmentBlock
from reprokit.intake.pieces import table

MOST = 40
"""Of a list of up to so many packages all are installed; of a longer one those that are imported, or well known."""
_PACKAGE = re.compile(r"(?:^|.*/)(?:site|dist)-packages/(?P<name>[A-Za-z_]\w*)(?:/|\.py)")
_RUNNERS = frozenset({"IPython", "ipykernel", "_pytest", "pluggy"})
_NO_LIBRARY = re.compile(r"\blib[\w+.-]{1,60}\.so\b")
_RELEASE = re.compile(r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d{1,5})?")
_AXIS_NAMES = {
    "paddlepaddle": "paddle",
    "paddlepaddle-gpu": "paddle",
    "opencv-python": "opencv",
    "opencv-python-headless": "opencv",
    "scikit-learn": "sklearn",
    "mmcv-full": "mmcv",
}
"""Packages whose axis has another name in cases."""


@dataclass
class Requirements:
    """What to install: ``pip``, ``options`` and ``apt`` as in ``environment`` of a case."""

    pip: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    apt: list[str] = field(default_factory=list)
    free: list[dict[str, str]] = field(default_factory=list)
    """Axes by environment."""
    notes: dict[str, list[str]] = field(default_factory=dict)
    """Key of ``environment`` -> comments."""
    missing: list[str] = field(default_factory=list)
    """What was reported but cannot be installed, or is needed but was not reported."""

    def note(self, key: str, text: str) -> None:
        """Add a comment on a key of ``environment``."""
        self.notes.setdefault(key, []).append(text)


def imported_packages(frames: Sequence[Frame]) -> list[str]:
    """The installed packages in a traceback, by their import names, outermost first, without what runs programs."""
    hits = (_PACKAGE.match(frame.file.replace("\\", "/")[:1000]) for frame in frames)
    return list(dict.fromkeys(hit["name"] for hit in hits if hit and hit["name"] not in _RUNNERS))


def find_installed(command: str) -> list[str]:
    """The packages that ``pip install`` in a command names, in small letters; comments do not count."""
    lines = re.finditer(r"^(?!#).*?\bpip\S{0,9} install((?: [^\s&|;]+)+)", command, re.MULTILINE)
    return [name(word.strip("'\"")) for line in lines for word in line[1].split() if not word.startswith("-")]


def choose_packages(
    environments: Sequence[EnvironmentBlock],
    *,
    imports: Sequence[str],
    asked: Sequence[str],
    options: Sequence[str],
    without: Collection[str],
    decisive: Collection[str],
    failure: str,
) -> Requirements:
    """What to install. ``imports``: names that programs and tracebacks import; ``asked``: arguments of ``pip install``.

    ``options``: of the report's install commands. ``without``: packages that a source tree or the command brings.
    ``decisive``: import names of the packages whose release decides; it is still to be written where the report has
    none. ``failure``: its message: where a shared library is missing, libraries are not installed beside the wheels,
    since the case would not fail with them.
    """
    result = Requirements(free=[{} for _ in environments] or [{}], options=list(dict.fromkeys(options)))
    open_names = {name for module in decisive for name in _pip_names(module)}
    chosen = [one for one in _choose_names(environments, imports) if one not in without]
    for package in chosen:
        _add_reported(result, package, environments, decides=package in open_names)
    have = {name(text) for text in result.pip} | set(chosen) | set(without)
    new = [text for text in dict.fromkeys(asked) if name(text) not in have]
    result.pip += new
    have |= {name(text) for text in new}
    if new:
        result.note("pip", f"as the report says: {', '.join(new)}")
    for module in dict.fromkeys(imports):
        names = _pip_names(module)
        if not have.isdisjoint(names):
            continue
        have.add(names[0])
        if not open_names.isdisjoint(names):
            _leave_open(result, names[0])
        elif module not in table("packages"):
            result.missing.append(f"{module} is imported: the report does not say which package and version that is.")
        else:
            result.pip.append(names[0])
            result.note("pip", f"{names[0]}: imported; the report names no version")
    rows = {one: row.get("apt", []) for row in table("packages").values() for one in row["pip"]}
    needed = [] if _NO_LIBRARY.search(failure) else [one for text in result.pip for one in rows.get(name(text), [])]
    if needed := list(dict.fromkeys(needed)):
        result.apt = needed
        result.note("apt", f"{', '.join(needed)}: libraries that these wheels load but do not contain")
    return result


def _leave_open(result: Requirements, package: str) -> None:
    """Make an axis of a package's release, with a placeholder: today's release may not have the bug any more."""
    for cell in result.free:
        cell[axis_of(package)] = placeholders.MARK
    result.pip.append(f"{package}=={{{{ {axis_of(package)} }}}}")
    result.note("pip", f"{package}: the report names no release of it: write which under matrix.{axis_of(package)}")


def _choose_names(environments: Sequence[EnvironmentBlock], imports: Iterable[str]) -> list[str]:
    relevant = {package for each in (*imports, *table("packages")) for package in _pip_names(each)}
    found: dict[str, None] = {}
    for one in environments:
        found |= {package: None for package in one.packages if len(one.packages) <= MOST or package in relevant}
    return list(found)


def axis_of(package: str) -> str:
    """The name of the axis of a package: one that a template can use."""
    found = _AXIS_NAMES.get(package) or re.sub(r"^(?=\d)", "_", re.sub(r"\W+", "_", package).strip("_"))
    return f"{found}_" if found in RESERVED else found


def _pip_names(module: str) -> tuple[str, ...]:
    row = table("packages").get(module)
    return tuple(row["pip"]) if row else (str(canonicalize_name(module)),)


def _add_reported(
    result: Requirements, package: str, environments: Sequence[EnvironmentBlock], *, decides: bool
) -> None:
    """A package that environments list: a pin where they agree, an axis where they do not."""
    reported = [re.sub(r"\.[xX*]$", "", found.packages.get(package, "")) for found in environments]
    releases = [text if _is_release(text) else "" for text in reported]
    unknown = [text for text in dict.fromkeys(reported) if text and not _is_release(text)]
    result.missing += [
        f"{package} {text} is not a release that an index has: write what to install." for text in unknown
    ]
    different = set(releases) - {""}
    if len(different) == 1:
        release = different.pop()
        requirement, option = pin_release(package, release)
        result.pip.append(requirement)
        result.options += [option] if option and option not in result.options else []
        if not all(releases):
            result.note("pip", f"{package}: not every environment lists it; one has {release}")
    elif all(releases) and different:
        for cell, release in zip(result.free, releases, strict=True):
            cell[axis_of(package)] = release.partition("+")[0]
        result.pip.append(f"{package}=={{{{ {axis_of(package)} }}}}")
        result.note("pip", f"{package}: as in each environment")
    elif decides:
        _leave_open(result, package)
    elif different:
        result.missing.append(f"{package} has several versions, and not every environment lists it: write which.")


def _is_release(version: str) -> bool:
    """Whether a version is one that an index can have, rather than a local build."""
    release, _, local = version.partition("+")
    return (
        bool(_RELEASE.fullmatch(release))
        and not set(release) <= {"0", "."}
        and not re.match(r"git|unknown|[0-9a-f]{6,40}$", local)
    )


def pin_release(package: str, version: str) -> tuple[str, str]:
    """(requirement, pip option that it needs or '') for a version; a build for CUDA as its makers document it."""
    release, _, local = version.partition("+")
    if package in _OF_TORCH and re.fullmatch(r"cu\d{2,3}", local):
        return f"{package}=={version}", f"--extra-index-url https://download.pytorch.org/whl/{local}"
    if cuda := re.fullmatch(r"cu(\d{2,3})", local):
        dotted = f"{cuda[1][:-1]}.{cuda[1][-1]}"
        row = OURS.build(package, release)
        if row and row.cuda and versions.matches(dotted, row.cuda):
            return f"{package}=={release}", ""
        for build in OURS.framework_builds(package, release):
            if dotted in build.cuda:
                return build.request(release, dotted)
        return f"{package}=={version}", ""
    if option := OURS.option_for(package, version):
        return f"{package}=={version}", option
    parts = release.split(".")
    # Reports omit the last parts: OpenCV 4.5.5 is 4.5.5.64, PyTorch 2.4 is 2.4.1.
    short = len(parts) < (4 if package.startswith("opencv") else 3) and None not in map(whole_number, parts)
    return (f"{package}=={release}.*" if short else f"{package}=={release}"), ""


_OF_TORCH = ("torchvision", "torchaudio", "torchtext")
"""Packages that are built with PyTorch, and are on its indexes. Source: https://pytorch.org/get-started/previous-versions/"""


def name(text: str) -> str:
    """The canonical name of a requirement; the text itself where it is an address."""
    try:
        return str(canonicalize_name(Requirement(text).name))
    except InvalidRequirement:
        found = re.match(r"[A-Za-z0-9][\w.-]*", text)
        return str(canonicalize_name(found[0])) if found and "://" not in text else text
