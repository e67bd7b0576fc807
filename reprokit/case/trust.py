"""How far a case is trusted, from where it was read to the last mount of its trials, and what each level gets."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from reprokit.core.addresses import is_from_another_host
from reprokit.core.errors import UsageError

FROM = " from "  # between the id and the origin of another author's case


class Trust(str, Enum):
    """``own``: a file of this host's user. ``reviewed``: untrusted text that the user read and agreed to, by its
    digest or at the terminal. ``stranger``: untrusted text that runs unread.
    """

    OWN = "own"
    REVIEWED = "reviewed"
    STRANGER = "stranger"


@dataclass(frozen=True, kw_only=True)
class Allowance:
    """What cases of one level get. ``domain``: caches and images are shared within it only; '' is the user's own.

    ``credentials``: this site's credentials are used for what its builds fetch (no build ever sees them).
    ``open_network``: builds reach any address; otherwise only the site's indexes and archives and what the case names.
    ``asks``: they are shown and asked about before anything of theirs is fetched, built or run.
    ``any_source``: sources come over any transport, with the user's git configuration, credentials and SSH keys, and
    from folders of this host; otherwise over https alone and with none of these. ``configured_folders``: they get the
    data sets and sources that the configuration names; otherwise only those that the command line does.
    ``debug_files``: the site's servers of debug files are asked for the names of frames of their crashes.
    ``shares_images``: their images are fetched from the site's registry of images and pushed there, into a repository
    of their domain; otherwise only where the site says so.
    ``on_host``: they run without a container, as the user (``--engine venv``). ``trial_network``: their trials
    get a network where they ask for it; ``host_ipc``: the shared memory of the host. ``file_capabilities``: debuggers
    in their trials get from their files the capability that Yama asks for; otherwise no program there gets any
    privilege by being started.

    The most that they get, beside what the site grants; None = no less than the site grants. ``timeout`` of a trial,
    ``build_time`` of an image, and ``run_time`` of all trials of a run at their limits, in seconds; ``pids`` of a
    trial; ``fetch_size``, ``fetch_entries``: bytes and entries of a source; ``disk``: bytes that a trial writes;
    ``memory_share``: of the memory of the engine's machine.
    """

    domain: str
    credentials: bool
    open_network: bool
    asks: bool = False
    any_source: bool = True
    configured_folders: bool = True
    on_host: bool = True
    debug_files: bool = True
    shares_images: bool = True
    trial_network: bool = True
    host_ipc: bool = True
    file_capabilities: bool = True
    timeout: float | None = None
    build_time: float | None = None
    run_time: float | None = None
    fetch_size: int | None = None
    fetch_entries: int | None = None
    pids: int | None = None
    disk: int | None = None
    memory_share: float | None = None


ALLOWANCES: Mapping[Trust, Allowance] = {
    Trust.OWN: Allowance(domain="", credentials=True, open_network=True),
    Trust.REVIEWED: Allowance(domain="reviewed", credentials=True, open_network=True, on_host=False),
    Trust.STRANGER: Allowance(
        domain="stranger",
        credentials=False,
        open_network=False,
        asks=True,
        any_source=False,
        configured_folders=False,
        on_host=False,
        debug_files=False,
        shares_images=False,
        trial_network=False,
        host_ipc=False,
        file_capabilities=False,
        timeout=3600.0,
        build_time=3600.0,
        run_time=48 * 3600.0,
        fetch_size=1024**3,
        fetch_entries=100_000,
        pids=4096,
        disk=5 * 1024**3,
        memory_share=0.5,
    ),
}


def of_path(path: str) -> Trust:
    """The level of a case by where it was read, before anyone agreed to it.

    What came from another host's address is untrusted. A file of this host is its user's own, whoever owns the
    file: the user named it or its folder, and an owner says nothing about who wrote a text.
    """
    return Trust.STRANGER if is_from_another_host(path) else Trust.OWN


def case_key(case_id: str, path: str, digest: str, trust: Trust) -> str:
    """What names a case in a store: its id; of another author's, which may be any, with its address or digest."""
    if is_from_another_host(path):
        return f"{case_id}{FROM}{path}"
    return case_id if trust is Trust.OWN else f"{case_id}{FROM}{digest}"


def keys_named(text: str, known: Collection[str]) -> list[str]:
    """Of the keys of cases, those that a text names: a key, or the id or the origin of other authors' cases.

    Raises UsageError for the id of cases from several origins.
    """
    if text in known or not text:
        return [text] if text else []
    found = [key for key in known if text in key.split(FROM, 1)]
    origins = [key.partition(FROM)[2] for key in found if key.startswith(text + FROM)]
    if len(origins) > 1:
        raise UsageError(f"{text} is the id of cases from {', '.join(origins)}: name the address or digest of one")
    return found


def limited_by(setting: str, trust: Trust) -> str:
    """What decides the most that a case of that level gets, for messages: a setting of the site, or the level."""
    level = ", and less for an untrusted case: read it, and give --reviewed" if ALLOWANCES[trust].asks else ""
    return f"{setting} in the configuration{level}"


def recorded(level: Trust, *, believed: bool = True) -> Trust:
    """A level as a record has it; one that only a newer version knows, or no one believes, gets the least."""
    return level if believed and level in ALLOWANCES else Trust.STRANGER


def least(one: Trust, other: Trust) -> Trust:
    """The lower of two levels."""
    return max(one, other, key=list(Trust).index)
