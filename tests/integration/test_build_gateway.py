"""Builds share nothing that a case's code can write, see no secret of the site, and reach no server of this host."""

from __future__ import annotations

import hashlib
import http.server
import io
import subprocess
import tarfile
import threading
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from reprokit.case.cellspec import CellSpec, SourceSpec
from reprokit.case.trust import Trust
from reprokit.core.errors import BuildFailed
from reprokit.engine.docker.engine import DockerEngine
from reprokit.engine.protocol import Build, Progress
from reprokit.engine.site import Site
from reprokit.environment.dockerfile import render
from reprokit.environment.model import SourceTree
from reprokit.environment.resolving import resolve
from reprokit.environment.supply import Supply
from tests.conftest import docker, never, remove_image
from tests.integration.test_engine_pip import PASSWORD, _Index, host, output_of, python, wheel  # noqa: F401
from tests.unit.environment.builders import cell
from tests.unit.serving import Quiet, QuietFiles

pytestmark = pytest.mark.integration

CANARY = "c4nary-of-this-host"
SETUP = "from setuptools import setup\nsetup"
INSTALL = "--break-system-packages --no-build-isolation"

POISON = r"""
[ -z "$POISONED" ] || exit 0  # a hook of Python's start calls this, and this calls Python
export POISONED=1
for folder in /root/.cache/pip /root/.cache/uv /root/.cache/rattler /var/cache/apt/archives /var/lib/apt/lists \
    /run/reprokit /run/secrets /tmp /var/tmp /dev/shm; do
    { mkdir -p "$folder" && echo pwned > "$folder/pwned"; } 2> /dev/null || true
done
rm -rf /tmp/forged && mkdir -p /tmp/forged/DEBIAN && cd /tmp/forged
printf 'Package: bc\nVersion: 1.07.1-3+b1\nArchitecture: amd64\nMaintainer: x <x@x>\nDescription: x\n' \
    > DEBIAN/control
printf '#!/bin/sh\ntouch /pwned-deb\n' > DEBIAN/postinst && chmod 755 DEBIAN/postinst
dpkg-deb -b /tmp/forged /var/cache/apt/archives/bc_1.07.1-3+b1_amd64.deb > /dev/null
truncate -s 109644 /var/cache/apt/archives/bc_1.07.1-3+b1_amd64.deb
python3 - <<'FORGE' || true
import glob, hashlib, json, os, sys, zipfile
try:
    from pip._internal.cache import WheelCache
    from pip._internal.models.link import Link
    index = os.environ["PIP_CONFIG_FILE"] and [l.split("=")[1].strip() for l in open(os.environ["PIP_CONFIG_FILE"])
        if l.startswith("index-url")][0]
    import urllib.request, re
    page = urllib.request.urlopen(index + "/honest/").read().decode()
    found = urllib.request.urljoin(index + "/honest/", re.search('href="([^"]+tar.gz[^"]*)"', page)[1])
    try:
        cache = WheelCache("/root/.cache/pip")
    except TypeError:
        from pip._internal.models.format_control import FormatControl
        cache = WheelCache("/root/.cache/pip", FormatControl())
    folder = cache.get_path_for_link(Link(found))
    os.makedirs(folder)
    info = "honest-1.0.dist-info"
    with zipfile.ZipFile(folder + "/honest-1.0-py3-none-any.whl", "w") as forged:
        forged.writestr("honest.py", "print('forged')\n")
        forged.writestr(info + "/METADATA", "Metadata-Version: 2.1\nName: honest\nVersion: 1.0\n")
        forged.writestr(info + "/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        forged.writestr(info + "/RECORD", "")
    digest = found.partition("sha256=")[2]
    archive = {"hash": "sha256=" + digest, "hashes": {"sha256": digest}}
    origin = {"url": found.partition("#")[0], "archive_info": archive}
    json.dump(origin, open(folder + "/origin.json", "w"))
    print("forged", folder)
except Exception as error:
    print("not forged:", repr(error))
FORGE
echo poisoned
"""
"""Writes wherever a later build might read: the forged wheel and package of the attack that worked once among it."""

LOOK = r"""
echo "dirs: $(ls -a /run/secrets /run/reprokit 2>/dev/null | tr '\n' ' ')"
for word in p4ss l0gin pr0xy; do
    ! env | grep -F "$word" || echo "LEAK env $word"
    ! cat /proc/[0-9]*/environ 2> /dev/null | tr '\0' '\n' | grep -F "$word" || echo "LEAK environ $word"
    ! cat /proc/mounts /proc/self/cmdline /proc/1/cmdline 2> /dev/null | grep -aF "$word" || echo "LEAK proc $word"
    ! grep -rlF "$word" /run /etc /root /home /tmp /var/lib/apt 2> /dev/null | grep . || echo "LEAK file $word"
done
"""


