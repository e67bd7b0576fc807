"""Root file systems made from a distribution's own packages, with mmdebstrap or debootstrap: no registry needed."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tarfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from reprokit.core.errors import Cancelled, EngineError, Unsupported
from reprokit.environment.catalog import Release
from reprokit.environment.tables import DATA

RECIPE = "1"
"""Version of how a base is made; a base of another recipe is made again."""

STOP_SECONDS = 20.0
KEYRINGS = Path("/usr/share/keyrings")
KEYRING_PACKAGES = {"debian": "debian-archive-keyring", "ubuntu": "ubuntu-keyring"}
KEYRING_FILES = {"debian": "debian-archive-keyring", "ubuntu": "ubuntu-archive-keyring"}
OWN_KEYRINGS = DATA
"""Ubuntu's keys, which Debian 11 and 12 have no package of: ubuntu-archive-keyring.gpg of Debian 13's package
ubuntu-keyring 2023.11.28.1-0.2 (public domain). The host's own keys come first: they may be newer."""
SCRIPTS = {"debian": "sid", "ubuntu": "gutsy"}
"""debootstrap's script for all of these releases. Under their own names it lacks those newer than itself."""

EXCLUDED = ("/usr/share/man/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*")
"""What dpkg leaves out, in the base and in all that is installed on it: as in Debian's slim images."""
INCLUDED = ("/usr/share/doc/*/copyright", "/usr/share/man/man[1-9]")
"""Some packages link to manual pages while they are installed, and fail without the empty folder."""
INCLUDED_TOO = {"ubuntu-18.04": ("/usr/share/man/man1/sh.*",)}
"""Its dash renames that page of bash's, and fails when it is not there."""
ONLY_DEBOOTSTRAP = ("ubuntu-16.04",)
"""mmdebstrap configures its packages in an order in which systemd's script fails (1.3.5, measured 2026-11)."""


@dataclass(frozen=True, kw_only=True)
class Archive:
    """Where packages come from: the main archive and the one for security updates."""

    main: str
    security: str


OFFICIAL = {
    "debian": Archive(main="http://deb.debian.org/debian", security="http://deb.debian.org/debian-security"),
    "ubuntu": Archive(main="http://archive.ubuntu.com/ubuntu", security="http://security.ubuntu.com/ubuntu"),
}

SNAPSHOTS = {
    "debian": "http://snapshot.debian.org/archive/debian/{date}/",
    "ubuntu": "https://snapshot.ubuntu.com/ubuntu/{date}/",
}


def sources_list(release: Release, archive: Archive) -> str:
    """The release's sources.list: the release itself, its updates and its security updates, all components."""
    components = " ".join(release.components)
    suites = [
        (archive.main, release.codename),
        (archive.main, f"{release.codename}-updates"),
        (archive.security, f"{release.codename}-security"),
    ]
    return "".join(f"deb {place} {suite} {components}\n" for place, suite in suites)


def archive_of(release: Release, mirror: str = "") -> Archive:
    """Where a release's packages come from; a mirror of Debian's archive has security updates at its sibling."""
    if not mirror or release.family != "debian":
        return OFFICIAL[release.family]
    main = mirror.rstrip("/")
    return Archive(main=main, security=f"{main}-security")


def snapshot_of(release: Release, date: str, template: str = "") -> Archive:
    """The release's archive as it was at ``date`` (RFC 3339, UTC): at the site's ``template``, or the distribution's.

    ``template`` (``https://mirror/debian/{date}/``) is of Debian's archive. Sources: https://snapshot.debian.org, whose
    packages are signed, so that plain HTTP serves images that have no certificates yet; https://snapshot.ubuntu.com.
    """
    day = re.sub(r"[-:]|\.\d+", "", date)
    if release.family == "ubuntu":
        main = SNAPSHOTS["ubuntu"].replace("{date}", day)
        return Archive(main=main, security=main)
    main = (template or SNAPSHOTS[release.family]).replace("{date}", day)
    return Archive(main=main, security=main.replace("/debian/", "/debian-security/"))


