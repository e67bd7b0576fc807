"""The documents in English and Chinese have the same content and working links, and their site can be built."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from docs.scripts import format_reference
from reprokit.engine import kinds

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").glob("*.md") if ".zh-CN" not in path.name)]
ENGLISH_ONLY = [ROOT / name for name in ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
ENGLISH_ONLY += sorted((ROOT / "docs" / "dev").glob("*.md"))
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")


def chinese(path: Path) -> Path:
    return path.with_suffix(".zh-CN.md")


def blocks(path: Path) -> list[tuple[str, str]]:
    """The fenced blocks with their language, without comments, which are in the reader's."""
    return [
        (language, re.sub(r"(?m)(?:^|\s+)# \S.*", "", body))
        for _, language, body in FENCE.findall(path.read_text(encoding="utf-8"))
    ]


def outline(path: Path) -> list[str]:
    """What each line outside of fences is, as far as it is not plain text: a heading of a level, a row of a table."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    return re.findall(r"^(?:#+(?= )|[|-])", text, re.MULTILINE)


def anchors(path: Path) -> set[str]:
    """The addresses of a document's headings, as GitHub makes them."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    heads = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_both_languages_show_the_same(path: Path) -> None:
    assert blocks(chinese(path)) == blocks(path)
    assert outline(chinese(path)) == outline(path)


@pytest.mark.parametrize("path", [*DOCUMENTS, *map(chinese, DOCUMENTS), *ENGLISH_ONLY], ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    for target in LINK.findall(text):
        if not target.startswith("https://"):
            name, _, anchor = target.partition("#")
            there = path.parent / name if name else path
            assert there.exists(), f"{path.name}: {target}"
            assert not anchor or anchor in anchors(there), f"{path.name}: {target}"


def test_the_pages_are_read_in_an_hour() -> None:
    assert sum(len(path.read_text(encoding="utf-8").split()) for path in DOCUMENTS) <= 22_750


@pytest.mark.parametrize(
    "path", [path for path in DOCUMENTS if path.name != "first-case.md"], ids=lambda path: path.name
)
def test_code_blocks_are_not_cut_on_the_site(path: Path) -> None:
    """But in the guide, whose blocks are what programs print."""
    shown = [line for _, _, body in FENCE.findall(path.read_text(encoding="utf-8")) for line in body.splitlines()]
    assert [line for line in shown if len(line) > 88] == []


def test_the_format_reference_is_up_to_date(capsys: pytest.CaptureFixture[str]) -> None:
    assert format_reference.main(["--check"]) == 0, capsys.readouterr().err


@pytest.mark.parametrize(("page", "head"), [("security.md", "protected"), ("security.zh-CN.md", "防范什么")])
def test_every_defence_names_tests_that_exist(page: str, head: str) -> None:
    part = (ROOT / "docs" / page).read_text(encoding="utf-8").partition(f"{head}\n\n| ")[2].partition("\n\n")[0]
    named = [re.search(r"\| `(test_\w+)` \|$", line) for line in part.splitlines()[2:]]
    assert len(named) > 15
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
    assert [one for one in named if one is None or f"\ndef {one[1]}(" not in tests] == []


@pytest.mark.system
def test_the_site_is_built_without_warnings_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("mkdocs", reason="needs mkdocs, of the extra docs")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(
        words, cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    pages = sorted(tmp_path.rglob("*.html"))
    assert {chinese(path).stem + ".html" for path in DOCUMENTS if path.parent.name == "docs"} <= {
        page.name for page in pages
    }
    loaded = re.compile(
        r"<(?:script|img|iframe|source)[^>]*\ssrc=[\"']?((?:https?:)?//[^\s\"'>]+)|"
        r"<link[^>]*\shref=[\"']?((?:https?:)?//[^\s\"'>]+)"
    )
    assert [hit for page in pages for hit in loaded.findall(page.read_text(encoding="utf-8"))] == []


@pytest.mark.parametrize("kind", kinds.CHOICES)
def test_every_engine_is_described(kind: str) -> None:
    for path in (ROOT / "docs" / "engines.md", ROOT / "docs" / "engines.zh-CN.md"):
        assert f"`{kind}`" in path.read_text(encoding="utf-8"), path.name
