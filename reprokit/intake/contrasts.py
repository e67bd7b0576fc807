"""What is changed where it works, by a reader, other than a version: an axis in the place of that text. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from reprokit.case.model import RESERVED
from reprokit.case.templates import is_template
from reprokit.environment.axes import BY_NAME
from reprokit.environment.versions import NONE
from reprokit.intake import commands, scripts
from reprokit.intake.draft import END_RAW, RAW
from reprokit.intake.facts_file import ContrastFact

_PARTS = re.compile(r"(?<=[=:\s])")


@dataclass(frozen=True, kw_only=True)
class Variation:
    """An axis with a value that fails and one that works. ``data``: the keys of a case in which its value stands."""

    axis: str
    fails: str
    works: str
    data: Mapping[str, Any]


def of_devices(one: ContrastFact) -> bool:
    """Whether it fails on the GPU and works on the CPU."""
    return bool(re.search(r"gpu|cuda", one.fails.lower()) and re.search(r"\bcpu\b", one.works.lower()))


def placed(one: ContrastFact, data: Mapping[str, Any]) -> Variation | None:
    """The axis of what is changed, in a case whose texts are escaped already; None where no text has what fails.

    ``NUM_THREADS=128`` and ``NUM_THREADS=64`` have the values 128 and 64: what both begin with stays in the text.
    """
    fails, works = one.fails.strip(), one.works.strip()
    if not fails or is_template(fails) or is_template(works):
        return None
    words = zip(_PARTS.split(fails), _PARTS.split(works), strict=False)
    head = "".join(one for one, _ in takewhile(lambda pair: pair[0] == pair[1], words))
    bad, good = fails[len(head) :], works[len(head) :] or NONE
    axis = _axis(one.name or head or fails, data.get("matrix", {}))
    value = f"{{{{ '' if {axis} == '{NONE}' else {axis} }}}}" if not works else f"{{{{ {axis} }}}}"
    if not bad or not axis or bad == good:
        return None
    name = head.removesuffix("=") or one.name
    if data.get("env", {}).get(name) == bad:
        return Variation(axis=axis, fails=bad, works=good, data={"env": {**data["env"], name: value}})
    for key, source in data.get("sources", {}).items():
        if source.get("ref") == bad:
            sources = {**data["sources"], key: {**source, "ref": value}}
            return Variation(axis=axis, fails=bad, works=good, data={"sources": sources})
    if commands.spoken(works) and not (re.search(r"[;{}=]", works) or scripts.parsed(works)):
        return None
    begins = re.sub(r"\\?=$", r"\\s{0,8}=\\s{0,8}", re.escape(head))  # programs have blanks around it
    # not within a template, which is of another axis
    pattern = re.compile(rf"\{{[{{%].*?[%}}]\}}|(?<![\w.-])({begins}){re.escape(bad)}(?![\w.-])", re.DOTALL)

    def varied(text: str, value: str = value) -> str:
        into = f"{END_RAW}{value}{RAW}" if text.startswith(RAW) and value.startswith("{{") else value
        return pattern.sub(lambda found: found[0] if found[1] is None else found[1] + into, text)

    if (command := varied(data["command"])) != data["command"]:
        return Variation(axis=axis, fails=bad, works=good, data={"command": command})
    had = data.get("files", {})
    files = {file: varied(text) for file, text in had.items()}
    changed = [(text, varied(text, works[len(head) :])) for file, text in had.items() if files[file] != text]
    if changed and all(scripts.parsed(after) or not scripts.parsed(before) for before, after in changed):
        return Variation(axis=axis, fails=bad, works=good, data={"files": files})
    return None


def _axis(name: str, matrix: Mapping[str, Any]) -> str:
    """A name as one of a free axis, which no axis of the case has; '' for none."""
    axis = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_").lstrip("0123456789_")[:40].rstrip("_")
    taken = {*matrix, *BY_NAME, *RESERVED, *(key for cell in matrix.get("include", ()) for key in cell)}
    return f"{axis}_" if axis in taken else axis
