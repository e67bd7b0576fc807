"""What our texts say to install is this project: the distribution ``reprokit`` on the index is another author's."""

from __future__ import annotations

import itertools
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.core.files import shipped
from reprokit.core.version import DISTRIBUTION, install_line

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
TEXTS = {
    path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8", errors="replace")
    for place in ("*.md", "Makefile", ".ci/*", ".github/**/*", "docs/**/*", "dockerfiles/*", "reprokit/**/*")
    for path in ROOT.glob(place)
    if path.is_file() and path.suffix not in (".png", ".pyc")
}
"""All that users read, by its place."""
INSTALLS = re.compile(r"\b(pip3? install|pipx install|uv tool install|uv add|pipx run|uv tool run|uvx)(?= )([^`\n]*)")


def installed(text: str) -> Iterator[str]:
    """The distributions of this name, or of the other's, that the commands in a text would install."""
    for command, rest in INSTALLS.findall(text):
        try:
            words = shlex.split(rest, comments=True)
        except ValueError:  # within a quotation that goes on
            words = rest.split()
        if command in ("uvx", "pipx run", "uv tool run"):
            named = [word for option, word in itertools.pairwise(words) if option in ("--from", "--spec")]
            words = named or [word for word in words if not word.startswith("-")][:1]
        names = (re.match(r"[\"'(]*(reprokit[\w.-]*)", word, re.IGNORECASE) for word in words)
        yield from (re.sub(r"[-_.]+", "-", name[1]).lower().rstrip("-") for name in names if name)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("pip install reprokit", ["reprokit"]),
        ("`pip install -U 'reprokit[mcp]>=1' numpy`", ["reprokit"]),
        ("python -m pip install 'reprokit_harness[mcp]'", [DISTRIBUTION]),
        ("uvx reprokit run x", ["reprokit"]),
        (f"uvx --from {DISTRIBUTION} reprokit run x", [DISTRIBUTION]),
        ("pipx run --spec reprokit reprokit run x", ["reprokit"]),
        ("uvx --from . reprokit run x", []),
        ("pip install numpy", []),
    ],
)
def test_what_a_command_would_install(text: str, names: list[str]) -> None:
    assert list(installed(text)) == names


def test_every_command_that_installs_names_this_project() -> None:
    found = {place: set(installed(text)) for place, text in TEXTS.items()}
    assert {place: names for place, names in found.items() if names - {DISTRIBUTION}} == {}
    for page in ("README.md", "README.zh-CN.md", "docs/first-case.md", "docs/first-case.zh-CN.md", "docs/agents.md"):
        assert found[page] == {DISTRIBUTION}, page


def test_the_project_has_the_name_that_texts_use() -> None:
    project = PROJECT["project"]
    extras = project["optional-dependencies"]
    assert project["name"] == DISTRIBUTION
    own = [one for wanted in extras.values() for one in wanted if one.startswith("reprokit")]
    assert own
    assert all(re.split(r"[\[=<> ]", one)[0] == DISTRIBUTION for one in own)
    # `uvx NAME` and `pipx run NAME` start the command that has the distribution's name.
    assert project["scripts"] == dict.fromkeys(("reprokit", DISTRIBUTION), "reprokit.__main__:main")
    assert install_line("mcp") == f"pip install '{DISTRIBUTION}[mcp]'"


def test_every_extra_that_messages_name_exists() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    text = "\n".join(TEXTS.values())
    named = set(re.findall(r"install_line\([\"'](\w+)[\"']\)", text))
    named.update(extra for found in re.findall(rf"{DISTRIBUTION}\[([\w,]+)\]", text) for extra in found.split(","))
    assert named >= {"mcp", "postgres", "s3"}
    assert named <= set(extras)


def test_what_a_wheel_takes_along_is_found_in_a_checkout() -> None:
    taken = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    assert {source: f"reprokit/{source}" for source in taken} == taken
    for source in taken:
        assert shipped(source) == ROOT / source
