"""Base images: pulled from a registry, or made once from the distribution's own packages and kept in the engine."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn

from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core import addresses, cache, http_client, json_text
from reprokit.core.errors import Unsupported, UsageError
from reprokit.core.ownership import IMAGE, locked, private_folder
from reprokit.engine.protocol import Engine, ImageInfo, Progress
from reprokit.engine.sharing import ImageShare, SharedImage
from reprokit.engine.site.gateway.access import parsed_host
from reprokit.environment.catalog import Catalog
from reprokit.environment.model import BASE_PREFIX

if TYPE_CHECKING:
    from reprokit.environment.model import Base
    from reprokit.store.folder import SeenBases

REGISTRY = "registry-1.docker.io"
ANSWER_SECONDS, NAMED_ANSWER_SECONDS = 2.0, 10.0
MAX_ANSWER = 1_000_000
"""Bytes of a registry's answer to "are you there" that are read at most."""
REMEMBERED_SECONDS = 600.0
UNAVAILABLE = "base-unavailable"
"""What the reason begins with where a registry's image is not available."""
NO_TAG = f"{UNAVAILABLE}: the registry has no image"
"""What it begins with where the registry answers, and has no such tag."""
LABEL_RECIPE = "org.reprokit.base.recipe"
LABEL_RELEASE = "org.reprokit.base.release"


def ensure(
    engine: Engine,
    base: Base,
    trust: Trust,
    cancel: threading.Event,
    on_progress: Callable[[Progress], None],
    *,
    seen: SeenBases | None = None,
    since: float = 0.0,
) -> ImageInfo:
    """The base image, pulled or made when the engine does not have it yet; its ``tag`` is what FROM has to name.

    ``trust``: in the case that starts from it: an image that an untrusted one names is what its registry gives anyone.
    ``seen``: a registry's image stays the one that was seen first; what was seen before ``since`` (seconds since 1970)
    is looked up again. Raises Unsupported when there is no such image or no means to make it, EngineError, Cancelled;
    where it is a registry's image, UNAVAILABLE begins the reason. Two processes that need the same base make it
    once.
    """
    if base.source == "bootstrap":
        return bootstrapped(engine, base, cancel, on_progress)
    if base.source == "image" and not ALLOWANCES[trust].credentials:
        return _public(engine, base, trust, cancel, on_progress)
    reference = base.reference
    pulled = partial(_pulled, engine, trust=trust, cancel=cancel, on_progress=on_progress)
    if "@" in reference:
        plain, _, digest = reference.partition("@")
        return _as_seen(engine, replace(base, reference=plain), digest, partial(pulled, plain))
    if seen is None:
        return engine.image(reference) or pulled(reference) or _missing(base)
    lock = hashlib.sha256(reference.encode()).hexdigest()[:16]
    with locked(cache.folder("locks") / f"pull-{lock}.lock", cancel, "base image"):
        if digest := seen.digest(reference, since):
            return _as_seen(engine, base, digest, partial(pulled, reference))
        before = seen.digest(reference)
        found = engine.image(reference)
        if since and not (found and not found.digest and base.source == "image"):
            found = None
        found = found or pulled(reference) or _missing(base)
        if not found.digest:  # it is not a registry's, but was built or imported here
            return found
        if before and before != found.digest:
            on_progress(Progress(number=1, total=1, name=f"{reference} is {found.digest} now, and was {before}"))
        seen.keep(reference, found.digest)
        return replace(engine.tag(found.id, own_name(found.digest)), digest=found.digest)


def standing(engine: Engine, base: Base, seen: SeenBases) -> ImageInfo | None:
    """The base image if the engine has it, as :func:`ensure` would find it; nothing is made or pulled."""
    digest = seen.digest(base.reference) if base.source in {"registry", "image"} else ""
    found = engine.image(own_name(digest) if digest else base.reference)
    if found is None or not digest:
        return found
    return replace(found, digest=digest) if _may_be(found, digest) else None


def _may_be(image: ImageInfo, digest: str) -> bool:
    """Whether an image under our name for a registry's may be that one: its digest is lost with the registry's name."""
    return image.digest in {"", digest} and not {IMAGE, LABEL_RECIPE} & image.labels.keys()


def labels_of_base(release: str) -> dict[str, str]:
    """The labels of the base image that today's recipe makes of a release."""
    from reprokit.engine import bootstrap

    return {LABEL_RELEASE: release, LABEL_RECIPE: bootstrap.RECIPE}


