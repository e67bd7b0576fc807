"""Dockerfiles and contexts: their text (dockerfiles/ holds what is expected), their identity, what they share."""

from __future__ import annotations

import functools
import itertools
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from reprokit.case.cellspec import CellSpec, DatasetSpec, EnvironmentSpec, FileSpec, Limits, PipStepSpec, SourceSpec
from reprokit.core.errors import CaseError, Unsupported, UsageError
from reprokit.environment import dockerfile
from reprokit.environment.cases import load_text
from reprokit.environment.lock import asked_digest
from reprokit.environment.model import SourceTree
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from reprokit.run.rendering import write_context
from tests.conftest import as_files, site_build
from tests.unit.serving import QuietFiles, serving

HADOLINT = shutil.which("hadolint", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
EXPECTED = Path(__file__).parent / "dockerfiles"
BASE = "sha256:" + "0" * 64


def cell(axes: Mapping[str, str], **parts: Any) -> CellSpec:
    environment = {key: parts.pop(key) for key in ("image", "apt", "pip", "pip_options", "setup") if key in parts}
    defaults: dict[str, Any] = {
        "sources": {},
        "files": {},
        "datasets": {},
        "env": {},
        "workdir": "/workspace",
        "command": ("true",),
        "limits": Limits(),
    }
    if "files" in parts:
        parts["files"] = as_files(parts["files"])
    return CellSpec(cell=axes, environment=EnvironmentSpec(**environment), **{**defaults, **parts})


def rendered(
    spec: CellSpec, source: str = "bootstrap", given: tuple[str, ...] = (), **trees: Path
) -> dockerfile.Rendered:
    sources = {
        name: SourceTree(name=name, commit="", digest="", archive=tree, path=spec.sources[name].path)
        for name, tree in trees.items()
    }
    return dockerfile.render(resolve(spec, Supply(base_source=source)), spec, sources=sources, given_datasets=given)


EVERYTHING: dict[str, Any] = {
    "apt": ("libgl1", "libglib2.0-0"),
    "pip": ("paddlepaddle==2.6.2", "numpy<2", "-r requirements.txt", "-e ./PaddleSeg"),
    "pip_options": ("--no-build-isolation", "--extra-index-url https://index.example/simple"),
    "setup": "python -c 'import numpy'\n",
    "sources": {"PaddleSeg": SourceSpec(git="https://git.example/PaddleSeg", ref="v2.9.0", path="PaddleSeg")},
    "files": {"requirements.txt": "six\n", "tools/run.sh": "#!/bin/bash\nexec python train.py\n"},
    "datasets": {
        "cityscapes": DatasetSpec(path="PaddleSeg/data/cityscapes", generate="python make.py --out data"),
        "mine": DatasetSpec(path="data/mine"),
    },
}


@pytest.mark.parametrize(
    ("name", "axes", "source", "parts"),
    [
        ("plain", {}, "bootstrap", {}),
        ("registry", {"os": "debian-11", "gcc": "10"}, "registry", {}),
        ("toolkit", {"os": "debian-11", "cuda": "11.2"}, "bootstrap", {}),
        ("nvidia-image", {"os": "ubuntu-22.04", "cuda": "11.8", "cudnn": "8.6"}, "registry", {}),
        ("second-python", {"os": "ubuntu-18.04", "python": "3.7", "gcc": "7"}, "bootstrap", {"pip": ("six",)}),
        ("python-2", {"os": "debian-11", "python": "2.7", "gcc": "10"}, "bootstrap", {"pip": ("six",)}),
        ("python-image", {"python": "3.8", "gcc": "11"}, "registry", {"pip": ("six",)}),
        ("uv", {"os": "ubuntu-20.04", "python": "3.11", "cuda": "11.8", "gcc": "8.2"}, "registry", {"pip": ("six",)}),
        ("conda", {"gcc": "10.4"}, "bootstrap", {}),
        (
            "all-of-conda",
            {"os": "ubuntu-16.04", "python": "3.7", "cuda": "10.1", "cudnn": "7.6", "gcc": "12.2"},
            "bootstrap",
            {"pip": ("six",)},
        ),
        ("cudnn-of-conda", {"cuda": "11.8", "cudnn": "8.4"}, "bootstrap", {}),
        ("without-python", {"python": "none", "gcc": "11"}, "bootstrap", {}),
        (
            "own-image",
            {"python": "3.6"},
            "registry",
            {"image": "registry.example/own:1", "apt": ("git",), "pip": ("six",)},
        ),
        (
            "everything",
            {"os": "debian-12", "python": "3.11", "gcc": "12.2", "cuda": "12.0", "cudnn": "8.9"},
            "bootstrap",
            EVERYTHING,
        ),
    ],
)
def test_the_text_is_the_expected_one(
    name: str, axes: dict[str, str], source: str, parts: dict[str, Any], tmp_path: Path
) -> None:
    """UPDATE_SNAPSHOTS=1 writes the files again; read what changed before committing it."""
    trees = dict.fromkeys(parts.get("sources", ()), tmp_path)
    found = rendered(cell(axes, **parts), source, **trees).dockerfile
    path = EXPECTED / f"{name}.Dockerfile"
    if os.environ.get("UPDATE_SNAPSHOTS"):
        path.write_text(found)
    assert found == path.read_text()


@pytest.mark.system
@pytest.mark.skipif(not HADOLINT, reason="hadolint is not installed (the dev extra)")
def test_hadolint_has_nothing_to_say(tmp_path: Path) -> None:
    """Of each Dockerfile that is expected above; and no rule is left out for nothing."""
    texts = [path.read_text() for path in sorted(EXPECTED.iterdir())]

    def said(text: str) -> str:
        (tmp_path / "Dockerfile").write_text(text)
        done = subprocess.run([HADOLINT, "Dockerfile"], cwd=tmp_path, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr

    assert "".join(map(said, texts)) == ""
    rules = set(re.findall(r"DL\d+", texts[0].splitlines()[-1]))
    bare = "".join(said(text.replace("# hadolint global", "#")) for text in texts)
    assert rules == set(re.findall(r"DL\d+", bare))


def test_every_file_that_a_step_mounts_is_in_the_context(tmp_path: Path) -> None:
    found = rendered(cell({"cuda": "11.8", "gcc": "12"}, **EVERYTHING), PaddleSeg=tmp_path)
    mounted = set(re.findall(r"source=([^,]+),", found.dockerfile))
    assert mounted <= set(found.context)
    copied = {
        "sources/PaddleSeg": tmp_path,
        "files/requirements.txt": b"six\n",
        "executables/tools/run.sh": b"#!/bin/bash\nexec python train.py\n",
    }
    assert {name: content for name, content in found.context.items() if not name.startswith("reprokit/")} == copied


def test_no_name_of_a_source_leads_to_another_place_of_the_context(tmp_path: Path) -> None:
    names = ["..", ".", "../Dockerfile", "a/../..", "0", "1", "2", "-", "", "plain-1.0", "n" * 300, "缺陷"]
    names += ["a", "A", "a.", "a ", "\xe9", "e\u0301", "ſ", "s", "aux.", "a.B", "a.b", "a..b"]
    trees = {name: tmp_path / str(number) for number, name in enumerate(names)}
    spec = cell({}, sources={name: SourceSpec(git="g", ref="r", path=f"at{n}") for n, name in enumerate(names)})
    places = [place for place in rendered(spec, **trees).context if place.startswith("sources/")]
    assert len({place.lower() for place in places}) == len(names)
    assert "sources/plain-1.0" in places
    assert all(re.fullmatch(r"sources/([0-9]+|[A-Za-z][A-Za-z0-9._-]{,100})", place) for place in places)


@pytest.mark.parametrize(
    "pair", ["a/x a/X", "x x.", "d/x d./x", "\xe9 e\u0301", "\xc9 e\u0301", "a A/b", "ß SS", "a/b. a/b./c"]
)
def test_what_is_one_path_on_some_file_system_is_refused_as_one(pair: str) -> None:
    one, other = pair.split()
    with pytest.raises(UsageError, match="in the place of"):
        rendered(cell({}, files={one: "x", other: "y"}))
    case = {"schema": "reprokit/v1", "id": "x", "command": "true", "files": {one: "x", other: "y"}}
    with pytest.raises(CaseError, match=r"already the place of files|lies inside"):
        load_text("x.yaml", yaml.safe_dump(case))


def test_files_with_permissions_of_their_own_get_them_and_others_leave_the_image_as_it_was() -> None:
    plain = cell({}, files={"a/b": "x", "c": "#!/bin/sh"})
    given = cell({}, files={"a/b": FileSpec(text="x", mode=0o644), "c": FileSpec(text="#!/bin/sh", mode=0o755)})
    odd = cell({}, files={"a/b": FileSpec(text="x", mode=0o755), "c": FileSpec(text="#!/bin/sh", mode=0o700)})
    made = [rendered(spec) for spec in (plain, given, odd)]
    assert made[0] == made[1]
    assert {name for name in made[2].context if "/c" in name or "/b" in name} == {"executables/a/b", "files/c"}
    assert "RUN chmod 700 /workspace/c" in made[2].dockerfile.splitlines()
    assert "chmod 700" not in made[0].dockerfile
    digests = [asked_digest(spec, reads_files=True) for spec in (plain, given, odd)]
    assert digests[0] == "sha256:4688cfe5bc78768785983446fda055616f950300bdfd249341dbd9e6f1e2bf8b"
    assert len(set(digests)) == 3


def test_an_engine_may_hold_the_images_under_other_names() -> None:
    found = rendered(cell({"os": "ubuntu-20.04", "gcc": "8.2", "python": "3.11", "cuda": "11.8"}), "registry")
    text = found.starting_from({"nvidia/cuda:11.8.0-devel-ubuntu20.04": "own:1", "gcc:8.2.0": "own:2"})
    assert [line for line in text.splitlines() if line.startswith("FROM")] == [
        "FROM own:1 AS uv",
        "FROM own:2 AS gcc",
        "FROM own:1",
    ]
    assert found.starting_from({}) == found.dockerfile


def test_a_dataset_that_is_given_is_not_generated() -> None:
    spec = cell({}, datasets={"d": DatasetSpec(path="data/d", generate="make-it")})
    assert rendered(spec).context["reprokit/generate-0.sh"] == b"make-it"
    without = rendered(spec, given=("d",))
    assert not [name for name in without.context if "generate" in name]
    assert "mkdir -p /workspace /workspace/data /workspace/data/d" in without.dockerfile


@given(st.randoms(use_true_random=False), st.sampled_from(["registry", "bootstrap"]))
def test_the_order_in_which_a_cell_is_written_does_not_matter(shuffler: random.Random, source: str) -> None:
    axes = {"os": "debian-12", "python": "3.11", "gcc": "12", "cuda": "12.0", "cudnn": "8.9", "paddle": "2.6.2"}
    files = {"b.txt": "b", "a.txt": "a", "c/d.sh": "#!/bin/sh"}
    names, paths = list(axes), list(files)
    shuffler.shuffle(names)
    shuffler.shuffle(paths)
    first = rendered(cell(axes, files=files), source)
    second = rendered(cell({name: axes[name] for name in names}, files={path: files[path] for path in paths}), source)
    assert (first.dockerfile, list(first.context.items())) == (second.dockerfile, list(second.context.items()))
    assert first.tag(BASE) == second.tag(BASE)


@pytest.mark.system
def test_the_same_cell_gives_the_same_bytes_in_every_process() -> None:
    script = (
        "from tests.unit.environment.test_dockerfile import *\n"
        "print(rendered(cell({'cuda': '12.0', 'gcc': '12'}, pip=('a', 'b'))).tag(BASE))"
    )
    seeds = ("0", "4242")
    tags = {
        subprocess.run(
            [sys.executable, "-c", script],
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(__file__).parents[3],
            env={**os.environ, "PYTHONHASHSEED": seed},
        ).stdout
        for seed in seeds
    }
    assert len(tags) == 1
    assert tags.pop().startswith("reprokit/img:")


def test_axes_that_the_image_does_not_know_share_it() -> None:
    one = rendered(cell({"gcc": "12", "learning_rate": "1"}, env={"A": "1"}, command=("a",), limits=Limits(gpus=1)))
    other = rendered(cell({"gcc": "12.2", "learning_rate": "2"}, env={"A": "2"}, command=("b",)))
    assert one.tag(BASE) == other.tag(BASE)


def test_the_tag_follows_content(tmp_path: Path) -> None:
    spec = cell({}, sources={"s": SourceSpec(git="g", ref="r", path="s")}, files={"a": "1"})
    trees = []
    for name, text, mode in (("one", "x", 0o644), ("same", "x", 0o644), ("text", "y", 0o644), ("mode", "x", 0o755)):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "f").write_text(text)
        (folder / "f").chmod(mode)
        trees.append(folder)
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / "f").symlink_to("x")
    trees.append(linked)
    tags = [rendered(spec, s=tree).tag(BASE) for tree in trees]
    assert tags[0] == tags[1]
    assert len(set(tags)) == 4
    assert rendered(cell({}, files={"a": "2"})).tag(BASE) != rendered(cell({}, files={"a": "1"})).tag(BASE)
    assert rendered(cell({})).tag(BASE) != rendered(cell({})).tag("sha256:other")


