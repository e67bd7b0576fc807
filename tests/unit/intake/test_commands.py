"""Which command a report's draft runs, by how the report shows it."""

from __future__ import annotations

import pytest

from reprokit.case import placeholders
from reprokit.intake import commands, installing
from reprokit.intake.draft import render
from reprokit.intake.drafting import draft

FAILS = "```\nwobble: error: cannot read the file\n```\n"


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("```shell\nwobble check\n```\n\n" + FAILS, "wobble check"),
        ("```shell\n> wobble-server --port 80\nwobble: error: cannot open\n```\n", "wobble-server --port 80"),
        ("```sh\n(venv) me-MacBook:src me$ wobble\nwobble: error: cannot open\n```\n", "wobble"),
        # The home is left out of the text before: ~>pip.
        ("```\n(base) C:\\Users\\me>pip install wobble\nERROR: No matching distribution found for w\n```\n", "wobble"),
        ("```\nCPPFLAGS=-I/a\\ -std=c++11 cmake -D CMAKE_CXX_COMPILER=b ../\n```\n\n" + FAILS, "../"),
        (
            (
                "The build command:\nmake WOBBLE=1 -j 4\n\n```\nnvcc -std=c++11 -O3 -g -c a.cu -o a.o\n"
                "a.cu(3): error: identifier undefined\nmake: *** [Makefile:3: a.o] Error 2\n```\n"
            ),
            "make WOBBLE=1 -j 4",
        ),
    ],
)
def test_the_command_is_found(text: str, command: str) -> None:
    found = str(draft(f"# It fails\n\nDebian 12.\n\n{text}").data["command"])
    assert found.endswith(command)
    assert found.startswith(("wobble", "cmake", "make", "pip"))


def test_a_fence_of_output_without_a_command_is_not_run() -> None:
    text = "# It fails\n\n```sh\nwobble begins\nreading the file\nwobble: error: cannot read the file\n```\n"
    assert "TODO(reprokit)" in str(draft(text).data["command"])


@pytest.mark.parametrize(
    ("text", "command"),
    [
        # sentences
        # answers in forms
        # a folder of the machine stays readable
        (
            "```\ncd /data/wobble\npython3 wobble.py\n```\n\nIt segfaults.\n",
            "# not here: cd /data/wobble\npython3 wobble.py",
        ),
        # steps of a list, with words around them
        # what a step between programs prepares
        (
            (
                "```sh\ntar xf wobble.tar\n```\nwith this\n```cpp\n#include <w.h>\n\nint main() {\n  w(1);\n  w(2);\n"
                "  w(3);\n  w(4);\n}\n```\nthen\n```sh\ng++ a.cpp -lw\na.cpp: undefined reference to `w(int)'\n```\n"
            ),
            "tar xf wobble.tar\ng++ a.cpp -lw",
        ),
        # one import is a command
        ("```python\nimport wobble\n```\n\nIt segfaults.\n", 'python -c "import wobble"'),
        (
            (
                'Traceback (most recent call last):\n  File "main.py", line 3, in <module>\n    import wobble.core\n'
                '  File "/usr/lib/python3/dist-packages/wobble/core.py", line 1, in <module>\n    import wib\n'
                "ImportError: libwib.so: cannot open shared object file\n"
            ),
            "python main.py",
        ),
        # a container of the reporter's own is not started in one
        (
            "Version 1.\n\n```\ndocker build . -t wobble\n```\n\nIt fails with exit code 3.\n",
            "# not here: docker build . -t wobble\n",
        ),
        # programs that are in no table: a step, behind a label, below a sentence, with a whole path
        (
            "Commandline: wib-system-a -usb -drive file=a.img -boot a\n\nIt segfaults.\n",
            "wib-system-a -usb -drive file=a.img -boot a",
        ),
        (
            "在这个目录下设置好所有的环境变量之后，运行下面生成模型文件的命令：wibc  --op=a/b.json --out=c\n\n段错误\n",
            "wibc  --op=a/b.json --out=c",
        ),
        (
            '`/usr/local/lib/wib/examples/bench_rate --args "a=b" --duration 60`\n\nIt segfaults.\n',
            '/usr/local/lib/wib/examples/bench_rate --args "a=b" --duration 60',
        ),
        # prompts of other shells
        ("```\n~/src/wib % gcc -c -O1 a.c\na.c:3:4: error: no wob\n```\n", "gcc -c -O1 a.c"),
        ("```\nλ uvx wib@1.2 check a.py\nerror: the wib went wrong\n```\n", "uvx wib@1.2 check a.py"),
    ],
)
def test_commands_of_many_forms(text: str, command: str) -> None:
    found = str(draft(f"# Wobble is broken\n\nDebian 12.\n\n{text}").data["command"])
    assert found.strip("\n").partition("echo 'TODO")[0] == command


