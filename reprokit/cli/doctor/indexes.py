"""Whether the indexes that builds read from answer: tried from this host, with its proxies, CAs and passwords."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from reprokit.cli.doctor.ground import CheckTimedOut, Finding, Ground, Voice, later
from reprokit.core.errors import UsageError
from reprokit.core.redaction import without_passwords
from reprokit.engine.bootstrap import OFFICIAL
from reprokit.engine.site import authorities, network
from reprokit.engine.site.answers import NoConnection, get
from reprokit.engine.site.assembly import pip_options
from reprokit.engine.site.gateway.access import DEFAULT_INDEX
from reprokit.engine.site.links import local_path

SECONDS = 8.0
"""How long one index may take."""

say = Voice("network")


@dataclass(frozen=True, kw_only=True)
class NetworkTarget:
    """An address to try: ``url``, through ``proxies``. ``needed``: what fails without it; ``fix``: what to do then."""

    name: str
    url: str
    proxies: Mapping[str, str]
    needed: str
    fix: str


def check(ground: Ground) -> Iterator[Finding]:
    """pip's indexes, the distributions' archives, and the places that the configuration names."""
    try:
        options = pip_options(ground.environ, ground.settings)
    except UsageError as error:
        yield say.fail(str(error), "fix that file; pip config debug lists the files that pip reads")
        return
    bundle, _ = authorities.find_bundle(options.get("cert", ""), ground.environ, ground.settings.ca_bundle)
    waiting = []
    for place in places(ground, options):
        local = local_path(place.url)
        if local is not None:
            yield (
                say.ok(f"{place.name}: {local}")
                if local.exists()
                else say.warn(f"{place.name}: {local} does not exist", place.fix)
            )
        else:
            waiting.append((place, later(lambda place=place: _ask(place, str(bundle or "")))))  # type: ignore[misc]
    for place, wait in waiting:
        try:
            wrong = wait(SECONDS)
        except CheckTimedOut as error:
            wrong = str(error)
        shown = without_passwords(place.url)
        if wrong:
            yield say.warn(f"{place.name} {shown}: {wrong}; {place.needed}", place.fix)
        else:
            yield say.ok(f"{place.name} {shown} answers")


def places(ground: Ground, options: Mapping[str, str]) -> Iterator[NetworkTarget]:
    """The addresses to try; ``options``: pip's current options."""
    own = ground.settings
    usual = network.proxies(ground.environ, configured=own.proxy, pip_proxy=options.get("proxy", ""))
    pip_fix = "set pip_index_url, proxy or ca_bundle in reprokit.toml; reprokit config shows the current values"
    if "no-index" not in options:
        index = options.get("index-url") or DEFAULT_INDEX
        needed = "pip packages cannot be installed"
        yield NetworkTarget(name="pip index", url=index, proxies=usual, needed=needed, fix=pip_fix)
        for url in options.get("extra-index-url", "").split():
            yield NetworkTarget(
                name="pip extra index", url=url, proxies=usual, needed="its packages cannot be installed", fix=pip_fix
            )
    for url in options.get("find-links", "").split():
        yield NetworkTarget(
            name="pip find-links", url=url, proxies=usual, needed="its packages cannot be installed", fix=pip_fix
        )
    configured = {key.split("::")[1].lower(): value for key, value in network.apt_proxies().items()}
    apt = {f"{scheme}_proxy": value for scheme, value in configured.items() if value != "DIRECT"}
    debian = own.apt_mirror or OFFICIAL["debian"].main
    for name, url in (("Debian archive", debian), ("Ubuntu archive", OFFICIAL["ubuntu"].main)):
        needed = f"nothing can be installed in images of {name.partition(' ')[0]}"
        fix = "set apt_mirror or proxy in reprokit.toml" if "Debian" in name else "set proxy in reprokit.toml"
        yield NetworkTarget(
            name=name, url=f"{url.rstrip('/')}/dists/", proxies={**usual, **apt}, needed=needed, fix=fix
        )
    for key in ("uv_python_mirror", "conda_channel"):
        if url := getattr(own, key):
            fix = f"fix {key} in reprokit.toml"
            yield NetworkTarget(name=key, url=url, proxies=usual, needed="its files are not available", fix=fix)


def _ask(place: NetworkTarget, bundle: str) -> str:
    """Why the address does not answer as needed, in words; '' when it does."""
    try:
        answer = get(
            place.url.rstrip("/") + "/",
            proxies=place.proxies,
            bundle=bundle,
            accept="text/html, application/vnd.pypi.simple.v1+html",
            seconds=SECONDS,
            read=False,
        )
    except NoConnection as error:
        return str(error)
    if answer.status in (401, 407):
        return "it asks for a password that this host does not have"
    # A server that forbids or lacks a listing (403, 404) may still have every file below it.
    return f"it answers {answer.status}" if answer.status >= 500 else ""
