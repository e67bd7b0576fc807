"""Packages of npm that do not exist, or do not go together."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser

_NPM_404 = re.compile(r"npm (?:error|ERR!) 404 +(?:The requested resource )?'(?P<a>@?[^@']+)(?:@[^@']*)?'")
_NPM_TREE = re.compile(r"npm (?:error|ERR!) code ERESOLVE")
_NPM_FOUND = re.compile(r"npm (?:error|ERR!) Found: (?P<found>\S+)")
_NPM_PEER = re.compile(
    r"npm (?:error|ERR!) (?:Could not resolve dependency:\s+npm (?:error|ERR!) )?(?P<peer>peer .+ from \S+)"
)


def _read(log: BuildLog) -> BuildCause | None:
    if _NPM_TREE.search(log.text):
        has, peer = _NPM_FOUND.search(log.text), _NPM_PEER.search(log.text)
        return BuildCause(
            sentence="npm finds no versions that go together"
            + (f": {has['found']} is asked for" if has else "")
            + (f", and there is {peer['peer']}" if peer else "")
        )
    if found := _NPM_404.search(log.text):
        return BuildCause(sentence=f"the npm registry has no package {found['a']}")
    return None


PARSER = BuildParser(name="npm", read=_read, precedence=11)
