"""Proxies and apt settings of the host."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
"""Variables that name proxies, with their lower-case forms."""

APT_FILES = (Path("/etc/apt/apt.conf"), Path("/etc/apt/apt.conf.d"))
_APT_PROXY = re.compile(r'^(?P<key>Acquire::(?:http|https|ftp)::Proxy(?:::[^\s"]+)?) "(?P<value>[^"]*)";$', re.M | re.I)


def proxies(environ: Mapping[str, str], *, configured: str = "", pip_proxy: str = "") -> dict[str, str]:
    """Proxy variables for builds, in both cases of letters.

    ``configured`` (reprokit's setting) wins, then pip's ``proxy``, then the environment.
    """
    found = {name: environ.get(name) or environ.get(name.lower(), "") for name in PROXIES}
    if chosen := configured or pip_proxy:
        chosen = chosen if "://" in chosen else f"http://{chosen}"  # pip takes host:port
        found["HTTP_PROXY"] = found["HTTPS_PROXY"] = chosen
    return {key: value for name, value in found.items() if value for key in (name, name.lower())}


def apt_proxies(roots: tuple[Path, ...] | None = None) -> dict[str, str]:
    """The proxies of the host's apt configuration: ``Acquire::http::Proxy`` and its kin; {} where there is no apt."""
    files = [
        file
        for root in (APT_FILES if roots is None else roots)
        for file in (sorted(root.iterdir()) if root.is_dir() else [root])
    ]
    texts = (file.read_text("utf-8", errors="replace") for file in files if file.is_file())
    # apt-config costs a process; most hosts have nothing to say.
    if not any("proxy" in text.lower() for text in texts) or not shutil.which("apt-config"):
        return {}
    dump = subprocess.run(
        ["apt-config", "dump", "--format", '%f "%v";%n', "Acquire"],
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    return parse_apt(dump.stdout)


def parse_apt(dump: str) -> dict[str, str]:
    """The proxy settings in the output of ``apt-config dump``. Pure."""
    return {match["key"]: match["value"] for match in _APT_PROXY.finditer(dump) if match["value"]}


def apt_conf(proxies: Mapping[str, str], *, ca_bundle: str = "", mirror: str = "") -> str:
    """An APT_CONFIG file; '' when there is nothing to say. ``ca_bundle``: path, in the build, of the authorities.

    ``mirror``: of Debian's archive; build steps read their package lists from there (``dockerfiles/site.sh``).
    """
    lines = [f'{key} "{value}";' for key, value in sorted(proxies.items())]
    if mirror:
        lines.append(f'Reprokit::AptMirror "{mirror}";')
    if ca_bundle:
        # Secrets are readable by root alone, while apt fetches as another user unless configured otherwise.
        lines += [f'Acquire::https::CAInfo "{ca_bundle}";', 'APT::Sandbox::User "root";']
    return "".join(line + "\n" for line in lines)
