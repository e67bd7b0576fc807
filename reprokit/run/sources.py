"""Source trees, fetched by the host: git at a pinned commit, kept in a cache, exported for the build context.

Images need neither git nor a network for them. A directory can stand in for a source (``--source NAME=DIR``).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from reprokit.case.cellspec import CellSpec, SourceSpec
from reprokit.case.trust import ALLOWANCES, Trust, limited_by
from reprokit.core import cache
from reprokit.core.errors import UsageError
from reprokit.core.ownership import locked
from reprokit.core.text import whole_number
from reprokit.engine import site
from reprokit.environment.model import SourceTree
from reprokit.run.uses import Uses

COMMIT = re.compile(r"[0-9a-f]{40}")
MOST_DEPTH = 200
"""Folders within each other in a tree."""
MOST_PATCHED = 384 * 2**20
"""Bytes of memory in which git applies a patch: it holds what it makes of all files until it writes them."""
_GIT_MEMORY = 4 * 2**30
"""Of a git that fetches for an untrusted case."""
_PER_ENTRY = 4096
"""Bytes that an entry takes in git's archive beside its content."""

_USED = Uses()
"""What this process fetched: builds read it until the process ends."""


class SourceError(UsageError):
    """A source cannot be fetched, or its patch does not apply; the text says which, why and what to do."""


