"""The contract's example: it loads, renders, and is valid by the JSON Schema; what the schema refuses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from reprokit.case.cellspec import FileSpec, PipStepSpec
from reprokit.case.files import CaseFile
from reprokit.case.model import Case
from reprokit.case.render import TemplateProblem, render
from reprokit.environment.cases import json_schema, load

FULL = r"""schema: reprokit/v1
id: cityscapes-rmi-to-static            # [a-z0-9-]+, unique in a folder of cases
title: RMI loss meets a singular matrix when PaddleSeg trains with to_static
description: |                          # Markdown, shown in reports
  Training stops.
report:
  url: https://github.com/PaddlePaddle/PaddleSeg/issues/1
  environments:                         # as reported; keys are free; never interpreted
    - {platform: Linux, Python: 3.11, NVCC: 11.8, cudnn: 8.6, GPU: A100, GCC: 12.2}
tags: [paddle, segmentation]

matrix:                                 # known axes: os, python, gcc, cuda, cudnn. Any other name is a free axis.
  os: [debian-12]
  cuda: [none, "11.8", "12.0"]          # none = no CUDA in the image
  python: ["3.11"]
  gcc: ["11", "12"]
  paddle: [2.6.2, 3.3.1]                # free axis: only a template variable
  exclude: [{cuda: "12.0", gcc: "11"}]  # partial cells, as in GitHub Actions
  include: [{cuda: "11.8", paddle: 2.5.2}]   # whole extra cells

environment:
  image: ""                             # an explicit base image instead of one chosen from the axes
  apt: [libgl1]
  pip: ["paddlepaddle=={{ paddle }}", "numpy<2"]
  pip_options: ["--find-links https://example.org/{{ cuda }}"]
  setup: |                              # shell, run while the image is built, after apt and pip
    true
sources:                                # trees fetched by the host, put into the image at a pinned commit
  PaddleSeg:
    git: https://github.com/PaddlePaddle/PaddleSeg
    ref: v2.9.1                         # tag, branch or commit; what is recorded is the commit
    path: PaddleSeg                     # below workdir
    patch: |                            # optional unified diff
      --- a/x
      +++ b/x
      @@ -1 +1 @@
      -a
      +b
files:                                  # small files that travel in the case itself, below workdir
  make_data.py: |
    print("{{ paddle }}")
datasets:
  cityscapes:
    path: PaddleSeg/data/cityscapes     # below workdir; mounted read-only
    layout:                             # globs; each must match at least min files, else a clear error names it
      - {glob: "leftImg8bit/train/*/*_leftImg8bit.png", min: 1}
      - {glob: "gtFine/train/*/*_gtFine_labelTrainIds.png", min: 1}
    sha256: {}                          # optional, path -> digest
    generate: python make_data.py --out {{ out }}   # a stand-in made inside the image when no real data is given
env: {STRICT_MODE: 0, COST_MODEL: False, MIN_GRAPH_SIZE: 0, SOT_LOG_LEVEL: 3, ENABLE_FALL_BACK: True}
workdir: /workspace
command: |                              # bash -eo pipefail; or a list: exec form
  cd PaddleSeg && python tools/train.py --paddle {{ paddle }}
resources:
  gpus: 1                               # 0 by default
  gpu_memory: 16g
  cpus: 4
  memory: 16g
  shm_size: 1g                          # as in Compose
  timeout: 30m
  network: none                         # none (default) or bridge: the network of the run, not of the build
  user: repro                           # unprivileged by default; root where the bug needs it
trials: 3

expect:
  failure:                              # every key given must match
    exit_code: nonzero                  # a number, or nonzero (the default when nothing else is given)
    signal: SIGSEGV
    exception: RuntimeError             # type of the last traceback in the output (bare or dotted name)
    message: "singular U"               # substring of that exception's message; /.../ is a regular expression
    frames: ["rmi_loss.py:inverse"]     # file:function, in this order, somewhere in that traceback
    output: /nvcc fatal .*compute_\d+/  # anywhere in stdout or stderr
    out_of_memory: true
    timed_out: true
  reproduces:                           # all | none | unknown (default) | a list of partial cells: these and no others
    - {cuda: "12.0"}
