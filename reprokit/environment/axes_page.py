"""docs/axes.md, made from the registry: ``python -m reprokit.environment.axes_page > docs/axes.md``. Pure."""

from __future__ import annotations

from reprokit.environment.axes import AXES
from reprokit.environment.axis import Axis

HEAD = """\
<!-- Made by `python -m reprokit.environment.axes_page > docs/axes.md` from reprokit/environment/axes/; do not edit. -->
# Axes

An axis is a named list of values in a case's `matrix`. These axes mean something to reprokit: what a cell asks for is
resolved, installed, measured inside the image, and compared. An image that measures otherwise is an
`environment-mismatch`; a version that is not available is `unsupported`, with the versions that are. Any other name is
a free axis: only a template variable.

`12` accepts any 12.x, `12.2` only 12.2.x; `none` asks for an environment without the thing. Each axis is an option of
the command line, too: `--gcc 12,13` replaces its values for this invocation.

"""


def page() -> str:
    """The text of docs/axes.md."""
    rows = [f"| [`{axis.name}`](#{axis.name}) | {axis.title} | {axis.syntax.help} |" for axis in AXES]
    table = "\n".join(("| axis | what it is | values |", "| --- | --- | --- |", *rows))
    return f"{HEAD}{table}\n\n{NEW}" + "".join(_section(axis) for axis in AXES)


def _section(axis: Axis) -> str:
    lines = [
        f"Resolved after: {_names(axis.after)}.",
        f"In bug reports it is called: {', '.join(f'`{key}`' for key in sorted(axis.wording.keys))}.",
    ]
    if axis.locked:
        lines.append(f"Its files are the group `{axis.name}` of a lock.")
    return f"\n## {axis.name}\n\n{axis.guide}\n" + "\n".join(lines) + "\n"


def _names(names: tuple[str, ...]) -> str:
    return ", ".join(f"`{name}`" for name in names) or "nothing"


NEW = """\
A new axis is one new file in `reprokit/environment/axes/`, which is found by being there, and its test. It holds one
`Axis` (`reprokit/environment/axis.py`), whose fields have no defaults: the type checker names a part that is forgotten.
"""


if __name__ == "__main__":
    print(page(), end="")
