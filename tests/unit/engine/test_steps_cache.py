"""Steps that a build takes from images of a registry: what the engine is asked, and what of its answer counts."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from reprokit.engine.building import dockerfile_of
from reprokit.engine.docker import session
from reprokit.engine.docker.buildkit import parameters
from reprokit.engine.protocol import Build
from reprokit.environment.dockerfile import Rendered

SERVED: Any = SimpleNamespace(network="default")
STEP = "RUN --mount=type=bind,source=reprokit/site.sh,target=/run/reprokit/site.sh \\\n    {}\n"


def asked(**more: Any) -> dict[str, str]:
    return parameters(Build(tag="t:1", dockerfile="FROM scratch\n", context={}, **more), SERVED, "s")


def test_buildkit_is_asked_for_the_steps_of_other_images_and_to_say_its_own() -> None:
    query = asked(steps_of=("r.example.com/steps:a", "r.example.com/steps:b"))
    assert json.loads(query["cachefrom"]) == ["r.example.com/steps:a", "r.example.com/steps:b"]
    assert json.loads(query["buildargs"]) == {"BUILDKIT_INLINE_CACHE": "1"}
    assert not {"cachefrom", "buildargs"} & asked().keys()


def test_every_stage_of_a_build_from_nothing_has_steps_of_its_own() -> None:
    text = "# syntax\nFROM a AS b\nRUN true\nFROM c\nCOPY --from=b / /\n"
    build = Build(tag="t:1", dockerfile=text, context={}, fresh=True)
    first, second = dockerfile_of(build).splitlines(), dockerfile_of(build).splitlines()
    assert [line.startswith("ARG ") for line in first] == [False, False, True, False, False, True, False]
    assert first[2] == first[5] != second[2]
    assert "nocache" not in asked(fresh=True), "it ends an engine whose other builds run the same steps"


def test_what_a_registry_lacks_is_not_the_step_that_failed() -> None:
    trace = session.Trace(lambda _: None)
    status = session.StatusResponse()
    status.vertexes.add(digest="1", name="importing cache manifest from r.example.com/steps:a", error="not found")
    status.vertexes.add(digest="2", name="[2/2] RUN false", error="exit code: 1")
    trace.feed(status.SerializeToString())
    assert trace.failed() == ("RUN false", (), "exit code: 1")


def text(*steps: str) -> Rendered:
    return Rendered(dockerfile="FROM base\nENV A=1\n" + "".join(steps), context={})


def test_dockerfiles_have_the_hashes_of_what_they_begin_with_in_common() -> None:
    one, two, own = STEP.format("apt-get install a"), STEP.format("pip install b"), STEP.format("pip install c")
    first, second = (text(one, last, "USER repro\n").beginnings("sha256:base") for last in (two, own))
    assert len(first) == len(second) == 2
    assert first[0] == second[0]
    assert first[1] != second[1]
    assert text(one, two).beginnings("sha256:base") == first  # what follows the last download is cheap
    assert not set(first) & set(text(one, two).beginnings("sha256:other"))
    assert text("RUN true\n").beginnings("sha256:base") == ()
