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
from reprokit.intake import facts_file
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
    return draft(report, facts=facts_file.load(json.dumps({"facts": facts}), "facts.json"))


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
        FAILURE,
    )
    data = found.data
    assert data["matrix"]["os"] == ["ubuntu-22.04"]
    assert data["matrix"]["python"] == ["3.10"]
    assert data["matrix"]["wobbler"] == ["2.4.1", "2.5.0"]
    assert data["environment"]["pip"] == ["wobbler=={{ wobbler }}"]
    assert data["resources"]["gpus"] == "1"
    assert data["env"] == {"WOB_MODE": "fast"}
    assert data["command"].splitlines()[-1].endswith("python feed.py --all")
    assert data["files"]["feed.py"] == "from wobbler import Wobbler\nWobbler(3).feed()\n"
    assert data["sources"]["feeder"] == {"git": "https://github.com/lab/feeder", "ref": "1a2b3c4", "path": "feeder"}
    assert data["expect"]["failure"] == {"exception": "ValueError", "message": "no third wobble"}
    assert load_text("case.yaml", render(found)).case.id


def test_a_reader_wins_over_rules_and_what_programs_printed_stays() -> None:
    rows = "numpy==1.26.4\nscipy==1.13.1\nwibble==1.0.0\nwobble==2.0.0\n"
    report = f"# It crashes\n\n```\n$ pip freeze\n{rows}```\nSorry, by now wibble is 1.1.2 here.\n"
    pip = made(version("package wibble", "1.1.2", 10), report=report).data["environment"]["pip"]
    assert {"wibble==1.1.2", "wobble==2.0.0", "numpy==1.26.4"} <= set(pip)


def test_two_versions_that_both_fail_are_two_cells() -> None:
    report = "# It crashes\n\nwibble 1.0.0 fails, 1.1.0 fails, and 0.9.0 works.\n"
    facts = [version("package wibble", one, 3) for one in ("1.0.0", "1.1.0")]
    found = made(*facts, version("package wibble", "0.9.0", 3, works=True), report=report)
    assert found.data["matrix"]["wibble"] == ["0.9.0", "1.0.0", "1.1.0"]
    assert "reproduces: [{wibble: '1.0.0'}, {wibble: '1.1.0'}]" in found.notes[("expect",)][0]


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ({"kind": "hang"}, {"timed_out": "true"}),
        ({"kind": "oom"}, {"out_of_memory": "true"}),
        ({"kind": "wrong", "text": "wobbles: 2 of 3 left"}, {"exit_code": "0", "output": "wobbles: 2 of 3 left"}),
    ],
)
def test_kinds_of_failures(kind: dict[str, str], expected: dict[str, str]) -> None:
    assert made({"fact": "failure", "line": 7, **kind}).data["expect"]["failure"] == expected


@pytest.mark.parametrize("sentence", ["Runs in development mode.", "安装的版本是 0.6.1", "it has 3 of the wobbles"])
def test_a_sentence_about_a_wrong_result_is_not_what_is_printed(sentence: str) -> None:
    report = f"# It is wrong\n\n{sentence}\n\n```\n$ feed x\n```\n"
    facts = [{"fact": "command", "line": 6}, {"fact": "failure", "kind": "wrong", "text": sentence, "line": 3}]
    expect = made(*facts, report=report).data["expect"]
    assert sentence not in str(expect)


def test_the_heading_of_a_traceback_is_not_a_signature() -> None:
    trace = (
        'Traceback (most recent call last):\n  File "feed.py", line 3\n    wobble = feed({1: "x"})\n             ^\n'
    )
    report = f"# It fails\n\n```\n$ python feed.py\n{trace}```\n"
    found = made({"fact": "failure", "kind": "exception", "line": 5, "last": 8}, report=report)
    assert "Traceback" not in str(found.data["expect"])


