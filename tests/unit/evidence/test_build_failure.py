"""Real failed builds, each with what a person would say of it: the specification of the parsers of builds."""

from __future__ import annotations

import time

import pytest

from reprokit.evidence.build_causes import READERS, find, rows
from reprokit.evidence.build_failure import MOST, explain
from reprokit.evidence.build_log import BuildLog
from tests.golden.builds import CASES, FOLDER, load

PIP = "RUN --mount=type=cache,id=a,target=/b . /run/reprokit/site.sh && pip install x"
SETUP = (
    "RUN BASH_ENV=/run/reprokit/failing-line.sh bash -eo pipefail /run/reprokit/setup.sh && find /w -exec chown {} +"
)


def test_every_failed_build_has_its_log() -> None:
    assert len(CASES) > 60
    assert sorted(path.stem for path in FOLDER.glob("*.log")) == sorted(CASES)


@pytest.mark.parametrize("name", CASES)
def test_the_cause_is_what_a_person_would_say(name: str) -> None:
    found, expected = explain(*load(name)), CASES[name]
    shown = f"{found.cause} {found.where}".lower()
    assert [text for text in expected["says"] if text.lower() not in shown] == [], found.reason
    assert found.put.startswith(expected.get("put", "")), found.reason
    assert bool(found.put) is ("put" in expected), found.reason
    assert found.reason.startswith(found.cause)
    assert len(found.cause) <= MOST
    assert "\n" not in found.reason
    assert "--mount" not in found.reason


def test_what_no_parser_knows_is_shown_by_its_last_lines() -> None:
    found = explain(PIP, ("one", "two", "", "three", "four"))
    assert found.reason == "the step failed; the last lines: two | three | four (step: pip install x)"
    assert found.put == ""
    silent = explain("RUN exit 7", (), "executor failed running [...]: exit code: 7")
    assert silent.reason == "the step failed with exit status 7 and printed nothing (step: exit 7)"


@pytest.mark.parametrize(
    ("line", "cause"),
    [
        ("curl: (60) SSL certificate problem: certificate has expired", "has expired"),
        ("ssl.SSLError: [SSL: CERTIFICATE_VERIFY_FAILED] Hostname mismatch", "is for another host"),
    ],
)
def test_a_certificate_that_is_wrong_in_itself_is_not_blamed_on_its_authority(line: str, cause: str) -> None:
    end = "reprokit: setup.sh line 1, exit status 60: curl https://a.invalid/x"
    assert explain(SETUP, (line, end)).cause == f"the certificate of https://a.invalid/x {cause}"


def test_an_index_that_answered_when_pip_tried_again_is_not_blamed() -> None:
    tried = (
        "WARNING: Retrying (Retry(total=4, connect=None)) after connection broken by 'Connection refused': /simple/x/"
    )
    none = "ERROR: Could not find a version that satisfies the requirement x==2 (from versions: 1.0, 3.0)"
    found = explain(PIP, (tried, none))
    assert found.cause == "the index has no x==2 for this Python and platform; the nearest are 1.0 and 3.0"


def test_a_step_that_the_kernel_killed_is_known_by_its_exit_status() -> None:
    assert "was killed" in explain(PIP, ("Collecting x",), 'process "/bin/sh" did not complete: exit code: 137').cause


def test_the_python_that_an_earlier_line_of_pip_names_is_not_that_of_another_package() -> None:
    ignored = "ERROR: Ignored the following versions that require a different python version: "
    ignored += "1.0 Requires-Python >=3.12"
    none = "ERROR: Could not find a version that satisfies the requirement other==1.0 (from versions: 0.9)"
    assert "other==1.0 needs Python >=3.12" in explain(PIP, (ignored, none)).cause
    apart = explain(PIP, (ignored, "Collecting a", "Collecting b", "Collecting other==1.0", none)).cause
    assert "the index has no other==1.0 for this Python" in apart


def test_a_patch_that_fails_after_much_output_is_explained_at_once() -> None:
    stop = "reprokit: setup.sh line 3, exit status 1: make && git apply x.patch"
    tail = [*["word " * 380] * 100, "error: patch failed: a.c:1", stop]
    began = time.process_time()
    assert explain("step", tail, message="exit code: 1").cause == "the patch does not apply to a.c"
    assert time.process_time() - began < 10


@pytest.mark.parametrize(
    "handled",
    [
        "curl: (6) Could not resolve host: a.invalid",
        "E: Unable to locate package x",
        "make: *** No rule to make target",
    ],
)
def test_a_failure_that_the_script_handled_is_not_blamed(handled: str) -> None:
    end = "reprokit: setup.sh line 9, exit status 1: test -d /absent"
    assert explain(SETUP, (handled, end)).cause == "test -d /absent failed with exit status 1"
    far = explain(SETUP, (handled, *("ok",) * 50, "reprokit: setup.sh line 9, exit status 2: ./own-tool"))
    assert far.cause == "./own-tool failed with exit status 2: ok"


