"""The sandbox of the embedded engine without one: the filter of calls, the mounts, and files beside hostile links."""

from __future__ import annotations

import errno
import os
import struct
from pathlib import Path

import pytest

from reprokit.core.errors import EngineError, Unsupported, UsageError
from reprokit.core.leftovers import remove_tree
from reprokit.engine.site import config
from reprokit.engine.venv import beneath, bubblewrap, host, inside
from reprokit.engine.venv.bubblewrap import SandboxMount, SandboxProgram

ALLOWED = 0x7FFF0000
KILLED = 0x80000000
MACHINES = sorted(inside.KEYS)


def refused(number: int) -> int:
    return 0x00050000 | number


def judged(text: bytes, call: int, *arguments: int, arch: int) -> int:
    """What a filter says of a call: the few instructions that ours has, as the kernel executes them."""
    data = struct.pack("IIQ6Q", call, arch, 0, *arguments, *[0] * (6 - len(arguments)))
    steps = [struct.unpack_from("HBBI", text, place) for place in range(0, len(text), 8)]
    place = loaded = 0
    while True:
        code, yes, no, value = steps[place]
        place += 1
        if code == 0x20:
            loaded = struct.unpack_from("I", data, value)[0]
        elif code == 0x06:
            return int(value)
        else:
            place += yes if (loaded == value if code == 0x15 else loaded >= value) else no


@pytest.mark.parametrize("unix", [True, False])
@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_refuses_what_no_namespace_keeps_apart(machine: str, unix: bool) -> None:
    text, arch = inside.call_filter(machine, unix=unix), inside.AUDIT_ARCH[machine]
    for call in (*inside.KEYS[machine], *inside.KERNEL[machine]):
        assert judged(text, call, arch=arch) == refused(errno.EPERM)
    for call in inside.RINGS:
        assert judged(text, call, arch=arch) == refused(errno.ENOSYS)
    families = {1: ALLOWED if unix else refused(errno.EAFNOSUPPORT), 2: ALLOWED, 10: ALLOWED, 16: ALLOWED}
    for family in range(48):
        expected = families.get(family, refused(errno.EAFNOSUPPORT))
        assert judged(text, inside.SOCKET[machine], family, 1, 0, arch=arch) == expected
    for request, expected in ((0x5412, refused(errno.EPERM)), (0x541C, refused(errno.EPERM)), (0x5413, ALLOWED)):
        assert judged(text, inside.IOCTL[machine], 0, request, arch=arch) == expected
        assert judged(text, inside.IOCTL[machine], 0, request | 7 << 32, arch=arch) == expected, (
            "the kernel takes 32 bits"
        )
    for call in (0, 1, 57, 59, 100, 220, 435):
        if call not in (inside.IOCTL[machine], inside.SOCKET[machine], *inside.KEYS[machine], *inside.KERNEL[machine]):
            assert judged(text, call, arch=arch) == ALLOWED


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_of_another_architecture_end_the_program(machine: str) -> None:
    assert judged(inside.call_filter(machine, unix=True), 1, arch=0x40000003) == KILLED


def test_calls_of_the_x32_architecture_do_not_exist() -> None:
    text, arch = inside.call_filter("x86_64", unix=True), inside.AUDIT_ARCH["x86_64"]
    assert judged(text, inside.X32 | 250, arch=arch) == refused(errno.ENOSYS)


# --- files beside links -----------------------------------------------------------------------------------------------

WAYS = {
    "link-to-a-folder": lambda work, out: (work / "a").symlink_to(out),
    "relative-link": lambda work, out: (work / "a").symlink_to(os.path.relpath(out, work)),
    "link-below": lambda work, out: ((work / "a").mkdir(), (work / "a" / "b").symlink_to(out)),
    "link-to-itself": lambda work, out: (work / "a").symlink_to("a"),
    "link-to-nothing": lambda work, out: (work / "a").symlink_to(out / "none"),
    "link-to-the-root": lambda work, out: (work / "a").symlink_to("/"),
    "file": lambda work, out: (work / "a").write_text("x"),
    "fifo": lambda work, out: os.mkfifo(work / "a"),
}


