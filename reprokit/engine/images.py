"""Images that the engine holds: found, pulled, imported."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import threading
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from reprokit.case.trust import ALLOWANCES, Trust
from reprokit.core import ownership
from reprokit.core.errors import Cancelled, EngineError, ImageGone, RecordError, Unsupported
from reprokit.engine import failure
from reprokit.engine.protocol import Engine, ImageInfo
from reprokit.engine.wire import ANSWER_WITHIN, Wire, cut_on, error_in, raise_for_status

OURS = re.compile(r"(docker\.io/)?reprokit/")
"""How the names of our images begin; Podman writes the registry too."""

SILENCE = 600.0
"""Seconds without a word after which an exchange with a registry is given up; Podman is silent for a whole layer."""

_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_ANONYMOUS = b"e30="  # {}: a push without the header is refused


class Images:
    """The images of the engine at the end of ``wire``, as :class:`reprokit.engine.protocol.Engine` has them."""

    is_podman = False

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def image(self, tag: str) -> ImageInfo | None:
        """The image of that tag or id, or None."""
        return find(self.wire, tag)

    def pull(self, reference: str, trust: Trust, cancel: threading.Event) -> ImageInfo | None:
        """Pull an image; None when the registry has none of that name. Raises Cancelled, Unsupported, EngineError."""
        name, tag = split(reference)
        url, params = self.wire.url("/images/create"), {"fromImage": name, "tag": tag}
        if self.is_podman and on_loopback(name):
            # Docker speaks plain HTTP with a registry on its own loopback. Podman does where it is configured to.
            url, params = self.wire.podman_url("/images/pull"), {"reference": reference, "tlsVerify": "false"}
        if not ALLOWANCES[trust].credentials:
            self._check_anonymous(name)
        login = _login(self.wire, name, trust)
        error, _ = _exchanged(self.wire, url, params, login, cancel)
        if not error:
            return find(self.wire, reference)
        if failure.is_missing_image(error) or (failure.needs_login(error) and not ALLOWANCES[trust].credentials):
            return None
        raise failure.of_pull(error, reference)

    def _check_anonymous(self, name: str) -> None:
        """Raise Unsupported where Podman would ask the registry of an image's name with a login of its own."""
        if self.is_podman:
            # Its service adds what its own user's files have, whatever it is sent (containers/image 5.23).
            host = on_docker_hub(name).partition("/")[0]
            with contextlib.suppress(OSError):
                asked = ["podman", "login", "--get-login", host]
                if not subprocess.run(asked, capture_output=True, check=False).returncode:
                    raise Unsupported(
                        f"{name}: Podman would use your login of {host}, which an untrusted case does not get: "
                        f"read the case and give --reviewed, or 'podman logout {host}'"
                    )

    def push(self, reference: str, cancel: threading.Event) -> str:
        """Push an image to the registry of its name; its digest there. Raises Cancelled, EngineError."""
        name, tag = split(reference)
        params = {"tag": tag, **({"tlsVerify": "false"} if on_loopback(name) else {})}  # Podman's, as in :func:`pull`
        login = _login(self.wire, name, Trust.OWN)
        error, lines = _exchanged(self.wire, self.wire.url(f"/images/{name}/push"), params, login, cancel)
        if error:
            raise failure.of_push(error, reference)
        return next((found[0] for line in reversed(lines) if (found := _DIGEST.search(line))), "")

    def tag(self, image: str, name: str) -> ImageInfo:
        """Give an image another name. Raises EngineError."""
        repository, version = split(name)
        with self.wire.errors():
            self.wire.client().tag(image, repository, version)
        found = self.image(name)
        if found is None:
            raise EngineError(f"the engine took the name {name} for {image}, and then had no such image")
        return found

    def remove_image(self, tag: str) -> None:
        """Take a name from an image, and the image away if that was its last. Raises EngineError when it is in use."""
        if not self.is_podman or self.image(tag) is not None:  # Podman 4.3 answers with an error where there is none
            remove(self.wire, tag)

    def save(self, image: str, target: Path, cancel: threading.Event) -> None:
        """Write an image to a file, as ``docker save`` does. Raises ImageGone, Cancelled, EngineError."""
        if self.image(image) is None:
            raise ImageGone(f"the engine has the image {image} no more")
        with target.open("wb", buffering=1024**2) as writer, self.wire.errors():
            for part in self.wire.client().get_image(image):
                if cancel.is_set():
                    raise Cancelled(f"cancelled while {image} was saved")
                try:
                    writer.write(part)
                except OSError as error:
                    raise RecordError(f"{target} cannot be written: {error.strerror}") from error

    def load(self, archive: Path, tag: str) -> ImageInfo:
        """Take the one image of an archive, which has that name. Raises EngineError."""
        return _imported(self.wire, self.wire.url("/images/load"), {"quiet": "true"}, archive, tag)

    def import_rootfs(self, tar: Path, tag: str, labels: Mapping[str, str]) -> ImageInfo:
        """Make an image of one layer from a root file system archive (plain, gzip, bzip2, xz), streamed from disk."""
        if self.is_podman:
            # Over its own API: the Docker-compatible one drops the tag (podman issue 18597). Without a registry's name
            # Podman would put its own before it. Labels are taken unchanged, except for quotes around the whole.
            changes = [f"LABEL {key}={value}" for key, value in sorted(labels.items())]
            named = {"reference": on_docker_hub(tag), "changes": changes}
            return _imported(self.wire, self.wire.podman_url("/images/import"), named, tar, tag)
        name, version = split(tag)
        changes = [f"LABEL {_quoted(key)}={_quoted(value)}" for key, value in sorted(labels.items())]
        query = {"fromSrc": "-", "repo": name, "tag": version, "changes": changes}
        return _imported(self.wire, self.wire.url("/images/create"), query, tar, tag)


