"""Which line of a report becomes the signature where no rule knows it: wrong output, and lines about errors."""

from __future__ import annotations

from typing import Any

import pytest

from reprokit.intake import pieces
from reprokit.intake.candidates import role, titled
from reprokit.intake.drafting import draft
from reprokit.intake.shown import table

PROGRAM = "```python\nimport wib\nprint(wib.go())\n```\n"


def failure(text: str) -> Any:
    return draft(text).data["expect"].get("failure")


@pytest.mark.parametrize(
    ("text", "output"),
    [
        ("# Rounding is wrong\n\n" + PROGRAM + "\n### Actual behaviour\n\n```\n7.25\n```\n", "7.25"),
        ("# Sum of wibs\n\n" + PROGRAM + "I get:\n```\n[1, 2, 2]\n```\nI expect:\n```\n[1, 2, 3]\n```\n", "[1, 2, 2]"),
        # the first line that differs from what is expected
        (
            "# Table of wibs\n\n" + PROGRAM + "**Expected**\n```\nname: wib\nsize: 4\n```\n"
            "**Got**\n```\nname: wib\nsize: -4\n```\n",
            "size: -4",
        ),
        ("# Wib gives the wrong sum\n\n" + PROGRAM + "shows\n```\n0 wob none\n```\n", "0 wob none"),
        ("# 求和结果错误\n\n" + PROGRAM + "实际输出：\n```\n3.75 元\n```\n期望输出：\n```\n4.00 元\n```\n", "3.75 元"),
        ("# 结果\n\n" + PROGRAM + "得到的结果是\n\n    wib=12, wob=12\n\n应该是 wib=12, wob=13\n", "wib=12, wob=12"),
        (
            "# mean is wrong\n\n```pycon\n>>> import wib\n>>> wib.mean([1, 2])\n1.75\n```\n\nIt should be 1.5.\n",
            "1.75",
        ),
        # lines of one kind: the first
        (
            "# Counter\n\n"
            + PROGRAM
            + "There are lines printed, even though it should always be quiet:\n```\n"
            + "".join(f"{n}0. left: 0\n" for n in range(1, 12))
            + "```\n",
            "10. left: 0",
        ),
        # the value that the title quotes
        (
            '# wib list returns "(no items)" after a restart\n\nThis is the output:\n```\n'
            + "".join(f"{n}) key {n * 7}\n   part {chr(96 + n) * n}\n" for n in range(1, 8))
            + "(no items)\n```\n",
            "(no items)",
        ),
        (
            (
                "# GPU is gone\n\nAfter the installation it is not available, which results in:\n\n"
                "```\n(box) $ python -c 'import wib; print(wib.gpu())'\nFalse\n```\n\n### Expected\n\n"
                "It is available.\n"
            ),
            "/^False$/",
        ),
        # of what was typed to show it, the last
        (
            (
                "# Display of odd wibs\n\nIt seems broken.\n\n## To Reproduce\n\n```\n"
                ">>> import wib\n>>> a = wib.go(1, -2)\n>>> a[1]\n"
                "wib(-2)\n>>> a\nwibs([1, 254])\n```\n\n## Expected behavior\n\n`wibs([1, -2])`\n"
            ),
            "wibs([1, 254])",
        ),
        # prompts of which name and host were left out, or that have two marks
        (
            (
                "# Wib gives the wrong sum\n\nThe result is not right:\n```\nann@box7:~$ wibc --fast a.wib\n"
                "ann@box7:~$ ./a.out\n{ 10:4 11:5 }\n```\n"
            ),
            "{ 10:4 11:5 }",
        ),
        ("# A wrong size\n\n### Actual outcome\n```\n$> python wob.py\nsize = 7\n```\n", "size = 7"),
        # Python's session below the command that starts it
        (
            (
                "# Fractions are wrong\n\n## To reproduce\n\n```\n$ python3\nPython 3.9.1 (default)\n"
                '>>> import wib\n>>> wib.go("1/2/3")\n(1/2)/3.5\n```\n'
            ),
            "(1/2)/3.5",
        ),
    ],
)
def test_wrong_output(text: str, output: str) -> None:
    assert failure(text) == {"exit_code": "0", "output": output}