def packages_of(rootfs: Path) -> dict[str, str]:
    """The packages in a root file system archive, name -> version: what its dpkg has on record as installed."""
    with tarfile.open(rootfs) as archive:
        for member in archive:
            if member.name.removeprefix("./") == "var/lib/dpkg/status":
                stream = archive.extractfile(member)
                assert stream is not None
                return _installed(stream.read().decode("utf-8", "replace"))
    raise EngineError(f"{rootfs} holds no dpkg: it is not a root file system of Debian or Ubuntu")


def _installed(status: str) -> dict[str, str]:
    found = {}
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^(Package|Status|Version): (.*)$", paragraph, re.MULTILINE))
        if fields.get("Status", "").endswith(" installed"):
            found[fields["Package"]] = fields["Version"]
    return found


def make(
    release: Release,
    scratch: Path,
    cancel: threading.Event,
    on_line: Callable[[str], None],
    *,
    mirror: str = "",
    snapshot: Archive | None = None,
) -> Path:
    """Make the release's root file system below the empty folder ``scratch``; returns the tar archive.

    ``mirror`` (``http://mirror/debian``) serves Debian's packages instead of the official archive, which is what the
    image's own sources name all the same: a site's settings stay out of images. ``snapshot`` wins over both.
    The same packages give the same bytes, as long as the same tool of the two makes them.
    Raises Unsupported when no tool or no keyring for it is installed, EngineError with the tool's last lines when it
    fails, Cancelled.
    """
    archive = snapshot or archive_of(release, mirror)
    keyring = _keyring(release, scratch)
    target = scratch / "rootfs.tar"
    (scratch / "sources.list").write_text(sources_list(release, OFFICIAL[release.family]))
    if shutil.which("mmdebstrap") and release.name not in ONLY_DEBOOTSTRAP:
        # A snapshot's index says that it is out of date, which is what it is for.
        old = ['--aptopt=Acquire::Check-Valid-Until "false"'] if snapshot else []
        commands: Iterable[list[str]] = [_mmdebstrap(release, archive, keyring, scratch, target, old)]
    elif shutil.which("debootstrap"):
        if os.geteuid() != 0:
            instead = "" if release.name in ONLY_DEBOOTSTRAP else "install mmdebstrap, which does not, or "
            raise Unsupported(f"debootstrap needs root to make {release.name}: {instead}run as root")
        commands = _debootstrap(release, archive, keyring, scratch, target)
    else:
        raise Unsupported(
            f"no registry serves base images, and nothing here can make {release.name} from its packages: "
            f"install {'debootstrap' if release.name in ONLY_DEBOOTSTRAP else 'mmdebstrap or debootstrap'}"
        )
    # One time stamp for all files: the image then depends on the packages alone.
    environ = dict(os.environ, SOURCE_DATE_EPOCH=str(release.epoch), TMPDIR=str(scratch), LC_ALL="C.UTF-8")
    for command in commands:
        _execute(command, environ, cancel, on_line)
    return target


def _keyring(release: Release, scratch: Path) -> Path:
    stem = KEYRING_FILES[release.family]
    for name in (f"{stem}.gpg", f"{stem}.pgp"):
        if (KEYRINGS / name).is_file():
            return KEYRINGS / name
    if (OWN_KEYRINGS / f"{stem}.gpg").is_file():
        # Installed in a user's home, it would be out of reach for the user whom a tool runs as.
        return Path(shutil.copyfile(OWN_KEYRINGS / f"{stem}.gpg", scratch / f"{stem}.gpg"))
    raise Unsupported(
        f"the keys that sign {release.name} are not on this host ({KEYRINGS / stem}.gpg): "
        f"install the package {KEYRING_PACKAGES[release.family]}"
    )