def find_made(engine: Engine, reference: str, release: str) -> ImageInfo | None:
    """The base image under that name that was made of the release, and not one tagged over it, or built on a base."""
    found = engine.image(reference)
    if found is None or IMAGE in found.labels or not labels_of_base(release).items() <= found.labels.items():
        return None
    return found


def own_name(digest: str) -> str:
    """The name that we give to a registry's image of that digest: it stays when the registry's tag moves."""
    return BASE_PREFIX + digest.replace(":", "-")[:48]


def _public(
    engine: Engine, base: Base, trust: Trust, cancel: threading.Event, on_progress: Callable[[Progress], None]
) -> ImageInfo:
    """The image as its registry gives it to anyone. What the engine has of it may be the user's, or of their login."""
    here = engine.image(base.reference)
    plain, _, digest = base.reference.partition("@")
    digest = here.digest if here else digest
    found = None
    if places(plain, "no.example") == (plain,):  # it names its registry
        _check_registry(base.reference)
    if digest or not here:  # what is of this engine alone keeps its name
        found = _pulled(engine, plain, digest, trust=trust, cancel=cancel, on_progress=on_progress)
    if found is None:
        raise Unsupported(
            f"{UNAVAILABLE}: environment.image {base.reference}: an untrusted case gets what a registry gives without "
            "a login, and it has no such image: read the case, and give --reviewed"
        )
    return replace(engine.tag(found.id, own_name(found.digest)), digest=found.digest) if found.digest else found


def _check_registry(reference: str) -> None:
    """Raise Unsupported where an untrusted case names a registry of this host or its networks that the site does not.

    The engine, which connects, looks the name up again.
    """
    from reprokit.engine import site

    own = site.settings()
    named = {parsed_host(one) for one in (*own.build_hosts, own.registry.rpartition("://")[2].partition("/")[0])}
    host, port = parsed_host(reference.partition("/")[0])
    if (host, port) in named or (host, None) in named:
        return
    with suppress(OSError):  # the engine says so, or has another way to it
        try:
            addresses.permitted(host, port or 443, addresses.networks(host, port or 443))
        except addresses.NotPublic as error:
            raise Unsupported(
                f"{UNAVAILABLE}: environment.image {reference}: {error}, and the case is untrusted: read it, and give "
                "--reviewed, or name the registry in build_hosts"
            ) from None


def _as_seen(engine: Engine, base: Base, digest: str, pulled: Callable[[str], ImageInfo | None]) -> ImageInfo:
    """The image of that digest, whatever the tag means by now."""
    found = engine.image(own_name(digest))
    if found is not None and _may_be(found, digest):
        return replace(found, digest=digest)
    found = engine.image(base.reference)
    if found is None or found.digest != digest:
        found = pulled(digest)
    if found is None:
        raise Unsupported(
            f"{UNAVAILABLE}: the registry no longer has the image that {base.reference} was ({digest}); "
            "--refresh-bases takes what the tag means now"
        )
    return replace(engine.tag(found.id, own_name(digest)), digest=digest)


def _missing(base: Base) -> NoReturn:
    if base.source == "image":
        raise Unsupported(
            f"{UNAVAILABLE}: environment.image {base.reference}: neither this engine nor its registry has such an image"
        )
    raise Unsupported(f"{NO_TAG} {base.reference} (old tags get deleted)")


def detect_source(setting: str) -> str:
    """``registry`` or ``bootstrap``; ``auto`` asks whether a registry answers, remembered for 10 min.

    One that the site names is waited for longer: it is expected to answer, be it or this host ever so busy.
    """
    if setting in {"registry", "bootstrap"}:
        return setting
    if setting != "auto":
        raise UsageError(f"base source {setting!r}: expected auto, registry or bootstrap")
    host = _site_setting("registry") or REGISTRY
    memory = cache.folder("registry") / "answers.json"
    with suppress(OSError, ValueError, KeyError, TypeError):
        known = json_text.loads(memory.read_text())
        if known["host"] == host and 0 <= time.time() - known["at"] < REMEMBERED_SECONDS:
            return "registry" if known["answers"] else "bootstrap"
    answers = answering(host, NAMED_ANSWER_SECONDS if _site_setting("registry") else ANSWER_SECONDS)
    with suppress(OSError):
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(json.dumps({"host": host, "answers": answers, "at": time.time()}))
    return "registry" if answers else "bootstrap"


