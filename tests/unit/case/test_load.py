"""Loading: scalars as written, where cases come from, positions, Markdown, fixes, speed."""

from __future__ import annotations

import hashlib
import io
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.case.markdown import blocks
from reprokit.case.tree import parse
from reprokit.core.errors import CaseError, UsageError
from reprokit.evidence.sequential import Trials
from reprokit.run.loading import load
from reprokit.run.plan import trials_of
from tests.unit.serving import Quiet, serving

MINIMAL = "schema: reprokit/v1\nid: minimal\ntitle: Minimal\ncommand: run\n"


def write(path: Path, text: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(
    "scalar",
    ["3.10", "False", "no", "on", "~", "null", "0x1F", "1e3", "012", "2024-01-01", "1_000", "12:30", ".5", "=", "-0"],
)
def test_scalars_are_read_as_they_are_written(tmp_path: Path, scalar: str) -> None:
    text = MINIMAL + f"env: {{A: {scalar}}}\nmatrix: {{free: [{scalar}]}}\ntags: [{scalar}]\n"
    case = load(write(tmp_path / "a.yaml", text))[0].case
    assert case.env == {"A": scalar}
    assert case.matrix.axes == {"free": (scalar,)}
    assert case.tags == (scalar,)


PLAIN = st.text(alphabet=st.sampled_from("abcXYZ0123456789._+-é中"), min_size=1).filter(
    lambda text: text[0] not in "-?" and text not in ("---", "...")
)


@settings(deadline=None)
@given(st.lists(PLAIN, min_size=1, max_size=5, unique=True))
def test_plain_scalars_round_trip(scalars: list[str]) -> None:
    tree = parse("f", "a: [" + ", ".join(scalars) + "]\nb: {" + ", ".join(f"{s}: {s}" for s in scalars) + "}\n")
    assert tree.problems == []
    assert tree.data == {"a": scalars, "b": {s: s for s in scalars}}


@settings(deadline=None)
@given(
    st.text(alphabet=st.characters(min_codepoint=0x20, max_codepoint=0xD7FF, exclude_characters="\x7f\x85\u2028\u2029"))
)
def test_quoted_scalars_round_trip(text: str) -> None:
    if any(0x80 <= ord(char) < 0xA0 for char in text):
        return  # YAML takes these only escaped
    tree = parse("f", "a: '" + text.replace("'", "''") + "'\n")
    assert tree.problems == []
    assert tree.data == {"a": text}


@settings(deadline=None)
@given(st.text(max_size=200))
def test_no_text_makes_the_parser_raise(text: str) -> None:
    tree = parse("f", text)
    assert tree.problems or isinstance(tree.data, dict)
    assert all(problem.line >= 1 and problem.column >= 1 for problem in tree.problems)


def test_the_smallest_case(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", MINIMAL)
    (file,) = load(path)
    assert file.path == path
    assert file.text == MINIMAL
    assert file.case.trials == 1
    assert file.case.workdir == "/workspace"
    assert file.case.resources.network == "none"
    assert file.case.resources.timeout == "30m"
    assert file.case.expect.reproduces == "unknown"
    assert file.fixed is None
    assert file.digest == "sha256:" + hashlib.sha256(MINIMAL.encode()).hexdigest()


def test_the_digest_is_that_of_the_text(tmp_path: Path) -> None:
    one = load(write(tmp_path / "a.yaml", MINIMAL))[0]
    two = load(write(tmp_path / "b.yaml", MINIMAL))[0]
    three = load(write(tmp_path / "c.yaml", MINIMAL + "# more\n"))[0]
    assert one.digest == two.digest != three.digest


def test_axes_keep_the_order_of_the_file(tmp_path: Path) -> None:
    text = MINIMAL + "matrix: {zeta: [a], cuda: [none], alpha: [b], os: [debian-12]}\n"
    case = load(write(tmp_path / "a.yaml", text))[0].case
    assert list(case.matrix.axes) == ["zeta", "cuda", "alpha", "os"]


def test_booleans_and_counts(tmp_path: Path) -> None:
    text = MINIMAL + "trials: 7\nexpect: {failure: {exit_code: 139, timed_out: no, out_of_memory: Yes}}\n"
    case = load(write(tmp_path / "a.yaml", text))[0].case
    assert case.trials == 7
    assert case.expect.failure.exit_code == 139
    assert case.expect.failure.timed_out is False
    assert case.expect.failure.out_of_memory is True


def test_trials_are_a_number_or_say_when_to_stop_and_a_fix_merges_over_them(tmp_path: Path) -> None:
    text = MINIMAL + "trials: {max: 40, rate: 0.25}\nfix: {trials: {max: 60}}\n"
    file = load(write(tmp_path / "a.yaml", text))[0]
    assert file.fixed is not None
    assert trials_of(file.case) == Trials(max=40, confidence=0.95, rate=0.25)
    assert trials_of(file.fixed) == Trials(max=60, confidence=0.95, rate=0.25)
    assert trials_of(load(write(tmp_path / "b.yaml", MINIMAL + "trials: 3\n"))[0].case) == Trials(max=3, rate=None)


def test_anchors_and_merge_keys(tmp_path: Path) -> None:
    text = MINIMAL + "env: &env {A: 1, B: 2}\nfix:\n  env: {<<: *env, B: 3}\n"
    file = load(write(tmp_path / "a.yaml", text))[0]
    assert file.fixed is not None
    assert file.fixed.env == {"A": "1", "B": "3"}


def test_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbf" + (MINIMAL + "env: {A: 1}\nfoo: 1\n").replace("\n", "\r\n").encode())
    with pytest.raises(CaseError) as caught:
        load(str(path))
    assert [(p.line, p.column) for p in caught.value.problems] == [(6, 1)]


def test_positions_count_characters_rather_than_bytes(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", MINIMAL + "env: {É: 中文, Ü: '{{ x }}'}\n")
    with pytest.raises(CaseError) as caught:
        load(path)
    assert [(p.line, p.column) for p in caught.value.problems] == [(5, 21)]


def test_the_fix_merges_mappings_and_replaces_lists_and_scalars(tmp_path: Path) -> None:
    text = MINIMAL + (
        "env: {A: 1, B: 2}\nenvironment: {pip: [a, b], apt: [c]}\ntrials: 2\n"
        "fix: {summary: Do it right, env: {B: 3, C: 4}, environment: {pip: [d]}, trials: 5, command: [x]}\n"
    )
    (file,) = load(write(tmp_path / "a.yaml", text))
    assert file.case.env == {"A": "1", "B": "2"}
    assert file.case.fix is not None
    assert file.case.fix["summary"] == "Do it right"
    assert file.fixed is not None
    assert file.fixed.fix is None
    assert file.fixed.env == {"A": "1", "B": "3", "C": "4"}
    assert file.fixed.environment.pip == ("d",)
    assert file.fixed.environment.apt == ("c",)
    assert file.fixed.command == ("x",)
    assert file.fixed.trials == 5


def test_a_case_file_points_at_its_keys(tmp_path: Path) -> None:
    (file,) = load(write(tmp_path / "a.yaml", MINIMAL + "env:\n  A: 1\nfix:\n  env:\n    A: 2\n"))
    here = file.problem(("env", "A"), "m", "h")
    assert (here.line, here.column, here.message, here.hint) == (6, 6, "m", "h")
    assert file.problem(("env", "A"), "m", key=True).column == 3
    assert file.problem(("env", "A"), "m", fixed=True).line == 9
    assert file.problem(("resources", "memory"), "m").line == 1


def test_names_are_those_of_all_templates(tmp_path: Path) -> None:
    text = (
        MINIMAL + "matrix: {a: [x], b: [y]}\nenv: {A: '{{ a }}{{ extra | default(1) }}'}\nfix: {env: {B: '{{ b }}'}}\n"
    )
    assert load(write(tmp_path / "a.yaml", text))[0].names == {"a", "b", "extra"}


def test_a_folder_gives_its_cases_in_order_and_all_their_problems(tmp_path: Path) -> None:
    write(tmp_path / "b" / "two.yml", MINIMAL.replace("minimal", "two"))
    write(tmp_path / "a.yaml", MINIMAL.replace("minimal", "one"))
    write(tmp_path / "README.md", "# no case here\n")
    write(tmp_path / ".hidden" / "x.yaml", "nonsense")
    assert [file.case.id for file in load(str(tmp_path))] == ["one", "two"]
    write(tmp_path / "c.yaml", MINIMAL + "foo: 1\n")
    write(tmp_path / "d.yaml", MINIMAL + "a: b: c\n")
    with pytest.raises(CaseError) as caught:
        load(str(tmp_path))
    assert {Path(p.path).name for p in caught.value.problems} == {"c.yaml", "d.yaml"}


def test_two_cases_of_one_id_are_reported_with_both_places(tmp_path: Path) -> None:
    one = write(tmp_path / "a.yaml", MINIMAL)
    two = write(tmp_path / "b.yaml", MINIMAL)
    with pytest.raises(CaseError) as caught:
        load(str(tmp_path))
    (problem,) = caught.value.problems
    assert (problem.path, problem.line, problem.column) == (two, 2, 5)
    assert f"{one}:2:5" in problem.message


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such file"):
        load(str(tmp_path / "missing"))
    with pytest.raises(UsageError, match="no case in this folder"):
        load(str(tmp_path))
    write(tmp_path / "README.md", "# no case here\n")
    with pytest.raises(UsageError, match="no case in this folder"):
        load(str(tmp_path))


def test_a_missing_file_has_a_near_match(tmp_path: Path) -> None:
    write(tmp_path / "segfault.yaml", MINIMAL)
    with pytest.raises(UsageError, match=r"did you mean '.*segfault\.yaml'"):
        load(str(tmp_path / "segfalut.yaml"))


def test_what_is_not_utf8_is_reported_at_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes("schema: reprokit/v1\ntitle: é".encode() + b"\xff\n")
    with pytest.raises(CaseError) as caught:
        load(str(path))
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (2, 9)
    assert "0xff" in problem.message


def test_a_huge_file_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "a.yaml", "#" * (8 * 1024**2 + 1))
    with pytest.raises(CaseError, match="more than 8 MiB"):
        load(path)


@pytest.mark.parametrize("name", ["a\nall.yaml: valid.yaml", "\x1b[2Ja.yaml", "a\r.md"])
def test_the_name_of_a_file_makes_no_line_of_ours(tmp_path: Path, name: str) -> None:
    write(tmp_path / name, MINIMAL)
    for source in (tmp_path, tmp_path / name):
        with pytest.raises(CaseError, match="rename the file") as caught:
            load(str(source))
        assert str(caught.value).isprintable()


def test_standard_input() -> None:
    assert load("-", stdin=io.StringIO(MINIMAL))[0].path == "<stdin>"
    with pytest.raises(CaseError, match="<stdin>:5:1: unknown key 'foo'"):
        load("-", stdin=io.TextIOWrapper(io.BytesIO(MINIMAL.encode() + b"foo: 1\n")))


MARKDOWN = """\
# A report

```python
schema = 1
```

- a list

  ```yaml
  schema: reprokit/v1
  id: in-markdown
  title: In Markdown
  command: |
    run {{ nowhere }}
  ```

```
schema: something/else
```
"""


def test_markdown_with_a_fenced_case(tmp_path: Path) -> None:
    (file,) = load(write(tmp_path / "report.md", MARKDOWN.replace(" {{ nowhere }}", "")))
    assert file.case.id == "in-markdown"
    assert file.case.command == "run\n"
    assert file.text.startswith("schema: reprokit/v1\nid:")


def test_positions_are_those_of_the_markdown_file(tmp_path: Path) -> None:
    with pytest.raises(CaseError) as caught:
        load(write(tmp_path / "report.md", MARKDOWN))
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (14, 12)


def test_markdown_on_standard_input_and_in_files_of_any_name(tmp_path: Path) -> None:
    text = MARKDOWN.replace(" {{ nowhere }}", "")
    assert load("-", stdin=io.StringIO(text))[0].case.id == "in-markdown"
    assert load(write(tmp_path / "issue.txt", text))[0].case.id == "in-markdown"


def test_a_case_that_quotes_a_case_in_its_description_is_yaml(tmp_path: Path) -> None:
    text = MINIMAL + "description: |\n  ```yaml\n  schema: reprokit/v1\n  ```\n"
    assert load("-", stdin=io.StringIO(text))[0].case.id == "minimal"


def test_markdown_without_a_case_is_reported_when_it_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match=r":1:1: no fenced block holds"):
        load(write(tmp_path / "a.md", "# nothing\n"))


def test_each_fenced_case_is_a_case() -> None:
    fence = "~~~yaml\n" + MINIMAL + "~~~\n"
    both = fence + "text\n" + fence.replace("minimal", "other") + "````\n```\nschema: reprokit/v1\n"
    found = blocks(both)
    assert [block.first_line for block in found] == [1, 8, 14]
    assert found[0].text == MINIMAL


@pytest.fixture
def server() -> Iterator[tuple[str, dict[str, tuple[int, str, bytes]]]]:
    pages: dict[str, tuple[int, str, bytes]] = {}

    class Handler(Quiet):
        def do_GET(self) -> None:
            status, kind, body = pages.get(self.path, (404, "text/plain", b""))
            self.answer(status, body, Content_Type=kind)

    with serving(Handler) as address:
        yield f"http://{address}", pages


def test_web_addresses(server: tuple[str, dict[str, tuple[int, str, bytes]]]) -> None:
    base, pages = server
    pages["/a.yaml"] = (200, "text/plain", MINIMAL.encode())
    pages["/page"] = (200, "text/html; charset=utf-8", b"<html></html>")
    pages["/report.md"] = (200, "text/plain", MARKDOWN.encode())
    assert load(f"{base}/a.yaml")[0].path == f"{base}/a.yaml"
    with pytest.raises(UsageError, match="answers 404"):
        load(f"{base}/b.yaml")
    with pytest.raises(UsageError, match="a web page"):
        load(f"{base}/page")
    with pytest.raises(CaseError, match=r"report\.md:14:12: "):
        load(f"{base}/report.md")
    with pytest.raises(UsageError, match="only http"):
        load("file:///etc/passwd")
    with pytest.raises(UsageError, match="cannot be fetched"):
        load("http://127.0.0.1:1/a.yaml")


def test_a_hundred_cases_load_within_a_second(tmp_path: Path) -> None:
    text = MINIMAL + (
        "matrix: {cuda: [none, '11.8'], gcc: ['11', '12'], flag: [a, b]}\n"
        "environment: {pip: ['x=={{ flag }}', '{% if cuda != \"none\" %}y{% endif %}'], apt: [gcc]}\n"
        "files:\n  run.py: |\n" + "    print('{{ flag }}')\n" * 50 + "env: {A: '{{ cuda }}', B: 'x{{ gcc }}', C: 3}\n"
        "fix: {env: {A: '{{ flag }}-fixed'}}\n"
    )
    for number in range(100):
        write(tmp_path / f"{number}.yaml", text.replace("minimal", f"n{number}").replace("50", str(number)))
    load(str(tmp_path / "0.yaml"))
    start = time.process_time()
    assert len(load(str(tmp_path))) == 100
    assert time.process_time() - start < 1.0


def test_other_tools_files_in_a_folder_are_not_cases_but_a_broken_case_is(tmp_path: Path) -> None:
    (tmp_path / "good.yaml").write_text("schema: reprokit/v1\nid: a\ntitle: t\ncommand: x\n")
    (tmp_path / "compose.yaml").write_text("services: {a: {image: b, command: c}}\n")
    (tmp_path / "workflow.yml").write_text("name: x\non: push\njobs: {}\n")
    assert [file.case.id for file in load(str(tmp_path))] == ["a"]
    (tmp_path / "broken.yaml").write_text("shema: reprokit1\nid: b\ntitle: t\ncommand: x\n")
    with pytest.raises(CaseError, match="did you mean 'schema'"):
        load(str(tmp_path))
