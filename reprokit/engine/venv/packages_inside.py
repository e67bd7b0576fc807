"""Describes packages of a Python environment of this host; run by that environment's own Python, with no reprokit.

Arguments: names. Prints one JSON object: name -> {"version", "python", "distributions"}, or {"why"} where the
environment cannot give the package. A distribution is one of those that the package requires, itself included.
"""

import hashlib
import json
import os
import re
import sys
from collections import Counter
from importlib import metadata
from typing import Any


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def first_parts(one: metadata.Distribution) -> set[str]:
    """The first parts of the paths of its modules."""
    return {path.parts[0] for path in one.files or () if is_module(path)}


def is_module(path: metadata.PackagePath) -> bool:
    """Whether a file lies where modules do: programs are beside that, and other files may be anywhere."""
    return not path.is_absolute() and path.parts[:1] not in ((), ("..",), ("__pycache__",))


def closure(name: str, installed: dict[str, metadata.Distribution]) -> list[metadata.Distribution]:
    """Distributions that ``name`` requires, itself first; what is not installed here is not required here."""
    found: dict[str, metadata.Distribution] = {}
    waiting = [canonical(name)]
    while waiting:
        key = waiting.pop(0)
        if key in found or key not in installed:
            continue
        found[key] = installed[key]
        for text in installed[key].requires or ():
            requirement, _, marker = text.partition(";")
            if "extra" not in marker:
                waiting += [canonical(name) for name in re.findall(r"^[\w.-]+", requirement.strip())]
    return list(found.values())


def described(one: metadata.Distribution, owners: "Counter[str]") -> dict[str, Any]:
    """Where it lies, and what of it has to be seen: whole packages, or the parts of those that several share."""
    site = os.path.realpath(str(one.locate_file("")))  # lib64 may be a link, which the sandbox does not show
    record = one.read_text("RECORD")
    if not record:
        raise LookupError(
            f"{one.metadata['Name']} has no list of its files (RECORD): only what pip installed can be served"
        )
    if json.loads(one.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable"):
        raise LookupError(
            f"{one.metadata['Name']} is an editable install, whose modules lie elsewhere: install it without -e"
        )
    entries = set()
    for path in one.files or ():
        parts = path.parts
        if not is_module(path):
            continue
        shared = owners[parts[0]] > 1 and len(parts) > 1
        entries.add("/".join(parts[: 2 if shared else 1]))
    info = sorted(entry for entry in entries if entry.endswith((".dist-info", ".egg-info")))
    if len(info) != 1:
        raise LookupError(f"{one.metadata['Name']} has {len(info)} folders of metadata")
    return {
        "name": canonical(one.metadata["Name"]),
        "version": one.version,
        "site": site,
        "info": info[0],
        "entries": sorted(entries - set(info) - {"__pycache__"}),
        "record": hashlib.sha256(record.encode()).hexdigest()[:16],
    }


def main() -> None:
    installed: dict[str, metadata.Distribution] = {}
    for one in metadata.distributions():
        if one.metadata["Name"]:
            installed.setdefault(canonical(one.metadata["Name"]), one)
    owners = Counter(part for one in installed.values() for part in first_parts(one))
    said: dict[str, dict[str, Any]] = {}
    for name in sys.argv[1:]:
        try:
            if canonical(name) not in installed:
                raise LookupError("it is not installed there")
            several = [described(one, owners) for one in closure(name, installed)]
            python = ".".join(map(str, sys.version_info[:3]))
            said[name] = {"version": several[0]["version"], "python": python, "distributions": several}
        except (LookupError, ValueError) as error:  # a file there may be broken
            said[name] = {"why": str(error.args[0])}
    print(json.dumps(said))


if __name__ == "__main__":
    main()