def find_built(engine: Engine, tag: str) -> ImageInfo | None:
    """The image that was built under that name; None where there is none, or where the name is another image's now."""
    found = engine.image(tag)
    return found if found is not None and ownership.carries_name(found.labels, tag) else None


def moved_name(engine: Engine, below: Iterable[ImageInfo], built: str) -> str:
    """In words, which name of an image that ``built`` was just built on is another image's now; '' for none.

    It was built on either of them, so that it is removed.
    """
    for image in below:
        now = engine.image(image.tag)
        if now is not None and now.id != image.id:
            engine.remove_image(built)
            return f"another process gave the name {image.tag} to another image while {built} was built on it"
    return ""


def find(wire: Wire, tag: str) -> ImageInfo | None:
    """The image of that tag or id, or None."""
    import docker.errors

    client = wire.client()
    with wire.errors():
        try:
            found = client.inspect_image(tag)
            if wire.details().containerd is not None:
                # Inspected, it says what its layers take compressed; listed, what `docker images` shows.
                listed = client.images(filters={"reference": tag})
                found["Size"] = max(
                    [found.get("Size") or 0, *(one["Size"] for one in listed if one["Id"] == found["Id"])]
                )
        except docker.errors.NotFound:
            return None
    return _described(tag, found)


def _described(tag: str, found: Mapping[str, Any]) -> ImageInfo:
    # Podman, and Docker with containerd's image store, name one for what was made here too: no registry has that.
    digests = [one for one in found.get("RepoDigests") or [] if not OURS.match(one)]
    # One image may have come from several registries; the digest is the one of the name that was asked for.
    digests.sort(key=lambda digest: not digest.startswith(f"{split(tag)[0]}@"))
    return ImageInfo(
        tag=tag,
        id=found["Id"],
        size=int(found.get("Size") or 0),
        digest=digests[0].partition("@")[2] if digests else "",
        labels=(found.get("Config") or {}).get("Labels") or {},
        created=str(found.get("Created") or ""),
    )