def answering(host: str, seconds: float = ANSWER_SECONDS) -> bool:
    """Whether a registry speaks at ``host`` (``[scheme://]name[:port]``); 401 is an answer, a gateway's 5xx not."""
    scheme, _, rest = host.rpartition("://")
    name = rest.partition("/")[0]
    # The engine, too, speaks plain HTTP with a registry on its own loopback.
    local = name.partition(":")[0] == "localhost" or name.startswith("127.")
    address = f"{scheme or ('http' if local else 'https')}://{name}/v2/"
    outcome: list[bool] = []

    def ask() -> None:
        try:
            answer = http_client.send("GET", address, headers={}, max_bytes=MAX_ANSWER, silence=seconds)
            outcome.append(answer.ok or answer.status == 401)
        except http_client.NoAnswer:
            outcome.append(False)

    # The time limit of a socket does not cover looking up its name, hence a thread.
    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    return bool(outcome and outcome[0])


def bootstrapped(
    engine: Engine,
    base: Base,
    cancel: threading.Event,
    on_progress: Callable[[Progress], None],
    share: ImageShare | None = None,
) -> ImageInfo:
    """The base image that is made of the distribution's packages; see :func:`ensure`.

    ``share``: it may come from another machine through it, and goes to the others.
    """
    from reprokit.engine import bootstrap, site

    release = Catalog(site.settings().compatibility).releases()[base.name]
    labels = labels_of_base(release.name)
    shared = SharedImage(
        tag=base.reference, repository="base", version=f"{release.name}-{bootstrap.RECIPE}", labels=labels
    )
    # A base that was made here before is another one than that of other machines, and so is every image on it.
    news = share is not None and not share.exchanged(shared)
    if (found := find_made(engine, base.reference, release.name)) is not None and not news:
        return found
    name = f"make {release.name} from its packages"
    with locked(cache.folder("locks") / f"base-{release.name}.lock", cancel, "base image"):
        # Another process may have made it while we waited.
        found = find_made(engine, base.reference, release.name)
        if share and (found is None or news):
            on_progress(Progress(number=0, total=0, name="look for the base image on other machines"))
            fetched = share.fetch(shared, cancel)
            if fetched is None and found is not None:
                share.push(shared, cancel)
            found = fetched or found
        if found is not None:
            return found
        on_progress(Progress(number=1, total=2, name=name))
        with private_folder("base") as scratch:
            # A user namespace's root has to be able to enter.
            scratch.chmod(0o755)
            rootfs = bootstrap.make(
                release,
                scratch,
                cancel,
                lambda line: on_progress(Progress(number=1, total=2, name=name, log=line)),
                mirror=_site_setting("apt_mirror"),
            )
            on_progress(Progress(number=2, total=2, name=f"import {base.reference}"))
            made = engine.import_rootfs(rootfs, base.reference, labels)
        if share:
            share.push(shared, cancel)
        return made


def _pulled(
    engine: Engine,
    reference: str,
    digest: str = "",
    *,
    trust: Trust,
    cancel: threading.Event,
    on_progress: Callable[[Progress], None],
) -> ImageInfo | None:
    """The image from the site's registry: what the tag means now, or the one with that ``digest``."""
    for place in places(reference, _site_setting("registry")):
        wanted = f"{_without_tag(place)}@{digest}" if digest else place
        on_progress(Progress(number=1, total=1, name=f"pull {wanted}"))
        known = engine.image(wanted) if digest and ALLOWANCES[trust].credentials else None
        if (found := known or engine.pull(wanted, trust, cancel)) is not None:
            return found
    return None


def _without_tag(reference: str) -> str:
    name, colon, tag = reference.rpartition(":")
    return name if colon and "/" not in tag else reference


def places(reference: str, registry: str) -> tuple[str, ...]:
    """Where to look for an image when ``registry`` (host, maybe with a path) stands in for Docker Hub; best first."""
    first, slash, _ = reference.partition("/")
    names_host = bool(slash) and ("." in first or ":" in first or first == "localhost")
    if not registry or names_host:
        return (reference,)
    prefix = registry.rpartition("://")[2].rstrip("/")
    # A mirror of Docker Hub has its official images below library/.
    return (f"{prefix}/{reference}",) if slash else (f"{prefix}/{reference}", f"{prefix}/library/{reference}")


def _site_setting(name: str) -> str:
    """A setting of the site (``registry``, ``apt_mirror``), '' when it has none."""
    from reprokit.engine import site

    return str(getattr(site.settings(), name))
