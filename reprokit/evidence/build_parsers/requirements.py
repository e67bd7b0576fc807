"""Requirements that pip cannot read or use: wrong syntax, a missing file, a folder without a project, wrong hashes."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser

_INVALID = re.compile(
    r"ERROR: Invalid requirement: ['\"]?(?P<what>[^'\"\n]+?)['\"]?(?:: .*?)?"
    r"(?: \(from line (?P<line>\d+) of (?P<file>[^)\n]+)\))?$",
    re.M,
)
_HINT = re.compile(r"^Hint: (.+)", re.M)
_NO_FILE = re.compile(r"ERROR: Could not open (?:requirements|constraint) file: .*'(?P<file>[^']+)'")
_NO_PROJECT = re.compile(r"ERROR: (?:Directory|File) '(?P<what>[^']+)' is not installable")
_NO_PATH = re.compile(
    r"ERROR: Invalid requirement: .*?\n?Hint: It looks like a path\. File '(?P<file>[^']+)' does not exist", re.M
)
_HASH = re.compile(r"^ +(?P<what>\S+) from .*:\n +Expected sha256 +(?P<asked>\w+)\n(?:.*\n)*? +Got +(?P<got>\w+)", re.M)
_NO_HASH = re.compile(r"ERROR: Hashes are required in --require-hashes mode.*\n +(?P<what>\S+)")
_UNPINNED = re.compile(
    r"ERROR: In --require-hashes mode, all requirements must have their versions pinned.*\n +(?P<what>\S+)"
)
_MANAGED = re.compile(r"^error: externally-managed-environment", re.M)


def _read(log: BuildLog) -> BuildCause | None:
    if path := _NO_PATH.search(log.text):
        return BuildCause(sentence=f"the requirement {path['file']} looks like a path, and no such file exists")
    if wrong := _INVALID.search(log.text):
        where = f" in line {wrong['line']} of {wrong['file']}" if wrong["line"] else ""
        hint = _HINT.search(log.text)
        return BuildCause(
            sentence=f"{wrong['what']} is not a valid requirement{where}", advice=hint[1].rstrip(" .") if hint else ""
        )
    if gone := _NO_FILE.search(log.text):
        return BuildCause(sentence=f"pip cannot open {gone['file']}, which does not exist")
    if folder := _NO_PROJECT.search(log.text):
        return BuildCause(
            sentence=f"{folder['what']} has neither setup.py nor pyproject.toml, so pip cannot install it"
        )
    if wrong := _HASH.search(log.text):
        return BuildCause(
            sentence=f"the hash of {wrong['what']} is wrong: asked for sha256 {wrong['asked'][:12]}..., "
            f"the index serves {wrong['got'][:12]}..."
        )
    if missing := _NO_HASH.search(log.text):
        return BuildCause(sentence=f"pip requires a hash for every requirement, and {missing['what']} has none")
    if loose := _UNPINNED.search(log.text):
        return BuildCause(sentence=f"pip requires hashes, and {loose['what']} has no exact version to take one of")
    if _MANAGED.search(log.text):
        return BuildCause(
            sentence="the distribution's own Python refuses packages of pip (externally managed environment)",
            advice="use the pip on PATH, or a virtual environment",
        )
    return None


PARSER = BuildParser(name="requirements", read=_read, precedence=15)
