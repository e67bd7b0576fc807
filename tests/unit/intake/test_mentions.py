"""Versions in sentences: whose they are, whether it works with them, and the axis that becomes of them."""

from __future__ import annotations

import pytest

from reprokit.environment.cases import load_text
from reprokit.intake.draft import render
from reprokit.intake.drafting import draft

SAID = [
    ("It works with numpy 1.26 and fails with numpy 2.0.", "numpy+1.26 numpy-2.0"),
    ("With numpy 1.26 everything is fine, with 2.0 it crashes.", "numpy+1.26 numpy-2.0"),
    ("Broken since scipy 1.11; 1.10 was fine.", "scipy-1.11 scipy+1.10"),
    ("The error happens with tensorflow 2.5.0. It doesn't happen with 2.4.3.", "tensorflow-2.5.0 tensorflow+2.4.3"),
    ("I upgraded pandas from 1.5.3 to 2.0.0 and it fails", "pandas+1.5.3 pandas-2.0.0"),
    ("Reverting to torch 1.13.1 solves the problem", "torch+1.13.1"),
    ("fails on Python 3.12 (works on 3.11)", "python-3.12 python+3.11"),
    ("This worked in 1.2.3 but not in 1.3.0", "+1.2.3 -1.3.0"),
    ("numpy 升级到2.0.1后报错，1.26.4没有问题", "numpy-2.0.1 numpy+1.26.4"),
    ("2024-04-13 16:21:57.832 | ERROR | numpy failed", ""),
    ("降级到 numpy 1.26 正常", "numpy+1.26"),
    ("从1.8升级到2.0后报错", "+1.8 -2.0"),
    ("I'm using torch 2.1.0 with CUDA 11.8 on Ubuntu 20.04", "torch?2.1.0 cuda?11.8"),
    ("wobble==0.20.3 and frobnicate 1.2.3 are installed", "wobble?0.20.3 frobnicate?1.2.3"),
    ("see line 3.4, section 2.1 and https://example.org/numpy/1.2.3", ""),
    ("other words 1.2.3 and version 2", ""),
    (
        "It works on one (Ubuntu 20.04, Python 3.8), but fails on the other (Debian 10, Python 3.7)",
        "os+ubuntu-20.04 python+3.8 os-debian-10 python-3.7",
    ),
    ("numpy took 3.5 s (7.1 ms before) and 6.2 MB of torch", ""),
    ("scipy 1.10.1 OK", "scipy+1.10.1"),
    ("The problem first appeared in scipy 1.11.0; 1.10.1 doesn't have it.", "scipy-1.11.0 scipy+1.10.1"),
    ("I can reproduce with scipy 1.11.0 but not with scipy 1.10.1.", "scipy-1.11.0 scipy+1.10.1"),
    ("scipy 1.10.1 works; scipy 1.11.0 doesn't.", "scipy+1.10.1 scipy-1.11.0"),
    ("scipy 1.10.1 -> 1.11.0 broke it.", "scipy+1.10.1 scipy-1.11.0"),
    ("Downgrading scipy to 1.10.1 helps.  I have scipy 1.11.0 installed.", "scipy+1.10.1 scipy?1.11.0"),
    ("使用 scipy 1.10.1 没有问题，换成 1.11.0 就崩溃", "scipy+1.10.1 scipy-1.11.0"),
    ("scipy1.11.0有这个bug，scipy1.10.1没有", "scipy-1.11.0 scipy+1.10.1"),
    ("scipy 1.11.0 introduced this; 1.10.1 does not show it.", "scipy-1.11.0 scipy+1.10.1"),
    ("Using scipy==1.10.1 instead of scipy==1.11.0 makes the error disappear", "scipy+1.10.1 scipy-1.11.0"),
    ("scipy 1.11.0 比 scipy 1.10.1 慢很多", "scipy-1.11.0 scipy+1.10.1"),
    (
        "The problem started when scipy was bumped to 1.11.0. `pip install scipy==1.10.1` resolves it.",
        "scipy-1.11.0 scipy+1.10.1",
    ),
    ("### Last working scipy version\n\n1.10.1\n\n### Installed scipy version\n\n1.11.0", "scipy+1.10.1 scipy?1.11.0"),
    ("| scipy | result |\n|---|---|\n| 1.10.1 | OK |\n| 1.11.0 | fails |", "scipy+1.10.1 scipy-1.11.0"),
    ("用 gcc 9.4 编译通过，gcc 13.2 编译不过", "gcc+9.4 gcc-13.2"),
    ("在 scipy 1.11.0 下结果不对，1.10.1 下结果正确", "scipy-1.11.0 scipy+1.10.1"),
    ("It says scipy>=1.12 is required, but I have scipy 1.10.1", "scipy?1.10.1"),
    ("It requires CUDA 11.8, Python 3.9 and scipy 1.9", ""),
    ("With Cython<3 (0.29.36) it builds", "cython+0.29.36"),
    ("1.10.1 版本的 scipy 不会出现这个问题，1.11.0 版本会出现", "scipy+1.10.1 scipy-1.11.0"),
    ("works on py3.10, fails on python311", "python+3.10 python-3.11"),
    ("It needs scipy 1.9 or newer.", ""),
    ("The changelog of scipy 1.9.0 mentions this.", ""),
    ("When will there be a wheel for Python 3.14?", ""),
    ("According to the README, Python 3.8 and above is supported.", ""),
    ("官方文档说支持 CUDA 11.8", ""),
    ("在 scipy 1.9.1 中已修复", ""),
    ("3.7.3 (default, Mar 27 2019) [GCC 7.3.0]", ""),
    ("the latest version of scipy (1.10.1)", "scipy?1.10.1"),
    ("Using version 1.10.1 of scipy", "scipy?1.10.1"),
    ("### Version of scipy\n\n1.10.1", "scipy?1.10.1"),
    ("scipy 的版本为 1.10.1", "scipy?1.10.1"),
    ("g++-14 and cmake 3.27", "gcc?14 cmake?3.27"),
    # several that a report has
    ("Tried scipy 1.9.0, 1.9.1 and 1.10.1", "scipy-1.9.0 scipy-1.9.1 scipy-1.10.1"),
    ("scipy 1.9.0和1.10.1都试过", "scipy-1.9.0 scipy-1.10.1"),
    ("It works with scipy 1.9.0, 1.9.1, fails with 1.10.1", "scipy+1.9.0 scipy+1.9.1 scipy-1.10.1"),
    ("between scipy 1.9.0 and 1.10.1", "scipy?1.9.0"),
    ("It needs scipy 1.9.0 or 1.10.1", ""),
    # numbers that a program has
    ("scipy fails with the list [1.0, 2.0]", ""),
    ("Could not find scipy (minimal suitable version: 2.0)", ""),
    ("File /opt/x/site-packages/scipy-1.10.1.dist-info/METADATA", "scipy?1.10.1"),
]


