"""Code, messages, documents and the names of tests use the words of ``docs/dev/words.md``."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CODE = sorted((ROOT / "reprokit").rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
PAGES = [
    *(path for path in ROOT.glob("*.md") if ".zh-CN" not in path.name),
    *(path for path in sorted((ROOT / "docs").rglob("*.md")) if ".zh-CN" not in path.name and path.stem != "words"),
]
RULED_OUT = re.compile(
    r"(?i:\b(?:can(?:not)? be had|mend(?:s|ed|ing)?|nobody|somebody|anybody|strangers?|lent|end(?:s|ed) well|met first"
    r"|told|anew|whence|upon|likewise|stands here|one's own|dies of|beyond doubt)\b)"
    r"|(?i:(?<!there )\b(?:is|are|was|were) no (?!(?:one|longer|more|less|wider|shorter|larger|better)\b))"
    r"|(?<![Tt]here )\b(?:is|are|was|were) none\b"
)
"""Of what that page rules out, what no sentence needs; `there is no`, `there is none` and None are fine."""
NEEDED = {
    "reprokit/case/trust.py": {"stranger"},  # a word of records, as that page says
    "reprokit/core/private_people.py": {"nobody"},  # the user of Unix, here and below
    "reprokit/intake/unbundling.py": {"stranger"},  # in the tags of images
    "tests/unit/engine/test_gpus_leases.py": {"nobody"},
}
FENCE = re.compile(r"^(`{3,})(\w*)\n(.*?)^\1$", re.MULTILINE | re.DOTALL)


def texts(path: Path) -> Iterator[tuple[int, str]]:
    """What people read in a module, with its line: names of functions and classes, documentation, comments.

    And strings, but not those of a test, where they are what a program or a person wrote.
    """
    source = path.read_text(encoding="utf-8")
    if not ruled_out(source.replace("_", " ")):
        return  # parsing takes much longer
    strings = path in CODE
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
            yield (
                getattr(node, "lineno", 1),
                f"{getattr(node, 'name', '').replace('_', ' ')}: {ast.get_docstring(node)}",
            )
        elif strings and isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def ruled_out(text: str) -> set[str]:
    return {found.group().lower().strip() for found in RULED_OUT.finditer(re.sub(r"\s+", " ", text))}


@pytest.mark.system  # `make lint` runs it
@pytest.mark.parametrize("room", sorted({path.relative_to(ROOT).parts[:2] for path in [*CODE, *TESTS]}))
def test_code_uses_the_words_of_the_glossary(room: tuple[str, ...]) -> None:
    wrong = [
        f"{name}:{line}: {', '.join(sorted(words))}"
        for path in [*CODE, *TESTS]
        if path.relative_to(ROOT).parts[:2] == room
        for name in [path.relative_to(ROOT).as_posix()]
        for line, text in texts(path)
        if (words := ruled_out(text) - NEEDED.get(name, set()))
    ]
    assert not wrong, "docs/dev/words.md says what to write instead:\n" + "\n".join(wrong)


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_use_the_words_of_the_glossary(path: Path) -> None:
    rows = FENCE.sub("", path.read_text(encoding="utf-8")).splitlines()
    assert [row for row in rows if ruled_out(row)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x.yaml is no folder", {"is no"}),
        ("the lock is\n  no file", {"is no"}),
        ("this is none of ours", {"is none"}),
        ("Nobody was told", {"nobody", "told"}),
        ("there is no folder, it is no longer needed, and there is none", set()),
        ("``exit_code`` is None; there are none; no one", set()),
    ],
)
def test_words_are_found(text: str, words: set[str]) -> None:
    assert ruled_out(text) == words


def test_a_class_name_means_one_thing() -> None:
    """Of the classes that other modules can use; the private ones of a module are its own."""
    found: dict[str, list[str]] = {}
    for path in CODE:
        for name in re.findall(r"^class ([A-Za-z]\w*)|^([A-Z][a-z]\w*) = ", path.read_text(encoding="utf-8"), re.M):
            found.setdefault("".join(name), []).append(path.relative_to(ROOT).as_posix())
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}, "give one of each another name"
