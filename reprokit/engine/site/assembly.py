"""The site put together: from the host's settings to secrets, build arguments and network of a build."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from reprokit.core import netrc_file, redaction
from reprokit.engine.site import authorities, credentials, network, pipconfig, providers
from reprokit.engine.site.config import Settings
from reprokit.engine.site.config import load as load_settings
from reprokit.engine.site.gateway import SiteAccess
from reprokit.engine.site.links import local_path
from reprokit.engine.site.local_index import LocalIndexServer
from reprokit.environment import bootstrap

CA_BUNDLE = "/run/secrets/ca_bundle"
"""Where the secret ``ca_bundle`` is mounted in builds."""

_LOCATIONS = ("index-url", "extra-index-url", "find-links")


@dataclass(frozen=True, kw_only=True)
class Served:
    """What one build gets: ``secrets`` by id, predefined ``build_args``, ``network`` ("default" or "host").

    ``warnings``: what of the host's settings cannot reach the build, in words. ``redact`` leaves secrets out of text.
    """

    secrets: Mapping[str, bytes] = field(default_factory=dict)
    build_args: Mapping[str, str] = field(default_factory=dict)
    network: str = "default"
    warnings: tuple[str, ...] = ()
    redact: Callable[[str], str] = lambda text: text


@dataclass(frozen=True, kw_only=True)
class Site:
    """The host's settings, as far as builds need them. ``Site()`` is a host without any.

    ``pip``: option -> values of the host's pip. ``secrets``: ready-made secrets by id (``ca_bundle``, ``netrc``,
    ``apt_conf``). ``proxies``: proxy variables. ``loopback``: an index or proxy is on this host's loopback.
    ``local_index`` serves the local folders that ``pip`` names, if any. ``known``: secret words -> what is put in
    their place in whatever a build writes. ``access``: what the gateway of builds uses.
    """

    pip: Mapping[str, tuple[str, ...]] = field(default_factory=dict, repr=False)
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    proxies: Mapping[str, str] = field(default_factory=dict, repr=False)
    loopback: bool = False
    local_index: LocalIndexServer | None = None
    known: Mapping[str, str] = field(default_factory=dict, repr=False)
    warnings: tuple[str, ...] = ()
    access: SiteAccess = field(default_factory=SiteAccess)

    @property
    def needs_loopback(self) -> bool:
        """Whether builds have to reach something on this host's loopback."""
        return self.loopback or self.local_index is not None

    @contextmanager
    def serving(self, *, local: bool = True) -> Iterator[Served]:
        """Hold ready what builds need while the block runs; parallel builds share one server of local folders.

        ``local``: whether the engine shares this host's loopback. Where it does not, local folders are left out, with
        a warning.
        """
        if self.local_index is None:
            yield self._served(self.pip, self.proxies, host=self.loopback and local, local=local)
            return
        if not local:
            pip, dropped = _relocated(self.pip, {})
            warning = (
                "the engine does not share this host's loopback, so builds cannot install from local folders: "
                + ", ".join(dropped)
            )
            yield self._served(pip, self.proxies, host=False, local=False, warnings=(warning,))
            return
        with self.local_index.open() as root:
            pip, _ = _relocated(self.pip, self.local_index.addresses(root))
            served = urlsplit(root)
            pip["trusted-host"] = (*pip.get("trusted-host", ()), f"{served.hostname}:{served.port}")
            proxies = network.without_proxy(self.proxies)
            yield self._served(pip, proxies, host=True, local=True, known=redaction.literals([self.local_index.token]))

    def _served(
        self,
        pip: Mapping[str, tuple[str, ...]],
        proxies: Mapping[str, str],
        *,
        host: bool,
        local: bool,
        warnings: tuple[str, ...] = (),
        known: Mapping[str, str] | None = None,
    ) -> Served:
        if self.loopback and not local:
            warnings += ("an index or proxy of this host is at a loopback address, which the engine cannot reach",)
        secrets = dict(self.secrets)
        if pip:
            secrets["pip_conf"] = pipconfig.render(pip).encode()
        return Served(
            secrets=secrets,
            build_args=proxies,
            network="host" if host else "default",
            warnings=self.warnings + warnings,
            redact=functools.partial(_without_secrets, {**self.known, **(known or {})}),
        )


