"""What a failing command shows becomes a case that says where each part is from, and nothing private gets into it."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from reprokit.case.templates import render_text
from reprokit.cli.new_command import command as new
from reprokit.environment.cases import load_text
from reprokit.environment.measured import Measured
from reprokit.evidence.model import Ending
from reprokit.intake import captured_files as files
from reprokit.intake import captured_python as interpreter
from reprokit.intake import captured_run as running
from reprokit.intake import draft
from reprokit.intake.captured_draft import CaptureDrafting
from reprokit.intake.captured_python import CapturedPython, Distribution
from reprokit.intake.captured_run import CapturedRun
from tests.servers import wait_until

LOG = """\
Traceback (most recent call last):
  File "/home/anna/proj/train.py", line 3, in <module>
    main()
  File "/home/anna/proj/train.py", line 2, in main
    raise ValueError("bad shape (3, 4)")
ValueError: bad shape (3, 4)
"""
PYTHON = CapturedPython(
    path="/home/anna/env/bin/python",
    version="3.11.9",
    prefixes=("/home/anna/env",),
    distributions=(
        Distribution(name="Pandas", version="2.0.3", modules=("pandas",), requires=("numpy>=1.21", 'tz; extra == "x"')),
        Distribution(name="numpy", version="2.0.2", modules=("numpy",), scripts=("f2py",)),
        Distribution(name="torch", version="2.1.0+cu118", modules=("torch",), requires=("setuptools",)),
        Distribution(name="setuptools", version="70", modules=("setuptools",)),
        Distribution(name="tz", version="1", modules=("tz",)),
        Distribution(
            name="mine", version="0.1", modules=("mine",), direct={"url": "file:///home/anna/mine", "dir_info": {}}
        ),
        Distribution(
            name="fork",
            version="3",
            modules=("fork",),
            direct={"url": "https://example.org/fork.git", "vcs_info": {"vcs": "git", "commit_id": "c" * 40}},
        ),
    ),
)
SEEN = CapturedRun(
    command=("/home/anna/env/bin/python", "train.py", "--out", "/home/anna/proj/out"),
    words=("/home/anna/env/bin/python", "train.py", "--out", "/home/anna/proj/out"),
    folder=Path("/home/anna/proj"),
    ran=running.CommandRun(ending=Ending(exit_code=1, seconds=1.0), log=LOG),
    measured=Measured(os="debian-12", gcc="12.2.0", gcc_words="gcc 12.2.0", platform="Linux-6.1-x86_64"),
    interpreter=PYTHON,
    gathered=files.GatheredFiles(texts={"train.py": "import pandas\nPATTERN = '{{ x }}'\n"}, modules={"pandas"}),
)


def drafted(seen: CapturedRun) -> draft.Draft:
    return CaptureDrafting(seen).draft()


def test_a_python_program_becomes_a_case() -> None:
    found = drafted(SEEN)
    case = load_text("x.yaml", draft.render(found)).case
    assert case.id == "train-valueerror"
    assert case.title == "ValueError: bad shape (3, 4)"
    assert case.matrix.axes == {"os": ("debian-12",), "python": ("3.11",)}
    assert case.environment.pip == ("Pandas==2.0.3", "numpy==2.0.2")
    assert case.command == "python train.py --out out"
    assert case.expect.failure.exception == "ValueError"
    assert case.expect.failure.frames == ("train.py:<module>", "train.py:main")
    assert case.expect.reproduces == "all"
    assert render_text(case.files["train.py"], {}) == "import pandas\nPATTERN = '{{ x }}'\n"
    assert "anna" not in draft.render(found)


def test_a_crash_has_its_signal_and_the_compiler_that_was_used() -> None:
    seen = replace(
        SEEN,
        command=("sh", "-c", "gcc crash.c -o crash && ./crash"),
        words=("sh", "-c", "gcc", "crash.c", "-o", "crash", "&&", "./crash"),
        ran=running.CommandRun(ending=Ending(exit_code=139), log="one\n"),
        interpreter=None,
        gathered=files.GatheredFiles(texts={"crash.c": "int main(void) { return *(int *)0; }\n"}),
    )
    case = load_text("x.yaml", draft.render(drafted(seen))).case
    assert (case.id, case.expect.failure.signal, case.expect.failure.exit_code) == ("crash-sigsegv", "SIGSEGV", None)
    assert case.matrix.axes == {"os": ("debian-12",), "gcc": ("12",)}


def test_a_command_that_does_not_end_is_a_timeout() -> None:
    seen = replace(SEEN, ran=running.CommandRun(ending=Ending(exit_code=143, timed_out=True, seconds=2.2), log=""))
    case = load_text("x.yaml", draft.render(drafted(seen))).case
    assert (case.id, case.expect.failure.timed_out, case.resources.timeout) == ("train-timed-out", True, "2s")


def test_private_text_is_left_out_of_the_signature_rather_than_replaced() -> None:
    log = LOG.replace("bad shape (3, 4)", "no such user: anna.b@example.org")
    found = drafted(replace(SEEN, ran=running.CommandRun(ending=Ending(exit_code=1), log=log)))
    assert "message" not in found.data["expect"]["failure"]
    assert any(text.startswith("message of the failure") for text in found.missing)
    assert "anna.b" not in draft.render(found)


def test_a_secret_in_a_pattern_is_found_although_wildcards_split_it() -> None:
    log = LOG.replace("bad shape (3, 4)", "no way to https://anna:sword42fish@m.example.org:31/ from /home/anna/x")
    found = drafted(replace(SEEN, ran=running.CommandRun(ending=Ending(exit_code=1), log=log)))
    assert "message" not in found.data["expect"]["failure"]
    assert "sword" not in draft.render(found)
    log = LOG.replace("bad shape (3, 4)", "no file /home/anna/proj/x.bin in here")
    found = drafted(replace(SEEN, ran=running.CommandRun(ending=Ending(exit_code=1), log=log)))
    assert "no file" in found.data["expect"]["failure"]["message"]
    assert "anna" not in draft.render(found)


def test_a_secret_of_an_option_is_removed_from_the_output_too() -> None:
    log = f"['train.py', '--password', 'swordfish', '--api-key=herring']\n{LOG}"
    words = ("python", "train.py", "--password", "swordfish", "--api-key=herring")
    text = draft.render(
        drafted(replace(SEEN, command=words, ran=running.CommandRun(ending=Ending(exit_code=1), log=log)))
    )
    assert "swordfish" not in text
    assert "herring" not in text


def test_a_placeholder_of_a_secret_is_not_a_redirection() -> None:
    words = ("python", "train.py", "--password", "hunter2", "--api-key=abc123", "a b")
    found = drafted(replace(SEEN, command=words))
    assert found.data["command"] == "python train.py --password REDACTED_SECRET --api-key=REDACTED_SECRET 'a b'"
    inner = drafted(replace(SEEN, command=("bash", "-c", "curl https://anna:pw1@example.org/x")))
    assert inner.data["command"] == "bash -c 'curl https://REDACTED_CREDENTIALS@example.org/x'"
    assert len(found.omitted) == 2


def test_an_unknown_system_is_not_an_axis() -> None:
    found = drafted(replace(SEEN, measured=Measured(os="arch-rolling")))
    assert "os" not in found.data["matrix"]
    assert any("arch-rolling" in text for text in found.missing)


def test_a_checkout_is_a_source_with_its_changes() -> None:
    tree = files.Checkout(
        root=Path("/home/anna/proj"),
        url="https://example.org/proj.git",
        commit="a" * 40,
        folder="tools",
        patch="--- a/x\n+++ b/x\n@@ -1 +1 @@\n-{{ a }}\n+b\n",
        tracked=frozenset({"train.py"}),
    )
    texts = {"train.py": "tracked", "new.py": "untracked"}
    found = drafted(replace(SEEN, checkout=tree, gathered=files.GatheredFiles(texts=texts)))
    case = load_text("x.yaml", draft.render(found)).case
    assert case.sources["proj"].ref == "a" * 40
    assert render_text(case.sources["proj"].patch, {}) == tree.patch
    assert list(case.files) == ["proj/tools/new.py"]
    assert case.command == "cd proj/tools && python train.py --out out"
    why = drafted(replace(SEEN, checkout=replace(tree, why_not="no remote")))
    assert "sources" not in why.data
    assert any("no remote" in text for text in why.missing)
    for url in ("anna@box:proj", "https://example.org/proj.git?token=0123456789ab", "ssh://anna@box.example/proj"):
        found = drafted(replace(SEEN, checkout=replace(tree, url=url)))
        assert "sources" not in found.data
        assert url not in draft.render(found)


# -- packages ----------------------------------------------------------------------------------------------------------


def test_packages_are_those_in_use_and_their_dependencies() -> None:
    assert interpreter.pin_packages(PYTHON, {"pandas"}).needed == ["numpy==2.0.2"]
    assert interpreter.pin_packages(PYTHON, set(), ["python", "-m", "pandas.x"]).direct == ["Pandas==2.0.3"]
    assert interpreter.pin_packages(PYTHON, set(), ["/x/bin/f2py"]).direct == ["numpy==2.0.2"]
    assert interpreter.pin_packages(PYTHON, {"unknown"}).direct == []


def test_packages_that_no_index_has_are_reported_or_pinned_to_their_commit() -> None:
    found = interpreter.pin_packages(PYTHON, {"mine", "fork", "torch"})
    assert found.direct == [f"fork @ git+https://example.org/fork.git@{'c' * 40}", "torch==2.1.0+cu118"]
    assert found.options == ["--extra-index-url https://download.pytorch.org/whl/cu118"]
    assert [text.split()[0] for text in found.missing] == ["mine"]
    archive = {"url": "https://example.org/a.whl", "archive_info": {}}
    other = replace(PYTHON, distributions=(Distribution(name="a", version="1", modules=("a",), direct=archive),))
    assert interpreter.pin_packages(other, {"a"}).direct == ["a @ https://example.org/a.whl"]
    archive["url"] = "https://example.org/a.whl?sig=0123456789abcdef"
    found = interpreter.pin_packages(other, {"a"})
    assert found.direct == ["a==1"]
    assert "contains something secret" in found.missing[0]


@pytest.mark.system
def test_this_interpreter_lists_what_is_installed() -> None:
    program = interpreter.program_of([sys.executable, "-c", "pass"])
    found = interpreter.ask(program)
    assert found is not None
    assert found.version == ".".join(map(str, sys.version_info[:3]))
    assert interpreter.pin_packages(found, {"yaml"}).direct[0].startswith("PyYAML==")
    assert interpreter.program_of(["bash", "-c", f"cd x && {sys.executable} y.py"]) == sys.executable
    assert interpreter.program_of(["make", "all"]) == ""


# -- files -------------------------------------------------------------------------------------------------------------


def tree(folder: Path, **texts: str) -> Path:
    for name, text in texts.items():
        path = folder / name.replace("__", "/").replace("_DOT_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def test_files_are_found_through_imports_includes_and_makefiles(tmp_path: Path) -> None:
    tree(
        tmp_path,
        run_DOT_py="import numpy\nfrom lib.util import f\nopen('conf.json')\n",
        lib__util_DOT_py="from . import more\n",
        lib__more_DOT_py="import yaml.nodes\n",
        conf_DOT_json="{}",
        other_DOT_py="",
        Makefile="prog: src/a.o\n",
        src__a_DOT_c='#include "a.h"\n#include <stdio.h>\n',
        src__a_DOT_h="",
    )
    found = files.gather(files.files_named(["python", "run.py", "--n=1"], tmp_path), tmp_path)
    assert sorted(found.texts) == ["conf.json", "lib/more.py", "lib/util.py", "run.py"]
    assert found.modules >= {"numpy", "yaml"}
    found = files.gather(files.files_named(["make", "-j2"], tmp_path), tmp_path)
    assert sorted(found.texts) == ["Makefile", "src/a.c", "src/a.h"]
    (tmp_path / "Makefile").unlink()
    tree(tmp_path, CMakeLists_DOT_txt="add_executable(p ${CMAKE_SOURCE_DIR}/src/b.cpp)\n", src__b_DOT_cpp="")
    found = files.gather(files.files_named(["cmake", "-S", "."], tmp_path), tmp_path)
    assert sorted(found.texts) == ["CMakeLists.txt", "src/b.cpp"]
    found = files.gather(files.files_in_log("src/a.c:3:1: error: x\n", tmp_path), tmp_path)
    assert sorted(found.texts) == ["src/a.c", "src/a.h"]


def test_the_words_of_a_script_count_as_words_of_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = "#!/usr/bin/env bash\n# cmake is not used\nset -e\nmake all && ./prog 'a b'\n"
    Path("go").write_text(script)
    Path("plain.sh").write_text("python3 x.py\n")
    Path("x.py").write_text("#!/usr/bin/env python3\nmake = 1\n")
    words = ["go", "--fast", "set", "-e", "make", "all", "&&", "./prog", "a b"]
    assert interpreter.words_of(["go", "--fast"]) == [words[0], *words[2:], words[1]]
    assert interpreter.words_of(["sh", "plain.sh"]) == ["sh", "plain.sh", "python3", "x.py"]
    assert interpreter.words_of(["./x.py"]) == ["./x.py"]
    assert interpreter.program_of(["sh", "plain.sh"]).endswith("python3")
    assert not interpreter.program_of(["./go"])


def test_a_test_comes_with_the_files_that_pytest_reads(tmp_path: Path) -> None:
    tree(tmp_path, tests__test_a_DOT_py="", tests__conftest_DOT_py="", setup_DOT_cfg="[metadata]")
    found = files.gather([tmp_path / "tests" / "test_a.py"], tmp_path)
    assert sorted(found.texts) == ["tests/conftest.py", "tests/test_a.py"]


def test_files_outside_of_the_folder_or_too_large_are_left_out(tmp_path: Path) -> None:
    inside = tree(tmp_path / "in", big_DOT_txt="x" * (files.MOST_BYTES + 1))
    (tmp_path / "secret.txt").write_text("outside")
    (inside / "link.txt").symlink_to(tmp_path / "secret.txt")
    (inside / "data.bin").write_bytes(b"\0\1")
    words = ["../secret.txt", "link.txt", "big.txt", "data.bin", str(tmp_path / "secret.txt")]
    found = files.gather(files.files_named(words, inside), inside)
    assert not found.texts
    assert [text.split()[0] for text in found.left_out] == ["big.txt", "data.bin"]
    assert not files.gather(files.files_named(["data.bin"], inside), inside, since=0).left_out


# -- the environment ---------------------------------------------------------------------------------------------------


def test_variables_that_differ_from_a_login_shell() -> None:
    given = {
        "MODE": "fast", "SAME": "1", "HF_TOKEN": "abcdef12345", "DATA": "/home/anna/data", "CONF": "/srv/p/conf.yaml",
        "TERM": "xterm", "LANG": "de_DE.UTF-8", "OLD": "new", "URL": "https://a:b@example.org", "ROOT": "/srv/p",
    }  # fmt: skip
    found = running.differing_variables(given, {"SAME": "1", "OLD": "old"}, "/srv/p")
    assert found.values == {"MODE": "fast", "OLD": "new", "CONF": "conf.yaml", "ROOT": "."}
    assert found.places == ["DATA"]
    assert sorted(one.kind for one in found.omitted) == ["credentials", "secret"]
    assert "abcdef12345" not in str(found)


# -- running -----------------------------------------------------------------------------------------------------------


def test_output_is_recorded_and_passed_on_to_its_own_stream(capfd: pytest.CaptureFixture[str]) -> None:
    ran = running.run(["sh", "-c", "echo out; sleep 0.1; echo err >&2; exit 7"])
    assert ran.ending.exit_code == 7
    assert ran.log == "out\nerr\n"
    assert capfd.readouterr() == ("out\n", "err\n")


def test_a_signal_is_128_and_its_number() -> None:
    assert running.run(["sh", "-c", "kill -SEGV $$"]).ending.exit_code == 139


@pytest.mark.system
def test_a_time_limit_stops_all_child_processes() -> None:
    own = f"sleep 1234.{os.getpid()}"  # the same test may run beside this one
    ran = running.run(["sh", "-c", f"{own} & wait"], timeout=0.3)
    assert ran.ending.timed_out
    listed = ["ps", "-eo", "args"]  # the kernel of a busy host takes its time
    wait_until(lambda: own not in subprocess.check_output(listed, text=True).splitlines())


def test_a_long_output_keeps_its_start_and_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "HEAD", 10)
    monkeypatch.setattr(running, "TAIL", 10)
    kept = running.RecordedOutput()
    for number in range(1000):
        kept.add(b"%04d " % number)
    assert kept.text().startswith("0000 0001 ")
    assert kept.text().endswith("0999 ")
    assert len(kept.text()) < 80


# -- the command -------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words: str) -> Result:
    return CliRunner().invoke(new, list(words), standalone_mode=False)


@pytest.mark.system
def test_the_exit_status_is_the_commands_and_the_case_is_in_this_folder(folder: Path) -> None:
    (folder / "go.sh").write_text("echo broken >&2\nexit 3\n")
    first = run("--", "sh", "go.sh", "-o", "not-ours")
    assert first.return_value == 3
    assert sorted(path.name for path in folder.glob("*.yaml")) == ["go-exit-3.yaml"]
    case = load_text("x.yaml", (folder / "go-exit-3.yaml").read_text()).case
    assert case.command == "sh go.sh -o not-ours"
    assert case.files == {"go.sh": "echo broken >&2\nexit 3\n"}
    assert (case.expect.failure.exit_code, case.expect.failure.output) == (3, "broken")
    assert "next: reprokit run go-exit-3.yaml" in first.stderr
    assert run("--", "sh", "go.sh").return_value == 3
    assert (folder / "go-exit-3-2.yaml").exists()


def test_a_command_that_succeeds_or_does_not_exist_leaves_no_case(folder: Path) -> None:
    assert run("--", "true").return_value == 0
    nothing = run("--", "no-such-program-here", "x")
    assert nothing.return_value == 127
    assert "no such command" in nothing.stderr
    (folder / "plain.txt").write_text("")
    assert run("--", "./plain.txt").return_value == 126
    assert not list(folder.glob("*.yaml"))


def test_an_unknown_option_is_refused_only_before_the_command(folder: Path) -> None:
    assert "--nope" in str(run("--nope", "true").exception)
    assert run("--", "true", "--nope").return_value == 0
    assert "reprokit new -- false x" in str(run("false", "x").exception)


@pytest.mark.system
def test_a_line_is_run_by_a_shell_where_it_needs_one(folder: Path) -> None:
    assert run("--run", "false | true && exit 5", "-o", "a.yaml").return_value == 5
    assert "&& exit 5" in load_text("a.yaml", (folder / "a.yaml").read_text()).case.command
    assert run("--run", "ls 'no such'", "-o", "b.yaml").return_value == 2
    assert load_text("b.yaml", (folder / "b.yaml").read_text()).case.command == "ls 'no such'"
    assert run("--run", "'a").exception


@pytest.mark.system
def test_an_existing_file_is_not_overwritten_and_nothing_is_run(folder: Path) -> None:
    (folder / "x.yaml").write_text("mine")
    refused = run("-o", "x.yaml", "--", "sh", "-c", "touch ran; exit 1")
    assert "x.yaml exists already" in str(refused.exception)
    assert not (folder / "ran").exists()
    assert run("-o", "x.yaml", "--force", "--", "sh", "-c", "exit 1").return_value == 1
    assert (folder / "x.yaml").read_text() != "mine"


@pytest.mark.system
def test_a_case_that_cannot_be_written_is_not_lost(folder: Path) -> None:
    (folder / "plain").write_text("")
    done = run("-o", "plain/x.yaml", "--", "sh", "-c", "exit 4")
    assert done.return_value == 4
    assert "schema: reprokit/v1" in done.stderr
    assert "plain/x.yaml cannot be written" in done.stderr


@pytest.mark.system
def test_a_printed_secret_is_in_no_case(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "correct-horse-77")
    (folder / "go.sh").write_text('echo "key is $SOME_API_KEY"\nexit 1\n')
    done = run("--", "sh", "go.sh")
    text = next(folder.glob("*.yaml")).read_text()
    assert "correct-horse-77" not in text + done.stderr
    assert "the environment variable SOME_API_KEY" in text


def test_a_real_checkout(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        named = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *words]
        return subprocess.run(named, capture_output=True, text=True, check=True).stdout.strip()

    git("init", "-q", "-b", "main")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.txt").write_text("one\n")
    assert files.find_checkout(tmp_path / "sub") == files.Checkout(
        root=tmp_path, why_not="the checkout has no commit yet"
    )
    git("add", ".")
    git("commit", "-qm", "x")
    found = files.find_checkout(tmp_path / "sub")
    assert found is not None
    assert "no remote" in found.why_not
    git("remote", "add", "origin", "git@github.com:example/proj.git")
    found = files.find_checkout(tmp_path / "sub")
    assert found is not None
    assert "is on no branch of origin" in found.why_not
    git("update-ref", "refs/remotes/origin/main", "HEAD")
    (tmp_path / "sub" / "a.txt").write_text("two\n")
    found = files.find_checkout(tmp_path / "sub")
    assert found is not None
    assert (found.why_not, found.url, found.name) == ("", "https://github.com/example/proj", "proj")
    assert (found.commit, found.folder, found.tracked) == (git("rev-parse", "HEAD"), "sub", {"a.txt"})
    assert "+two" in found.patch
    assert files.find_checkout(Path("/")) is None


def test_what_a_case_cannot_hold_is_reported(folder: Path) -> None:
    (folder / "in").mkdir()
    (folder / "conf.txt").write_text("x")
    found = drafted(replace(SEEN, stdin=True, outside=("../conf.txt",)))
    assert [text.split(",")[0] for text in found.missing] == [
        "what the command read from standard input",
        "the file ../conf.txt",
    ]
    found = drafted(replace(SEEN, interpreter=replace(PYTHON, version="2.3.1")))
    assert any("an image for it" in text for text in found.missing)


@pytest.mark.system
def test_code_on_the_command_line_counts(folder: Path) -> None:
    run("--", sys.executable, "-c", "import yaml; raise SystemExit('no')")
    case = load_text("x.yaml", next(folder.glob("*.yaml")).read_text()).case
    assert case.environment.pip[0].startswith("PyYAML==")
    assert case.command == """python -c 'import yaml; raise SystemExit('"'"'no'"'"')'"""


def test_the_release_of_the_host_or_that_there_is_no_image_of_it() -> None:
    found = drafted(replace(SEEN, measured=Measured(os="rocky-8.9")))
    assert found.data["matrix"]["os"] == ["rocky-8"]
    unknown = drafted(replace(SEEN, measured=Measured(os="arch")))
    assert "an image of arch, of which none is known: name one in environment.image" in unknown.missing