def test_a_package_is_named_as_people_call_it_too() -> None:
    report = "# It fails\n\nWith OpenCV 4.8.0 and PyTorch 2.1.0 it fails.\n"
    facts = [version("package opencv-python", "4.8.0", 3), version("package torch", "2.1.0", 3)]
    found = made(*facts, report=report).data["environment"]["pip"]
    assert sorted(found) == ["numpy<2", "opencv-python==4.8.0.*", "torch==2.1.0"]


def test_a_package_is_installed_once_whatever_it_is_called() -> None:
    report = "# It fails\n\n- OpenCV: 4.8.0\n"
    found = made(version("package opencv", "4.8.0", 3), report=report).data["environment"]["pip"]
    assert found == ["opencv-python==4.8.0.*", "numpy<2"]


def test_the_compiler_and_the_system_of_a_line_of_make() -> None:
    report = "# It fails\n\nI CXX:      g++ (Ubuntu 9.4.0-1ubuntu1~20.04.1) 9.4.0\n"
    found = made(version("os", "20.04", 3), version("c++", "9.4.0", 3), report=report).data["matrix"]
    assert found["os"] == ["ubuntu-20.04"]
    assert found["gcc"] == ["9.4"]


@pytest.mark.parametrize(
    ("line", "text", "printed"),
    [
        ("I saw that the plots were not saved", "the plots were not saved", False),
        ("It prints `no plots`, as ever", "no plots", True),
        ("> plots:       NONE", "plots:       NONE", True),
    ],
)
def test_a_sentence_of_a_wrong_result_is_not_what_a_program_prints(line: str, text: str, printed: bool) -> None:
    fact = {"fact": "failure", "kind": "wrong", "line": 3, "text": text}
    found = made(fact, report=f"# It is wrong\n\n{line}\n").data["expect"]["failure"]
    assert (found["output"] == text) is printed


@pytest.mark.parametrize("line", ["# [Bug]: {}", "- {}", "2. `{}`", "**{}**", "  * {}"])
def test_a_line_of_markdown_is_a_failure_without_its_marks(line: str) -> None:
    report = f"{line.format('wobble 7 does not fit all uses')}\n\nPlease help.\n"
    found = made({"fact": "failure", "kind": "output", "line": 1}, report=report).data["expect"]["failure"]
    assert found["output"] == "/wobble .* does not fit all uses/"


def test_a_line_of_a_log_is_the_failure_and_not_what_it_quotes() -> None:
    report = '# Warnings\n\nWARNING: Cannot resolve a type of "wob.engines.Wibbler": it is not defined\n'
    found = made({"fact": "failure", "kind": "output", "line": 3}, report=report).data["expect"]["failure"]
    assert found["output"] == 'WARNING: Cannot resolve a type of "wob.engines.Wibbler": it is not defined'


def test_texts_are_as_the_report_writes_them() -> None:
    report = "# It is wrong\n\n```\n$ python feed.py  --All\nWobbles:      NONE\n```\n"
    found = made(
        {"fact": "command", "line": 4, "text": "Python feed.py --all"},
        {"fact": "failure", "kind": "output", "line": 5, "text": "wobbles: none"},
        report=report,
    ).data
    assert found["command"].strip().endswith("python feed.py  --All")
    assert found["expect"]["failure"]["output"] == "Wobbles:      NONE"


def test_no_signal_is_guessed() -> None:
    report = "# It ends\n\nIt is gone after a while.\n\nThen it segfaults.\n"
    signal = {"fact": "failure", "kind": "signal"}
    assert (
        "signal"
        not in made({**signal, "line": 3}, report=report.replace("it segfaults", "nothing is left")).data["expect"][
            "failure"
        ]
    )
    assert made({**signal, "line": 5}, report=report).data["expect"]["failure"] == {"signal": "SIGSEGV"}


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
        ({"fact": "source", "git": "feeder", "line": 9}, "of which address feeder is"),
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
    assert load_text("case.yaml", text)


def test_a_program_called_as_a_key_of_the_matrix_is_an_axis_of_another_name() -> None:
    found = made(version("program include", "2.5.0", 3), report="# It fails\n\nHere include 2.5.0 is lost.\n")
    assert found.data["matrix"]["include_"] == ["2.5.0"]
    assert load_text("case.yaml", render(found)).case.id


