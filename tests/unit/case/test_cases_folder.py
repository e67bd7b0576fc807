"""The library's own cases: each is valid in every way, is filed where people look for it, and stands on the page."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jsonschema
import pytest
import yaml

from docs.scripts import catalogue
from docs.scripts.catalogue import HeadingAnchors, library_of, problems, read, text_of
from reprokit.case.facts import facts
from reprokit.case.files import CaseFile
from reprokit.core.errors import CaseError
from reprokit.environment.cases import json_schema, load
from reprokit.report.catalogue import VERDICTS_FILE, Library, read_verdicts

CASES = Path(__file__).parents[3] / "cases"
PATHS = sorted(CASES.glob("*.yaml"))
SMALL = 1_300_000_000
"""Bytes of the largest image that a case of the quick set may need."""


@cache
def loaded() -> tuple[dict[str, CaseFile], dict[str, str]]:
    """The cases that are valid, by their paths, and what is wrong with the others: one of those fails one test."""
    valid, wrong = {}, {}
    for path in PATHS:
        try:
            [valid[path.name]] = load(str(path))
        except CaseError as error:
            wrong[path.name] = str(error)
    return valid, wrong


def faults(file: CaseFile, topics: set[str], validator: jsonschema.Draft202012Validator) -> Iterator[str]:
    """What the library asks of a case, and this one has otherwise."""
    tags = set(file.case.tags)
    yield from (error.message for error in validator.iter_errors(yaml.load(file.text, yaml.CSafeLoader)))
    for holds, asked in (
        (Path(file.path).stem.replace("_", "-") == file.case.id, "it is named after its file"),
        (len(tags) == len(file.case.tags), "no tag is there twice"),
        (len(tags & topics) == 1, "it has one topic"),
        (len(tags & {"nightly", "gpu"}) == 1, "it has one of the tags nightly and gpu"),
        ("quick" not in tags or "nightly" in tags, "the quick set is part of the nightly one"),
        (("gpu" in tags) == ("gpu" in facts(file.case).needs), "it has the tag gpu if it needs one"),
        (len(file.case.title) <= 120, "its title has at most 120 characters"),
        (len(file.case.description.split()) >= 40, "its description has at least 40 words"),
    ):
        if not holds:
            yield asked


def test_every_case_is_valid_and_filed_where_people_look_for_it() -> None:
    valid, wrong = loaded()
    topics = {group.tag for group in catalogue.read(catalogue.SOURCE.read_text("utf-8")).groups}
    validator = jsonschema.Draft202012Validator(json_schema())
    found = {name: list(faults(file, topics, validator)) for name, file in valid.items()}
    assert wrong == {}
    assert {name: said for name, said in found.items() if said} == {}


@pytest.fixture(scope="module")
def files() -> list[CaseFile]:
    return list(loaded()[0].values())


def test_the_quick_set_needs_only_small_images(files: list[CaseFile]) -> None:
    seen = read_verdicts(CASES / VERDICTS_FILE).cases
    quick = [seen[file.case.id] for file in files if "quick" in file.case.tags and file.case.id in seen]
    assert [case for case in quick if (case.size or 0) > SMALL] == []


@pytest.fixture(scope="module")
def library() -> Library:
    if loaded()[1]:
        pytest.skip("a case is not valid, which another test says")
    return library_of(catalogue.CASES)


def test_the_page_is_up_to_date(library: Library) -> None:
    found = read(catalogue.SOURCE.read_text("utf-8"))
    assert list(problems(found, library.files)) == []
    page = text_of(found, library)
    assert page == (catalogue.CASES / "README.md").read_text("utf-8"), "run `python -m docs.scripts.catalogue`"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("tag: loss", "tag: lose", "no case has the tag 'lose'"),
        ("tag: loss", "tag: quick", "its tags name 0 groups"),
        ("cases: [", "cases: [no-such, ", "there is no case 'no-such'"),
        ("without: ", "without: '' #", "or say in `without` why none"),
    ],
)
def test_what_does_not_fit_the_cases_is_found(library: Library, old: str, new: str, problem: str) -> None:
    text = catalogue.SOURCE.read_text("utf-8")
    assert old in text
    assert any(problem in line for line in problems(read(text.replace(old, new, 1)), library.files))


def test_headings_of_one_name_have_anchors_of_their_own() -> None:
    anchors = HeadingAnchors()
    assert [anchors.of(text) for text in ("1. CUDA & cuDNN", "ONNX", "ONNX")] == ["#1-cuda--cudnn", "#onnx", "#onnx-1"]
