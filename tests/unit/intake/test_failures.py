"""Which failure of a report becomes the signature, by how the report shows it."""

from __future__ import annotations

import pytest

from reprokit.intake.drafting import draft


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        # the request of a form names slowness, and no sentence of the reporter does
        (
            "<em>Please note: we only address\nperformance issues.</em>\n\nIt stops with exit status 3.\n",
            {"exit_code": "3"},
        ),
        # a sentence about another error, above the output of the compiler
        (
            (
                "With docker I get ModuleNotFoundError: No module named 'wob' but this is not my issue.\n\n"
                "wibc++: error: unrecognized wobble option '-mwob'\n"
            ),
            {"output": "error: unrecognized wobble option"},
        ),
        # what a program printed, in the program's own fence
        (
            "```python\nimport wob\nwob.go()\n# output\nValueError: the wobble has an odd shape.\n```\n",
            {"exception": "ValueError", "message": "the wobble has an odd shape"},
        ),
        # a terminal broke the lines: the last exception of the chain counts, and no frame is sure
        (
            (
                '```\nTraceback (most recent call last):\n  File "w.pyx", line 1, in wob.core.Reader\n._go\n'
                "TypeError: it cannot be cast\n\nDuring handling of the above exception, another exception occurred:\n"
                "Traceback (most recent call last):\n  File \"a.py\", line 3, in go\n    wob.read(x, y={'a'\n:int})\n"
                '  File "w.pyx", line 9, in wob.core.Reader\n._convert\nValueError: it cannot be converted\n```\n'
            ),
            {"exception": "ValueError", "message": "it cannot be converted"},
        ),
        # conda raises nothing that Python prints as a traceback
        (
            "```\nResolvePackageNotFound:\n  - wibble==9.2\n```\n",
            {"output": "ResolvePackageNotFound"},
        ),
        # a program with its folder
        (
            "```\n$ make\n/opt/bin/wibc: Error: -Os is not available here\nmake: *** [wib.o] Error 1\n```\n",
            {"output": "Error: -Os is not available here"},
        ),
        # Python's words in sentences
        ("Then a wibble has no attribute wob any more.\n", {"exception": "AttributeError"}),
        ("After the update the server sends a 404 Not Found for it.\n", {"output": "404 Not Found"}),
        # the expression of an assertion stays as it is in the source
        (
            "```\nwibd: core.c:99: wib_open: Assertion `fd >= 0' failed.\n```\n",
            {"output": "Assertion `fd >= 0' failed"},
        ),
        # what another program that it started raised, above what it says itself
        (
            (
                '```\nTraceback (most recent call last):\n  File "t.py", line 3, in <module>\n    go()\n'
                "ValueError: the wibble has no wob\nTraceback (most recent call last):\n"
                '  File "/x/run.py", line 9, in launch\n    raise ChildFailedError(\nChildFailedError: \n===\n```\n'
            ),
            {"exception": "ValueError", "message": "the wibble has no wob"},
        ),
        # what is expected is not the failure
        (
            (
                "# A wob is taken for a number\n\n## Expected in version 3\n\n```\nTypeError: a wob is no int\n```\n\n"
                "## Log\n\n```\nSegmentation fault (core dumped)\n```\n"
            ),
            {"signal": "SIGSEGV"},
        ),
        # the title quotes the line of the program, and has a word of a wrong result in it
        (
            "# Error: Size of a wibble is wrong (on my machine)\n\n```\nError: Size of a wibble is wrong: 4096\n```\n",
            {"output": "Size of a wibble is wrong"},
        ),
        # a program's output: below a word, all that the command printed
        # a title calls each signal a segmentation fault; the shell says which one it was
        (
            "# Segfault when wob is imported\n\n```\n>>> import wob\nIllegal instruction (core dumped)\n```\n",
            {"signal": "SIGILL"},
        ),
        # what a search of CMake does not find ends nothing
        (
            (
                "```\n-- Could NOT find OpenWib (missing: OpenWib_DIR)\n-- Configuring done\n"
                "make[2]: *** No rule to make target 'wob'.  Stop.\n```\n"
            ),
            {"output": "No rule to make target"},
        ),
        # CMake says first what it was given
        (
            (
                '```\nCMake Error at CMakeLists.txt:3 (if):\n  if given arguments:\n\n    "WIB" "WOB" "8.0"\n\n'
                "  Unknown arguments specified\n```\n"
            ),
            {"output": "Unknown arguments specified"},
        ),
        # the marks behind a message are not of it
        (
            "推理报错：AttributeError: 'WibTokenizer' object has no attribute 'wob'、不知道怎么办\n",
            {"exception": "AttributeError", "message": "'WibTokenizer' object has no attribute 'wob'"},
        ),
        (
            'I get "a/b.so: undefined symbol: _ZNK2wob" when it is imported.\n',
            {"output": "undefined symbol: _ZNK2wob"},
        ),
        # what a sentence quotes, rather than the sentence
        (
            "The following benchmarks are failing with `WOB build failed with error code 6` when I run them.\n",
            {"output": "WOB build failed with error code"},
        ),
        # a sentence about the time at which it happens is printed by no program
    ],
)
def test_the_failure_of_a_report(text: str, signature: dict[str, str]) -> None:
    assert draft(f"# Wobble\n\nDebian 12.\n\n{text}").data["expect"]["failure"] == signature


def test_a_program_of_tests_is_run_by_pytest() -> None:
    text = "```python\nfrom wob import go\n\n\ndef test_go():\n    assert go() == 1\n```\n\nIt segfaults.\n"
    made = draft(f"# Wobble\n\n{text}").data
    assert made["command"] == "python -m pytest test_repro.py"
    assert made["environment"]["pip"] == ["pytest"]


