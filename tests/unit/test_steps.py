"""The steps of CONTRIBUTING.md: at most six each, and one that is left out fails a test, mostly one of these."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from reprokit.case import cellspec, comparing, model
from reprokit.case.structure import _MODELS
from reprokit.engine import kinds
from reprokit.engine.site.config import KEYS
from reprokit.environment.axes import AXES
from reprokit.environment.axis import Axis
from reprokit.evidence.build_causes import rows
from reprokit.evidence.build_log import BuildLog
from reprokit.intake import importing
from reprokit.report import formats
from reprokit.report.formats import RunFormat
from tests.fuzz import targets
from tests.golden.builds import CASES as BUILDS
from tests.golden.builds import load as load_build
from tests.unit.evidence.test_build_failure import test_causes_that_have_no_log

ROOT = Path(__file__).parents[2]
CONTRIBUTING = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
LISTS = dict(re.findall(r"^## (Add .*)\n\n((?:.+\n)+)", CONTRIBUTING, re.MULTILINE))
ADDED = {"axis", "report format", "kind of data set", "failure parser", "cause of failed builds", "engine"}
ADDED |= {"key of the format", "limit", "setting"}


def pages(name: str) -> list[str]:
    return [(ROOT / "docs" / f"{name}{end}.md").read_text(encoding="utf-8") for end in ("", ".zh-CN")]


def text_of_tests(*folders: str) -> str:
    """The text of all tests of some folders."""
    files = [path for folder in folders for path in sorted((ROOT / "tests" / folder).rglob("*.py"))]
    return "".join(path.read_text(encoding="utf-8") for path in files)


def test_each_list_has_at_most_six_steps_and_names_files_that_exist() -> None:
    assert {title.removeprefix("Add an ").removeprefix("Add a ") for title in LISTS} >= ADDED
    for title, text in LISTS.items():
        assert 1 < len(re.findall(r"^\d\. ", text, re.MULTILINE)) <= 6, title
        for name in re.findall(r"`((?:reprokit|tests|docs|dockerfiles)/[\w/.-]+)`", text):
            assert "NAME" in name or (ROOT / name).exists(), f"{title}: {name}"
        for tests in re.findall(r"`pytest ([^`]+)`", text):
            assert [name for name in tests.split() if not (ROOT / name).exists()] == [], title


@pytest.mark.parametrize("axis", AXES, ids=lambda axis: axis.name)
def test_an_axis_is_tested_and_named_where_people_look(axis: Axis) -> None:
    tested = text_of_tests("unit/environment")
    asks_for_what_is_not_available = re.search(rf"{axis.name}[\"'= ].*\n?.*is not|{axis.name} \S+ is not", tested)
    assert asks_for_what_is_not_available, f"no test asks for a version of {axis.name} that is not available"
    for page in pages("write-a-case"):
        assert f"`{axis.name}`" in page
    for number in ("place", "matters"):
        assert Counter(getattr(one, number) for one in AXES)[getattr(axis, number)] == 1, number


@pytest.mark.parametrize("name", [name for name, one in formats.formats().items() if isinstance(one, RunFormat)])
def test_a_report_format_is_tested_and_said_to_be_published_or_not(name: str) -> None:
    assert re.search(rf"[\"']{name}[\"']", text_of_tests("unit/report", "unit/github", "unit/cli"))
    for page in pages("run-cases"):
        assert f"`{name}`" in page


@pytest.mark.parametrize("name", importing.kinds())
def test_a_kind_of_data_set_is_tested_fuzzed_and_described(name: str) -> None:
    assert f'"{name}"' in text_of_tests("unit/intake")
    corpus = (ROOT / "tests" / "fuzz" / "corpus" / "data-set").iterdir()
    assert name in {targets.kind_of(path.read_bytes()) for path in corpus}, "no input of the fuzzers is of that kind"
    for page in pages("data-sets"):
        assert name in page


def test_each_cause_of_failed_builds_is_shown_by_a_log_or_a_line_and_each_log_has_one() -> None:
    logs = {name: BuildLog(step=step, lines=tuple(tail)) for name in BUILDS for step, tail in [load_build(name)]}
    [told] = [mark for mark in test_causes_that_have_no_log.pytestmark if mark.name == "parametrize"]
    lines = {line: BuildLog(step="RUN x", lines=tuple(line.split("\n"))) for line, *_ in told.args[1]}
    causes = [row for row in rows() if not row.status]
    found = {
        name: [row.name for row in causes if row.words(log) is not None] for name, log in {**logs, **lines}.items()
    }
    assert {row.name for row in causes} == {name for names in found.values() for name in names}
    assert {name for name in logs if found[name][0] == "the case's line"} == _SHOWN_BY_THEIR_LINE, "add a row"


_SHOWN_BY_THEIR_LINE = {"timeout-setup", "setup-test-fails", "setup-file-missing", "fresh-no-setup-py"}
_SHOWN_BY_THEIR_LINE |= {"fresh-link-exists"}


def test_logs_of_failed_builds_name_no_host_that_no_one_read() -> None:
    logs = [path.read_text(encoding="utf-8") for path in (ROOT / "tests" / "golden" / "builds").glob("*.log")]
    hosts = {host for text in logs for host in re.findall(r"\w://([\w.-]+)", text)}
    assert {host for host in hosts if not re.search(r"\.(?:example|invalid)$|^localhost$|^127\.", host)} == _PUBLIC


_PUBLIC = {"packaging.python.org", "pip.pypa.io", "github.com", "rustup.rs", "pillow.readthedocs.io", "curl.se"}
_PUBLIC |= {"www.psycopg.org"}
"""Addresses that programs print in their advice."""


def test_every_engine_is_listed_and_described() -> None:
    packages = (ROOT / "reprokit" / "engine").glob("*/__init__.py")
    assert {path.parent.name for path in packages if "ENTRY = " in path.read_text(encoding="utf-8")} == {*kinds.KINDS}
    for page in pages("engines"):
        assert [kind for kind in kinds.KINDS if f"| `{kind}` |" not in page] == []


def test_every_setting_is_read_and_tested() -> None:
    code = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "reprokit").rglob("*.py"))
    tested = text_of_tests("unit", "integration").lower()
    assert [key for key in KEYS if not re.search(rf"[\w)]\.{key}\b", code)] == [], "nothing reads them"
    assert [key for key in KEYS if key not in tested] == [], "no test names them"


def models(of: Any) -> Iterator[type[BaseModel]]:
    """The models in the type of a field."""
    if isinstance(of, type) and issubclass(of, BaseModel):
        yield of
        for field in of.model_fields.values():
            yield from models(field.annotation)
            yield from (one for each in field.metadata for one in models(each))
    for inner in get_args(of):
        yield from models(inner)


RENDERED: tuple[tuple[type[BaseModel], type], ...] = (
    (model.EnvironmentSection, cellspec.EnvironmentSpec),
    (model.Source, cellspec.SourceSpec),
    (model.Dataset, cellspec.DatasetSpec),
)


def test_a_key_of_the_format_is_part_of_all_that_knows_keys() -> None:
    found = set(models(model.Case))
    assert found - {kind for _, kind in _MODELS} == _WITHOUT_OWN_KEYS, "add it to _MODELS"
    for section, rendered in RENDERED:
        assert set(section.model_fields) == {field.name for field in dataclasses.fields(rendered)}, section
    whole = {field.alias or name for name, field in model.Case.model_fields.items()}
    assert whole == {*model.FIX_CHANGES, *_OF_THE_CASE_ALONE}, "decide whether a fix can change it"
    assert set(model.TEMPLATED) <= whole
    tested = text_of_tests("unit/case", "unit/environment", "unit/run", "unit/evidence", "unit/engine")
    keys = {field.alias or name for kind in found for name, field in kind.model_fields.items()}
    assert [key for key in keys if not re.search(rf"\b{key}\b", tested)] == []


_WITHOUT_OWN_KEYS = {model.Matrix, model.Hang, model.Compare, comparing.ReferenceOf}
"""Their keys are free, or said by the one key that holds them."""
_OF_THE_CASE_ALONE = {"schema", "id", "title", "description", "report", "tags", "matrix", "expect", "fix"}


def test_a_new_key_of_environment_leaves_old_locks_valid() -> None:
    """``asked_digest`` leaves out what a lock of an earlier version does not know: whoever adds a key adds it there."""
    text = (ROOT / "reprokit" / "environment" / "lock.py").read_text(encoding="utf-8")
    later = set(re.findall(r'\("(\w+)", ', text.partition("for later, free in")[2].partition(":\n")[0]))
    first = {"image", "apt", "pip", "pip_options", "setup", "conflicts"}
    assert {field.name for field in dataclasses.fields(cellspec.EnvironmentSpec)} == first | later