PROGRAM = "```python\nimport scipy\nscipy.wibble()\n```\n"


@pytest.mark.parametrize(
    ("text", "matrix", "pip"),
    [
        ("This is scipy 1.11.4 with numpy==1.26.4.", {}, "scipy==1.11.4 numpy==1.26.4"),
        ("Either scipy 1.11.4 or scipy 1.10.1, I do not remember.", {}, "scipy"),
        ("推荐使用 scipy 1.9.3", {}, "scipy"),
    ],
)
def test_what_sentences_say_is_in_the_case(text: str, matrix: dict[str, tuple[str, ...]], pip: str) -> None:
    case = load_text("draft.yaml", render(draft(f"# It dies\n\n{text}\n\n{PROGRAM}"))).case
    assert {
        name: values for name, values in case.matrix.axes.items() if name in ("scipy", "python") and values[1:]
    } == matrix
    assert " ".join(map(str, case.environment.pip)) == pip


@pytest.mark.parametrize(
    ("path", "python"),
    [
        ("/usr/lib/python3.9/site-packages/x.py", "3.9"),
        (r"C:\Users\me\AppData\Local\Programs\Python\Python310\lib\x.py", "3.10"),
        ("wibble-1.0-cp38-cp38-linux_x86_64.whl", "3.8"),
        ("core.cpython-312-x86_64-linux-gnu.so", "3.12"),
        ("/usr/lib/python3.9/x.py and /usr/lib/python3.8/x.py", ""),
    ],
)
def test_paths_that_show_one_python(path: str, python: str) -> None:
    made = draft(f"It ends with a crash in `{path}`.\n\n```\n$ ./run\nSegmentation fault\n```\n")
    assert made.data.get("matrix", {}).get("python", []) == ([python] if python else [])


