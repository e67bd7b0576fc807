"""Facts that a reader states of a report: what is taken, what is left out, and that no answer makes a wrong case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.cli import invoke
from reprokit.environment.cases import load_text
from reprokit.intake import facts as facts_file
from reprokit.intake.draft import Draft, render
from reprokit.intake.drafting import draft, request
from tests.unit.limits import within

REPORT = """\
# The third wobble is lost since the last update

We moved the lab machines (Ubuntu 22.04, the python there is 3.10) to wobbler, twelve of them carry an A100.
With 2.4.1 all was well, now on 2.5.0 whatever we feed it comes back short, with WOB_MODE=fast at least:

> python feed.py --all
> wobbles: 2 of 3 left

The feeder, checked out from our fork github.com/lab/feeder at 1a2b3c4:

> from wobbler import Wobbler
> Wobbler(3).feed()

Nothing else. ValueError: no third wobble, how can I find it?
"""


def made(*facts: dict[str, Any], report: str = REPORT) -> Draft:
    return draft(report, facts=facts_file.parse_answer(json.dumps({"facts": facts}), "facts.json"))


def version(of: str, value: str, line: int, **more: bool) -> dict[str, Any]:
    return {"fact": "version", "of": of, "value": value, "line": line, **more}


FAILURE = {"fact": "failure", "kind": "exception", "line": 14}


def test_what_only_a_reader_understands_is_in_the_case() -> None:
    found = made(
        version("os", "Ubuntu 22.04", 3),
        version("python", "3.10", 3),
        version("package wobbler", "2.5.0", 4),
        version("package wobbler", "2.4.1", 4, works=True),
        {"fact": "gpu", "line": 3},
        {"fact": "env", "name": "WOB_MODE", "value": "fast", "line": 4},
        {"fact": "command", "line": 6, "text": "python feed.py --all"},
        {"fact": "script", "line": 11, "last": 12, "name": "feed.py"},
        {"fact": "source", "git": "https://github.com/lab/feeder", "ref": "1a2b3c4", "line": 9},
        {"fact": "contrast", "fails": "twelve of them", "works": "our fork", "line": 3},
        {"fact": "failure", "kind": "wrong", "line": 7, "text": "wobbles: 2 of 3 left"},
    )
    data = found.data
    assert data["matrix"] == {"os": ["ubuntu-22.04"], "python": ["3.10"], "wobbler": ["2.4.1", "2.5.0"]}
    assert [cell["wobbler"] for cell in found.passing] == ["2.4.1"]
    assert data["environment"]["pip"] == ["wobbler=={{ wobbler }}"]
    assert data["resources"]["gpus"] == "1"
    assert data["expect"]["reproduces"] == [{"wobbler": "2.5.0"}]
    assert data["env"] == {"WOB_MODE": "fast"}
    assert data["command"] == "python feed.py --all"
    assert data["files"]["feed.py"] == "from wobbler import Wobbler\nWobbler(3).feed()\n"
    assert data["sources"]["feeder"] == {"git": "https://github.com/lab/feeder", "ref": "1a2b3c4", "path": "feeder"}
    assert any("Line 3: it works with our fork in the place of twelve of them" in text for text in found.missing)
    # A sentence that tells of it is not what is printed, unless it stands in pasted text.
    assert "TODO(reprokit)" in data["expect"]["failure"]["output"]
    assert load_text("case.yaml", render(found), draft=True).case.id


def test_what_is_changed_where_it_works_is_an_axis() -> None:
    facts = [
        {"fact": "env", "name": "WOB_MODE", "value": "fast", "line": 4},
        {"fact": "command", "line": 6, "text": "python feed.py --all"},
        {"fact": "contrast", "fails": "WOB_MODE=fast", "works": "WOB_MODE=slow", "line": 4},
        {"fact": "contrast", "name": "feed", "fails": "--all", "works": "--one", "line": 6},
    ]
    found = made(*facts, report=f"{REPORT}Or: WOB_MODE=slow, --one\n")
    assert found.data["matrix"] == {"wob_mode": ["fast", "slow"], "feed": ["--all", "--one"]}
    assert found.data["env"] == {"WOB_MODE": "{{ wob_mode }}"}
    assert found.data["command"] == "python feed.py {{ feed }}"
    assert found.passing == ({"wob_mode": "slow"}, {"feed": "--one"})
    assert found.data["expect"]["reproduces"] == [{"feed": "--all", "wob_mode": "fast"}]
    assert load_text("case.yaml", render(found), draft=True).case.id


def test_a_reader_wins_over_what_is_listed_and_the_rest_stays() -> None:
    rows = "numpy==1.26.4\nscipy==1.13.1\nwibble==1.0.0\nwobble==2.0.0\n"
    report = f"# It crashes\n\n```\n$ pip freeze\n{rows}```\nSorry, by now wibble is 1.1.2 here.\n"
    pip = made(version("package wibble", "1.1.2", 10), report=report).data["environment"]["pip"]
    assert {"wibble==1.1.2", "wobble==2.0.0", "numpy==1.26.4"} <= set(pip)


def test_versions_that_fail_and_one_that_works_are_cells() -> None:
    report = "# It crashes\n\nwibble 1.0.0 fails, 1.1.0 fails, and 0.9.0 works.\n"
    facts = [version("package wibble", one, 3) for one in ("1.0.0", "1.1.0")]
    found = made(*facts, version("package wibble", "0.9.0", 3, works=True), report=report)
    assert found.data["matrix"]["wibble"] == ["0.9.0", "1.0.0", "1.1.0"]
    assert "package wibble 0.9.0: line 3, where it works" in found.notes[("matrix",)]
    assert found.data["expect"]["reproduces"] == [{"wibble": "1.0.0"}, {"wibble": "1.1.0"}]
    assert "reproduces" not in made(*facts, report=report).data["expect"]


@pytest.mark.parametrize("said", ["Ubuntu", "Windows 10", "macOS 13.0"])
def test_a_system_without_a_release_or_without_containers_is_not_said_to_be_missing(said: str) -> None:
    report = "# It ends\n\nSeen on Ubuntu,\nWindows 10 and\nmacOS 13.0 with wobbler 2.5.0\n"
    found = made(version("os", said, 4), version("package wobbler", "2.5.0", 5), report=report)
    assert not [text for text in found.missing if text.startswith("os ")]


LOG = "# It ends\n\n```\nloading [0., 3]\n{}\n```\nThen it hangs for good.\n"


@pytest.mark.parametrize(
    ("fact", "expected"),
    [
        ({"kind": "hang", "line": 7}, {"timed_out": "true"}),
        ({"kind": "oom", "line": 7}, {"out_of_memory": "true"}),
        ({"kind": "wrong", "line": 5, "text": "wobbles: 2 of 3"}, {"exit_code": "0", "output": "wobbles: 2 of 3"}),
        ({"kind": "wrong", "line": 4, "text": "[0., 3]"}, {"exit_code": "0", "output": "[0., 3]"}),
        ({"kind": "output", "line": 5, "text": "wobbles: 2 of 3"}, {"output": "wobbles"}),
        ({"kind": "slow", "line": 7}, {"output": "TODO(reprokit): write how it fails"}),
        ({"kind": "output", "line": 7}, {"output": "TODO(reprokit): write how it fails"}),
    ],
)
def test_kinds_of_failures(fact: dict[str, Any], expected: dict[str, str]) -> None:
    found = made({"fact": "failure", **fact}, report=LOG.format("wobbles: 2 of 3")).data["expect"]["failure"]
    assert set(found) == set(expected)
    assert found["output"].startswith("TODO" if "TODO" in expected["output"] else "") if "output" in found else True
    assert found == expected or "output" in expected
    assert fact["kind"] != "wrong" or found == expected, "what is wrong of a result is its numbers"


@pytest.mark.parametrize(
    ("line", "text", "expected"),
    [
        (3, "", {"exception": "ValueError", "message": "no third wobble"}),
        (4, "KeyError: 'third wobble'", {"exception": "KeyError", "message": "third wobble"}),
        (4, "", {"output": "TODO(reprokit): write how it fails"}),  # where its message ends is for a reader to say
    ],
)
def test_an_exception_in_a_list_or_a_sentence(line: int, text: str, expected: dict[str, str]) -> None:
    report = "# It ends\n\n- ValueError: no third wobble\nIt says `KeyError: 'third wobble'`, how can I find it?\n"
    fact = {"fact": "failure", "kind": "exception", "line": line, "text": text}
    assert made(fact, report=report).data["expect"]["failure"] == expected


def test_a_program_that_only_imports_fails_with_what_is_installed_before_it() -> None:
    report = "# It ends\n\npip install wobbler\n\n>>> import wobbler\nValueError: no third wobble\n"
    script = {"fact": "script", "line": 5, "last": 5, "language": "python"}
    failure = {"fact": "failure", "kind": "exception", "line": 6}
    data = made({"fact": "command", "line": 3}, script, failure, report=report).data
    assert (data["files"]["repro.py"], data["command"]) == ("import wobbler\n", "python repro.py")
    assert data["environment"]["pip"] == ["wobbler"]


def test_code_in_the_line_of_its_fence_or_in_a_sentence_is_without_its_marks() -> None:
    report = "# It ends\n\n```import wobbler as w\nw.feed()```\n\n`w.lose(3)`\n"
    facts = [{"fact": "script", "line": line, "last": last, "language": "python"} for line, last in ((3, 4), (6, 6))]
    assert made(*facts, report=report).data["files"]["repro.py"] == "import wobbler as w\nw.feed()\nw.lose(3)\n"


def test_a_package_is_named_as_people_call_it_too() -> None:
    report = "# It fails\n\nWith OpenCV 4.8.0 and PyTorch 2.1.0 and node 18.1.0 it fails.\n"
    facts = [version("opencv", "4.8.0", 3), version("package torch", "2.1.0", 3), version("program node", "18.1.0", 3)]
    found = made(*facts, report=report).data
    assert sorted(found["environment"]["pip"]) == ["opencv-python==4.8.0.*", "torch==2.1.0"]
    assert "node" not in str(found["matrix"])  # nothing installs it


def test_versions_are_read_as_their_axis_has_them() -> None:
    report = "# It fails\n\nGPU, cuDNN 8902 and CUDA V11.8.89, g++ 9.4.0\n"
    found = made(
        version("cudnn", "8902", 3), version("cuda", "V11.8.89", 3), version("g++", "9.4.0", 3), report=report
    ).data["matrix"]
    assert (found["cudnn"], found["cuda"], found["gcc"]) == (["8.9"], ["11.8"], ["9.4"])


def test_a_commit_without_a_repository_is_of_the_reports_own() -> None:
    source = {"fact": "source", "ref": "1a2b3c4", "line": 9}
    facts = facts_file.parse_answer(json.dumps({"facts": [source, FAILURE]}), "facts.json")
    assert "is not an address of a repository" in str(draft(REPORT, facts=facts).missing)
    found = draft(REPORT, url="https://github.com/lab/wobble/issues/7", facts=facts).data["sources"]["wobble"]
    assert (found["git"], found["ref"]) == ("https://github.com/lab/wobble", "1a2b3c4")


def test_a_variable_whose_value_was_removed_is_not_set() -> None:
    report = '# It hangs\n\nos.environ["WOB_API_KEY"] = "sk-wob-abcdef0123456789abcdef"\n'
    found = made({"fact": "env", "name": "WOB_API_KEY", "value": "<secret>", "line": 3}, report=report)
    assert "env" not in found.data
    assert any("was removed from the report as private" in text for text in found.missing)


def test_texts_are_as_the_report_writes_them() -> None:
    report = "# It is wrong\n\n```\n$ python feed.py  --All\nWobbles:      NONE\n```\n"
    found = made(
        {"fact": "command", "line": 4, "text": "Python feed.py --all"},
        {"fact": "failure", "kind": "output", "line": 5, "text": "wobbles: none"},
        report=report,
    ).data
    assert found["command"].strip().endswith("python feed.py  --All")
    assert found["expect"]["failure"]["output"] == "Wobbles:      NONE"


def test_a_traceback_is_read_from_its_first_line() -> None:
    report = (
        '# x\n\n```\nTraceback (most recent call last):\n  File "a.py", line 3, in go\n    run()\nKeyError: 7\n```\n'
    )
    shown = made({"fact": "failure", "kind": "exception", "line": 7}, report=report).data["expect"]["failure"]
    assert shown["exception"] == "KeyError"
    assert shown["frames"] == ["a.py:go"]


@pytest.mark.parametrize(
    ("fact", "why"),
    [
        (version("package wobbler", "9.9.9", 4), "does not have '9.9.9'"),
        (version("package wobbler", "2.5", 4), "does not have '2.5'"),
        (version("package a b", "3.10", 3), "'a b' is not the name of a package"),
        (version("program x", "\n", 3), "'' is not a version"),
        (version("", "3.10", 3), "'' is not the name of a package"),
        ({"fact": "env", "name": "now on", "value": "2.5.0", "line": 4}, "'now on' is not the name of a variable"),
        (version("os", "debian-12", 3), "does not have 'debian-12'"),
        ({"fact": "env", "name": "WOB_MODE", "value": "slow", "line": 4}, "does not have 'slow'"),
        ({"fact": "command", "line": 6, "text": "rm -rf /"}, "does not have 'rm -rf /'"),
        ({"fact": "source", "git": "https://github.com/evil/tree", "line": 9}, "does not have 'github.com/evil/tree'"),
        (
            {"fact": "source", "git": "https://evil.example/o/feeder", "line": 9},
            "does not have 'evil.example/o/feeder'",
        ),
        (version("package evilpkg", "2.5.0", 4), "does not name 'evilpkg'"),
        ({"fact": "source", "git": "feeder", "line": 9}, "feeder is not an address of a repository"),
        ({"fact": "failure", "kind": "output", "line": 7, "text": "all lost"}, "does not have 'all lost'"),
        ({"fact": "command", "line": 2}, "there is nothing in line 2"),
        ({"fact": "gpu", "line": 99}, "no lines 99 to 99 of the 15"),
        ({"fact": "script", "line": 12, "last": 11}, "no lines 12 to 12"),
    ],
)
def test_what_the_report_does_not_have_is_left_out_and_said_so(fact: dict[str, Any], why: str) -> None:
    found = made(fact, FAILURE)
    assert any("Fact 1" in sentence and why in sentence for sentence in found.missing)
    text = render(found)
    values = [str(value) for key, value in fact.items() if key in ("value", "text", "git") and value not in REPORT]
    assert not [value for value in values if value in text.split("schema:")[1]]
    assert load_text("case.yaml", text, draft=True)


def test_a_line_that_is_a_little_off_is_found() -> None:
    assert made(version("python", "3.10", 7)).data["matrix"]["python"] == ["3.10"]


def test_the_question_has_numbered_lines_and_nothing_private() -> None:
    asked = request("# It fails\n\nlena@dune:~$ python /home/lena/a.py --token=ghp_" + "a1B2" * 9 + "\n")
    assert "\n1 # It fails\n" in asked
    assert "lena" not in asked
    assert "a1B2" not in asked


def test_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("report.md").write_text(REPORT, encoding="utf-8")
    assert invoke(["new", "--from", "report.md", "--ask"]) == 0
    asked = capsys.readouterr().out
    assert "\n14 Nothing else. ValueError" in asked
    Path("facts.json").write_text(json.dumps({"facts": [version("python", "3.10", 3), FAILURE]}), encoding="utf-8")
    assert invoke(["new", "--from", "report.md", "--facts", "facts.json", "-o", "case.yaml"]) == 0
    assert invoke(["validate", "case.yaml"]) == 2  # it has no command
    capsys.readouterr()
    for words in (["--ask"], ["--facts", "facts.json"], ["--from", "report.md", "--ask", "--facts", "facts.json"]):
        assert invoke(["new", *words]) == 2
        assert "--from report.md --ask > question.txt" in capsys.readouterr().err
    assert invoke(["new", "--from", "report.md", "--facts", "none.json"]) == 2
    assert "none.json: no such file" in capsys.readouterr().err


def test_facts_that_are_made_to_hold_it_cost_little() -> None:
    report = "# It fails\n\n" + "".join(f"wibble {n} says something of 1.{n}.0\n" for n in range(1000))
    many = [{"fact": "command", "line": 3, "last": 1002}] * 199
    with within(seconds=20, megabytes=300):
        text = "".join(f"wibble {n}\n" for n in range(210))
        found = made(*many, {"fact": "command", "line": 3, "text": text}, report=report)
    assert sum("the facts before it have 100000 characters" in one for one in found.missing) > 190
    assert any("its text has more than 200 lines" in one for one in found.missing)


@pytest.mark.parametrize(
    ("said", "signal", "taken"),
    [
        ("It crashes.", "SIGSEGV", False),
        ("It is gone.", "SIGKILL", False),
        ("Segmentation fault (core dumped)", "SIGSEGV", True),
        ("signal: 11", "SIGSEGV", True),
        ("Aborted", "SIGABRT", True),
        ("Killed", "SIGKILL", True),
        ("Floating point exception", "SIGFPE", True),
    ],
)
def test_a_signal_that_the_report_does_not_name_is_not_taken(said: str, signal: str, taken: bool) -> None:
    fact = {"fact": "failure", "kind": "signal", "signal": signal, "line": 3}
    found = made(fact, report=f"# The feeder ends\n\n{said}\n").data["expect"]["failure"]
    assert found == ({"signal": signal} if taken else found)
    assert taken or "TODO(reprokit)" in found["output"]


def test_a_command_over_several_lines_may_be_stated_as_one() -> None:
    report = "# It ends\n\n[root@x y]# wob-train --a 1 \\\n>   --b 2 \\\n>   --c 3 &> wob.log\n\nfatal: no wob\n"
    found = made({"fact": "command", "line": 3, "text": "wob-train --a 1 --b 2 --c 3 &> wob.log"}, report=report)
    assert "--b 2" in found.data["command"]
    assert found.data["command"].startswith("wob-train --a 1")


def test_a_release_is_of_the_system_that_is_named_above_it() -> None:
    report = "# It ends\n\n- OS: Ubuntu\n- OS Version: 16.04\n"
    assert made(version("os", "16.04", 4), report=report).data["matrix"]["os"] == ["ubuntu-16.04"]


def test_the_crash_of_a_compiler_is_not_that_of_the_program() -> None:
    report = "# It ends\n\n```\na.c:9:1: internal compiler error: Segmentation fault\nmake: *** [a.o] Error 1\n```\n"
    fact = {"fact": "failure", "kind": "signal", "signal": "SIGSEGV", "line": 4, "last": 5}
    failure = made(fact, report=report).data["expect"]["failure"]
    assert failure == {"output": "internal compiler error: Segmentation fault"}


LINES = st.integers(1, 16)
TEXTS = st.sampled_from(
    ["2.5.0", "3.10", "{{ x }}", "a: b", "wobbler", "\n", "'", "Ubuntu 22.04", "-", "WOB_MODE", "#"]
)
FACTS = st.one_of(
    st.builds(
        lambda of, value, line, works: version(of, value, line, works=works),
        st.sampled_from(["os", "python", "gcc", "cuda", "package a b", "program x", "", "package {{", "include"]),
        TEXTS,
        LINES,
        st.booleans(),
    ),
    st.builds(lambda line: {"fact": "gpu", "line": line}, LINES),
    st.builds(lambda one, two, at: {"fact": "env", "name": one, "value": two, "line": at}, TEXTS, TEXTS, LINES),
    st.builds(lambda at, last, text: {"fact": "command", "line": at, "last": last, "text": text}, LINES, LINES, TEXTS),
    st.builds(
        lambda line, last, language, name: {
            "fact": "script", "line": line, "last": last, "language": language, "name": name,
        },
        LINES, LINES, st.sampled_from(["python", "cpp", "llvm", ""]),
        st.sampled_from(["", "a.py", "../a", "/etc/x", "a b"]),
    ),
    st.builds(
        lambda kind, line, last, text: {"fact": "failure", "kind": kind, "line": line, "last": last, "text": text},
        st.sampled_from(["exception", "output", "signal", "hang", "slow", "wrong", "leak", "oom"]), LINES, LINES, TEXTS,
    ),
    st.builds(lambda git, line: {"fact": "source", "git": git, "line": line}, TEXTS, LINES),
    st.builds(
        lambda name, fails, works, line: {
            "fact": "contrast", "name": name, "fails": fails, "works": works, "line": line,
        },
        st.sampled_from(["", "os", "include", "{{ x }}", "WOB_MODE", "device", "2"]), TEXTS, TEXTS, LINES,
    ),
)  # fmt: skip


@given(st.lists(FACTS, min_size=1, max_size=6))
def test_no_answer_makes_a_wrong_case(facts: list[dict[str, Any]]) -> None:
    assert load_text("case.yaml", render(made(*facts)), draft=True).case.id
