"""How far a case is trusted, and what each level gets: the one table that every defence asks.

A case has its level from where it was read, and keeps it to the last mount of its builds and trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum


class Trust(str, Enum):
    """``own``: a file of this host's user. ``reviewed``: a stranger's text that the user read and agreed to, by its
    digest or at the terminal. ``stranger``: a stranger's text that runs unread.
    """

    OWN = "own"
    REVIEWED = "reviewed"
    STRANGER = "stranger"


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What cases of one level get. ``domain``: caches and images are shared within it only; '' is the user's own.

    ``credentials``: this site's credentials are used for what its builds fetch (no build ever sees them).
    ``open_network``: builds reach any address; otherwise only the site's indexes and archives and what the case names.
    """

    domain: str
    credentials: bool
    open_network: bool


ALLOWANCES: Mapping[Trust, Allowance] = {
    Trust.OWN: Allowance(domain="", credentials=True, open_network=True),
    Trust.REVIEWED: Allowance(domain="reviewed", credentials=True, open_network=True),
    Trust.STRANGER: Allowance(domain="stranger", credentials=False, open_network=False),
}
