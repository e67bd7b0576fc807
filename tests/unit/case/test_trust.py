"""How far a case is trusted, the one table of what follows from it, and the docs that show that table."""

from __future__ import annotations

import io
import re
from dataclasses import fields, replace
from pathlib import Path

import pytest

from docs.scripts import format_reference, trust_table
from reprokit.case.trust import ALLOWANCES, Allowance, Trust, of_path
from reprokit.environment.cases import load, load_text

ROOT = Path(__file__).parents[3]
CASE = "schema: reprokit/v1\nid: pasted\ntitle: Pasted\ncommand: 'false'\n"


@pytest.mark.parametrize(
    ("path", "trust"),
    [
        ("bug.yaml", Trust.OWN),
        ("/tmp/other-user/bug.yaml", Trust.OWN),
        ("<stdin>", Trust.OWN),
        ("http://localhost:8000/bug.yaml", Trust.OWN),
        ("http://[::1]/bug.yaml", Trust.OWN),
        ("https://github.com/o/r/issues/7", Trust.STRANGER),
        ("HTTPS://EXAMPLE.ORG/bug.yaml", Trust.STRANGER),
        ("http://localhost.example.org/bug.yaml", Trust.STRANGER),
        ("http://user@localhost/bug.yaml", Trust.STRANGER),
    ],
)
def test_a_case_has_its_level_from_where_it_was_read(path: str, trust: Trust) -> None:
    assert of_path(path) is trust
    assert load_text(path, CASE).trust is trust


def test_files_and_standard_input_are_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "bug.md").write_text(f"```yaml\n{CASE}```\n")
    [file], [piped] = load(str(tmp_path / "bug.md")), load("-", stdin=io.StringIO(CASE))
    assert (file.trust, piped.trust) == (Trust.OWN, Trust.OWN)


def test_no_level_gets_more_than_one_that_is_trusted_further() -> None:
    own, reviewed, stranger = (ALLOWANCES[level] for level in Trust)
    # A review is of a file that anyone may have sent: its programs stay in containers.
    assert replace(reviewed, domain="", on_host=True) == own
    assert not reviewed.on_host
    assert len({one.domain for one in ALLOWANCES.values()}) == len(Trust)
    for one in fields(Allowance):
        least, most = getattr(stranger, one.name), getattr(own, one.name)
        if isinstance(most, bool):
            assert least is (one.name == "asks"), one.name
        elif one.name != "domain":
            assert most is None, one.name
            assert least is not None, one.name


def test_every_defence_asks_the_table() -> None:
    compared = re.compile(
        r"trust (is|==|!=|in|not in) (?!(not )?None)|(is|is not|==|!=|in) \(?Trust\.|match .*trust\b|if .*Trust\."
    )
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted((ROOT / "reprokit").rglob("*.py"))
        if path.name != "trust.py"
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if compared.search(line) and "CellDetails()" not in line
    ]
    assert not found, "\n".join(found)


SITE, ENGINE, OURS = "the site's own, whatever the case", "of the engine or this host itself", "a folder of ours"
USES: dict[str, tuple[str, dict[str, str]]] = {
    "logins": (
        r"\b(get_config_header|resolve_authconfig|load_config|authorization|registry_login|netrc_file\.\w+)\(",
        {
            "engine/credential_helpers.py": "credentials",
            "engine/docker/buildkit.py": "asked by engine/credential_helpers.py: credentials",
            "engine/images.py": "asked by engine/credential_helpers.py: credentials",
            "engine/site/assembly.py": "credentials",
            "engine/site/gateway/server.py": "credentials",
            "engine/site/gateway/upstream.py": "credentials",
            "engine/site/answers.py": "credentials",
            "engine/site/reaching.py": SITE,
        },
    ),
    "sockets": (
        r"\b(socket\.(socket|create_connection)|http_client\.\w+|httpcore\.\w+|urlopen|getaddrinfo|addresses\.\w+)\(",
        {
            "engine/site/gateway/access.py": "any_host",
            "engine/site/gateway/upstream.py": "credentials",
            "engine/site/gateway/server.py": ENGINE,
            "engine/docker/session.py": ENGINE,
            "engine/bases.py": SITE,
            "run/debuggers.py": "asked by run/trials.py: debug_files",
            "run/launch/ray_cluster.py": ENGINE,
        },
    ),
    "git": (r'"git"', {"run/sources.py": "any_source", "run/exporting.py": "of two folders of ours: no address"}),
    "folders of this host": (
        r"\bMount\(",
        {
            "run/trials.py": "what run/request.py gives: configured_folders",
            "run/by_hand.py": "asks",
            "run/debuggers.py": OURS,
        },
    ),
    "capabilities": (r"CapAdd|SecurityOpt\b", {"engine/container_spec.py": "file_capabilities"}),
    "host programs": (
        r"\bHostProcess\(",
        {"engine/venv/environments.py": "on_host", "engine/venv/trials.py": "on_host"},
    ),
}
"""What reaches something of the host or the user -> how code does it, and the modules that do, each with the row of
the table that decides it, or why none does. Whoever adds a use names the row here, and asks the table for it.
"""


@pytest.mark.parametrize("use", USES)
def test_what_reaches_the_host_is_decided_by_the_table(use: str) -> None:
    pattern, listed = USES[use]
    rooms = {
        path.relative_to(ROOT / "reprokit").as_posix(): path.read_text(encoding="utf-8")
        for room in ("engine", "run")
        for path in (ROOT / "reprokit" / room).rglob("*.py")
    }
    called = re.compile(rf"(?<!def )(?<!class ){pattern}")
    assert {name for name, text in rooms.items() if called.search(text)} == set(listed)
    for name, row in listed.items():
        beside = (text for other, text in rooms.items() if other.rpartition("/")[0] == name.rpartition("/")[0])
        assert " " in row or re.search(rf"\.{row}\b", "".join(beside)), name


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_the_docs_show_the_table(language: str) -> None:
    page = trust_table.PAGES[language]
    assert page.read_text(encoding="utf-8") == trust_table.with_table(page.read_text(encoding="utf-8"), language)
    assert page in {path for path, _ in format_reference.pages()}
    assert set(trust_table.WORDS) == {one.name for one in fields(Allowance)}