def _mmdebstrap(
    release: Release, archive: Archive, keyring: Path, scratch: Path, target: Path, options: Sequence[str]
) -> list[str]:
    patterns = [f"--dpkgopt=path-exclude={pattern}" for pattern in EXCLUDED]
    included = (*INCLUDED, *INCLUDED_TOO.get(release.name, ()))
    patterns += [f"--dpkgopt=path-include={pattern}" for pattern in included]
    # Packages are read from "archive"; afterwards the image's own list names the official one.
    return [
        *_apart(),
        "mmdebstrap",
        *options,
        "--variant=minbase",
        "--include=apt",  # in Ubuntu it is not among the required packages
        "--format=tar",
        f"--keyring={keyring}",
        *patterns,
        f"--customize-hook=upload {scratch / 'sources.list'} /etc/apt/sources.list",
        '--customize-hook=rm -f "$1"/etc/resolv.conf "$1"/etc/hostname',
        release.codename,
        str(target),
        *sources_list(release, archive).splitlines(),
    ]


def _debootstrap(release: Release, archive: Archive, keyring: Path, scratch: Path, target: Path) -> Iterator[list[str]]:
    """The commands, one at a time: what is written between them needs what the one before has made."""
    root = scratch / "root"
    yield [
        *_apart(),
        "debootstrap",
        "--variant=minbase",
        f"--keyring={keyring}",
        release.codename,
        str(root),
        archive.main,
        SCRIPTS[release.family],
    ]
    (root / "etc/dpkg/dpkg.cfg.d").mkdir(parents=True, exist_ok=True)
    settings = [f"path-exclude={pattern}\n" for pattern in EXCLUDED] + [
        f"path-include={pattern}\n" for pattern in INCLUDED
    ]
    (root / "etc/dpkg/dpkg.cfg.d/reprokit").write_text("".join(settings))
    shutil.copyfile(scratch / "sources.list", root / "etc/apt/sources.list")
    leftovers = ["var/cache/apt", "var/lib/apt/lists", "var/log", "usr/share/man", "usr/share/info", "usr/share/locale"]
    yield ["find", *[str(root / folder) for folder in leftovers], "-type", "f", "-delete"]
    yield ["find", str(root / "usr/share/doc"), "-type", "f", "!", "-name", "copyright", "-delete"]
    for name in ("resolv.conf", "hostname"):
        (root / "etc" / name).unlink(missing_ok=True)
    stamp = ["--sort=name", f"--mtime=@{release.epoch}", "--clamp-mtime", "--numeric-owner"]
    yield ["tar", *stamp, "--one-file-system", "-C", str(root), "-cf", str(target), "."]


def _apart() -> list[str]:
    """What takes the mounts and processes of a tool with it, however the tool ends: namespaces, for root."""
    words = ["unshare", "--mount", "--pid", "--fork", "--kill-child"]
    if os.geteuid() != 0 or not shutil.which(words[0]):
        return []
    allowed = subprocess.run([*words, "true"], check=False, capture_output=True)
    return words if allowed.returncode == 0 else []


def _execute(
    command: Sequence[str], environment: dict[str, str], cancel: threading.Event, on_line: Callable[[str], None]
) -> None:
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    ended = threading.Event()
    watch = threading.Thread(target=_stop_when, args=(process, cancel, ended), daemon=True)
    watch.start()
    lines: list[str] = []
    try:
        assert process.stdout is not None
        for line in process.stdout:
            lines = [*lines[-19:], line.rstrip()]
            on_line(line)
        process.wait()
    finally:
        ended.set()
        _stop(process)
        watch.join()
    if cancel.is_set():
        raise Cancelled("stopped while a base image was made from packages")
    if process.returncode:
        tool = next((name for name in ("mmdebstrap", "debootstrap") if name in command), command[0])
        raise EngineError(
            f"{tool} could not make a base image (exit status {process.returncode}); its last lines:\n"
            + "\n".join(f"  {line}" for line in lines)
        )


def _stop_when(process: subprocess.Popen[str], cancel: threading.Event, ended: threading.Event) -> None:
    while not ended.wait(0.2):
        if cancel.is_set():
            _stop(process)
            return


def _stop(process: subprocess.Popen[str]) -> None:
    """End the tool and what it started; it gets time to take down its mounts."""
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, STOP_SECONDS)):
        if process.poll() is not None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
