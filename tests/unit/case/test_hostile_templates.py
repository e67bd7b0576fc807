"""Templates that want all time or memory: refused at their place, in little of both."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case import templates
from reprokit.case.checks import MOST_AXES, MOST_TAG_TEXT, MOST_TAGS
from reprokit.case.sandbox import filled
from reprokit.case.templates import MAX_TEXT, TOO_LONG, RenderError, fresh_budget, inspect, render_text
from reprokit.core.errors import CaseError, Problem
from reprokit.environment.cases import load_text
from tests.unit.limits import within

DOUBLING = "{% set x = 'aaaaaaaa' %}" + "{% set x = x ~ x %}" * 40
LOOP = "{{% for {0} in range(9999) %}}{1}{{% endfor %}}"
LOOPS = LOOP.format("a", LOOP.format("b", LOOP.format("c", "{{ a }}")))
FORTY = "9" * 40
FOUR_HUNDRED = "9" * 400

HOSTILE = {
    "format-width": "{{ '%1000000000d' % 1 }}",
    "format-width-of-text": "{{ '%1000000000s' % 'x' }}",
    "format-precision": "{{ '%.1000000000f' % 1.5 }}",
    "format-filter": "{{ '%1000000000d'|format(1) }}",
    "format-method": "{{ '{:1000000000}'.format(1) }}",
    "format-nested": "{{ '{:{}}'.format(1, 1000000000) }}",
    "format-400-digits": f"{{{{ '%{FOUR_HUNDRED}d' % 1 }}}}",
    "in-autoescape": "{% autoescape '%1000000000d' % 1 %}{% endautoescape %}",
    "in-a-condition": "{% if '%1000000000d' % 1 %}{% endif %}",
    "in-a-test": "{{ ('%1000000000d' % 1) is defined }}",
    "in-a-subscript": "{{ a['%1000000000d' % 1] }}",
    "in-a-default": "{{ a|default('%1000000000d' % 1) }}",
    "doubling": DOUBLING + "{{ x|length }}",
    "doubling-by-plus": DOUBLING.replace("~", "+") + "{{ x|length }}",
    "doubling-lists": "{% set x = [1] %}" + "{% set x = x + x %}" * 40 + "{{ x|length }}",
    "doubling-by-replace": "{{ 'a'" + "|replace('a', 'aa')" * 40 + "}}",
    "doubling-by-join": "{{ 'aa'" + "|join('aa')" * 40 + "}}",
    "doubling-by-format": "{% set x = 'a' %}" + "{% set x = '%s%s' % (x, x) %}" * 40,
    "doubling-by-macro": "{% macro m(x) %}{{ x }}{{ x }}{% endmacro %}{{ " + "m(" * 30 + "'a'" + ")" * 30 + "}}",
    "doubling-by-block": "{% set x = 'a' %}" + "{% set x %}{{ x }}{{ x }}{% endset %}" * 40,
    "doubling-by-escape": "{{ '&'" + "|forceescape" * 3000 + "}}",
    "multiplied-text": "{{ 'a' * 1000000000 }}",
    "multiplied-list": "{{ ([1] * 1000000000)|length }}",
    "multiplied-numbers": "{{ " + "*".join([FORTY] * 100) + "}}",
    "power": "{{ 10 ** 1000000000 }}",
    "number-of-5000-digits": "{{ " + "9" * 5000 + " }}",
    "range": "{{ range(1000000000)|list }}",
    "range-of-400-digits": f"{{{{ range({FOUR_HUNDRED})|list }}}}",
    "nested-loops": LOOPS,
    "loop-in-loop-filter": "{% for a in range(9999) if range(99999)|sum %}{% endfor %}",
    "loops-over-text": "{% set x = 'a'.ljust(9999) %}" + "{% for a in x %}" * 15 + "{% endfor %}" * 15,
    "sum-of-lists": "{% set x = range(99999)|map('list')|list %}{{ range(99999)|batch(1)|sum(start=[])|length }}",
    "batch": "{{ [1]|batch(1000000000, 0)|list }}",
    "slice": "{{ [1]|slice(1000000000, 0)|list }}",
    "slice-of-400-digits": f"{{{{ [1]|slice({FOUR_HUNDRED})|list }}}}",
    "ljust": "{{ 'x'.ljust(1000000000) }}",
    "rjust": "{{ 'x'.rjust(1000000000) }}",
    "center-method": "{{ 'x'.center(1000000000) }}",
    "zfill": "{{ 'x'.zfill(1000000000) }}",
    "zfill-400-digits": f"{{{{ 'x'.zfill({FOUR_HUNDRED}) }}}}",
    "expandtabs": "{{ 'a\\tb'.expandtabs(1000000000) }}",
    "center": "{{ 'x'|center(1000000000) }}",
    "indent": "{{ 'x\\ny'|indent(1000000000) }}",
    "tojson-indent": "{{ [1]|tojson(1000000000) }}",
    "wordwrap": "{% for i in range(99) %}{{ ('x '.ljust(20000000))|wordwrap(1) }}{% endfor %}",
    "round": "{{ 1.5|round(1000000000, 'ceil') }}",
    "int-of-a-long-text": "{{ '9'.ljust(50000000, '9')|int(base=16) }}",
    "cycler": "{% set c = cycler(1, 2) %}" + LOOPS.replace("{{ a }}", "{{ c.next() }}"),
    "namespace": "{% set n = namespace(x='aa') %}{% for i in range(99) %}{% set n.x = n.x ~ n.x %}{% endfor %}",
    "macro-that-recurses": "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "macro-tree": "{% macro m(n) %}{% if n %}{{ m(n - 1) }}{{ m(n - 1) }}{% endif %}{% endmacro %}{{ m(40) }}",
    "recursive-loop": "{% for x in [1] recursive %}{{ loop([1, 2]) }}{% endfor %}",
    "call-block": "{% macro m() %}{{ caller() }}{{ caller() }}{% endmacro %}"
    + "{% call m() %}" * 18
    + "a" * 200
    + "{% endcall %}" * 18,
    "include": "{% include 'x' %}",
    "import": "{% import 'x' as y %}",
    "extends": "{% extends 'x' %}",
    "include-itself": "{% include self %}",
    "deep-parentheses": "{{ " + "(" * 5000 + "1" + ")" * 5000 + " }}",
    "deep-lists": "{{ " + "[" * 5000 + "]" * 5000 + " }}",
    "deep-not": "{{ " + "not " * 5000 + "a }}",
    "deep-sum": "{{ " + "a + " * 20000 + "a }}",
    "deep-attributes": "{{ a" + ".b" * 20000 + " }}",
    "deep-conditions": "{% if a %}" * 5000 + "{% endif %}" * 5000,
    "deep-filters": "{{ a" + "|lower" * 20000 + " }}",
    "deep-choices": "{{ " + "a if a else " * 5000 + "a }}",
    "deep-loops": "{% for a in [1] %}" * 100 + "{% endfor %}" * 100,
    "attribute-class": "{{ ''.__class__.__mro__ }}",
    "attribute-by-filter": "{{ ''|attr('__class__')|attr('__mro__') }}",
    "attribute-in-a-format": "{{ '{0.__class__.__mro__}'.format('') }}",
    "attribute-in-map": "{{ ['']|map(attribute='__class__')|first }}",
    "undefined-name": "{{ lipsum() }}",
    "random": "{{ [1, 2]|random }}",
    "sort-many": "{% for i in range(999) %}{{ range(99999)|map('string')|sort|first }}{% endfor %}",
    "unique-many": "{% for i in range(999) %}{{ range(99999)|unique|list|first }}{% endfor %}",
}
SHELL = "schema: reprokit/v1\nid: a\ntitle: A\nmatrix: {a: ['1'], n: [1, 2, 3, 4, 5, 6, 7, 8, 9]}\n"


def problems_of(template: str) -> tuple[Problem, ...]:
    body = template.replace("'", "''")
    with pytest.raises(CaseError) as caught:
        load_text("a.yaml", f"{SHELL}env:\n  A: '{body}'\ncommand: run\n")
    return caught.value.problems


LONG = {
    "call-block", "doubling-by-join", "doubling-by-replace", "int-of-a-long-text", "loop-in-loop-filter",
    "loops-over-text", "macro-tree", "round", "slice", "slice-of-400-digits", "sort-many", "unique-many", "wordwrap",
}  # fmt: skip
"""These take half a second and more of the time that is allowed."""


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.system] * (name in LONG)) for name in HOSTILE])
def test_is_refused_at_its_place_in_little_time_and_memory(name: str) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    with within(seconds=30, megabytes=200):
        problems = problems_of(HOSTILE[name])
    assert all(one.line == 6 and 6 <= one.column < 200_000 for one in problems)
    assert all("env.A" in one.message and len(str(one)) < 2000 for one in problems)
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # a fork begins with the pages of its parent
    assert child < own + 200 * 1024 or child == before  # a child of another test may have been larger


@pytest.mark.parametrize(
    ("template", "text"),
    [
        pytest.param("{{ a }}", "1", id="name"),
        pytest.param("{% for i in range(3) %}{{ a }}{{ i }}{% endfor %}", "101112", id="loop"),
        pytest.param("{{ ['x', 'y']|join(' ') }}", "x y", id="join"),
        pytest.param("{% set v = a.split('.') %}{{ v[0] }}", "1", id="set"),
        pytest.param("{{ '%02d' % 7 }}", "07", id="format"),
        pytest.param("{{ a|replace('.', '') }}", "1", id="replace"),
        pytest.param("{% macro m(x) %}<{{ x }}>{% endmacro %}{{ m(a) }}", "<1>", id="macro"),
        pytest.param("{{ '错误\\ud800' ~ a|upper }}", "错误\ud8001", id="other-scripts"),
        pytest.param("{{ 'x'|center(1000000)|length }}", "1000000", id="large"),
        pytest.param("{{ 2 * 3 + 4 // 2 }}", "8", id="arithmetic"),
    ],
)
def test_what_cases_write_is_rendered(template: str, text: str) -> None:
    assert render_text(template, {"a": "1"}) == text


def test_plain_templates_need_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates._child(), "ask", None)
    text = "{% if a == '1' and a not in ('2', b) %}x{{ a|d('') ~ b|default('y') }}{% endif %}{{ a.startswith('1') }}"
    text = text.replace("('2', b)", "'2'")
    assert render_text(text, {"a": "1", "b": "2"}) == "x12True"
    for path in (Path(__file__).parents[3] / "cases").glob("*.yaml"):
        assert load_text(path.name, path.read_text()).case


PARTS = ("a", "\n", "{", "}}", "{{ x }}", "{{- x -}}", "{{ y -}}", "{{ z }}", "{{ none }}", "{{ 'k' }}", "{{ self }}")
PARTS = (
    *PARTS,
    "{{ range }}",
    "{# c -#}",
    "{% raw %}{{ x }}{% endraw %}",
    "{%- if x -%} q {% endif %}",
    "{{ x|lower }}",
)


@given(st.lists(st.sampled_from(PARTS), max_size=6).map("".join))
def test_what_is_put_together_here_is_what_jinja2_makes(text: str) -> None:
    values = {"x": "Up", "y": "", "range": "r", "self": "me"}
    if not inspect(text).pieces:
        return
    try:
        expected = filled(text, values)
    except RenderError as error:
        expected = f"error: {error}"
    try:
        found = render_text(text, values)
    except RenderError as error:
        found = f"error: {error}"
    assert found == expected


def test_large_values_used_often_are_rendered_under_the_limits() -> None:
    text = "{% if x %}" + "{{ '' ~ x ~ x ~ x ~ x }}" * 100 + "{% endif %}"
    assert inspect(text).plain_names > 0
    with within(seconds=60, megabytes=200), pytest.raises(RenderError, match=r"MiB of text|too much time or memory"):
        render_text(text, {"x": "x" * (MAX_TEXT // 100)})


@pytest.mark.nightly
def test_many_that_each_take_long_are_refused_as_one_that_does() -> None:
    fresh_budget()
    used = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    with within(seconds=100):
        for number in range(300):
            with pytest.raises(RenderError, match="too much time"):
                render_text(LOOPS.replace("9999", str(90000 + number)), {})
        fresh_budget()
        assert render_text("{% for i in range(2) %}{{ i }}{% endfor %}", {}) == "01"
    templates._child().stop()
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - used < 20


def test_one_that_was_killed_is_followed_by_another(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = "{% for i in range(2) %}{{ i }}{% endfor %}"
    assert render_text(loop, {}) == "01"
    process = templates._child()._process
    assert process is not None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    with pytest.raises(RenderError):
        render_text(loop, {})
    fresh_budget()
    assert render_text(loop, {}) == "01"


def test_an_interrupted_question_leaves_no_answer_for_the_next() -> None:
    fresh_budget()
    with pytest.raises(TimeoutError), within(seconds=1, wall=0.05):
        render_text(LOOPS, {})
    fresh_budget()
    assert render_text("{% for i in range(2) %}{{ i }}{% endfor %}", {}) == "01"


def test_too_long_is_said_in_words() -> None:
    assert TOO_LONG in problems_of(LOOPS)[0].message


@pytest.mark.parametrize("tag", ["{{", "{%", "{{ a", "{% a"])
def test_a_place_is_found_in_linear_time(tag: str) -> None:
    with within(seconds=60):
        # What lies between {% and the %} of endraw counts as a template's: no more of it than is looked at.
        text = tag * (100_000 if "{{" in tag else MOST_TAG_TEXT // 5)
        problems = problems_of("{% set x = nowhere %}{% raw %}" + text + "{% endraw %}")
    assert [(one.line, one.column) for one in problems] == [(6, 18)]


@pytest.mark.parametrize(
    "templates",
    [["{{ a }}"] * (MOST_TAGS + 1), ["{{ a }}" * (MOST_TAGS + 1)], ["{{ [" + "a, " * MOST_TAG_TEXT + "] }}"]],
    ids=["many", "one-of-many-tags", "one-long-tag"],
)
@pytest.mark.parametrize("part", ["", "fix"])
def test_more_templates_than_are_looked_at_are_refused_where_they_end(part: str, templates: list[str]) -> None:
    margin = "  " if part else ""
    env = "".join(f"{margin}  A{number}: '{text}'\n" for number, text in enumerate(templates))
    with pytest.raises(CaseError) as caught:
        load_text("a.yaml", f"{SHELL}command: run\n{part and f'{part}:'}\n{margin}env:\n{env}")
    [problem] = caught.value.problems
    assert (problem.line, "the templates up to here have more than" in problem.message) == (7 + len(templates), True)


def test_as_many_templates_as_are_looked_at_are_taken() -> None:
    env = "".join(f"  A{number}: '{{{{ a }}}}'\n" for number in range(MOST_TAGS))
    assert len(load_text("a.yaml", f"{SHELL}command: run\nenv:\n{env}").case.env) == MOST_TAGS


def test_what_is_raw_from_the_first_character_does_not_count() -> None:
    """A patch of another's that is full of braces."""
    raw = "{% raw %}" + "{{ a }}{% b %}{{" * MOST_TAGS
    text = f"{raw}{{% endraw %}}" + "{{ 7 }}" * (MOST_TAGS - 1)
    assert load_text("a.yaml", f"{SHELL}command: run\nfiles:\n  a: '{text}'\n").case.files
    for hostile in (f"{text}{{{{ 7 }}}}", f"{{{{ 7 }}}}{raw}{{% endraw %}}", f'{{{{ "}}}}{raw}" }}}}'):
        with pytest.raises(CaseError, match="the templates up to here have more than"):
            load_text("a.yaml", f"{SHELL}command: run\nfiles:\n  a: '{hostile}'\n")


def test_more_axes_than_are_looked_at_are_refused() -> None:
    axes = ", ".join(f"a{number}: ['1']" for number in range(MOST_AXES + 1))
    with pytest.raises(CaseError, match=f"matrix: more than {MOST_AXES} axes"):
        load_text("a.yaml", f"schema: reprokit/v1\nid: a\ntitle: A\ncommand: run\nmatrix: {{{axes}}}\n")
