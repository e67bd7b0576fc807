"""The result of a check."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from enum import Enum

from reprokit.core.json_record import JsonDocument, JsonRecord


class Status(str, Enum):
    """``info`` is worth knowing; ``warn`` affects some cells, or may later; ``fail`` prevents runs here."""

    OK = "ok"
    INFO = "info"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, kw_only=True)
class Finding(JsonRecord):
    """A finding of a check."""

    check: str
    status: Status
    text: str
    fix: str = ""
    """the suggested fix: a command, a sentence, or empty"""


@dataclass(frozen=True)
class Findings(JsonDocument):
    """What `doctor` found."""

    FORMAT = "reprokit-doctor/v1"

    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Voice:
    """Makes the findings of one check: ``yield say.warn("text", "command")``."""

    check: str

    def ok(self, text: str) -> Finding:
        """A finding that needs no action."""
        return Finding(check=self.check, status=Status.OK, text=text)

    def info(self, text: str, fix: str = "") -> Finding:
        """A finding that is worth knowing."""
        return Finding(check=self.check, status=Status.INFO, text=text, fix=fix)

    def warn(self, text: str, fix: str = "") -> Finding:
        """A finding that affects some cells, or may later."""
        return Finding(check=self.check, status=Status.WARN, text=text, fix=fix)

    def fail(self, text: str, fix: str = "") -> Finding:
        """A finding that prevents runs."""
        return Finding(check=self.check, status=Status.FAIL, text=text, fix=fix)


def install(package: str, path: str | None = None) -> str:
    """The command that installs a package of this host's distribution; ``path``: the PATH to search for its manager."""
    for program, command in (("dnf", "dnf install"), ("zypper", "zypper install"), ("pacman", "pacman -S")):
        if shutil.which(program, path=path):
            return f"sudo {command} {package}"
    return f"sudo apt-get install {package}"
