"""dockerfiles/rpm-install.sh with programs that stand in for dnf and yum: what they are called with, and what fails."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from reprokit.core.files import shipped

SCRIPT = shipped("dockerfiles") / "rpm-install.sh"
BASH = shutil.which("sh")


def installs(folder: Path, *packages: str, has: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """The script, where these programs are all that there are."""
    for name, body in has.items():
        program = folder / name
        program.write_text(f"#!{BASH}\n{body}\n")
        program.chmod(0o755)
    return subprocess.run(
        [str(BASH), str(SCRIPT), *packages], env={"PATH": str(folder)}, capture_output=True, text=True, check=False
    )


def test_dnf_installs_without_weak_dependencies(tmp_path: Path) -> None:
    done = installs(tmp_path, "gcc-c++", "make", has={"dnf": 'echo "dnf $*"', "yum": "exit 9"})
    words = "dnf -y --setopt=tsflags=nodocs --setopt=install_weak_deps=False install gcc-c++ make\n"
    assert (done.returncode, done.stdout) == (0, words)


def test_what_dnf_says_of_its_failure_is_the_steps(tmp_path: Path) -> None:
    assert installs(tmp_path, "wibble", has={"dnf": "exit 1"}).returncode == 1


@pytest.mark.parametrize(("known", "status", "words"), [("a b", 0, ""), ("a", 1, "yum did not find the package b")])
def test_yum_succeeds_only_where_all_packages_are_there(tmp_path: Path, known: str, status: int, words: str) -> None:
    rpm = f'for last; do :; done; case " {known} " in *" $last "*) ;; *) exit 1 ;; esac'
    done = installs(tmp_path, "a", "@tools", "b", has={"yum": 'echo "yum $*"', "rpm": rpm})
    assert done.stdout.startswith("yum -y --setopt=tsflags=nodocs install a @tools b\n")
    assert (done.returncode, words in done.stderr) == (status, True)


def test_an_image_with_neither_fails_with_the_reason(tmp_path: Path) -> None:
    done = installs(tmp_path, "wibble", "wobble", has={})
    assert (done.returncode, done.stderr) == (
        1,
        "error: this image has neither dnf nor yum, by which wibble wobble would be installed\n",
    )
