"""A job: a folder with cells, their cases and a script, what they need, and what comes back. Pure but for that folder.

A launcher has ``sh job.sh`` run in the folder on a node that shares it; SIGTERM to it ends the run, and its archive is
made. To a node that does not, the folder goes as :meth:`Job.packed` on the standard input of :meth:`Job.stream`, whose
standard output :meth:`Job.unpack` takes.
"""

from __future__ import annotations

import io
import mmap
import re
import shlex
import shutil
import sys
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from reprokit.core.files import file_digest, write
from reprokit.core.text import one_line
from reprokit.core.version import __version__

SCRIPT, CELLS, ARCHIVE, DIGEST, LOG = "job.sh", "cells.json", "archive.tar.gz", "archive.sha256", "log"
BACK = (ARCHIVE, DIGEST, LOG)
"""What comes back."""
LARGEST = 2 << 30
"""Bytes of each of them."""
BEGINS = "reprokit-job-begins"
"""The line before it, in a stream, with the job's name: what its run says comes first, after the shell of the site."""
STOPPING = 60
"""Seconds that a run has to stop at the end of its time."""

_SCRIPT = r"""# Runs the cells of this folder with this machine's own engine and settings; their archive comes last.
cd "$(dirname "$0")" || exit 2
echo $$ >pid
exec >log 2>&1 </dev/null
found= seen=
for tool in "${REPROKIT:-}" @own@ reprokit '"$HOME/.local/bin/reprokit"'; do
  [ -n "$tool" ] && said=$(eval "$tool --version" 2>&1) || continue
  seen="$seen; $tool: $said"
  [ "$said" = @version@ ] && found=1 && break
done
[ -n "$found" ] || {
  echo "$(hostname) has no @version@, as the machine has that gave it this job${seen:-}: install it there, or name it" \
    "by the variable REPROKIT"
  exit 2
}
(eval "exec timeout -k @stopping@ @seconds@ $tool"' "$@"') &
child=$!
trap 'kill -TERM $child 2>/dev/null' HUP INT TERM
while kill -0 $child 2>/dev/null; do wait $child; done
trap '' HUP INT TERM
[ -d store/runs ] && tar -C store -czf @archive@ runs || exit 1  # as in a backup: of a run that was killed, too
{ sha256sum @archive@ 2>/dev/null || shasum -a 256 @archive@; } | cut -c 1-64 >digest && mv digest @digest@
"""

_STREAM = """\
jobs=${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/reprokit/jobs; here=$jobs/@id@
mkdir -p -m 700 "$jobs" && mkdir -m 700 "$here" && cd "$here" && tar -xzf - || exit 2
find "$jobs" -mindepth 1 -maxdepth 1 -mtime +7 -exec rm -rf {} +
: >log
(trap exit TERM; while kill -0 $$; do
  now=$(tail -n 1 log); [ "$now" = "$said" ] || echo "$now"; said=$now; sleep 2 >/dev/null & wait $!
done) 2>/dev/null &
sh job.sh >/dev/null 2>&1
kill $! 2>/dev/null; wait $!
for one in @back@; do [ -f $one ] && set -- "$@" $one; done
echo @begins@ @id@; tar -cf - "$@"; cd / && rm -rf "$here"
"""

_CANCEL = """\
kill -TERM "$(cat "${XDG_CACHE_HOME:-${HOME:-/tmp}/.cache}/reprokit/jobs/@id@/pid")"
"""


