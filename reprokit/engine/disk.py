"""What an engine with Docker's API keeps for us on its disk: images by their labels, and the cache of our builds.

An image's layers stay on the disk as build cache when the image is removed, so both are removed together. BuildKit's
records carry no labels. One is certainly ours when its step mounts ``/run/reprokit/``, which every step of ours that
costs anything does, or when it lies on such a step.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from functools import partial
from typing import Any

from reprokit.core import ownership
from reprokit.core.errors import EngineError
from reprokit.engine import containers, images
from reprokit.engine.bases import LABEL_RELEASE
from reprokit.engine.kept import BASE, BUILD_CACHE, IMAGE, OTHER_CACHE, Kept
from reprokit.engine.wire import ANSWER_WITHIN, Wire, raise_for_status

OUR_STEP = "/run/reprokit/"
NONE = "<none>:<none>"
_MOUNT = re.compile(r"cached mount (\S+)")
_AT_ONCE = 100
"""Records that one request for pruning names."""


class Disk:
    """The disk of the engine at the end of ``wire``. Layers of an image that was listed before are not read again."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._layers: dict[str, Mapping[str, int]] = {}

    def kept(self) -> list[Kept]:
        """As :meth:`reprokit.engine.protocol.Engine.kept`; build cache that may be another program's is OTHER_CACHE."""
        client = self._wire.client()
        with self._wire.errors():
            listed = client.images()
            busy = {one.get("ImageID") for one in containers.listed(self._wire)}
            layers = {one["Id"]: self._layers_of(client, one["Id"]) for one in listed}
        self._layers = layers
        ours = {one["Id"]: kind for one in listed if (kind := _kind(one.get("Labels") or {}))}
        others = {part for number, parts in layers.items() if number not in ours for part in parts}
        bases = {_key(one): layers[one["Id"]] for one in listed if ours.get(one["Id"]) == BASE}
        found = [
            Kept(
                kind=ours[one["Id"]],
                key=_key(one),
                name=_key(one),
                parts={part: size for part, size in layers[one["Id"]].items() if part not in others},
                used=float(one.get("Created") or 0),
                also=frozenset(_ours(one)),
                stays="a container uses it" if one["Id"] in busy else _other_name(one),
                needs=frozenset(_below(one, layers, bases)),
            )
            for one in listed
            if one["Id"] in ours
        ]
        found.sort(key=lambda one: one.kind)  # what an image shares with its base is counted as the base's
        return [*found, *_cached(self._private())]

    def discard(self, kept: Kept) -> bool:
        """As :meth:`reprokit.engine.protocol.Engine.discard`."""
        if kept.kind in (BUILD_CACHE, OTHER_CACHE):
            self._prune(kept.parts)
            return not kept.parts.keys() & self._private().keys()
        before = self._private()
        client = self._wire.client()
        try:
            with self._wire.errors():
                found = next((one for one in client.images() if _key(one) == kept.key), None)
            if found is not None and _kind(found.get("Labels") or {}) and not _other_name(found):
                for name in _names(found) or [found["Id"]]:
                    images.remove(self._wire, name)
        except EngineError:  # a container uses it by now
            return False
        after = self._private()
        self._prune([number for number in after.keys() - before.keys() if _is_ours(number, after)])
        return True

    def _layers_of(self, client: Any, number: str) -> Mapping[str, int]:
        """Id -> bytes of an image's layers that are not empty. What two images have below has the same ids in both."""
        import docker.errors

        if number in self._layers:
            return self._layers[number]
        chain, found = hashlib.sha256(), {}
        try:
            steps = client.history(number)
        except docker.errors.NotFound:  # removed meanwhile
            return {}
        for step in reversed(steps):
            chain.update(f"{step['Created']} {step['Size']} {step['CreatedBy']}\0".encode())
            if step["Size"]:
                found[chain.hexdigest()] = int(step["Size"])
        return found

    def _private(self) -> dict[str, Mapping[str, Any]]:
        """The records of the build cache that no image uses, by their ids, and those that they lie on."""
        client = self._wire.client()
        with self._wire.errors():
            # Engines before API 1.42 do not know the type and count all that they hold.
            within = (ANSWER_WITHIN, ANSWER_WITHIN)
            answer = _in_turn(
                lambda: client.get(self._wire.url("/system/df"), params={"type": "build-cache"}, timeout=within)
            )
            records = {one["ID"]: one for one in answer.json().get("BuildCache") or []}
        private = {number: one for number, one in records.items() if not one.get("Shared")}
        return {number: {**one, "ours": _is_ours(number, records)} for number, one in private.items()}

    def _prune(self, records: Collection[str]) -> None:
        """Remove records, and nothing else. One that another lies on goes after that one."""
        left = sorted(records)
        while left:
            some, gone = left[:_AT_ONCE], set()
            filters = json.dumps({"id": [f"/^({'|'.join(some)})$/"]})
            with self._wire.errors():
                client, asked = self._wire.client(), {"all": "1", "filters": filters}
                prune = partial(
                    client.post, self._wire.url("/build/prune"), params=asked, timeout=(ANSWER_WITHIN, None)
                )
                gone = set(_in_turn(prune).json().get("CachesDeleted") or ())
            left = [number for number in left if number not in gone] if gone else left[_AT_ONCE:]