def steps(axes: dict[str, str], **parts: Any) -> list[str]:
    return rendered(cell(axes, **parts)).dockerfile.splitlines()


def shared(one: list[str], other: list[str]) -> str:
    same = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))
    return "\n".join(line for line, _ in same)


def test_cells_share_the_layer_of_a_framework_whatever_else_they_install() -> None:
    torch = steps({}, pip=("torch==2.0.1", "numpy==1.24.4"))
    assert "pip install torch==2.0.1" in shared(torch, steps({"gcc": "12"}, pip=("torch==2.0.1", "ninja")))
    assert "pip install torch==2.0.1" in shared(torch, steps({}, pip=("nni", "torch==2.0.1"), apt=("git",)))
    assert [line for line in torch if "pip install torch" in line] == [
        " && pip install torch==2.0.1",
        " && pip install torch==2.0.1 numpy==1.24.4",
    ]


@pytest.mark.parametrize(
    "pip",
    [
        ("torch==2.0.1",),
        ("torch",),
        ("torch>=2", "numpy"),
        ("torch==2.*",),
        ("torchx==1", "a"),
        ("--extra-index-url https://example.org/cu118", "torch==2.0.1+cu118", "numpy"),
    ],
)
def test_what_is_not_pinned_or_is_alone_or_needs_an_option_is_installed_in_one_go(pip: tuple[str, ...]) -> None:
    assert sum("pip install" in line and "pip==" not in line for line in steps({}, pip=pip)) == 1