@dataclass(frozen=True, kw_only=True)
class FetchLimits:
    """The most of one source of a case that is trusted so far: ``size`` in bytes, ``entries``, ``seconds`` of git."""

    trust: Trust = Trust.OWN
    size: int
    entries: int
    seconds: float

    @classmethod
    def of(cls, trust: Trust) -> FetchLimits:
        """As the site and the level say."""
        settings, level = site.settings(), ALLOWANCES[trust]
        return cls(
            trust=trust,
            size=min(settings.max_fetch_size, level.fetch_size or settings.max_fetch_size),
            entries=min(settings.max_fetch_entries, level.fetch_entries or settings.max_fetch_entries),
            seconds=settings.max_fetch_time,
        )

    def why(self, setting: str) -> str:
        """Why a source is refused that is beyond one of the settings ``max_fetch_...``."""
        most = {
            "size": f"{self.size} bytes",
            "entries": f"{self.entries} entries",
            "time": f"{self.seconds:g} s of git",
        }
        return f"it takes more than {most[setting]} ({limited_by(f'max_fetch_{setting}', self.trust)})"

    def command(self, *words: str, memory: int = 0) -> list[str]:
        """The command, which writes no larger file and takes no more than so much ``memory``; 0 for any."""
        # By the shell: it can be set for a child of a process with threads, and holds for the child's own children.
        set_most = 'ulimit -f "$1" 2>/dev/null; [ "$2" = 0 ] || ulimit -v "$2" 2>/dev/null; shift 2; exec "$@"'
        return ["sh", "-c", set_most, "sh", str(self.size // 512 + 1), str(memory // 1024), *words]


def fetch(
    name: str,
    spec: SourceSpec,
    trust: Trust = Trust.OWN,
    *,
    stand_in: Path | None = None,
    kept: Path | None = None,
) -> SourceTree:
    """The tree of ``spec`` at its commit, patched, from the cache if it is there.

    ``trust``: in the case that names it, which decides over what transports and with whose credentials git fetches,
    and with whom it shares what is kept.
    ``stand_in``: a folder used instead of ``spec.git``. A bare repository serves ``spec.ref``; a checkout or plain
    folder is taken as it stands, uncommitted changes included. Raises SourceError.
    """
    kept = _shared(kept or cache.folder("sources"), trust)
    note = ""
    if stand_in is None:
        with _Git.of(name, spec, trust) as git:
            repository, commit = _fetch_commit(name, spec, git, kept)
        tree_key = commit
    else:
        repository = stand_in.expanduser().resolve()
        if not repository.is_dir():
            raise SourceError(f"--source {name}={stand_in}: no such folder")
        commit, tree_key, note = _stand_in_commit(name, spec, repository)
    patch_key = hashlib.sha256(spec.patch.encode()).hexdigest() if spec.patch else ""
    if tree_key:
        digest = _digest(tree_key, patch_key)
        archive = kept / "trees" / digest.removeprefix("sha256:")
        _USED.begin(str(archive))
        with locked(kept / "trees.lock"):
            if not archive.is_dir():
                _export(name, repository, tree_key, spec.patch, archive, FetchLimits.of(trust))
    else:
        digest, archive = _copy_as_it_stands(name, repository, patch_key, spec.patch, kept)
    return SourceTree(name=name, commit=commit, digest=digest, archive=archive, path=spec.path, note=note)


def history(
    name: str,
    spec: SourceSpec,
    trust: Trust = Trust.OWN,
    *,
    stand_in: Path | None = None,
    kept: Path | None = None,
) -> Path:
    """A bare repository with all branches and tags of a source and their whole history, brought up to date.

    ``trust``: as :func:`fetch` takes it. ``stand_in``: a repository used instead of ``spec.git``: a bare one is taken
    as it is, of a checkout what it has committed. Raises SourceError.
    """
    origin, opened = spec.git, _Git.of(name, spec, trust) if stand_in is None else nullcontext(_Git())
    if stand_in is not None:
        folder = stand_in.expanduser().resolve()
        bare = git_says(folder, "rev-parse", "--is-bare-repository")
        if bare is None:
            raise SourceError(f"--source {name}={stand_in}: commits are asked for, and this is not a git repository")
        if git_says(folder, "rev-parse", "--is-shallow-repository") == "true":
            raise SourceError(
                f"--source {name}={stand_in}: this repository is shallow: run git fetch --unshallow in it"
            )
        if bare == "true":
            return folder
        origin = str(folder)
    kept = _shared(kept or cache.folder("sources"), trust)
    # Apart from what single commits are fetched into: a fetch with a depth cuts off history that is there.
    with opened as git, git.kept(name, kept, origin, "-history.git") as repository:
        refs = ["+refs/heads/*:refs/heads/*", "+refs/remotes/*:refs/remotes/*"]
        if wrong := git.attempt(repository, "fetch", "--quiet", "--tags", "--force", "--prune", "--", origin, *refs):
            raise SourceError(
                f"source {name!r}: git cannot fetch the history of {origin}: {wrong}\n"
                f"  give a repository that stands in for it: --source {name}=DIR"
            )
    return repository


def git_says(repository: Path, *arguments: str, strip: bool = True) -> str | None:
    """What git prints about a repository; None when it fails, or there is no git. ``strip``: without space around."""
    try:
        done = subprocess.run(
            ["git", "-C", str(repository), *arguments], env=_environment(), capture_output=True, check=False
        )
    except FileNotFoundError:
        return None
    if done.returncode:
        return None
    text = os.fsdecode(done.stdout)
    return text.strip() if strip else text


def _fetch_commit(name: str, spec: SourceSpec, git: _Git, kept: Path) -> tuple[Path, str]:
    with git.kept(name, kept, spec.git, ".git") as repository:
        if COMMIT.fullmatch(spec.ref) and _resolve(repository, spec.ref):
            return repository, spec.ref
        # One commit is enough; a server that refuses to serve a bare commit gets a full fetch.
        fetched = git.attempt(repository, "fetch", "--quiet", "--depth", "1", "--", spec.git, spec.ref)
        if fetched is None:
            commit = _resolve(repository, "FETCH_HEAD")
        else:
            heads = "+refs/heads/*:refs/heads/*"
            full = git.attempt(repository, "fetch", "--quiet", "--tags", "--force", "--", spec.git, heads)
            commit = _resolve(repository, spec.ref) if full is None else ""
            if full is not None:
                raise SourceError(
                    f"source {name!r}: git cannot fetch {spec.ref} from {spec.git}: {full}\n"
                    f"  give a folder that stands in for it: --source {name}=DIR"
                )
    if not commit:
        raise SourceError(f"source {name!r}: {spec.git} has no commit, tag or branch {spec.ref!r}")
    return repository, commit


def _stand_in_commit(name: str, spec: SourceSpec, folder: Path) -> tuple[str, str, str]:
    """(commit to record, commit to export or '' to copy the folder as it stands, note)."""
    bare = git_says(folder, "rev-parse", "--is-bare-repository")
    inside = git_says(folder, "rev-parse", "--show-toplevel") if bare == "false" else ""
    if bare == "true":
        commit = _resolve(folder, spec.ref)
        if not commit:
            raise SourceError(f"--source {name}={folder}: this repository has no commit, tag or branch {spec.ref!r}")
        return commit, commit, ""
    if not inside or Path(inside).resolve() != folder:
        return "", "", f"source {name}: the plain folder {folder} stands in for {spec.git}"
    head, wanted = _resolve(folder, "HEAD"), _resolve(folder, spec.ref)
    dirty = bool(git_says(folder, "status", "--porcelain"))
    notes = [f"source {name}: {folder} stands in for {spec.git}"]
    if head != wanted:
        notes.append(f"its HEAD is {head[:12]}, the case pins {spec.ref}")
    if dirty:
        notes.append("with uncommitted changes")
    return head + ("-dirty" if dirty else ""), "" if dirty else head, ", ".join(notes)


def _check_tree(name: str, repository: Path, commit: str, limits: FetchLimits) -> None:
    """Raise SourceError for a tree of too many entries, bytes or levels, before anything of it is written.

    A few kilobytes can name one subtree over and over, as a file of zeros can be packed.
    """
    # With -t: a tree of trees alone would take for ever without a line.
    words = limits.command("git", "-C", str(repository), "ls-tree", "-r", "-t", "-l", "-z", "--full-tree", commit)
    until, entries, size, rest = time.monotonic() + limits.seconds, 0, 0, b""
    environment = _environment(limits.trust)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment) as listing:
        assert listing.stdout
        try:
            while block := os.read(listing.stdout.fileno(), 65536):
                *lines, rest = (rest + block).split(b"\0")
                entries += len(lines)
                for line in lines:
                    about, _, path = line.partition(b"\t")
                    size += whole_number(about.rpartition(b" ")[2].decode()) or 0
                    if path.count(b"/") >= MOST_DEPTH:
                        raise SourceError(f"source {name!r}: its folders are more than {MOST_DEPTH} levels deep")
                if len(rest) > 65536:
                    raise SourceError(f"source {name!r}: a path in it has more than {len(rest)} bytes")
                over = {
                    "entries": entries > limits.entries,
                    "size": size > limits.size,
                    "time": time.monotonic() > until,
                }
                for setting in filter(over.get, over):
                    raise SourceError(
                        f"source {name!r}: {limits.why(setting)}; give a folder of what you need: --source {name}=DIR"
                    )
        finally:
            listing.kill()


def _export(name: str, repository: Path, commit: str, patch: str, target: Path, limits: FetchLimits) -> None:
    _check_tree(name, repository, commit, limits)
    target.parent.mkdir(parents=True, exist_ok=True)
    until, left = time.monotonic() + limits.seconds, limits.size + _PER_ENTRY * limits.entries
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".export-") as scratch:
        tree = Path(scratch) / "tree"
        tree.mkdir()
        with (
            tempfile.TemporaryFile(dir=scratch) as errors,
            subprocess.Popen(
                limits.command("git", "-C", str(repository), *_STREAMED, "archive", "--format=tar", commit),
                stdout=subprocess.PIPE,
                stderr=errors,
                # It may run filters of the user's configuration on what the tree's attributes name.
                env=_environment(limits.trust),
            ) as archive,
            subprocess.Popen(
                limits.command("tar", "-x", "--no-same-owner", "-C", str(tree)), stdin=subprocess.PIPE, stderr=errors
            ) as unpack,
        ):
            assert archive.stdout
            assert unpack.stdin
            try:
                with suppress(BrokenPipeError), archive.stdout, unpack.stdin:
                    # Attributes of the tree replace words of its files by the commit's message, of any length.
                    while block := os.read(archive.stdout.fileno(), 1 << 20):
                        left -= unpack.stdin.write(block)
                        if left < 0 or time.monotonic() > until:
                            raise SourceError(f"source {name!r}: {limits.why('size' if left < 0 else 'time')}")
            except BaseException:
                archive.kill()
                unpack.kill()
                raise
            if unpack.wait() == -signal.SIGXFSZ:
                raise SourceError(f"source {name!r}: {limits.why('size')}")
            if archive.wait() or unpack.returncode:
                errors.seek(0)
                said = errors.read(4000).decode(errors="replace").strip()
                raise SourceError(f"source {name!r}: cannot export {commit}: {said}")
        _apply(name, tree, patch, limits)
        tree.rename(target)


