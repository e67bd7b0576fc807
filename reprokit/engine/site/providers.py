"""Where this site's builds have uv's interpreters and conda's packages from, as secrets: an image does not tell."""

from __future__ import annotations

import os
import re
import shlex
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from reprokit.core.errors import UsageError
from reprokit.engine.site import answers, authorities, network, pipconfig
from reprokit.engine.site.authorities import MAX_BYTES
from reprokit.engine.site.config import Settings

PUBLIC = {
    "uv": "https://github.com/astral-sh/python-build-standalone/releases",
    "conda": "https://conda.anaconda.org/conda-forge/noarch/repodata.json.zst",
}
"""An address below which each provider has its downloads, where the site names no other."""
ANSWER_SECONDS, REMEMBERED_SECONDS = 10.0, 60.0

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


def silent(provider: str, settings: Settings, environ: Mapping[str, str] | None = None) -> str:
    """Why the downloads of ``uv`` or ``conda`` do not answer this host, in words; '' where they do, or may."""
    environ = os.environ if environ is None else environ
    named = {"uv": settings.uv_python_mirror or settings.uv_python_downloads, "conda": settings.conda_channel}[provider]
    url = named or PUBLIC[provider]
    if not url.startswith(("http://", "https://")):
        return ""
    pip = pipconfig.read(environ)
    proxies = network.proxies(environ, configured=settings.proxy, pip_proxy=pip.get("proxy", ""))
    bundle, _ = authorities.find_bundle(pip.get("cert", ""), environ, settings.ca_bundle)
    return _silent(url, tuple(proxies.items()), str(bundle or ""), int(time.monotonic() // REMEMBERED_SECONDS))


@lru_cache(maxsize=16)
def _silent(url: str, proxies: tuple[tuple[str, str], ...], bundle: str, _moment: int) -> str:
    try:
        answers.get(url, proxies=dict(proxies), bundle=bundle, accept="*/*", seconds=ANSWER_SECONDS, read=False)
    except answers.NoConnection as error:
        return str(error)
    return ""


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
