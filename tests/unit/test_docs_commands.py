"""Each command that a page shows works as it is shown: typed in a folder that has what it names, on a fake engine."""

from __future__ import annotations

import contextlib
import io
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from reprokit.cli import invoke
from reprokit.evidence.model import Ending
from tests.integration.test_guide import block
from tests.unit.fakes import FakeEngine
from tests.unit.run.test_runner import CASE, toy
from tests.unit.test_docs import DOCUMENTS, FENCE, ROOT

OURS = {
    "case.yaml": CASE.replace("id: toy", "id: my-case").replace(
        'a: ["1", "2"], b: [x, y]', 'os: [debian-12], cuda: [none, "11.8"], gcc: ["12", "11"], a: ["1", "2"]'
    ).replace("{{ b }}", "{{ gcc }}").replace("command:", "trials: 3\ncommand:"),
    "train.py": "raise ValueError('no such layer')\n",
    "report.md": block("markdown", "np.bool"),
    "facts.json": '{"facts": [{"fact": "version", "of": "numpy", "value": "1.26.4", "line": 36}]}',
}  # fmt: skip
LIBRARY = ["ptxas_unknown_arch", "cityscapes_rmi", "dataloader_shm", "cpp_noexcept_terminate"]
LIBRARY += ["hang_fork_held_lock", "class_index_from_set", "nan_log0"]
NAMES = {"CASE": "case.yaml", "RUN": "last", "my-case.yaml": "case.yaml", "edited.yaml": "case.yaml"}
"""What pages leave to the reader, and what they call a file of the reader's."""
ELSEWHERE = {
    "reprokit shell": "a terminal: tests/integration/test_shell.py",
    "reprokit isolate": "answers that mean something: tests/integration/test_isolate.py",
    "reprokit bisect": "package indexes and git: tests/integration/test_bisect.py",
    "reprokit reduce": "answers that mean something: tests/integration/test_reduce.py",
    "reprokit audit": "answers that mean something: tests/integration/test_audit.py",
    "reprokit bundle": "an image to save: tests/integration/test_bundle.py",
    "reprokit lock case.yaml": "hashes of real images: tests/integration/test_lock.py",
    "mask.yaml": "edits between them: tests/integration/test_guide.py",
    "reprokit doctor": "asks this host and the network: tests/integration/test_doctor.py",
}
"""Commands that other tests type, as their pages show them or nearly so, and what they need."""
EXCEPT = {
    "--serve": "does not end",
    "--watch": "does not end",
    "--reader": "a language model",
    "http": "another host",
    "URL": "another host",
    "postgresql:": "a server",
    "--on ray": "a Ray cluster",
    "--data-set": "a data set of others",
    "run bugs": "a data set of others",
    "--planned": "a run of a workflow",
    "--forget": "a terminal",
    "--try": "a terminal",
    "/data/": "data of the reader",
    "bug.tar.gz": "a bundle",
    "git diff": "changes of the reader",
    "gh issue": "a program of others",
    "--engine": "that engine",
    "--debug": "a real image",
    "REPROKIT_RUNTIME": "that runtime",
    "--resume": "an interrupted run",
    "--locked": "a lock of a real image",
    "entry.json": "a part of the matrix",
    "integrate completion": "writes to the home folder: tests/unit/cli/test_completion_command.py",
}
"""Words of commands that no test of this file types, and what they need."""

MAY_FAIL = tuple(f"reprokit {words}" for words in ("run", "store", "exec cases/", "lock cases/ --check", "new -- "))
"""How commands begin that say with 1 or 3 what was found: this engine's images lack what cells ask for."""


def shown_commands() -> Iterator[str]:
    """Each command of our program that pages show."""
    for path in DOCUMENTS:
        for _, language, body in FENCE.findall(path.read_text(encoding="utf-8")):
            lines = body.replace("\\\n", " ").splitlines() if language == "console" else []
            for line in (" ".join(one[2:].split()) for one in lines if one.startswith("$ ")):
                if "reprokit" in (words := line.split()) and words[0] != "createdb":
                    yield line


SHOWN = list(dict.fromkeys(shown_commands()))
TYPED = [one for one in SHOWN if not any(word in one for word in (*ELSEWHERE, *EXCEPT)) and one != "reprokit new"]
"""All but what asks at a terminal, and the above."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with what the commands of pages name: cases, a report, a program, and the runs of two cases."""
    folder = tmp_path_factory.mktemp("project")
    engine = FakeEngine(lambda trial, sink: toy(trial, sink) if "A" in trial.env else Ending(exit_code=0, seconds=0.1))
    for name, text in OURS.items():
        (folder / name).write_text(text)
    for name in LIBRARY:
        (folder / "cases").mkdir(exist_ok=True)
        shutil.copy(ROOT / "cases" / f"{name}.yaml", folder / "cases")
    (folder / "bugs").mkdir()
    (folder / "bugs" / "one.yaml").write_text(OURS["case.yaml"].replace("id: my-case", "id: one"))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr("reprokit.run.invocation._engine", lambda name: engine)
        patch.setattr("reprokit.engine.registry.make", lambda name: engine)
        patch.setenv("REPROKIT_BASE_IMAGES", "registry")
        patch.setenv("REPROKIT_CONFIRM", "never")
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))  # gc removes what is kept
        yield folder


def typed(line: str) -> tuple[int, str]:
    """What a command line ends with, and says; ``> FILE`` is kept in that file."""
    command, _, target = line.partition(" > ")
    words = [NAMES.get(word, word) for word in shlex.split(command, comments=True)[1:]]
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = invoke(words)
    if target:
        Path(target).write_text(out.getvalue())
    return status, out.getvalue() + err.getvalue()


def test_each_command_of_the_pages_works_as_shown(project: Path) -> None:
    """0, or what a run says of this engine's images, which lack what cells ask for."""
    typed("reprokit run cases/")
    typed("reprokit run case.yaml")
    shutil.copytree(".reprokit", "artifacts/job")
    wrong = []
    for line in TYPED:
        shutil.rmtree(".reprokit")
        shutil.copytree("artifacts/job", ".reprokit")
        Path("case.yaml").write_text(OURS["case.yaml"])
        if line.startswith("reprokit new"):
            Path("case.yaml").unlink()
        status, said = typed(line)
        if status not in (0, 1, 3) or (status and not line.startswith(MAY_FAIL)):
            wrong.append(f"{line}: {status}: {said[-500:]}")
    assert not wrong, "\n".join(wrong)


def test_what_is_not_typed_is_still_shown() -> None:
    lines = "\n".join(SHOWN)
    assert [word for word in (*ELSEWHERE, *EXCEPT) if word not in lines] == []
    assert len(TYPED) > 60