def sdist(folder: Path, name: str, setup: str, module: str = "") -> Path:
    """A source distribution whose setup.py begins with that code."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-1.0.tar.gz"
    files = {
        "setup.py": f"{setup}\n{SETUP}(name={name!r}, version='1.0', py_modules=[{name!r}])\n",
        f"{name}.py": module,
        "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for file, text in files.items():
            info = tarfile.TarInfo(f"{name}-1.0/{file}")
            info.size = len(text.encode())
            archive.addfile(info, io.BytesIO(text.encode()))
    return path


def running(script: str) -> str:
    """Python code that runs a shell script, with what it prints on the build's own output."""
    return f"import subprocess\nsubprocess.run(['sh', '-c', {script!r}], check=True)"


@dataclass(frozen=True)
class Ground:
    """A site with an index behind a password, and a canary server beside it; both on this host's loopback."""

    site: Site
    folder: Path
    canary: int
    asked: list[str]


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ground]:
    """The site that all of these tests have."""
    folder = tmp_path_factory.mktemp("ground")
    projects = folder / "served" / "simple"
    sdist(projects / "honest", "honest", "", "print('honest 1.0')\n")
    wheel(projects / "plain", "plain")
    sdist(projects / "sneaky", "sneaky", running(POISON))
    sdist(folder / "links", "peeking", running(LOOK))  # not behind the password, which untrusted builds do not have
    handler = type("Handler", (_Index,), {"root": folder / "served"})
    asked: list[str] = []

    class Canary(Quiet):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.answer(200, CANARY.encode())

        do_CONNECT = do_POST = do_GET

    index = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    canary = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Canary)
    for server in (index, canary):
        threading.Thread(target=server.serve_forever, daemon=True).start()
    (folder / ".netrc").write_text("machine packages.example login bot password l0gin\n")
    conf = f"[global]\nindex-url = http://deploy:{PASSWORD}@127.0.0.1:{index.server_port}/simple\n"
    conf += f"find-links = {folder}/links\n"
    yield Ground(site=host(folder, conf), folder=folder, canary=canary.server_port, asked=asked)
    for server in (index, canary):
        server.shutdown()
        server.server_close()


def spec_of(image: str, trees: Mapping[str, Path], **asked: object) -> CellSpec:
    options: dict[str, object] = {"image": image, "pip_options": (INSTALL,), **asked}
    sources = {name: SourceSpec(git="https://git.example/x", ref="main", path=name) for name in trees}
    return replace(cell({}, **options), sources=sources)


def built(
    engine: DockerEngine,
    ground: Ground,
    image: str,
    *,
    trust: Trust = Trust.OWN,
    trees: Mapping[str, Path] | None = None,
    keep: bool = False,
    **asked: object,
) -> tuple[str, str]:
    """The tag and the log of a build with the real templates, every step of it run."""
    trees = trees or {}
    spec = spec_of(image, trees, **asked)
    sources = {
        name: SourceTree(name=name, commit="", digest="", archive=tree, path=name) for name, tree in trees.items()
    }
    rendered = render(resolve(spec, Supply(base_source="bootstrap")), spec, sources=sources, given_datasets=())
    tag = f"reprokit-test/gateway:{uuid.uuid4().hex[:12]}"
    log: list[Progress] = []
    build = Build(tag=tag, dockerfile=rendered.dockerfile, context=rendered.context, trust=trust, fresh=True)
    try:
        engine.build(build, ground.site, log.append, never())
    finally:
        if not keep:
            remove_image(tag)
    return tag, "".join(step.log for step in log)


@pytest.fixture(scope="module")
def bad_base(python: str) -> Iterator[str]:  # noqa: F811
    """An image whose apt, perl and sh poison whatever they find mounted."""
    tag = f"reprokit-test/gateway:{uuid.uuid4().hex[:12]}"
    script = "".join(f"mv /usr/bin/{name} /usr/bin/{name}.real; " for name in ("apt-get", "perl"))
    script += (
        "for name in apt-get perl; do printf '#!/bin/sh\\nsh /poison.sh > /poison.log 2>&1\\nexec /usr/bin/%s.real "
        '"$@"\\n\' $name > /usr/bin/$name; chmod 755 /usr/bin/$name; done'
    )
    container = f"reprokit-test-{uuid.uuid4().hex[:8]}"
    docker("create", "--name", container, python, "sh", "-c", script)
    try:
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            info = tarfile.TarInfo("poison.sh")
            info.size = len(POISON.replace("/usr/bin/perl", "perl.real").encode())
            tar.addfile(info, io.BytesIO(POISON.encode()))
        subprocess.run(["docker", "cp", "-", f"{container}:/"], input=archive.getvalue(), check=True)
        docker("start", "-a", container)
        docker("commit", container, tag)
        yield tag
    finally:
        docker("rm", "-f", container)
        remove_image(tag)