@pytest.mark.parametrize(
    ("text", "output"),
    [
        (
            (
                "# Loading ends\n\nIt is interrupted by:\n```\n"
                "2026-03-02 09:32:08 [FAIL] wib reader has not enough memory\n```\n"
            ),
            "wib reader has not enough memory",
        ),
        (
            "# [ERROR] wib set device failed\n\nlog：\n[INFO] wib init success\n[ERROR]  wib set device failed\n",
            "wib set device failed",
        ),
        (
            "# 参数检查\n\n调用 wib.scatter(a, b)，提示错误wib scatter must get the same types\n请问是什么原因？\n",
            "wib scatter must get the same types",
        ),
        (
            '# Old files\n\nWhen I open one it fails with "wib header is too short" since May.\n',
            "wib header is too short",
        ),
        ("# 打开文件\n\n点击后报错：`wib header is too short`\n", "wib header is too short"),
        (
            (
                "# Warning with the defaults\n\nIt raises a warning:\n```\n"
                "/a/b/wib.py:6: UserWarning: ignoring the argument 'wob'\n  go()\n```\n"
            ),
            "UserWarning: ignoring the argument 'wob'",
        ),
        (
            (
                "# It doesn't build\n\n./autogen.sh\n\nMakefile.am:3: Wob library used but `WOB' is undefined\n"
                "autowib: exit status: 1\n"
            ),
            "Wob library used but `WOB' is undefined",
        ),
        (
            (
                "# Wine of wib does not start\n\nThis is the output:\n```\n0024:fixme:wib:go stub\n"
                "0024:err:wib:start could not map the selector\n```\n"
            ),
            "could not map the selector",
        ),
        # what a sentence says is below it, without the marks and the question around it
        ("# 训练问题\n\n训练时报错信息如下\nWibErrar: Can't get wob 'Tree' on wibble\n请问怎么解决？\n", "Tree"),
        (
            "# 执行命令报错\n\n直接报错：usage: wib [OPTIONS] COMMAND 这个是什么原因呢？\n",
            "usage: wib [OPTIONS] COMMAND",
        ),
        ('# Memory\n\nIt will fail and report "**wib error, no wobble left**".\n', "wib error, no wobble left"),
        ("# undefined symbol: _ZN3wibE,how can I solve it?\n\nDebian 12\n", "undefined symbol: _ZN3wibE"),
        ("# wib after the installation\n\nI get `bash: wib: no wobble was not found`\n", "no wobble was not found"),
        # the title is the message, without when it comes
        ("# CUDA error 700 when the wob has size > 8\n\nDebian 12\n", "CUDA error"),
        ('# "Missing wobble in the declaration"\n\nDebian 12\n', "Missing wobble in the declaration"),
        # the line that the title names, not one that repeats it
        (
            (
                "# test-wib fails with 'wobble entered twice again'\n\n```\n"
                "  /wib/schedule:   wobble entered twice again\nmake: *** [check-wib] Error 1\n```\n"
            ),
            "wobble entered twice again",
        ),
        (
            (
                "# Start of wib: wobble cannot be mapped at this place\n\n```\n"
                "wib: the wobble cannot be mapped at this place\nfailed to load it all\n```\n"
            ),
            "wib: the wobble cannot be mapped at this place",
        ),
    ],
)
def test_lines_about_errors(text: str, output: str) -> None:
    found = failure(text)
    assert output in found["output"]
    assert set(found) == {"output"}


