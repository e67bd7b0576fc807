"""Leaving things out of a case's text, a command or a signature: what is kept stays as it was written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reprokit.case.model import Failure
from reprokit.case.tree import CaseTree, Loc, parse
from reprokit.evidence.judgement import judge
from reprokit.evidence.model import Ending, Outcome
from reprokit.search.reduce_parts import (
    cut_spans,
    option_items,
    put_value,
    shell_lines,
    shell_options,
    shell_segments,
    shell_words,
)
from reprokit.search.reduce_text import FailedTrial, pattern, rewrite, tighten
from tests.unit.limits import examples

CASES = sorted((Path(__file__).parents[3] / "cases").glob("*.yaml"))

TEXT = """\
# of the file
schema: reprokit/v1
id: toy   # a name

matrix:
  os: [debian-12]
  a: ["3.10", 'no', yes]  # three

env:
  # of A
  A: 0
  # of B
  B: False

  C: "x # y"
environment: {apt: [one, "two", three], pip: [numpy<2]}
files:
  a.txt: |
    one

    two
  # of b
  b.txt: ""
command: go
"""


def without(text: str, *locs: Loc) -> str:
    tree = parse("toy.yaml", text)
    data = tree.data
    for loc in sorted(locs, key=str, reverse=True):
        data = put_value(data, loc, None)
    return rewrite(tree, data)


@pytest.mark.parametrize(
    ("loc", "gone"),
    [
        (("env", "A"), "  # of A\n  A: 0\n"),
        (("env", "B"), "  # of B\n  B: False\n"),
        (("env", "C"), '  C: "x # y"\n'),
        (("files", "a.txt"), "  a.txt: |\n    one\n\n    two\n"),
        (("files", "b.txt"), '  # of b\n  b.txt: ""\n'),
        (("environment", "apt"), 'apt: [one, "two", three], '),
        (("environment", "apt", 0), "one, "),
        (("environment", "apt", 2), ", three"),
        (("environment", "pip", 0), ", pip: [numpy<2]"),
        (("matrix", "a", 1), "'no', "),
        (("command",), "command: go\n"),
    ],
)
def test_a_removed_part_takes_only_its_own_comment_along(loc: Loc, gone: str) -> None:
    assert gone in TEXT
    assert without(TEXT, loc) == TEXT.replace(gone, "", 1)


def test_several_parts_are_removed_at_once() -> None:
    left = without(TEXT, ("env", "A"), ("env", "B"), ("environment", "apt", 1), ("environment", "apt", 2))
    assert 'env:\n\n  C: "x # y"\nenvironment: {apt: [one], pip: [numpy<2]}\n' in left
    assert "env" not in parse("", without(TEXT, ("env", "A"), ("env", "B"), ("env", "C"))).data


def test_changed_and_added_values_are_written_in_place() -> None:
    tree = parse("toy.yaml", TEXT)
    data = put_value(put_value(tree.data, ("id",), "toy-reduced"), ("files", "a.txt"), "one\ntwo\n")
    data = put_value(data, ("expect",), {"failure": {"exit_code": "1", "message": "a: b"}})
    text = rewrite(tree, data)
    assert parse("", text).data == data
    assert "id: toy-reduced   # a name\n" in text
    assert "  a.txt: |\n    one\n    two\n  # of b\n" in text
    assert text.endswith('command: go\nexpect:\n  failure:\n    exit_code: 1\n    message: "a: b"\n')


def test_text_that_cannot_be_cut_is_rewritten_with_the_same_data() -> None:
    text = "base: &base {A: 1, B: 2}\nenv: {<<: *base, C: 3}\n"
    tree = parse("", text)
    for loc in (("base",), ("env", "A"), ("env", "C")):
        data = put_value(tree.data, loc, None)
        assert parse("", rewrite(tree, data)).data == data


HOSTILE = (
    "a: 1\rb: {c: 2, d: 3}\re: [4, 5]\r",
    "a: 1\x85b:\x85  c: 2\x85  d: 3\x85",
    "env:\r\n  A: 1 # c\r\n  # of B\r\n  B: 2\r\nfiles:\r\n  x: |\r\n    one\r\n    two\r\nl: [a, b]\r\n",
    "env: &e\n  A: 1 # c\n  B: 2\nother: *e\nl: [*e, *e]\nm:\n  - *e\n  - x\nc: {<<: *e, D: 4}\n",
    "env: {\n  A: 1, # of A\n  # of B\n  '变量': \"二\",\n  C: 3,\n}\nl: [\n  a, # x\n  b,\n  c\n]\n",
    "files:\n  'it''s': y\n  \"q\\\"\": z\n  ? long key\n  : value\n  \"a: b\": |\n    hello\n  '#c':\n    1\n",
    "m:\n- - c\n  - d\n- k: v\n  n:\no:\n  -\n    p: q # r\n  # s\n  - t\n",
    'a: |+\n  x\n\n\nb: >-\n  fold\n  ed\nc: |2\n    ind\n  y\nd: "multi\n  line"\ne: plain\n  lines',
)


@given(st.sampled_from(HOSTILE), st.data())
@settings(max_examples=examples(150), deadline=None)
def test_for_any_yaml_the_written_text_has_the_remaining_data(text: str, draw: st.DataObject) -> None:
    tree = parse("", text)
    data: Any = tree.data
    for _ in range(draw.draw(st.integers(1, 4))):
        loc = draw.draw(st.sampled_from(list(paths(data))))
        new = draw.draw(st.sampled_from((None, None, "x\x85y", "two\nlines\n", "a\r\n", " - b # c", "", "\u2028")))
        left = put_value(data, loc, new)
        data = left or data
    assert parse("", rewrite(tree, data)).data == data


def paths(data: Any, loc: Loc = ()) -> Iterator[Loc]:
    """What can be left out: all but what lies in an item of a list."""
    for key in data if isinstance(data, dict) else range(len(data)) if isinstance(data, list) else ():
        yield (*loc, key)
        if isinstance(key, str):
            yield from paths(data[key], (*loc, key))


def scalars(tree: CaseTree) -> set[str]:
    """Every text as it is spelt."""
    plain = (place for place in tree.places.values() if place.style not in ("{", "["))
    return {tree.text[place.start : place.end].rstrip() for place in plain}


TREES: dict[str, CaseTree] = {}


@given(st.data())
@settings(max_examples=examples(150), deadline=None)
def test_for_any_case_the_remaining_text_keeps_its_spelling(draw: st.DataObject) -> None:
    path = draw.draw(st.sampled_from(CASES))
    tree = TREES.setdefault(path.name, parse(str(path), path.read_text()))
    data: Any = tree.data
    for _ in range(draw.draw(st.integers(1, 6))):
        there = list(paths(data))
        if len(there) > 1:
            data = put_value(data, draw.draw(st.sampled_from(there)), None)
    if not data:
        return
    left = parse("", rewrite(tree, data))
    assert left.data == data
    assert scalars(left) <= scalars(tree)
    assert set(left.text.splitlines()) - set(tree.text.splitlines()) <= {
        line for line in left.text.splitlines() if "[" in line or "{" in line
    }


SHELL = """\
cd seg && A=1 python -X dev train.py --config c.yml --opts a "b c" --lr={{ lr }} -v > out.txt 2>&1; echo done
for x in 1 2; do
  echo $x
