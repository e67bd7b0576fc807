# Written for the interpreters of images, old ones included: the rules for our own code do not hold here.
# ruff: noqa
# mypy: ignore-errors
"""Runs inside an image, with whatever Python that has (2.7 to today): prints one JSON object about it.

Frameworks are not imported, which would cost seconds and may crash: their version files are read as text.
"""

from __future__ import print_function

import ast
import json
import os
import platform
import sys

FILES = {
    "paddle": ("paddle", "version", "__init__.py"),
    "torch": ("torch", "version.py"),
    "tensorflow": ("tensorflow", "python", "platform", "build_info.py"),
    "jaxlib": ("jaxlib", "version.py"),
    "cv2": ("cv2", "version.py"),
}


def is_a_source_tree(item):
    folder = str(getattr(item, "_path", "")).rstrip("/")
    if folder.endswith(".egg-info") and not os.path.dirname(folder).endswith("-packages"):
        return True
    return "dir_info" in json.loads(item.read_text("direct_url.json") or "{}")


def distributions():
    # Name, version, and whether it is installed from a source tree.
    try:
        from importlib import metadata

        found = [(item.metadata["Name"], item.version, is_a_source_tree(item)) for item in metadata.distributions()]
    except ImportError:
        try:
            import pkg_resources
        except ImportError:
            return {}
        # Debian's Python 2.7 counts itself and parts of its standard library, which pip has not installed.
        standard = os.path.dirname(os.__file__)
        own = (standard, os.path.join(standard, "lib-dynload"))
        found = [
            (item.project_name, item.version, item.precedence == pkg_resources.DEVELOP_DIST)
            for item in pkg_resources.working_set
            if item.location not in own
        ]
    # The first of a name is the one that import finds.
    first = {}
    for name, version, in_tree in found:
        if name:
            first.setdefault(name.lower().replace("_", "-"), (version, in_tree))
    return first


found = distributions()


def literal(value):
    # TensorFlow: build_info = collections.OrderedDict([...])
    if isinstance(value, ast.Call) and len(value.args) == 1:
        return dict(ast.literal_eval(value.args[0]))
    return ast.literal_eval(value)


def constants(path):
    with open(path) as stream:
        tree = ast.parse(stream.read())
    values = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            names, value = node.targets, node.value
        elif isinstance(node, getattr(ast, "AnnAssign", ())) and node.value is not None:
            names, value = [node.target], node.value
        else:
            continue
        for name in names:
            if isinstance(name, ast.Name):
                try:
                    values[name.id] = literal(value)
                except (ValueError, TypeError):
                    pass
    return values


def frameworks():
    found = {}
    for name in sorted(FILES):
        for folder in sys.path:
            path = os.path.join(folder or ".", *FILES[name])
            if os.path.isfile(path):
                try:
                    found[name] = constants(path)
                except (OSError, SyntaxError, ValueError):
                    pass
                break
    return found


print(
    json.dumps(
        {
            "version": platform.python_version(),
            "implementation": platform.python_implementation(),
            "words": " ".join(sys.version.split()),
            "executable": sys.executable,
            "platform": platform.platform(),
            "packages": {name: version for name, (version, in_tree) in found.items()},
            "source_trees": sorted(name for name, (version, in_tree) in found.items() if in_tree),
            "frameworks": frameworks(),
        },
        sort_keys=True,
        default=str,
    )
)