@pytest.fixture
def folders(tmp_path: Path) -> tuple[Path, Path]:
    work, out = tmp_path / "work", tmp_path / "out"
    work.mkdir()
    out.mkdir()
    (out / "b").mkdir()
    (out / "b" / "c").write_text("theirs")
    return work, out


def content(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("probe", WAYS)
def test_no_file_is_written_through_a_link(folders: tuple[Path, Path], probe: str) -> None:
    work, out = folders
    WAYS[probe](work, out)
    before = content(out)
    with pytest.raises(Unsupported, match=r"^a.* is a link or a file that a build left"):
        beneath.write(work, "a/b/c", b"pwned", 0o644)
    with pytest.raises(Unsupported, match="links are not followed"):
        beneath.make_folder(work, "a/b/new")
    with pytest.raises(Unsupported, match="links are not followed"):
        beneath.make_file(work, "a/b/new")
    assert content(out) == before


@pytest.mark.parametrize("probe", ["link", "link-to-nothing", "link-to-itself", "hard-link", "fifo", "shut"])
def test_a_file_takes_the_place_of_another(folders: tuple[Path, Path], probe: str) -> None:
    work, out = folders
    place, theirs = work / "a", out / "b" / "c"
    if probe == "link":
        place.symlink_to(theirs)
    elif probe == "link-to-nothing":
        place.symlink_to(out / "none")
    elif probe == "link-to-itself":
        place.symlink_to("a")
    elif probe == "hard-link":
        place.hardlink_to(theirs)
    elif probe == "fifo":
        os.mkfifo(place)
    else:
        place.touch(0)
    beneath.write(work, "a", b"ours", 0o640, modified=1000)
    assert (place.is_symlink(), place.read_text(), place.stat().st_mode & 0o7777) == (False, "ours", 0o640)
    assert place.stat().st_mtime == 1000
    assert content(out) == {"b/c": "theirs"}


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "..", "a/.."])
def test_no_path_leads_out(folders: tuple[Path, Path], path: str) -> None:
    with pytest.raises(Unsupported, match=r"not below the work folder|cannot be written"):
        beneath.write(folders[0], path, b"pwned", 0o644)


def test_a_folder_is_not_replaced_by_a_file(folders: tuple[Path, Path]) -> None:
    (folders[0] / "a" / "b").mkdir(parents=True)
    with pytest.raises(Unsupported, match="a cannot be written to the work folder"):
        beneath.write(folders[0], "a", b"x", 0o644)


def test_a_place_to_mount_on_is_not_a_link(folders: tuple[Path, Path]) -> None:
    work, out = folders
    beneath.make_file(work, "d/file")
    beneath.make_file(work, "d/file")
    assert (work / "d" / "file").read_text() == ""
    (work / "link").symlink_to(out / "b" / "c")
    with pytest.raises(Unsupported, match="links are not followed"):
        beneath.make_file(work, "link")


def test_a_tree_of_any_depth_is_removed(tmp_path: Path) -> None:
    top = tmp_path / "top"
    top.mkdir()
    current = os.open(top, os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=current)
        below = os.open("d", os.O_RDONLY, dir_fd=current)
        os.close(current)
        current = below
    os.close(current)
    assert remove_tree(top)
    assert not top.exists()


# --- what is shown ----------------------------------------------------------------------------------------------------


def arguments(
    monkeypatch: pytest.MonkeyPatch, *mounts: SandboxMount, cut_off: bool = True, stage: str = ""
) -> list[str]:
    monkeypatch.setattr(bubblewrap, "refusal", lambda: "")
    monkeypatch.setattr(bubblewrap.shutil, "which", lambda name: f"/usr/bin/{name}")
    return bubblewrap.arguments(SandboxProgram(command=("true",), environ={}, mounts=mounts, cut_off=cut_off), stage)[0]


def pairs(words: list[str], option: str) -> dict[str, str]:
    """target -> source of an option."""
    return {words[number + 2]: words[number + 1] for number, word in enumerate(words) if word == option}


