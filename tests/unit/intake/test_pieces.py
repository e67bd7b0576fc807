"""What is in a report: its pieces, command lines, trees, programs, failures, each by itself."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

import pytest
import yaml

from reprokit.evidence.model import Frame
from reprokit.evidence.text import find
from reprokit.intake import commands, failure, installing, notebooks, pieces, running, scripts, signatures, trees
from reprokit.intake.environments import EnvironmentBlock, Rank, ReportedValue
from reprokit.intake.shown import table as known


def kinds(text: str) -> list[tuple[str, int]]:
    return [(piece.kind, piece.line) for piece in pieces.cut(text).pieces]


def test_pieces_know_their_lines_and_headings() -> None:
    text = "# Title\n\nIt fails:\n\n```sh\n$ make\n```\n\n**Error**\n<!-- a\ncomment -->\n\n    KeyError: 1\n"
    report = pieces.cut(text)
    assert report.title == "Title"
    assert kinds(text) == [("heading", 1), ("prose", 3), ("fenced", 6), ("heading", 9), ("indented", 13)]
    fenced, indented = report.pieces[2], report.pieces[4]
    assert (fenced.info, fenced.lead) == ("sh", "It fails")
    assert (indented.heading, indented.text) == ("Error", "KeyError: 1")


def test_a_traceback_in_prose_ends_with_its_exception() -> None:
    text = 'See:\nTraceback (most recent call last):\n  File "a.py", line 1, in f\n    x()\n\nKeyError: 3\n\nThanks!\n'
    assert kinds(text) == [("prose", 1), ("traceback", 2), ("prose", 8)]


def test_mails_have_a_title() -> None:
    assert pieces.cut("From: a\nSubject: It breaks\n\nHello\n").title == "It breaks"
    assert pieces.cut("标题：训练时卡死\n环境：Ubuntu 18.04\n").title == "训练时卡死"


ROLES = yaml.safe_load((Path(__file__).parent / "roles.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize(("line", "role"), ROLES.items())
def test_roles_of_lines(line: str, role: str) -> None:
    assert commands.role_of(line) == role


def test_variables_set_in_each_shell() -> None:
    assert commands.exported("export A=b C='d e'") == {"A": "b", "C": "d e"}
    assert commands.exported("set A=b c") == {"A": "b c"}
    assert commands.exported("ENV A b") == {"A": "b"}


def test_continuations_stay_as_written_and_output_is_not_a_command() -> None:
    piece = pieces.cut("```console\n(env) me@box:~/x$ python a.py \\\n>   --b\nmake it so\n```\n").pieces[0]
    assert [line.text for line in commands.read(piece).lines] == ["python a.py \\\n  --b"]
    assert commands.portable("python a.py ^\n  --b") == "python a.py \\\n  --b"


def test_installed_packages() -> None:
    texts = [
        "pip install -U torch==1.9.0+cu111 'numpy<2' -f https://w.example/whl -r requirements.txt",
        "sudo apt-get install -y libgl1 libglib2.0-0",
        "git clone -b dev https://g.example/o/tool.git mytool",
        "git checkout 1a2b3c4",
    ]
    found = installing.installs([commands.CommandLine(text=text, line=1, role="setup") for text in texts])
    assert found.pip == ("torch==1.9.0+cu111", "numpy<2")
    assert found.options == ("--find-links https://w.example/whl",)
    assert found.apt == ("libgl1", "libglib2.0-0")
    assert found.clones == (("https://g.example/o/tool", "mytool", "dev"),)
    assert found.refs == ("1a2b3c4",)


@pytest.mark.parametrize(
    "text",
    [
        "data\n├── voc\n│   ├── JPEGImages  # photos\n│   └── Annotations\n",
        "data/\n|-- voc/\n|   |-- JPEGImages/\n|   `-- Annotations/\n",
    ],
)
def test_a_dataset_in_trees_of_every_style(text: str) -> None:
    (found,) = trees.datasets(text, 7)
    assert (found.name, found.path, found.line) == ("voc", "data/voc", 8)
    assert found.layout == ("JPEGImages/*.jpg", "Annotations/*.xml")


def test_a_tree_of_a_program_has_no_dataset() -> None:
    assert not list(trees.datasets("tool\n├── data\n│   ├── loader.py\n├── main.py\n"))
    assert not list(trees.datasets("voc/\n    JPEGImages/\n    Annotations/\n"))


@pytest.mark.parametrize(
    ("message", "part"),
    [
        ("No module named 'wibble'", "No module named 'wibble'"),
        ("[Errno 2] No such file or directory: '/home/x/y.txt'", "No such file or directory"),
        ("shapes cannot be multiplied (4x512 and 10x5)", "shapes cannot be multiplied"),
        ("Sizes must match except in dimension 1. Expected 14 but got 13.", "Sizes must match except in dimension"),
        (
            "CUDA error: device-side assert triggered\nCUDA kernel errors might be",
            "CUDA error: device-side assert triggered",
        ),
        ("输入的形状不对，应为 3，得到 4。", "/输入的形状不对，应为 .*，得到/"),
        ("\"Cannot assign to part '0' of object '[wib 3]'\"", "/Cannot assign to part .* of object/"),
        ("Can't get wob 'Tree' on it", "Can't get wob 'Tree' on it"),
        ("error: in `/a/b/wib/c': unknown wobble", "unknown wobble"),
        ("'img'", "'img'"),
        ("", ""),
    ],
)
def test_the_stable_part_of_a_message(message: str, part: str) -> None:
    text, why = signatures.stable(message)
    assert text == part
    assert find(text, message) or not message
    assert why


def test_frames_of_windows_are_read_alike() -> None:
    text = """Traceback (most recent call last):
  File "D:\\work\\tool\\main.py", line 3, in <module>
    go()
  File "D:\\work\\tool\\steps\\go.py", line 4, in go
    wibble.run()
  File "C:\\Python38\\lib\\site-packages\\wibble\\core.py", line 9, in run
    raise ValueError("no")
