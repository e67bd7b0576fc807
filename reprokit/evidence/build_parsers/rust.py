"""Packages that are built with Rust, where it is missing or too old."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser

_CRATES = re.compile(
    r"can't find Rust compiler|Cargo, the Rust package manager, is not installed|Rust not found(?s:.*)in setup_rust"
    r"|error: rustc .* is not installed|Unable to find.*\b(?:rustc|cargo)\b|`cargo` .*not found"
)
_OLD_RUST = re.compile(
    r"(?:requires|need[s]?) rustc (?:version )?(?P<version>[\d.]+)(?: or newer| or greater)?"
    r"|(?P<edition>feature `edition2024` is required)|lock file version (?P<lock>\d+) requires"
)


def _read(log: BuildLog) -> BuildCause | None:
    if old := _OLD_RUST.search(log.text):
        wanted = f" (rustc {old['version']} or newer)" if old["version"] else ""
        return BuildCause(sentence=f"{log.building} needs a newer Rust{wanted}")
    if _CRATES.search(log.text):
        return BuildCause(
            sentence=f"{log.building} needs Rust (rustc and cargo), which is not installed",
            put="environment.apt: [cargo]",
        )
    return None


PARSER = BuildParser(name="rust", read=_read, precedence=11)
