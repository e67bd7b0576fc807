"""The engine's own parser reads a rendered Dockerfile as the strict grammar of the unit tests does."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.site import Site
from tests import dockerfile_grammar as grammar
from tests.conftest import build_of, docker, never, remove_image
from tests.unit.environment.test_dockerfile_values import FIELDS, HOSTILE, meaning

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def idle(engine: DockerEngine, tiny: str) -> Iterator[str]:
    """The tag of an image whose shell is /bin/true."""
    tag = f"reprokit-test/idle:{uuid.uuid4().hex[:12]}"
    engine.build(build_of(tag, f'FROM {tiny}\nSHELL ["/bin/true"]\n'), Site(), lambda _: None, never())
    yield tag
    remove_image(tag)


def merged(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One case of several parts; lists and mappings of the same key are joined."""
    case: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            for name, inner in value.items() if isinstance(value, dict) else ():
                case.setdefault(key, {})[name] = inner
            if not isinstance(value, dict):
                case[key] = value
    return case


def understood(tag: str) -> list[str]:
    """What BuildKit did, in order: the history of an image, oldest first."""
    return docker("history", "--no-trunc", "--format", "{{json .CreatedBy}}", tag).rstrip("\n").split("\n")[::-1]


ASKED = [
    "plain",
    "escape-last",
    "escape-twice",
    "escape-space",
    "heredoc",
    "heredoc-dash",
    "syntax",
    "comment",
    "quote",
]
ASKED += [
    "quote",
    "escape-directive",
    "double-quote",
    "quote-end",
    "dollar",
    "braces",
    "backticks",
    "mount-later",
    "next-line",
]
"""Of the hostile values those that a field takes and the grammar has a rule for; a build takes seconds."""


@pytest.mark.parametrize("name", ASKED)
def test_the_engine_reads_it_as_it_was_meant(engine: DockerEngine, idle: str, name: str) -> None:
    value = HOSTILE.get(name, "plain")
    fields = ("apt", "pip", "workdir", "file", "source-path", "dataset", "setup", "generate")
    parts = [FIELDS[field](value) for field in fields if meaning(FIELDS[field](value)) is not None]
    rendered = meaning(merged(parts))
    assert rendered is not None
    # Caches of the test's own: those of real builds may be in use.
    text = rendered.starting_from({"reprokit/base:debian-12": idle}).replace("id=reprokit-", "id=reprokit-test-")
    tag = f"reprokit-test/grammar:{uuid.uuid4().hex[:12]}"
    try:
        before = len(understood(idle))
        engine.build(build_of(tag, text, dict(rendered.context)), Site(), lambda _: None, never())
        seen = [json.loads(line) for line in understood(tag)][before:]
    finally:
        remove_image(tag)
    expected = [one for one in grammar.parse(text) if one.keyword != "FROM"]
    keywords = [one.keyword for one in expected]
    assert [line.split()[0] for line in seen if not line.startswith("LABEL")] == keywords
    for line, one in zip(seen, expected, strict=False):
        if one.keyword == "RUN":
            assert line == f"RUN /bin/true {one.text} # buildkit"
        elif one.keyword == "WORKDIR":
            assert line == f"WORKDIR {grammar.expanded(one.text)}"
        elif one.keyword == "COPY":
            assert line == f"COPY {' '.join(grammar.expanded(word) for word in json.loads(one.text))} # buildkit"
