"""The embedded engine without building anything: what a host can serve, the script, variables, what is kept."""

from __future__ import annotations

import json
import shlex
import subprocess
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.cellspec import CellSpec, DatasetSpec, EnvironmentSpec, FileSpec, Limits, PipStepSpec
from reprokit.case.trust import Trust
from reprokit.core.errors import Unsupported
from reprokit.engine.protocol import Build, Mount, Trial
from reprokit.engine.site import Site
from reprokit.engine.stream import Joined
from reprokit.engine.venv import environments, host
from reprokit.engine.venv.engine import VenvEngine
from reprokit.engine.venv.trials import PathRenamer, gpu_variables, shell_line
from reprokit.environment import dockerfile
from reprokit.environment.host import Host
from reprokit.environment.model import Interpreter
from reprokit.environment.on_host import resolve_on
from tests.conftest import as_files

HOST = Host(
    os="debian-12",
    glibc="2.36",
    pythons=(
        Interpreter(version="3.11.2", path="/usr/bin/python3.11", prefix="/usr", build="3.11.2 (main)"),
        Interpreter(version="3.9.18", path="/home/me/py/3.9/bin/python3.9", prefix="/home/me/py/3.9", build="3.9.18"),
    ),
    gccs={"/usr/bin/gcc": "12.2.0", "/usr/bin/gcc-11": "11.3.0"},
    gcc="12.2.0",
    apt={"libgl1": "1.6.0-1", "bash": "5.2"},
    cpus=4,
)
TOOLKIT = replace(HOST, cuda="11.8", apt={"nvidia-cuda-toolkit": "11.8.89"})


def spec(cell: dict[str, str] | None = None, **changes: Any) -> CellSpec:
    asked = {key: changes.pop(key) for key in ("apt", "pip", "setup", "image") if key in changes}
    limits = {
        key: changes.pop(key)
        for key in ("memory", "cpus", "pids", "shm_size", "user", "network", "ulimits", "ipc")
        if key in changes
    }
    values: dict[str, Any] = {"sources": {}, "datasets": {}, "env": {}, "command": ("true",)}
    return CellSpec(
        cell=cell or {},
        environment=EnvironmentSpec(**asked),
        limits=Limits(**limits),
        **{**values, "workdir": "/workspace", **changes, "files": as_files(changes.get("files", {}))},
    )


@pytest.mark.parametrize(
    ("host", "asked", "reason"),
    [
        (HOST, spec({"os": "ubuntu-18.04"}), "os ubuntu-18.04: this host is debian-12"),
        (HOST, spec({"os": "debian-1"}), "os debian-1: this host is debian-12"),
        (HOST, spec(image="python:3.8"), "environment.image python:3.8: a virtual environment starts from this host"),
        (HOST, spec({"python": "3.7"}), "python 3.7 is not on this host, which has 3.11.2, 3.9.18"),
        (HOST, spec({"python": "none"}), "python none"),
        (HOST, spec({"gcc": "8.2"}), "gcc 8.2: this host has 11.3.0, 12.2.0"),
        (HOST, spec({"gcc": "none"}), "gcc none: this host has GCC 12.2.0"),
        (replace(HOST, cuda="13.0"), spec({"cuda": "none"}), "cuda none: this host has CUDA 13.0"),
        (HOST, spec({"cuda": "9.0"}), "cuda 9.0: NVIDIA's wheels have"),
        (HOST, spec({"cuda": "12.0"}, command=("nvcc a.cu",)), "cuda 12.0 with nvcc, which the case calls: NVIDIA's"),
        (
            TOOLKIT,
            spec({"cuda": "12.0"}, apt=("nvidia-cuda-toolkit",)),
            "cuda 12.0 from nvidia-cuda-toolkit: this host",
        ),
        (HOST, spec({"cudnn": "8.6"}), "cudnn 8.6 needs CUDA"),
        (HOST, spec(apt=("libgl1", "libfoo", "bash=5.1")), "environment.apt: libfoo, bash are not installed"),
        (replace(HOST, apt=None), spec(apt=("libgl1",)), "this host has no dpkg"),
        (HOST, spec(user="root"), "resources.user root: reprokit itself does not run as root"),
        (HOST, spec(user="1234"), "resources.user 1234"),
        (HOST, spec(workdir="/"), "workdir /"),
        (HOST, spec(cpus=1.0), "resources.cpus: a virtual environment has no limit but time and memory"),
        (HOST, spec(pids=10), "resources.pids: a virtual environment has no limit but time and memory"),
        (HOST, spec(shm_size=1 << 20), "resources.shm_size: a virtual environment shares this host's"),
        (HOST, spec(ulimits=("memlock=-1:-1",)), "resources.ulimits"),
        (HOST, spec(env={"PYTHONPATH": "/workspace/x"}), "env names /workspace"),
        (HOST, spec(command=("cat", "/workspace")), "command names /workspace"),
    ],
)
def test_what_the_host_cannot_be_or_keep_is_refused_with_what_it_has(host: Host, asked: CellSpec, reason: str) -> None:
    with pytest.raises(Unsupported) as refused:
        resolve_on(host, asked)
    assert reason in str(refused.value)


