"""RPM packages that do not exist, or do not go together, and repositories that do not answer."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser
from reprokit.evidence.build_parsers._distribution import unknown_packages

_UNKNOWN = re.compile(
    r"^(?:No match for argument: |error: yum did not find the package |No package )(?P<name>\S+?)(?: available\.)?\r?$",
    re.M,
)
_REPOSITORY = re.compile(
    r"Failed to download metadata for repo(?:sitory)? ['\"](?P<dnf>[^'\"]+)['\"](?:: (?P<said>.+))?"
    r"|Cannot find a valid baseurl for repo: (?P<yum>\S+)"
)
_UNMET = re.compile(r"^ +- (?P<dnf>nothing provides .+|.+ conflicts with .+)|^ +Requires: (?P<yum>.+)", re.M)


def _read(log: BuildLog) -> BuildCause | None:
    # dnf goes on without it, and then does not find the packages that it has.
    if found := _REPOSITORY.search(log.text):
        said = f": {found['said'].strip()}" if found["said"] else ""
        return BuildCause(sentence=f"the package repository {found['dnf'] or found['yum']} does not answer{said}")
    if unknown := list(dict.fromkeys(found["name"] for found in _UNKNOWN.finditer(log.text))):
        return unknown_packages(unknown)
    if unmet := _UNMET.search(log.text):
        said = unmet["dnf"] or f"one needs {unmet['yum']}"
        return BuildCause(sentence=f"packages of the distribution do not go together: {said.strip()}")
    return None


PARSER = BuildParser(name="rpm", read=_read, precedence=19)
