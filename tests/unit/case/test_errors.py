"""Every breach of the format: where it is reported, in which words, and with which hint."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from reprokit.case.templates import RenderError, render_text
from reprokit.core.errors import CaseError, Problem
from reprokit.environment.cases import load

HEAD = "schema: reprokit/v1\nid: a-case\ntitle: A case\n"
COMMAND = "command: run\n"


def problems(tmp_path: Path, text: str) -> list[Problem]:
    path = tmp_path / "case.yaml"
    path.write_text(text, encoding="utf-8")
    try:
        load(str(path))
    except CaseError as error:
        return [problem for problem in error.problems if problem.path == str(path)]
    return []


def reported(tmp_path: Path, body: str, *, command: str = COMMAND) -> list[tuple[int, int, str, str]]:
    """The problems of a case with ``body`` after its head (the body's first line is line 1)."""
    found = problems(tmp_path, HEAD + textwrap.dedent(body) + command)
    return [(problem.line - 3, problem.column, problem.message, problem.hint) for problem in found]


# body, line, column, words of the message, words of the hint
STRUCTURE = [
    ("resources:\n  smh_size: 1g\n", 2, 3, "unknown key 'smh_size' in resources", "did you mean 'shm_size'?"),
    ("shm_size: 1g\n", 1, 1, "unknown key 'shm_size' in a case", "belongs under resources"),
    ("cuda: ['11.8']\n", 1, 1, "unknown key 'cuda'", "belongs under matrix"),
    ("enviroment: {}\n", 1, 1, "unknown key 'enviroment'", "did you mean 'environment'?"),
    ("resources:\n  env: {}\n", 2, 3, "unknown key 'env' in resources", "belongs at the top level"),
    ("zzz: 1\n", 1, 1, "unknown key 'zzz'", "known keys: schema, id"),
    ("trials: many\n", 1, 9, "trials: expected a whole number, found 'many'", "such as 3"),
    ("trials: 0\n", 1, 9, "trials: expected at least 1, found '0'", ""),
    ("trials: [3]\n", 1, 9, "trials: expected a whole number, found a list", "such as 3"),
    ("trials: 3.0\n", 1, 9, "expected a whole number, found '3.0'", ""),
    ("trials: auto\n", 1, 9, "trials: expected a whole number, found 'auto'", "such as 3"),
    ("trials: {max: 0}\n", 1, 15, "trials.max: expected at least 1, found '0'", ""),
    ("trials: {maxi: 3}\n", 1, 10, "unknown key 'maxi' in trials", "did you mean 'max'?"),
    ("trials: {rate: 1}\n", 1, 16, "trials.rate: expected a rate above 0 and below 1, found '1'", "such as 0.1"),
    ("trials: {rate: 10%}\n", 1, 16, "trials.rate: expected a rate", "such as 0.1"),
    ("trials: {confidence: 0.4}\n", 1, 22, "a confidence of at least 0.5 and below 1", "such as 0.95"),
    ("fix: {trials: {max: 0}}\n", 1, 21, "trials.max: expected at least 1, found '0'", ""),
    ("environment:\n  pip: numpy\n", 2, 8, "environment.pip: expected a list, found 'numpy'", "write [numpy]"),
    (
        "environment:\n  pip: [a, [b]]\n",
        2,
        8,
        "environment.pip: expected requirements alone or steps alone",
        "[numpy<2]",
    ),
    ("environment:\n  pip: [[a, {b: c}]]\n", 2, 13, "environment.pip[0][1]: expected text, found a mapping", ""),
    (
        "environment:\n  pip:\n  - [a]\n  - {requirements: [b], option: [c]}\n",
        4,
        25,
        "unknown key 'option' in environment.pip[1]",
        "options",
    ),
    (
        "environment:\n  pip: [{options: [--pre]}]\n",
        2,
        9,
        "the key 'requirements' is missing in environment.pip[0]",
        "",
    ),
    ("environment:\n  pip: [{requirements: a}]\n", 2, 24, "environment.pip[0].requirements: expected a list", "[a]"),
    ("environment:\n  pip: [[a], ['{{ b }}']]\n", 2, 19, "environment.pip[1][0]: 'b' is not defined", ""),
    ("environment:\n  apt: {a: b}\n", 2, 8, "environment.apt: expected a list, found a mapping", "'- '"),
    ("environment:\n", 1, 1, "environment: expected a mapping, found nothing", "indent its keys"),
    ("env:\n  - A=1\n", 2, 3, "env: expected a mapping, found a list", "without dashes"),
    ("env: {A: [1]}\n", 1, 10, "env.A: expected text, found a list", ""),
    ("env: {'A=B': 1}\n", 1, 7, "expected the name of an environment variable", ""),
    ("tags: [a, {b: c}]\n", 1, 11, "tags[1]: expected text, found a mapping", "quote it"),
    ("matrix:\n  cuda: none\n", 2, 9, "matrix.cuda: expected a list, found 'none'", "write [none]"),
    ("matrix: {cuda: [{a: b}]}\n", 1, 17, "matrix.cuda[0]: expected text, found a mapping", ""),
    ("matrix: {a: ['1'], exclude: [x]}\n", 1, 30, "matrix.exclude[0]: expected a mapping, found 'x'", "{cuda:"),
    ("sources:\n  S:\n    git: https://h/r\n    path: S\n", 2, 3, "the key 'ref' is missing in sources.S", "tag"),
    ("sources: {S: {git: 'ext::sh', ref: a, path: S}}\n", 1, 20, "address of a git repository", "such as"),
    ("sources: {S: {git: https://h/r, ref: -u, path: S}}\n", 1, 38, "expected a tag, branch or commit", "v2.9.1"),
    ("sources: {S: {git: ./r, ref: a, path: S, patch: fix it}}\n", 1, 49, "a unified diff", ""),
    ("sources: {S: {git: ./r, ref: a, path: ../S}}\n", 1, 39, "stays below workdir", ""),
    ("files: {/etc/passwd: x}\n", 1, 9, "relative to workdir", ""),
    ("files: {a/../b: x}\n", 1, 9, "below workdir, without ..", ""),
    (f"files: {{a/{'b' * 256}: x}}\n", 1, 9, "names have at most 255 bytes each", ""),
    ("datasets: {d: {path: .}}\n", 1, 22, "not workdir itself", ""),
    ("datasets: {d: {path: d, layout: [{glob: /x}]}}\n", 1, 41, "a glob below the dataset", "images/*.png"),
    ("datasets: {d: {path: d, layout: [{glob: x, min: -1}]}}\n", 1, 49, "layout[0].min: expected a whole number", ""),
    ("datasets: {d: {path: d, layout: [{globs: x}]}}\n", 1, 35, "unknown key 'globs'", "did you mean 'glob'?"),
    ("datasets: {d: {path: d, sha256: {a: beef}}}\n", 1, 37, "a SHA-256 digest", ""),
    ("workdir: here\n", 1, 10, "workdir: expected an absolute path", "/workspace"),
    ("resources: {memory: lots}\n", 1, 21, "resources.memory: expected a size, found 'lots'", "64m, 1g or 1.5GiB"),
    ("resources: {memory: 16}\n", 1, 21, "at least 6m", ""),
    ("resources: {timeout: soon}\n", 1, 22, "expected a duration, found 'soon'", "30m, 1h30m"),
    ("resources: {timeout: 0s}\n", 1, 22, "a duration above zero", ""),
    ("resources: {cpus: four}\n", 1, 19, "a number of cores", "4 or 0.5"),
    ("resources: {gpus: all}\n", 1, 19, "resources.gpus: expected a whole number", ""),
    ("resources: {pids: 0}\n", 1, 19, "at least 1", ""),
    ("resources: {network: brigde}\n", 1, 22, "expected none or bridge, found 'brigde'", "did you mean 'bridge'?"),
    ("resources: {user: Me!}\n", 1, 19, "expected a user", "repro, root"),
    ("expect: {failure: {signal: SIGSEVG}}\n", 1, 28, "the name of a signal", "did you mean 'SIGSEGV'?"),
    ("expect: {failure: {signal: segv}}\n", 1, 28, "the name of a signal", "SIG"),
    ("expect: {failure: {exit_code: nonezero}}\n", 1, 31, "an exit code", "did you mean 'nonzero'?"),
    ("expect: {failure: {exit_code: 300}}\n", 1, 31, "an exit code from 0 to 255", ""),
    ("expect: {failure: {message: '/(/'}}\n", 1, 29, "does not compile", ""),
    ("expect: {failure: {frames: [inverse]}}\n", 1, 29, "frames[0]: expected file:function", "rmi_loss.py:inverse"),
    ("expect: {failure: {exception: 'Runtime Error'}}\n", 1, 31, "the type of an exception", "RuntimeError"),
    ("expect: {failure: {timed_out: ture}}\n", 1, 31, "expected true or false, found 'ture'", "did you mean 'true'?"),
    ("expect: {failure: {exit_code: 0, signal: SIGSEGV}}\n", 1, 31, "contradict", "leave out"),
    ("expect: {failure: {exit_code: 1, signal: SIGSEGV}}\n", 1, 31, "contradict", "139"),
    ("expect: {failure: {exit_code: '²', signal: SIGSEGV}}\n", 1, 31, "an exit code from 0 to 255", ""),
    (f"expect: {{failure: {{exit_code: '{'9' * 5000}', signal: SIGSEGV}}}}\n", 1, 31, "an exit code", ""),
    (
        "matrix: {n: ['1']}\nexpect: {failure: {output: 'BOOM {{ n }}'}}\n",
        *(2, 28, "expect.failure.output: expect is not a template: {{ n }} is not replaced", "/cuda \\d+/"),
    ),
    (
        "matrix: {include: [{n: '1'}]}\nexpect: {known: [{id: b, failure: {frames: ['a.py:{{n|lower}}']}}]}\n",
        *(2, 45, "expect.known[0].failure.frames[0]: expect is not a template: {{ n }}", "braces"),
    ),
    ("expect: {reproduces: al}\n", 1, 22, "all, none, unknown or a list", "did you mean 'all'?"),
    ("expect: {known: [{id: b}]}\n", 1, 18, "the key 'failure' is missing in expect.known[0]", "such as {exception"),
    ("expect: {known: [{failure: {exit_code: 7}}]}\n", 1, 18, "the key 'id' is missing in expect.known[0]", ""),
    ("expect: {known: [{id: B C, failure: {exit_code: 7}}]}\n", 1, 23, "small letters", "did you mean 'b-c'?"),
    ("expect: {known: [{id: b, failure: {}}]}\n", 1, 35, "known[0].failure: it fits every failure", "say how it looks"),
    (
        "expect: {known: [{id: b, failure: {timed_out: true}}]}\n",
        1,
        47,
        "no other failure is known by timed_out",
        "verdict",
    ),
    (
        "expect: {known: [{id: b, failure: {excption: E}}]}\n",
        1,
        36,
        "unknown key 'excption'",
        "did you mean 'exception'?",
    ),
    ("expect: {known: [{id: b, failure: {message: '/(/'}}]}\n", 1, 45, "does not compile", ""),
    (
        "expect: {known: [{id: b, failures: {}, failure: {exit_code: 1}}]}\n",
        1,
        26,
        "unknown key 'failures'",
        "'failure'?",
    ),
    ("expect: {known: [{id: b, failure: {exit_code: 1, signal: SIGSEGV}}]}\n", 1, 47, "contradict", "139"),
    ("expect: {known: b}\n", 1, 17, "expect.known: expected a list, found 'b'", "write [b]"),
    (
        "expect: {known: [{id: b, failure: {exit_code: 1}}, {id: b, failure: {exit_code: 2}}]}\n",
        *(1, 57, "another known failure is called 'b' too", "its own id"),
    ),
    ("expect: {reproduces: [all]}\n", 1, 23, "reproduces[0]: expected a mapping", "{cuda:"),
    ("fix: {trails: 2, env: {A: 1}}\n", 1, 7, "unknown key 'trails' in fix", "did you mean 'trials'?"),
    ("fix: {expect: {}, env: {A: 1}}\n", 1, 7, "unknown key 'expect' in fix", "a fix can change"),
    ("fix: {summary: nothing}\n", 1, 1, "changes nothing", "environment"),
    ("fix: {only: [{a: '1'}]}\n", 1, 1, "changes nothing", "environment"),
    ("fix: {only: a, env: {A: 1}}\n", 1, 13, "fix.only: expected a list of partial cells", "such as"),
    ("fix: {only: [{}], env: {A: 1}}\n", 1, 13, "fix.only: expected a list of partial cells", "such as"),
    (
        "environment:\n  pip_before: last May\n",
        2,
        15,
        "environment.pip_before: expected a date, found",
        "such as 2021-05-04",
    ),
    (
        "environment: {pip_before: 2021-02-30}\n",
        1,
        27,
        "expected a date, found",
        "such as 2021-05-04, or a date and time",
    ),
    ("environment: {pip_befor: 2021-05-04}\n", 1, 15, "pip_befor", "pip_before"),
    ("fix:\n", 1, 1, "fix: expected a mapping, found nothing", ""),
    ("fix: {resources: {memory: lots}}\n", 1, 27, "resources.memory: expected a size", ""),
    ("fix:\n  sources:\n    New:\n      ref: v1\n", 3, 5, "the key 'git' is missing in sources.New", ""),
    ("files: {a: x, ./a: y}\n", 1, 15, "'a' is already the place of files.a", "its own path"),
    ("files: {d/a: x}\ndatasets: {d: {path: d}}\n", 1, 9, "lies inside 'd', which is a dataset", "another path"),
    ("workdir: /work/\\\n", 1, 10, "without backslashes", ""),
    ('workdir: "/work "\n', 1, 10, "blanks at its end", ""),
    ('workdir: "/work\\r"\n', 1, 10, "control characters", ""),
    ('environment: {pip_options: ["--find-links \'a"]}\n', 1, 29, "options whose quotes are closed", ""),
    ('environment: {pip: ["-e \'a"]}\n', 1, 21, "options whose quotes are closed", ""),
    ("environment: {pip: [{requirements: [a], options: ['-c a\\']}]}\n", 1, 51, "options whose quotes are closed", ""),
]


@pytest.mark.parametrize(("body", "line", "column", "message", "hint"), STRUCTURE, ids=[row[0] for row in STRUCTURE])
def test_breach(tmp_path: Path, body: str, line: int, column: int, message: str, hint: str) -> None:
    found = reported(tmp_path, body)
    assert found, "nothing was reported"
    assert found[0][:2] == (line, column), found
    assert message in found[0][2]
    assert hint in found[0][3] or hint in found[0][2]


@pytest.mark.parametrize("row", STRUCTURE, ids=[row[0] for row in STRUCTURE])
def test_a_breach_hides_no_other(tmp_path: Path, row: tuple[str, int, int, str, str]) -> None:
    """Each breach is reported beside a template that uses an unknown name in another section."""
    found = reported(tmp_path, row[0], command="command: run {{ nowhere }}\n")
    assert any("'nowhere' is not defined" in problem[2] for problem in found)
    assert any(row[3] in problem[2] for problem in found)


MATRIX = [
    ("matrix: {cuda: []}\n", 1, 16, "matrix.cuda: the axis has no value", ""),
    ("matrix: {cuda: ['11.8', 11.8]}\n", 1, 25, "the value '11.8' is listed twice", ""),
    ("matrix: {cuda: ['11.x']}\n", 1, 17, "expected a version", "did you mean '11'?"),
    ("matrix: {cuda: [nnoe]}\n", 1, 17, "expected a version", "did you mean 'none'?"),
    ("matrix: {gcc: [gcc-12]}\n", 1, 16, "expected a version", "did you mean '12'?"),
    ("matrix: {os: [debain-12]}\n", 1, 15, "not an operating system", "did you mean 'debian-12'?"),
    ("matrix: {os: [Debian-12]}\n", 1, 15, "not an operating system", "did you mean 'debian-12'?"),
    ("matrix: {os: [linux]}\n", 1, 15, "not an operating system", "known: "),
    ("matrix: {node-version: ['3']}\n", 1, 10, "cannot name an axis", "did you mean 'node_version'?"),
    ("matrix: {none: ['3']}\n", 1, 10, "cannot name an axis", ""),
    ("matrix: {cuda: ['1', '2'], exclude: [{cdua: '1'}]}\n", 1, 39, "no axis 'cdua'", "did you mean 'cuda'?"),
    ("matrix: {cuda: ['11.8', '12.0'], exclude: [{cuda: '11.9'}]}\n", 1, 51, "no value '11.9'", "did you mean '11.8'?"),
    ("matrix: {cuda: ['1'], exclude: [{cuda: '1'}]}\n", 1, 23, "exclude leaves no cell", ""),
    ("matrix: {cuda: ['1', '2'], exclude: [{}]}\n", 1, 38, "excludes everything", ""),
    ("matrix: {cuda: ['1'], include: [{cuda: '2.x'}]}\n", 1, 40, "expected a version", "did you mean '2'?"),
    ("matrix: {cuda: ['1']}\nexpect: {reproduces: [{cuda: '2'}]}\n", 2, 30, "has no value '2'", "its values: 1"),
    ("matrix: {cuda: ['1']}\nexpect: {reproduces: [{cdua: '1'}]}\n", 2, 24, "no axis 'cdua'", "did you mean 'cuda'?"),
    (
        "matrix: {cuda: ['1']}\nexpect: {known: [{id: b, failure: {exit_code: 1}, reproduces: [{cuda: '2'}]}]}\n",
        *(2, 71, "expect.known[0].reproduces[0]: the axis 'cuda' has no value '2'", "its values: 1"),
    ),
    (
        "expect: {known: [{id: b, failure: {exit_code: 1}, reproduces: [{}]}]}\n",
        *(1, 64, "expect.known[0].reproduces[0]: an empty cell", "name an axis and a value"),
    ),
    ("expect: {reproduces: [{cuda: '1'}]}\n", 1, 24, "no axis 'cuda'", "the matrix has no axes"),
]


@pytest.mark.parametrize(("body", "line", "column", "message", "hint"), MATRIX, ids=[row[0] for row in MATRIX])
def test_breach_of_the_matrix(tmp_path: Path, body: str, line: int, column: int, message: str, hint: str) -> None:
    found = reported(tmp_path, body)
    assert [problem[:2] for problem in found] == [(line, column)], found
    assert message in found[0][2]
    assert hint in found[0][3]


TEMPLATES = [
    ("command: run {{ cuad }}\n", 2, 17, "command: 'cuad' is not defined", "did you mean 'cuda'?"),
    ("command: |\n  set -e\n  run {{ cuda }} {{ cuad }}\n", 4, 21, "'cuad' is not defined", "did you mean 'cuda'?"),
    ("command: >\n  set -e\n\n  run {{ cuad }}\n", 5, 10, "'cuad' is not defined", "did you mean 'cuda'?"),
    ('command: [run, "a {{ cuad }}"]\n', 2, 22, "command[1]: 'cuad' is not defined", "did you mean 'cuda'?"),
    ("command: run {{ python }}\n", 2, 17, "'python' is not defined", "add the axis python"),
    ("command: awk '{{print $1}}'\n", 2, 15, "not a valid template", "{% raw %}"),
    ("command: |\n  a=(1)\n  echo ${#a[@]}\n", 4, 9, "not a valid template", "bash's ${#name}"),
    ("command: |\n  a\n  {% fi %}\n", 4, 3, "unknown tag 'fi'", "{% raw %}"),
    ("command: run {{ cuda | defualt(1) }}\n", 2, 14, "No filter named 'defualt'", "did you mean 'default'?"),
    ("command: x\nenv: {A: '{{ cuad }}'}\n", 3, 14, "env.A: 'cuad' is not defined", "did you mean 'cuda'?"),
    ("command: x\nfiles: {a: '{{ cuad }}'}\n", 3, 16, "files.a: 'cuad' is not defined", "did you mean 'cuda'?"),
    ("command: x\nresources: {memory: '{{ cuad }}'}\n", 3, 25, "'cuad' is not defined", "did you mean 'cuda'?"),
    ("command: x\nenv: {A: '{{ out }}'}\n", 3, 14, "'out' is not defined", ""),
    (
        "command: x\ndatasets: {d: {path: d, generate: 'm {{ uot }}'}}\n",
        3,
        41,
        "'uot' is not defined",
        "did you mean 'out'?",
    ),
    ("command: x\nresources: {memory: '{{ cuda }}q'}\n", 3, 21, "expected a size", ""),
    (
        "command: x\nenvironment: {pip_before: '2021-{{ cuda }}'}\n",
        3,
        27,
        "such as 2021-05-04T10:22:11Z, found '2021-11.8' (in the cell",
        "",
    ),
    ("command: x {{ cuda.major }}\n", 2, 10, "has no attribute 'major' (in the cell cuda=11.8)", ""),
    ("command: x\nfix: {env: {A: '{{ cuad }}'}}\n", 3, 20, "'cuad' is not defined", "did you mean 'cuda'?"),
]


@pytest.mark.parametrize(("body", "line", "column", "message", "hint"), TEMPLATES, ids=[row[0] for row in TEMPLATES])
def test_breach_of_a_template(tmp_path: Path, body: str, line: int, column: int, message: str, hint: str) -> None:
    found = reported(tmp_path, "matrix: {cuda: ['11.8']}\n" + body, command="")
    assert [problem[:2] for problem in found] == [(line, column)], found
    assert message in found[0][2]
    assert hint in found[0][3]


INCLUDE = "matrix:\n  cuda: ['11.8']\n  gcc: ['12']\n  include:\n    - {cuda: '12.0'}\n"


def test_an_include_may_leave_out_axes_that_no_template_needs(tmp_path: Path) -> None:
    assert reported(tmp_path, INCLUDE, command="command: run {{ cuda }} {{ gcc | default('none') }}\n") == []
    assert reported(tmp_path, INCLUDE, command="command: run {% if cuda == '11.8' %}{{ gcc }}{% endif %}\n") == []


def test_an_include_that_leaves_out_a_needed_axis_is_reported_at_the_include(tmp_path: Path) -> None:
    found = reported(tmp_path, INCLUDE, command="command: run {{ cuda }} {{ gcc }}\n")
    assert [problem[:2] for problem in found] == [(5, 7)]
    assert "command needs the axis 'gcc', which this cell leaves out" in found[0][2]


def test_a_name_that_only_include_brings_is_reported_where_it_is_used(tmp_path: Path) -> None:
    body = "matrix:\n  cuda: ['11.8']\n  include: [{cuda: '12.0', flag: x}]\n"
    found = reported(tmp_path, body, command="command: run {{ flag }}\n")
    assert len(found) == 1
    assert "'flag' is only defined in cells of include" in found[0][2]
    assert reported(tmp_path, body, command="command: run {{ flag | default('') }}\n") == []


def test_four_mistakes_four_positions_four_hints(tmp_path: Path) -> None:
    text = textwrap.dedent(
        """\
        schema: reprokit/v1
        id: four
        title: Four mistakes
        matrix:
          pyhton: ["3.11"]
          cuda: ["11.8"]
        resources:
          smh_size: 1g
        trials: many
        command: |
          set -x
          run {{ python }} {{ cuad }}
        """
    )
    found = problems(tmp_path, text)
    assert [(p.line, p.column, p.hint) for p in found] == [
        (8, 3, "did you mean 'shm_size'?"),
        (9, 9, "such as 3"),
        (12, 10, "did you mean 'pyhton'?"),
        (12, 23, "did you mean 'cuda'?"),
    ]


def test_a_mistake_of_the_case_is_not_reported_again_for_its_fix(tmp_path: Path) -> None:
    body = "sources: {S: {git: https://h/r, path: S}}\nfix: {sources: {S: {path: T}}}\n"
    found = reported(tmp_path, body, command="command: run {{ nowhere }}\n")
    assert len(found) == 2, found


def test_the_fix_may_repair_a_part_that_the_case_gives_whole(tmp_path: Path) -> None:
    body = "sources: {S: {git: https://h/r, ref: v1, path: S}}\nfix: {sources: {S: {ref: v2}}}\n"
    assert reported(tmp_path, body) == []


def test_an_axis_that_only_the_fix_uses_is_used(tmp_path: Path) -> None:
    body = "matrix: {cudas: ['1']}\nfix: {env: {A: '{{ cudas }}'}}\n"
    assert reported(tmp_path, body) == []


SYNTAX = [
    ("a: {{ x }}\n", 1, 4, 'quote it: "{{ x }}"'),
    ("a: {{ x }}/b\n", 1, 11, "quote a value that begins with a template"),
    ("a: {% if x %}\n", 1, 5, "quote a value that begins with a template"),
    ("a:\n\t- b\n", 2, 1, "indent with spaces"),
    ("a: b: c\n", 1, 5, 'quote a value that holds ": "'),
    ("a: 'x\nb: 1\n", 1, 4, "close it"),
    ("a: @x\n", 1, 4, "quote a value that begins with @"),
    ('a: "\\d"\n', 1, 5, "a backslash is doubled"),
    ("a: [1\nb: 2\n", 2, 2, "not closed"),
    ("a: *x\n", 1, 4, "begins with *"),
    ("a: &x [*x]\n", 1, 4, ""),
    ("a: &x {<<: *x}\n", 1, 4, ""),
    ("a: \x01\n", 1, 4, "text file"),
    ("é: ü\na: \x01\n", 2, 4, "text file"),
    ("a: 1\na: 2\n", 2, 1, "already on line 1"),
    ("a: 1\n---\nb: 2\n", 2, 1, "one case per file"),
    ("? [a]\n: 1\n", 1, 3, "quote the key"),
    ("a: !tag b\n", 1, 4, "begins with !"),
    ("", 1, 1, "schema: reprokit/v1"),
    ("- a\n", 1, 1, "schema: reprokit/v1"),
    ("[" * 100_000, 1, 52, ""),
]


@pytest.mark.parametrize(("text", "line", "column", "hint"), SYNTAX, ids=[row[0][:20] for row in SYNTAX])
def test_what_is_not_yaml(tmp_path: Path, text: str, line: int, column: int, hint: str) -> None:
    found = problems(tmp_path, text)
    assert [p for p in found if (p.line, p.column) == (line, column) and hint in p.hint], found


def test_deep_nesting_by_aliases_is_refused(tmp_path: Path) -> None:
    chain = "a0: &a0 [x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 3000))
    assert any("levels of nesting" in problem.message for problem in problems(tmp_path, chain))
    merges = "m0: &m0 {x: '1'}\n" + "".join(f"m{n}: &m{n} {{<<: *m{n - 1}}}\n" for n in range(1, 1500))
    assert problems(tmp_path, merges)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("''", "command: expected a text"),
        ("[]", "not empty"),
        ("{a: b}", "shell text or a list"),
        ("", "found nothing"),
    ],
)
def test_a_command_is_needed(tmp_path: Path, command: str, message: str) -> None:
    found = reported(tmp_path, "", command=f"command: {command}\n")
    assert [message in problem[2] for problem in found] == [True], found