ValueError: no
"""
    shown = failure.find(pieces.cut(text).pieces)
    assert shown is not None
    assert shown.signature["frames"] == ["go.py:go"]


@pytest.mark.parametrize(
    ("own", "about", "expected"),
    [
        ("go", {"wibble"}, ["go.py:go", "core.py:run"]),
        ("<module>", {"wibble"}, ["core.py:begin", "core.py:run"]),
        ("<module>", {"wobble"}, ["deep.py:wob"]),
        ("<module>", {"feeder"}, []),
        ("<module>", (), ["core.py:begin"]),
    ],
)
def test_frames_of_libraries_beside_the_project_are_not_named(
    own: str, about: Collection[str], expected: list[str]
) -> None:
    packages = "/v/lib/python3.11/site-packages"
    frames = [
        Frame(file="go.py", line=1, function=own),
        Frame(file=f"{packages}/wibble/core.py", line=1, function="begin"),
        Frame(file=f"{packages}/wibble/core.py", line=2, function="run"),
        Frame(file="/v/lib/python3.11/json/__init__.py", line=2, function="loads"),
        Frame(file=f"{packages}/wobble/deep.py", line=2, function="wob"),
        Frame(file=f"{packages}/wobble/deep.py", line=2, function="draw_wrapper"),
    ]
    assert signatures.identifying_frames(frames, about)[0] == expected


def test_an_exception_about_a_signal_is_an_exception() -> None:
    text = "```\nRuntimeError: worker (pid 12) is killed by signal: Bus error. Maybe shared memory ran out.\n```\n"
    shown = failure.find(pieces.cut(text).pieces)
    assert shown is not None
    assert shown.signature == {"exception": "RuntimeError", "message": "/worker .* is killed by signal: Bus error/"}


def test_a_notebooks_traceback_is_read() -> None:
    text = """---------------------------------------------------------------------------
KeyError                                  Traceback (most recent call last)
<ipython-input-3-0a1b2c> in <module>
      1 table = load()
----> 2 table["x"]

~/env/lib/python3.8/site-packages/wibble/frame.py in __getitem__(self, key)
    118         if key not in self:
--> 119             raise KeyError(key)