def test_only_what_is_called_a_package_is_installed_by_pip() -> None:
    found = made(version("kernel", "2.5.0", 4), version("feeder", "2.4.1", 4), version("package wobbler", "2.5.0", 4))
    assert found.data["environment"]["pip"] == ["wobbler==2.5.0"]
    assert found.data["matrix"]["feeder"] == ["2.4.1"]
    assert "kernel" not in found.data["matrix"]


def test_a_package_without_that_word_is_one_by_its_name() -> None:
    report = "# It fails\n\nPyTorch 2.1.0, feeder 1.2.0\n"
    found = made(version("PyTorch", "2.1.0", 3), version("feeder", "1.2.0", 3), report=report).data
    assert found["environment"]["pip"] == ["torch==2.1.0"]
    assert found["matrix"]["feeder"] == ["1.2.0"]


@pytest.mark.parametrize("of", ["gcc", "compiler gcc", "Compiler: GCC", "program g++", "c++", "cc"])
def test_an_axis_is_known_by_what_models_call_it(of: str) -> None:
    assert made(version(of, "9.4.0", 3), report="# It fails\n\nCXX is 9.4.0\n").data["matrix"]["gcc"] == ["9.4"]


def test_a_system_and_a_framework_are_known_by_what_models_call_them() -> None:
    report = "# It fails\n\nUbuntu 20.04, Paddle 2.5.1 here, with Paddle 2.4.2 all was well\n"
    found = made(
        version("operating system", "Ubuntu 20.04", 3),
        version("framework Paddle", "2.5.1", 3),
        version("package paddle", "2.4.2", 3, works=True),
        report=report,
    ).data
    assert found["matrix"] == {"os": ["ubuntu-20.04"], "paddle": ["2.4.2", "2.5.1"]}
    assert found["environment"]["pip"] == ["paddlepaddle=={{ paddle }}"]


def test_versions_are_read_as_their_axis_has_them() -> None:
    report = "# It fails\n\nGPU, cuDNN 8902 and CUDA V11.8.89, wibble v.0.21 of pip\n"
    found = made(
        version("cudnn", "8902", 3), version("cuda", "V11.8.89", 3), version("package wibble", "0.21", 3), report=report
    ).data
    assert found["matrix"]["cudnn"] == ["8.9"]
    assert found["matrix"]["cuda"] == ["11.8"]
    assert found["environment"]["pip"] == ["wibble==0.21.*"]


def test_what_is_stated_of_a_clone_is_checked_out() -> None:
    report = "# It fails\n\n```\n$ git clone https://github.com/lab/feeder\n$ python a.py\n```\nat 1a2b3c4\n"
    source = {"fact": "source", "git": "https://github.com/lab/feeder.git", "ref": "1a2b3c4", "line": 7}
    command = {"fact": "command", "line": 5, "text": "python a.py"}
    assert made(source, command, report=report).data["sources"]["feeder"]["ref"] == "1a2b3c4"


def test_a_commit_without_a_repository_is_of_what_the_report_is_about() -> None:
    source = {"fact": "source", "ref": "1a2b3c4", "line": 9}
    facts = facts_file.load(json.dumps({"facts": [source, FAILURE]}), "facts.json")
    assert "the report does not say of which repository 1a2b3c4 is" in str(draft(REPORT, facts=facts).missing)
    made = draft(REPORT, url="https://github.com/lab/wobble/issues/7", facts=facts)
    assert made.data["sources"]["wobble"]["ref"] == "1a2b3c4"
    assert made.data["sources"]["wobble"]["git"] == "https://github.com/lab/wobble"


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
    assert invoke(["validate", "case.yaml"]) == 0
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
        text = "".join(f"wibble {n}\n" for n in range(60))
        found = made(*many, {"fact": "command", "line": 3, "text": text}, report=report)
    assert sum("the facts before it have 100000 characters" in one for one in found.missing) > 190
    assert any("its text has more than 50 lines" in one for one in found.missing)


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
    assert load_text("case.yaml", render(made(*facts))).case.id


