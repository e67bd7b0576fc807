"""What a report says of each of its environments: where it fails, and where it does not."""

from __future__ import annotations

import pytest

from reprokit.environment.cases import load_text
from reprokit.intake import environments, grouping
from reprokit.intake.draft import render
from reprokit.intake.drafting import draft

BLOCK = "```\nOS: Debian GNU/Linux 12\nPython: 3.11.2\nscipy: {}\n```\n"
REPORT = """\
# Fitting dies

```
$ python fit.py
Traceback (most recent call last):
  File "fit.py", line 3, in fit
    go()
ValueError: bad shape
```

"""


def fails(words: str) -> bool | None:
    text = f"{words}\n\n{BLOCK.format('1.2.0')}"
    (one,) = grouping.statements(text.split("\n"), environments.together(environments.find(text)))
    return one.fails if one else None


@pytest.mark.parametrize(
    "words", ["It crashes here:", "Does not work on:", "**Broken since**", "报错的环境：", "在这台机器上无法正常运行"]
)
def test_phrases_that_say_it_fails(words: str) -> None:
    assert fails(words) is True


@pytest.mark.parametrize(
    "words",
    [
        "Works on my laptop:",
        "It does not fail with",
        "No error here:",
        "I could not reproduce it on",
        "正常的环境",
        "不报错",
        "没有问题的机器：",
        "runs fine",
        "复现失败",
    ],
)
def test_phrases_that_say_it_works(words: str) -> None:
    assert fails(words) is False


@pytest.mark.parametrize(
    "words", ["My environment:", "Does it work on this?", "Works on the old one, fails on the new one:", "环境：", ""]
)
def test_phrases_that_do_not_decide(words: str) -> None:
    assert fails(words) is None


def test_two_environments_become_cells_with_the_reports_statements() -> None:
    new, old = BLOCK.format("1.12.0"), BLOCK.format("1.11.4")
    text = f"{REPORT}It works with\n\n{old}\nand it fails with\n\n{new}"
    made = draft(text)
    case = load_text("draft.yaml", render(made)).case
    assert case.matrix.axes == {"os": ("debian-12",), "python": ("3.11",), "scipy": ("1.11.4", "1.12.0")}
    assert case.environment.pip == ("scipy=={{ scipy }}",)
    assert case.expect.reproduces == "unknown"  # a report is not a run
    assert made.notes[("expect",)] == ("as the report says, reproduces: [{scipy: '1.12.0'}]; not confirmed by a run",)
    assert "line 11 about the environment in line 14: It works with" in made.notes[("matrix",)]


def test_a_statement_about_one_environment_says_nothing_about_the_others() -> None:
    made = draft(f"{REPORT}It works with\n\n{BLOCK.format('1.11.4')}\nthe other one:\n\n{BLOCK.format('1.12.0')}")
    assert ("expect",) not in made.notes
    assert any("It works with" in note for note in made.notes[("matrix",)])


def test_an_environment_that_works_is_not_the_failing_one() -> None:
    text = f"fails with\n\n{BLOCK.format('1.12.0')}\nworks with\n\n{BLOCK.format('1.11.4')}\n{REPORT}"
    groups = environments.together(environments.find(text))
    found = grouping.statements(text.split("\n"), groups)
    assert [one and one.fails for one in found] == [True, False]
    assert grouping.failing(groups, None, found) == 0
    assert grouping.failing(groups, None, [None, None]) == 0
    assert grouping.failing(groups, None, [found[1], None]) == 1


VARIABLES = [
    ("It dies even with NCCL_P2P_DISABLE=1 set.", {"NCCL_P2P_DISABLE": "1"}),
    ("Environment variables:\n\n- WOBBLE_LEVEL=3", {"WOBBLE_LEVEL": "3"}),
    ("设置了环境变量 `FLAGS_use_wobble=0.5` 之后出现错误", {"FLAGS_use_wobble": "0.5"}),
    ("The program has BATCH_SIZE=32 in it", {}),
    ("It works with OMP_NUM_THREADS=1.", {}),
    ("OMP_NUM_THREADS=1 does not help", {}),
    ("cmake -DCUDA_ARCH=70 fails", {}),
]


