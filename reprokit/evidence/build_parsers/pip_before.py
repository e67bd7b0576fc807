"""What environment.pip_before hides, or cannot be kept with: words of dockerfiles/pip_before.py."""

from __future__ import annotations

import re

from reprokit.evidence.build_parser import BuildCause, BuildLog, BuildParser

_HID = re.compile(
    r"^reprokit: environment\.pip_before: the limit (?P<limit>\S+) hid "
    r"(?P<late>\d+) of (?P<all>\d+) files of (?P<name>\S+)$",
    re.M,
)
_NO_MATCH = re.compile(r"ERROR: No matching distribution found for (?P<what>.+)")
_NOT_KEPT = re.compile(r"ERROR: environment\.pip_before: (?P<why>.+?)(?:\. (?P<advice>[A-Z].*))?$", re.M)


def _read(log: BuildLog) -> BuildCause | None:
    if unkept := _NOT_KEPT.search(log.text):
        advice = unkept["advice"] or ""
        return BuildCause(
            sentence=f"environment.pip_before: {unkept['why']}", advice=advice[:1].lower() + advice[1:].rstrip(".")
        )
    hid = _HID.search(log.text)
    if hid and (missing := _NO_MATCH.search(log.text)):
        return BuildCause(
            sentence=f"no file of {missing['what'].split(' (')[0]} that fits was received before {hid['limit']}: "
            f"environment.pip_before hides {hid['late']} of {hid['all']} files of {hid['name']}",
            advice="ask for an earlier version, or move environment.pip_before to a later day",
        )
    return None


PARSER = BuildParser(name="pip_before", read=_read, precedence=4)
