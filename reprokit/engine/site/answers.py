"""Asking what lies on the network as the gateway of builds does: with this host's proxies, authorities, passwords."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core import netrc_file
from reprokit.core.errors import UsageError
from reprokit.engine.site import authorities, config
from reprokit.engine.site.gateway.access import NotServed, SiteAccess


class NoConnection(Exception):
    """Nothing answers at an address; the text says why, without passwords."""


@dataclass(frozen=True, kw_only=True)
class SiteAnswer:
    """What a server answered, whatever its status; ``url``: after redirects, ``kind``: the type of ``body``."""

    status: int
    url: str
    kind: str
    body: bytes = b""


def get(
    url: str,
    *,
    proxies: Mapping[str, str],
    bundle: str = "",
    accept: str,
    seconds: float,
    read: bool = True,
    trust: Trust = Trust.OWN,
) -> SiteAnswer:
    """What ``url`` answers; its body where it has one (status 200) and is to be ``read``. Raises NoConnection.

    ``proxies``: variables as :func:`reprokit.engine.site.network.proxies` has them. ``bundle``: file of authorities
    besides the usual ones. ``seconds``: how long the head of the answer may take.
    ``trust``: in the case that names the address, where one does.
    """
    from reprokit.engine.site.gateway import upstream  # late: httpcore takes a while to import

    try:
        pem = authorities.read_bundle(Path(bundle)).decode() if bundle else ""
        access = SiteAccess(proxies=proxies, bundle=pem, hosts=config.load().build_hosts)
        alone = frozenset({url})
        if ALLOWANCES[trust].credentials:
            access = replace(access, logins=netrc_file.logins(os.environ), archives=(url,))
            alone = frozenset()
        with (
            closing(upstream.of_host(access, seconds, alone)) as asks,
            closing(asks.follow(url, {"Accept": accept}, place=url)) as answer,
        ):
            body = answer.page() if read and answer.status == 200 else b""
            kind = answer.headers.get("content-type", "").partition(";")[0].strip()
            return SiteAnswer(status=answer.status, url=answer.url, kind=kind, body=body)
    except (NotServed, UsageError) as error:
        raise NoConnection(str(error)) from None
    except ValueError as error:
        raise NoConnection(f"it is not an address ({error})") from None