def installs(**parts: Any) -> list[str]:
    lines = steps({}, files={"requirements.txt": ""}, **parts)
    return [line.split("pip install ")[1].removesuffix(" \\") for line in lines if "&& pip install " in line][1:]


def test_steps_are_installed_one_after_the_other_each_with_its_options() -> None:
    two = (
        PipStepSpec(requirements=("setuptools<60", "numpy==1.23.5")),
        PipStepSpec(requirements=("old==1",), options=("--no-build-isolation", "-i https://index.example/simple")),
    )
    assert installs(pip=two, pip_options=("--pre",)) == [
        "--pre 'setuptools<60' numpy==1.23.5",
        "--pre --no-build-isolation -i https://index.example/simple old==1",
    ]
    assert installs(pip=(PipStepSpec(requirements=("a", "b")),)) == installs(pip=("a", "b"))


def test_no_step_overtakes_another() -> None:
    local = PipStepSpec(requirements=("-r requirements.txt", "six"))
    framework = PipStepSpec(requirements=("torch==2.0.1",))
    assert installs(pip=(framework, PipStepSpec(requirements=("six",)))) == ["torch==2.0.1", "six"]
    # A layer of its own would come before what it is to follow.
    assert installs(pip=(PipStepSpec(requirements=("six",)), framework)) == ["six", "torch==2.0.1"]
    # What follows a step that needs the case's files needs them as well.
    assert installs(pip=(local, framework)) == ["six", "-r requirements.txt", "torch==2.0.1"]