@pytest.mark.parametrize(
    "text",
    [
        "# The wob is ignored\n\n```\n$ wib install wob\nok, done\n```\n\n## Expected behavior\n\nIt uses the wob.\n",
        "# Wrong sum\n\n" + PROGRAM + "### Expected output\n\n```\n4\n```\n",
        "# Wrong sum\n\n" + PROGRAM + "With version 1 this works and prints\n```\n4.5\n```\n",
        "# Wrong sum\n\nMy version:\n```\nwib 3.2 on amd64\n```\n",
        "# A wrong order\n\nI run it with this configuration:\n```yaml\nwib: 3\nwob: 4\n```\n",
        "# A wrong order\n\nInstalled with\n```\n$ pip install wib\nSuccessfully installed wib\n```\n",
        "# Wib is odd\n\nI cannot find the wob in the list, and could not ask anyone.\n",
        "# Wib is odd\n\n```\n[INFO] no errors found\n```\n",
        "# Wib is odd\n\n```\n0 failed, 12 passed\n```\n",
        "# Wib is odd\n\n```\nwarning: cannot set the wobble\n```\n",
        # a second program below the first, without words
        "# A wrong order\n\n"
        + PROGRAM
        + "versus\n```python\nmatch wib:\n    case 1, wob\n```\nIt should be the same.\n",
        "# Wib is odd\n\n```\nClang version: Could not collect\nCUDA version: Could not collect\n```\n",
        "# Import fails\n\nI run it, and the log has:\n```\nloaded 3 wibs\nready\n```\n",
        "# Wib is odd\n\nIt gives a wrong result.\n\n```\npython wobble.py\n```\n",
        "# Wib is odd\n\nIt gives a wrong result.\n\n```\n./wobble --size 3\n```\n",
        "# 结果不对\n\n期望输出：\n```\n4.00 元\n```\n",
        # sentences of people: in titles, in quotes, beside the name of a program
        "# Unexpected place of the wib on a wob\n\nDebian 12\n",
        "# Failed to compile on Wib Linux\n\nDebian 12\n",
        "# Boot\n\nWIB TCG failed at booting wobble.\n",
        # what quoted options in the title are set to
        '# It does not support "wib.format.insert"\n\n```\nwib.format.insert: true\n```\n',
    ],
)
def test_what_is_not_the_failure(text: str) -> None:
    assert "TODO(reprokit)" in str(failure(text))


CUES = [(row["role"], text, wanted) for row in table()["cues"] for text, wanted in row["examples"].items()]


@pytest.mark.parametrize(("own", "text", "wanted"), CUES)
def test_the_examples_of_cues(own: str, text: str, wanted: str | None) -> None:
    assert role(text) == (wanted or own)


def test_a_warning_in_the_title_is_the_failure() -> None:
    text = "# `Warning: wib pool leaks` with two workers\n\n" + PROGRAM + "Output:\n```\none\n{}\n```\n"
    assert failure(text.format("[W pool.cc:8] Warning: wib pool leaks. (function pool)")) == {
        "output": "Warning: wib pool leaks"
    }


def test_what_tensorflows_log_goes_on_after_is_not_the_failure() -> None:
    text = (
        "# Results\n\nlog:\n```\n2023-09-18 23:45:51.9: W wib/dso_loader.cc:64] Could not load 'libwib.so.7'; dlerror: "
        "libwib.so.7: cannot open shared object file: No such file or directory\nError: wob has no result today\n```\n"
    )
    assert failure(text) == {"output": "wob has no result today"}


def test_a_sentence_that_goes_on_behind_the_words_of_the_title_is_cut() -> None:
    text = '# wob can end with "can\'t join a wib to bytes" after it succeeds\n\n'
    text += 'The wob can end with "can\'t join a wib to bytes" after it succeeds\n'
    found = titled(pieces.cut(text).pieces)
    assert found
    assert found.signature == {"output": "can't join a wib to bytes"}


def test_a_line_that_says_what_is_expected_is_not_the_failure_of_the_title() -> None:
    text = (
        "# The wob should throw an error for the following wibble\n\nExpected: the wob should throw an error for it\n"
    )
    found = titled(pieces.cut(text.replace("for it", "for the following wibble")).pieces)
    assert found is None


def test_a_message_that_begins_like_an_expectation_is_the_failure() -> None:
    text = '# It ends with "Expecting value: line 1 column 1"\n\n```\nExpecting value: line 1 column 1 (char 0)\n```\n'
    assert titled(pieces.cut(text).pieces)
