"""Where this site's builds have uv's interpreters and conda's packages from, as secrets: an image does not tell."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from reprokit.core.errors import UsageError
from reprokit.engine.site.authorities import MAX_BYTES
from reprokit.engine.site.config import Settings

UV_DOWNLOADS = "/run/secrets/uv_downloads"
"""Where a listing of this host is mounted in builds."""


_SERVER = re.compile(r'"(https?://[^/"\\s]+)/')


def secrets(settings: Settings) -> dict[str, bytes]:
    """Secrets by id: ``uv_python`` (shell), ``uv_downloads`` (a listing of interpreters), ``conda_channel`` (a URL).

    Raises UsageError for a listing that cannot be read, or is larger than a secret may be.
    """
    found: dict[str, bytes] = {}
    variables: dict[str, str] = {}
    if settings.uv_python_mirror:
        variables["UV_PYTHON_INSTALL_MIRROR"] = settings.uv_python_mirror
    if listing := settings.uv_python_downloads:
        variables["UV_PYTHON_DOWNLOADS_JSON_URL"] = listing
        if "://" not in listing:
            variables["UV_PYTHON_DOWNLOADS_JSON_URL"] = UV_DOWNLOADS
            found["uv_downloads"] = _listing(Path(listing))
    if variables:
        text = "".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items())
        found["uv_python"] = text.encode()
    if settings.conda_channel:
        found["conda_channel"] = settings.conda_channel.encode()
    return found


def addresses(settings: Settings) -> list[str]:
    """The URLs that such a build reads; of a listing of this host, one of each server that it names."""
    places = (settings.uv_python_mirror, settings.uv_python_downloads, settings.conda_channel)
    found = [place for place in places if "://" in place]
    if settings.uv_python_downloads and "://" not in settings.uv_python_downloads:
        text = _listing(Path(settings.uv_python_downloads)).decode("utf-8", errors="replace")
        found += dict.fromkeys(_SERVER.findall(text))
    return found


def _listing(path: Path) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UsageError(f"uv_python_downloads: {path} cannot be read: {error.strerror}") from error
    if len(content) > MAX_BYTES:
        raise UsageError(
            f"uv_python_downloads: {path} has {len(content)} bytes; a build secret may have {MAX_BYTES}: "
            "leave out what this site does not serve, or name a URL"
        )
    return content
