"""The smallest case that still fails in the same way: removes parts as long as the case keeps failing. Pure.

In each group first all parts at once, then halves, quarters and so on down to single ones; then, over all groups,
single ones until none can be removed: the result is 1-minimal. Then the contents of files, and single parts again.

A second implementation. Library: picire.
Why not: its outcomes are PASS and FAIL alone; contents of files are reduced by lithium, the extra ``reduce``.
Owner of ours: the room ``search``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from reprokit.search.reduce.contents import shorter
from reprokit.search.reduce.parts import KINDS, Data, PartGroup, groups
from reprokit.search.reduce.trying import Asking, Trying


@dataclass(frozen=True, kw_only=True)
class KeptPart:
    """A part that was kept. ``without``: the case without it, which does not fail in the same way."""

    kind: str
    name: str
    without: Data


@dataclass(frozen=True, kw_only=True)
class Reduced:
    """A reduced case. ``kept``: the parts that are left; ``gone``: kind -> names of the removed parts."""

    data: Data
    kept: tuple[KeptPart, ...]
    gone: dict[str, list[str]]


def reduced(data: Data, trying: Trying, kinds: Sequence[str] = tuple(KINDS), *, axes: bool = True) -> Asking[Reduced]:
    """Remove every part of ``data`` that the failure does not need. ``data`` is known to fail.

    ``kinds``: which kinds of parts may be removed (keys of ``parts.KINDS``). ``axes`` False: the matrix stays.
    """
    gone: dict[str, list[str]] = {}
    data = yield from _parts(data, trying, kinds, gone, axes=axes, coarse=True)
    if "contents" in kinds:
        before = data
        data = yield from shorter(data, trying, gone)
        if data != before:
            data = yield from _parts(data, trying, kinds, gone, axes=axes, coarse=False)
    kept = [
        KeptPart(kind=group.kind, name=name, without=group.without(frozenset({index})))
        for group in _groups(data, kinds, axes=axes)
        for index, name in enumerate(group.names)
    ]
    return Reduced(data=data, kept=tuple(kept), gone=gone)


def _groups(data: Data, kinds: Sequence[str], *, axes: bool) -> Iterator[PartGroup]:
    return (make(data) for kind in kinds for make in groups(data, kind, axes=axes))


def _parts(
    data: Data, trying: Trying, kinds: Sequence[str], gone: dict[str, list[str]], *, axes: bool, coarse: bool
) -> Asking[Data]:
    """Rounds over all groups, until a round changes nothing."""
    while True:
        before = data
        for kind in kinds:
            for make in groups(data, kind, axes=axes):
                group = make(data)
                cut = yield from smallest(group, trying, coarse=coarse)
                if cut:
                    gone.setdefault(kind, []).extend(group.names[index] for index in sorted(cut))
                    data = group.without(cut)
        coarse = False
        if data == before or trying.stopped:
            return data


def smallest(group: PartGroup, trying: Trying, *, coarse: bool = True) -> Asking[frozenset[int]]:
    """The indices of parts that can be removed together, such that no further single part can. Tries later ones first.

    ``coarse``: try large chunks first, rather than single parts only.
    """
    gone: frozenset[int] = frozenset()
    count = len(group.names)
    for size, smaller in pairwise([*(_sizes(count, pairs=group.pairs) if coarse else [1]), 1]):
        while True:
            before, end = gone, count
            while chunk := _chunk(end, gone, size):
                on = chunk[-1] if group.pairs and size == 2 else chunk[0]  # where to continue if these stay
                ways = ((gone | set(chunk), chunk[0]), (gone, on))
                soon = [
                    group.without(after | set(following))
                    # Most single parts can be removed, but few halves.
                    for after, at in (ways if size == 1 else ways[::-1])
                    if group.builds and (following := _chunk(at, after, size) or _chunk(count, after, smaller))
                ]
                name = f"{group.kind}: without {_words([group.names[index] for index in chunk])}"
                fails = yield from trying.fails(group.without(gone | set(chunk)), name, soon)
                gone, end = ways[0] if fails else ways[1]
            if size > 1 or gone == before:
                break
    return gone


def _chunk(end: int, gone: frozenset[int], size: int) -> list[int]:
    """The last ``size`` parts before ``end`` that are still there."""
    return [index for index in range(end) if index not in gone][-size:]


def _sizes(count: int, *, pairs: bool) -> list[int]:
    """``count``, its half, and so on down to 1; ``pairs``: with 2 among them."""
    sizes = {count >> shift for shift in range(count.bit_length())}
    return sorted(sizes | ({2} if pairs and count > 2 else set()), reverse=True)


def _words(names: Sequence[str]) -> str:
    return ", ".join(names) if len(names) <= 3 else f"{names[0]}, {names[1]} and {len(names) - 2} more"
