"""The user's netrc: the logins that curl, pip and git take for hosts."""

from __future__ import annotations

import netrc
from collections.abc import Mapping
from pathlib import Path

from reprokit.core.home import home, is_file


def path(environ: Mapping[str, str]) -> Path | None:
    """The netrc in force: ``$NETRC``, else the home folder's; None without one."""
    named = environ.get("NETRC")
    candidates = [Path(named).expanduser()] if named else [home(environ) / ".netrc", home(environ) / "_netrc"]
    return next((found for found in candidates if is_file(found)), None)


def logins(environ: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Host -> login and password; empty without a netrc, and for one that cannot be read, which pip ignores, too."""
    found = path(environ)
    if found is None:
        return {}
    try:
        known = netrc.netrc(str(found)).hosts
    except (netrc.NetrcParseError, OSError, UnicodeDecodeError):
        return {}
    return {host: (login or "", password or "") for host, (login, _, password) in known.items()}