done
cat > f <<EOF
it's "here
EOF
go() {
  echo hi
}
python \\
    -m x \\
    --y z  # it's a comment
{% if a %}
echo b
{% endif %}
"""


def pieces(cut: Any, text: str = SHELL) -> list[str]:
    return [text[start:end].strip() for start, end in cut(text)]


def test_a_shell_text_is_cut_into_lines_that_belong_together() -> None:
    assert [piece.split()[0] for piece in pieces(shell_lines)] == ["cd", "for", "cat", "go()", "python", "{%"]
    assert "".join(SHELL[start:end] for start, end in shell_lines(SHELL)) == SHELL


def test_commands_of_a_line_options_with_their_values_and_words() -> None:
    line = SHELL.splitlines()[0]
    assert [piece.split()[0] for piece in pieces(shell_segments, line)] == ["cd", "A=1", ";"]
    assert pieces(shell_options, line) == [
        "-X dev train.py",
        "--config c.yml",
        '--opts a "b c"',
        "--lr={{ lr }}",
        "-v",
        "> out.txt",
        "2>&1",
    ]
    words = pieces(shell_words, line)
    assert words[:4] == ["seg", "A=1", "-X", "dev"]
    assert not {"python", "cd", "out.txt", "&&"} & set(words)
    assert pieces(shell_options, "python -c 'a; b' $(date -u) `x`") == []
    assert option_items(["python", "a.py", "--x", "1", "2", "--y"]) == [(2, 3, 4), (5,)]


@given(st.text(alphabet="ab -'\"\\\n;&|<>{}%#$()=", max_size=60))
@settings(deadline=None)
def test_cuts_stay_within_the_text(text: str) -> None:
    for cut in (shell_lines, shell_segments, shell_options, shell_words):
        spans = cut(text)
        assert all(0 <= start < end <= len(text) for start, end in spans)
        assert len(cut_spans(text, spans)) <= len(text)


LOG = """\
Traceback (most recent call last):
  File "/workspace/train.py", line 40, in <module>
    main()
  File "/workspace/train.py", line 12, in main
    step(x)
  File "/usr/lib/python3.11/site-packages/seg/loss.py", line 9, in forward
    return inverse(x)
  File "/usr/lib/python3.11/contextlib.py", line 81, in inner
    return func(*args)
