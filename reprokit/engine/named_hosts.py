"""What a build's own steps name: all that an untrusted build reaches beside what the site names. Pure."""

from __future__ import annotations

import re

from reprokit.engine.protocol import Build
from reprokit.engine.site.gateway.access import parsed_host
from reprokit.engine.site.links import ARCHIVES

_URL = re.compile(r"https?://(?:[^/\s'\"@]*@)?(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::(\d{1,5}))?")

_PLACE = re.compile(r"(?:--(?:extra-)?index-url|--find-links|(?<!\S)-[if])[= ]?'?(https?://[^\s'\"\\@]+)(?![^\s'\"\\])")
"""An index or a find-links page in an option of pip, as the Dockerfile quotes it; without a login."""

_FETCHED_FROM = {
    "uv-python.sh": ("github.com", "objects.githubusercontent.com", "release-assets.githubusercontent.com"),
    "conda_packages.py": ("conda.anaconda.org",),
}
"""Scripts of steps of ours -> where interpreters and packages come from, on sites without a mirror of them."""


def named_hosts(build: Build) -> frozenset[str]:
    """HOST or HOST:PORT of every address in the Dockerfile (requirements, options of pip) and in the lock's files.

    Not those in scripts of the case: what ``setup`` fetches, an untrusted case has to name as a source or requirement.
    """
    locks = [text for name, text in build.context.items() if re.fullmatch(r"reprokit/[^/]+\.lock", name)]
    texts = [build.dockerfile, *(text.decode("utf-8", "replace") for text in locks if isinstance(text, bytes))]
    found = _hosts("\n".join(texts))
    ours = (hosts for script, hosts in _FETCHED_FROM.items() if f"reprokit/{script}" in build.context)
    return frozenset(found).union(*ours)


def named_places(build: Build) -> frozenset[str]:
    """The indexes and find-links pages that the steps of pip name: what these link to, an untrusted build gets, too."""
    found = _PLACE.findall(build.dockerfile)
    return frozenset(place for place in found if not place.lower().endswith(ARCHIVES) and _hosts(place))


def _hosts(text: str) -> set[str]:
    """The hosts of a text's addresses, but for ``[1]`` and the port 99999, which no program connects to."""
    found = {f"{host.lower()}:{port}" if port else host.lower() for host, port in _URL.findall(text)}
    return {host for host in found if _is_host(host)}


def _is_host(text: str) -> bool:
    try:
        return bool(parsed_host(text))
    except ValueError:
        return False
