"""Programs that fail on this machine are captured, and their cases run as they were written, in a container."""

from __future__ import annotations

import sys

import pytest

from tests.integration.test_run import User

pytestmark = pytest.mark.integration

PROGRAMS = {
    "python": (
        {
            "lib/parse.py": "def parse(text):\n    return int(text)\n",
            "go.py": "from lib.parse import parse\nparse('x')\n",
        },
        [sys.executable, "go.py"],
        1,
    ),
    "package": (
        {
            "tool/__init__.py": "",
            "tool/__main__.py": "import sys\nfrom tool.rows import total\nprint(total(sys.argv[1]))\n",
            "tool/rows.py": "def total(path):\n    return sum(float(line.split(',')[1]) for line in open(path))\n",
            "data/rows.csv": "a,1.5\nb,two\n",
        },
        [sys.executable, "-m", "tool", "data/rows.csv"],
        1,
    ),
    "native": (
        {"crash.c": '#include "n.h"\nint main(void) { return *N; }\n', "n.h": "#define N ((int *)0)\n"},
        ["bash", "-c", "gcc -O0 crash.c -o crash && ./crash"],
        139,
    ),
    "compiler": ({"bad.c": "int main(void) { return missing; }\n"}, ["gcc", "-c", "bad.c"], 1),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_what_fails_here_fails_in_a_container_as_it_was_captured(user: User, name: str) -> None:
    texts, words, status = PROGRAMS[name]
    for path, text in texts.items():
        (user.folder / path).parent.mkdir(exist_ok=True)
        user.write(path, text)
    said = user.types("new", "-o", "captured.yaml", "--", *words, status=status)
    assert "next: reprokit run captured.yaml" in said
    assert "all as expected" in user.types("run", "captured.yaml")
    assert [cell["verdict"] for cell in user.cells()] == ["reproduced"]
