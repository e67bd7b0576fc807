"""What an engine with Docker's API keeps for us on its disk: images by their labels, and the cache of our builds.

An image's layers stay on the disk as build cache when the image is removed, so both are removed together. BuildKit's
records carry no labels. One is certainly ours when its step mounts ``/run/reprokit/``, which every step of ours that
costs anything does, or when it lies on such a step.

The containerd image store (Docker's default since 29.0) has a layer that was built there three times: unpacked as build
cache, unpacked as a layer of the image, and compressed. It also says of each record on a layer of an image that an
image shares it, so that a record without an image is one whose command is in no image's history.
"""

from __future__ import annotations

import hashlib
import json
import re
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from typing import Any

from reprokit.core import ownership
from reprokit.core.errors import EngineError
from reprokit.engine import containers, images
from reprokit.engine.bases import LABEL_RELEASE
from reprokit.engine.protocol import BASE, BUILD_CACHE, IMAGE, OTHER_CACHE, Kept
from reprokit.engine.wire import ANSWER_WITHIN, Wire, moment_of, raise_for_status

OUR_STEP = "/run/reprokit/"
NONE = "<none>:<none>"
_STEP = "mount / from exec "
"""What BuildKit writes before the command of a step."""
_MOUNT = re.compile(r"cached mount (\S+)")
_AT_ONCE = 100
"""Records that one request for pruning names."""
_AT_A_TIME = 6
"""Images that are removed side by side."""


@dataclass(frozen=True, kw_only=True)
class _History:
    """Of an image: id -> bytes of its layers that are not empty, and the commands of its steps, one after the other.

    What two images have below has the same ids in both.
    """

    layers: Mapping[str, int]
    commands: str


class Disk:
    """The disk of the engine at the end of ``wire``. Histories of images that were listed before are not read again."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._histories: dict[str, _History] = {}

    def kept(self) -> list[Kept]:
        """As :meth:`reprokit.engine.protocol.Engine.kept`; build cache that may be another program's is OTHER_CACHE."""
        records, listed = self._records(), self._images()
        listed_containers = containers.list_all(self._wire)
        busy = {one.image: _user(one.labels) for one in listed_containers if not ownership.is_orphan(one.labels)}
        ours = {one["Id"]: kind for one in listed if (kind := self._classify(one))}
        layers = _with_content(
            {one["Id"]: self._histories[one["Id"]].layers for one in listed},
            {one["Id"]: int(one.get("Size") or 0) for one in listed},
        )
        others = {part for number, parts in layers.items() if number not in ours for part in parts}
        built = {part: size for number, kind in ours.items() if kind == IMAGE for part, size in layers[number].items()}
        below = others.union(*(layers[number] for number, kind in ours.items() if kind == BASE))
        again = _cached_share({part: size for part, size in built.items() if part not in below}, records)
        bases = {_key(one): layers[one["Id"]] for one in listed if ours.get(one["Id"]) == BASE}
        found = [
            Kept(
                kind=ours[one["Id"]],
                key=_key(one),
                name=_key(one),
                parts={
                    part: size + (0 if part in below else int(again * self._histories[one["Id"]].layers[part]))
                    for part, size in layers[one["Id"]].items()
                    if part not in others
                },
                used=float(one.get("Created") or 0),
                also=frozenset(_ours(one)),
                stays=busy.get(one["Id"]) or _other_name(one),
                needs=frozenset(_below(one, layers, bases)),
            )
            for one in listed
            if one["Id"] in ours
        ]
        found.sort(key=lambda one: one.kind)  # what an image shares with its base is counted as the base's
        found += _cached(_private(records))
        return [replace(one, used=one.used - self._wire.ahead()) for one in found]  # as this host's clock has it

    def discard(self, several: Sequence[Kept]) -> list[Kept]:
        """As :meth:`reprokit.engine.protocol.Engine.discard`: listed once, removed side by side, checked once."""
        cached = [one for one in several if one.kind in (BUILD_CACHE, OTHER_CACHE)]
        built = [one for one in several if one not in cached]
        pruned = [number for one in cached for number in one.parts]
        gone: list[Kept] = []
        if built:
            before = _private(self._records())
            with self._wire.errors():
                found = {_key(one): one for one in self._images()}
            with ThreadPoolExecutor(_AT_A_TIME, "discard") as pool:
                for kind in (IMAGE, BASE):  # an image before what it lies on
                    some = [one for one in built if one.kind == kind]
                    gone += compress(some, pool.map(lambda one: self._remove(found.get(one.key)), some))
            after = _private(self._records())
            pruned += [number for number in after.keys() - before.keys() if _is_ours(number, after)]
        self._prune(pruned)
        left = _private(self._records()).keys() if cached else ()
        return [*gone, *(one for one in cached if one.parts.keys().isdisjoint(left))]

    def _remove(self, image: Mapping[str, Any] | None) -> bool:
        """Remove an image by our names; whether there is none, or no more."""
        if image is None:
            return True
        if not self._classify(image) or _other_name(image):
            return False
        try:
            for name in _names(image) or [image["Id"]]:
                images.remove(self._wire, name)
        except EngineError:  # a container uses it by now
            return False
        return True

    def _classify(self, image: Mapping[str, Any]) -> str:
        """What a listed image is to us, '' for another's.

        One without a name inherits our labels where a user commits or builds it on ours; it is ours by its last step.
        """
        last, _, _ = self._histories[image["Id"]].commands.partition("\n")
        return _kind(image.get("Labels") or {}) if _names(image) or OUR_STEP in last else ""

    def _images(self) -> list[dict[str, Any]]:
        """All images of the engine, with their histories read."""
        with self._wire.errors():
            client = self._wire.client()
            listed: list[dict[str, Any]] = client.images()
            self._histories = {one["Id"]: self._history(client, one["Id"]) for one in listed}
        return listed

    def _history(self, client: Any, number: str) -> _History:
        import docker.errors

        if number in self._histories:
            return self._histories[number]
        chain, found = hashlib.sha256(), {}
        try:
            steps = client.history(number)
        except docker.errors.NotFound:  # removed meanwhile
            steps = []
        for step in reversed(steps):
            chain.update(f"{step['Created']} {step['Size']} {step['CreatedBy']}\0".encode())
            if step["Size"]:
                found[chain.hexdigest()] = int(step["Size"])
        return _History(layers=found, commands="\n".join(step["CreatedBy"] for step in steps))

    def _records(self) -> dict[str, Mapping[str, Any]]:
        """The records of the build cache by their ids, each with whether it is ours and whether an image uses it."""
        client = self._wire.client()
        # Engines before API 1.42 do not know the type and count all that they hold; before 1.52 there is one shape.
        asked, within = {"type": "build-cache", "verbose": "1"}, (ANSWER_WITHIN, ANSWER_WITHIN)
        with self._wire.errors():
            found = _in_turn(lambda: client.get(self._wire.url("/system/df"), params=asked, timeout=within)).json()
        listed = found.get("BuildCache") or (found.get("BuildCacheUsage") or {}).get("Items") or []
        records = {one["ID"]: one for one in listed}
        if self._wire.details().containerd is not None:
            self._images()
            commands = "\n".join(one.commands for one in self._histories.values())
            for one in listed:
                _, is_step, command = one.get("Description", "").partition(_STEP)
                one["Shared"] = one.get("Shared") and not (is_step and command not in commands)
                one["Copy"] = one["Shared"]
        return {number: {**one, "ours": _is_ours(number, records)} for number, one in records.items()}

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