@pytest.mark.parametrize(
    "lines",
    [("\x1b[31mred\x1b[0m",), ("\x00" * 1000,), ("a" * 3_000_000,), ("ERROR: " * 100_000,), (" " * 200_000 + "x",)],
)
def test_hostile_output_is_shown_short_and_safe(lines: tuple[str, ...]) -> None:
    found = explain(PIP, lines)
    assert len(found.reason) < 1000
    assert "\x1b" not in found.reason


@pytest.mark.parametrize(
    ("step", "short"),
    [
        (PIP, "pip install x"),
        (SETUP, "environment.setup"),
        (
            "RUN --mount=type=x \\\n . /run/reprokit/site.sh \\\n && apt-get update \\\n && apt-get install -y a b",
            "apt-get install a b",
        ),
        ("environment.setup", "environment.setup"),
        ('COPY --chown=1000:1000 ["files/", "/w/"]', 'COPY --chown=1000:1000 ["files/", "/w/"]'),
        ("RUN pip install " + "package " * 100, "pip install " + "package " * 8 + "..."),
    ],
)
def test_steps_are_named_in_short(step: str, short: str) -> None:
    assert explain(step, ()).step == short


def test_every_row_has_a_name_of_its_own_and_either_patterns_or_a_reader() -> None:
    names = [row.name for row in rows()]
    assert sorted(set(names)) == sorted(names)
    assert {row.read for row in rows()} - {""} == set(READERS)
    assert [row.name for row in rows() if bool(row.read) is bool(row.log) and not row.status] == []


@pytest.mark.parametrize(
    ("line", "cause", "put"),
    [
        ("error: package requires rustc 1.70.0 or newer", "the build needs a newer Rust (rustc 1.70.0 or newer)", ""),
        ("fatal: repository 'https://x.invalid/a/' not found", "there is no repository https://x.invalid/a/, or", ""),
        ("E: The repository 'http://x.invalid a' is not signed.", "the archive http://x.invalid a is not signed", ""),
        ("NO_PUBKEY AB12", "the key of the archive is not known (AB12)", ""),
        ("   Requires: glibc >= 3", "do not go together: one needs glibc >= 3", ""),
        ("No package 'libfoo' found", "pkg-config does not find libfoo", ""),
        ("CMake Error at a.txt:3 (message):\n  bad\n  thing", "CMake stops at a.txt:3: bad thing", ""),
        ("CMake 3.30 or higher is required.  You are running version 3.25", "and this is 3.25", "matrix.cmake: ["),
        ("aarch64-linux-gnu-gcc: command not found", "gcc is not installed", "matrix.gcc: [VERSION]"),
        (
            "following required packages can not be built:\n * jpeg, png",
            "jpeg and png",
            "environment.apt: [libjpeg-dev,",
        ),
        ("following required packages can not be built:\n * freetype, qhull", "headers of freetype and qhull", ""),
        ("cp: writing '/a b/c': No space left on device", "no space left on the device of /a b/c", ""),
        (
            "ERROR: Double requirement given: a==1 (already in a==2, name='a')",
            "the case asks for both a==1 and a==2",
            "",
        ),
        ("SSL certificate problem: certificate has expired", "the certificate of the server has expired", ""),
        ("CERTIFICATE_VERIFY_FAILED: Hostname mismatch", "the certificate of the server is for another host", ""),
        ("fatal: Authentication failed for 'https://x.invalid/'", "git needs a login for https://x.invalid/", ""),
        (
            "ERROR: Invalid requirement: './a'\nHint: It looks like a path. File './a' does not exist.",
            "the requirement ./a looks like a path",
            "",
        ),
        (
            "ERROR: In --require-hashes mode, all requirements must have their versions pinned.\n    numpy from x",
            "pip requires hashes, and numpy has no exact version",
            "",
        ),
        (
            "E: Failed to fetch http://x.invalid/a.deb  404 gone",
            "apt cannot fetch http://x.invalid/a.deb: 404 gone",
            "",
        ),
        (
            "dpkg: error processing package a (--configure):\n it is broken",
            "the package a cannot be installed: it is",
            "",
        ),
        ("BackendUnavailable: Cannot import 'a.build'", "needs its build backend a.build, which is not installed", ""),
        ("configuration error: `project.name` must be text", "setuptools refuses pyproject.toml", ""),
        ("/x/a: cannot execute: required file not found", "/x/a cannot run: its interpreter or loader", ""),
    ],
)
def test_causes_that_have_no_log(line: str, cause: str, put: str) -> None:
    found = find(BuildLog(step="RUN x", lines=tuple(line.split("\n"))))
    assert found is not None
    assert cause in " ".join(found.sentence.split())
    assert found.put.startswith(put)
    assert bool(found.put) is bool(put)