def test_every_reason_is_reported_at_once() -> None:
    with pytest.raises(Unsupported) as refused:
        resolve_on(HOST, spec({"os": "ubuntu-18.04", "python": "3.6", "gcc": "7"}))
    assert [word in str(refused.value) for word in ("os ubuntu-18.04", "python 3.6", "gcc 7")] == [True] * 3


def test_what_the_host_has_serves() -> None:
    found = resolve_on(
        HOST, spec({"os": "debian", "python": "3.9", "gcc": "11", "cuda": "11.8"}, apt=("libgl1:amd64",))
    )
    assert found.host is not None
    assert found.host.python.path == "/home/me/py/3.9/bin/python3.9"
    assert found.host.gcc is not None
    assert (found.host.gcc.path, found.host.gcc.version) == ("/usr/bin/gcc-11", "11.3.0")
    assert found.cuda is not None
    assert found.cuda.source == "wheels"
    assert found.served_by["python"] == "/home/me/py/3.9/bin/python3.9 3.9.18"
    assert found.served_by["gcc"] == "/usr/bin/gcc-11 11.3.0"


def test_the_toolkit_that_a_case_names_serves_before_wheels_without_nvcc() -> None:
    found = resolve_on(TOOLKIT, spec({"cuda": "11.8"}, apt=("nvidia-cuda-toolkit",))).cuda
    compiles = resolve_on(TOOLKIT, spec({"cuda": "11.8"}, command=("nvcc a.cu",))).cuda
    assert found is not None
    assert (found.version, found.source) == ("11.8", "distribution")
    assert compiles == found


def test_an_axis_that_is_left_open_takes_the_distributions_own() -> None:
    found = resolve_on(HOST, spec())
    assert found.host is not None
    assert found.host.python.version == "3.11.2"
    assert (found.host.gcc, found.cuda) == (None, None)


def test_a_longer_word_is_not_the_work_folder() -> None:
    assert resolve_on(HOST, spec(env={"A": "/workspace2", "B": "/workspace-old"})).host


def test_what_a_container_has_otherwise_is_noted() -> None:
    asked = spec(datasets={"d": DatasetSpec(path="data/d")})
    assert [note.partition(",")[0] for note in resolve_on(replace(HOST, root=True), asked).notes] == [
        "the network was not cut off",
        "the program ran as root",
        "data sets could be written to",
    ]
    assert resolve_on(HOST, spec(network="bridge")).notes == ()
    assert resolve_on(replace(HOST, root=True), spec(network="bridge", user="root")).notes == ()


def test_a_network_that_the_case_itself_forbids_is_refused() -> None:
    with pytest.raises(Unsupported, match=r"resources\.network none: a virtual environment shares this host's"):
        resolve_on(HOST, spec(), written={"network"})
    assert resolve_on(HOST, spec(network="bridge"), written={"network"}).host


def test_a_cap_of_the_site_that_cannot_be_held_is_noted_and_refuses_nothing() -> None:
    assert [
        note.partition(":")[0] for note in resolve_on(HOST, spec(network="bridge", cpus=2.0), written=()).notes
    ] == ["max_cpus of this host, 2, was not held"]


@pytest.mark.parametrize("trust", [Trust.REVIEWED, Trust.STRANGER])
@pytest.mark.parametrize("what", ["build", "trial"])
def test_nothing_untrusted_is_run(what: str, trust: Trust, tmp_path: Path) -> None:
    """Where approval was asked for before, this holds none the less."""
    engine, never = VenvEngine(), threading.Event()
    build = Build(tag="reprokit/venv:abc", dockerfile=f"touch {tmp_path}/ran", context={}, trust=trust)
    trial = Trial(image="reprokit/venv:abc", command=("true",), env={}, workdir="/w", limits=Limits(), trust=trust)
    with pytest.raises(Unsupported, match="an untrusted case needs a container engine"):
        engine.build(build, Site(), lambda _: None, never) if what == "build" else engine.run(trial, print, never)
    assert not (tmp_path / "ran").exists()


def test_uv_serves_what_the_host_lacks() -> None:
    found = resolve_on(replace(HOST, uv_pythons=("3.14.1", "3.8.20")), spec({"python": "3.8"}))
    assert found.host is not None
    assert (found.host.python.version, found.host.python.path) == ("3.8.20", "")
    script = dockerfile.render(found, spec(), sources={}, given_datasets=set()).dockerfile
    assert '"$UV" python install 3.8.20' in script
    assert 'python=$("$UV" python find 3.8.20)' in script