def _with_content(layers: Mapping[str, Mapping[str, int]], sizes: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Layers with what the containerd image store keeps of them besides: their compressed content.

    The engine only says what an image takes as a whole (``sizes``). What is left of that after its unpacked layers, and
    after the content of those that it shares with smaller images, is divided among its other layers by their sizes.
    """
    content: dict[str, int] = {}
    for image in sorted(layers, key=lambda image: (len(layers[image]), sizes[image])):
        own = layers[image]
        new = {part: size for part, size in own.items() if part not in content}
        rest = sizes[image] - sum(own.values()) - sum(content[part] for part in own.keys() - new.keys())
        content |= {part: max(rest, 0) * size // sum(new.values()) for part, size in new.items()}
    return {image: {part: size + content[part] for part, size in own.items()} for image, own in layers.items()}


def _cached_share(built: Mapping[str, int], records: Mapping[str, Mapping[str, Any]]) -> float:
    """Which part of the layers that were ``built`` here the build cache has unpacked once more: 1.0 all, 0.0 nothing.

    The engine does not say of which image a record is, so that all images count alike.
    """
    copies = sum(int(one["Size"]) for one in records.values() if one["ours"] and one.get("Copy"))
    return min(1.0, copies / max(sum(built.values()), 1))


def _private(records: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The records that no image uses."""
    return {number: one for number, one in records.items() if not one.get("Shared")}


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


def _user(labels: Mapping[str, str]) -> str:
    """Why the image of a container with these labels stays."""
    host = labels.get(ownership.HOST, "").partition("/")[0]
    return "a container uses it" + (f", of a run of process {labels.get(ownership.PID)} on {host}" if host else "")


def _parents(record: Mapping[str, Any]) -> list[str]:
    """What a record lies on: ``Parent`` before API 1.42; since then under a key that moby writes with a space."""
    several = record.get("Parents") or record.get(" Parents")
    return several or ([record["Parent"]] if record.get("Parent") else [])


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
            used=max(moment_of(one.get("LastUsedAt") or one.get("CreatedAt") or "") for one in several),
            stays="a build uses it" if any(one.get("InUse") for one in several) else "",
        )
