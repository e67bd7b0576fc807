"""The site put together: from the host's settings to the gateway, secrets and network of a build.

Downloads that builds share are the gateway's, on this host. In the engine, builds share layers alone: a layer is found
by the text of its steps and the content of all that they read, and no step can write where another build reads.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from reprokit.case.trust import ALLOWANCES, Allowance, Trust
from reprokit.core import cache, netrc_file, ownership, redaction
from reprokit.engine import bootstrap
from reprokit.engine.site import authorities, network, pipconfig, providers
from reprokit.engine.site.config import Settings
from reprokit.engine.site.config import load as load_settings
from reprokit.engine.site.gateway.access import LOCATIONS, ROOT, Allowed, SiteAccess, without_login
from reprokit.engine.site.links import local_path
from reprokit.environment.catalog import Catalog

if TYPE_CHECKING:
    from reprokit.engine.site.gateway.downloads import FetchedFile
    from reprokit.engine.site.gateway.server import Address

CA_BUNDLE = "/run/secrets/ca_bundle"
"""Where the secret ``ca_bundle`` is mounted in builds."""

PLACES = "REPROKIT_PLACES"
"""Variable of steps: the indexes and find-links pages that pip reads through the gateway (``keeping_pip.py``)."""

RELAYED = ROOT
"""Where a build reaches its gateway: the relay that ``dockerfiles/site.sh`` starts."""

_OUT_OF_REACH = (
    "the engine is on another machine, from where builds cannot reach this host's gateway: they read package indexes "
    "themselves, without logins, without folders of this host and without what it has downloaded before"
)
_PROXIES = ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY")
_LOOPBACK = "127.0.0.1,localhost,::1"
_AT_HOST = ("cert", "client-cert", "proxy")
"""Options of pip that name files and proxies of this host."""

_BUNDLES = ("SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO", "NODE_EXTRA_CA_CERTS")
"""Variables that name a file of certificate authorities, for programs that builds start."""

_LOGIN = re.compile(rb"://[^/@\s'\"]*@")


@dataclass(frozen=True, kw_only=True)
class Served:
    """What one build gets."""

    secrets: Mapping[str, bytes] = field(default_factory=dict)
    """By their ids."""
    environ: Mapping[str, str] = field(default_factory=dict)
    """Variables of its steps."""
    network: str = "default"
    """Of its steps: "default" or "none"."""
    gateway: Path | None = None
    """The unix socket that its steps' connections go to."""
    warnings: tuple[str, ...] = ()
    """What of the host's settings cannot reach the build, in words."""
    refused: Sequence[str] = ()
    """What the gateway did not fetch so far, in sentences; it grows while the build runs."""
    fetched: Sequence[FetchedFile] = ()
    """What the gateway read from servers so far."""
    redact: Callable[[str], str] = lambda text: text
    """Leaves secrets out of text, and puts the addresses in that the gateway stands for."""