def printed(line: str, kind: str = "output", text: str = "") -> dict[str, Any]:
    fact = {"fact": "failure", "kind": kind, "line": 5, "text": text}
    return dict(made(fact, report=f"# It ends\n\n```\nloading 3\n{line}\n```\n").data["expect"]["failure"])


@pytest.mark.parametrize("line", ['" }', "}", "E0102 10:11:13.123 wob_server.cc:99] WobManager", "[ERROR] wob.core"])
def test_a_brace_and_the_name_of_a_logger_are_not_signatures(line: str) -> None:
    assert "TODO(reprokit)" in printed(line)["output"]


def test_a_line_of_a_log_is_a_signature_without_its_time() -> None:
    line = "2024-01-02 10:11:13 ERROR [wob.core] no wobble is left"
    assert printed(line)["output"] == "no wobble is left"
    assert printed(line, "wrong", line)["output"] == "no wobble is left"
    assert (
        "TODO(reprokit)" in printed("10:11:13 ERROR wob.core - 500", "wrong", "10:11:13 ERROR wob.core - 500")["output"]
    )
    assert printed("3", "wrong", "3")["output"] == "/^3$/"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("With `wob.Wobble` in it I get `no target for wob: Wobble`", "no target for wob: Wobble"),
        ("```no target for `wob::Wobble```", "no target for `wob::Wobble"),
        ("After the update, wobbler will fail while building the feeder.", "TODO(reprokit)"),
        ("运行 wobbler 后报错了", "TODO(reprokit)"),
    ],
)
def test_a_sentence_shows_what_it_quotes(line: str, expected: str) -> None:
    fact = {"fact": "failure", "kind": "output", "line": 3}
    found = made(fact, report=f"# It is lost\n\n{line}\n").data["expect"]["failure"]
    assert found["output"].startswith(expected)


@pytest.mark.parametrize(
    ("line", "git"),
    [
        ("wobble version: 4.0-v2", "https://github.com/lab/wobble"),
        ("numpy from master, 4.0-v2", "https://github.com/numpy/numpy"),
        ("albumentations version: 4.0-v2", ""),
        ("built at 4.0-v2", "https://github.com/pytorch/pytorch"),
    ],
)
def test_a_branch_is_of_what_is_named_beside_it(line: str, git: str) -> None:
    report = f"# It fails with PyTorch\n\nSee https://github.com/lab/wobble/wiki first.\n\n{line}\n"
    sources = made({"fact": "source", "ref": "4.0-v2", "line": 5}, report=report).data.get("sources", {})
    assert [one["git"] for one in sources.values()] == ([git] if git else [])


def test_a_commit_is_of_what_has_that_version() -> None:
    report = "# NCCL error\n\nSeen with NCCL 2.7.8 and DeepSpeed 7d4d742 on two machines.\n"
    source = {"fact": "source", "ref": "7d4d742", "line": 3}
    found = made(source, version("package deepspeed", "7d4d742", 3), report=report).data["sources"]
    assert [*found] == ["DeepSpeed"]


@pytest.mark.parametrize(
    ("line", "shell"),
    [
        ("$ python feed.py --all", True),
        ("> wobble run --n=3 (all)", True),
        ("FEED=1 ./feed.sh 'print(3)'", True),
        ("$ use-wob --all", True),
        ("$ create-wob a b", True),
        ("$WOB/bin/feed x", True),
        ("make(1) x", False),
        ("> lm(y ~ x, data = wob)", False),
        ("> wob <- feed(3)", False),
        ("my $wob = Wobble->new(3);", False),
        ("$wob->feed(3);", False),
        ("use Wobble qw(feed);", False),
        (">>> feed", False),
        ("In [3]: run wob", False),
        ("julia> using Wobble", False),
        ("mysql> show tables", False),
        ("SELECT a FROM wob;", False),
        ("from wob import feed", False),
    ],
)
def test_what_is_typed_into_other_programs_is_not_a_command_of_a_shell(line: str, shell: bool) -> None:
    text = line.removeprefix("> ")
    found = made(
        {"fact": "command", "line": 4, "text": text}, report=f"# The feeder of wobbles fails\n\n```\n{line}\n```\n"
    )
    assert ("write the command" not in found.data["command"]) is shell
    assert any("is typed into a program" in one for one in found.missing) is not shell


