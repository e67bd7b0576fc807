"""Certificate authorities that the host trusts and a fresh image does not know."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from pathlib import Path

from reprokit.core.errors import UsageError

MAX_BYTES = 500 * 1024
"""BuildKit's limit on one secret."""

_VARIABLES = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE")
_PEM = re.compile(rb"-----BEGIN (?P<kind>(?:TRUSTED |X509 )?CERTIFICATE)-----.+?-----END (?P=kind)-----", re.S)

ANCHORS = (
    Path("/usr/local/share/ca-certificates"),
    Path("/etc/pki/ca-trust/source/anchors"),
    Path("/etc/pki/trust/anchors"),
    Path("/etc/ca-certificates/trust-source/anchors"),
)
"""Where an administrator puts authorities of the site's own: Debian and Alpine, Red Hat, SUSE, Arch."""

_SYSTEM = (Path("/etc/ssl/certs/ca-certificates.crt"), Path("/etc/pki/tls/certs/ca-bundle.crt"))


def find_bundle(
    pip_cert: str, environ: Mapping[str, str], configured: Path | None = None, anchors: tuple[Path, ...] | None = None
) -> tuple[Path | None, str]:
    """The bundle in force: reprokit's setting, pip's ``cert``, the usual variables, else the system's own or None.

    And who named it: ``ca_bundle``, ``cert``, a variable, or a system's folder. The system's counts only if the
    administrator added authorities to it: newer pips use it by default, and a fresh image has the public ones.
    """
    if configured is not None:
        return configured, "ca_bundle"
    for origin, named in (("cert", pip_cert), *((name, environ.get(name, "")) for name in _VARIABLES)):
        if named and Path(named).expanduser().exists():
            return Path(named).expanduser(), origin
    for folder in ANCHORS if anchors is None else anchors:
        if folder.is_dir() and any(folder.iterdir()):
            return system_bundle(), str(folder)
    return None, ""


def system_bundle() -> Path | None:
    """The bundle of the operating system, where there is one."""
    default = ssl.get_default_verify_paths().cafile
    return next((path for path in (*_SYSTEM, Path(default or "/nonexistent")) if path.is_file()), None)


def read_bundle(path: Path) -> bytes:
    """The certificates of a bundle file or folder, without what is between them, private keys included.

    Raises UsageError when that is larger than a secret may be.
    """
    try:
        files = sorted(path.iterdir()) if path.is_dir() else [path]
        texts = [file.read_bytes() for file in files]
    except OSError as error:
        raise UsageError(f"the CA bundle {path} cannot be read: {error}") from error
    blocks = dict.fromkeys(match.group(0) for text in texts for match in _PEM.finditer(text))
    bundle = b"".join(block + b"\n" for block in blocks)
    if len(bundle) > MAX_BYTES:
        raise UsageError(
            f"the CA bundle {path} holds {len(bundle)} bytes of certificates; a build secret may have {MAX_BYTES}. "
            "Name a smaller one as ca_bundle in reprokit.toml: this site's own authorities are enough"
        )
    return bundle