@pytest.mark.parametrize(
    "text",
    [
        "I hope that someone can make it work. It segfaults.\n",
        "**Expected**: pip install success\n\nERROR: No matching distribution found for wobble\n",
        'Thread 1 "python3" received signal SIGSEGV.\n',
        "See configs/wobble.py and tools/train.py in the tree. It segfaults.\n",
        "```\nStep 3/4 : RUN wobble\n ---> Running in 0123456789ab\nSegmentation fault\n```\n",
        "How you installed it (pip, source): pip\n\nIt segfaults.\n",
        "Upgrading by pip install -U wobble fixes it. It segfaults with the old one.\n",
        "## Steps to reproduce\n\n1. open the window - a new one\n2. click on save\n\nIt hangs.\n",
        "## Steps\n\nuse the option -x to see it\n\nIt hangs.\n",
        "## Steps to reproduce\n\n1. type something --verbose in it\n\nIt hangs.\n",
        "## Reproduce\n\nthe value -x is wrong\n\nIt hangs.\n",
        "The result of the command: wib failed --help does not help\n\nIt hangs.\n",
        "Results:\nloss 0.5 -lr 0.1\n\nIt hangs.\n",
        "If you are using python package, please provide it. It hangs.\n",
        "1. clone the repo\n2. install dev requirements and jupyter\n\nIt hangs.\n",
        "I am building bazel with bazel on sled11. It hangs.\n",
        "```\nthread 'wob' panicked at 'explicit panic'\nstack backtrace:\n```\n",
        "ERROR: Failed building wheel for wob\n  Running setup.py clean for wob\n",
        "Environment:\ngcc/g++ : 4.8.5\n\nIt hangs.\n",
        "```\n* installing *source* package ‘wob’ ...\n** libs\ng++ -m64 -I/usr/include/R -c a.cc\nSegfault\n```\n",
        "不使用fp16而是使用bf16的话，程序卡住\n",
        "## Configuration\n\nCMake build tool & generator=> ninja 1.10.0\n\nIt hangs.\n",
        "I added it:\n\n    deb https://wib.example/repo/Debian_12/ /\n\nIt hangs.\n",
        (
            "```console\nChecking the wobble\n-- Found wob: /usr/lib/libwob.so\nFailed to compute it for libwob.so\n"
            "Call Stack (most recent call first)\n-- Wobbling done\n```\n"
        ),
    ],
)
def test_other_text_becomes_no_command(text: str) -> None:
    found = str(draft(f"# Wobble\n\nDebian 12.\n\n{text}").data["command"])
    assert [line for line in found.split("\n") if line and not line.startswith("#")] == [placeholders.COMMAND]