def test_a_variable_with_several_values_is_set_before_each_command() -> None:
    report = "# It fails\n\n```\nROLE=a A=1 feed x\nROLE=b A=1 feed y\nROLE=c\n```\n"
    facts: list[dict[str, Any]] = []
    for line, role, command in ((4, "a", "feed x"), (5, "b", "feed y"), (6, "c", "")):
        facts.append({"fact": "env", "name": "ROLE", "value": role, "line": line})
        facts += [{"fact": "env", "name": "A", "value": "1", "line": line}] if command else []
        facts += [{"fact": "command", "line": line, "text": command}] if command else []
    found = made(*facts, report=report).data
    assert found["command"] == "export ROLE=a\nfeed x\nexport ROLE=b\nfeed y\n"
    assert found["env"] == {"A": "1", "ROLE": "c"}


def test_what_is_typed_in_a_container_runs_without_it() -> None:
    report = "# It fails\n\n```\n$ docker run -it lab/wob:1.2\n$ feed x\n```\n"
    facts = [{"fact": "command", "line": 4, "last": 5}]
    assert made(*facts, report=report).data["command"].endswith("feed x\n")
    facts = [{"fact": "command", "line": 4, "text": "docker run -it lab/wob:1.2"}, {"fact": "command", "line": 5}]
    found = made(*facts, report=report).data["command"]
    assert found == "# not here: docker run -it lab/wob:1.2\nfeed x\n"


def test_modules_of_other_languages_are_programs_by_their_own_names() -> None:
    report = "# It fails\n\nwob.org/feed/v2 v2.1.0, @lab/wob 3.1.0, org.lab:wobble 4.1.0\n"
    names = [("package wob.org/feed/v2", "v2.1.0"), ("module @lab/wob", "3.1.0"), ("org.lab:wobble", "4.1.0")]
    found = made(*(version(of, value, 3) for of, value in names), report=report).data
    assert {name: found["matrix"][name] for name in ("feed", "wob", "wobble")} == {
        "feed": ["2.1.0"],
        "wob": ["3.1.0"],
        "wobble": ["4.1.0"],
    }
    assert "pip" not in found["environment"]


def test_a_repository_is_the_name_of_what_it_has() -> None:
    report = "# It fails\n\nlab/wob 3.1 is there\n"
    found = made(version("package lab/wob", "3.1", 3), report=report).data
    assert found["matrix"]["lab_wob"] == ["3.1"]


@pytest.mark.parametrize("name", ["cudatoolkit", "pytorch-cuda", "cuda-toolkit"])
def test_the_toolkit_of_conda_is_cuda(name: str) -> None:
    found = made(version(f"package {name}", "11.8", 3), report=f"# It fails\n\n{name}=11.8 is there\n").data
    assert found["matrix"]["cuda"] == ["11.8"]
    assert "environment" not in found


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


def test_two_versions_with_which_it_fails_are_compared_whatever_else_is_stated() -> None:
    report = "# It ends\n\ntensorflow 1.13.1, Python 3.6, Ubuntu 18.04, CUDA 10.0\nwibble version: 0.29.0, 0.30.0\n"
    facts = [
        version("package tensorflow", "1.13.1", 3),
        version("python", "3.6", 3),
        version("os", "ubuntu-18.04", 3),
        version("cuda", "10.0", 3),
        *(version("package wibble", one, 4) for one in ("0.29.0", "0.30.0")),
    ]
    assert made(*facts, report=report).data["matrix"]["wibble"] == ["0.29.0", "0.30.0"]


def test_a_release_is_of_the_system_that_is_named_above_it() -> None:
    report = "# It ends\n\n- OS: Ubuntu\n- OS Version: 16.04\n"
    assert made(version("os", "16.04", 4), report=report).data["matrix"]["os"] == ["ubuntu-16.04"]


