"""The output of single programs (nvidia-smi, nvcc, gcc ...), as the table ``programs`` describes it. Pure.

The values have the keys that environment blocks use for the same thing (``NVCC``, ``GCC``, ``Python``, ``OS``), so
that readers of ``report.environments`` treat them alike. The highest version that a driver supports is never ``CUDA``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reprokit.environment import wording
from reprokit.intake.environments.forms import BlockReader, role
from reprokit.intake.environments.lines import ReportLine
from reprokit.intake.environments.model import EnvironmentBlock, Rank
from reprokit.intake.table import table


@dataclass(frozen=True)
class Program:
    """A row of the table, with its patterns compiled."""

    kind: str
    starts: re.Pattern[str]
    goes_on: re.Pattern[str]
    blanks: int
    facts: Mapping[str, re.Pattern[str]]
    values: Mapping[str, re.Pattern[str]]

    def read(self, text: str, into: BlockReader) -> dict[str, str]:
        """Add the facts of its output, and give its values."""
        key = next(iter(self.values), self.kind)
        for what, pattern in self.facts.items():
            for found in pattern.finditer(text):
                _fact(what, found, into, key)
                if what not in ("package", "gpu"):
                    break
        if "system" in into.texts:
            into.system(text)
        values: dict[str, str] = {}
        for key, pattern in self.values.items():
            shown = ["".join(part for part in hit.groups() if part) or hit[0] for hit in pattern.finditer(text)]
            values |= {key: ", ".join(shown).strip()} if shown else {}
        gpus = {"GPU": ", ".join(into.gpus)} if into.gpus else {}
        return (values if into.claims or into.texts else {}) | gpus | into.packages


def _fact(what: str, found: re.Match[str], into: BlockReader, key: str) -> None:
    name, _, more = what.partition(" ")
    groups = found.groupdict()
    version = ".".join(group for group in found.groups() if group) or found[0]
    text = found.string
    start, end = text.rfind("\n", 0, found.start()) + 1, text.find("\n", found.start())
    quote = f"{key}: {text[start : end if end >= 0 else None].strip()}"
    if more == "if":
        into.texts.setdefault("system", name)
    elif name == "package":
        known = role(groups["name"].lower())
        package = known.removeprefix("package ") if known.startswith("package ") else groups["name"]
        into.package(package, groups["version"], quote)
    elif name == "gpu":
        into.gpus.append(groups["name"] + (f" ({groups['memory']} MiB)" if groups.get("memory") else ""))
    elif name == "os":
        release = wording.packaged(found[0]) if more else ""
        into.claim("os", release or wording.os(found[0].replace("\n", " ")), quote, Rank.BUILT if more else None)
    elif name in ("driver", "driver_cuda"):
        into.texts.setdefault(name, version)
    else:
        into.claim(name, version, quote, Rank[more.upper()] if more else None)


def _program(row: Mapping[str, object]) -> Program:
    try:
        facts, values = (
            {key: re.compile(pattern, re.MULTILINE) for key, pattern in dict(row.get(name, {})).items()}  # type: ignore[call-overload]
            for name in ("facts", "values")
        )
        goes_on = re.compile(str(row.get("goes_on", "(?!)")))
        return Program(
            str(row["kind"]), re.compile(str(row["starts"])), goes_on, int(str(row.get("blanks", 0))), facts, values
        )
    except (re.error, KeyError, ValueError) as error:
        where = f"data/environments.yaml, programs, {row.get('kind', 'a row without kind')}"
        raise ValueError(f"{where}: {type(error).__name__}: {error}") from error


PROGRAMS = tuple(_program(row) for row in table()["programs"])
_STARTS = re.compile("|".join(f"(?:{program.starts.pattern})" for program in PROGRAMS))


def find(lines: Sequence[ReportLine]) -> Iterator[EnvironmentBlock]:
    """Every output of a known program in the lines, in order."""
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        # Items and headings are written by people.
        if line.blank or line.item or line.heading or not _STARTS.match(line.text):
            continue
        program = next(one for one in PROGRAMS if one.starts.match(line.text))
        end = _end(program, lines, at - 1)
        taken = lines[at - 1 : end]
        into = BlockReader(Rank.MEASURED)
        if values := program.read("\n".join(one.text or one.raw.strip() for one in taken), into):
            yield into.found(program.kind, taken[0].number, taken[-1].number, values)
        at = end


def _end(program: Program, lines: Sequence[ReportLine], start: int) -> int:
    end, blanks = start + 1, 0
    for at in range(start + 1, len(lines)):
        line = lines[at]
        if line.edge or (line.blank and blanks >= program.blanks):
            break
        if line.blank:
            blanks += 1
        elif program.goes_on.match(line.text):
            end, blanks = at + 1, 0
        else:
            break
    return end
