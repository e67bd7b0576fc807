# Written for the interpreters of images, old ones included: the rules for our own code do not hold here.
# ruff: noqa
# mypy: ignore-errors
"""Runs inside a built image, once: fetches again what pip installed there, and prints the hash of each file.

Arguments: the pip to run, and a JSON file {"options": [...], "skip": {name: version}, "groups": {group: [requirement]}}.
The group "pip" is what this interpreter's own pip has installed, but for ``skip``, which the base image brought.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

PIP, ASKED = sys.argv[1], json.load(open(sys.argv[2]))


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def distributions():
    """(name, version, text of INSTALLER, text of direct_url.json) of each, the first of a name: what import finds."""
    try:
        from importlib import metadata

        for item in metadata.distributions():
            yield item.metadata["Name"], item.version, item.read_text("INSTALLER"), item.read_text("direct_url.json")
    except ImportError:
        import pkg_resources

        for item in pkg_resources.working_set:
            texts = [item.get_metadata(n) if item.has_metadata(n) else None for n in ("INSTALLER", "direct_url.json")]
            yield item.project_name, item.version, texts[0], texts[1]


def installed():
    """Requirement -> (name, version, url) of an index or address; local name -> version; refusals, in words."""
    wanted, local, refused, seen = {}, {}, [], set()
    for name, version, installer, direct in distributions():
        if not name or normalised(name) in seen:
            continue
        seen.add(normalised(name))
        if (installer or "").strip() not in ("pip", "uv") or ASKED["skip"].get(normalised(name)) == version:
            continue
        if (normalised(name), version) == ("pkg-resources", "0.0.0"):
            local[normalised(name)] = version  # what venv of older Debian and Ubuntu leaves; no index has it
            continue
        direct = json.loads(direct) if direct else {}
        url = direct.get("url", "")
        if "vcs_info" in direct:
            refused.append(
                "%s %s was installed by pip from %s, which no hash can pin: make it one of the case's sources"
                % (name, version, url)
            )
        elif "dir_info" in direct or url.startswith("file:"):
            local[name] = version
        elif url:
            wanted["%s @ %s" % (name, url)] = (name, version, url)
        else:
            wanted["%s==%s" % (name, version)] = (name, version, "")
    return wanted, local, refused


def fetched(wanted, options):
    """The artefacts of a group; raises SystemExit with pip's words where one cannot be fetched again."""
    if not wanted:
        return []
    folder = tempfile.mkdtemp()
    try:
        words = [sys.executable, PIP, "download", "--quiet", "--no-deps", "--dest", folder] + options + sorted(wanted)
        status = subprocess.call(words, stdout=sys.stderr)
        if status:
            sys.exit(status)
        files = {name: normalised(name) for name in os.listdir(folder)}
        found = []
        for name, version, url in wanted.values():
            start = normalised(name) + "-"
            exact = [file for file, plain in files.items() if plain.startswith(start + normalised(version) + "-")]
            named = exact or [file for file, plain in files.items() if plain.startswith(start)]
            if len(named) != 1:
                sys.exit("ERROR: cannot tell which file is %s %s among %s" % (name, version, ", ".join(sorted(files))))
            path = os.path.join(folder, named[0])
            total = hashlib.sha256()
            with open(path, "rb") as stream:
                for block in iter(lambda: stream.read(1 << 20), b""):
                    total.update(block)
            found.append(
                {
                    "name": normalised(name),
                    "version": version,
                    "file": named[0],
                    "sha256": total.hexdigest(),
                    "size": os.path.getsize(path),
                    "url": url,
                }
            )
        return sorted(found, key=lambda one: one["name"])
    finally:
        shutil.rmtree(folder)


wanted, local, refused = installed()
groups = {}
if not refused:
    groups["pip"] = fetched(wanted, ASKED["options"])
    for group, requirements in ASKED["groups"].items():
        pairs = [requirement.split("==") for requirement in requirements]
        groups[group] = fetched(
            {"%s==%s" % (name, version): (name, version, "") for name, version in pairs}, ["--only-binary", ":all:"]
        )
print(json.dumps({"groups": groups, "local": local, "refused": refused}))