@pytest.mark.parametrize(("values", "axes"), [(100, 8), (30, 12), (2, 400), (200_001, 1)], ids=str)
@pytest.mark.parametrize("exclude", ["", ", exclude: [{a0: 1}]"], ids=["whole", "exclude"])
def test_a_huge_matrix_is_refused_before_it_is_expanded(tmp_path: Path, values: int, axes: int, exclude: str) -> None:
    if values * axes > 40_000:  # as many values as a case may have, a thousandth of which is enough
        values, axes = 600, 2
    listed = ", ".join(f"a{n}: [{', '.join(map(str, range(values)))}]" for n in range(axes))
    [(_, _, message, _)] = reported(tmp_path, f"matrix: {{{listed}{exclude}}}\n")
    assert "and at most 200,000 can be looked through" in message


def test_excludes_over_many_sets_of_axes_are_refused_before_they_are_compared(tmp_path: Path) -> None:
    axes = ", ".join(f"a{n}: ['1', '2']" for n in range(17))
    sets = ", ".join(
        "{" + ", ".join(f"a{n}: '1'" for n in range(17) if number >> n & 1) + "}" for number in range(1, 1500)
    )
    [(_, _, message, _)] = reported(tmp_path, f"matrix: {{{axes}, exclude: [{sets}]}}\n")
    assert "with excludes over 1499 sets of axes" in message


