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


@pytest.mark.parametrize(("text", "env"), VARIABLES)
def test_variables_in_sentences_are_set_unless_it_works_with_them(text: str, env: dict[str, str]) -> None:
    assert draft(f"{REPORT}{text}\n").data.get("env", {}) == env


def test_a_variable_with_which_it_works_is_named_in_a_comment() -> None:
    assert "the report also tried OMP_NUM_THREADS=1" in render(draft(f"{REPORT}It works with OMP_NUM_THREADS=1.\n"))


def test_an_image_in_a_sentence_is_read() -> None:
    found = draft(f"{REPORT}I see it in `nvidia/cuda:11.8.0-cudnn8-devel-ubuntu22.04`.\n")
    assert found.data["matrix"] == {"os": ["ubuntu-22.04"], "cuda": ["11.8"], "cudnn": ["8"]}
    assert "matrix" not in draft(f"{REPORT}See python:3 and line fit.py:12, and localhost:8080.\n").data


def test_what_has_no_axis_is_reported_as_it_was_said() -> None:
    found = draft(f"{REPORT}I use Python 3.11 with firmware 6.1.2 and kernel 5.15.3.\n")
    assert found.data["report"]["environments"] == [{"firmware": "6.1.2", "kernel": "5.15.3"}]
    assert "not an axis of a case: firmware 6.1.2, kernel 5.15.3" in render(found)


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


def test_a_name_of_two_words_is_the_package_that_is_called_so() -> None:
    assert draft(f"{REPORT}The ONNX Runtime version: 1.17.0 fails.\n").data["environment"]["pip"] == [
        "onnxruntime==1.17.0"
    ]


def test_what_a_report_without_python_names_is_not_asked_of_pip() -> None:
    text = "# wobbled stops\n\n### wobbled version\n\n7.0.7\n\n```\n$ wobbled --go\nSegmentation fault\n```\n"
    found = draft(text).data
    assert (found["matrix"]["wobbled"], "pip" in found["environment"]) == (["7.0.7"], False)
    python = draft(f"{text}```python\nimport wobbled\nwobbled.go()\n```\n").data
    assert python["environment"]["pip"] == ["wobbled==7.0.7"]


def test_a_project_whose_versions_are_compared_is_installed_from_the_index() -> None:
    found = draft(f"{REPORT}transformers 4.31.0 升级之后报错，降级到 4.30.2 就正常了。\n").data
    assert found["matrix"]["transformers"] == ["4.30.2", "4.31.0"]
    assert "sources" not in found


def test_versions_of_pip_that_a_sentence_compares_are_installed() -> None:
    found = draft(f"{REPORT}pip 23.1 fails where pip 22.3.1 succeeded.\n").data
    assert found["matrix"]["pip"] == ["22.3.1", "23.1"]


@pytest.mark.parametrize("text", ["Arch Linux, Python 3.11", "It is an AWS arch server", "on my arch"])
def test_a_distribution_without_a_release_is_named(text: str) -> None:
    assert "arch was reported" in render(draft(f"{REPORT}{text}\n"))


@pytest.mark.parametrize(
    "text",
    [
        "I use torch 1.13.1; `python infer.py` gives nan, while it works fine on CPU.",
        "I use torch 1.13.1, the result is garbage, but on the CPU it works.",
        "我用的是torch1.13.1版本，运行python infer.py输出nan而cpu正常",
        "我用的是torch1.13.1版本，结果全是0，但在CPU上正常。",
    ],
)
def test_what_is_fine_elsewhere_does_not_leave_out_the_versions_of_the_sentence(text: str) -> None:
    assert "pip: [torch==1.13.1]" in render(draft(f"# The result is nan\n\n{text}\n"))


def test_a_sentence_with_a_turn_compares_what_is_on_both_sides_of_it() -> None:
    text = "# Nan\n\nI use torch 1.13.1, it gives nan, but with torch 1.12.0 it works.\n"
    assert 'torch: ["1.12.0", "1.13.1"]' in render(draft(text))


def test_what_works_with_the_same_version_is_not_compared() -> None:
    text = "# GCC 11 cannot build Wobble\n\nWith GCC 11 it fails.\n\nWobble v1.38.1, the newest, is fine with GCC 11.\n"
    assert list(draft(text).data["matrix"]) == ["os", "gcc"]


def test_the_answer_below_a_heading_in_chinese_is_of_what_it_names() -> None:
    assert draft("# Wobble 的问题\n\n### Wobble 版本\n\nv0.5.27\n").data["matrix"]["wobble"] == ["0.5.27"]


def test_what_the_index_of_python_has_is_installed_by_pip() -> None:
    found = draft("# catboost fails\n\n```\nmodel = CatBoost({})\nmodel.fit(X)\n```\n\ncatboost version: 0.26.1\n")
    assert found.data["environment"]["pip"] == ["catboost==0.26.1"]


def test_a_version_in_the_next_clause_is_of_what_the_sentence_is_about() -> None:
    found = draft("# can't compile\n\nIt has to do with an update to GCC, im using 4.8.2.\n")
    assert found.data["matrix"]["gcc"] == ["4.8"]


def test_older_versions_such_as_one_work() -> None:
    found = draft("# Numpy 1.13.1 fails regression\n\nBoth tests fail. Older versions such as 1.12 work.\n").data
    assert found["matrix"]["numpy"] == ["1.12", "1.13.1"]


def test_a_name_with_its_version_glued_to_it() -> None:
    found = draft("# It fails\n\npython3.8 wobbles1.9.0\n\n```python\nimport wobbles\n\nwobbles.go(1)\n```\n").data
    assert found["environment"]["pip"] == ["wobbles==1.9.0"]


def test_the_tag_of_an_image_is_not_a_version_of_a_package() -> None:
    found = draft("# Load fails\n\nimage: nvcr.io/nvidia/wobbleserver:23.10-py3\nRun with Python.\n").data
    assert "wobbleserver" not in str(found.get("environment"))


def test_a_compiler_that_is_asked_for_its_version() -> None:
    found = draft("# CMake Error\n\ngcc --version : gcc (Ubuntu/Linaro 6.3.0-18ubuntu2~14.04) 6.3.0 20170519\n").data
    assert found["matrix"]["gcc"] == ["6.3"]


def test_a_version_without_a_name_is_not_one_of_a_compiler_in_the_title() -> None:
    text = "# The compiler crashes\n\n- wobble-dsl: **4.6.1** (fails); 4.4.2 compiles the same file\n- Python 3.12\n"
    assert "gcc" not in draft(text).data["matrix"]