@dataclass(frozen=True, kw_only=True)
class Site:
    """The host's settings, as far as builds need them. ``Site()`` is a host without any."""

    access: SiteAccess = field(default_factory=SiteAccess)
    """What the gateway fetches with; builds do not see it."""
    secrets: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Ready-made ones by id. Logins are in those alone which only steps that fetch an interpreter or a compiler mount:
    these run no code of a case.
    """
    apt_mirror: str = ""
    known: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Secret words -> what is put in their place in whatever a build writes."""
    warnings: tuple[str, ...] = ()

    @contextmanager
    def serving(
        self,
        trust: Trust = Trust.OWN,
        *,
        hosts: frozenset[str] = frozenset(),
        places: frozenset[str] = frozenset(),
        reached: bool = True,
    ) -> Iterator[Served]:
        """Hold ready what a build needs while the block runs: a gateway of its own.

        ``trust``: in the case that is built. ``hosts``: what the case itself names, and ``places``: its indexes and
        find-links pages, which an untrusted build reads through the gateway. ``reached``: whether the engine can reach
        a socket of this host. Where it cannot, builds read indexes themselves, without this site's logins.
        """
        gets = ALLOWANCES[trust]
        places = frozenset() if gets.open_network else places
        if not reached:
            yield self._served(gets, None)
            return
        from reprokit.engine.site.gateway import server  # late: most processes build nothing

        allowed = Allowed(credentials=gets.credentials, any_host=gets.open_network, hosts=hosts, places=places)
        with ownership.private_folder("gateway", socket=True) as folder:
            # An engine that mounts the folder of the socket shows it to steps of every user; the one above is private.
            shown = folder / "shown"
            with server.serving(self.access, allowed, cache.folder("downloads"), shown) as address:
                shown.chmod(0o755)
                address.socket.chmod(0o666)
                yield self._served(gets, address, places)

    def direct(self, folder: Path) -> Served:
        """What a build gets that runs as this host's user: the settings as they are, with logins, and no gateway.

        ``folder``: a private one, for files that its variables name.
        """
        pip = {
            name: tuple(value if ":" in value else str(local_path(value)) for value in values)
            if name in LOCATIONS
            else values
            for name, values in self.access.pip.items()
        }
        environ = dict(self.access.proxies)
        if netrc := netrc_file.path(os.environ):
            environ["NETRC"] = str(netrc)
        if self.access.client_cert:
            pip["client-cert"] = (str(self.access.client_cert),)
        if bundle := self.secrets.get("ca_bundle"):
            (folder / "ca_bundle").write_bytes(bundle)
            environ |= dict.fromkeys(_BUNDLES, str(folder / "ca_bundle"))
            pip["cert"] = (str(folder / "ca_bundle"),)
        (folder / "pip.conf").write_text(pipconfig.render(pip))
        environ["PIP_CONFIG_FILE"] = str(folder / "pip.conf")
        return Served(environ=environ, warnings=self.warnings, redact=functools.partial(_as_recorded, {}, self.known))

    def _served(self, gets: Allowance, gateway: Address | None, places: frozenset[str] = frozenset()) -> Served:
        apart = not gets.open_network  # steps have no network but the gateway
        environ = self._environ(apart, relayed=gateway is not None)
        environ |= {PLACES: " ".join(sorted(places))} if places else {}
        pip = gateway.pip if gateway else self._pip_alone()
        secrets = dict(self.secrets)
        if not gets.credentials:
            secrets.pop("netrc", None)
            secrets = {name: _LOGIN.sub(b"://", text) for name, text in secrets.items()}
        bundle = CA_BUNDLE if "ca_bundle" in secrets else ""
        pip = {**pip, "cert": (bundle,)} if bundle and pip else pip
        apt = dict.fromkeys(("Acquire::http::Proxy", "Acquire::https::Proxy"), RELAYED) if gateway else {}
        made = {
            "pip_conf": pipconfig.render(pip) if pip else "",
            "apt_conf": network.apt_conf(apt, ca_bundle=bundle, mirror=self.apt_mirror),
            "site_env": "".join(f"export {name}={shlex.quote(value)}\n" for name, value in environ.items()),
        }
        return Served(
            secrets=secrets | {name: text.encode() for name, text in made.items() if text},
            environ=environ,
            network="none" if apart else "default",
            gateway=gateway.socket if gateway else None,
            warnings=(*self.warnings, *(() if gateway else (_OUT_OF_REACH,))),
            refused=gateway.notes if gateway else (),
            fetched=gateway.fetched if gateway else (),
            redact=functools.partial(_as_recorded, gateway.known if gateway else {}, self.known),
        )

    def _environ(self, apart: bool, *, relayed: bool) -> dict[str, str]:
        """Proxy variables of steps: the gateway, where this site has proxies or a build no other way out."""
        proxies = self.access.proxies
        upstream = {name: without_login(proxies[name]) for name in _PROXIES if proxies.get(name)}
        if relayed and (upstream or apart):
            upstream = dict.fromkeys(_PROXIES, RELAYED)
        if not upstream:
            return {}
        exempt = [_LOOPBACK, *([proxies["no_proxy"]] if proxies.get("no_proxy") and not apart else [])]
        return {**upstream, **dict.fromkeys(("no_proxy", "NO_PROXY"), ",".join(exempt))}

    def _pip_alone(self) -> dict[str, tuple[str, ...]]:
        """pip's options for a build that reads indexes itself: without logins, and without folders of this host."""
        found = {
            name: tuple(without_login(value) for value in values if local_path(value) is None)
            if name in LOCATIONS
            else values
            for name, values in self.access.pip.items()
        }
        return {name: values for name, values in found.items() if values}