def test_as_many_excludes_as_a_case_may_have_are_compared(tmp_path: Path) -> None:
    axes = ", ".join(f"a{n}: ['1', '2']" for n in range(12))
    sets = ", ".join(
        "{" + ", ".join(f"a{n}: '1'" for n in range(12) if number >> n & 1) + "}" for number in range(1, 1500)
    )
    assert reported(tmp_path, f"matrix: {{{axes}, exclude: [{sets}]}}\n") == []


def test_an_alias_bomb_is_refused_quickly(tmp_path: Path) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    found = problems(tmp_path, "\n".join(lines))
    assert "expands to more than" in found[0].message


def test_merges_of_merges_do_not_explode(tmp_path: Path) -> None:
    lines = ["m0: &m0 {x: '1'}"]
    lines += [f"m{n}: &m{n} {{<<: [{', '.join([f'*m{n - 1}'] * 10)}]}}" for n in range(1, 12)]
    assert problems(tmp_path, "\n".join(lines))


def test_duplicate_keys_are_reported_beside_everything_else(tmp_path: Path) -> None:
    found = reported(tmp_path, "env: {A: 1, A: 2}\ntrials: x\n")
    assert [problem[:2] for problem in found] == [(1, 13), (2, 9)]


def test_braces_in_a_signature_that_name_no_axis_are_text(tmp_path: Path) -> None:
    assert (
        reported(tmp_path, "matrix: {n: ['1']}\nexpect: {failure: {output: '{{1, 2}, {n}} and {{ other }}'}}\n") == []
    )


@pytest.mark.parametrize("text", ["{{ n.lower }}", "{{ [n.index] }}", "{{ joiner() }}", "{{ n.split | string }}"])
def test_a_template_never_shows_where_an_object_is_in_memory(text: str) -> None:
    """It would be another text, and so another image, in each process."""
    with pytest.raises(RenderError, match="call it"):
        render_text(text, {"n": "1"})
    assert render_text("<f at 0x7f>{{ n.lower() }}", {"n": "A"}) == "<f at 0x7f>a"
