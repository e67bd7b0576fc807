"""Requirements that conflict: pip's and uv's resolvers, with both sides."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser

_SIDES = re.compile(r"^The conflict is caused by:\n((?:    .+\n?)+)", re.M)
_ASKED = re.compile(r"The user requested (?P<constraint>\(constraint\) )?(?P<what>.+)")
_NEEDS = re.compile(r"(?P<who>\S+ \S+) depends on (?P<what>.+)")
_DOUBLE = re.compile(r"ERROR: Double requirement given: (?P<one>\S+).* \(already in (?P<other>\S+?)[ ,)]")
_UV = re.compile(r"(?:×|error:) No solution found when resolving dependencies.*?\n((?: .*\n?)+)", re.M)
MOST = 4
"""Sides that are named."""


def _read(log: BuildLog) -> BuildCause | None:
    if found := _SIDES.search(log.text + "\n"):
        sides = list(dict.fromkeys(filter(None, (_side(line.strip()) for line in found[1].splitlines()))))
        more = f", and {len(sides) - MOST} more" if len(sides) > MOST else ""
        return BuildCause(sentence=f"the requirements conflict: {' and '.join(sides[:MOST])}{more}")
    if double := _DOUBLE.search(log.text):
        return BuildCause(sentence=f"the case asks for both {double['one']} and {double['other']}")
    if solver := _UV.search(log.text + "\n"):
        words = " ".join(re.sub(r"╰─▶|^ *cause:|│", " ", solver[1], flags=re.M).split()).rstrip(".")
        return BuildCause(sentence=f"uv finds no versions that go together: {words[:1].lower()}{words[1:]}")
    return None


def _side(line: str) -> str:
    if asked := _ASKED.fullmatch(line):
        who = "a constraint allows only" if asked["constraint"] else "the case asks for"
        return f"{who} {asked['what']}"
    if needs := _NEEDS.fullmatch(line):
        return f"{needs['who']} needs {needs['what'].replace(' and ', ',')}"
    return ""


PARSER = BuildParser(name="resolver", read=_read, precedence=10)