def test_cells_share_the_large_layers() -> None:
    twelve = steps({"cuda": "12.0", "cudnn": "8.9", "gcc": "12"})
    assert "nvidia-cudnn-cu12" in shared(twelve, steps({"cuda": "12.0", "cudnn": "8.9", "gcc": "11"}))
    assert "venv /opt/venv" in shared(twelve, steps({"cuda": "11.8"}))
    assert "venv /opt/venv" in shared(twelve, steps({}))
    assert "g++-12" in shared(twelve, steps({"cuda": "12.0", "cudnn": "8.9", "gcc": "12"}, pip=("torch",)))
    assert "pip install torch" in shared(steps({}, pip=("torch",)), steps({}, pip=("torch",), files={"a": "1"}))


@pytest.mark.parametrize(
    ("pip", "options", "waits"),
    [
        ("numpy<2", (), False),
        ("torch @ https://index.example/torch.whl", (), False),
        ("git+https://git.example/x", (), False),
        ("./PaddleSeg", (), True),
        ("-e PaddleSeg", (), True),
        ("-r requirements.txt", (), True),
        ("--requirement=requirements.txt", (), True),
        ("numpy<2", ("-c constraints.txt",), True),
        ("numpy<2", ("--find-links https://index.example/",), False),
        ("numpy<2", ("--find-links wheels",), True),
        ("numpy<2", ("--no-build-isolation",), False),
    ],
)
def test_requirements_that_need_the_cases_files_come_after_them(
    pip: str, options: tuple[str, ...], waits: bool
) -> None:
    text = rendered(cell({}, pip=(pip,), pip_options=options, files={"requirements.txt": ""})).dockerfile
    copy, install = text.index('"files/"'), text.rindex("pip install")
    assert (copy < install) is waits


