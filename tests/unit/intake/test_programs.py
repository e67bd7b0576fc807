"""Which program a report's draft has, by how the report shows it."""

from __future__ import annotations

import json

import pytest

from reprokit.intake import facts_file, pieces, scripts
from reprokit.intake.drafting import draft

FENCE = "```"


def _files(text: str) -> dict[str, str]:
    return dict(draft(f"# The wibble fails\n\nDebian 12.\n\n{text}").data.get("files") or {})


def _program(text: str) -> str:
    found = draft(f"# The wibble fails\n\nDebian 12.\n\n{text}").data
    return next(iter(found.get("files", {}).values()), str(found["command"])).strip()


@pytest.mark.parametrize(
    ("text", "program"),
    [
        # Python 2
        (f"{FENCE}\nimport wib\nx = wib.load()\nprint 'size', x.size\n{FENCE}\n", "print 'size', x.size"),
        (
            f"{FENCE}python\nimport wib\ntry:\n    wib.go()\nexcept wib.Bad, e:\n    raise wib.Bad, 'no'\n{FENCE}\n",
            "wib.go()",
        ),
        # sessions
        (f"{FENCE}\nIn [1]: from wib import one, two\nIn [2]: one*two == 1\nOut[2]: True\n{FENCE}\n", "one*two == 1"),
        ("Steps:\n\n>>> g = wib.seed(0)\n>>> wib.go(g)\nwob\n", "g = wib.seed(0)\nwib.go(g)"),
        # blocks that go on
        (
            f"{FENCE}py\n  b = Wib(\n    a=1)\n  sim = Wob(b)\n{FENCE}\n{FENCE}py\n  job = sim.run([x])\n{FENCE}\n",
            "sim = Wob(b)\n\njob = sim.run([x])",
        ),
        # single backticks around several lines
        ("The code:\n`reader = wib.Reader()\n\nwhile True:\n    reader.go(1)\n`\n", "while True:\n    reader.go(1)"),
        # between sentences
        (
            "I run it so:\nsize = 3\nnet = wib.Net(size)\nout = net(size)\nand it hangs.\n",
            "size = 3\nnet = wib.Net(size)",
        ),
        (
            "The code:\nimport wib\n# so\ndef f(x):\n    y = wib.go(x)\n\n    return y\n\nprint(f(3))\nBad.\n",
            "    return y\n\nprint(f(3))",
        ),
        ("The code:\n> import wib\n> wib.go(1)\n\nIt fails.\n", "import wib\nwib.go(1)"),
        # one statement
        (f"It fails for:\n{FENCE}\nnet = wib.both(net, 300)\n{FENCE}\n", "net = wib.both(net, 300)"),
        # the one that works is another one
        (
            f"Works:\n{FENCE}py\nimport wib\nwib.go(1)\n{FENCE}\nFails:\n{FENCE}py\nimport wib\nwib.go(2)\n{FENCE}\n",
            "wib.go(2)",
        ),
        # a kernel without the name of its language
        (f"{FENCE}\n__global__ void k() {{}}\nint main() {{\n    k<<<1, 32>>>();\n}}\n{FENCE}\n", "k<<<1, 32>>>();"),
        # statements between backticks
        # a call that a sentence says was made
    ],
)
def test_the_program_is_found(text: str, program: str) -> None:
    assert program in _program(text)


@pytest.mark.parametrize(
    "text",
    [
        "The option `wib.turn(path)` is documented, and `import` is a word.\n",
        f"Extensions:\n\n{FENCE}python\n[]\n{FENCE}\n",
        f"{FENCE}\ndiff --git a/w.h b/w.h\n+++ b/w.h\n+  std::wib a;\n+  wib::go(a);\n+  auto b = a;\n{FENCE}\n",
        "One `tick and\nanother line of it\n\n\nthen the end`\n",
    ],
)
def test_other_text_gives_the_case_no_file(text: str) -> None:
    assert not _files(text)


def test_a_program_of_which_a_traceback_shows_a_line_is_the_one_that_fails() -> None:
    text = (
        f"{FENCE}python\nimport wib\nsim = wib.Sim(1)\n{FENCE}\n\nAll of it:\n\n{FENCE}python\nimport wib\n"
        f"def energy(s):\n    return s.result().data(0)\nenergy(wib.Sim(2))\n{FENCE}\n\n{FENCE}\n"
        'Traceback (most recent call last):\n  File "m.py", line 4, in <module>\n    energy(wib.Sim(2))\n'
        f'  File "m.py", line 3, in energy\n    return s.result().data(0)\nwib.Bad: no\n{FENCE}\n'
    )
    first = scripts.programs(pieces.cut(text).pieces)[0]
    assert "energy(wib.Sim(2))" in first.text


def test_other_files_that_a_command_or_a_program_names_are_in_the_case() -> None:
    text = (
        f"a.py:\n{FENCE}python\nimport b\nb.go(1)\n{FENCE}\nb.py:\n{FENCE}python\n"
        f"import os\ndef go(x):\n    os.abort()\n"
        f"{FENCE}\nc.py:\n{FENCE}python\nimport os\nprint(os.name)\n{FENCE}\nI run `python a.py`.\n"
    )
    assert set(_files(text)) == {"a.py", "b.py"}


def test_the_only_configuration_that_a_command_names_is_in_the_case() -> None:
    play = "```yaml\n- name: Wobble\n  wobble: {{ item }}\n```\n"
    text = f"# It fails\n\n{play}\n```\n$ wob-playbook upgrade.yml -v\nERROR: no third wobble\n```\n"
    assert list(draft(text).data["files"]) == ["upgrade.yml"]
    assert "files" not in draft(text.replace("upgrade.yml -v", "upgrade.yml other.yaml")).data


def test_imports_that_an_example_leaves_out_are_added() -> None:
    program = f"{FENCE}python\nx = np.zeros(3)\nos.abort()\nwibble.go(json)\n{FENCE}\n"
    data = draft(f"# It fails\n\n{program}\nValueError: no\n").data
    assert data["files"]["repro.py"].split("\n")[:2] == [
        "import numpy as np  # added: the report uses np without it",
        "import os  # added: the report uses os without it",
    ]
    assert "import wibble" not in data["files"]["repro.py"]
    assert data["environment"]["pip"] == ["numpy"]


def test_frames_in_files_that_the_case_does_not_have_are_left_out() -> None:
    trace = 'Traceback (most recent call last):\n  File "mine.py", line 3, in go\n    x()\n'
    trace += '  File "/v/lib/python3.11/site-packages/scipy/a.py", line 5, in b\n    c()\nValueError: no\n'
    program = f"{FENCE}python\nimport scipy\nscipy.go(1)\n{FENCE}\n"
    failure = draft(f"# It fails\n\n{program}\n{FENCE}\n{trace}{FENCE}\n").data["expect"]["failure"]
    assert failure["frames"] == ["a.py:b"]


def test_a_linter_may_end_with_any_exit_status() -> None:
    text = f"# It says too much\n\n{FENCE}\n$ pylint src\na.py:2:0: R2044: Line with empty comment\n{FENCE}\n"
    facts = [
        {"fact": "command", "line": 4, "text": "pylint src"},
        {"fact": "failure", "kind": "wrong", "line": 5, "text": "R2044: Line with empty comment"},
    ]
    found = draft(text, facts=facts_file.load(json.dumps(facts), "facts.json")).data["expect"]["failure"]
    assert found == {"output": "R2044: Line with empty comment"}
