# Runs in any interpreter of a user, including old ones: the rules for our own code do not apply here.
# ruff: noqa
# mypy: ignore-errors
"""Runs in the interpreter of a captured command: prints its distributions and their modules as one JSON object.

As ``importlib.metadata.packages_distributions`` of Python 3.10, for older interpreters too.
"""

from __future__ import print_function

import json
import platform
import sys


def distributions():
    try:
        from importlib import metadata
    except ImportError:
        try:
            import importlib_metadata as metadata
        except ImportError:
            return {}
    found = {}
    for item in metadata.distributions():
        name = item.metadata["Name"]
        if not name or name in found:
            continue  # import finds the first distribution of a name
        modules = set((item.read_text("top_level.txt") or "").split())
        for path in item.files or ():
            first = path.parts[0]
            if len(path.parts) > 1 and "." not in first and not first.startswith("_"):
                modules.add(first)
            elif len(path.parts) == 1 and first.endswith((".py", ".so")):
                modules.add(first.partition(".")[0])
        found[name] = {
            "version": item.version,
            "modules": sorted(modules),
            "scripts": [one.name for one in item.entry_points if one.group == "console_scripts"],
            "requires": list(item.requires or ()),
            # For conda packages, this is the folder in which they were built, on another machine.
            "direct": ""
            if (item.read_text("INSTALLER") or "").strip() == "conda"
            else item.read_text("direct_url.json"),
        }
    return found


print(
    json.dumps(
        {
            "version": platform.python_version(),
            "words": " ".join(sys.version.split()),
            "prefixes": [sys.prefix, sys.base_prefix if hasattr(sys, "base_prefix") else sys.prefix],
            "distributions": distributions(),
        }
    )
)