def test_values_cannot_leave_their_place() -> None:
    text = rendered(cell({}, pip=("six; python_version<'4'", "a$HOME"), apt=("x;reboot",), workdir="/w $X")).dockerfile
    assert """'six; python_version<'"'"'4'"'"'' 'a$HOME'""" in text
    assert "'x;reboot'" in text
    assert "WORKDIR /w \\$X" in text


def test_writing_a_folder_for_plain_docker(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    tree.mkdir()
    (tree / "run").write_text("x")
    (tree / "run").chmod(0o755)
    (tree / "link").symlink_to("run")
    spec = cell({}, files={"a/b.txt": "b"}, sources={"s": SourceSpec(git="g", ref="r", path="s")})
    found = rendered(spec, s=tree)
    folder = tmp_path / "out"
    write_context(folder, found)
    assert (folder / "Dockerfile").read_text() == found.dockerfile
    assert (folder / "files/a/b.txt").read_bytes() == b"b"
    assert os.access(folder / "sources/s/run", os.X_OK)
    assert (folder / "sources/s/link").is_symlink()


SITE = Path(dockerfile.__file__).parents[2] / "dockerfiles" / "site.sh"


def test_without_secrets_a_step_sees_no_settings_of_a_site() -> None:
    done = subprocess.run(
        ["sh", "-c", f". {SITE}; env"], capture_output=True, text=True, check=True, env={"PATH": os.environ["PATH"]}
    )
    names = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "DEBIAN_FRONTEND" in names
    assert not names & {"PIP_CONFIG_FILE", "PIP_CERT", "SSL_CERT_FILE", "NETRC", "APT_CONFIG"}


def test_support_files_are_shell_that_parses() -> None:
    for script in SITE.parent.glob("*.sh"):
        subprocess.run(["sh", "-n", script], check=True)


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "os": st.sampled_from(["debian-11", "debian-12", "debian-13", "ubuntu-18.04", "ubuntu-24.04"]),
            "gcc": st.sampled_from(["none", "10", "12"]),
            "cuda": st.sampled_from(["none", "11.8", "12.0"]),
            "cudnn": st.sampled_from(["none", "8"]),
        },
    )
)
def test_no_cell_leaves_its_name_or_a_template_in_the_text(axes: dict[str, str]) -> None:
    try:
        text = rendered(cell(axes, pip=("six",), setup="true")).dockerfile
    except Unsupported:
        return
    assert "{{" not in text
    assert "{%" not in text
    assert "\n\n" not in text
    assert not any(line.endswith((" ", "\t")) for line in text.splitlines())
    assert text.splitlines()[0].startswith("FROM ")