def test_the_step_of_an_image_that_failed_is_the_command() -> None:
    text = "```\nStep 3/4 : RUN wobble --x\nThe command '/bin/sh -c wobble --x 3' returned a non-zero code: 139\n```\n"
    assert draft(f"# Wobble\n\n{text}").data["command"] == "wobble --x 3"


@pytest.mark.parametrize("words", ["It is wrong on my CPU.", "I have a CPU and a GPU. The result is wrong."])
def test_a_device_that_is_only_named_is_not_compared(words: str) -> None:
    assert "device" not in draft(f"# Wobble\n\n{words}\n\n```\npython wobble.py\n```\n").data.get("matrix", {})


def test_the_other_failures_of_a_report_are_listed() -> None:
    first, second = (
        f'```\nTraceback (most recent call last):\n  File "a.py", line 1, in go\n    x\n{one}: it is odd\n```\n'
        for one in ("KeyError", "TypeError")
    )
    (listed,) = (text for text in draft(f"# Wobble\n\n{first}\nThen:\n\n{second}").missing if "other failure" in text)
    assert listed.endswith("--failure N drafts another: line 13: TypeError: it is odd.")


@pytest.mark.parametrize(
    "report",
    [
        "# Unable to find the wob in wib 1.2.3\n\nIt is not in the list.\n",
        "# The wob is ignored\n\n```\n$ wib install wob\nok, done\n```\n\n## Expected behavior\n\nIt uses the wob.\n",
        "# A test passes\n\n```\nClang version: Could not collect\n```\n",
    ],
)
def test_what_no_program_prints_where_it_fails_becomes_a_placeholder(report: str) -> None:
    assert "TODO(reprokit)" in str(draft(report).data["expect"]["failure"])


def test_a_wrong_result_alone_is_compared_with_nothing() -> None:
    made = draft("# Wobble\n\nIt gives a wrong result.\n\n```\npython wobble.py\n```\n").data
    assert "variant" not in made.get("matrix", {})


def test_words_about_a_failure_are_read_where_no_blank_parts_them_from_chinese() -> None:
    made = draft("# 本地gpu训练时是loss=nan而用cpu就正常\n\n训练脚本没有改动。\n")
    assert made.data["expect"]["failure"]["output"] == r"/(?i)\bnan\b/"


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        # a warning that is printed ends no program
        (
            "# It warns\n\n```\nimport wob\nwob.go(1)\n```\n\n```\nUserWarning: the wobble is old and slow\n```\n",
            {"output": "UserWarning: the wobble is old and slow"},
        ),
        # pytest's summary
        (
            "# Tests fail\n\n```\nFAILED tests/a.py::TestA::test_b - ValueError: no wobble is left\n```\n",
            {"exception": "ValueError", "message": "no wobble is left"},
        ),
        # the C library ends a program whose heap is broken by SIGABRT
        (
            "# It ends early\n\n```\nfree(): invalid pointer\n```\n",
            {"output": "free(): invalid pointer", "signal": "SIGABRT"},
        ),
        ("# 调用时抛空指针异常\n\nDebian 12.\n", {"exception": "NullPointerException"}),
        # what the compiler says of itself is not how the command ends
        (
            (
                "# [Compile error] the compiler itself segfaults\n\n```\n"
                "c++: internal compiler error: Segmentation fault (program cc1plus)\nmake: *** [a.o] Error 4\n```\n"
            ),
            {"output": "internal compiler error: Segmentation fault"},
        ),
        # a whole message, and no mark of the code around it
        (
            "# It does not load\n\nIt says (`ImportError: /lib/libm.so.6: version `GLIBC_2.23' not found`).\n",
            {"exception": "ImportError", "message": "version `GLIBC_2.23' not found"},
        ),
        # an exception that a sentence names, and one that is wanted
        (
            "# wob fails\n\nIt should raise a TypeError.\n",
            {"output": "TODO(reprokit): write a line that the failure prints"},
        ),
        # the label of a form in two languages
        (
            "# 训练时报错\n\n- 完整报错/Complete Error Message：\n",
            {"output": "TODO(reprokit): write a line that the failure prints"},
        ),
        # what is expected does not happen
        (
            (
                "# clip does nothing\n\n**Describe the expected behavior**\nWith 0 the loss goes to nan.\n\n"
                "**Current behavior**\nThe results are wrong.\n"
            ),
            {"exit_code": "0", "output": "TODO(reprokit): write what is printed where the result is wrong"},
        ),
        # a title that says that it crashes, whatever sentences say of the moment before
        (
            "# wib crashes with a wob\n\nThe window freezes and is slow.\n",
            {"exit_code": "nonzero", "output": "TODO(reprokit): write a line that the failure prints"},
        ),
        # not failures: questions, warnings of a log, and functions
        (
            "# No wib report\n\n```\nnpm WARN notsup: Unsupported platform for wob: wanted another one\n```\n",
            {"output": "TODO(reprokit): write a line that the failure prints"},
        ),
        (
            "# wib on a disk\n\nIt fails with GetLastError 5.\n",
            {"output": "TODO(reprokit): write a line that the failure prints"},
        ),
    ],
)
def test_failures_of_other_forms(text: str, signature: dict[str, str]) -> None:
    assert draft(text).data["expect"]["failure"] == signature


@pytest.mark.parametrize("line", ["AssertionError", "`KeyError`", "**wobble.WobbleError**", "  ValueError."])
def test_the_type_of_an_exception_in_a_line_of_its_own_is_the_failure(line: str) -> None:
    text = f"# It loses a column\n\n```python\nimport wobble\nwobble.go()\n```\n\n{line}\n"
    assert draft(text).data["expect"]["failure"] == {"exception": line.strip("`*. ").rpartition(".")[2]}
