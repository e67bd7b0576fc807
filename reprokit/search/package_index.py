"""The files of one project on the package indexes that builds read from, and whether a Python can install them."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from packaging.specifiers import SpecifierSet
from packaging.tags import Tag, compatible_tags, cpython_tags
from packaging.utils import canonicalize_name, parse_wheel_filename

from reprokit.case.trust import Trust
from reprokit.core.errors import UsageError
from reprokit.core.redaction import without_passwords
from reprokit.engine import site
from reprokit.engine.site import authorities, network
from reprokit.engine.site.answers import NoConnection, get
from reprokit.engine.site.assembly import pip_options as of_host
from reprokit.engine.site.gateway.access import DEFAULT_INDEX
from reprokit.engine.site.links import Link, links_in, links_in_text, links_of, local_path
from reprokit.environment import versions
from reprokit.environment.installing import index_options

SECONDS = 30.0
JSON = "application/vnd.pypi.simple.v1+json"
ACCEPT = f"{JSON}, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1"


@dataclass(frozen=True, kw_only=True)
class DistributionFile:
    """One file of a project. ``uploaded``: RFC 3339, '' = the index does not say. ``yanked``: why, None = it is not."""

    name: str
    requires_python: str = ""
    yanked: str | None = None
    uploaded: str = ""


def files_of(
    project: str, pip_options: Iterable[str] = (), trust: Trust = Trust.OWN
) -> tuple[list[DistributionFile], list[str]]:
    """All files of a project that the host's pip would find with a case's ``pip_options``, and notes on the indexes.

    ``trust``: in that case: what an untrusted one names is public, and is asked without this site's logins.

    Indexes answer in JSON (PEP 691, 700) or HTML (PEP 503); local folders and find-links pages are read as pip reads
    them. The notes say which gave none, and why. Raises UsageError when no index answers, or pip's configuration cannot
    be read.
    """
    settings = site.settings()
    options = of_host(os.environ, settings)
    proxies = network.proxies(os.environ, configured=settings.proxy, pip_proxy=options.get("proxy", ""))
    bundle, _ = authorities.find_bundle(options.get("cert", ""), os.environ, settings.ca_bundle)
    files: list[DistributionFile] = []
    notes: list[str] = []
    answers = 0
    own = list(_places(options, ()))
    for kind, place in _places(options, pip_options):
        page = f"{place.rstrip('/')}/{canonicalize_name(project)}/" if kind == "index" else place
        try:
            level = Trust.OWN if (kind, place) in own else trust
            files += _read(kind, page, proxies, str(bundle or ""), level)
            answers += 1
        except NoConnection as error:
            notes.append(f"{without_passwords(place)} has no answer for {project}: {error}")
    if not answers:
        what = "; ".join(notes) or f"there is no package index to ask for the releases of {project}"
        raise UsageError(
            f"{what}; the indexes are those of the host's pip (see: pip config list) and of environment.pip_options"
        )
    return files, notes


def _places(options: Mapping[str, str], of_case: Iterable[str]) -> Iterator[tuple[str, str]]:
    """("index" or "links", place), from the options of the host's pip and of the case together."""
    own: dict[str, list[str]] = {}
    words = index_options([word for option in of_case for word in option.split()])
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        name = {"-i": "index-url", "-f": "find-links"}.get(name, name.removeprefix("--"))
        own.setdefault(name, []).append(value if equals else "".join(words[place + 1 : place + 2]))
    # A folder that the case names is in the image, not on this host.
    inside = {place for places in own.values() for place in places if place and local_path(place) is not None}
    if "no-index" not in options and "no-index" not in own:
        index = own.get("index-url", [""])[-1] or options.get("index-url") or DEFAULT_INDEX
        extra = [*options.get("extra-index-url", "").split(), *own.get("extra-index-url", [])]
        yield from (("index", url) for url in (index, *extra) if url and url not in inside)
    yield from (("links", name) for name in options.get("find-links", "").split())
    yield from (("links", name) for name in own.get("find-links", []) if name not in inside)