@pytest.mark.parametrize(
    ("text", "name", "first"),
    [
        (
            "$ cat wobble.py\nimport wobble\nwobble.go()\n$ python wobble.py\nSegmentation fault",
            "wobble.py",
            "import wobble",
        ),
        (
            "import wobble\n\n wobble.go()\n x = wobble.Wob()\n print(x)",
            "repro.py",
            "import wobble\n\nwobble.go()\nx =",
        ),
        (
            "model = wobble.Model(3)\nfor x in data:\n    model.go(x) <-- it fails here\nprint(model.state())",
            "repro.py",
            "model = ",
        ),
        ("def wobble_all(depth):\n    for i in range(depth):\n        go(i)", "repro.py", "def wobble_all"),
    ],
)
def test_programs_of_many_forms(text: str, name: str, first: str) -> None:
    made = draft(f"# Wobble is broken\n\nDebian 12. It segfaults:\n\n```\n{text}\n```\n").data
    assert made["files"][name].startswith(first)
    assert f"python {name}" in made["command"]


def test_a_file_that_the_program_reads_is_in_the_case() -> None:
    text = (
        "```python\nimport wobble\nwobble.read('points.csv')\n```\n\npoints.csv\n```\nid,x\n1,2\n```\n\nIt segfaults.\n"
    )
    assert draft(f"# Wobble is broken\n\n{text}").data["files"]["points.csv"] == "id,x\n1,2\n"


def test_a_traceback_without_its_indentation_names_the_script() -> None:
    text = (
        "```python\nimport wobble\nx = wobble.Wob()\nx.go(1)\n```\n\nTraceback (most recent call last):\n"
        'File "wobble_bug.py", line 3, in\nx.go(1)\nFile "/usr/lib/python3/dist-packages/w/init.py", line 9, in go\n'
        "raise ValueError('no wobble')\nValueError: no wobble\n"
    )
    made = draft(f"# Wobble is broken\n\n{text}").data
    assert made["command"] == "python wobble_bug.py"
    assert made["expect"]["failure"] == {"exception": "ValueError", "message": "no wobble"}


def test_the_environment_of_conda_is_made_by_a_command() -> None:
    text = render(draft("# It hangs\n\n```\nconda env create -f environment.yml\n```\n\nIt hangs.\n"))
    assert "command: conda env create -f environment.yml" in text


@pytest.mark.parametrize("said", ["I do not use pip install wob==1, but conda.", "不要用 pip install wob==1"])
def test_what_was_not_run_is_not_installed(said: str) -> None:
    assert "wob" not in str(draft(f"# It dies\n\n{said}\n\n{FAILS}").data.get("environment"))


@pytest.mark.parametrize("rest", ["(replace * with its actual name", "and restart the kernel", "to get it  # or so"])
def test_the_rest_of_a_sentence_is_not_installed(rest: str) -> None:
    line = commands.CommandLine(text=f"pip install wobble==1.2.3 frob {rest}", line=1, role="setup")
    assert installing.installs([line]).pip == ("wobble==1.2.3", "frob")


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("```\n/app # wobble serve\nwobble: error: cannot open\n```\n", "wobble serve"),
        ("```\nmake wobble   <-- here it stops\n```\n\n" + FAILS, "make wobble"),
    ],
)
def test_a_command_is_read_without_what_is_around_it(text: str, command: str) -> None:
    assert str(draft(f"# It fails\n\n{text}").data["command"]).strip().endswith(command)


def test_steps_glued_to_their_numbers_are_commands() -> None:
    command = str(draft(f"# It fails\n\n1.mkdir -p b\n2.cd b\n3.cmake ..\n\n{FAILS}").data["command"])
    assert command.split("\n") == ["mkdir -p b", "cd b", "cmake ..", ""]


def test_a_fence_that_names_a_language_may_have_commands_alone() -> None:
    found = draft(f"# It fails\n\n```Rust\ncd wob\n\ncargo build --release\n```\n\n{FAILS}")
    assert found.data["command"].strip() == "cd wob\ncargo build --release"
    assert "cargo" not in str(draft(f"# It fails\n\n```rust\nfn main() {{}}\n```\n\n{FAILS}").data["command"])