RuntimeError: For batch [0]: U(2, 2) is zero at 0x7f00, singular U.
"""


def test_a_loose_signature_is_made_as_strict_as_the_failure_seen() -> None:
    seen = [
        FailedTrial(ending=Ending(exit_code=1), log=LOG),
        FailedTrial(ending=Ending(exit_code=1), log=LOG.replace("2", "3")),
    ]
    strict = tighten({}, seen)
    assert strict == {
        "exit_code": "1",
        "exception": "RuntimeError",
        "message": r"/For batch \[[\w./+-]+\]: U\([\w./+-]+, [\w./+-]+\) is zero at [\w./+-]+, singular U\./",
        "frames": ["train.py:<module>", "train.py:main", "loss.py:forward"],
    }
    given = {"exit_code": "nonzero", "exception": "RuntimeError", "message": "singular", "frames": ["loss.py:forward"]}
    assert tighten(given, seen) == {**given, "exit_code": "1"}
    assert tighten({}, [seen[0], FailedTrial(ending=Ending(exit_code=2), log=LOG)]).get("exit_code") is None


def test_a_failure_without_a_traceback_is_identified_by_its_message_or_status() -> None:
    crash = FailedTrial(
        ending=Ending(exit_code=255), log="ptxas fatal   : Value 'sm_90' is not defined for option 'gpu-name'\n"
    )
    assert "is not defined for option" in tighten({}, [crash])["output"]
    assert tighten({"output": "fatal"}, [crash]) == {"output": "fatal", "exit_code": "255"}
    slow = FailedTrial(ending=Ending(exit_code=137, timed_out=True), log="")
    assert tighten({"timed_out": "true"}, [slow]) == {"timed_out": "true"}
    assert tighten({"signal": "SIGSEGV"}, [FailedTrial(ending=Ending(exit_code=139), log="")]) == {"signal": "SIGSEGV"}


def test_a_failure_known_only_by_its_status_is_identified_by_its_last_line() -> None:
    first = FailedTrial(ending=Ending(exit_code=1), log="start\nerror: 12 rows are singular\nx.c:3: warning: old\n")
    strict = tighten({"exit_code": "nonzero"}, [first])
    assert strict["exit_code"] == "1"
    assert tighten({"exit_code": "1"}, [FailedTrial(ending=Ending(exit_code=1), log="")]) == {"exit_code": "1"}
    other = FailedTrial(ending=Ending(exit_code=1), log="error: FOO is not set\n")
    assert "output" not in tighten({}, [first, other]), "they do not agree"
    for log, fails in ((first.log.replace("12", "7"), True), (other.log, False)):
        outcome = judge(Failure.model_validate(strict), first.ending, log).outcome
        assert (outcome is Outcome.REPRODUCED) == fails


def test_a_message_is_matched_by_its_own_first_line() -> None:
    log = (
        'Traceback (most recent call last):\n  File "/w/go.py", line 1, in <module>\n    x\nValueError: \n\n'
        "--------------------------------------\nC++ Traceback (most recent call last):\n"
        "--------------------------------------\n0   paddle::inverse(x)\n\n"
        "----------------------\nError Message Summary:\n----------------------\n"
        "InvalidArgumentError: Input is not invertible.\n  [Hint: Expected pivot] (at x.h:53)\n"
    )
    assert tighten({}, [FailedTrial(ending=Ending(exit_code=1), log=log)])["message"].endswith(
        "Input is not invertible."
    )


@example("\u0660")  # a digit, but not of ASCII
@example("/\u6570\u636e/a/b 3")
@given(st.text(min_size=1, max_size=40).filter(str.strip))
def test_a_pattern_finds_the_text_that_it_was_made_from(text: str) -> None:
    from reprokit.core.text import one_line
    from reprokit.evidence.text import find

    line = one_line(text)
    assert find(pattern(line), line) is not None


def test_a_cpp_exception_is_identified_by_its_message_on_a_line_of_its_own() -> None:
    log = "terminate called after throwing an instance of 'std::out_of_range'\n  what():  no cell 17 in 16\nAborted\n"
    seen = [FailedTrial(ending=Ending(exit_code=134), log=log)]
    strict = tighten({"signal": "SIGABRT"}, seen)
    assert strict["output"].startswith("/no cell ")
    bare = tighten(
        {"signal": "SIGABRT"}, [FailedTrial(ending=Ending(exit_code=134), log=log.replace("  what():", "  so:"))]
    )
    assert bare["output"] == "terminate called after throwing an instance of 'std::out_of_range'"
