# ruff: noqa: E501  (scripts are read best on one line)
"""Hostile builds and trials of ``--engine venv``: each probe is refused or confined, and the host is as it was."""

from __future__ import annotations

import ast
import ctypes
import os
import re
import socket
import stat
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

import reprokit
from reprokit.case.cellspec import Limits
from reprokit.case.trust import Trust
from reprokit.core.errors import EngineError, Unsupported
from reprokit.core.leftovers import remove_tree
from reprokit.engine import registry
from reprokit.engine import site as sites
from reprokit.engine.protocol import Build, Mount, Progress, Trial
from reprokit.engine.site import Site
from reprokit.engine.venv import bubblewrap, building, host, inside, keeping, seeds, trials
from reprokit.environment.dockerfile import render
from reprokit.environment.on_host import resolve_on
from reprokit.evidence.model import Ending
from tests.conftest import as_files, never, reachable_cache
from tests.integration import venv_probes as probes
from tests.integration.test_venv import running
from tests.unit.environment.builders import cell

pytestmark = pytest.mark.integration

MACHINE = os.uname().machine
EVERYWHERE = {
    f"{kind}-{name}": script
    for kind, several in (
        ("read", probes.READS),
        ("connect", probes.CONNECTS),
        ("process", probes.PROCESSES),
        ("privilege", probes.PRIVILEGES),
        ("write", probes.WRITES),
    )
    for name, script in several.items()
}
IN_TRIALS = {**EVERYWHERE, **{f"environment-{name}": script for name, script in probes.ENVIRONMENT.items()}}
CUT_OFF = {f"loopback-{name}": script for name, script in probes.LOOPBACK.items()}


@dataclass
class Outside:
    """What the host has and a sandbox must not reach, and how that was before."""

    folder: Path
    values: dict[str, object] = field(default_factory=dict)

    def script(self, several: Mapping[str, str]) -> str:
        """One script that runs all, each in a shell and folder of its own, and prints what each printed."""
        lines = []
        for name, text in several.items():
            for key, value in self.values.items():
                text = text.replace("{" + key + "}", str(value))
            place = f"/tmp/probes/{name}"
            lines.append(f"echo; echo '@@ {name}'; mkdir -p {place}; cat > {place}/run <<'THE_END'\n{text}\nTHE_END")
            work = "." if name == "environment-data-set" else place
            lines.append(f"(cd {work}; timeout 20 setsid bash {place}/run 2>&1 < /dev/null) || true")
        return "\n".join(lines) + "\necho; echo '@@ end'\n"


def printed(output: str) -> dict[str, str]:
    """What each probe printed."""
    parts = re.split(r"^@@ (.*)\n", output, flags=re.MULTILINE)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    assert "end" in found, output
    return found


@pytest.fixture(scope="module")
def cache(venv_sandbox: None) -> Iterator[Path]:
    with reachable_cache() as folder:
        yield folder


