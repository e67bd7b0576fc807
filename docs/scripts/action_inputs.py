"""The lines of the composite action that follow from the known axes: an input of each, and how it reaches the step."""

from __future__ import annotations

import re
from pathlib import Path

from reprokit.environment.axes import AXES

ACTION = Path(__file__).parents[2] / ".github" / "actions" / "reprokit" / "action.yml"
_BEGIN = "# The known axes: make docs-generated writes these lines."
_END = "# End of the known axes."
_NAMES = tuple(axis.name for axis in AXES)


def text(names: tuple[str, ...] = _NAMES) -> str:
    """The action with the lines of these axes. Raises ValueError where it has no place for them."""
    inputs = [f'{name}: {{description: "Replaces the axis {name}: A,B", default: ""}}' for name in names]
    environ = [f"INPUT_{name.upper().replace('-', '_')}: ${{{{ inputs.{name} }}}}" for name in names]
    parts = re.split(
        rf"( *){re.escape(_BEGIN)}\n.*?{re.escape(_END)}\n", ACTION.read_text(encoding="utf-8"), flags=re.DOTALL
    )
    if len(parts) != 5:
        raise ValueError(f"{ACTION}: expected {_BEGIN!r} and {_END!r} among its inputs and in the step's env")
    before, first, between, second, after = parts
    blocks = (
        "".join(f"{margin}{line}\n" for line in (_BEGIN, *lines, _END))
        for margin, lines in ((first, inputs), (second, environ))
    )
    return before + next(blocks) + between + next(blocks) + after
