"""The player of workflows itself: it must fail where GitHub's runner would."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.github.expressions import condition, evaluate, template
from tests.unit.github.steps import Replay

CONTEXTS: dict[str, Any] = {
    "github": {"event": {"label": {"name": "run:ab"}, "issue": {"labels": [{"name": "a"}, {"name": "b"}]}}, "ref": "x"},
    "needs": {"a": {"result": "success", "outputs": {"run": "true", "cells": '{"include": [1, 2]}'}}},
    "steps": {},
}
YES = {"success": lambda: True, "always": lambda: True, "failure": lambda: False}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("github.event.label.name", "run:ab"),
        ("startsWith(github.event.label.name, 'RUN:')", True),
        ("contains(github.event.issue.labels.*.name, 'b')", True),
        ("contains(github.event.issue.labels.*.name, 'c')", False),
        ("fromJSON(needs.a.outputs.cells).include[1]", 2),
        ("needs.a.outputs.run == 'true' && fromJSON('[\"gpu\"]') || 'hosted'", ["gpu"]),
        ("needs.b.outputs.run == 'true' && 1 || 'it''s'", "it's"),
        ("!(1 > 2) && null == ''", True),
        ("format('{0}-{1}', github.ref, 3)", "x-3"),
    ],
)
def test_expressions(text: str, value: object) -> None:
    assert evaluate(text, CONTEXTS, {}) == value


def test_templates_and_conditions() -> None:
    assert template("a ${{ github.ref }} ${{ true }}", CONTEXTS, {}) == "a x true"
    assert condition("", CONTEXTS, YES)
    assert not condition("github.ref == 'x'", CONTEXTS, {**YES, "success": lambda: False})
    assert condition("${{ always() && github.ref == 'x' }}", CONTEXTS, {**YES, "success": lambda: False})
    for wrong in ("github.", "a b", "unknown.x", "f(1", 'github.ref == "x"'):
        with pytest.raises((ValueError, IndexError)):
            evaluate(wrong, CONTEXTS, {})


WORKFLOW = """
name: t
on: push
env: {A: top, B: top}
defaults: {run: {shell: bash}}
jobs:
  first:
    runs-on: ubuntu
    env: {B: job}
    outputs: {word: "${{ steps.say.outputs.word }}"}
    steps:
      - uses: actions/upload-artifact@x
        with: {name: none, path: nothing.txt}
      - id: say
        env: {C: "${{ github.ref }}"}
        run: |
          echo "word=$A-$B-$C" >> "$GITHUB_OUTPUT"
          printf 'many<<E\\na\\nb\\nE\\n' >> "$GITHUB_OUTPUT"
          echo "D=later" >> "$GITHUB_ENV"
          echo "::error file=x::no"
          echo "sum" >> "$GITHUB_STEP_SUMMARY"
      - run: test "$D" = later
        working-directory: .
      - run: false | true
      - run: echo not reached
      - if: failure()
        run: echo reached
  second:
    needs: first
    if: always() && needs.first.outputs.word == 'top-job-refs/heads/main'
    strategy: {matrix: {n: [1, 2], os: [a], exclude: [{n: 2}], include: [{n: 3, os: b}]}}
    runs-on: ${{ matrix.os }}
    steps: [{run: 'echo "cell $N"', env: {N: "${{ matrix.n }}"}}]
  third:
    needs: [first, second]
    runs-on: x
    steps: [{run: echo never}]
"""


def test_jobs_steps_outputs_failures_and_matrices(tmp_path: Path) -> None:
    file = tmp_path / "w.yml"
    file.write_text(WORKFLOW)
    replay = Replay(file, tmp_path / "played").run()
    first = replay.job("first")
    assert first.result == "failure"
    assert [step.outcome for step in first.steps] == ["success", "success", "success", "failure", "skipped", "success"]
    assert first.outputs == {"word": "top-job-refs/heads/main"}
    assert first.step("say").outputs["many"] == "a\nb"
    assert first.commands == [("error", "file=x", "no")]
    assert first.summary == "sum\n"
    assert [(job.matrix, job.runs_on, job.log) for job in replay.jobs["second"]] == [
        ({"n": 1, "os": "a"}, "a", "cell 1\n"),
        ({"n": 3, "os": "b"}, "b", "cell 3\n"),
    ]
    assert replay.job("third").result == "skipped"
