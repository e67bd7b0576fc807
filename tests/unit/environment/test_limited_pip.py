"""dockerfiles/pip_before.py with the pip of this interpreter; the integration tests have the pips of environments."""

from __future__ import annotations

import runpy
import sys
from datetime import datetime
from pathlib import Path

import pytest

from tests.limited_pip import DAY, NEW, OLD, SCRIPTS, LimitedPip, old_and_new
from tests.package_index import PackageIndex, wheel

pytestmark = pytest.mark.system


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        (DAY, datetime(2021, 5, 4)),
        ("2021-05-03T23:59:59.999999Z", datetime(2021, 5, 3, 23, 59, 59, 999999)),
        ("2021-05-03 23:59:59.999999999Z", datetime(2021, 5, 3, 23, 59, 59, 999999)),
        ("2021-05-04T02:30:00+0230", datetime(2021, 5, 4)),
        ("2021-05-03T22:00:00-02:00", datetime(2021, 5, 4)),
        ("2021-05-04T00:00:00", datetime(2021, 5, 4)),  # PEP 700 says UTC
        *(
            (text, None)
            for text in ("", "2021", "9999-99-99", "2021-05-04", "2021-05-04T00:00:00ZZ", "0001-01-01T00:00:00+01:00")
        ),
        *((text, None) for text in (None, 5, True, ["2021-05-04T00:00:00Z"], {"a": 1}, b"2021-05-04T00:00:00Z")),
    ],
)
def test_what_is_a_time_stamp(text: object, moment: datetime | None) -> None:
    assert runpy.run_path(str(SCRIPTS / "pip_before.py"))["instant"](text) == moment


def test_dependencies_come_as_they_were(tmp_path: Path) -> None:
    pytest.importorskip("pip")
    pip = LimitedPip(python=sys.executable, scratch=tmp_path)
    with old_and_new() as index:
        assert pip(index, "demo").versions == {"demo": "1.0", "dep": "1.5"}


def test_a_package_that_its_index_received_again_comes_all_the_same(tmp_path: Path) -> None:
    """As atomicwrites in 2022: what was there before needs it, so that it was there, too."""
    pytest.importorskip("pip")
    pip = LimitedPip(python=sys.executable, scratch=tmp_path)
    with old_and_new() as index:
        index.add(wheel("tests", "1.0", requires=("again>=1.0", "dep")), OLD)
        for version in ("0.9", "1.0", "1.4"):
            index.add(wheel("again", version), NEW)
        found = pip(index, "tests")
        assert found.versions == {"tests": "1.0", "again": "1.4", "dep": "1.5"}
        assert "environment.pip_before: again is not limited" in found.output


def test_a_pip_that_cannot_keep_to_it_says_so(tmp_path: Path) -> None:
    """A stand-in for a pip of another inside."""
    (tmp_path / "pip" / "_internal").mkdir(parents=True)
    (tmp_path / "pip" / "__init__.py").write_text('__version__ = "9.0"\n')
    (tmp_path / "pip" / "_internal" / "__init__.py").write_text("")
    (tmp_path / "scratch").mkdir()
    old = LimitedPip(python=sys.executable, scratch=tmp_path / "scratch", package=tmp_path)
    found = old(PackageIndex(address="http://127.0.0.1:9/simple"), "demo")
    assert found.status == 1
    assert (
        "ERROR: environment.pip_before: pip 9.0 cannot be limited to a day, as pip 20.3 and later can" in found.output
    )
    assert found.reason.startswith("environment.pip_before: pip 9.0 cannot be limited to a day")