def _in_turn(ask: Callable[[], Any]) -> Any:
    """The engine's answer, once it does no such thing for another program: it refuses two at a time."""
    deadline = time.monotonic() + ANSWER_WITHIN
    while True:
        answer = ask()
        if answer.status_code < 400 or "already running" not in answer.text or time.monotonic() > deadline:
            raise_for_status(answer)
            return answer
        time.sleep(0.2)


def _kind(labels: Mapping[str, str]) -> str:
    """What an image is to us, '' for another's. Images that are built on a base inherit its label."""
    return IMAGE if ownership.IMAGE in labels else BASE if LABEL_RELEASE in labels else ""


def _names(image: Mapping[str, Any]) -> list[str]:
    return sorted(name for name in image.get("RepoTags") or [] if name != NONE)


def _ours(image: Mapping[str, Any]) -> list[str]:
    """The names of an image as reprokit writes them."""
    return [images.OURS.sub("reprokit/", name, count=1) for name in _names(image)]


def _below(
    image: Mapping[str, Any], layers: Mapping[str, Mapping[str, int]], bases: Mapping[str, Mapping[str, int]]
) -> Iterator[str]:
    """The keys of the base images that an image lies on."""
    own = layers[image["Id"]].items()
    return (base for base, below in bases.items() if base != _key(image) and below and below.items() <= own)


def _key(image: Mapping[str, Any]) -> str:
    return str(next(iter(_ours(image)), image["Id"]))


def _other_name(image: Mapping[str, Any]) -> str:
    others = [name for name in _names(image) if not images.OURS.match(name)]
    return f"it has a name that is not reprokit's: {others[0]}" if others else ""


def _parents(record: Mapping[str, Any]) -> list[str]:
    return record.get("Parents") or ([record["Parent"]] if record.get("Parent") else [])


def _is_ours(number: str, records: Mapping[str, Mapping[str, Any]]) -> bool:
    waiting, seen = [number], set()
    while waiting:
        one = records.get(waiting.pop())
        if one is None or one["ID"] in seen:
            continue
        if one.get("ours") or OUR_STEP in one.get("Description", ""):
            return True
        seen.add(one["ID"])
        waiting += _parents(one)
    return False


def _cached(private: Mapping[str, Mapping[str, Any]]) -> Iterator[Kept]:
    """Records as things to keep: a cache mount by itself, layers with all that lie on them."""
    groups: dict[str, list[Mapping[str, Any]]] = {}
    for number, record in private.items():
        top, below = number, [record]
        while below:
            top = below[0]["ID"]
            above = (private[one] for one in _parents(below[0]) if one in private)
            below = [one for one in above if one["ours"] == record["ours"]]
        groups.setdefault(top, []).append(record)
    for top, several in groups.items():
        mount = _MOUNT.search(private[top].get("Description", ""))
        yield Kept(
            kind=BUILD_CACHE if private[top]["ours"] else OTHER_CACHE,
            key=top,
            name=f"mount {mount[1]}" if mount else f"layers of no image ({len(several)} of {top[:12]})",
            parts={one["ID"]: int(one["Size"]) for one in several},
            used=max(_moment(one.get("LastUsedAt") or one.get("CreatedAt") or "") for one in several),
            stays="a build uses it" if any(one.get("InUse") for one in several) else "",
        )


def _moment(text: str) -> float:
    """Seconds since 1970 of an RFC 3339 moment, 0 for none. Nanoseconds are more than Python 3.10 reads."""
    try:
        return datetime.fromisoformat(re.sub(r"\.\d+", "", text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0