def _copy_as_it_stands(name: str, folder: Path, patch_key: str, patch: str, kept: Path) -> tuple[str, Path]:
    listed = git_says(folder, "ls-files", "-co", "--exclude-standard", "-z", strip=False)
    names = sorted(set(listed.split("\0")) - {""}) if listed else None
    (kept / "trees").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=kept / "trees", prefix=".export-") as scratch:
        tree = Path(scratch) / "tree"
        if names is None:
            shutil.copytree(folder, tree, symlinks=True, ignore=shutil.ignore_patterns(".git"))
        else:
            tree.mkdir()
            for relative in names:
                source = folder / relative
                if source.is_symlink() or source.is_file():
                    (tree / relative).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(source, tree / relative, follow_symlinks=False)
        digest = _digest(tree_digest(tree), patch_key)
        _apply(name, tree, patch, FetchLimits.of(Trust.OWN))
        target = kept / "trees" / digest.removeprefix("sha256:")
        _USED.begin(str(target))
        with locked(kept / "trees.lock"):
            if not target.is_dir():
                tree.rename(target)
    return digest, target


def _apply(name: str, tree: Path, patch: str, limits: FetchLimits) -> None:
    if not patch:
        return
    try:
        done = subprocess.run(
            limits.command("git", "apply", "--whitespace=nowarn", "-", memory=MOST_PATCHED),
            cwd=tree,
            # Without this git looks for a repository above the cache and skips files outside of it.
            env={**_environment(limits.trust), "GIT_CEILING_DIRECTORIES": str(tree.parent)},
            input=patch.encode(),
            capture_output=True,
            check=False,
            timeout=limits.seconds,
        )
    except subprocess.TimeoutExpired:
        raise SourceError(f"source {name!r}: the patch: {limits.why('time')}") from None
    said = done.stderr.decode(errors="replace").strip()
    if "out of memory" in said.lower() or done.returncode < 0:
        said = f"it takes more than {MOST_PATCHED >> 20} MiB of memory; a smaller one does, or a commit that has it"
    if done.returncode:
        raise SourceError(f"source {name!r}: the patch does not apply: {said}")