def current(environ: Mapping[str, str] | None = None, settings: Settings | None = None) -> Site:
    """The site of this process. Reads a handful of small files; starts nothing but ``apt-config``, if apt has a proxy.

    Raises UsageError when a configuration file cannot be understood.
    """
    environ = os.environ if environ is None else environ
    settings = load_settings(environ) if settings is None else settings
    found = pip_options(environ, settings)
    bundle, _ = authorities.find_bundle(found.get("cert", ""), environ, settings.ca_bundle)
    pem = authorities.read_bundle(bundle) if bundle is not None else b""
    client_cert = Path(found["client-cert"]).expanduser() if "client-cert" in found else None
    proxies = network.proxies(environ, configured=settings.proxy, pip_proxy=found.get("proxy", ""))
    pip, warnings = _split({name: value for name, value in found.items() if name not in _AT_HOST})
    apt = network.apt_proxies()
    own = [*providers.addresses(settings), *filter(None, (settings.apt_mirror, settings.apt_snapshot))]
    access = SiteAccess(
        pip=pip,
        logins=netrc_file.logins(environ),
        bundle=pem.decode(),
        client_cert=client_cert,
        proxies=proxies,
        apt_proxies=apt,
        archives=(*_archives(settings), *providers.addresses(settings)),
        hosts=settings.build_hosts,
    )
    secrets = providers.secrets(settings)
    if pem:
        secrets["ca_bundle"] = pem
    fetched = [urlsplit(url).hostname or "" for url in providers.addresses(settings)]
    if login := netrc_for(fetched, environ):
        secrets["netrc"] = login
    urls = [url for name in LOCATIONS for url in pip.get(name, ()) if local_path(url) is None]
    everywhere = [*urls, *own, *apt.values(), *(value for name, value in proxies.items() if name.upper() != "NO_PROXY")]
    return Site(
        access=access,
        secrets=secrets,
        apt_mirror=without_login(settings.apt_mirror),
        known={**redaction.of_netrc(environ), **_passwords(everywhere)},
        warnings=warnings,
    )


def _archives(settings: Settings) -> list[str]:
    """The distributions' archives that builds read, and those of past days."""
    main = settings.apt_mirror.rstrip("/")
    found = [place for archive in bootstrap.OFFICIAL.values() for place in (archive.main, archive.security)]
    found += [f"{main}/", f"{main}-security/"] if main else []
    releases = Catalog(settings.compatibility).releases().values()
    found += [f"http://{host}/" for host in dict.fromkeys(release.archive for release in releases) if host]
    snapshots = (*bootstrap.SNAPSHOTS.values(), *filter(None, (settings.apt_snapshot,)))
    return [*found, *(place.partition("{")[0] for place in snapshots)]


def _passwords(urls: Iterable[str]) -> dict[str, str]:
    return {word: replacement for url in urls for word, replacement in redaction.of_url(url).items()}


def _as_recorded(addresses: Mapping[str, str], known: Mapping[str, str], text: str) -> str:
    """What a build wrote, as it may be recorded: with the real addresses of what the gateway fetched, without secrets.

    Who and where someone is stays, until a report is made of it.
    """
    for address in sorted(addresses, key=len, reverse=True):
        text = text.replace(address, addresses[address])
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
            place = local_path(one) if name in LOCATIONS else None
            if place is not None and not place.exists():
                warnings.append(f"pip's {name} of this host names {one}, which does not exist")
            else:
                kept.append(one)
        if kept:
            pip[name] = tuple(kept)
    return pip, tuple(warnings)


def netrc_for(hosts: Iterable[str], environ: Mapping[str, str]) -> bytes:
    """The netrc entries of those hosts, and of no other: a netrc holds tokens for other places as well."""
    known = netrc_file.logins(environ)
    lines = [
        f"machine {host} login {_quoted(known[host][0])} password {_quoted(known[host][1])}\n"
        for host in sorted(set(hosts))
        if host in known
    ]
    return "".join(lines).encode()


def _quoted(word: str) -> str:
    # Quotes only where nothing else will do: Pythons before 3.11, which a build may have, know none in a netrc.
    word = word.replace("\\", "\\\\")
    if word and not word.startswith('"') and not any(char.isspace() for char in word):
        return word
    return '"' + word.replace('"', '\\"') + '"'