@dataclass(frozen=True, kw_only=True)
class Job:
    """One attempt at some cells. Whole numbers of ``gpus`` and ``cpus``; ``memory`` in bytes, that of the run itself
    among it, None: not said.
    """

    id: str
    """Lower-case letters, digits and hyphens, at most 63, the first and the last no hyphen: a name for any scheduler,
    unique for ever."""
    folder: Path
    """Holds what the job is, on this machine, and gets what comes back. Absolute."""
    seconds: float
    """That it may run, once it does."""
    gpus: int = 0
    cpus: int = 1
    memory: int | None = None
    avoid: tuple[str, ...] = ()
    """Nodes that lost or refused its cells: a launcher that chooses nodes takes others while it has some."""

    @property
    def stream(self) -> str:
        """A script for a POSIX shell on a node that shares no folder. SIGTERM to it alone ends nothing: see cancel."""
        return _STREAM.replace("@id@", self.id).replace("@back@", " ".join(BACK)).replace("@begins@", BEGINS)

    def packed(self) -> bytes:
        """The folder's files as a compressed tar archive."""

        def travels(info: tarfile.TarInfo) -> tarfile.TarInfo | None:
            info.uid = info.gid = 0
            info.uname = info.gname = ""
            return None if info.name.split("/")[0] in ("job.json", "here", *BACK) else info

        data = io.BytesIO()
        with tarfile.open(fileobj=data, mode="w:gz") as archive:
            for path in sorted(self.folder.iterdir()):
                archive.add(path, path.name, filter=travels)
        return data.getvalue()

    def unpack(self, output: Path) -> None:
        """Take what a stream wrote, as far as it came: of other names, of links and of what is too large, nothing."""
        try:
            line = f"{BEGINS} {self.id}\n".encode()
            with output.open("rb") as came:
                with mmap.mmap(came.fileno(), 0, access=mmap.ACCESS_READ) as whole:
                    begins = whole.find(line)
                came.seek(0 if begins < 0 else begins + len(line))
                with tarfile.open(fileobj=came, mode="r|") as archive:
                    for member in archive:
                        stream = archive.extractfile(member) if member.isreg() and member.name in BACK else None
                        if stream is not None and member.size <= LARGEST:
                            scratch = self.folder / "here" / member.name
                            with stream, scratch.open("wb") as target:
                                shutil.copyfileobj(stream, target)
                            scratch.replace(self.folder / member.name)
        except (tarfile.TarError, OSError, EOFError, ValueError):
            return  # what did not come whole has no digest that fits

    def arrived(self) -> Path | None:
        """The archive, once it is here as its digest says."""
        archive = self.folder / ARCHIVE
        try:
            digest = (self.folder / DIGEST).read_text("ascii", errors="replace").strip()
            whole = archive.stat().st_size <= LARGEST and file_digest(archive) == digest
        except OSError:
            return None
        return archive if whole else None

    def said(self) -> str:
        """The last line that the run or the script wrote, '' for none."""
        return last_line(self.folder / LOG)

    def progress(self) -> str:
        """``5 of 12 cells decided``, as far as the run says so here, else ''. For display alone."""
        for path in (self.folder / LOG, self.folder / "here" / "output"):
            if counts := re.findall(r"^\[(\d{1,9})/(\d{1,9})\] ", _end_of(path), re.MULTILINE | re.ASCII):
                return "{} of {} cells decided".format(*counts[-1])
        return ""


def last_line(path: Path) -> str:
    """The last line of a file as a message has it, '' where there is none."""
    lines = _end_of(path).strip().splitlines()
    return one_line(lines[-1], 300) if lines else ""


def _end_of(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - 4000))
            return stream.read().decode("utf-8", "replace")
    except OSError:
        return ""


def cancel(job_id: str) -> str:
    """What ends the run that :attr:`Job.stream` began, as a script for a shell on the same node."""
    return _CANCEL.replace("@id@", job_id)


def write_script(job: Job, words: Sequence[str]) -> None:
    """Write the script of a job. ``words``: of the command ``reprokit`` that it runs."""
    values = {
        "own": shlex.quote(f"{shlex.quote(sys.executable)} -m reprokit"),
        "version": shlex.quote(f"reprokit, version {__version__}"),
        "seconds": str(max(1, round(job.seconds))),
        "stopping": str(STOPPING),
        "archive": ARCHIVE,
        "digest": DIGEST,
    }
    text = _SCRIPT
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    first, rest = text.split("\n", 1)
    (job.folder / "here").mkdir(exist_ok=True)
    write(job.folder / SCRIPT, f"{first}\nset -- {shlex.join(words)}\n{rest}")