def current(environ: Mapping[str, str] | None = None, settings: Settings | None = None) -> Site:
    """The site of this process. Reads a handful of small files; starts nothing but ``apt-config``, if apt has a proxy.

    Raises UsageError when a configuration file cannot be understood.
    """
    environ = os.environ if environ is None else environ
    settings = load_settings(environ) if settings is None else settings
    found = pip_options(environ, settings)
    bundle = authorities.bundle_path(found.pop("cert", ""), environ, settings.ca_bundle)
    client_cert = Path(found.pop("client-cert")).expanduser() if "client-cert" in found else None
    if client_cert is not None and bundle is None:
        bundle = authorities.system_bundle()  # the two travel as one file, which has to be able to verify servers
    proxies = network.proxies(environ, configured=settings.proxy, pip_proxy=found.pop("proxy", ""))
    pip, warnings = _split(found)
    of_gateway = dict(pip)

    secrets: dict[str, bytes] = {}
    if bundle is not None and (pem := authorities.read_bundle(bundle, client_cert)):
        secrets["ca_bundle"] = pem
        pip["cert"] = (CA_BUNDLE,)
        if client_cert is not None:
            pip["client-cert"] = (CA_BUNDLE,)
    urls = [url for name in (*_LOCATIONS, "constraint") for url in pip.get(name, ()) if local_path(url) is None]
    urls += providers.addresses(settings)
    if login := credentials.netrc_for([urlsplit(url).hostname or "" for url in urls], environ):
        secrets["netrc"] = login
    apt = network.apt_proxies()
    bundled = CA_BUNDLE if "ca_bundle" in secrets else ""
    if text := network.apt_conf(apt, ca_bundle=bundled, mirror=settings.apt_mirror):
        secrets["apt_conf"] = text.encode()

    secrets |= providers.secrets(settings)
    everywhere = [
        *urls,
        *apt.values(),
        *(value for name, value in proxies.items() if name.upper() != "NO_PROXY"),
    ]
    return Site(
        pip=pip,
        secrets=secrets,
        proxies=proxies,
        loopback=any(network.is_loopback(url) for url in everywhere if url != "DIRECT"),
        local_index=_local_index(pip),
        known={**redaction.of_netrc(environ), **_passwords(everywhere)},
        warnings=warnings,
        access=SiteAccess(
            pip=of_gateway,
            logins=netrc_file.logins(environ),
            bundle="" if bundle is None else authorities.read_bundle(bundle).decode("ascii", errors="replace"),
            client_cert=client_cert,
            proxies=proxies,
            apt_proxies=apt,
            archives=(*_archives(settings), *providers.addresses(settings)),
            hosts=settings.build_hosts,
        ),
    )


def _archives(settings: Settings) -> list[str]:
    """The distributions' archives that builds read, and those of past days."""
    main = settings.apt_mirror.rstrip("/")
    found = [place for archive in bootstrap.OFFICIAL.values() for place in (archive.main, archive.security)]
    found += [f"{main}/", f"{main}-security/"] if main else []
    snapshots = (*bootstrap.SNAPSHOTS.values(), *filter(None, (settings.apt_snapshot,)))
    return [*found, *(place.partition("{")[0] for place in snapshots)]


def _passwords(urls: Iterable[str]) -> dict[str, str]:
    return {word: replacement for url in urls for word, replacement in redaction.of_url(url).items()}


def _without_secrets(known: Mapping[str, str], text: str) -> str:
    """What a build wrote, as it may be recorded. Who and where someone is stays, until a report is made of it."""
    return redaction.scrub(text, known=known, people=False).text


def pip_options(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """The host's pip options that builds get, with the indexes of reprokit's configuration in place of the host's.

    Raises UsageError when pip's configuration cannot be parsed.
    """
    options = pipconfig.read(environ)
    own = {"index-url": settings.pip_index_url, "extra-index-url": " ".join(settings.pip_extra_index_urls)}
    changed = {**options, **{name: value for name, value in own.items() if value}}
    if settings.pip_index_url:
        changed.pop("no-index", None)
    # pip ignores an index over plain http of another host unless that host is named: who configures it here wants it.
    plain = [urlsplit(url) for url in (settings.pip_index_url, *settings.pip_extra_index_urls)]
    hosts = [f"{url.hostname}:{url.port}" if url.port else url.hostname or "" for url in plain if url.scheme == "http"]
    if hosts:
        changed["trusted-host"] = " ".join([*changed.get("trusted-host", "").split(), *hosts])
    return changed


def _split(options: Mapping[str, str]) -> tuple[dict[str, tuple[str, ...]], tuple[str, ...]]:
    """pip's options with lists taken apart and folders that do not exist left out (pip only warns about those)."""
    pip, warnings = {}, []
    for name, value in options.items():
        values = tuple(value.split()) if name in pipconfig.LISTS else (value,)
        kept = []
        for one in values:
            place = local_path(one) if name in (*_LOCATIONS, "constraint") else None
            if place is not None and not place.exists():
                warnings.append(f"pip's {name} of this host names {one}, which does not exist")
            else:
                kept.append(one)
        if kept:
            pip[name] = tuple(kept)
    return pip, tuple(warnings)


def _local_index(pip: Mapping[str, tuple[str, ...]]) -> LocalIndexServer | None:
    def places(*names: str) -> tuple[Path, ...]:
        found = (local_path(value) for name in names for value in pip.get(name, ()))
        return tuple(dict.fromkeys(place for place in found if place is not None))

    indexes, links, plain = places("index-url", "extra-index-url"), places("find-links"), places("constraint")
    return _shared(indexes, links, plain) if indexes or links or plain else None


@functools.lru_cache(maxsize=8)
def _shared(indexes: tuple[Path, ...], links: tuple[Path, ...], plain: tuple[Path, ...]) -> LocalIndexServer:
    # Builds that run at once read the site one by one; they share one server all the same.
    return LocalIndexServer(indexes=indexes, links=links, plain=plain)


def _relocated(
    pip: Mapping[str, tuple[str, ...]], addresses: Mapping[tuple[str, Path], str]
) -> tuple[dict[str, tuple[str, ...]], list[str]]:
    """pip's options with local places replaced by their addresses, and those that have none."""
    changed: dict[str, tuple[str, ...]] = {}
    dropped = []
    for name, values in pip.items():
        kind = {"find-links": "links", "constraint": "plain"}.get(name, "index")
        kept = []
        for value in values:
            place = local_path(value) if name in (*_LOCATIONS, "constraint") else None
            if place is None:
                kept.append(value)
            elif (kind, place) in addresses:
                kept.append(addresses[kind, place])
            else:
                dropped.append(value)
        if kept:
            changed[name] = tuple(kept)
    return changed, dropped
