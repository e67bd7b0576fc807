"""What of this host's own settings reaches builds, and where each comes from: to be shown, not to be used."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reprokit.core import netrc_file
from reprokit.core.redaction import without_passwords
from reprokit.engine.site import authorities, network, pipconfig
from reprokit.engine.site.config import Settings


@dataclass(frozen=True, kw_only=True)
class Reaching:
    """One setting. ``name``: in the words of its owner (``pip index-url``); ``value``: without passwords."""

    name: str
    value: str
    origin: str


def reaching(settings: Settings, environ: Mapping[str, str] | None = None) -> tuple[Reaching, ...]:
    """Everything that a build gets, passwords hidden. Raises UsageError when pip's configuration cannot be parsed."""
    environ = os.environ if environ is None else environ
    return tuple(
        Reaching(name=name, value=" ".join(without_passwords(value).split()), origin=origin)
        for name, value, origin in _found(settings, environ)
    )


def _found(settings: Settings, environ: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    pip = pipconfig.read_with_origins(environ)
    cert, pip_proxy = pip.pop("cert", ("", "")), pip.pop("proxy", ("", ""))
    for option, key in (("index-url", "pip_index_url"), ("extra-index-url", "pip_extra_index_urls")):
        if own := getattr(settings, key):
            pip[option] = own if isinstance(own, str) else " ".join(own), settings.origins.get(key, "")
    if settings.pip_index_url:
        pip.pop("no-index", None)
    for option in sorted(pip):
        yield f"pip {option}", *pip[option]
    bundle, origin = authorities.find_bundle(cert[0], environ, settings.ca_bundle)
    if bundle is not None:
        origins = {"ca_bundle": settings.origins.get("ca_bundle", ""), "cert": cert[1]}
        yield "CA bundle", str(bundle), origins.get(origin, origin)
    yield from _proxies(settings, environ, pip_proxy)
    for key, value in network.apt_proxies().items():
        yield f"apt {key}", value, "apt's configuration"
    if settings.apt_mirror:
        yield "apt mirror", settings.apt_mirror, settings.origins.get("apt_mirror", "")
    if (logins := netrc_file.path(environ)) is not None:
        yield "netrc", "for the hosts of pip's indexes alone", str(logins)


def _proxies(settings: Settings, environ: Mapping[str, str], pip: tuple[str, str]) -> Iterator[tuple[str, str, str]]:
    used = network.proxies(environ, configured=settings.proxy, pip_proxy=pip[0])
    chosen = settings.origins.get("proxy", "") if settings.proxy else pip[1]
    for name in network.PROXIES:
        if name in used:
            of_variable = name if environ.get(name) else name.lower()
            yield name, used[name], chosen if chosen and name in ("HTTP_PROXY", "HTTPS_PROXY") else of_variable
