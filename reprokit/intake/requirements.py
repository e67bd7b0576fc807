"""What the image of a drafted case installs: the packages that are relevant to the failure, as reported. Pure."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from reprokit.case.model import RESERVED
from reprokit.environment import versions
from reprokit.environment.catalog import OURS
from reprokit.evidence.model import Frame
from reprokit.intake.environments import EnvironmentBlock
from reprokit.intake.environments.reading import TOOLS
from reprokit.intake.table import table

MOST = 40
"""Of a list of up to so many packages all are installed; of a longer one those that are relevant, or well known."""

_PACKAGE = re.compile(r"(?:^|.*/)(?:site|dist)-packages/(?P<name>[A-Za-z_]\w*)(?:/|\.py)")
_NO_LIBRARY = re.compile(r"\blib[\w+.-]{1,60}\.so\b")
_RELEASE = re.compile(r"\d+(?:\.\d+)*(?:(?:a|b|rc)\d+)?(?:\.post\d+)?")
AXIS_NAMES = {
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
    """What to install. ``pip``, ``options``, ``apt``: as in ``environment`` of a case; ``free``: axes by environment.

    ``setup``: a line for each program that is to be installed; ``notes``: key of ``environment`` -> comments;
    ``missing``: what was reported but cannot be installed, or is needed but was not reported.
    """

    pip: list[str] = field(default_factory=list)
    options: list[str] = field(default_factory=list)
    apt: list[str] = field(default_factory=list)
    free: list[dict[str, str]] = field(default_factory=list)
    notes: dict[str, list[str]] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    setup: str = ""

    def has(self, module: str) -> bool:
        """Whether a package that is usually imported by that name is installed."""
        return bool(set(_pip_names(module)) & {_name(text) for text in self.pip})


def imported(frames: Sequence[Frame]) -> list[str]:
    """The installed packages in a traceback, by their import names, outermost first."""
    hits = (_PACKAGE.match(frame.file.replace("\\", "/")[:1000]) for frame in frames)
    return list(dict.fromkeys(hit["name"] for hit in hits if hit))


def installed_by(command: str) -> list[str]:
    """The packages that ``pip install`` in a command names, in small letters."""
    words = [word for hit in _INSTALLS.finditer(command) for word in hit[1].split()]
    hits = (re.match(r"['\"]?([A-Za-z][\w.-]*)(?:\[[\w,]*\])?(?:['\"=<>~!;]|$)", word) for word in words)
    return [str(canonicalize_name(hit[1])) for hit in hits if hit]


_INSTALLS = re.compile(r"^(?!#).*?\bpip\S{0,9} install((?: [^\s&|;]+)+)", re.MULTILINE)


def pip_name(module: str) -> str:
    """The usual pip package for an import name, '' where none is known; ``np``, ``pd`` and ``tf`` are known, too."""
    row = table("packages").get({"np": "numpy", "pd": "pandas", "tf": "tensorflow"}.get(module, module))
    return str(row["pip"][0]) if row else ""


def wanted(
    environments: Sequence[EnvironmentBlock],
    *,
    imports: Iterable[str],
    asked: Sequence[str],
    options: Sequence[str],
    apt: Sequence[str],
    without: Iterable[str],
    elsewhere: Collection[str] = (),
    unknown: Collection[str] = (),
    script: str = "",
    failure: str = "",
) -> Requirements:
    """What to install. ``imports``: names that programs and tracebacks import; ``asked``: arguments of ``pip install``.

    ``options``, ``apt``: of the report's install commands. ``without``: packages that a source tree provides.
    ``elsewhere``: names of :func:`not_of_python`; ``unknown``: of :func:`unknown`, which are only named in a comment.
    ``script``: what has these imports, for comments;
    ``failure``: the message of the failure: where a shared library is missing, libraries are not installed beside the
    wheels, since the case would not fail with them.
    """
    result = Requirements(free=[{} for _ in environments], options=list(options))
    skip = {canonicalize_name(name) for name in without}
    imports = list(dict.fromkeys(imports))
    names = [name for name in _chosen(environments, imports) if name not in skip]
    programs = [name for name in names if name in elsewhere and not _names_nothing(name)][:_PROGRAMS]
    left = [name for name in names if name in unknown and name not in elsewhere]
    if left:
        versions_of = {name: next(filter(None, (one.packages.get(name) for one in environments)), "") for name in left}
        said = ", ".join(f"{name} {version}".strip() for name, version in list(versions_of.items())[:_PROGRAMS])
        result.notes["pip"] = [f"not known as packages, and not installed: {said}"]
    for name in names:
        if name not in elsewhere and name not in unknown:
            _reported(result, name, environments)
    for name in programs:
        _program(result, name, environments)
    if programs:
        result.setup = "".join(f"# install {name} {{{{ {_axis(name)} }}}}\n" for name in programs)
        result.missing.append(f"Nothing installs {', '.join(programs)} yet: do it in environment.setup.")
    have = {_name(text) for text in result.pip} | set(names) | skip
    new = []
    for text in asked:
        if _name(text) not in have:
            new.append(text)
            have.add(_name(text))
    result.pip += new
    if new:
        result.notes.setdefault("pip", []).append(f"as the report says: {', '.join(new)}")
    for name in imports:
        _imported(result, name, have, script)
    _numpy(result, environments)
    libraries = [] if _NO_LIBRARY.search(failure) else _libraries(result.pip)
    result.apt = list(dict.fromkeys([*apt, *libraries]))
    if extra := [name for name in result.apt if name not in apt]:
        result.notes.setdefault("apt", []).append(
            f"{', '.join(extra)}: libraries that these wheels load but do not contain"
        )
    return result


def _numpy(result: Requirements, environments: Sequence[EnvironmentBlock]) -> None:
    """Install no NumPy 2 beside a package that is older than its first release for it, but the one that is reported."""
    if any(_name(text) == "numpy" and text != "numpy" for text in result.pip):
        return
    first = {name: row["numpy_2"] for row in table("packages").values() if "numpy_2" in row for name in row["pip"]}
    for text in result.pip:
        name = _name(text)
        values = [cell[_axis(name)] for cell in result.free if _axis(name) in cell] if "{{" in text else [text]
        found = [hit[0] for value in values if (hit := re.search(r"\d+(?:\.\d+)+", value))]
        old = next((one for one in found if versions.order(one) < versions.order(first.get(name, "0"))), "")
        if old:
            rest = [one for one in result.pip if one != "numpy"]
            reported = [one.packages.get("numpy", "") for one in environments]
            if had := next(filter(_RELEASE.fullmatch, reported), ""):
                result.pip = [*rest, f"numpy=={had}"]
                return
            result.pip = [*rest, "numpy<2"]
            note = f"numpy<2: {name} {old} is older than {first[name]}, which works with NumPy 2"
            result.notes.setdefault("pip", []).append(note)
            return


def _chosen(environments: Sequence[EnvironmentBlock], imports: Sequence[str]) -> list[str]:
    relevant = {name for each in (*imports, *table("packages")) for name in _pip_names(each)}
    chosen: dict[str, None] = {}
    for found in environments:
        few = len(found.packages) <= MOST
        for name in found.packages:
            if few or name in relevant:
                chosen.setdefault(name)
    return list(chosen)


_ALIAS = re.compile(r"^[ \t]*(?:>>> )?import ([A-Za-z_]\w*) as ([A-Za-z_]\w*)", re.MULTILINE)


def unaliased(environments: Sequence[EnvironmentBlock], text: str) -> list[EnvironmentBlock]:
    """Environments with the packages that the programs in a text import as something else by their own names."""
    aliases = {alias: name for name, alias in _ALIAS.findall(text) if name != alias}

    def own(alias: str, has: Collection[str]) -> str:
        name = aliases.get(alias, alias)
        return alias if name in has else name

    return [
        replace(one, packages={own(name, one.packages): version for name, version in one.packages.items()})
        for one in environments
    ]


def not_of_python(
    groups: Sequence[Sequence[EnvironmentBlock]], text: str, stated: Collection[str] = ()
) -> frozenset[str]:
    """What people name with a version in a report, ``text``, that is not a package of Python's index: an axis.

    ``stated``: what its reader calls packages. The result has programs, and in a report that has nothing of Python
    everything that no table knows as a package.
    """
    python = bool(_PYTHON.search(text[:_READ]))
    other = not python and bool(_OTHER_LANGUAGE.search(text[:_READ]))
    known = frozenset() if other else _usual().difference(table()["also_programs"])
    people = {name for found in _every(groups) if found.kind in _OF_ANY for name in found.packages}
    words = {name for found in _every(groups) if found.kind != "stated" for name in _doubted(found)}
    listed = {name for found in _every(groups) if found.kind not in _OF_ANY for name in found.packages}
    names = ((people | words) - (listed - words)) | {str(canonicalize_name(name)) for name in stated}
    conda = {name for found in _every(groups) for name in found.packages} & {*table()["of_conda"]}
    return frozenset(conda) | frozenset(
        name for name in names if name in TOOLS or name.endswith("-cpp") or not (python or name in known)
    )


_OF_ANY = frozenset({"typed", "stated", "sessionInfo"})
"""Kinds of environments that list what is of any language."""


def unknown(groups: Sequence[Sequence[EnvironmentBlock]], own: Collection[str]) -> frozenset[str]:
    """What has a version in a report and is not shown to be a package: an index that lacks it fails the build.

    That is what only sentences name, of which one in fifteen was a package in 1,408 public reports, and words and
    programs where versions are listed. ``own``: what the report is about, imports, installs, or shows in paths.
    """
    evident = {canonicalize_name(name) for name in own} | _usual()
    listed = {
        name for found in _every(groups) if found.kind != "stated" for name in set(found.packages) - _doubted(found)
    }
    names = {name for found in _every(groups) for name in _doubted(found)} - listed - evident
    return frozenset(name for name in names if not any(name.startswith(f"{one}-") for one in own))


def _doubted(found: EnvironmentBlock) -> set[str]:
    """The names of a block that only a table or the rest of the report can show to be packages."""
    if found.kind == "stated":
        return set(found.packages)
    names = found.packages if found.kind == "typed" else found.written
    return {name for name in names if name in _WORDS or not _NAME.fullmatch(name)}


def _names_nothing(name: str) -> bool:
    """Whether what has a version is called by a word that names no package or program: ``version``, ``driver``."""
    return bool(_OF_HOST.search(name)) or name in _NOTHING


_OF_HOST = re.compile(r"(?:^|(?:nvidia|gpu|cuda|amd|linux)-)(?:driver|kernel|firmware)s?$")
"""What belongs to the machine of a container."""


def _every(groups: Sequence[Sequence[EnvironmentBlock]]) -> Iterator[EnvironmentBlock]:
    return (found for group in groups for found in group)


_NAME = re.compile(r"[a-z0-9]+(?:[._-][a-z0-9]+)*")
_GENERIC = frozenset(str(canonicalize_name(word)) for key in ("no_names", "generic") for word in table()[key])
_WORDS = TOOLS | _GENERIC
_NOTHING = _GENERIC.difference(TOOLS, table()["of_conda"])


@cache
def _usual() -> frozenset[str]:
    """The packages of our tables."""
    names = {*table()["called"].values(), *(name for row in table("packages").values() for name in row["pip"])}
    return frozenset(str(canonicalize_name(name)) for name in (*names, *table()["packages"]))


_PYTHON = re.compile(
    r"Traceback \(most recent"
    r"|^[ >]*(?:\d{1,2}[.)] )?(?:import|from) [a-z_][\w.]*(?:$| as | import |, )|\bpip3?\b|\bpython|\bconda\b|\.py\b"
    r"|^[ >*-]*[a-z][\w-]{1,60}==\d"
    r"|site-packages"
    r"|\bpypi\b",
    re.MULTILINE | re.IGNORECASE,
)
_OTHER_LANGUAGE = re.compile(
    r"^\s*(?:pub )?fn \w+|^\s*func \w+\(|^\s*#include\b|^`{3,}\s*"
    r"(?:rust|rs|go|js|javascript|ts|typescript|java|kotlin|ruby|php|swift)\b"
    r"|\bcargo\b|\bnpm\b|package\.json|\bgo\.mod\b|\bpom\.xml\b|\bGemfile\b",
    re.MULTILINE,
)
_READ = 500_000
"""Characters of a report in which signs of a language are looked for."""
_PROGRAMS = 8
"""Most programs that become axes."""


def _program(result: Requirements, name: str, environments: Sequence[EnvironmentBlock]) -> None:
    """A program that environments list: an axis, so that the case has its version, though nothing installs it yet."""
    reported = [found.packages.get(name, "") for found in environments]
    for cell, version in zip(result.free, reported, strict=True):
        cell[_axis(name)] = version or next(filter(None, reported))


_TAG = re.compile(r"[A-Za-z]{1,2}\d{2,8}(?:[._-]\d+)*")
"""What some projects call their builds: ``b5415``."""


def _axis(name: str) -> str:
    """The name of the axis of a package or program: one that a template can use."""
    found = AXIS_NAMES.get(name) or re.sub(r"^(?=\d)", "_", re.sub(r"\W+", "_", name).strip("_"))
    return f"{found}_" if found in RESERVED else found


def _pip_names(module: str) -> tuple[str, ...]:
    row = table("packages").get(module)
    return tuple(row["pip"]) if row else (str(canonicalize_name(module)),)


def _reported(result: Requirements, name: str, environments: Sequence[EnvironmentBlock]) -> None:
    """A package that environments list: a pin where they agree, an axis where they do not."""
    reported = [found.packages.get(name, "") for found in environments]
    releases = [text if _released(text) else _near(text) for text in reported]
    if not any(releases) and all(_TAG.fullmatch(text) for text in reported if text):
        _program(result, name, environments)  # no index has such versions
        return
    for text, near in dict(zip(reported, releases, strict=True)).items():
        if text and not near:
            result.missing.append(f"{name} {text} is not a release: choose the nearest one.")
        elif text != near:
            before = "" if text.startswith(f"{near}+") else " or the last before it"
            note = f"{name} {text} was reported, which is not a release: {near}{before} is the nearest"
            result.notes.setdefault("pip", []).append(note)
    if not any(releases):
        return
    if len(set(releases)) == 1:
        said, release = (text.partition("+")[0] for text in (reported[0], releases[0]))
        requirement, option = pinned(name, releases[0], exact=said == release)
        result.pip.append(requirement)
        result.options += [option] if option and option not in result.options else []
    elif all(releases):
        axis = _axis(name)
        for cell, release in zip(result.free, releases, strict=True):
            cell[axis] = release.partition("+")[0]
        result.pip.append(f"{name}=={{{{ {axis} }}}}")
        result.notes.setdefault("pip", []).append(f"{name}: as in each environment")
    else:
        only = next(release for release in releases if release)
        result.pip.append(pinned(name, only)[0])
        result.notes.setdefault("pip", []).append(f"{name}: not every environment lists it; one has {only}")


def _released(version: str) -> bool:
    """Whether a version is one that an index can have, rather than a local build."""
    release, _, local = version.partition("+")
    return (
        bool(_RELEASE.fullmatch(release))
        and not re.search(r"\.post20\d{6}", release)  # a build of conda's: setuptools 49.6.0.post20210108
        and not set(release) <= {"0", "."}
        and not re.match(r"git|unknown|[0-9a-f]{6,40}$", local)
    )


def _near(version: str) -> str:
    """The release that is nearest to a development or local build; '' for one without a number."""
    found = re.match(r"\d+(?:\.\d+)+|\d+(?=\.[xX*]$)", version)
    return found[0] if found and not set(found[0]) <= {"0", "."} else ""


def pinned(name: str, version: str, *, exact: bool = True) -> tuple[str, str]:
    """(requirement, pip option that it needs or '') for a version; a build for CUDA as its makers document it.

    ``exact``: whether it is a release, rather than the one that a development build is called after, which may never
    have come out.
    """
    release, _, local = version.partition("+")
    if name in _OF_TORCH and re.fullmatch(r"cu\d{2,3}", local):
        return f"{name}=={version}", f"--extra-index-url https://download.pytorch.org/whl/{local}"
    if cuda := re.fullmatch(r"cu(\d{2,3})", local):
        dotted = f"{cuda[1][:-1]}.{cuda[1][-1]}"
        row = OURS.build(name, release)
        if row and row.cuda and versions.matches(dotted, row.cuda):
            return f"{name}=={release}", ""
        for build in OURS.framework_builds(name, release):
            if dotted in build.cuda:
                return build.request(release, dotted)
        return f"{name}=={version}", ""
    if option := OURS.option_for(name, version):
        return f"{name}=={version}", option
    parts = release.split(".")
    # Reports omit the last parts: OpenCV 4.5.5 is 4.5.5.64, PyTorch 2.4 is 2.4.1.
    short = len(parts) < (4 if name.startswith("opencv") else 3) and all(part.isdigit() for part in parts)
    if not (exact or short):
        return f"{name}<={release}", ""
    return (f"{name}=={release}.*" if short else f"{name}=={release}"), ""


_OF_TORCH = ("torchvision", "torchaudio", "torchtext")
"""Packages that are built with PyTorch, and are on its indexes. Source: https://pytorch.org/get-started/previous-versions/"""


def _imported(result: Requirements, module: str, have: set[str], script: str) -> None:
    names = _pip_names(module)
    if set(names) & have:
        return
    if module not in table("packages"):
        who = script.replace("the ", "The ", 1)
        result.missing.append(f"{who} imports {module}: the report does not say which package and version that is.")
        return
    result.pip.append(names[0])
    have.add(names[0])
    why = f"{names[0]}: imported by {script}; the report names no version"
    result.notes.setdefault("pip", []).append(why)


def _libraries(pip: Iterable[str]) -> list[str]:
    rows = {
        name: row.get("apt", []) for row in table("packages").values() for name in row["pip"] if "headless" not in name
    }
    return [library for text in pip for library in rows.get(_name(text), [])]


def _name(text: str) -> str:
    """The canonical name of a requirement; the text itself where it is an address."""
    try:
        return str(canonicalize_name(Requirement(text).name))
    except InvalidRequirement:
        found = re.match(r"[A-Za-z0-9][\w.-]*", text)
        return str(canonicalize_name(found[0])) if found and "://" not in text else text
