"""Reports become drafts: what of a report is in the case, and that nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reprokit.case import placeholders
from reprokit.case.files import CaseFile
from reprokit.core.errors import CaseError, UsageError
from reprokit.environment.cases import load_text
from reprokit.intake.draft import render
from reprokit.intake.drafting import draft
from reprokit.intake.pieces import cut_report
from tests.unit.intake.reports import CONSOLE, FORM, TWO_MACHINES
from tests.unit.limits import examples, within


def drafted(text: str, url: str = "") -> CaseFile:
    return load_text("draft.yaml", render(draft(text, url=url)), draft=True)


def test_a_report_of_two_machines_has_two_cells_and_names_its_origins() -> None:
    made = draft(TWO_MACHINES)
    case = load_text("draft.yaml", render(made), draft=True).case
    assert [dict(cell) for cell in case.matrix.include] == [
        {
            "os": "debian-12",
            "cuda": "12.0",
            "cudnn": "8.9",
            "python": "3.11",
            "gcc": "12.2",
            "paddle": placeholders.MARK,
        },
        {
            "os": "debian-12",
            "cuda": "11.8",
            "cudnn": "8.6",
            "python": "3.11",
            "gcc": "8.2",
            "paddle": placeholders.MARK,
        },
    ]
    assert case.env["SOT_LOG_LEVEL"] == "3"
    assert str(case.command).startswith("python3.11 tools/train.py \\\n    --config configs/")
    assert case.expect.failure.message == "/For batch .*: U.* is zero, singular U/"
    assert case.expect.failure.frames[-1] == "rmi_loss.py:inverse"
    text = render(made)
    line = TWO_MACHINES.split("\n").index("export STRICT_MODE=0") + 1
    assert f"# line {line}\n  STRICT_MODE: 0" in text
    assert "debian-12 is the default: the report names no distribution" in text
    missing = " ".join(made.missing)
    for said in (
        "paddlepaddle-gpu 0.0.0 is not a release that an index has",
        "tools/train.py is started, and the report does not show it",
        "machine has GPU 0: Tesla V100-SXM2-16GB" if "GPU 0" in missing else "machine has Tesla V100-SXM2-16GB",
    ):
        assert said in missing


def test_a_module_that_only_the_described_environment_lacks_is_left_open() -> None:
    fails = "```\n$ wobble go\nModuleNotFoundError: No module named 'torch'\n```\n"
    assert draft(f"# x\n\n{fails}").data["matrix"] == {"torch": [placeholders.MARK]}
    assert "torch" not in draft(f"# x\n\n{fails}\n- OS: Debian 12\n- wobble version: 0.3\n").data["matrix"]
    assert "matrix" not in draft(f"# x\n\n{fails.replace('torch', 'mine')}").data


def test_a_form_of_an_issue_with_a_program() -> None:
    made = drafted(FORM, "https://github.com/nobody/tablelib/issues/7")
    case = made.case
    assert case.report is not None
    assert case.report.url == "https://github.com/nobody/tablelib/issues/7"
    assert case.command == "python bug.py"
    assert case.files["bug.py"].startswith("import numpy as np\n")
    assert set(case.environment.pip) == {"numpy=={{ numpy }}"}
    assert case.matrix.axes == {"numpy": (placeholders.MARK,)}
    assert case.expect.failure.exception == "ValueError"
    assert case.expect.failure.message == "/matmul: Input operand .* has a mismatch in its core dimension/"
    assert case.description.startswith("The mean of an empty column is wrong")
    for text in ("please be short", "No response", "somebody"):
        assert text not in made.text


def test_a_console_in_plain_text() -> None:
    case = drafted(CONSOLE).case
    assert str(case.command).startswith("# line 3, not here: pip install frobnicate==2.1\ncd demo\n")
    assert str(case.command).endswith("python demo.py --rate 3\n")
    assert case.env == {"FROB_MODE": "fast", "OMP_NUM_THREADS": "1"}
    assert case.environment.pip == ("frobnicate==2.1",)
    assert case.resources.network == "none"  # the command that would need one became a comment
    failure = case.expect.failure
    assert (failure.exception, failure.message) == ("SpinError", "cannot spin at")


def test_templates_and_secrets_of_a_report_do_not_reach_the_case() -> None:
    token = "ghp_" + "a1B2" * 9
    made = drafted(
        f'```python\nimport os\nos.environ["GH"] = "{token}"\nprint("{{{{ cuda }}}}", "{{% for x in y %}}")\n```\n'
    )
    assert token not in made.text
    assert "github-token" in made.text
    from reprokit.case.render import render as cell

    assert '"{{ cuda }}", "{% for x in y %}"' in cell(made.case, {}).files["repro.py"].text


def test_a_secret_in_a_command_is_not_a_redirection() -> None:
    made = draft("```\n$ python get.py --password hunter2x\nKeyError: 'x'\n```\n")
    assert made.data["command"] == "python get.py --password REDACTED_SECRET"
    assert any("secret or personal" in sentence for sentence in made.missing)


def test_what_a_report_does_not_say_is_a_placeholder_and_such_a_draft_is_refused() -> None:
    for text in (
        "After the update the window stays grey for a while.\n",
        "打开以后什么也没有，请帮忙看看\n",
        "Python: 3.11.3 (main)\nNVCC: Build cuda_12.0.r12.0\ncudnn: 8.9\n",
        "I run python train.py with numpy 1.26.4, it hangs and leaks memory, and `x` raises TypeError: bad y\n",
    ):
        made = render(draft(text))
        case = load_text("draft.yaml", made, draft=True).case
        assert [loc for loc, _ in placeholders.find(case)] == [("command",), ("expect", "failure", "output")]
        assert "numpy" not in made.partition("description:")[0]
        with pytest.raises(CaseError, match=r"draft\.yaml:\d+:\d+: TODO") as refused:
            load_text("draft.yaml", made)
        assert "python repro.py" in str(refused.value)
        assert "{exception: ValueError" in str(refused.value)
    with pytest.raises(UsageError, match=r"mail\.txt: nothing in it that a case can be made of"):
        draft("Hello!\n", source="mail.txt")


TWO = '```\nTraceback (most recent call last):\n  File "a.py", line 1, in go\n    x\n{}: it is odd\n```\n'


def test_of_several_failures_none_is_chosen_and_each_can_be_asked_for() -> None:
    text = f"# It dies\n\n{TWO.format('KeyError')}\nThen:\n\n{TWO.format('TypeError')}"
    made = draft(text)
    assert placeholders.MARK in str(made.data["expect"])
    assert made.troubles == ("1 (line 4: KeyError: it is odd)", "2 (line 13: TypeError: it is odd)")
    assert any("2 failures: line 4: KeyError: it is odd; line 13" in text for text in made.missing)
    assert draft(text, failure=2).data["expect"]["failure"]["exception"] == "TypeError"
    with pytest.raises(UsageError, match="there is no failure 3; it shows 2 failures"):
        draft(text, failure=3)


def test_packages_come_as_they_were_on_the_day_of_the_report() -> None:
    made = draft("```\n$ pip install wobble==1.2\n$ wobble go\nValueError: no\n```\n", created="2021-05-04T10:22:11Z")
    assert made.data["environment"]["pip_before"] == "2021-05-05"
    assert "pip_before" not in str(draft(CONSOLE, created="soon").data)


def test_of_a_long_log_the_ends_are_drafted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("reprokit.intake.report_text.MOST", 1000)
    made = draft("```\n$ python a.py\n" + "x = 1\n" * 2000 + "KeyError: 'x'\n```\n")
    assert made.data["command"] == "python a.py"
    assert made.data["expect"]["failure"]["exception"] == "KeyError"
    assert any("of its lines, from line" in sentence for sentence in made.missing)


PIECES = st.sampled_from(
    [
        "```",
        "```python",
        "~~~",
        "### Steps",
        "**Error**",
        "<!--",
        "-->",
        "<details>",
        "- item",
        "",
        "\t",
        "Traceback (most recent call last):",
        '  File "/a/b.py", line 3, in f',
        "    x()",
        "ValueError: bad 3",
        "$ python a.py --x 1 \\",
        "export A=b",
        "set A=",
        ">>> import numpy",
        "... x",
        "In [1]: y",
        "cd ..",
        "data/",
        "Python: 3.11",
        "CUDA: 12.1",
        "gcc 9",
        "numpy==1.2",
        "a.c:1:2: error: no",
        "Segmentation fault",
        "key: {{ value }}",
        "{% raw %}",
        "e.g. [x]",
        "git clone https://github.com/o/r",
        "`a`",
        "pip install a b==1 -f http://x",
        "import os; os.x()",
        "\x00",
        "\r",
        "Python 3.9 (main)",
        "OS: Ubuntu 20.04",
        "torch: 2.1.0+cu118",
        "> $ make {{ x }}",
        "C:\\x> python .\\a.py",
        "Command: `make x`",
        "```js",
        "FLAGS_a=1",
        "ERROR: No matching distribution found for {{ a }}",
        "Package Version",
        "The command hangs: it was stopped after 60 s.",
        "reprokit collect 1",
    ]
).flatmap(lambda piece: st.sampled_from((piece + "\n", piece)))
TEXTS = st.lists(st.one_of(PIECES, st.text(max_size=12)), max_size=30).map("".join)


@settings(max_examples=examples(150), deadline=None)
@given(TEXTS)
def test_each_line_is_in_one_piece_at_most(text: str) -> None:
    last = 0
    for piece in cut_report(text).pieces:
        assert piece.line > last
        last = piece.last
    assert last <= len(cut_report(text).lines)


@settings(max_examples=examples(150), deadline=None)
@given(TEXTS)
@example("pip install a b==1 -f http://x{% raw %}\nValueError: bad 3\n")
def test_any_text_makes_a_valid_draft_or_a_clear_refusal(text: str) -> None:
    try:
        made = draft(text)
    except UsageError:
        return
    load_text("draft.yaml", render(made), draft=True)


@pytest.mark.parametrize("unit", ["*", "#", "=", "| ", " ", "1.", "- ", "**", "a/", "pip ", "![", "(", "A:"])
def test_long_rulers_and_empty_tables_are_read_at_once(unit: str) -> None:
    """A pattern with two ways to read the same characters would never come back from this."""
    line = unit * (3000 // len(unit))
    with within(seconds=20):
        assert draft(f"{line}\n\n```\n{line}\nValueError: no {line}!\n```\n{line}x\n").data["expect"]