def test_every_release_counts_that_uv_could_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    newest = {"implementation": "cpython", "variant": "default", "version": "3.13.18"}
    others: list[dict[str, str]] = [{"version": "3.13.1"}, {"variant": "freethreaded"}, {"version": "3.16.0a2"}]
    every = json.dumps([newest, *({**newest, **other} for other in others)])
    uv = tmp_path / "uv"
    uv.write_text(
        f"#!/bin/sh\ncase \"$*\" in *--all-versions*) echo '{every}';; *) echo '{json.dumps([newest])}';; esac\n"
    )
    uv.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert host.uv_pythons() == ("3.13.18", "3.13.1")
    with pytest.raises(Unsupported, match=r"which has 3\.11\.2, 3\.9\.18; uv could install 3\.13$"):
        resolve_on(replace(HOST, uv_pythons=host.uv_pythons()), spec({"python": "3.13.99"}))


def test_the_script_holds_every_step_in_its_order_and_is_shell() -> None:
    asked = spec(
        {"gcc": "12", "cuda": "12.0", "cudnn": "8.9"},
        pip=("torch==2.5.0+cpu", "numpy<2", "-e ./mine"),
        setup="echo hi",
        files={"a b.py": "x", "tools/run.sh": "#!/bin/sh\n", "odd": FileSpec(text="x", mode=0o600)},
        datasets={"d": DatasetSpec(path="data/d", generate="python make.py")},
    )
    rendered = dockerfile.render(resolve_on(HOST, asked), asked, sources={}, given_datasets=set())
    steps = [shlex.split(line)[1] for line in rendered.dockerfile.splitlines() if line.startswith("step ")]
    assert [step.split("==")[0] for step in steps] == [
        "make the virtual environment of $python",
        "pip install nvidia-cuda-nvcc-cu12",
        "pip install nvidia-cudnn-cu12",
        "use /usr/bin/gcc",
        "pip install torch",
        "pip install torch",
        "pip install -e ./mine",
        "environment.setup",
        "generate",
    ]
    assert subprocess.run(["bash", "-n"], input=rendered.dockerfile, text=True, check=False).returncode == 0
    assert "mkdir -p . ./data ./data/d ./tools" in rendered.dockerfile
    assert rendered.tag("x").startswith("reprokit/venv:")


def test_the_script_installs_each_step_of_pip_with_its_options() -> None:
    asked = spec(
        pip=(PipStepSpec(requirements=("six",)), PipStepSpec(requirements=("./mine",), options=("--no-deps",)))
    )
    script = dockerfile.render(resolve_on(HOST, asked), asked, sources={}, given_datasets=set()).dockerfile
    lines = [line for line in script.splitlines() if line.startswith("pip install")]
    assert lines == ["pip install six", "pip install --no-deps ./mine"], lines


def test_another_build_of_the_interpreter_is_another_environment() -> None:
    def tag(build: str) -> str:
        host = replace(HOST, pythons=(replace(HOST.pythons[0], build=build),))
        return dockerfile.render(resolve_on(host, spec()), spec(), sources={}, given_datasets=set()).tag("base")

    assert tag("3.11.2 (main, May) [GCC 12]") != tag("3.11.2 (main, June) [GCC 12]")


def test_a_program_sees_nothing_of_our_own_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PYTHONPATH", "/mine")
    (tmp_path / "cuda").mkdir()
    found = environments.variables(tmp_path)
    assert set(found) == {"LANG", "VIRTUAL_ENV", "CUDA_HOME", "LD_LIBRARY_PATH", "PATH"}
    assert found["PATH"].split(":")[:3] == [f"{tmp_path}/{name}" for name in ("venv/bin", "cuda/bin", "tools")]


@pytest.mark.parametrize(
    ("word", "seen"),
    [
        (None, "GPU-a,GPU-b"),
        ("1", "GPU-b"),
        ("1,0", "GPU-b,GPU-a"),
        ("", ""),
        ("-1", "-1"),
        ("GPU-b", "GPU-b"),
        ("7", "7"),
    ],
)
def test_a_case_numbers_the_gpus_that_it_was_leased(word: str | None, seen: str) -> None:
    env = {} if word is None else {"CUDA_VISIBLE_DEVICES": word}
    assert gpu_variables(("GPU-a", "GPU-b"), env)["CUDA_VISIBLE_DEVICES"] == seen
    assert gpu_variables((), {"CUDA_VISIBLE_DEVICES": "0"}) == {"CUDA_VISIBLE_DEVICES": ""}, "it was leased none"


