"""Names for frames that have none, from debug files: what the stacks behind a log ask for, and the log with it. The
tracer writes where each file with such frames lay in memory, and its build id. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from reprokit.evidence.native import MISSING_SYMBOLS, blocks

_MODULE = re.compile(r"\[reprokit: module 0x(?P<shift>[0-9a-f]{1,16}) (?P<id>[0-9a-f]{8,64}) (?P<path>/.*)\]$")
_FRAME = re.compile(r"(?P<number>#\d+)\s+0x(?P<address>[0-9a-f]{1,16}) in (?P<function>.+?) \(\) from (?P<path>/.*)$")
_EXACT = "<signal handler called>"
"""A frame below it was interrupted, and one below any other waits behind the call that it made."""
MOST_MODULES = 64


@dataclass(frozen=True, kw_only=True)
class Module:
    """A program or library with frames without a name, and ``offsets``: its own addresses of those without source."""

    path: str
    build_id: str
    offsets: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Named:
    """A function at an address; ``file`` '' and ``line`` 0 where its debug file does not say them."""

    function: str
    file: str = ""
    line: int = 0


NamesByAddress = Mapping[tuple[str, int], Sequence[Named]]
"""Build id and address -> the functions there, innermost first: those that were inlined, and the one around them."""


@dataclass(frozen=True, kw_only=True)
class _Place:
    """A frame of a line: its module, and the module's own address of it."""

    number: str
    address: str
    nameless: bool
    path: str
    build_id: str
    offset: int


def modules_to_name(log: str) -> tuple[Module, ...]:
    """The modules whose debug files would name frames of the stacks behind a log, in their order there."""
    offsets: dict[tuple[str, str], dict[int, None]] = {}
    for block in blocks(log)[1]:
        for _, place in _places(block):
            if place is not None:
                offsets.setdefault((place.path, place.build_id), {})[place.offset] = None
    found = [Module(path=path, build_id=build_id, offsets=tuple(found)) for (path, build_id), found in offsets.items()]
    return tuple(found[:MOST_MODULES])


def name_frames(log: str, names: NamesByAddress, missing: Mapping[str, str]) -> str:
    """A log whose stacks have these names. ``missing``: path -> why its debug file could not be read, for a line of
    the block, by which a signature that asks for frames is not decided.
    """
    before, found = blocks(log)
    return before + "".join(_named_block(block, names, missing) for block in found)


def _named_block(block: str, names: NamesByAddress, missing: Mapping[str, str]) -> str:
    lines: list[str] = []
    paths: dict[str, None] = {}
    for line, place in _places(block):
        chain = names.get((place.build_id, place.offset), ()) if place else ()
        if place and not chain and place.nameless:
            paths[place.path] = None
        if not place or not chain:
            lines.append(line)
            continue
        for one in chain:
            place_line = f":{one.line}" if one.line else ""
            source = f" at {one.file}{place_line}" if one.file else ""
            lines.append(f"{place.number}  0x{place.address} in {one.function} (){source} from {place.path}")
    reasons: dict[str, list[str]] = {}
    for path in paths:
        if path in missing:
            reasons.setdefault(missing[path], []).append(path)
    said = [f"{MISSING_SYMBOLS}{', '.join(paths)}: {reason}]" for reason, paths in reasons.items()]
    if lines and said:
        at = max(at for at, line in enumerate(lines) if line)  # the line that ends the block
        lines[at:at] = said
    return "\n".join(lines)


def _places(block: str) -> Iterator[tuple[str, _Place | None]]:
    """Each line of a block, and the frame in it that a debug file could tell more of."""
    lines = block.split("\n")
    modules = {hit["path"]: hit for line in lines if (hit := _MODULE.match(line))}
    exact = True
    for line in lines:
        hit = _FRAME.match(line)
        module = modules.get(hit["path"]) if hit else None
        place = None
        if hit and module:
            before = 0 if exact or hit["number"] == "#0" else 1
            offset = int(hit["address"], 16) - int(module["shift"], 16) - before
            if offset >= 0:
                place = _Place(
                    number=hit["number"],
                    address=hit["address"],
                    nameless=hit["function"] == "??",
                    path=hit["path"],
                    build_id=module["id"],
                    offset=offset,
                )
        exact = _EXACT in line or not line.startswith("#")
        yield line, place


def strip_parameters(name: str) -> str:
    """A C++ function's name as debuggers show frames: ``ns::f<int>(int) const`` is ``ns::f<int>``."""
    end = re.search(r"\)(?: const| volatile| &{1,2}| noexcept| \[[^\]]*\])*$", name)
    if end is None:
        return name
    depth = 0
    for at in range(end.start(), -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if not depth:
            return name[:at] if at and not name[:at].endswith("::") else name
    return name