POISONERS = ("setup", "setup-of-a-stranger", "sdist", "base-image")


@pytest.fixture(scope="module")
def poisoned(
    engine: DockerEngine,
    python: str,  # noqa: F811
    bad_base: str,
    ground: Ground,
) -> dict[str, str]:
    """Logs of hostile builds that ran before the honest ones."""
    return {
        "setup": built(engine, ground, python, setup=POISON)[1],
        "setup-of-a-stranger": built(engine, ground, python, setup=POISON, trust=Trust.STRANGER)[1],
        "sdist": built(engine, ground, python, pip=("sneaky",))[1],
        "base-image": built(engine, ground, bad_base, apt=("dc",), pip=("plain",), setup="cat /poison.log")[1],
    }


@pytest.mark.parametrize("poisoner", POISONERS)
def test_the_poison_ran(poisoned: Mapping[str, str], poisoner: str) -> None:
    if poisoner != "sdist":  # pip keeps what a setup.py prints
        assert "poisoned" in poisoned[poisoner]


@pytest.fixture(scope="module")
def honest(
    engine: DockerEngine,
    python: str,  # noqa: F811
    ground: Ground,
    poisoned: Mapping[str, str],
) -> Iterator[tuple[str, str]]:
    """The tag and the log of an honest build, after all the hostile ones."""
    seen = "ls -A /root/.cache /var/cache/apt/archives /var/lib/apt/lists /tmp /run/secrets /run/reprokit || true"
    tag, log = built(engine, ground, python, apt=("bc",), pip=("honest", "plain"), setup=seen, keep=True)
    yield tag, log
    remove_image(tag)


def test_an_honest_build_has_the_packages_that_it_asked_for(engine: DockerEngine, honest: tuple[str, str]) -> None:
    said = output_of(engine, honest[0], "python3 -c 'import honest, plain'; echo 1+1 | bc; ls / | grep pwned || true")
    assert said == "honest 1.0\nplain 1.0\n2\n"


def test_no_step_of_an_honest_build_sees_what_another_left(honest: tuple[str, str]) -> None:
    assert "pwned" not in honest[1]
    assert "forged" not in honest[1]


def test_an_honest_image_has_nothing_of_a_hostile_build(engine: DockerEngine, honest: tuple[str, str]) -> None:
    found = output_of(engine, honest[0], "find / -xdev \\( -name 'pwned*' -o -name origin.json \\) 2>/dev/null; true")
    assert found == ""


def test_a_locked_build_has_the_file_of_its_hash(
    engine: DockerEngine,
    python: str,  # noqa: F811
    ground: Ground,
    poisoned: Mapping[str, str],
) -> None:
    file = ground.folder / "served/simple/honest/honest-1.0.tar.gz"
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    lock = f"honest==1.0 --hash=sha256:{digest}\n"
    tag, _ = built(
        engine,
        ground,
        python,
        setup=f"echo '{lock.strip()}' > /tmp/lock; pip install {INSTALL} --require-hashes -r /tmp/lock",
        keep=True,
    )
    try:
        assert output_of(engine, tag, "python3 -c 'import honest'") == "honest 1.0\n"
    finally:
        remove_image(tag)
    script = f"echo '{lock.replace(digest, '0' * 64).strip()}' > /tmp/lock; pip install {INSTALL} -r /tmp/lock"
    with pytest.raises(BuildFailed) as failed:
        built(engine, ground, python, setup=script)
    assert "THESE PACKAGES DO NOT MATCH THE HASHES" in "\n".join(failed.value.tail)


TRUSTS = [pytest.param(each, marks=pytest.mark.nightly) if each is Trust.REVIEWED else each for each in Trust]


@pytest.mark.parametrize("trust", TRUSTS)
def test_no_step_sees_a_secret_of_the_site(
    engine: DockerEngine,
    python: str,  # noqa: F811
    ground: Ground,
    trust: Trust,
) -> None:
    _, log = built(engine, ground, python, trust=trust, pip=("peeking",), setup=LOOK)
    assert "dirs:" in log
    assert "LEAK" not in log
    for word in (PASSWORD, "p4ss", "l0gin"):
        assert word not in log


FORMS = {
    "name": "localhost",
    "address": "127.0.0.1",
    "short": "127.1",
    "decimal": "2130706433",
    "hexadecimal": "0x7f000001",
    "octal": "0177.0.0.1",
    "any": "0.0.0.0",
    "six": "[::1]",
    "mapped": "[::ffff:127.0.0.1]",
    "mapped-hex": "[::ffff:7f00:1]",
    "other-loopback": "127.9.9.9",
    "dot": "localhost.",
}
"""Ways to write this host's loopback."""