def test_a_trial_with_a_gpu_finds_the_driver_where_this_process_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libcuda.so.1").touch()
    monkeypatch.setenv("LD_LIBRARY_PATH", f"/nowhere:{tmp_path}::relative")
    assert gpu_variables((), {}) == {"CUDA_VISIBLE_DEVICES": ""}
    found = gpu_variables(("GPU-a",), {"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"})
    assert found == {"CUDA_VISIBLE_DEVICES": "GPU-a", "LD_LIBRARY_PATH": f"/usr/local/cuda/lib64:{tmp_path}"}
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert gpu_variables(("GPU-a",), {}) == {"CUDA_VISIBLE_DEVICES": "GPU-a"}


def test_the_line_that_repeats_a_trial_is_one_command(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = environments.top() / "environments" / "abc"
    (folder / "workspace").mkdir(parents=True)
    environments.complete(folder, "reprokit/venv:abc")
    trial = Trial(
        image="reprokit/venv:abc",
        command=("bash", "-c", 'echo "it is $WHAT"; ls data; cat go.sh'),
        env={"WHAT": "two words"},
        workdir="/workspace",
        limits=Limits(memory=1 << 30),
        mounts=(Mount(source=tmp_path / "real data", target="/workspace/data"),),
        files=as_files({"go.sh": "echo"}),
    )
    (tmp_path / "real data").mkdir()
    (tmp_path / "real data" / "one.png").touch()
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "go.sh").write_text("echo go\n")
    line = shell_line(trial, tmp_path / "kept")
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=True)
    assert done.stdout == "it is two words\none.png\necho go\n"
    assert line.endswith("# not set here: memory=1073741824")
    assert (tmp_path / "real data" / "one.png").exists()


@pytest.mark.parametrize(
    ("pieces", "passed"),
    [
        (["in /tmp/x/work/a.py\n"], ["in /workspace/a.py\n"]),
        (["in /tm", "p/x/wor", "k\n"], ["in ", "/workspace\n"]),
        (["cd /", "tmp/y\n"], ["cd ", "/tmp/y\n"]),
        (["prompt> ", "/tmp/"], ["prompt> ", "/tmp/"]),
    ],
)
def test_output_names_the_work_folder_as_the_case_does(pieces: list[str], passed: list[str]) -> None:
    found: list[str] = []
    renamed = PathRenamer(lambda data: found.append(data.decode()), b"/tmp/x/work", b"/workspace")
    for piece in pieces:
        renamed.feed(piece.encode())
    renamed.close()
    assert found == passed


def test_an_environment_counts_only_when_it_is_complete(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    never = threading.Event()
    with suppress(RuntimeError), environments.making("reprokit/venv:abc", never) as folder:
        (folder / "half").touch()
        assert environments.find("reprokit/venv:abc") is None
        raise RuntimeError("the build failed")
    assert not folder.exists()
    with environments.making("reprokit/venv:abc", never) as folder:
        made = environments.complete(folder, "reprokit/venv:abc")
    assert environments.get("reprokit/venv:abc").info == made.info == environments.get(made.info.id).info
    environments.remove("reprokit/venv:abc")
    assert environments.find("reprokit/venv:abc") is None


def test_environments_their_interpreters_and_downloads_are_kept_and_discarded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    python = environments.top() / "pythons" / "cpython-3.12" / "bin" / "python3"
    for place in (python, environments.top() / "pip" / "wheel"):
        place.parent.mkdir(parents=True)
        place.write_text("x" * 5000)
    with environments.making("reprokit/venv:abc", threading.Event()) as folder:
        (folder / "venv" / "bin").mkdir(parents=True)
        (folder / "venv" / "bin" / "python").symlink_to(python)
        environments.complete(folder, "reprokit/venv:abc")
    made, interpreter, downloads = environments.list_kept()
    assert (made.kind, made.key, made.needs) == ("environment", "reprokit/venv:abc", {interpreter.key})
    assert (interpreter.kind, interpreter.name) == ("interpreter", str(python.parents[1]))
    assert (downloads.kind, downloads.bytes >= 5000) == ("downloads", True)
    assert environments.discard(made)
    assert environments.discard(interpreter)
    assert [one.kind for one in environments.list_kept()] == ["downloads"]
    assert environments.discard(downloads)
    assert environments.list_kept() == []


def test_what_a_killed_build_left_is_swept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    half = environments.top() / "environments" / "abc"
    half.mkdir(parents=True)
    half.with_suffix(".lock").touch()
    assert environments.sweep() == [f"half-made environment {half}"]
    assert environments.sweep() == []


def test_a_line_of_one_stream_is_never_split_by_the_other() -> None:
    given: list[bytes] = []
    joined = Joined(given.append)
    joined.feed([(1, b"begin of a ")], 0.0)
    joined.feed([(2, b"Traceback\n")], 0.01)
    joined.feed([(1, b"line\n")], 0.02)
    joined.feed([], 5.0)
    joined.close()
    assert b"".join(given) == b"begin of a line\nTraceback\n"