def tree_digest(tree: Path) -> str:
    """``sha256:...`` over the relative paths, kinds, executable bits and contents of a folder."""
    total = hashlib.sha256()
    for path in sorted(tree.rglob("*")):
        relative = os.fsencode(path.relative_to(tree))
        if path.is_symlink():
            total.update(b"l" + relative + b"\0" + os.fsencode(path.readlink()) + b"\0")
        elif path.is_file():
            with path.open("rb") as stream:
                content = hashlib.sha256(stream.read()).digest()
            total.update((b"x" if os.access(path, os.X_OK) else b"f") + relative + b"\0" + content)
    return "sha256:" + total.hexdigest()


def _digest(tree: str, patch: str) -> str:
    return "sha256:" + hashlib.sha256(f"{tree}\0{patch}".encode()).hexdigest()


_STREAMED = ("-c", "core.bigFileThreshold=32m")
"""So that git does not hold a larger file in memory."""

PASSED_ON = frozenset(
    {"PATH", "LANG", "LC_ALL", "TMPDIR", "GIT_SSL_CAINFO", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE"}
    | {name for proxy in ("http_proxy", "https_proxy", "all_proxy", "no_proxy") for name in (proxy, proxy.upper())}
)
"""What git finds of this host's variables where a case gets sources over https alone."""


def _environment(trust: Trust = Trust.OWN) -> dict[str, str]:
    # A prompt for a password would hang a nightly run for ever.
    quiet = {"GIT_TERMINAL_PROMPT": "0", "GIT_HTTP_LOW_SPEED_LIMIT": "1000", "GIT_HTTP_LOW_SPEED_TIME": "30"}
    if ALLOWANCES[trust].any_source:
        return {key: value for key, value in os.environ.items() if not key.startswith("GIT_DIR")} | quiet
    alone = {
        "HOME": "/nonexistent",  # else libcurl reads the password of a .netrc
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_ALLOW_PROTOCOL": "https",
        "GIT_ASKPASS": "false",
        "GIT_SSH_COMMAND": "false",
    }
    return {key: value for key, value in os.environ.items() if key in PASSED_ON} | quiet | alone


def _shared(kept: Path, trust: Trust) -> Path:
    """Where what is fetched for cases that are trusted so far is kept; others never find it."""
    folder = kept / domain if (domain := ALLOWANCES[trust].domain) else kept
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@dataclass(frozen=True, kw_only=True)
class _Git:
    """git as it fetches for a case: the variables that it finds."""

    environment: Mapping[str, str] = field(default_factory=_environment)
    limits: FetchLimits = field(default_factory=lambda: FetchLimits.of(Trust.OWN))
    refused: Sequence[str] = ()
    """What its way to the network refused."""

    @classmethod
    @contextmanager
    def of(cls, name: str, spec: SourceSpec, trust: Trust) -> Iterator[_Git]:
        """As it fetches ``spec`` for a case that is trusted so far. Raises SourceError where it does not."""
        if not ALLOWANCES[trust].any_source and not spec.git.lower().startswith("https://"):
            raise SourceError(
                f"source {name!r}: {spec.git}: an untrusted case gets sources over https:// alone; "
                f"read it and give --reviewed, or give a folder: --source {name}=DIR"
            )
        limits = FetchLimits.of(trust)
        if ALLOWANCES[trust].any_source:
            yield cls(environment=_environment(trust), limits=limits)
            return
        from reprokit.engine.site.gateway.server import tunnels  # late: most runs fetch nothing

        with tunnels(site.current().access) as way:
            proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"), way.proxy)
            alone = {"no_proxy": "", "NO_PROXY": "", "GIT_HTTP_PROXY_AUTHMETHOD": "basic"}
            yield cls(environment=_environment(trust) | proxies | alone, limits=limits, refused=way.notes)

    @contextmanager
    def kept(self, name: str, folder: Path, origin: str, suffix: str) -> Iterator[Path]:
        """The bare repository for what comes from there, locked while the block runs. Raises SourceError."""
        repository = folder / (hashlib.sha256(origin.encode()).hexdigest()[:24] + suffix)
        _USED.begin(str(repository))
        with locked(repository.with_suffix(".lock")):
            if not (repository / "HEAD").exists():
                shutil.rmtree(repository, ignore_errors=True)
                repository.mkdir()
                if shutil.which("git") is None:
                    raise SourceError(f"source {name!r} needs git on this host, and there is none: install git")
                if wrong := self.attempt(repository, "init", "--quiet", "--bare"):
                    raise SourceError(f"source {name!r}: git init: {wrong}")
            yield repository

    def attempt(self, repository: Path, *arguments: str) -> str | None:
        """None when it worked, else what git calls fatal first, or its last words."""
        memory = 0 if ALLOWANCES[self.limits.trust].any_source else _GIT_MEMORY
        try:
            done = subprocess.run(
                self.limits.command("git", "-C", str(repository), *_STREAMED, *arguments, memory=memory),
                env=self.environment,
                capture_output=True,
                check=False,
                timeout=self.limits.seconds,
            )
        except subprocess.TimeoutExpired:
            return self.limits.why("time")
        if done.returncode == 0:
            return None
        if self.refused:
            return self.refused[-1]
        if f"signal {signal.SIGXFSZ.value}".encode() in done.stderr or b"File too large" in done.stderr:
            return self.limits.why("size")
        lines = done.stderr.decode(errors="replace").strip().splitlines() or ["failed"]
        return next((line for line in lines if line.startswith("fatal:")), lines[-1])


def _resolve(repository: Path, ref: str) -> str:
    return git_says(repository, "rev-parse", "--verify", "--quiet", ref + "^{commit}") or ""


StandIns = Callable[[Trust], Mapping[str, Path]]
"""The folders that stand in for sources of cases that are trusted so far, by name."""


class SourceTrees:
    """Fetches each source of a run once, whatever number of cells names it."""

    def __init__(self, stand_ins: StandIns, note: Callable[[str], None]) -> None:
        self._stand_ins = stand_ins
        self._note = note
        self._trees: dict[tuple[str, SourceSpec, Trust], SourceTree] = {}
        self._failed: dict[tuple[str, SourceSpec, Trust], SourceError] = {}

    def of(self, trust: Trust, spec: CellSpec) -> dict[str, SourceTree]:
        """The trees of a cell of a case that is trusted so far, by name. Raises SourceError."""
        found = {}
        for name, source in spec.sources.items():
            # The path is where it goes, not what it is: the same tree may go to two places.
            key = (name, replace(source, path=""), trust)
            if key in self._failed:
                raise self._failed[key]
            if key not in self._trees:
                try:
                    self._trees[key] = self._fetch(name, source, trust)
                except SourceError as error:
                    self._failed[key] = error  # a host that did not answer is not asked again for every cell
                    raise
                if self._trees[key].note:
                    self._note(self._trees[key].note)
            found[name] = replace(self._trees[key], path=source.path)
        return found

    def _fetch(self, name: str, source: SourceSpec, trust: Trust) -> SourceTree:
        return fetch(name, source, trust, stand_in=self._stand_ins(trust).get(name))
