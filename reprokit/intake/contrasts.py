"""What a reader says is changed where it works: an axis in the place of the text that fails. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from reprokit.case.model import RESERVED
from reprokit.case.templates import is_template
from reprokit.environment.axes import BY_NAME
from reprokit.intake.facts_file import ContrastFact


@dataclass(frozen=True, kw_only=True)
class Variation:
    """An axis with a value that fails and one that works. ``data``: the keys of the case in which its value stands."""

    axis: str
    fails: str
    works: str
    data: Mapping[str, Any]


def placed(one: ContrastFact, data: Mapping[str, Any]) -> Variation | None:
    """The axis of what is changed; None where no variable, and not one place of the command, has what fails.

    ``MODE=fast`` and ``MODE=slow`` have the values fast and slow: what both begin with stays in the text.
    """
    fails, works, command = one.fails.strip(), one.works.strip(), str(data["command"])
    parts = zip(re.split(r"(?<=[=:\s])", fails), re.split(r"(?<=[=:\s])", works), strict=False)
    head = "".join(part for part, _ in takewhile(lambda pair: pair[0] == pair[1], parts))
    bad, good = fails[len(head) :], works[len(head) :]
    axis = re.sub(r"[^a-z0-9]+", "_", (one.name or head or fails).lower()).strip("_").lstrip("0123456789_")[:40]
    taken = {*data.get("matrix", {}), *BY_NAME, *RESERVED}
    if not (bad and good and axis) or axis in taken or any(map(is_template, (fails, works, command))):
        return None
    name = head.removesuffix("=")
    if data.get("env", {}).get(name) == bad:
        changed: dict[str, Any] = {"env": {**data["env"], name: f"{{{{ {axis} }}}}"}}
    elif len(found := re.findall(rf"(?<![\w.-]){re.escape(fails)}(?![\w.-])", command)) == 1:
        changed = {"command": command.replace(found[0], f"{head}{{{{ {axis} }}}}")}
    else:
        return None
    return Variation(axis=axis, fails=bad, works=good, data=changed)
