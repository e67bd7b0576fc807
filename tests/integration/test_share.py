"""From a run to an issue and back on the real engine: shared, pasted and fetched again it gives the same verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest

from reprokit.environment.cases import load
from tests.integration.test_run import REPOSITORY, User
from tests.unit.github.server import TOKEN, Forge

pytestmark = pytest.mark.integration
CASE = REPOSITORY / "cases" / "ptxas_unknown_arch.yaml"


@pytest.mark.nightly
def test_a_run_is_shared_as_an_issue_and_run_again_from_its_address(tmp_path: Path) -> None:
    user = User(tmp_path)
    user.types("run", str(CASE), "--cuda", "11.7,11.8")
    first = [(cell["cell"], cell["verdict"], cell["image"]["tag"]) for cell in user.cells()]
    user.types("share", "-o", "issue.md")
    text = (tmp_path / "issue.md").read_text()
    assert "| `11.7` | not-reproduced | **reproduced** |" in text
    assert str(tmp_path) not in text
    [file] = load(str(CASE))
    forge = Forge("o/r")
    number = forge.open_issue("pasted", text.replace("\n", "\r\n"))
    url = f"https://github.example/o/r/issues/{number}"
    with forge.served():
        user.environment |= {"GITHUB_SERVER_URL": "https://github.example", "GITHUB_API_URL": forge.url}
        user.environment |= {"GITHUB_TOKEN": TOKEN, "GH_TOKEN": ""}
        refused = user.types("run", url, status=2)
        assert "nothing else: no setup script" in refused
        assert f"--reviewed {file.digest}" in refused
        assert file.digest in user.types("run", url, "--reviewed", f"sha256:{'0' * 64}", status=2)
        user.types("run", url, "--cuda", "11.7,11.8", "--reviewed", file.digest)
    reviewed = [(cell, verdict, tag.replace(":", ":reviewed-")) for cell, verdict, tag in first]
    assert [(cell["cell"], cell["verdict"], cell["image"]["tag"]) for cell in user.cells()] == reviewed
    assert user.result()["cases"][0]["digest"] == file.digest