PIP = Path(dockerfile.__file__).parents[2] / "dockerfiles" / "keeping_pip.py"


@pytest.mark.system
def test_the_step_that_tests_on_an_engine_build_has_all_that_steps_have_of_the_site() -> None:
    build = site_build("a:b", "c", "true")
    assert all(f"id={name}" in build.dockerfile for name in ("apt_conf", "pip_conf", "site_env", "gateway"))
    assert "reprokit/site.sh" in build.context


class Index(QuietFiles):
    """A folder of folders of wheels; what begins with "busy" is answered with 503 on the first request."""

    busy: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        if "/busy" in self.path and self.path not in self.busy:
            self.busy.add(self.path)
            self.send_error(503)
        else:
            super().do_GET()


@pytest.fixture
def index(tmp_path: Path) -> Iterator[str]:
    """The address of an index with the projects alpha, beta and busy."""
    for name in ("alpha", "beta", "busy"):
        folder = tmp_path / "index" / name
        folder.mkdir(parents=True)
        with zipfile.ZipFile(folder / f"{name}-1.0-py3-none-any.whl", "w") as wheel:
            info = f"{name}-1.0.dist-info"
            wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
            wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
            wheel.writestr(f"{info}/RECORD", "")
    Index.busy.clear()
    handler = functools.partial(Index, directory=str(tmp_path / "index"))
    with serving(handler) as address:
        yield f"http://{address}/"


def downloading(folder: Path, *words: str) -> str:
    """What pip says that downloads into ``folder``, with no settings but those words and one retry."""
    options = ["--isolated", "--no-cache-dir", "--retries", "1", "-vv", "--dest", str(folder)]
    done = subprocess.run(
        [sys.executable, PIP, "download", *options, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return done.stdout


@pytest.mark.system
def test_pip_gives_up_on_a_host_that_it_cannot_reach(tmp_path: Path, index: str) -> None:
    pytest.importorskip("pip")
    with socket.socket() as closed:  # bound, not listening: connections are refused
        closed.bind(("127.0.0.1", 0))
        lost = f"http://127.0.0.1:{closed.getsockname()[1]}/simple/"
        output = downloading(tmp_path / "out", "--index-url", index, "--extra-index-url", lost, "alpha", "beta", "busy")
        assert {path.name.partition("-")[0] for path in (tmp_path / "out").iterdir()} == {"alpha", "beta", "busy"}
        refused = [line for line in output.splitlines() if "Retrying" in line and "/simple/" in line]
        assert len(refused) == 1, output
        # It says so for each of them, as it would on its own, and a host that only had a bad moment is asked again.
        for name in ("alpha", "beta", "busy"):
            assert f"Could not fetch URL {lost}{name}/: connection error: " in output
            assert f"Max retries exceeded with url: /simple/{name}/ (Caused by NewConnectionError" in output
        alone = downloading(tmp_path / "out", "--index-url", lost, "gamma")
        assert "No matching distribution found for gamma" in alone


def test_a_cache_that_is_deleted_while_we_run_fails_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    dockerfile._templates.cache_clear()
    try:
        templates = dockerfile._templates()
        shutil.rmtree(tmp_path)
        assert templates.get_template("Dockerfile.j2")
    finally:
        dockerfile._templates.cache_clear()
