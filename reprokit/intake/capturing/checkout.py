"""The git checkout in which a command ran, as a source of the case: its remote, its commit, and local changes."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

SECONDS = 30
MOST_PATCH = 256 * 1024
_SCP = re.compile(r"(?:[\w.-]+@)?(?P<host>github\.com|gitlab\.com|gitee\.com|bitbucket\.org):(?P<path>[\w./~-]+)")
_DIFF = ("diff", "HEAD", "--no-color", "--no-ext-diff", "--no-relative", "--src-prefix=a/", "--dst-prefix=b/")
_PUBLIC = re.compile(r"(?:https?|git)://\S+|ssh://\S+|[\w.-]+@[\w.-]+:\S+")


@dataclass(frozen=True, kw_only=True)
class Checkout:
    """A checkout at ``root``. ``url``: an address that others can fetch; ``folder``: where the command ran, below it.

    ``patch``: changes of tracked files, '' for none. ``tracked``: the files below ``folder`` that git tracks, relative
    to it. ``why_not``: why a case cannot use it as a source, '' if it can.
    """

    root: Path
    url: str = ""
    commit: str = ""
    folder: str = ""
    patch: str = ""
    tracked: frozenset[str] = frozenset()
    why_not: str = ""

    @property
    def name(self) -> str:
        """The name of the repository, as git would clone it."""
        return re.sub(r"[^\w.-]", "-", self.url.rstrip("/").rpartition("/")[2].rpartition(":")[2].removesuffix(".git"))


def find(folder: Path) -> Checkout | None:
    """The checkout that contains ``folder``; None where there is none, or no git."""
    top = _git(folder, "rev-parse", "--show-toplevel")
    if not top:
        return None
    root = Path(top.strip())
    commit = (_git(folder, "rev-parse", "--verify", "-q", "HEAD") or "").strip()
    if not commit:
        return Checkout(root=root, why_not="the checkout has no commit yet")
    remote, url = _remote(folder)
    if not url:
        return Checkout(root=root, why_not="the checkout has no remote that others can fetch from")
    if not (_git(folder, "branch", "-r", "--contains", commit, "--list", f"{remote}/*") or "").strip():
        return Checkout(
            root=root, why_not=f"the commit {commit[:12]} is on no branch of {remote}, as far as git knows; push it"
        )
    patch = _git(folder, *_DIFF) or ""
    if len(patch) > MOST_PATCH or "\nGIT binary patch\n" in patch or "\nBinary files " in patch:
        return Checkout(root=root, why_not="the changes since the commit are too large, or binary, for a patch")
    tracked = (_git(folder, "ls-files", "-z") or "").split("\0")
    where = str(folder.resolve().relative_to(root.resolve()))
    return Checkout(
        root=root,
        url=url,
        commit=commit,
        folder="" if where == "." else where,
        patch=patch,
        tracked=frozenset(filter(None, tracked)),
    )


def _remote(folder: Path) -> tuple[str, str]:
    """Name and address of the remote: that of the branch, else origin, else the first; '' where others cannot fetch."""
    names = (_git(folder, "remote") or "").split()
    upstream = (_git(folder, "rev-parse", "--abbrev-ref", "@{upstream}") or "").partition("/")[0]
    for name in [one for one in (upstream, "origin", *names[:1]) if one in names]:
        url = (_git(folder, "config", "--get", f"remote.{name}.url") or "").strip()
        if found := _SCP.fullmatch(url):  # others do not have this user's SSH key
            return name, f"https://{found['host']}/{found['path'].removesuffix('.git')}"
        if _PUBLIC.fullmatch(url):
            return name, url
    return "", ""


def _git(folder: Path, *words: str) -> str | None:
    """The output of a git command in ``folder``; None where it fails."""
    try:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