@pytest.mark.parametrize("text", ["n/a", "N/A", "_No response_", "无", "None"])
def test_what_says_that_there_is_none_is_not_a_command(text: str) -> None:
    found = draft(f"# It fails\n\n### Command\n\n```shell\n{text}\n```\n\n{FAILS}")
    assert placeholders.MARK in str(found.data["command"])


@pytest.mark.parametrize(
    ("answer", "command"), [("see above please", ""), ("the same, but with -v", ""), ("kedro run", "kedro run")]
)
def test_the_answer_of_a_form_may_be_a_sentence(answer: str, command: str) -> None:
    found = str(draft(f"# It fails\n\nCommand: {answer}\n\n{FAILS}").data["command"])
    assert command in found
    assert (placeholders.MARK in found) is not bool(command)


def test_an_interpreter_that_is_typed_into_is_not_the_command() -> None:
    found = draft("# It fails\n\n```\n$ python3\n>>> import wobble\nSegmentation fault (core dumped)\n```\n")
    assert found.data["command"] == 'python -c "import wobble"'


def test_times_of_a_log_are_not_part_of_its_lines() -> None:
    stamp = "2026-01-02T03:04:05.1234567Z "
    text = "+ python test/run.py --shard 1 2\nTraceback (most recent call last):\nRuntimeError: no wobble left"
    for one in (stamp, "Mar 12 01:36:17 "):
        found = draft("# CI fails\n\n```\n" + "\n".join(one + line for line in text.split("\n")) + "\n```\n").data
        assert "python test/run.py --shard 1 2" in found["command"]
        assert found["expect"]["failure"] == {"exception": "RuntimeError", "message": "no wobble left"}


@pytest.mark.parametrize(
    ("text", "command"),
    [
        # words of advice are in the path, not around the command
        (
            "- 运行指令/Command Code： paddleocr --image_dir=a/docs/1.png --type=wob\n",
            "paddleocr --image_dir=a/docs/1.png --type=wob",
        ),
    ],
)
def test_commands_in_sentences_of_forms(text: str, command: str) -> None:
    assert draft(f"# 报错\n\n{text}\n{FAILS}").data["command"] == command


def test_what_the_command_installs_is_not_installed_before() -> None:
    text = "# It does not install\n\nwobble-kit==2.3.0\n\n```\n$ pip install wobble-kit==2.3.0\n{}\n```\n"
    trace = "Traceback (most recent call last):\n"
    trace += (
        '  File "/tmp/v/pip/_vendor/pyproject_hooks/_in_process/_in_process.py", line 389, in <module>\n    main()\n'
    )
    trace += "ModuleNotFoundError: No module named 'numpy'"
    for printed in ("ERROR: Failed building wheel for wobble-kit", trace):
        found = draft(text.format(printed)).data
        assert found["command"] == "pip install wobble-kit==2.3.0"
        assert "environment" not in found


def test_variables_that_go_on_over_lines_are_of_the_case() -> None:
    text = "```\n# nccl\nNCCL_DEBUG=INFO \\\nNCCL_IB_DISABLE=0 \\\n```\n\n"
    found = draft(f"# It hangs\n\n{text}```python\nimport torch\n\ntorch.ones(2).sum()\n```\n").data
    assert found["env"] == {"NCCL_DEBUG": "INFO", "NCCL_IB_DISABLE": "0"}


def test_rows_of_a_report_with_leaders_are_an_environment() -> None:
    rows = "torch version .................... 1.11.0+cu113\ntorch cuda version ............... 11.3\n"
    rows += (
        "deepspeed info ................... 0.6.3, unknown, unknown\ndeepspeed wheel w. ...... torch 1.11, cuda 11.3\n"
    )
    found = draft(f"# It fails\n\n**ds_report output**\n{rows}\n{FAILS}").data
    assert found["environment"]["pip"] == ["torch==1.11.0+cu113", "deepspeed==0.6.3"]
    assert placeholders.MARK in str(found["command"])


