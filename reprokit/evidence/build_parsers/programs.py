"""Programs that builds call and what they say: missing ones, CMake, make, git, patch, tar, checksums."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser
from reprokit.evidence.build_parsers import _debian

_NO_COMMAND = re.compile(
    r"(?:line \d+: |: \d+: |^)(?P<a>[\w./+-]+): (?:command )?not found$|Cannot find command '(?P<b>[\w.+-]+)'"
    r"|env: ['‘](?P<c>[^'’]+)['’]: No such file or directory",
    re.M,
)
_EXEC = re.compile(
    r"(?:^|\s)(?P<what>\S+): cannot execute(?: binary file)?: (?:required file not found|Exec format error)"
)
_PACKAGE = re.compile(
    r"Could NOT find (?P<a>\w+)|Could not find a package configuration file provided by \"(?P<b>\w+)\""
)
_PKG_CONFIG = re.compile(
    r"No package '(?P<a>[^']+)' found|Package (?P<b>\S+) was not found in the pkg-config search path"
)
_POLICY = re.compile(r"Compatibility with CMake < (?P<version>[\d.]+) has been removed")
_CMAKE_VERSION = re.compile(
    r"CMake (?P<asked>[\d.]+) or higher is required\.\s+You are running version (?P<have>[\d.]+)"
)
_CMAKE = re.compile(r"^CMake Error at (?P<where>\S+) \(\w+\):\n(?P<said>(?:  .*\n|\n)+)", re.M)
_MAKE = re.compile(r"make(?:\[\d+\])?: \*\*\* (?P<said>No .+?)\.?(?:  ?Stop\.)?$", re.M)
_PATCH = re.compile(
    r"error: patch failed: (?P<a>[^:\s]+)"
    r"|^(?:\d+ out of \d+ hunks?|Hunk #\d+) (?:FAILED|failed).*?(?:to file (?P<b>\S+?)\.rej)?$"
    r"|can't find file to patch|error: (?P<c>\S+): patch does not apply|^error: (?P<d>\S+): No such file or directory$"
    r"|patch: \*\*\*\* (?P<e>.+)",
    re.M,
)
_PATCHED = re.compile(r"^patching file (?P<file>\S+)", re.M)
_ARCHIVE = re.compile(
    r"(?P<gzip>not in gzip format)|(?P<tar>This does not look like a tar archive)|(?P<xz>File format not recognized)"
    r"|(?P<zip>End-of-central-directory signature not found)"
)
_CHECKSUM = re.compile(r"^(?P<file>\S+): FAILED$", re.M)


def _read(log: BuildLog) -> BuildCause | None:
    for each in (_command, _cmake, _patch, _others):
        if cause := each(log):
            return cause
    return None


def _command(log: BuildLog) -> BuildCause | None:
    if wrong := _EXEC.search(log.text):
        if "Exec format" in wrong[0]:
            return BuildCause(sentence=f"{wrong['what']} is a program for another processor architecture")
        return BuildCause(sentence=f"{wrong['what']} cannot run: its interpreter or loader is not in the image")
    found = log.last(_NO_COMMAND.pattern)
    if found is None:
        return None
    name = next(filter(None, found.groups()))
    return BuildCause(sentence=f"the program {name} is not installed", put=_debian.of_program(name))


def _cmake(log: BuildLog) -> BuildCause | None:
    if old := _POLICY.search(log.text):
        return BuildCause(
            sentence=f"the project asks for compatibility with CMake < {old['version']}, which CMake 4 does not have",
            put='matrix.cmake: ["3.31"]',
        )
    if new := _CMAKE_VERSION.search(log.text):
        return BuildCause(
            sentence=f"CMake {new['asked']} or higher is required, and this is {new['have']}",
            put=_debian.of_program("cmake"),
        )
    if package := _PACKAGE.search(log.text):
        name = next(filter(None, package.groups()))
        return BuildCause(sentence=f"CMake does not find {name}", put=_debian.of_module(name))
    if library := _PKG_CONFIG.search(log.text):
        return BuildCause(sentence=f"pkg-config does not find {next(filter(None, library.groups()))}")
    if error := _CMAKE.search(log.text + "\n"):
        return BuildCause(sentence=f"CMake stops at {error['where']}: {' '.join(error['said'].split())}")
    return None


def _patch(log: BuildLog) -> BuildCause | None:
    if log.at is None or not re.search(r"\bpatch\b|git (?:apply|am)", log.at.command):
        return None
    found = _PATCH.search(log.text)
    if found is None:
        return None
    patched = log.last(_PATCHED.pattern)
    file = found["a"] or found["b"] or found["c"] or found["d"] or (patched["file"] if patched else "")
    return BuildCause(sentence=f"the patch does not apply{f' to {file}' if file else ''}")


def _others(log: BuildLog) -> BuildCause | None:
    if rule := _MAKE.search(log.text):
        return BuildCause(sentence=f"make stops: {rule['said'][0].lower()}{rule['said'][1:]}")
    if archive := _ARCHIVE.search(log.text):
        kind = next(name for name, value in archive.groupdict().items() if value)
        return BuildCause(sentence=f"what {log.program} unpacks is not an archive of the format {kind}")
    if wrong := _CHECKSUM.search(log.text):
        return BuildCause(sentence=f"the checksum of {wrong['file']} is not the one that is asked for")
    return None


PARSER = BuildParser(name="programs", read=_read, precedence=50)