@pytest.fixture(scope="module")
def outside(cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Outside]:
    """Canaries: files, sockets, a process, shared memory, a key and variables, all within reach of every user."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = cache / "outside"
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    (folder / "canary").write_text("CANARY file\n")
    word = uuid.uuid4().hex
    store = cache / "store"
    store.mkdir()
    store.chmod(0o777)
    shared = Path("/dev/shm", f"reprokit-{word}")
    shared.write_text("CANARY shared memory\n")
    found = Outside(folder=folder)
    with ExitStack() as stack:
        stack.callback(shared.unlink)
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("SSH_AUTH_SOCK", "XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "REPROKIT_TEST_SECRET"):
            patch.setenv(name, f"CANARY {folder}/agent")
        listening = [
            (socket.AF_UNIX, socket.SOCK_STREAM, str(folder / "agent")),
            (socket.AF_UNIX, socket.SOCK_STREAM, f"\0reprokit-{word}"),
            (socket.AF_UNIX, socket.SOCK_DGRAM, f"\0reprokit-{word}-datagram"),
            (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 0)),
        ]
        servers = []
        for family, kind, address in listening:
            server = stack.enter_context(socket.socket(family, kind))
            server.bind(address)
            if kind == socket.SOCK_STREAM:
                server.listen()
            servers.append(server)
        (folder / "agent").chmod(0o777)
        process = stack.enter_context(subprocess.Popen(["sleep", "600", word][:2], env={"SECRET": "CANARY process"}))
        stack.callback(process.kill)
        libc.syscall(ctypes.c_long(inside.KEYS[MACHINE][0]), b"user", b"reprokit-" + word.encode(), b"CANARY", 6, -3)
        key = libc.shmget(int(word[:7], 16), 4096, 0o1666)
        stack.callback(libc.shmctl, key, 0, None)
        found.values = {
            "outside": folder,
            "pid": process.pid,
            "word": "600",
            "shm": shared.name,
            "shm_key": f"0x{int(word[:7], 16):08x}",
            "key": f"reprokit-{word}",
            "top": keeping.top(),
            "store": store,
            "abstract": f"reprokit-{word}",
            "port": servers[-1].getsockname()[1],
            "package": Path(reprokit.__file__).parent,
            "uid": bubblewrap.NOBODY if os.getuid() == 0 else os.getuid(),
            "gid": bubblewrap.NOBODY if os.getuid() == 0 else os.getgid(),
            "sys_keyctl": inside.KEYS[MACHINE][2],
            "sys_request_key": inside.KEYS[MACHINE][1],
            "sys_bpf": inside.KERNEL[MACHINE][2],
            "sys_perf": inside.KERNEL[MACHINE][1],
            "sys_userfaultfd": inside.KERNEL[MACHINE][3],
            "sys_unshare": {"x86_64": 272, "aarch64": 97}[MACHINE],
        }
        yield found
        assert process.poll() is None, "a probe ended a process of the host"


def build_of(setup: str, *, trust: Trust = Trust.OWN) -> Build:
    """The build of an environment whose ``setup`` is that script."""
    spec = cell({}, setup=setup)
    rendered = render(resolve_on(host.host(), spec), spec, sources={}, given_datasets=())
    tag = f"reprokit/venv:{uuid.uuid4().hex}"
    return Build(tag=tag, dockerfile=rendered.dockerfile, context=rendered.context, trust=trust)


QUICK = """\
set -eo pipefail
step() {{ printf '\\036%s\\n' "$*"; }}
python3 -m venv --without-pip "$VENV"
cd "$WORK"
step setup
{script}
"""
"""What :func:`build_of` renders, without pip."""


def quick(script: str, *, trust: Trust) -> Build:
    """The build of an environment in which that script runs."""
    asked = build_of("true", trust=trust)
    context = {name: content for name, content in asked.context.items() if name != seeds.SCRIPT}
    return replace(asked, dockerfile=QUICK.format(script=script), context=context)


def built(script: str, *, trust: Trust = Trust.OWN) -> tuple[keeping.KeptVenv, str]:
    """An environment, and what its build printed."""
    said: list[Progress] = []
    building.build(asked := quick(script, trust=trust), Site(), said.append, threading.Event())
    return keeping.get(asked.tag), "".join(one.log for one in said)


def ran(
    kept: keeping.KeptVenv,
    script: str,
    *,
    mounts: tuple[Mount, ...] = (),
    files: Mapping[str, str] | None = None,
    **limits: object,
) -> tuple[Ending, str]:
    """How a script ended in a trial, and what it printed."""
    trial = Trial(
        image=kept.description["tag"],
        command=("bash", "-c", script) if len(script) < 100_000 else ("bash", "probe.sh"),
        env={},
        workdir="/workspace",
        limits=Limits(**{"timeout": 240.0, **limits}),  # type: ignore[arg-type]
        files=as_files({**(files or {}), **({"probe.sh": script} if len(script) >= 100_000 else {})}),
        mounts=mounts,
    )
    output: list[bytes] = []
    ending = trials.run(trial, kept, host.powers(), output.append, never(), nullcontext())
    return ending, b"".join(output).decode(errors="replace")


@pytest.fixture(scope="module")
def from_build(outside: Outside) -> dict[str, str]:
    """What each probe printed in ``setup``, with the network that builds have."""
    return printed(built(outside.script({**EVERYWHERE}).replace("{tag}", "no-such"))[1])


@pytest.fixture(scope="module")
def plain(cache: Path) -> keeping.KeptVenv:
    """An environment with nothing but its Python."""
    asked = build_of("true")
    building.build(asked, Site(), lambda _: None, threading.Event())
    return keeping.get(asked.tag)


def from_trial(outside: Outside, kept: keeping.KeptVenv, several: Mapping[str, str], network: str) -> dict[str, str]:
    data = outside.folder.parent / "data"
    data.mkdir(exist_ok=True)
    data.chmod(0o777)
    (data / "one").write_text("one\n")
    script = outside.script(several).replace("{tag}", kept.folder.name)
    mounts = (Mount(source=data, target="/workspace/data/set"),)
    found = printed(ran(kept, script, mounts=mounts, network=network)[1])
    assert not (data / "pwned").exists()
    assert (data / "one").stat().st_nlink == 1
    return found


@pytest.fixture(scope="module")
def from_trial_cut_off(outside: Outside, plain: keeping.KeptVenv) -> dict[str, str]:
    return from_trial(outside, plain, {**IN_TRIALS, **CUT_OFF}, "none")


@pytest.fixture(scope="module")
def from_trial_with_network(outside: Outside, plain: keeping.KeptVenv) -> dict[str, str]:
    return from_trial(outside, plain, IN_TRIALS, "bridge")


def check(outside: Outside, printed: str) -> None:
    """Nothing of the host was read, reached or written."""
    assert "CANARY" not in printed
    assert "PWNED" not in printed
    assert not (outside.folder / "pwned").exists()
    top = keeping.top()
    assert not (top / "environments" / "pwned").exists()
    assert not (top / "pip" / "pwned").exists()
    assert not list(keeping.pythons().glob("*"))
    assert not Path("/pwned").exists()


REACHED = ("read-file-of-the-host", "read-shared-memory-file", "read-keyring-listed", "connect-agent-of-ssh")
REACHED += ("connect-abstract-socket", "connect-abstract-datagram", "loopback-server-on-loopback", "process-listed")


@pytest.mark.parametrize("probe", REACHED)
def test_the_canaries_are_within_reach_without_a_sandbox(outside: Outside, probe: str) -> None:
    script = outside.script({probe: {**EVERYWHERE, **CUT_OFF}[probe]}).replace(
        "/tmp/probes", f"{outside.folder}/probes"
    )
    output = printed(subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout)[probe]
    assert "CANARY" in output or "PWNED" in output


@pytest.mark.parametrize("probe", EVERYWHERE)
def test_a_build_is_confined(outside: Outside, from_build: dict[str, str], probe: str) -> None:
    check(outside, from_build[probe])


@pytest.mark.parametrize("probe", [*IN_TRIALS, *CUT_OFF])
def test_a_trial_is_confined(outside: Outside, from_trial_cut_off: dict[str, str], probe: str) -> None:
    check(outside, from_trial_cut_off[probe])


@pytest.mark.parametrize("probe", IN_TRIALS)
def test_a_trial_with_a_network_is_confined(
    outside: Outside, from_trial_with_network: dict[str, str], probe: str
) -> None:
    check(outside, from_trial_with_network[probe])


# --- what a build leaves, and what becomes of it ----------------------------------------------------------------------

LEFT = {
    "link-to-a-folder": "ln -s {outside} sub",
    "link-to-a-folder-deeper": "mkdir sub; ln -s {outside} sub/deep",
    "link-to-a-link": "ln -s l sub; ln -s {outside} l",
    "link-by-dots": "ln -s ../../../../../../../..{outside} sub",
    "link-to-a-link-of-proc": "ln -s /proc/self/cwd sub",
    "link-to-itself": "ln -s sub sub",
    "link-to-nothing": "ln -s {outside}/none sub",
    "file": "touch sub",
    "fifo": "mkfifo sub",
    "socket": "python -c \"import socket; socket.socket(1).bind('sub')\"",
    "work-folder-by-link": "cd ..; rm -rf workspace || true; ln -s {outside} workspace/sub",
}
"""What a build leaves where the case has a folder ``sub``."""


@pytest.mark.parametrize("probe", LEFT)
def test_files_of_a_case_are_not_written_through_what_a_build_left(outside: Outside, probe: str) -> None:
    before = sorted(path.name for path in outside.folder.iterdir())
    kept, _ = built(LEFT[probe].replace("{outside}", str(outside.folder)))
    with pytest.raises(Unsupported, match=r"sub.* is a link or a file that a build left"):
        ran(kept, "true", files={"sub/deep/pwned": "pwned\n"})
    assert sorted(path.name for path in outside.folder.iterdir()) == before


PLACE = {
    "link-to-a-file": "ln -s {outside}/canary pwned",
    "link-to-no-file": "ln -s {outside}/pwned pwned",
    "link-to-itself": "ln -s pwned pwned",
    "hard-link": "echo other > o; ln o pwned",
    "fifo": "mkfifo pwned",
    "socket": "python -c \"import socket; socket.socket(1).bind('pwned')\"",
    "shut-file": "touch pwned; chmod 0 pwned",
    "setuid-file": "cp /usr/bin/id pwned; chmod 6755 pwned",
}
"""What a build leaves where the case has a file ``pwned``."""


@pytest.mark.parametrize("probe", PLACE)
def test_a_file_of_a_case_takes_the_place_of_what_a_build_left(outside: Outside, probe: str) -> None:
    kept, _ = built(PLACE[probe].replace("{outside}", str(outside.folder)))
    _, printed = ran(kept, "cat pwned; stat -c %a.%h pwned; cat o 2> /dev/null || true", files={"pwned": "mine\n"})
    assert printed.splitlines()[:2] == ["mine", "644.1"]
    assert "mine" not in printed.splitlines()[2:]
    assert (outside.folder / "canary").read_text() == "CANARY file\n"
    assert not (outside.folder / "pwned").exists()


@pytest.mark.parametrize(
    "probe", ["link-to-a-folder", "link-to-a-link", "link-by-dots", "link-to-nothing", "file", "fifo"]
)
def test_nothing_is_mounted_through_what_a_build_left(outside: Outside, probe: str) -> None:
    before = sorted(path.name for path in outside.folder.iterdir())
    kept, _ = built(LEFT[probe].replace("{outside}", str(outside.folder)))
    mount = Mount(source=outside.folder.parent, target="/workspace/sub/deep/set")
    with pytest.raises(Unsupported, match="links are not followed"):
        ran(kept, "true", mounts=(mount,))
    assert sorted(path.name for path in outside.folder.iterdir()) == before


REMOVED = {
    "deep": "python -c \"import os\nfor n in range(3000): os.mkdir('d'); os.chdir('d')\"",
    "wide": "mkdir w; cd w; seq 3000 | xargs touch",
    "shut": "mkdir -p a/b/c; touch a/b/c/d; chmod 0 a/b/c a/b a",
    "link-to-the-host": "ln -s {outside} a; mkdir b; ln -s {outside}/canary b/c",
    "odd-names": "touch -- -rf '*' $'a\\nb' $'\\xff' ' '",
    "fifo": "mkfifo f; mkdir g; mkfifo g/f",
}


@pytest.mark.parametrize("probe", REMOVED)
def test_what_a_build_left_is_measured_listed_and_removed(outside: Outside, probe: str) -> None:
    kept, _ = built(REMOVED[probe].replace("{outside}", str(outside.folder)))
    assert kept.info.tag in [one.key for one in keeping.kept()]
    keeping.remove(kept.info.tag)
    assert not kept.folder.exists()
    assert (outside.folder / "canary").exists()


@pytest.mark.parametrize("probe", REMOVED)
def test_what_a_trial_left_is_removed(outside: Outside, plain: keeping.KeptVenv, probe: str) -> None:
    ran(plain, REMOVED[probe].replace("{outside}", str(outside.folder)))
    mine = f"-{os.getpid()}-"
    assert [path for path in Path("/tmp").glob("reprokit-*") if mine in path.name] == []
    assert (outside.folder / "canary").exists()


PLANTED = {
    "python": 'rm "$VENV/bin/python"*; printf "%s" "{payload}" > "$VENV/bin/python"; chmod 755 "$VENV/bin/python"',
    "python-loop": 'ln -sfn python "$VENV/bin/python"',
    "sitecustomize": 'echo "open(\'{outside}/pwned\', \'w\')" > "$(echo "$VENV"/lib/python3*/site-packages)/sitecustomize.py"',
    "pth": 'echo "import os; open(\'{outside}/pwned\', \'w\')" > "$(echo "$VENV"/lib/python3*/site-packages)/x.pth"',
    "pyvenv-cfg": 'echo "home = {outside}" > "$VENV/pyvenv.cfg"',
    "description": "d=${VENV%/venv}; ln -s {outside}/pwned $d/environment.json || ln -s {outside}/pwned $d/.environment.json",
    "setuid-shell": 'cp /bin/sh "$VENV/bin/shell"; chmod 6755 "$VENV/bin/shell"',
    "tools": 'mkdir -p "$TOOLS"; printf "%s" "{payload}" > "$TOOLS/bash"; chmod 755 "$TOOLS/bash"',
    "cuda-link": 'rmdir "$CUDA"; ln -s {outside} "$CUDA"',
    "workspace-link": 'rmdir "$WORK"; ln -s {outside} "$WORK"',
}


@pytest.mark.parametrize("probe", PLANTED)
def test_what_a_build_plants_is_run_by_no_one_outside(outside: Outside, probe: str) -> None:
    payload = f"id -u > {outside.folder}/pwned"
    script = PLANTED[probe].replace("{payload}", payload).replace("{outside}", str(outside.folder))
    kept, _ = built(f"({script}) || true")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{kept.folder}/venv/bin:{os.environ['PATH']}")
        list(host.pythons())
    keeping.kept()
    ran(kept, "true")
    assert not (outside.folder / "pwned").exists()
    files = [path for path in kept.folder.rglob("*") if not path.is_symlink()]
    assert [
        path for path in files if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID) and path.stat().st_uid == 0
    ] == []


def test_an_interpreter_that_was_planted_runs_in_a_sandbox_alone(outside: Outside) -> None:
    """As a version before this one let a package do."""
    planted = keeping.pythons() / "cpython-3.99" / "bin" / "python3.99"
    planted.parent.mkdir(parents=True)
    version = '["3.99.0", "/x/python3.99", "/x", "id: %s", true]'
    planted.write_text(f"touch {outside.folder}/pwned\nprintf '{version}\\n' $(id -u)\n")
    planted.chmod(0o755)
    (found,) = [one for one in host.pythons() if one.version == "3.99.0"]
    assert found.build == f"id: {outside.values['uid']}"
    assert not (outside.folder / "pwned").exists()
    remove_tree(keeping.pythons())


# --- what runs on, and what is too much -------------------------------------------------------------------------------

DAEMONS = {
    "setsid": "setsid sleep {number} & sleep 0.2",
    "double-fork": "(setsid bash -c 'trap \"\" TERM HUP INT; sleep {number} & disown; sleep {number}' &) ; sleep 0.2",
    "nohup": "nohup sleep {number} > /dev/null 2>&1 & disown; sleep 0.2",
    "many": "for n in 1 2 3 4 5 6 7 8; do (setsid sleep {number} &); done; sleep 0.2",
    "signals-to-all": "(setsid bash -c 'trap \"\" TERM; sleep {number}' &) ; sleep 0.2; kill -TERM -1; sleep 1",
    "kills-process-1": "(setsid sleep {number} &); kill -9 1; kill -9 $PPID; sleep 0.2",
}


@pytest.mark.parametrize("probe", DAEMONS)
def test_nothing_runs_on_after_a_trial(plain: keeping.KeptVenv, probe: str) -> None:
    number = f"9{uuid.uuid4().int % 10**8:08d}"
    ran(plain, DAEMONS[probe].replace("{number}", number))
    assert running(number) == []


@pytest.mark.parametrize("probe", sorted(DAEMONS.keys() - {"signals-to-all"}))  # that one ends its own build
def test_nothing_runs_on_after_a_build(cache: Path, probe: str) -> None:
    number = f"9{uuid.uuid4().int % 10**8:08d}"
    built(f"( {DAEMONS[probe].replace('{number}', number)} ) || true")
    assert running(number) == []


def test_a_trial_that_forks_without_end_is_held(plain: keeping.KeptVenv) -> None:
    if why := host.powers().pids:
        pytest.skip(why)
    ending, _ = ran(plain, "f() { f | f & }; f; sleep 1; exit 5", pids=64, timeout=10.0)
    assert ending.seconds < 10 or ending.timed_out
    assert running("f") == []


@pytest.mark.skipif(os.getuid() != 0, reason="what an ordinary user can read, its sandbox can where it is mounted")
def test_root_of_a_sandbox_is_unprivileged_outside(outside: Outside, plain: keeping.KeptVenv) -> None:
    data = outside.folder.parent / "roots-own"
    data.mkdir()
    (data / "secret").write_text("CANARY")
    (data / "secret").chmod(0o600)
    mount = Mount(source=data, target="/workspace/data")
    ending, printed = ran(plain, "id -u; id -un; echo $HOME; cat data/secret", user="root", mounts=(mount,))
    assert printed.split()[:3] == ["0", "root", "/root"]
    assert (ending.exit_code, "CANARY" in printed) == (1, False)


def test_an_untrusted_build_gets_no_setting_of_the_site(
    outside: Outside, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://me:CANARY@index.invalid/simple")
    (tmp_path / "netrc").write_text("machine index.invalid login me password CANARY\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    said: list[Progress] = []
    script = "env; cat /tmp/*/secrets/* $CONTEXT/../secrets/* $PIP_CONFIG_FILE $NETRC /dev/null || true"
    asked = quick(script, trust=Trust.STRANGER)
    building.build(asked, sites.current(), said.append, threading.Event())
    assert "CANARY" not in "".join(one.log for one in said)


def test_an_untrusted_build_has_no_network(outside: Outside) -> None:
    _, steps = built(outside.script(probes.LOOPBACK), trust=Trust.STRANGER)
    assert all("PWNED" not in text for text in printed(steps).values())


# --- who may use it ---------------------------------------------------------------------------------------------------


def test_root_is_refused_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setenv("REPROKIT_VENV_AS_ROOT", "no")
    host.refusal.cache_clear()
    try:
        with pytest.raises(EngineError, match=r"does not run as root.*REPROKIT_VENV_AS_ROOT=yes"):
            registry.make("venv")
    finally:
        host.refusal.cache_clear()


def test_without_bubblewrap_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    host.refusal.cache_clear()
    try:
        with pytest.raises(EngineError, match=r"needs bubblewrap.*apt-get install bubblewrap"):
            registry.make("venv")
    finally:
        host.refusal.cache_clear()


ORDINARY = """
from tests.integration.test_venv_hostile import built, ran
kept, said = built("id -u; cat CANARY 2>&- || echo refused")
ending, printed = ran(kept, "exec 2>&-; id -u; touch $VIRTUAL_ENV/x || echo refused; cat CANARY; kill -9 1; unshare -U echo PWNED; exit 3")
print([said.split(), printed.split(), ending.exit_code])
"""


def test_an_ordinary_user_has_the_same_sandbox(outside: Outside) -> None:
    """One that the tests, as root, become: with the system's Python, since root's own may be out of reach."""
    if os.getuid() != 0:
        pytest.skip("the other tests are an ordinary user's already")
    home = outside.folder / "home"
    home.mkdir(exist_ok=True)
    os.chown(home, 54321, 54321)
    words = ["setpriv", "--reuid", "54321", "--regid", "54321", "--clear-groups", "env", "-i", f"HOME={home}"]
    words += [f"PATH={os.defpath}", f"PYTHONPATH={':'.join([str(Path.cwd()), *sys.path])}", "/usr/bin/python3", "-c"]
    if subprocess.run(
        [*words, "import reprokit.engine.venv.host, pytest"], capture_output=True, check=False
    ).returncode:
        pytest.skip("the packages of these tests are out of another user's reach, or the system's Python is too old")
    script = ORDINARY.replace("CANARY", str(outside.folder / "canary"))
    done = subprocess.run([*words, script], capture_output=True, text=True, check=True, cwd=outside.folder)
    assert "CANARY" not in done.stdout
    said, printed, code = ast.literal_eval(done.stdout)
    assert (said[-2:], printed, code) == (["54321", "refused"], ["54321", "refused"], 3)