@pytest.mark.parametrize(
    "option",
    [
        "--unshare-user",
        "--unshare-ipc",
        "--unshare-pid",
        "--unshare-uts",
        "--unshare-cgroup",
        "--unshare-net",
        "--disable-userns",
        "--new-session",
        "--die-with-parent",
        "--as-pid-1",
    ],
)
def test_every_program_is_apart(monkeypatch: pytest.MonkeyPatch, option: str) -> None:
    assert option in arguments(monkeypatch)


@pytest.mark.parametrize(
    "place",
    [
        "/",
        "/home",
        "/root",
        "/run",
        "/var/run",
        "/tmp",
        "/opt",
        "/etc",
        "/var",
        "/var/lib",
        "/sys",
        "/dev",
        "/proc",
        "/etc/ssl",
        "/etc/ssh",
        "/boot",
        "/srv",
        "/mnt",
    ],
)
def test_nothing_of_the_host_is_shown_that_is_not_named(monkeypatch: pytest.MonkeyPatch, place: str) -> None:
    words = arguments(monkeypatch, cut_off=False)
    for option in ("--bind", "--dev-bind", "--ro-bind"):
        assert place not in pairs(words, option)
        assert place not in pairs(words, option).values()
    assert not pairs(words, "--bind")


def test_root_shows_copies_of_places_that_no_one_reaches(monkeypatch: pytest.MonkeyPatch) -> None:
    mount = SandboxMount(source="/root/data", target="/workspace/data", kind="read-only")
    words = arguments(monkeypatch, mount, stage="/stage")
    assert pairs(words, "--ro-bind")["/workspace/data"].startswith("/stage/")
    assert "/root/data" not in words


def test_a_place_in_a_folder_of_the_system_is_made_in_a_copy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    words = arguments(monkeypatch, SandboxMount(source=str(tmp_path), target="/usr/app"))
    shown = pairs(words, "--ro-bind")
    assert pairs(words, "--bind")["/usr/app"] == str(tmp_path)
    assert "/usr/local" not in shown, "it is empty, as everywhere"
    assert words[words.index("--remount-ro", words.index("/usr/app")) :].count("/usr/local") == 1
    assert shown["/usr/bin"] == "/usr/bin"


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        ("bubblewrap 0.8.0", ""),
        ("bubblewrap 0.11.0", ""),
        ("bubblewrap 1.0", ""),
        ("bubblewrap 0.6.1", "needs bubblewrap 0.8 or newer; BWRAP is 0.6"),
        ("", "needs bubblewrap 0.8 or newer; BWRAP is of no known version"),
        (None, "was not found: apt-get install bubblewrap"),
    ],
)
def test_which_bubblewrap_serves(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, answer: str | None, refusal: str
) -> None:
    program = tmp_path / "bwrap"
    if answer is not None:
        program.write_text(f"#!/bin/sh\necho {answer}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}")
    found = bubblewrap.refusal()
    assert refusal.replace("BWRAP", str(program)) in found
    assert bool(found) == bool(refusal)


@pytest.mark.parametrize(("told", "refused"), [("", True), ("no", True), ("yes", False), ("1", False), ("true", False)])
def test_root_has_to_allow_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, told: str, refused: bool) -> None:
    monkeypatch.setattr(os, "getuid", lambda: 0)
    monkeypatch.setattr(host.bubblewrap, "refusal", lambda: "the next thing that is looked at")
    monkeypatch.setenv("REPROKIT_VENV_AS_ROOT", told)
    monkeypatch.setenv("REPROKIT_CONFIG", "/dev/null")
    host.refusal.cache_clear()
    try:
        assert ("does not run as root by default" in host.refusal()) == refused
    finally:
        host.refusal.cache_clear()


def test_a_word_that_is_neither_yes_nor_no_is_wrong(tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match="REPROKIT_VENV_AS_ROOT: venv_as_root: expected true or false; found 'perhaps'"
    ):
        config.load({"REPROKIT_VENV_AS_ROOT": "perhaps", "REPROKIT_CONFIG": "/dev/null"}, tmp_path)


def test_without_a_sandbox_nothing_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    from reprokit.engine import registry

    monkeypatch.setattr(host, "refusal", lambda: "--engine venv needs bubblewrap")
    with pytest.raises(EngineError, match="needs bubblewrap"):
        registry.make("venv")