ASK = """
import sys, http.client
port, forms = int(sys.argv[1]), sys.argv[2:]
for form in forms:
    for way in ("direct", "get", "connect"):
        try:
            if way == "direct":
                one = http.client.HTTPConnection(form.strip("[]"), port, timeout=5)
                one.request("GET", "/direct")
            else:
                one = http.client.HTTPConnection("127.0.0.1", 17890, timeout=5)
                if way == "connect":
                    one.set_tunnel(form, port)
                one.request("GET", f"http://{form}:{port}/get" if way == "get" else "/tunnel")
            answer = one.getresponse()
            print("ANSWER", way, form, answer.status, answer.read(80))
        except Exception as error:
            print("NONE", way, form, error)
"""


@pytest.mark.parametrize("trust", TRUSTS)
def test_no_step_reaches_a_server_of_this_hosts_loopback(
    engine: DockerEngine,
    python: str,  # noqa: F811
    ground: Ground,
    trust: Trust,
) -> None:
    forms = " ".join(f"'{form}'" for form in FORMS.values())
    script = f"python3 - {ground.canary} {forms} <<'ASK_END'\n{ASK}\nASK_END\n"
    _, log = built(engine, ground, python, trust=trust, setup=script)
    answers = [line for line in log.splitlines() if line.startswith(("ANSWER", "NONE"))]
    assert len(answers) == 3 * len(FORMS)
    assert CANARY not in log
    assert ground.asked == []


def test_a_host_that_an_untrusted_build_may_not_reach_is_named_in_the_failure(
    engine: DockerEngine,
    python: str,  # noqa: F811
    ground: Ground,
) -> None:
    with pytest.raises(BuildFailed) as failed:
        built(engine, ground, python, trust=Trust.STRANGER, setup="pip download http://canary.invalid/x-1.tar.gz")
    assert "canary.invalid" in "\n".join(failed.value.tail)
    assert "build_hosts" in "\n".join(failed.value.tail)


def test_an_untrusted_build_has_no_network_of_its_own(
    engine: DockerEngine,
    python: str,  # noqa: F811
    ground: Ground,
) -> None:
    _, log = built(engine, ground, python, trust=Trust.STRANGER, setup="tail -n +3 /proc/net/dev | cut -d: -f1")
    assert [line.strip() for line in log.splitlines() if line.strip() in ("lo", "eth0")] == ["lo"]


def test_layers_of_an_untrusted_build_are_not_those_of_a_trusted_case(
    engine: DockerEngine,
    python: str,  # noqa: F811
    ground: Ground,
) -> None:
    spec = spec_of(python, {}, setup=f"echo {uuid.uuid4().hex}")
    rendered = render(resolve(spec, Supply(base_source="bootstrap")), spec, sources={}, given_datasets=())
    tag = f"reprokit-test/gateway:{uuid.uuid4().hex[:12]}"
    build = Build(tag=tag, dockerfile=rendered.dockerfile, context=rendered.context, trust=Trust.STRANGER)
    steps: list[Progress] = []
    try:
        engine.build(build, ground.site, lambda _: None, never())
        engine.build(replace(build, trust=Trust.OWN), ground.site, steps.append, never())
    finally:
        remove_image(tag)
    assert not [step.name for step in steps if step.cached and "setup.sh" in step.name]


def test_an_untrusted_build_gets_what_the_index_of_its_case_links_to(
    engine: DockerEngine,
    python: str,  # noqa: F811
    ground: Ground,
    tmp_path: Path,
) -> None:
    """Index and files are on two servers of this host, which ``build_hosts`` lets it reach."""
    asked: list[str] = []

    class Files(QuietFiles):
        def __init__(self, *words: Any, **more: Any) -> None:
            super().__init__(*words, directory=str(tmp_path), **more)

        def do_GET(self) -> None:
            asked.append(f"{self.headers['User-Agent']} {self.path}")
            super().do_GET()

    file = wheel(tmp_path, "linked")
    servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), Files) for _ in range(2)]
    index, files = (f"127.0.0.1:{server.server_port}" for server in servers)
    digest = hashlib.sha256(file.read_bytes()).hexdigest()
    page = tmp_path / "whl" / "linked" / "index.html"
    page.parent.mkdir(parents=True)
    page.write_text(f'<a href="http://{files}/{file.name}#sha256={digest}">{file.name}</a>')
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    site = replace(ground.site, access=replace(ground.site.access, hosts=(index, files)))
    try:
        _, log = built(
            engine,
            replace(ground, site=site),
            python,
            trust=Trust.STRANGER,
            pip_options=(INSTALL, f"--index-url http://{index}/whl"),
            pip=("linked",),
            setup="python3 -c 'import linked' && echo it is installed",
        )
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
    assert "it is installed" in log
    assert asked == ["reprokit /whl/linked/", f"reprokit /{file.name}"]  # the gateway asks, not the build's pip
    assert "/place/" not in log