def test_builds_that_a_project_numbers_are_an_axis() -> None:
    report = "# It ends\n\nwob.cpp b4835 works, b5415 does not. CUDA is cu124.\n"
    facts = [
        version("program wob.cpp", "b5415", 3),
        version("program wob.cpp", "b4835", 3, works=True),
        version("cuda", "cu124", 3),
    ]
    matrix = made(*facts, report=report).data["matrix"]
    assert (matrix["wob_cpp"], matrix["cuda"]) == (["b4835", "b5415"], ["12.4"])


def test_the_crash_of_a_compiler_is_not_that_of_the_program() -> None:
    report = "# It ends\n\n```\na.c:9:1: internal compiler error: Segmentation fault\nmake: *** [a.o] Error 1\n```\n"
    fact = {"fact": "failure", "kind": "signal", "signal": "SIGSEGV", "line": 4, "last": 5}
    failure = made(fact, report=report).data["expect"]["failure"]
    assert failure == {"output": "internal compiler error: Segmentation fault"}


def test_a_traceback_without_its_end_leaves_the_failure_to_the_rules() -> None:
    report = (
        "# RuntimeError: the wobble is gone\n\n````\nTraceback (most recent call last):\n"
        '  File "a.py", line 9, in main\n    wob.go(seed=0)\n````\n'
    )
    found = made({"fact": "failure", "kind": "exception", "line": 4, "last": 6}, report=report).data["expect"][
        "failure"
    ]
    assert found["exception"] == "RuntimeError"


def test_a_package_of_a_report_without_python_is_a_program() -> None:
    system = '$ cat /etc/os-release\nNAME="Debian"\nVERSION_ID="12"\n$ mvn package'
    report = f"# It ends\n\n```\n{system}\n```\n\nwib 2.7.1, java 1.8.0_111\n"
    facts = [version("package wib", "2.7.1", 10), version("package java", "1.8.0_111", 10)]
    data = made(*facts, report=report).data
    assert (data["matrix"]["wib"], data["matrix"]["java"]) == (["2.7.1"], ["1.8.0_111"])
    assert "pip" not in data["environment"]


def test_a_version_is_stated_without_what_is_in_brackets_behind_it() -> None:
    report = "# It ends\n\nrustc 1.48.0-nightly (d006f5734 2020-08-28)\n"
    fact = version("program rustc", "1.48.0-nightly (d006f5734 2020-08-28)", 3)
    assert made(fact, report=report).data["matrix"]["rustc"] == ["1.48.0-nightly"]


def test_a_file_is_not_a_source() -> None:
    report = "# It ends\n\nget https://wib.example/a/wob-1.2-3.src.rpm\n"
    found = made({"fact": "source", "git": "https://wib.example/a/wob-1.2-3.src.rpm", "line": 3}, report=report)
    assert "sources" not in found.data
    assert any("is a file, and no repository of Git" in text for text in found.missing)


def test_what_was_removed_as_private_is_not_in_a_signature() -> None:
    line = '{"name": "a wob", "user": {"name": "b wib", "password": "hunter2-wob-77"}}'
    report = f"# It returns the password\n\n```\n{line}\n```\n"
    fact = {"fact": "failure", "kind": "wrong", "line": 4, "text": line.replace("hunter2-wob-77", "<secret>")}
    for expect in (made(fact, report=report).data["expect"], draft(report).data["expect"]):
        assert "<" not in str(expect["failure"]["output"]).replace("<the", "")
    assert made(fact, report=report).data["expect"]["failure"]["output"].startswith('{"name": "a wob"')


def test_a_variable_whose_value_was_removed_is_not_set() -> None:
    report = '# It hangs\n\nos.environ["WOB_API_KEY"] = "sk-wob-abcdef0123456789abcdef"\n'
    found = made({"fact": "env", "name": "WOB_API_KEY", "value": "<secret>", "line": 3}, report=report)
    assert "env" not in found.data
    assert any("the value of WOB_API_KEY was removed" in text for text in found.missing)
