"""Packages of the distribution that do not exist, were renamed, or do not go together."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser
from reprokit.evidence.build_parsers._distribution import unknown_packages

_UNKNOWN = re.compile(r"E: Unable to locate package (\S+)|E: Couldn't find any package by (?:glob|regex) '([^']+)'")
_REPLACED = re.compile(r"However the following packages? replaces? it:\n((?:  .+\n?)+)")
_NO_CANDIDATE = re.compile(r"E: Package '([^']+)' has no installation candidate")
_VERSION = re.compile(r"E: Version '(?P<version>[^']+)' for '(?P<name>[^']+)' was not found")
_UNMET = re.compile(r"The following packages have unmet dependencies:\n((?: .+\n?)+)")
_CONFLICT = re.compile(r"(?P<who>[\w.+-]+) : (?P<how>Conflicts|Depends|PreDepends|Breaks): (?P<what>.+)")
_LOCK = re.compile(r"E: Could not get lock (?P<file>[^\s.]+\S*)")
_SIGNED = re.compile(r"GPG error: (?P<where>\S+).*: (?P<said>The following signatures.*)|NO_PUBKEY (?P<key>\w+)")
_RELEASE = re.compile(
    r"E: The repository '(?P<where>[^']+)' (?P<said>does(?: not|n't) have a Release file|is not signed)"
)
_FETCH = re.compile(r"E: Failed to fetch (?P<url>\S+) +(?P<said>.+)")
_DPKG = re.compile(r"^(?:dpkg: error processing (?:package|archive) (?P<name>\S+) .*:\n (?P<said>.+))", re.M)


def _read(log: BuildLog) -> BuildCause | None:
    if replaced := _NO_CANDIDATE.findall(log.text):
        others = _REPLACED.search(log.text)
        names = others[1].split() if others else []
        instead = f"; replaced by {', '.join(names)}" if names else ""
        return BuildCause(sentence=f"the distribution has no package {replaced[0]} to install{instead}")
    if unknown := [one or other for one, other in _UNKNOWN.findall(log.text)]:
        return unknown_packages(unknown)
    if version := _VERSION.search(log.text):
        return BuildCause(sentence=f"the distribution has no version {version['version']} of {version['name']}")
    if unmet := _UNMET.search(log.text):
        return BuildCause(sentence=f"packages of the distribution do not go together: {_said(unmet[1])}")
    return _archive(log)


def _said(block: str) -> str:
    who, found = "", []
    for line in block.splitlines():
        if match := _CONFLICT.search(line):
            who = match["who"]
            found.append(f"{who} {_WORDS[match['how']]} {match['what'].strip()}")
    return "; ".join(found[:3]) or " ".join(block.split())


_WORDS = {"Conflicts": "conflicts with", "Depends": "needs", "PreDepends": "needs", "Breaks": "breaks"}


def _archive(log: BuildLog) -> BuildCause | None:
    if signed := _SIGNED.search(log.text):
        return BuildCause(
            sentence=f"the key of the archive {signed['where'] or ''} is not known ({signed['said'] or signed['key']})"
        )
    if release := _RELEASE.search(log.text):
        return BuildCause(sentence=f"the archive {release['where']} {release['said']}")
    if fetch := _FETCH.search(log.text):
        return BuildCause(sentence=f"apt cannot fetch {fetch['url']}: {fetch['said']}")
    if dpkg := _DPKG.search(log.text):
        return BuildCause(sentence=f"the package {dpkg['name']} cannot be installed: {dpkg['said']}")
    return None


PARSER = BuildParser(name="apt", read=_read, precedence=18)
