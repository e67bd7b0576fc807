"""Asking what lies on the network as this host asks: with its proxies, authorities and passwords."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from reprokit.core.addresses import is_loopback
from reprokit.core.redaction import without_passwords
from reprokit.engine.site.gateway.access import without_login

if TYPE_CHECKING:
    import requests


class NoConnection(Exception):
    """Nothing answers at an address; the text says why, without passwords."""


class Untrusted(NoConnection):
    """What answers has no certificate that ``bundle`` vouches for."""


def get(
    url: str, *, proxies: Mapping[str, str], bundle: str = "", accept: str, seconds: float, stream: bool = False
) -> requests.Response:
    """What ``url`` answers, whatever its status. Raises NoConnection.

    ``proxies``: variables as :func:`reprokit.engine.site.network.proxies` has them. ``bundle``: file of the
    authorities, '' = the usual ones. ``seconds``: how long a silence may last.
    """
    import requests
    from requests.utils import should_bypass_proxies

    chosen: dict[str, Any] = {
        key.removesuffix("_proxy").lower(): value for key, value in proxies.items() if key.islower()
    }
    chosen.update({key: value for key, value in proxies.items() if key in ("http", "https")})
    try:
        # A proxy's localhost is another host.
        if is_loopback(without_login(url)) or should_bypass_proxies(url, proxies.get("no_proxy")):
            chosen = {}
        # pip sends the logins of a netrc as well.
        login = None if urlsplit(url).username else requests.utils.get_netrc_auth(url)
    except ValueError as error:
        raise NoConnection(f"it is not an address ({error})") from None
    session = requests.Session()
    session.trust_env = False
    try:
        return session.get(
            url,
            proxies=chosen,
            verify=bundle or True,
            timeout=seconds,
            stream=stream,
            auth=login,
            headers={"Accept": accept},
        )
    except requests.exceptions.ProxyError as error:
        raise NoConnection(f"the proxy does not let through ({_reason(error)})") from None
    except requests.exceptions.SSLError:
        raise Untrusted("its certificate is not trusted (ca_bundle names this site's own authorities)") from None
    except requests.exceptions.Timeout:
        raise NoConnection(f"no answer within {seconds:g} s") from None
    except requests.exceptions.RequestException as error:
        raise NoConnection(f"no connection ({_reason(error)})") from None


def default_index(seconds: float) -> str:
    """The index that pip asks by itself, as its help names it; '' without pip."""
    command = [sys.executable, "-m", "pip", "--isolated", "install", "--help"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"--index-url <url>.*?\(default\s+(\S+?)\)", answer, re.S)
    return found[1] if found else ""


def _reason(error: Exception) -> str:
    """The innermost words of a connection's failure, without addresses of objects and passwords."""
    text = str(error)
    for words in ("Name or service not known", "Temporary failure in name resolution", "Connection refused"):
        if words in text:
            return words.lower()
    return without_passwords(text.rpartition(": ")[2].strip("'\")( "))
