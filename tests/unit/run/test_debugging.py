"""The layer of debuggers over an image of a cell."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from reprokit.case.trust import Trust
from reprokit.core.errors import BuildFailed, ImageGone, Unsupported
from reprokit.engine.kinds import Capabilities
from reprokit.engine.protocol import Build, ImageInfo
from reprokit.run.debuggers import DebugImages, with_debuggers
from tests.dockerfile_grammar import parse
from tests.unit.fakes import FakeEngine

IMAGE = ImageInfo(tag="reprokit/img:one", id="sha256:1")


def debugged(engine: FakeEngine, image: ImageInfo = IMAGE) -> ImageInfo:
    return with_debuggers(engine, image, trust=Trust.REVIEWED, on_progress=lambda _: None, cancel=threading.Event())


def test_the_layer_is_built_once_for_an_image_and_leaves_the_image_alone() -> None:
    builds: list[Build] = []
    engine = FakeEngine(make=builds.append)
    first = debugged(engine)
    assert debugged(engine).id == first.id
    assert debugged(engine, replace(IMAGE, id="sha256:2")).tag != first.tag
    assert len(builds) == 2
    assert (builds[0].trust, builds[0].tag) == (Trust.REVIEWED, first.tag)
    stage, *others = parse(builds[0].dockerfile)
    assert (stage.keyword, stage.text, others[-1].text) == ("FROM", "reprokit/img:one", "repro")
    engine.built.append(IMAGE.tag)
    images, event = DebugImages(), threading.Event()
    image = replace(IMAGE, id="sha256:reprokit/img:one")
    engine.remove_image(images.over(engine, image, Trust.OWN, event)[0].tag)  # as gc does
    assert images.over(engine, image, Trust.OWN, event)[0].tag in engine.built


def test_debuggers_that_were_put_into_another_image_of_that_name_are_not_used() -> None:
    image = replace(IMAGE, id="sha256:reprokit/img:one")
    engine = FakeEngine(make=lambda build: engine.tag("sha256:reprokit/img:other", IMAGE.tag))
    engine.built.append(IMAGE.tag)
    with pytest.raises(ImageGone, match="another process gave the name reprokit/img:one to another image"):
        debugged(engine, image)
    assert engine.built == [IMAGE.tag]


def test_an_image_that_cannot_have_debuggers_is_said_to() -> None:
    engine = FakeEngine()
    engine.build_error = BuildFailed("exit 1", tail=("E: this image has no apt-get, by which gdb is installed", "#9"))
    with pytest.raises(Unsupported, match="cannot be installed in this image: E: this image has no apt-get, by which"):
        debugged(engine)


def test_an_engine_without_images_is_said_to_have_none(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = FakeEngine()
    info = replace(engine.info(), capabilities=Capabilities(images=False))
    monkeypatch.setattr(engine, "info", lambda: info)
    with pytest.raises(Unsupported, match="makes no images"):
        debugged(engine)
