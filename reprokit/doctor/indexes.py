"""Whether the indexes that builds read from answer: asked of this host, with its proxies, authorities and passwords."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from reprokit.doctor.finding import Finding, Voice
from reprokit.doctor.ground import Ground, NoAnswer, later
from reprokit.environment.bootstrap import OFFICIAL
from reprokit.errors import UsageError
from reprokit.site import network, trust
from reprokit.site.assembly import pip_options
from reprokit.site.credentials import blotted
from reprokit.site.shelf import local_path

SECONDS = 8.0
"""How long one of them may take."""

say = Voice("network")


@dataclass(frozen=True, kw_only=True)
class Place:
    """What is asked: ``url``, through ``proxies``; ``needed`` says for what, ``fix`` what mends it."""

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
        yield say.fail(str(error), "mend that file; pip config debug")
        return
    bundle = trust.bundle_path(options.get("cert", ""), ground.environ, ground.settings.ca_bundle)
    waiting = []
    for place in places(ground, options):
        local = local_path(place.url)
        if local is not None:
            yield (
                say.ok(f"{place.name}: {local}")
                if local.exists()
                else say.warn(f"{place.name}: there is no {local}", place.fix)
            )
        else:
            waiting.append((place, later(lambda place=place: _ask(place, str(bundle or "")))))  # type: ignore[misc]
    for place, wait in waiting:
        try:
            wrong = wait(SECONDS)
        except NoAnswer as error:
            wrong = str(error)
        shown = blotted(place.url)
        if wrong:
            yield say.warn(f"{place.name} {shown}: {wrong}; {place.needed}", place.fix)
        else:
            yield say.ok(f"{place.name} {shown} answers")


def _default_index() -> str:
    """The index that pip asks by itself, as its help names it; '' without pip."""
    command = [sys.executable, "-m", "pip", "--isolated", "install", "--help"]
    try:
        told = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"--index-url <url>.*?\(default\s+(\S+?)\)", told, re.S)
    return found[1] if found else ""


def places(ground: Ground, options: Mapping[str, str]) -> Iterator[Place]:
    """Everything to ask; ``options`` are those of pip in force."""
    own = ground.settings
    usual = network.proxies(ground.environ, configured=own.proxy, pip_proxy=options.get("proxy", ""))
    pip_fix = "set pip_index_url, proxy or ca_bundle in reprokit.toml; reprokit config shows what is in force"
    if "no-index" not in options:
        if index := options.get("index-url") or _default_index():
            needed = "pip packages cannot be installed"
            yield Place(name="pip index", url=index, proxies=usual, needed=needed, fix=pip_fix)
        for url in options.get("extra-index-url", "").split():
            yield Place(
                name="pip extra index", url=url, proxies=usual, needed="what it alone has is missing", fix=pip_fix
            )
    for url in options.get("find-links", "").split():
        yield Place(name="pip find-links", url=url, proxies=usual, needed="what it alone has is missing", fix=pip_fix)
    apt = {key.split("::")[1].lower(): value for key, value in network.apt_proxies().items() if value != "DIRECT"}
    debian = own.apt_mirror or OFFICIAL["debian"].main
    for name, url in (("Debian archive", debian), ("Ubuntu archive", OFFICIAL["ubuntu"].main)):
        needed = f"nothing can be installed in images of {name.partition(' ')[0]}"
        fix = "set apt_mirror or proxy in reprokit.toml" if "Debian" in name else "set proxy in reprokit.toml"
        yield Place(name=name, url=f"{url.rstrip('/')}/dists/", proxies={**usual, **apt}, needed=needed, fix=fix)
    for key in ("uv_python_mirror", "conda_channel"):
        if url := getattr(own, key):
            fix = f"mend {key} in reprokit.toml"
            yield Place(name=key, url=url, proxies=usual, needed="what it serves cannot be had", fix=fix)


def _ask(place: Place, bundle: str) -> str:
    """Why it does not serve, in words; '' when it does."""
    import requests
    from requests.utils import should_bypass_proxies

    proxies: dict[str, Any] = {
        key.removesuffix("_proxy").lower(): url for key, url in place.proxies.items() if key.islower()
    }
    proxies.update({key: url for key, url in place.proxies.items() if key in ("http", "https")})
    if should_bypass_proxies(place.url, place.proxies.get("no_proxy")):
        proxies = {}
    session = requests.Session()
    session.trust_env = False
    # pip sends the logins of a netrc as well.
    login = None if urlsplit(place.url).username else requests.utils.get_netrc_auth(place.url)
    try:
        answer = session.get(
            place.url.rstrip("/") + "/",
            proxies=proxies,
            verify=bundle or True,
            timeout=SECONDS,
            stream=True,
            auth=login,
            headers={"Accept": "text/html, application/vnd.pypi.simple.v1+html"},
        )
    except requests.exceptions.ProxyError as error:
        return f"the proxy does not let through ({_reason(error)})"
    except requests.exceptions.SSLError:
        return "its certificate is not trusted (ca_bundle names this site's own authorities)"
    except requests.exceptions.Timeout:
        return f"no answer within {SECONDS:g} s"
    except requests.exceptions.RequestException as error:
        return f"no connection ({_reason(error)})"
    answer.close()
    if answer.status_code in (401, 407):
        return "it asks for a password that this host does not have"
    # What forbids or lacks a listing (403, 404) may still have every file below it.
    return f"it answers {answer.status_code}" if answer.status_code >= 500 else ""


def _reason(error: Exception) -> str:
    """The innermost words of a connection's failure, without addresses of objects and passwords."""
    text = str(error)
    for words in ("Name or service not known", "Temporary failure in name resolution", "Connection refused"):
        if words in text:
            return words.lower()
    return blotted(text.rpartition(": ")[2].strip("'\")( "))