def on_loopback(name: str) -> bool:
    """Whether the registry of an image's name is on the engine's own loopback."""
    host = name.partition("/")[0].rpartition(":")[0] or name.partition("/")[0]
    return re.fullmatch(r"localhost|\[::1\]|127(\.\d+){3}", host) is not None


def _exchanged(
    wire: Wire, url: str, params: Mapping[str, str], login: bytes, cancel: threading.Event
) -> tuple[str, list[str]]:
    """Have the engine exchange an image with its registry: the error, '' for none, and the last lines of its words."""
    lines: deque[str] = deque(maxlen=5)
    with wire.errors():
        headers = {"X-Registry-Auth": login}
        response = wire.client().post(url, params=params, headers=headers, stream=True, timeout=ANSWER_WITHIN)
    error = ""
    try:
        with wire.errors(), cut_on(response, cancel, silence=SILENCE) as heard:
            if response.status_code >= 400:
                error = _words(response.content)
            else:
                for line in response.iter_lines(chunk_size=None):
                    if cancel.is_set():
                        break
                    heard()
                    lines.append(line.decode("utf-8", errors="replace"))
                    error = error or _error_of(line)
    except EngineError:
        if not cancel.is_set():
            raise
    finally:
        response.close()
    if cancel.is_set():
        raise Cancelled("cancelled while an image was exchanged with its registry")
    return error, list(lines)


def _login(wire: Wire, name: str, trust: Trust) -> bytes:
    """The header with the login for the registry of an image's name. Raises EngineError."""
    from docker.auth import encode_header, resolve_repository_name

    from reprokit.engine.credential_helpers import registry_login

    with wire.errors():
        registry, _ = resolve_repository_name(name)
    found = registry_login(registry, trust)
    return bytes(encode_header(found)) if found else _ANONYMOUS


def remove(wire: Wire, tag: str) -> None:
    """Take a name from an image, and the image away if that was its last. Raises EngineError when it is in use."""
    import docker.errors

    with wire.errors(), contextlib.suppress(docker.errors.ImageNotFound):
        wire.client().remove_image(tag)


def split(reference: str) -> tuple[str, str]:
    """A reference's name and its tag or digest ("latest" when it names neither), as the pull API takes them."""
    if "@" in reference:
        name, _, digest = reference.partition("@")
        return name, digest
    name, colon, tag = reference.rpartition(":")
    if not colon or "/" in tag:
        return reference, "latest"
    return name, tag


def _error_of(line: bytes) -> str:
    """The error of one line of an engine's answer, '' for none."""
    try:
        return error_in(json.loads(line)) if line else ""
    except ValueError:
        return f"an answer that is not JSON: {line[:200]!r}"


def _words(body: bytes) -> str:
    try:
        return str(json.loads(body)["message"])
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", errors="replace")


def _quoted(text: str) -> str:
    """A word of a Dockerfile instruction in double quotes, where backslash, quote and dollar have a meaning."""
    return '"' + re.sub(r'(["\\$])', r"\\\1", text) + '"'


def on_docker_hub(reference: str) -> str:
    """A reference as Podman keeps it for Docker's clients: with the registry that they take for granted."""
    first, slash, _ = reference.partition("/")
    if not slash:
        return f"docker.io/library/{reference}"
    return reference if "." in first or ":" in first or first == "localhost" else f"docker.io/{reference}"


def _imported(wire: Wire, url: str, query: Mapping[str, Any], tar: Path, tag: str) -> ImageInfo:
    client = wire.client()
    with wire.errors(), tar.open("rb") as reader:
        response = client.post(
            url,
            params=query,
            data=reader,
            headers={"Content-Type": "application/x-tar"},
            # The engine unpacks everything before it answers.
            timeout=(ANSWER_WITHIN, None),
        )
        raise_for_status(response)
        for line in response.iter_lines():
            if error := _error_of(line):
                raise failure.of_engine(error)
    image = find(wire, tag)
    if image is None:
        raise EngineError(f"the engine took the archive {tar}, yet has no image {tag}")
    return image