def test_programs_are_axes_that_the_set_up_is_to_install() -> None:
    found = draft(f"{REPORT}I use Python 3.11 with Open MPI 4.1.2 and bazel 5.3.0.\n")
    assert (found.data["matrix"]["open_mpi"], found.data["matrix"]["bazel"]) == (["4.1.2"], ["5.3.0"])
    assert found.data["environment"]["setup"] == "# install open-mpi {{ open_mpi }}\n# install bazel {{ bazel }}\n"
    assert "Nothing installs open-mpi, bazel yet: do it in environment.setup." in render(found)
    found = draft(f"{REPORT}I use Python 3.11 with rocm 6.1.2 and Docker 25.0.3.\n")
    assert (found.data["matrix"]["rocm"], found.data["matrix"]["docker"]) == (["6.1.2"], ["25.0.3"])


def test_what_only_conda_installs_is_an_axis() -> None:
    rows = "blas  1.0  mkl\ncudatoolkit  10.1.243  h6bb024c_0\n"
    rows += "numpy  1.19.2  py38h54aff64_0\npython  3.8.5  h7579374_1\n"
    found = draft(f"{REPORT}```\n# Name  Version  Build\n{rows}```\n").data
    assert (found["matrix"]["blas"], found["matrix"]["cudatoolkit"]) == (["1.0"], ["10.1.243"])
    assert (found["matrix"]["cuda"], found["environment"]["pip"]) == (["10.1"], ["numpy==1.19.2"])


def test_what_a_report_without_python_names_is_not_asked_of_pip() -> None:
    text = "# wobbled stops\n\n### wobbled version\n\n7.0.7\n\n```\n$ wobbled --go\nSegmentation fault\n```\n"
    found = draft(text).data
    assert (found["matrix"]["wobbled"], "pip" in found["environment"]) == (["7.0.7"], False)
    python = draft(f"{text}```python\nimport wobbled\nwobbled.go()\n```\n").data
    assert python["environment"]["pip"] == ["wobbled==7.0.7"]


def test_the_answer_below_a_heading_in_chinese_is_of_what_it_names() -> None:
    assert draft("# Wobble 的问题\n\n### Wobble 版本\n\nv0.5.27\n").data["matrix"]["wobble"] == ["0.5.27"]


def test_an_answer_to_another_question_is_not_a_version_of_what_has_none() -> None:
    program = "```python\nimport wobble\nwobble.go()\n```\n"
    made = draft(f"# It dies\n\nWobble version\n\nDriver version: 535.104.05\n\n{program}").data
    assert "535" not in str({key: made.get(key) for key in ("matrix", "environment")})


def test_what_the_index_of_python_has_is_installed_by_pip() -> None:
    found = draft("# catboost fails\n\n```\nmodel = CatBoost({})\nmodel.fit(X)\n```\n\ncatboost version: 0.26.1\n")
    assert found.data["environment"]["pip"] == ["catboost==0.26.1"]


def test_the_tag_of_an_image_is_not_a_version_of_a_package() -> None:
    found = draft("# Load fails\n\nimage: nvcr.io/nvidia/wobbleserver:23.10-py3\nRun with Python.\n").data
    assert "wobbleserver" not in str(found.get("environment"))


def test_a_compiler_that_is_asked_for_its_version() -> None:
    found = draft("# CMake Error\n\ngcc --version : gcc (Ubuntu/Linaro 6.3.0-18ubuntu2~14.04) 6.3.0 20170519\n").data
    assert found["matrix"]["gcc"] == ["6.3"]


def test_a_version_without_a_name_is_not_one_of_a_compiler_in_the_title() -> None:
    text = "# The compiler crashes\n\n- wobble-dsl: **4.6.1** (fails); 4.4.2 compiles the same file\n- Python 3.12\n"
    assert "gcc" not in draft(text).data["matrix"]