@pytest.mark.parametrize(
    ("text", "gpus"),
    [
        ("```python\nx = torch.ones(3).cuda()\n```", "1"),
        ("```\n$ docker run --gpus all wibble/wobble\n```", "1"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", "1"),
        ("It happens on port 3090.", None),
        ("### Device mode\n\ncuda", "1"),
        ("WITH_GPU: ON", "1"),
        ("单机多卡训练", "1"),
        ("Python: 3.11\nscipy: 1.11.4", None),
        ("- PyTorch version: 2.1.0+cpu\n- Python: 3.11\n\nIt also fails after `model.cuda()`, they say.", None),
    ],
)
def test_a_device_or_its_plain_use_asks_for_a_gpu(text: str, gpus: str | None) -> None:
    assert draft(f"# It dies\n\n{text}\n\n{PROGRAM}").data.get("resources", {}).get("gpus") == gpus


def test_the_title_asks_for_a_gpu() -> None:
    for title, gpus in (("It dies on all GPUs", "1"), ("It dies without GPU", None), ("It dies (gpu disabled)", None)):
        assert draft(f"# {title}\n\n{PROGRAM}").data.get("resources", {}).get("gpus") == gpus


@pytest.mark.parametrize(
    ("text", "pip"),
    [
        ("```\n$ pip list | grep wob\nwobble            1.2.0\n```", ["wobble==1.2.0"]),
        ("### ONNX Runtime Version or Commit ID\n\n1.15.0", ["onnxruntime==1.15.0"]),
    ],
)
def test_more_ways_to_name_a_package(text: str, pip: list[str]) -> None:
    assert draft(f"# It dies\n\n{text}\n\nPython 3.8\n\n{PROGRAM}").data["environment"]["pip"][: len(pip)] == pip


@pytest.mark.parametrize(
    ("text", "matrix"),
    [
        ("- Java: 17\n- GCC Version [gcc (GCC) 8.2.0]", {"java": ["17"], "gcc": ["8.2"]}),
    ],
)
def test_more_ways_to_compare_and_to_name(text: str, matrix: dict[str, list[str]]) -> None:
    found = draft(f"# It dies\n\n{text}\n\n```\n$ make\nscipy: broken\n```\n").data["matrix"]
    assert {name: found.get(name) for name in matrix} == matrix


def test_packages_are_what_has_a_version_where_versions_are_listed() -> None:
    rows = "```\nwobble      1.2.3\nfrob-nicate 0.3.0.post2\nnumpy       1.26.4\n```\n"
    line = "Windows 10, Python 3.12, wobble 1.2.3, frob-nicate 0.3.0.post2, numpy 1.26.4\n"
    keys = "- Python: 3.12.1\n- wobble: 1.2.3\n- frob-nicate version: 0.3.0.post2\n- numpy: 1.26.4\n- bios: 1.2.3\n"
    for text in (rows, line, keys):
        pip = draft(f"# It dies\n\n{text}\n{PROGRAM}").data["environment"]["pip"]
        assert set(pip) == {"wobble==1.2.3", "frob-nicate==0.3.0.post2", "numpy==1.26.4", "scipy"}


def test_the_nearest_release_of_a_development_build_is_installed_and_named() -> None:
    made = draft(f"# It dies\n\nPython: 3.11.2\nwobble: 4.29.0.dev0\nfrob: 2.0.1+gitabc\n\n{PROGRAM}")
    assert made.data["environment"]["pip"][:2] == ["wobble<=4.29.0", "frob==2.0.1"]
    said = "4.29.0.dev0 was reported, which is not a release: 4.29.0 or the last before it is the nearest"
    assert said in str(made.notes)


def test_what_conda_built_on_a_day_is_installed_as_the_index_has_it() -> None:
    rows = "setuptools                49.6.0.post20210108  py38h\nwibble                    1.2.0  py38h\n"
    made = draft(f"# It dies\n\n```\n$ conda list\n{rows}```\n\n{PROGRAM}")
    assert "setuptools<=49.6.0" in made.data["environment"]["pip"]


def test_pip_is_installed_like_what_is_listed_beside_it() -> None:
    text = "- Python: 3.11.2\n- pip: 21.0.1\n- wobble: 1.2.3\n\n```\n$ python -m wobble\nERROR: it is broken\n```\n"
    assert draft(f"# It dies\n\n{text}").data["environment"]["pip"] == ["pip==21.0.1", "wobble==1.2.3"]


@pytest.mark.parametrize(
    ("text", "os"),
    [
        ("Linux 5.4.0-42-generic #46~20.04.1-Ubuntu SMP", "ubuntu-20.04"),
    ],
)
def test_the_release_that_is_named(text: str, os: str) -> None:
    assert draft(f"# It dies\n\n{text}\n\n{PROGRAM}").data["matrix"]["os"] == [os]


@pytest.mark.parametrize("text", ["gcc-10.1.1-2.el7.x86_64"])
def test_a_release_without_an_image_is_named_in_a_comment(text: str) -> None:
    assert "rhel-7" in render(draft(f"# It dies\n\n{text}\n\n{PROGRAM}"))


def test_a_version_below_the_name_of_what_it_is_of() -> None:
    made = draft(f"# It dies\n\n- Framework: TensorFlow\n- Framework version: 1.13.1\n- Python: 3.6\n\n{PROGRAM}")
    assert "tensorflow==1.13.1" in made.data["environment"]["pip"]


def test_the_compiler_is_read_behind_its_name() -> None:
    made = draft("# It dies\n\n- OS: Ubuntu 22.04\n- Compiler: cmake 3.22.1, gcc 11.3.0\n\n```\n$ make -j4\n```\n")
    assert made.data["matrix"]["gcc"] == ["11.3"]


def test_what_compiled_python_is_not_a_compiler_of_the_environment() -> None:
    text = "commit: None\npython: 3.7.3 (default)\n[GCC 7.3.0]\npython-bits: 64\nOS: Linux\nnumpy: 1.17.3\n"
    assert "gcc" not in draft(f"# It dies\n\n{text}\n{PROGRAM}").data["matrix"]


def test_the_example_in_the_label_of_a_form_is_not_the_answer() -> None:
    assert "18.04" not in render(draft(f"# It dies\n\n--OS version (e.g., Ubuntu 18.04): wibos_2.1\n\n{PROGRAM}"))


@pytest.mark.parametrize("text", ["[INFO] linux; GNU C++ version 9.4.0; Wob 1", "It was built with gcc 9.4.0."])
def test_what_compiled_a_program_is_the_compiler(text: str) -> None:
    assert "gcc" in str(draft(f"# It dies\n\n```\n{text}\n```\n\n```\nmake\n```\n").data)


@pytest.mark.parametrize(
    ("text", "axis", "version"),
    [
        ("- Rustc version: 1.48.0-nightly (d006f5734 2020-08-28)", "rustc", "1.48.0-nightly"),
        ("rustc 1.5.0-nightly (7bf4c885f 2015-09-26)", "rustc", "1.5.0-nightly"),
        ("- JDK: jdk-10.0.1_windows-x64_bin.exe", "jdk", "10.0.1"),
    ],
)
def test_a_version_ends_where_what_it_is_of_goes_on(text: str, axis: str, version: str) -> None:
    assert draft(f"# It ends\n\n{text}\n\nUbuntu 20.04\n").data["matrix"][axis] == [version]


@pytest.mark.parametrize(
    "text",
    [
        "- Version: 1.2.30",
    ],
)
def test_what_names_no_program_is_not_an_axis(text: str) -> None:
    assert list(draft(f"# It ends\n\n{text}\n\nUbuntu 20.04. It hangs.\n").data["matrix"]) == ["os"]


def test_what_r_lists_of_a_session_are_programs() -> None:
    session = "R version 2.15.1 (2012-06-22)\nPlatform: x86_64-pc-linux-gnu (64-bit)\n\n"
    session += "other attached packages:\n[1] RWIB_1.3-6\n"
    data = draft(f"# It hangs\n\nUbuntu 20.04\n\n{session}\nIt hangs.\n").data
    assert (data["matrix"]["r"], data["matrix"]["rwib"]) == (["2.15.1"], ["1.3-6"])
    assert "pip" not in data["environment"]
