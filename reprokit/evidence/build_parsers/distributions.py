"""A requirement for which the index has no file: of that name, that version, or for this Python and platform."""

from __future__ import annotations

import re

from packaging.requirements import InvalidRequirement, Requirement
from packaging.version import InvalidVersion, Version

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser

_NONE = re.compile(
    r"ERROR: Could not find a version that satisfies the requirement (?P<what>.+?) (?:\(from (?P<whose>[^()]*)\) )?"
    r"\(from versions: (?P<versions>[^)]*)\)"
)
_PYTHON = re.compile(r"different python version: (.*)")
_WHEEL = re.compile(r"ERROR: (\S+\.whl) is not a supported wheel on this platform")


def _read(log: BuildLog) -> BuildCause | None:
    if wheel := _WHEEL.search(log.text):
        return BuildCause(sentence=f"{wheel[1].rpartition('/')[2]} is not for this Python and platform")
    found = log.last(_NONE.pattern)
    if found is None:
        return None
    what = found["what"].partition(";")[0].strip()
    asked = _requirement(what)
    whose = f", which {log.subject} needs to be built" if log.subject else ""
    if asked and (python := _other_python(log, asked)):
        return BuildCause(sentence=f"{what} needs Python {python}, and this is another")
    versions = sorted(filter(None, map(_version, found["versions"].split(", "))))
    if not versions:
        return BuildCause(
            sentence=f"the index has no file of {what} for this Python and platform, or no package of that name{whose}"
        )
    return BuildCause(sentence=f"the index has no {what} for this Python and platform{whose}; {_near(asked, versions)}")


def _requirement(what: str) -> Requirement | None:
    try:
        return Requirement(what)
    except InvalidRequirement:
        return None


def _version(text: str) -> Version | None:
    try:
        return Version(text)
    except InvalidVersion:
        return None


def _other_python(log: BuildLog, asked: Requirement) -> str:
    """What the asked version demands of Python, where pip says that it is therefore passed over."""
    for found in _PYTHON.findall(log.text):
        for entry in found.split("; "):
            version, _, python = entry.partition(" Requires-Python ")
            if (known := _version(version)) and asked.specifier and asked.specifier.contains(known, prereleases=True):
                return str(python.strip())
    return ""


def _near(asked: Requirement | None, versions: list[Version]) -> str:
    """The versions around the one that is asked for, in words."""
    final = [one for one in versions if not one.is_prerelease] or versions
    pins = [known for one in (asked.specifier if asked else ()) if (known := _version(one.version.rstrip(".*")))]
    if not pins:
        return f"it has {final[0]} to {final[-1]}"
    below, above = [one for one in final if one < pins[0]], [one for one in final if one > pins[0]]
    near = [str(one) for one in (*below[-1:], *above[:1])]
    return f"the nearest {'is' if len(near) == 1 else 'are'} {' and '.join(near)}" if near else f"it has {final[-1]}"


PARSER = BuildParser(name="distributions", read=_read, precedence=20)