def test_the_text_of_a_fence_may_begin_on_its_line() -> None:
    text = "```me@box:~/wob-1.2$ wobble build .\nwobble: error: cannot read the file\n```\n"
    assert draft(f"# It fails\n\n{text}").data["command"] == "wobble build ."


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("```\n/build $ wobble build -j2\nwobble: error: cannot read the file\n```\n", "wobble build -j2"),
    ],
)
def test_commands_behind_other_marks(text: str, command: str) -> None:
    assert draft(f"# It fails\n\n{text}").data["command"] == command


def test_what_a_compiler_prints_is_not_a_step() -> None:
    printed = "Error Message:\nnvcc fatal   : Value 'sm_90a' is not defined for option 'gpu-architecture'\n"
    found = draft(f"# It fails\n\n```\nimport os\n\nprint(os.getpid())\n```\n\n```\n{printed}```\n").data
    assert found["command"] == "python repro.py"


def test_a_program_beside_an_installed_project_is_not_one_of_its_tree() -> None:
    trace = '  File "inference.py", line 8, in <module>\n    go()\n'
    trace += '  File "/a/site-packages/transformers/auto.py", line 3, in get\n    return x[k]\n'
    text = f"```\nTraceback (most recent call last):\n{trace}KeyError: 'gptj'\n```\n"
    found = draft(f"# KeyError\n\ntransformers==4.2.2\n\n{text}").data
    assert "sources" not in found
    assert found["environment"]["pip"] == ["transformers==4.2.2"]


@pytest.mark.parametrize(
    ("text", "command"),
    [
        # prompts within backticks, and without a host
        (
            "step1: go\n`root@:/opt/wib# python3 -m wib.a`\n\nstep2: on\n`root@/opt/wib#  python3 -m wib.chat a`\n",
            "python3 -m wib.a\npython3 -m wib.chat a",
        ),
        ("I tried it and get the same error\n`!wib2wob -i /content/a.wib -b 1`\n", "wib2wob -i /content/a.wib -b 1"),
        # verbs, and what stands right behind
        ("1、make -j8\n2、出现错误\n", "make -j8"),
        # labels
        ("Full command: `wibtool convert a.wib -o b --fast`\n", "wibtool convert a.wib -o b --fast"),
        ("```shell\n# train\nwib-cli serve model\n```\n", "wib-cli serve model"),
        # the command that works is another one
        ("Works on one:\n\n    A=0 python wib.py\n\nFails on two:\n\n    A=1 python wob.py\n", "python wob.py"),
        (
            "It sometimes works.\n\n```\npython a.py\n```\n\nI do not have this problem:\n```\npython b.py\n```\n",
            "python a.py",
        ),
        # a step behind the last command
        (
            "Run:\n\n```\nmkdir build\ncmake -B build\nsource wib.sh\n```\n",
            "mkdir build\ncmake -B build\nsource wib.sh",
        ),
    ],
)
def test_commands_that_sentences_run(text: str, command: str) -> None:
    found = str(draft(f"# Wobble is broken\n\nDebian 12.\n\n{text}").data["command"])
    assert found.strip("\n") == command


@pytest.mark.parametrize(
    "text",
    [
        # what builds and tests print
        "The log:\n   /opt/a/bin/arm-wib-gcc    -Wl,-O2 -Wl,--b -Wl,-z -o a a.o b.o\n    collect2: error: no wob\n",
        "```\ntests/unit/test_wib.py ......    [ 54%]\ntests/test_wob.py .F..    [ 90%]\n```\n",
        "W0121 09:05:09.04 init.cc:206: PID 4 (TID 7) from PID 0; stack trace: wib -a\n",
        "In wib (https://git.example/a/rankers/wib/run.py) it is larger.\n",
        "### Relevant log output\n\n```shell\nReading wobbles from https://wib.example/a/b.data\n```\n",
        "It needs pip:\n\npip installs test/ and contrib/ directories\n",
        "It is a 50-series card, by ./deviceQuery here.\n",
        "A workaround is here\n\n```\nsudo apt install libwib-dev\n```\n",
    ],
)
def test_texts_without_a_command(text: str) -> None:
    found = str(draft(f"# re-enable wobble doctests\n\nDebian 12.\n\n{text}").data["command"])
    assert "TODO(reprokit)" in found