fix:                                    # merged over the case: mappings merge, lists and scalars replace
  summary: Guard the covariance against singular input
  env: {STRICT_MODE: 1}
"""

CELL = {"os": "debian-12", "cuda": "11.8", "python": "3.11", "gcc": "12", "paddle": "2.6.2"}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> CaseFile:
    path = tmp_path_factory.mktemp("case") / "full.yaml"
    path.write_text(FULL)
    return load(str(path))[0]


def make(**changes: Any) -> Case:
    return Case.model_validate({"schema": "reprokit/v1", "id": "a", "title": "A", "command": "run", **changes})


def test_the_example_loads(full: CaseFile) -> None:
    case = full.case
    assert case.id == "cityscapes-rmi-to-static"
    assert case.matrix.axes["paddle"] == ("2.6.2", "3.3.1")
    assert case.matrix.include == ({"cuda": "11.8", "paddle": "2.5.2"},)
    assert case.env["COST_MODEL"] == "False"
    assert case.report is not None
    assert case.report.environments[0]["Python"] == "3.11"
    assert case.datasets["cityscapes"].layout[0].min == 1
    assert case.expect.failure.output == r"/nvcc fatal .*compute_\d+/"
    assert full.fixed is not None
    assert full.fixed.env["STRICT_MODE"] == "1"


def test_the_example_renders(full: CaseFile) -> None:
    spec = render(full.case, CELL)
    assert spec.environment.pip == ("paddlepaddle==2.6.2", "numpy<2")
    assert spec.files == {"make_data.py": FileSpec(text='print("2.6.2")\n')}
    assert spec.datasets["cityscapes"].generate == ("python make_data.py --out /workspace/PaddleSeg/data/cityscapes")
    assert spec.command[:4] == ("bash", "-eo", "pipefail", "-c")
    assert spec.command[4] == "cd PaddleSeg && python tools/train.py --paddle 2.6.2\n"
    limits = spec.limits
    assert (limits.gpus, limits.gpu_memory, limits.shm_size) == (1, 16 * 1024**3, 1024**3)
    assert (limits.cpus, limits.timeout, limits.network, limits.user) == (4.0, 1800.0, "none", "repro")
    assert render(full.case, {"cuda": "11.8", "paddle": "2.5.2"}).environment.pip[0] == "paddlepaddle==2.5.2"


def test_the_schema_accepts_the_example_as_other_tools_read_it() -> None:
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator(schema).validate(yaml.safe_load(FULL))
    jsonschema.Draft202012Validator(schema).validate(yaml.load(FULL, Loader=yaml.BaseLoader))


@pytest.mark.parametrize(
    "text",
    [
        "matrix: {python: [3.10, 3.1], free: [yes, 1, 2.50, null, 'x']}",
        "env: {A: , B: no, C: 1e3}",
        "command: [echo, 1, true]",
        "fix: {sources: {S: {ref: v2}}, environment: {pip: [a]}, trials: 2}",
        "trials: {max: 20, confidence: 0.95, rate: 0.1}\nfix: {trials: {max: 40}}",
        "fix: {only: [{torch: 2.0}], env: {A: 1}}",
        "resources: {memory: '{{ m }}', cpus: 0.5, timeout: 90, network: '{{ n }}', user: 1000}",
        "expect: {failure: {exit_code: 3, timed_out: yes}, reproduces: all}",
        "title: 2024",
    ],
)
def test_the_schema_accepts(text: str) -> None:
    _validate(text)


@pytest.mark.parametrize(
    "text",
    [
        "unknown: 1",
        "trials: many",
        "trials: 0",
        "trials: {max: 0}",
        "trials: {rate: 1}",
        "trials: {confidence: 0.2}",
        "trials: {most: 3}",
        "matrix: {cuda: '11.8'}",
        "matrix: {cuda: []}",
        "matrix: {cuda: ['11.x']}",
        "matrix: {node-version: [1]}",
        "matrix: {free: [{a: b}]}",
        "environment: {pip: numpy}",
        "environment: {pipp: [numpy]}",
        "resources: {memory: lots}",
        "resources: {network: host}",
        "resources: {gpus: -1}",
        "sources: {S: {git: x, path: S}}",
        "expect: {reproduces: some}",
        "expect: {failure: {exit_code: zero}}",
        "fix: {title: x}",
        "fix: {only: [], env: {A: 1}}",
        "fix: {only: {a: 1}, env: {A: 1}}",
        "fix: {sources: {S: {reff: v2}}}",
        "id: Not A Slug",
        "command: {a: b}",
    ],
)
def test_the_schema_refuses(text: str) -> None:
    with pytest.raises(jsonschema.ValidationError):
        _validate(text)


def _validate(text: str) -> None:
    base = {"schema": "reprokit/v1", "id": "a", "title": "A", "command": "run"}
    jsonschema.Draft202012Validator(json_schema()).validate(base | yaml.safe_load(text))


def test_every_key_of_the_schema_is_described() -> None:
    schema = json_schema()
    bare = [
        f"{name}.{key}"
        for name, part in [("case", schema), *schema["$defs"].items()]
        for key, value in part.get("properties", {}).items()
        if not (value.get("description") or schema["$defs"][value["$ref"].rpartition("/")[2]].get("description"))
    ]
    assert bare == []
    assert schema["$schema"].endswith("2020-12/schema")
    assert schema["$id"]


def test_a_template_may_leave_out_a_requirement_and_a_limit() -> None:
    case = make(
        environment={"pip": ["a", "{% if cuda != 'none' %}b{% endif %}"]},
        resources={"memory": "{% if cuda != 'none' %}8g{% endif %}"},
    )
    assert render(case, {"cuda": "none"}).environment.pip == ("a",)
    assert render(case, {"cuda": "none"}).limits.memory is None
    assert render(case, {"cuda": "12.0"}).environment.pip == ("a", "b")
    assert render(case, {"cuda": "12.0"}).limits.memory == 8 * 1024**3


STEPS = [["wheel", "numpy=={{ n }}"], {"requirements": ["old==1"], "options": ["--no-build-isolation"]}]


def test_pip_installs_in_one_step_or_in_several() -> None:
    alone = render(make(environment={"pip": ["a", "b"]}), {}).environment
    assert alone.pip == ("a", "b")
    assert alone.pip_steps == render(make(environment={"pip": [["a", "b"]]}), {}).environment.pip_steps
    several = render(make(environment={"pip": [*STEPS, ["{% if n == '2' %}more{% endif %}"]]}), {"n": "1"}).environment
    assert several.pip_steps == (
        PipStepSpec(requirements=("wheel", "numpy==1")),
        PipStepSpec(requirements=("old==1",), options=("--no-build-isolation",)),
    )
    assert several.requirements == ("wheel", "numpy==1", "old==1")


def test_the_schema_knows_steps_of_pip() -> None:
    import json

    for text in (json.dumps({"environment": {"pip": STEPS}}), json.dumps({"fix": {"environment": {"pip": [["a"]]}}})):
        _validate(text)
    for text in ("environment: {pip: [{requirement: [a]}]}", "environment: {pip: [[[a]]]}"):
        with pytest.raises(jsonschema.ValidationError):
            _validate(text)


def test_a_command_as_a_list_is_run_as_it_is() -> None:
    assert render(make(command=["echo", "{{ a }}", ""]), {"a": "x y"}).command == ("echo", "x y", "")


def test_what_is_between_raw_tags_stays() -> None:
    case = make(command="{% raw %}echo ${#a[@]} {{ x }}{% endraw %} {{ a }}\n")
    assert render(case, {"a": "1"}).command[4] == "echo ${#a[@]} {{ x }} 1\n"


def test_the_folder_of_a_dataset_is_quoted_for_the_shell() -> None:
    case = make(datasets={"d": {"path": "my data", "generate": "make {{ out }}"}})
    assert render(case, {}).datasets["d"].generate == "make '/workspace/my data'"


@pytest.mark.parametrize(
    ("changes", "loc", "message"),
    [
        ({"command": "{{ b }}"}, ("command",), "'b' is undefined"),
        ({"resources": {"memory": "{{ a }}"}}, ("resources", "memory"), "expected a size"),
        ({"resources": {"network": "{{ a }}"}}, ("resources", "network"), "expected none or bridge"),
        ({"files": {"f": "{{ a.b }}"}}, ("files", "f"), "no attribute 'b'"),
        ({"files": {"f": {"content": "{{ a.b }}"}}}, ("files", "f", "content"), "no attribute 'b'"),
        ({"files": {"f": {"content": "", "mode": "{{ a }}"}}}, ("files", "f", "mode"), "expected a file mode"),
        ({"resources": {"output": "{{ a }}"}}, ("resources", "output"), "expected joined or separate"),
        ({"env": {"A": "{{ a.__class__ }}"}}, ("env", "A"), "unsafe"),
        ({"env": {"A": "{{ 'x' * 10**9 }}"}}, ("env", "A"), "not allowed"),
        ({"env": {"A": "{{ 'x' * 1000000000 }}"}}, ("env", "A"), "only allowed for numbers"),
        ({"env": {"A": "{{ range(10**9) }}"}}, ("env", "A"), "not allowed"),
        ({"datasets": {"d": {"path": "{{ '..' }}/x"}}}, ("datasets", "d", "path"), "without .."),
        ({"sources": {"S": {"git": "{{ 'ext::x' }}", "ref": "a", "path": "S"}}}, ("sources", "S", "git"), "git"),
        ({"command": ["{% if false %}x{% endif %}"]}, ("command", 0), "found nothing"),
    ],
)
def test_what_does_not_work_out_in_a_cell(changes: dict[str, Any], loc: tuple[str, ...], message: str) -> None:
    with pytest.raises(TemplateProblem) as caught:
        render(make(**changes), {"a": "lots"})
    assert caught.value.loc == loc
    assert message in str(caught.value)
    assert "a=lots" in str(caught.value)


def test_a_thousand_cells_render_within_a_second(full: CaseFile) -> None:
    import time

    start = time.process_time()
    for number in range(1000):
        render(full.case, {**CELL, "paddle": str(number)})
    assert time.process_time() - start < 1.0


def test_examples_in_the_documentation_of_limits(tmp_path: Path) -> None:
    case = make(resources={"memory": "1.5GiB", "timeout": "1h30m", "cpus": "0.5", "pids": "100", "user": "1000:1000"})
    limits = render(case, {}).limits
    assert limits.memory == 3 * 1024**3 // 2
    assert limits.timeout == 5400.0
    assert (limits.cpus, limits.pids, limits.user) == (0.5, 100, "1000:1000")


def test_a_file_may_have_permissions_of_its_own_and_output_two_pipes() -> None:
    files = {"a": {"content": "{{ a }}", "mode": "0{{ 750 }}"}, "b": {"content": "#!/bin/sh"}, "c": "#!/bin/sh"}
    spec = render(make(files=files, resources={"output": "separate"}), {"a": "x"})
    assert spec.files["a"] == FileSpec(text="x", mode=0o750)
    assert spec.files["b"] == spec.files["c"] == FileSpec(text="#!/bin/sh")
    assert [oct(file.permissions) for file in spec.files.values()] == ["0o750", "0o755", "0o755"]
    assert (spec.limits.output, render(make(), {}).limits.output) == ("separate", "joined")