def _read(kind: str, page: str, proxies: Mapping[str, str], bundle: str, trust: Trust) -> list[DistributionFile]:
    local = local_path(page)
    if local is not None:
        try:
            return [_file_of_link(link) for link in _links_on_host(kind, local)]
        except OSError as error:
            raise NoConnection(f"it cannot be read: {error.strerror}") from None
    answer = get(page, proxies=proxies, bundle=bundle, accept=ACCEPT, seconds=SECONDS, trust=trust)
    if answer.status == 404:  # this index does not have the project
        return []
    if answer.status != 200:
        raise NoConnection(f"it answers {answer.status}")
    try:
        if answer.kind == JSON:
            files = [_file_of_json(file) for file in json.loads(answer.body)["files"]]
        else:
            files = [_file_of_link(link) for link in links_in_text(answer.body.decode("utf-8", "replace"), answer.url)]
    except (ValueError, KeyError, TypeError, AttributeError):
        files = []
    if not files:  # a login page looks like this, too
        raise NoConnection("its answer lists no files")
    return files


def _links_on_host(kind: str, place: Path) -> list[Link]:
    if not (place.parent if kind == "index" else place).exists():
        raise NoConnection("it does not exist")
    if kind == "links":
        return links_in(place)
    page = place / "index.html"
    return links_of(page) if page.is_file() else []


def _file_of_json(file: Mapping[str, Any]) -> DistributionFile:
    yanked = file.get("yanked", False)
    name = file["filename"]
    if not isinstance(name, str):
        raise TypeError("filename is not a string")
    return DistributionFile(
        name=name,
        requires_python=_text(file.get("requires-python")),
        yanked=None if yanked is False else _text(yanked),
        uploaded=_text(file.get("upload-time")),
    )


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _file_of_link(link: Link) -> DistributionFile:
    attributes = dict(link.attributes)
    return DistributionFile(
        name=link.path.name if link.path else unquote(urlsplit(link.url).path.rpartition("/")[2]),
        requires_python=attributes.get("data-requires-python", ""),
        yanked=attributes.get("data-yanked"),
        uploaded="",
    )


def not_installable(files: Sequence[DistributionFile], python: str, glibc: str) -> str:
    """Why no file of a release can be installed with a Python; '' when one can. ``python`` '' = unknown."""
    takes = [file for file in files if not python or _takes(file.requires_python, python)]
    if not takes:
        return f"needs Python {files[0].requires_python}"
    known = tags(python, glibc) if python else None
    for file in takes:
        if not file.name.endswith(".whl"):
            return ""
        offered = parse_wheel_filename(file.name)[3]
        if known & offered if known is not None else any(_on_linux(tag) for tag in offered):
            return ""
    return f"no wheel for Python {python or 'of any version'} on x86-64 Linux, and no source distribution"


def _takes(requires: str, python: str) -> bool:
    try:
        return SpecifierSet(requires).contains(python, prereleases=True)
    except ValueError:  # pip ignores a specifier that it cannot read, too
        return True


def _on_linux(tag: Tag) -> bool:
    return tag.platform == "any" or ("linux" in tag.platform and tag.platform.endswith("x86_64"))


@lru_cache
def tags(python: str, glibc: str = "") -> frozenset[Tag]:
    """The tags of the wheels that a version of CPython accepts on x86-64 Linux with a glibc ('' = any).

    Source: PEP 425, 513, 571, 599 and 600; the ABI of CPython before 3.8 ends with m.
    """
    major, minor = [int(number) for number in re.findall("[0-9]{1,9}", python)[:2]]
    newest = versions.order(glibc)[1] if glibc else 99
    old = {"manylinux1": 5, "manylinux2010": 12, "manylinux2014": 17}
    platforms = [f"manylinux_2_{number}_x86_64" for number in range(newest, 4, -1)]
    platforms += [f"{name}_x86_64" for name, least in old.items() if least <= newest] + ["linux_x86_64"]
    abi = f"cp{major}{minor}" + ("m" if (major, minor) < (3, 8) else "")
    return frozenset(
        [
            *cpython_tags((major, minor), [abi], platforms),
            *compatible_tags((major, minor), f"cp{major}{minor}", platforms),
        ]
    )
