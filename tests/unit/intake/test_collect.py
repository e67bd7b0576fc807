"""``reprokit collect``: what it prints, what it keeps to itself, and that intake reads all of it."""

from __future__ import annotations

import ast
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import types
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reprokit.cli import invoke
from reprokit.core.redaction import scrub
from reprokit.environment.cases import load_text
from reprokit.intake import collect
from reprokit.intake import draft as drafts
from reprokit.intake.captured_python import COLLECT, can_collect, interpreter_for
from reprokit.intake.drafting import draft
from reprokit.intake.environment_model import EnvironmentBlock, merge
from reprokit.intake.environments import find_blocks

SOURCE = COLLECT.read_text(encoding="utf-8")
NEWER = frozenset({"removeprefix", "removesuffix", "capture_output", "fromisoformat", "cached_property", "metadata"})
"""Names of the standard library that Python 3.6 does not have."""


def run(
    *arguments: str, python: str = sys.executable, environ: Mapping[str, str] = os.environ, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """The program as a reporter pipes it."""
    return subprocess.run(
        [python, "-", *arguments], input=SOURCE, capture_output=True, encoding="utf-8", env=dict(environ), cwd=cwd,
        timeout=120, check=False,
    )  # fmt: skip


def facts_of(text: str) -> dict[str, str]:
    """The facts of an output, read without intake."""
    block = text.split("```text\nreprokit collect 1\n")[1].split("\n```")[0]
    pairs = [line.partition(": ") for line in block.split("\n")]
    return {key: value for key, _, value in pairs}


def packages_of(text: str) -> list[tuple[str, str]]:
    return re.findall(r"(?m)^([A-Za-z0-9][\w.-]*)==([\w.!+-]+)", text)


def read(text: str) -> EnvironmentBlock:
    return merge([one for one in find_blocks(text) if one.kind == "collect"])


def test_it_is_python_3_6() -> None:
    tree = ast.parse(SOURCE, feature_version=(3, 6))
    names = {one.attr for one in ast.walk(tree) if isinstance(one, ast.Attribute)}
    names |= {one.arg for one in ast.walk(tree) if isinstance(one, ast.keyword) and one.arg}
    assert not names & NEWER
    assert not [one for one in ast.walk(tree) if isinstance(one, (ast.JoinedStr, ast.AnnAssign))]
    imported = {one.names[0].name for one in ast.walk(tree) if isinstance(one, ast.Import)}
    assert imported <= set(sys.stdlib_module_names)
    assert not [one for one in ast.walk(tree) if isinstance(one, ast.ImportFrom)]


def interpreters() -> list[str]:
    """This Python, and every other one of this machine that starts."""
    found = {str(Path(sys.executable)): None}
    for minor in range(6, 15):
        path = shutil.which(f"python3.{minor}")
        if path and subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0:
            found[path] = None
    pyenv = Path.home() / ".pyenv" / "versions"
    return [*found, *map(str, sorted(pyenv.glob("3.*/bin/python")))]


@pytest.mark.nightly
def test_it_runs_piped_into_every_python_of_this_machine(tmp_path: Path) -> None:
    (tmp_path / "re.py").write_text("raise SystemExit('the program imported a file of the reporter')\n")
    for python in interpreters():
        done = run("--", python, "-c", "raise ValueError('bad shape here')", python=python, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        release = subprocess.run([python, "-c", "import sys; print(sys.version.split()[0])"], capture_output=True)
        assert facts_of(done.stdout)["Python"].split()[0] == release.stdout.decode().strip()
        assert "ValueError: bad shape here\n```\n\nThe command ended with exit status: 1.\n" in done.stdout


@pytest.mark.system
def test_every_fact_of_this_machine_reaches_the_draft(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").write_text("import yaml, click\nraise RuntimeError('singular matrix in step 7')\n")
    environ = {**os.environ, "OMP_NUM_THREADS": "4", "CUDA_VISIBLE_DEVICES": "0", "LD_LIBRARY_PATH": "/opt/x/lib"}
    for arguments in (["--for", "train.py"], []):
        done = run(*arguments, "--", sys.executable, "train.py", environ=environ, cwd=tmp_path)
        facts, packages = facts_of(done.stdout), packages_of(done.stdout)
        assert {"OS", "Kernel", "Python", "CPU", "Memory", "env LD_LIBRARY_PATH"} <= set(facts)
        assert {"pyyaml", "click"} <= {name.lower() for name, _ in packages}
        monkeypatch.setattr("sys.stdin", io.StringIO(done.stdout))
        assert invoke(["new", "--from", "-"]) == 0
        text = capsys.readouterr().out
        case = load_text("x.yaml", text).case
        [found] = case.report.environments
        assert {key: found.get(key) for key in facts} == facts
        listed = found["packages"].split(", ")
        assert [f"{name}=={version}" for name, version in packages] == [one.partition(" (")[0] for one in listed]
        assert found["The command"] == "ended with exit status: 1"
        assert case.env["OMP_NUM_THREADS"] == "4"
        assert "CUDA_VISIBLE_DEVICES" not in case.env
        assert case.expect.failure.exception == "RuntimeError"
        assert case.expect.failure.message == "singular matrix in step"
        assert case.command == "python train.py"


WORDS = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs", "Zl", "Zp", "Zs")), min_size=1, max_size=30
)
VALUES = st.lists(WORDS, min_size=1, max_size=5).map(" ".join)
KEYS = st.sampled_from(
    ["OS", "Kernel", "libc", "Python", "GCC", "NVCC", "CUDA toolkit", "cuDNN", "Driver", "GPU 0", "GPU 13", "CPU",
     "PyTorch build", "env OMP_NUM_THREADS", "env LD_LIBRARY_PATH", "not found", "Memory"]
)  # fmt: skip
NAMES = st.from_regex(r"(?a)[A-Za-z0-9](?:[\w.-]{0,20}[A-Za-z0-9])?", fullmatch=True)
VERSIONS = st.from_regex(r"(?a)\d[\w.!+-]{0,12}", fullmatch=True)


@settings(deadline=None)
@given(st.dictionaries(KEYS, VALUES, min_size=1), st.dictionaries(NAMES, VERSIONS), st.sampled_from(["", "> ", "  "]))
def test_intake_reads_every_fact_and_package(facts: dict[str, str], packages: dict[str, str], margin: str) -> None:
    lines = [
        *collect.fence([collect.FORMAT, *(f"{key}: {value}" for key, value in facts.items())], "text"),
        *collect.folded(
            "Packages", [f"{collect.FORMAT}: packages of Python 3.6.15", *map("==".join, packages.items())]
        ),
    ]
    found = find_blocks("\n".join(f"{margin}{line}" for line in lines))
    assert {one.kind for one in found} == {"collect"}
    values = {key: value for one in found for key, value in one.values.items()}
    listed = values.pop("packages", "")
    assert values == facts
    assert listed == ", ".join(map("==".join, packages.items()))


A_MACHINE = """\
### Environment

```text
reprokit collect 1
OS: Ubuntu 22.04.4 LTS
Kernel: Linux 5.15.0-105-generic
libc: glibc 2.35
Python: 3.10.12
Python build: CPython, 64 bit, GCC 11.4.0
GCC: gcc (Ubuntu 9.5.0-1ubuntu1~22.04) 9.5.0
NVCC: Cuda compilation tools, release 11.8, V11.8.89
CUDA runtime: 12.1.105
cuDNN: 8.9.7
Driver: 535.104.05
Driver supports CUDA: 12.2
GPU 0: NVIDIA A100-SXM4-80GB (81920 MiB), sm_80
GPU 1: NVIDIA A100-SXM4-80GB (81920 MiB), sm_80
PyTorch build: 2.1.2+cu121, CUDA 12.1
env CUDA_LAUNCH_BLOCKING: 1
env CUDA_HOME: /usr/local/cuda-11.8
env PYTHONHASHSEED: 0
not found: Clang, NCCL
```

```text
reprokit collect 1: packages of Python 3.10.12 that the program imports
numpy==1.26.4
torch==2.1.2+cu121
tool==1.0  # from git+https://github.com/o/tool@0123456789abcdef0123456789abcdef01234567
```

### What fails

```console
$ python3 train.py
Traceback (most recent call last):
  File "train.py", line 3, in <module>
    main()
RuntimeError: CUDA error: an illegal memory access was encountered
```

The command ended with exit status: 1.
"""


def test_the_facts_have_their_meaning() -> None:
    found = read(A_MACHINE)
    # Python's own compiler is not the compiler, and what the driver supports is not what is installed.
    assert found.axes == {
        "os": "ubuntu-22.04",
        "python": "3.10.12",
        "gcc": "9.5.0",
        "cuda": "11.8.89",
        "cudnn": "8.9.7",
    }
    assert found.gpus == ("NVIDIA A100-SXM4-80GB (81920 MiB)",) * 2
    assert (found.driver, found.driver_cuda) == ("535.104.05", "12.2")
    assert found.env == {"CUDA_LAUNCH_BLOCKING": "1", "PYTHONHASHSEED": "0"}
    assert found.packages == {"numpy": "1.26.4", "torch": "2.1.2+cu121", "tool": "1.0"}
    assert "git+https://github.com/o/tool@0123456789abcdef0123456789abcdef01234567" in found.values["packages"]


def test_what_only_the_machine_has_is_kept_and_not_asked_for() -> None:
    text = A_MACHINE.replace("torch==2.1.2+cu121\n", "transformers==4.40.0\n").replace(
        "CUDA error: an illegal memory access was", "a NaN was"
    )
    assert draft(text).data["matrix"]["cuda"] == ["11.8"]  # transformers computes on it
    text = text.replace("transformers==4.40.0\n", "")
    made, whole = draft(text), draft(A_MACHINE)
    assert made.data["matrix"] == {"os": ["ubuntu-22.04"], "python": ["3.10"], "gcc": ["9.5"]}
    assert "resources" not in made.data
    assert any("cuda 11.8.89, cudnn 8.9.7, NVIDIA A100" in note for note in made.notes[("matrix",)])
    [kept], [all_of_it] = (one.data["report"]["environments"] for one in (made, whole))
    assert {**kept, "packages": ""} == {**all_of_it, "packages": ""}
    assert whole.data["matrix"]["cuda"] == ["11.8"]


@pytest.mark.parametrize(
    ("ended", "signature"),
    [
        ("ended with exit status: 3", {"exit_code": "3"}),
        ("ended with exit status: 139 (SIGSEGV)", {"signal": "SIGSEGV"}),
        ("hangs: it was stopped after 60 s", {"timed_out": "true"}),
    ],
)
def test_how_the_command_ended_is_the_failure_where_it_printed_none(ended: str, signature: dict[str, str]) -> None:
    text = re.sub(r"(?s)Traceback.*?(?=```)", "", A_MACHINE).replace("ended with exit status: 1", ended)
    assert f"The command {ended}." in text
    assert draft(text).data["expect"]["failure"] == signature


@pytest.mark.parametrize(
    "pasted",
    [
        "> " + A_MACHINE.replace("\n", "\n> "),
        f"```\n{A_MACHINE}```\n",
        A_MACHINE.replace("\n", "\r\n"),
        re.sub(r"(?m)^```.*\n", "", A_MACHINE),
        f"### Environment and failing command\n\n{A_MACHINE}\n### The program\n\n_No response_\n",
    ],
    ids=["quoted", "fenced", "windows", "rendered", "form"],
)
def test_however_it_is_pasted(pasted: str) -> None:
    expected, found = read(A_MACHINE), read(pasted)
    assert (found.values, found.packages, found.gpus) == (expected.values, expected.packages, expected.gpus)
    made = draft(pasted)
    assert made.data["matrix"] == draft(A_MACHINE).data["matrix"]
    assert made.data["command"] == "python3 train.py"


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that stand in for those of the machine."""
    monkeypatch.setattr(collect, "PROGRAM_SECONDS", 120.0)
    monkeypatch.setattr(collect, "ALL_SECONDS", 600.0)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return tmp_path


def program(folder: Path, name: str, text: str) -> None:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def collected(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    stdout = types.SimpleNamespace(buffer=io.BytesIO(), isatty=lambda: False, flush=lambda: None)
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", stdout)
        patch.setattr(collect, "STARTED", collect.time.time())
        assert collect.main(list(arguments)) == 0
    return stdout.buffer.getvalue().decode()


def test_programs_that_hang_fail_or_print_nonsense_end_nothing(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(collect, "PROGRAM_SECONDS", 1.0)
    program(elsewhere, "nvidia-smi", "trap '' TERM; sleep 300 & wait; wait")
    program(elsewhere, "gcc", "head -c 100000 /dev/urandom; exit 3")
    program(elsewhere, "nvcc", "yes")
    (elsewhere / "cmake").write_text("not a program")
    (elsewhere / "cmake").chmod(0o755)
    facts = facts_of(collected(monkeypatch))
    assert "Python" in facts
    assert "Memory" in facts
    assert {"NVCC", "Driver", "CMake"} <= set(facts["not found"].split(", "))


def test_what_raises_is_named_and_the_rest_is_printed(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> str:
        raise OSError("broken")

    monkeypatch.setattr(collect.platform, "python_version", broken)
    monkeypatch.setattr(collect, "packages", broken)
    text = collected(monkeypatch)
    assert "not read: python (OSError)" in text
    assert facts_of(text)["Kernel"]
    assert text.endswith("\nnot read: OSError\n")


@pytest.mark.parametrize(("kind", "shown"), [("Darwin", "macOS"), ("Windows", "Windows"), ("FreeBSD", "FreeBSD")])
def test_other_systems(kind: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collect.platform, "system", lambda: kind)
    monkeypatch.setattr(collect, "text_of", lambda path, most=0: "")
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.delattr(os, "statvfs")
    text = collected(monkeypatch)
    assert facts_of(text)["OS"].startswith(shown)
    assert "not read" not in text
    assert read(text).system == {"Darwin": "macos", "Windows": "windows"}.get(kind, "")


def test_the_files_of_a_toolkit_and_of_conda(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "version.json": '{"cuda": {"name": "CUDA SDK", "version": "11.8.20220929"}}',
        "include/cudnn_version.h": "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL 7\n",
        "lib64/libcudart.so.11.8.89": "",
        "lib64/libnccl.so.2": "",
        "lib64/libnccl.so.2.18.3": "",
        "conda-meta/cudatoolkit-11.8.0-h37601d7_11.json": "{}",
        "conda-meta/numpy-base-1.26.4-py310_0.json": "{}",
        "conda-meta/history": "",
        "site/torch/version.py": "__version__ = '2.1.2+cu121'\ndebug = False\ncuda: Optional[str] = '12.1'\n",
        "site/paddle/version/__init__.py": "full_version = '2.6.2'\ncuda_version = 'False'\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr(collect, "PATH", [str(tmp_path / "site")])
    monkeypatch.setattr(collect, "output", lambda *words: "")
    text = collected(monkeypatch)
    facts, found = facts_of(text), read(text)
    assert facts["Environment"] == "conda"
    assert facts["PyTorch build"] == "2.1.2+cu121, CUDA 12.1"
    assert facts["PaddlePaddle build"] == "2.6.2, no CUDA"
    assert (facts["CUDA toolkit"], facts["CUDA runtime"]) == ("11.8.20220929", "11.8.89")
    assert (facts["cuDNN"], facts["NCCL"]) == ("8.9.7", "2.18.3")
    assert (found.axes["cuda"], found.axes["cudnn"]) == ("11.8.20220929", "8.9.7")
    assert re.search(r"cudatoolkit\W+11.8.0.*numpy-base\W+1.26.4", found.values["conda packages"])


def test_a_gpu_machine(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(
        elsewhere,
        "nvidia-smi",
        """case "$*" in
*compute_cap*) echo 'Field "compute_cap" is not a valid field to query.'; exit 2;;
*query*) echo '0, Tesla V100-SXM2-32GB, 32768 MiB'; echo '1, Tesla V100-SXM2-32GB, 32768 MiB';;
*) echo '| NVIDIA-SMI 525.60.13    Driver Version: 525.60.13    CUDA Version: 12.0     |';;
esac""",
    )
    program(elsewhere, "nvcc", "echo 'Cuda compilation tools, release 11.8, V11.8.89'")
    found = read(collected(monkeypatch))
    assert found.gpus == ("Tesla V100-SXM2-32GB (32768 MiB)",) * 2
    assert (found.driver, found.driver_cuda, found.axes["cuda"]) == ("525.60.13", "12.0", "11.8.89")


PRIVATE = (
    "hf_" + "a1B2" * 9,
    "ghp_" + "A1b2C3d4" * 5,
    "sk-proj-" + "Zx9_" * 8,
    "nvapi-" + "q7W8e9R0" * 5,
    "AKIA" + "ABCD2345" * 2,
    "zhang.wei42",
    "trainbox-7.acme.corp",
    "trainbox-7",
    "hunter2hunter2",
    "Corr3ct-Horse",
    "10.23.4.5",
    "52:54:00:ab:cd:ef",
    "someone@acme.example",
    "GPU-8f3e2b1c-1111-2222-3333-444455556666",
)


@pytest.mark.system
def test_nothing_private_is_printed(tmp_path: Path) -> None:
    hf, github, openai, nvidia, aws, user, host, _, password, other, address, mac, mail, gpu = PRIVATE
    home = tmp_path / "home" / user
    home.mkdir(parents=True)
    (home / "x.py").write_text(
        f"import os\nprint('login {user}@{host}:~$ at {address} {mac} {mail} {gpu}')\nprint('token', {github!r})\n"
        f"print('--api-key={openai} password: {other} key {nvidia}', os.environ['DB_PASSWORD'])\n"
        f"print('https://{user}:{password}@pypi.acme.corp/simple {aws}')\n"
        f"print('the file', os.path.abspath('data/x'))\nopen('{home}/data/x')\n"
    )
    environ = {
        "PATH": os.environ["PATH"], "HOME": str(home), "USER": user, "LOGNAME": user, "HOSTNAME": host, "HF_TOKEN": hf,
        "DB_PASSWORD": password, "HTTPS_PROXY": f"http://{user}:{password}@proxy.acme.corp:3128",
        "VLLM_API_KEY": openai,
        "LD_LIBRARY_PATH": f"{home}/lib:/data/{user}/lib", "TF_VAR_password": password, "PYTHONPATH": str(home),
        "XLA_FLAGS": f"--dump={home}/x --token={github}",
    }  # fmt: skip
    done = run("--", sys.executable, str(home / "x.py"), "--api-key", other, environ=environ, cwd=tmp_path)
    assert str(tmp_path) not in done.stdout
    assert "the file ./data/x" in done.stdout
    assert "FileNotFoundError" in done.stdout
    assert "env LD_LIBRARY_PATH: ~/lib:/data/<user>/lib" in done.stdout
    assert [one for one in PRIVATE if one in done.stdout] == []
    # Intake looks for private things by rules of its own, and finds nothing to add.
    assert scrub(done.stdout).omitted == ()


@pytest.mark.parametrize(
    "text",
    [
        "gcc (Debian 10.2.1-6) 10.2.1 20210110",
        "Cuda compilation tools, release 10.2, V10.2.89",
        "Linux 5.10.0-28-amd64",
        "NVIDIA A100-SXM4-80GB (81920 MiB), sm_80",
        "nvidia-curand-cu12==10.3.5.147",
        "3.12.1 (main, Dec 7 2023) [GCC 12.2.0]",
        "/usr/local/cuda-11.8/lib64:/opt/conda/lib",
        "CPython, 64 bit, MSC v.1929 64 bit (AMD64)",
        "tokenizers 0.15.0, keyring 24.3.1, token count 512",
        "expandable_segments:True,max_split_size_mb:128",
        "KeyError: 'model.layers.0.weight'",
        "RuntimeError: expected key to have 4 dimensions, token_ids=[1, 2]",
    ],
)
def test_what_is_not_private_stays(text: str) -> None:
    assert collect.ReportScrubber().value(text) == text
    assert scrub(text).omitted == ()


def test_a_package_of_a_private_server_does_not_name_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, direct in (
        ("one", '{"url": "https://git.acme.corp/o/one", "vcs_info": {"vcs": "git", "commit_id": "0123456789"}}'),
        ("two", '{"url": "file:///home/anna/two", "dir_info": {"editable": true}}'),
        ("three", '{"url": "https://github.com/o/three", "vcs_info": {"vcs": "git", "commit_id": "0123456789"}}'),
        ("four", '{"url": "https://user:pw@acme.corp/four.whl", "archive_info": {}}'),
        ("five", "not JSON"),
    ):
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "direct_url.json").write_text(direct)
    monkeypatch.setattr(collect, "PATH", [str(tmp_path)])
    assert list(collect.package_lines(collect.packages())) == [
        "five==1.0",
        "four==1.0  # from a file",
        "one==1.0  # from a repository",
        "three==1.0  # from git+https://github.com/o/three@0123456789",
        "two==1.0  # from editable",
    ]


def test_a_local_build_names_neither_host_nor_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, version in (("one", "1.0+trainbox.7"), ("two", "2.1.2+cu121"), ("x", "1+ghp_" + "A1b2C3d4" * 5)):
        (tmp_path / f"{name}.egg-info").write_text(f"Name: {name}\nVersion: {version}\n")
    monkeypatch.setattr(collect, "PATH", [str(tmp_path)])
    monkeypatch.setenv("HOSTNAME", "trainbox.7")
    assert list(collect.package_lines(collect.packages())) == ["one==1.0", "two==2.1.2+cu121", "x==1"]


@pytest.mark.parametrize(
    "path", [r"C:\Users\Zhang Wei\x", "C:/Users/Zhang Wei/x", r"C:\\Users\\zhang\\x", r"D:\Users\zhang"]
)
def test_a_home_of_windows(path: str) -> None:
    shown = collect.ReportScrubber().text(f"open {path} failed")
    assert "hang" not in shown
    assert "Wei" not in shown
    assert shown.endswith(" failed")


def test_the_imports_of_a_program(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(
        "import os, numpy.linalg\nfrom . import x\nfrom helper import y\nimport pkg.sub\n"
    )
    (tmp_path / "helper.py").write_text("from torch.nn import Module\nimport helper, main\n")
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/sub.py").write_text("match x:\n    case 1:\n        import scipy\n  bad\nimport pandas\n")
    assert collect.imports(str(tmp_path / "main.py")) == {"os", "numpy", "torch", "scipy", "pandas"}


@pytest.mark.system
def test_a_command_that_runs_in_another_python(tmp_path: Path) -> None:
    other = tmp_path / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "venv")], check=True)
    (tmp_path / "x.py").write_text("import sys\nprint(sys.prefix)\nraise ValueError('bad shape here')\n")
    release = ".".join(map(str, sys.version_info[:3]))
    piped = run("--", str(other), "x.py", cwd=tmp_path).stdout
    assert facts_of(piped)["Python of the command"] == release
    assert "The packages are not listed" in piped
    assert read(piped.replace(f"\nPython: {release}", "\nPython: 3.6.1")).axes["python"] == release
    assert "\n$ python x.py\n./venv\n" in piped


@pytest.mark.system
def test_the_source_of_the_program_becomes_a_file_of_the_case(tmp_path: Path) -> None:
    source = "import os\n\n\ndef fit():\n    r = '```fence```'\n    raise ValueError('bad shape here')\n\n\nfit()\n"
    (tmp_path / "fit.py").write_text(source)
    done = run("--with-source", "--", sys.executable, "fit.py", cwd=tmp_path)
    case = load_text("x.yaml", drafts.render(draft(done.stdout))).case
    assert case.files == {"fit.py": source}
    assert case.expect.failure.frames == ("fit.py:fit",)
    (tmp_path / "fit.py").write_text("#" * 30_000)
    assert "is not shown: it is too long." in run("--with-source", "--for", "fit.py", cwd=tmp_path).stdout
    assert "is not shown: there is none." in run("--with-source", cwd=tmp_path).stdout


@pytest.mark.system
def test_the_end_of_a_command(tmp_path: Path) -> None:
    def ends(*words: str, limit: str = "0") -> str:
        return run("--timeout", limit, "--", *words, cwd=tmp_path).stdout.rpartition("\nThe command ")[2].strip()

    assert ends("true") == "succeeded."
    assert ends("sh", "-c", "kill -SEGV $$") == "ended with exit status: 139 (SIGSEGV)."
    assert ends("gone-for-good").startswith("ended with exit status: 127")
    assert ends("exit 7; true #") == "ended with exit status: 7."
    # What it left behind holds the pipe, and is not waited for.
    assert ends("sh", "-c", "sleep 300 & sleep 300", limit="1") == "hangs: it was stopped after 1 s."
    many = ends(sys.executable, "-c", "for n in range(1000): print(n)")
    assert many == "succeeded. The lines before these are left out."
    assert ends(sys.executable, "-c", "print('x' * 1000000)") == "succeeded."


SLOW_THREADS = f"""import runpy, threading, time
start = threading.Thread.start
threading.Thread.start = lambda self: (start(self), time.sleep(1))
runpy.run_path({str(COLLECT)!r}, run_name="__main__")"""


@pytest.mark.system
@pytest.mark.parametrize("words", [["-m", "reprokit", "collect"], ["-c", SLOW_THREADS]], ids=["command", "slow"])
def test_ctrl_c_ends_a_command_that_hangs_and_not_its_report(words: list[str], elsewhere: Path) -> None:
    program(elsewhere, "gcc", "sleep 1")  # longer than Python waits at Ctrl-C before it kills what it runs
    hanging = "import time\ntry: print('started', flush=True); time.sleep(600)\n"
    hanging += "finally: time.sleep(1); print('was here')"
    with subprocess.Popen(
        [sys.executable, *words, "--", sys.executable, "-c", hanging],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert any("started" in line for line in process.stderr)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does
        shown = process.communicate(timeout=240)[0]
    assert shown.endswith("\nThe command was interrupted.\n")
    assert "\nwas here\n" in shown
    assert process.returncode == 0


@pytest.mark.system
def test_colours_hide_nothing_private(tmp_path: Path) -> None:
    coloured = (
        "\x1b[01;32mzhang42@trainbox-7\x1b[00m:\x1b[34m/home/zhang42\x1b[0m \x1b[31mghp_" + "A1b2C3d4" * 5 + "\x1b[0m "
        "\x1b]0;zhang42@trainbox-7\x07\x1b]8;;file://trainbox-7/x\x1b\\link\x1b]8;;\x1b\\ train\x1b[1mbox-7"
    )
    environ = {
        "PATH": os.environ["PATH"],
        "HOME": "/home/zhang42",
        "USER": "zhang42",
        "HOSTNAME": "trainbox-7",
        "TEXT": coloured,
    }
    shown = run("--", "sh", "-c", 'echo "$TEXT"; false', environ=environ, cwd=tmp_path).stdout
    assert "\n<user>@<host>:~ <secret> link <host>\n" in shown


@pytest.mark.system
@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["bash", "-c", "set -e\nif true; then\n  exit 4\nfi"], "bash -c 'set -e\nif true; then\n  exit 4\nfi'"),
        (["cd .\nexit 4"], "sh -c 'cd .\nexit 4'"),
        (["sh", "-c", "cat <<X >/dev/null\n> a\nX\nexit 4"], "sh -c 'cat <<X >/dev/null\n> a\nX\nexit 4'"),
        (["sh", "-c", "exit 4; " + "#" * 3000], "sh -c 'exit 4; " + "#" * 3000 + "'"),
    ],
    ids=["lines", "shell", "here-document", "long"],
)
def test_a_command_of_several_lines_is_kept(words: list[str], command: str, tmp_path: Path) -> None:
    shown = run("--", *words, cwd=tmp_path).stdout
    assert "exit status: 4." in shown
    assert str(draft(shown).data["command"]).rstrip("\n") == command


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    assert invoke(["collect", "--program"]) == 0
    assert capfd.readouterr().out == SOURCE
    for words, message in (
        (["--for", "gone.py"], "does not exist"),
        (["--python", "gone"], "--python gone: no such program"),
        (["--python", "sh"], "--python sh: it is not a Python 3.6 or later"),
        (["--timeout", "soon"], "soon: expected a duration"),
    ):
        assert invoke(["collect", *words]) == 2
        assert message in capfd.readouterr().err
    assert interpreter_for([sys.executable, "x.py"]) == sys.executable


def test_an_interpreter_that_is_too_old_is_passed_over(elsewhere: Path) -> None:
    program(elsewhere, "python2", "echo Python 2.7.18 >&2")
    program(elsewhere, "python3.5", "echo Python 3.5.2")
    assert not can_collect(str(elsewhere / "python2"))
    assert interpreter_for(["python3.5", "x.py"]) != str(elsewhere / "python3.5")
    assert can_collect(interpreter_for(["python3.5", "x.py"]))


@pytest.mark.system
def test_the_command_collects_from_the_python_of_the_command(capfd: pytest.CaptureFixture[str]) -> None:
    assert invoke(["collect", "--", sys.executable, "-c", "raise KeyError('x')"]) == 0
    shown = capfd.readouterr()
    assert facts_of(shown.out)["Python"] == ".".join(map(str, sys.version_info[:3]))
    assert f"the packages are those of {sys.executable}" in shown.err
    assert "KeyError" in shown.err