@pytest.mark.parametrize(
    ("text", "env"),
    [
        ("`wib -x` hangs with WIB_A=1 and works.\n", {}),
        ("Wib supports setting the variable `WIB_MODE` to reduce it. `wib -x -c` hangs.\n", {}),
        ("Wob supports setting `WIB_MODE` to 1.\n\n```\nexport WIB_MODE=5\nwib -x\n```\n", {"WIB_MODE": "5"}),
        ("Built with CMAKE_BUILD_TYPE=Release and with USE_WIB=ON. `wib -x -c` hangs.\n", {}),
    ],
)
def test_variables_that_sentences_and_profiles_set(text: str, env: dict[str, str]) -> None:
    assert dict(draft(f"# It fails\n\nDebian 12.\n\n{text}").data.get("env") or {}) == env


def test_a_comparison_sets_no_variable() -> None:
    assert "env" not in draft("# Wobble\n\nIt stops where FLAGS_max_wobbles == 0 in the loop. It hangs.\n").data


@pytest.mark.parametrize(
    "text",
    [
        "```\nUsing built-in specs.\nCOLLECT_GCC=gcc\nOFFLOAD_TARGET_NAMES=nvptx-none\n```\n",
        "locale:\n[1] LC_CTYPE=en_US.UTF-8       LC_NUMERIC=C\nLC_TIME=en_US.UTF-8        LC_COLLATE=en_US.UTF-8\n",
    ],
)
def test_what_programs_print_of_a_session_is_not_set(text: str) -> None:
    assert "env" not in draft(f"# Wobble\n\n{text}\nIt hangs.\n").data


@pytest.mark.parametrize(("script", "tree"), [("tools/infer.py", False), ("examples/pytorch/run_glue.py", True)])
def test_a_library_in_the_environment_is_the_tree_of_its_own_examples_only(script: str, tree: bool) -> None:
    text = f"# It ends\n\n```\n$ python {script} --x 1\nfatal: no wobble\n```\n\ntransformers: 4.39.3\nPython: 3.10\n"
    assert ("sources" in draft(text).data) is tree


@pytest.mark.parametrize(
    ("text", "command"),
    [
        # a build behind its first command, and a prompt before the next one
        (
            "```shell\ncmake -B build -DWOB=ON\n-- Detecting wob\nu@h:/tmp/wob$ cmake --build build\nfatal: x\n```\n",
            "cmake -B build -DWOB=ON\ncmake --build build",
        ),
        # a sentence ends within its quotes
        ("```\n$ gcc -v\nThread model: posix\n$ wob --x 1\nfatal: x\n```\n", "wob --x 1"),
    ],
)
def test_the_steps_that_were_typed_are_the_command(text: str, command: str) -> None:
    assert str(draft(f"# Errors during compilation\n\n{text}").data["command"]).strip() == command


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ('It fails with "import error" when I run it.', placeholders.COMMAND),
    ],
)
def test_an_import_that_a_sentence_quotes_is_run(text: str, command: str) -> None:
    assert draft(f"# It ends\n\n{text}\n").data["command"] == command


def test_variables_that_begin_like_those_of_a_session_are_set() -> None:
    data = draft("# It hangs\n\n```\n$ export TERMINATE_WOBS=1\n$ export TERM=dumb\n$ python a.py\n```\n").data
    assert data["env"] == {"TERMINATE_WOBS": "1", "TERM": "dumb"}
