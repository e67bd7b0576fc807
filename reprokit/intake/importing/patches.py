"""The files that a patch changes; one that is damaged, or that leads out of its tree, is refused. Pure.

git decides again when it applies the patch, and never writes outside of the tree either.
"""

from __future__ import annotations

import re

from reprokit.intake.importing.bug import WrongBug, path

_HUNK = re.compile(r"@@ -\d+(?:,([0-9]{1,9}))? \+\d+(?:,([0-9]{1,9}))? @@")
_NAMED = re.compile(r"(--- |\+\+\+ |(?:rename|copy) (?:from|to) )(.*)")
_BOTH = re.compile(r'diff --git (?:a/(.+) b/\1|"a/(.+)" "b/\2")')
_ESCAPED = re.compile(r"\\([0-7]{3}|.)")
_LETTERS = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v"}


def changed(patch: str, where: str) -> tuple[str, ...]:
    """The files that a unified diff, or git's extension of it, changes. Raises WrongBug."""
    found: dict[str, None] = {}
    old = new = 0  # lines that are missing in the hunk
    for number, line in enumerate(patch.removesuffix("\n").split("\n"), 1):
        if old or new:
            kind = line[:1] or " "
            if kind not in " -+\\":
                raise WrongBug(f"{where}: the patch is damaged: its line {number} is not part of a hunk")
            old, new = old - (kind in " -"), new - (kind in " +")
            if old < 0 or new < 0:
                raise WrongBug(f"{where}: the patch is damaged: the hunk of its line {number} is longer than it says")
        elif hunk := _HUNK.match(line):
            old, new = (int(count or 1) for count in hunk.groups())
        elif line.startswith("@@ -"):
            raise WrongBug(f"{where}: the patch is damaged: its line {number} does not say which lines it changes")
        elif (named := _NAMED.fullmatch(line)) and (name := _unquoted(named[2], with_side=named[1][0] in "-+")):
            found[path(name, where)] = None
        elif both := _BOTH.fullmatch(line):
            found[path(both[1] or _unescaped(both[2]), where)] = None
    if old or new:
        raise WrongBug(f"{where}: the patch is damaged: it ends within a hunk")
    if not found:
        raise WrongBug(f"{where}: it is not a patch: it changes no file")
    return tuple(found)


def _unquoted(text: str, *, with_side: bool) -> str:
    """The path of a line: of ``--- a/x`` without the first folder; '' for one that does not exist."""
    name = _unescaped(text[1:-1]) if re.fullmatch(r'".*"', text) else text.partition("\t")[0]
    if name == "/dev/null":
        return ""
    return name.partition("/")[2] or name if with_side else name


def _unescaped(text: str) -> str:
    """A quoted path of git's: octal numbers are bytes of UTF-8."""
    data = _ESCAPED.sub(lambda m: chr(int(m[1], 8)) if len(m[1]) == 3 else _LETTERS.get(m[1], m[1]), text)
    try:
        return data.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return data
