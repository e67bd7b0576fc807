"""The times of a build, from what its engine says of its steps."""

from __future__ import annotations

from reprokit.engine.protocol import Progress, say_downloads
from reprokit.run.timing import ImageTimer, Timer


def said(*pieces: Progress) -> list[tuple[str, str]]:
    timer = Timer()
    times = ImageTimer(timer, timer.image([1, 2]))
    with times.span("build"):
        for piece in pieces:
            times.see(piece)
    found = timer.timings()
    assert found.images == ((1, 2),)
    assert all(one.image == 0 and one.seconds >= 0 for one in found.spans)
    return sorted((one.kind, one.name) for one in found.spans)


def step(number: int, **more: object) -> Progress:
    return Progress(number=number, total=2, name=f"RUN step{number}", **more)  # type: ignore[arg-type]


def test_a_step_ends_where_the_next_begins_or_the_build_ends() -> None:
    pieces = [step(1), step(1, log="x"), step(2), step(2, log="y"), step(2)]
    assert said(*pieces) == [("build", ""), ("step", "1/2 step1"), ("step", "2/2 step2")]


def test_a_step_from_a_cache_took_no_time() -> None:
    assert said(step(1), step(1, cached=True), step(2)) == [("build", ""), ("step", "2/2 step2")]


def test_where_an_engine_says_how_long_its_steps_took_these_are_kept() -> None:
    pieces = [step(1), step(2), step(2, took=1.0), step(1, took=2.0)]
    assert said(*pieces) == [("build", ""), ("step", "1/2 step1"), ("step", "2/2 step2")]


def test_downloads_are_reported() -> None:
    pieces: list[Progress] = [step(1)]
    say_downloads([("six.whl", 1.0, 2.0, 100), ("0" * 100 + ".whl", 1.0, 2.0, 100)], pieces.append)
    assert said(*pieces) == [
        ("build", ""),
        ("download", "0" * 77 + "..."),
        ("download", "six.whl"),
        ("step", "1/2 step1"),
    ]