KeyError: 'x'
"""
    shown = failure.find(pieces.cut(f"```\n{text}```\n").pieces)
    assert shown is not None
    assert shown.signature == {"exception": "KeyError", "message": "'x'", "frames": ["frame.py:__getitem__"]}
    assert notebooks.as_tracebacks(text).count("\n") == text.count("\n")


def test_an_incomplete_program_is_reported() -> None:
    text = "```python\nimport wibble\nmodel.fit(wibble.x)\n```\n"
    (program,) = scripts.programs(pieces.cut(text).pieces)
    assert program.imports == ("wibble",)
    assert program.undefined == ("model",)
    found = running.run([], None, pieces.cut(text).pieces)
    assert found.command == "python repro.py"
    assert "repro.py uses model, but does not define or import it." in found.missing


def test_a_quoted_file_of_the_command_is_in_the_case() -> None:
    text = "With `small.yml`:\n\n```yaml\nlr: 1e38\n```\n\nRun:\n\n```bash\npython train.py --config small.yml\n```\n"
    cut = pieces.cut(text)
    found = running.run(running.shells(cut.pieces, []), None, cut.pieces)
    assert found.files == {"small.yml": "lr: 1e38\n"}
    assert found.command == "python train.py --config small.yml"


@pytest.mark.parametrize(("text", "words"), [one for row in known()["words"] for one in row["examples"].items()])
def test_words_about_failures(text: str, words: str | None) -> None:
    shown = failure.find(pieces.cut(f"# {text}\n").pieces)
    assert (shown and (shown.signature.get("signal") or shown.words or None)) == words


@pytest.mark.parametrize(("text", "part"), [one for row in known()["lines"] for one in row["examples"].items()])
def test_lines_that_programs_print(text: str, part: str) -> None:
    for form in (f"```\n{text}\n```\n", f"It says:\n\n{text}\n"):
        shown = failure.find(pieces.cut(form).pieces)
        assert shown is not None
        assert shown.signature["output"] == part
        assert find(part, text)


def environment(first: int, **versions: str) -> EnvironmentBlock:
    claims = tuple(
        ReportedValue(axis=axis, version=text, rank=Rank.MEASURED, quote=text) for axis, text in versions.items()
    )
    return EnvironmentBlock(kind="x", first=first, last=first, claims=claims)


def test_environments_become_the_cells_that_were_reported() -> None:
    from reprokit.intake.axes import matrix

    machines = [
        environment(1, os="Ubuntu 20.04.6 LTS", python="3.8.10", gcc="9.4.0"),
        environment(2, os="Ubuntu 22.04", python="3.10.4", gcc="11.4.0"),
        environment(3, os="Ubuntu 18.04", python="3.6.9", gcc="7.5.0"),
    ]
    compiled = matrix(machines, 0, compiles=True)
    assert compiled.data == {
        "include": [
            {"os": "ubuntu-20.04", "python": "3.8", "gcc": "9.4"},
            {"os": "ubuntu-22.04", "python": "3.10", "gcc": "11.4"},
            {"os": "ubuntu-18.04", "python": "3.6", "gcc": "7.5"},
        ]
    }
    same = matrix(machines[:2], 1, compiles=False)
    assert {cell["gcc"] for cell in same.cells} == {"11.4"}
    assert "nothing is compiled here" in " ".join(same.notes[("matrix",)])


def test_unavailable_versions_are_left_out_and_noted() -> None:
    from reprokit.intake.axes import matrix

    found = matrix([environment(4, os="Plan 9", python="1.5", cuda="6.5", cudnn="4")], 0, compiles=False)
    assert "python" not in found.data
    text = " ".join(note for notes in found.notes.values() for note in notes)
    assert "Plan 9 was reported, which is not available" in text
    assert re.search(rf"cuda 6.5 was reported and is not available .*{found.data['cuda'][0]} is the nearest", text)
    assert re.search(rf"cudnn 4 was reported and is not available .*{found.data['cudnn'][0]} is the nearest", text)
    assert "python 1.5 was reported and is left out: " in text


def test_what_a_program_lists_is_in_the_case_and_does_not_decide_on_its_system() -> None:
    from reprokit.intake.axes import matrix
    from reprokit.intake.environments import find

    (found,) = find(
        "PyTorch version: 1.0.0\nIs debug build: No\nOS: Ubuntu 18.04.1 LTS\nClang version: 16.0.6\n"
        "CMake version: version 3.27.4\nPython version: 3.6"
    )
    cell = matrix([found], 0, compiles=False).cells[0]
    assert (cell["os"], cell["cmake"]) == ("ubuntu-18.04", "3.27")
    assert matrix([found], 0, compiles=True).cells[0]["os"] != "ubuntu-18.04"


def test_a_table_of_results_does_not_become_a_tree_of_folders() -> None:
    found = pieces.cut("# T\n\n| scipy | result |\n|---|---|\n| 1.10 | ok |\n\nroot\n|-- a.txt\n|-- b.txt\n")
    assert [one.kind for one in found.pieces] == ["heading", "prose", "tree"]


@pytest.mark.parametrize(
    ("asked", "cell", "words"),
    [
        (
            {"python": "3.8.5", "cuda": "11.1"},
            "ubuntu-20.04 11.1 3.8",
            "is a release that has cuda 11.1 and python 3.8",
        ),
        ({"os": "sles-12.5", "python": "3.8", "cuda": "11.2"}, "ubuntu-20.04 11.2 3.8", "sles-12.5 was reported"),
        ({"os": "centos-7.9", "python": "3.8", "cuda": "11.2"}, "centos-7 11.2 3.8", ""),
        ({"os": "rhel-7.6", "python": "3.6"}, "centos-7 3.6", "centos-7 is built from the same sources: rhel-7.6"),
        ({"os": "scientific-linux-7.9"}, "centos-7", "centos-7 is built from the same sources: scientific-linux-7.9"),
        (
            {"os": "pop-22.04", "python": "3.10"},
            "ubuntu-22.04 3.10",
            "ubuntu-22.04 is built from the same sources: pop",
        ),
        ({"os": "linux-mint-21.2"}, "ubuntu-22.04", "ubuntu-22.04 is built from the same sources: linux-mint-21.2"),
        ({"os": "centos-6.5", "gcc": "4.8"}, "centos-7 4.8", "centos-7 is the nearest release"),
        ({"os": "centos", "python": "2.7"}, "centos-7 2.7", "centos was reported, without its release"),
        ({"os": "fedora-27"}, "fedora-28", "fedora-27 was reported, which is not available"),
        ({"os": "ubuntu-19.10", "python": "3.7"}, "ubuntu-19.10 3.7", ""),
        # what no report names itself is a release that any host can build
        ({"os": "ubuntu-16.10", "python": "3.5"}, "ubuntu-16.04 3.5", "ubuntu-16.10 was reported"),
        ({"os": "ubuntu"}, "ubuntu-24.04", "ubuntu was reported, without its release"),
        ({"os": "ubuntu", "python": "3.6"}, "ubuntu-18.04 3.6", "ubuntu was reported, without its release"),
        # conda-forge serves the system that is stated, and no other one where it does not have to
        ({"os": "ubuntu-16.04", "python": "3.6.9"}, "ubuntu-16.04 3.6", ""),
        ({"os": "ubuntu-20.04", "python": "3.7.3"}, "ubuntu-20.04 3.7", ""),
        (
            {"os": "ubuntu-16.04", "python": "3.7", "cuda": "10.1.243", "cudnn": "7.6.5"},
            "ubuntu-16.04 10.1 7.6 3.7",
            "",
        ),
        ({"os": "ubuntu-18.04", "cuda": "11.0", "cudnn": "8.0.5"}, "ubuntu-18.04 11.0 8.0", ""),
        ({"os": "debian-11", "python": "3.7"}, "debian-11 3.7", ""),
        ({"python": "3.6", "gcc": "4.8"}, "ubuntu-18.04 3.6 4.8", "that has python 3.6 and gcc 4.8"),
        ({"cuda": "11.4", "cudnn": "8.2"}, "ubuntu-20.04 11.4 8.2", "that has cuda 11.4 and cudnn 8.2"),
        ({"os": "ubuntu-22.04", "python": "3.10"}, "ubuntu-22.04 3.10", ""),
        (
            {"python": "3.8", "cuda": "10.2", "cudnn": "7.6"},
            "ubuntu-20.04 10.2 7.6 3.8",
            "a release that has cuda 10.2 and cudnn 7.6",
        ),
        ({"python": "3.8", "cuda": "10.1"}, "ubuntu-20.04 10.1 3.8", "a release that has cuda 10.1 and python 3.8"),
        # of two that conda-forge has to serve, the one that packages the Python
        ({"python": "3.7", "cuda": "10.1"}, "ubuntu-18.04 10.1 3.7", "a release that has cuda 10.1 and python 3.7"),
        ({"os": "Plan 9", "python": "3.9"}, "debian-11 3.9", "that has python 3.9: Plan 9 was reported"),
    ],
)
def test_the_system_is_one_on_which_all_that_is_stated_is_available(
    asked: dict[str, str], cell: str, words: str
) -> None:
    from reprokit.intake.axes import matrix

    found = matrix([environment(1, **asked)], 0, compiles=False)
    assert " ".join(found.cells[0].values()) == cell
    assert words in " ".join(found.notes.get(("matrix", "os"), ()))


def test_a_version_that_no_system_has_becomes_the_nearest_one_and_a_comment_says_so() -> None:
    from reprokit.intake.axes import matrix

    found = matrix([environment(1, python="3.4.2", cuda="7.0")], 0, compiles=False)
    assert found.cells == [{"os": "ubuntu-16.04", "cuda": "7.5", "python": "3.5"}]
    why = "{} was reported and is not available ({} is not available on ubuntu-16.04): {} is the nearest"
    assert why.format("cuda 7.0", "cuda 7.0", "7.5") in found.dropped
    assert why.format("python 3.4.2", "python 3.4", "3.5") in found.dropped


def test_environments_without_a_system_share_one_where_it_costs_nothing() -> None:
    from reprokit.intake.axes import matrix

    found = matrix([environment(1, python="3.11"), environment(2, python="3.8", cuda="11.1")], 0, compiles=False)
    assert [cell["os"] for cell in found.cells] == ["ubuntu-20.04", "ubuntu-20.04"]
    apart = matrix([environment(1, python="3.14"), environment(2, python="3.6", gcc="4.8")], 1, compiles=True)
    assert [cell["python"] for cell in apart.cells] == ["3.14", "3.6"]


def test_lines_end_where_editors_end_them() -> None:
    report = pieces.cut("a\fb\u2028c\x85d\r\ne\rf")
    assert report.lines == ["a b c d", "e", "f"]
    assert report.text.splitlines() == report.lines


def test_an_undefined_symbol_identifies_the_bug() -> None:
    for name in ("_ZN2at4_ops5emptyE", "wibble_read"):
        message = f"/srv/wibble/core.so: undefined symbol: {name}"
        assert signatures.stable(message)[0] == f"undefined symbol: {name}"
    assert "_ZN3wib" in signatures.stable(f"undefined symbol: _ZN3wib{'x' * 200}")[0]


@pytest.mark.parametrize(
    ("message", "kept"),
    [
        ("no way to ~/x from here", "/no way to .* from here/"),
        ("no way to ~\\\\proj\\\\x.py", "no way to"),
        ("cannot reach <host>", "cannot reach"),
        ("refused <secret> of <user>@<host>", "refused"),
        ("bad operand for ~: str", "bad operand for ~: str"),
    ],
)
def test_placeholders_of_private_text_are_in_no_signature(message: str, kept: str) -> None:
    assert signatures.stable(message)[0] == kept


def test_what_a_started_program_printed_is_the_failure() -> None:
    text = (
        "```\nCMake Error: failed to link 'libwib.so'\nTraceback (most recent call last):\n"
        '  File "/a/build.py", line 3, in <module>\n    run(command, check=True)\n'
        "subprocess.CalledProcessError: Command '['cmake']' returned non-zero exit status 2.\n```\n"
    )
    shown = failure.find(pieces.cut(text).pieces)
    assert shown is not None
    assert shown.signature == {"output": "failed to link 'libwib.so'"}


def test_the_first_undefined_reference_is_the_failure() -> None:
    lines = [f"/usr/bin/ld: wib.c:(.text+0x1): undefined reference to `{name}'" for name in ("wib", "wob")]
    shown = failure.find(pieces.cut("```\n" + "\n".join(lines) + "\n```\n").pieces)
    assert shown is not None
    assert shown.signature == {"output": "undefined reference to `wib'"}


def test_nan_in_the_output_is_the_failure_and_a_comment_is_left_out() -> None:
    shown = failure.find(pieces.cut("# The result is wrong\n\nActual:\n```\n# on one machine\n```\n").pieces)
    assert shown is not None
    assert "TODO" in str(shown.signature["output"])
    shown = failure.find(pieces.cut("# It gives the wrong result\n\nIt returns\n```\nArray([nan, 0.])\n```\n").pieces)
    assert shown is not None
    assert shown.signature == {"exit_code": "0", "output": "Array([nan"}


HASH = "4463c3b455e921c55a102622849b249d0ad1dd48"
STATED = [
    (
        f"ncnn commit [4463c3b](https://github.com/Tencent/ncnn/commit/{HASH})",
        ("https://github.com/Tencent/ncnn", HASH),
    ),
    ("ONNX Runtime build from source (6b3b4fe)", ("https://github.com/microsoft/onnxruntime", "6b3b4fe")),
    ("build: 3615 (c81f3bbb)", (None, "c81f3bbb")),
    ("Minimal reproduction: https://github.com/acme/wobble", ("https://github.com/acme/wobble", "")),
    ("复现代码见 https://gitee.com/acme/wobble。", ("https://gitee.com/acme/wobble", "")),
    (f"Fixed by https://github.com/acme/wobble/commit/{HASH}", None),
    ("It is broken since commit 6b3b4fe", None),
    ("See https://github.com/acme/wobble/issues/12 and the docs at https://github.com/acme/other", None),
    ("The demo is https://github.com/acme/wobble/tree/dev/examples", ("https://github.com/acme/wobble", "dev")),
    (
        f"The code of our ops is https://github.com/acme/wobble/blob/{HASH}/source/a.cc",
        ("https://github.com/acme/wobble", HASH),
    ),
    ("The code is wrong: https://github.com/acme/wobble/blob/master/a.cc#L12", None),
    (
        "cloned the repo (https://github.com/acme/wobble), branch feature/x",
        ("https://github.com/acme/wobble", "feature/x"),
    ),
    (f"The repo is https://github.com/acme/wobble\nHEAD\n{HASH}", ("https://github.com/acme/wobble", HASH)),
    (f"The object is\n{HASH}\n\nof faiss", None),
    ("the current git version of faiss (0a1b2c3d)", ("https://github.com/facebookresearch/faiss", "0a1b2c3d")),
    # a branch or a tag, by words
    ("ncnn version: master", ("https://github.com/Tencent/ncnn", "master")),
    ("下载了最新的ncnn源码编译", ("https://github.com/Tencent/ncnn", "")),
    ("I cloned ncnn, checked out to v2.6.1 and ran cmake", ("https://github.com/Tencent/ncnn", "v2.6.1")),
    ("I clone master of pybind11", ("https://github.com/pybind/pybind11", "master")),
    ("It fails on the main branch of ORT", ("https://github.com/microsoft/onnxruntime", "main")),
    ("I've just build XGBoost from GIT source", ("https://github.com/dmlc/xgboost", "")),
    ("How you installed PyTorch (`conda`, `pip`, source): source", ("https://github.com/pytorch/pytorch", "")),
    ("branch: 2.x\nsee /home/me/ncnn/src/a.cpp:3", ("https://github.com/Tencent/ncnn", "2.x")),
    ("How you installed wobble: source\nsee /home/me/ncnn/src/a.cpp:3", None),
    ("- [x] It is on the main branch of pandas", None),
    ("It works on the main branch of pandas", None),
    ("Check that you are up-to-date with the master branch of onnx", None),
    ("To build: https://github.com/acme/one\nand code is in https://github.com/acme/two", None),
]


def test_a_block_of_html_is_code_without_its_tags() -> None:
    html = '<pre><font color="#4E9A06"><b>$</b></font> wib run\n<b>wib:</b> a &lt;b&gt; failed</pre>'
    text = f"# x\n\nSo:\n{html}\nIt fails."
    code = [piece for piece in pieces.cut(text).pieces if piece.code]
    assert [(piece.text, piece.line) for piece in code] == [("$ wib run\nwib: a <b> failed", 4)]
    assert pieces.cut(text).pieces[-1].text == "It fails."


@pytest.mark.parametrize("text", ["<pre>\nno end", "<pre>\n```\nwib\n```\n</pre>"])
def test_other_blocks_of_html_are_read_as_before(text: str) -> None:
    assert pieces.cut(text).text == text
    assert "<pre>" not in "".join(piece.text for piece in pieces.cut(text).pieces)


def test_marks_of_jira_are_fences_and_headings_on_their_lines() -> None:
    text = "h2. Log\n\n{code:title=a.log|java}\nwob: error: no wobble\n{code}\n\n{noformat}\n$ wob\n{noformat}\n"
    found = [(piece.kind, piece.text, piece.line, piece.info) for piece in pieces.cut(text).pieces]
    assert found == [
        ("heading", "Log", 1, ""),
        ("fenced", "wob: error: no wobble", 4, "java"),
        ("fenced", "$ wob", 8, ""),
    ]


def test_marks_of_jira_without_their_end_are_text() -> None:
    assert [piece.kind for piece in pieces.cut("a\n{code}\nb\n").pieces] == ["prose"]


def test_marks_of_jira_within_a_fence_are_what_was_printed() -> None:
    text = "```\n{code}\nwob\n{code}\n```\nIt hangs.\n"
    assert [piece.kind for piece in pieces.cut(text).pieces] == ["fenced", "prose"]
