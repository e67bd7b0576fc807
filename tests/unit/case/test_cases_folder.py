"""The library's own cases: each is valid in every way, is filed where people look for it, and stands on the page."""

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
import yaml

from docs.scripts import catalogue
from docs.scripts.catalogue import HeadingAnchors, library_of, problems, read, text_of
from reprokit.case.facts import facts
from reprokit.case.files import CaseFile
from reprokit.environment.cases import json_schema, load
from reprokit.report.catalogue import verdicts
from reprokit.report.catalogue.page import Library

CASES = Path(__file__).parents[3] / "cases"
PATHS = sorted(CASES.glob("*.yaml"))
SMALL = 1_300_000_000
"""Bytes of the largest image that a case of the quick set may need."""


@pytest.fixture(scope="module")
def files() -> list[CaseFile]:
    return load(str(CASES))


@pytest.fixture(scope="module")
def topics() -> set[str]:
    return {group.tag for group in catalogue.read(catalogue.SOURCE.read_text("utf-8")).groups}


@pytest.fixture(scope="module")
def validator() -> jsonschema.Draft202012Validator:
    return jsonschema.Draft202012Validator(json_schema())


@pytest.mark.parametrize("path", PATHS, ids=lambda path: path.stem)
class TestEachCase:
    """What holds for every file of the folder."""

    @pytest.fixture
    def file(self, path: Path, files: list[CaseFile]) -> CaseFile:
        [file] = [file for file in files if Path(file.path) == path]
        return file

    def test_is_valid_by_the_schema_for_other_tools(
        self, file: CaseFile, validator: jsonschema.Draft202012Validator
    ) -> None:
        validator.validate(yaml.load(file.text, yaml.CSafeLoader))

    def test_is_named_after_its_file(self, file: CaseFile) -> None:
        assert Path(file.path).stem.replace("_", "-") == file.case.id

    def test_has_one_topic_and_one_set(self, file: CaseFile, topics: set[str]) -> None:
        tags = set(file.case.tags)
        assert len(tags) == len(file.case.tags)
        assert len(tags & topics) == 1
        assert len(tags & {"nightly", "gpu"}) == 1
        assert "quick" not in tags or "nightly" in tags
        assert ("gpu" in tags) == ("gpu" in facts(file.case).needs)

    def test_says_where_it_is_from_and_what_goes_wrong(self, file: CaseFile) -> None:
        assert len(file.case.title) <= 120
        assert len(file.case.description.split()) >= 40


def test_the_quick_set_needs_only_small_images(files: list[CaseFile]) -> None:
    seen = verdicts.read(CASES / verdicts.FILE).cases
    quick = [seen[file.case.id] for file in files if "quick" in file.case.tags and file.case.id in seen]
    assert [case for case in quick if (case.size or 0) > SMALL] == []


@pytest.fixture(scope="module")
def library() -> Library:
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
