"""What the shells complete, asked of the real ones where they are installed."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from reprokit.cli import invoke

ROOT = Path(__file__).parents[3]
ASKING = {
    "bash": """
source ./script
complete_words() { COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _reprokit_completion reprokit; echo ${COMPREPLY[@]}; }
complete_words reprokit bis
complete_words reprokit run --ref
complete_words reprokit validate --cells --cuda 11.
complete_words reprokit run --only
""",
    "zsh": """
compdef() { :; }
_describe() { print -rl -- ${(P)3}; }
compadd() { print -rl -- ${(P)5}; }
source ./script
ask() { words=("$@"); CURRENT=$#; _reprokit_completion; }
typeset -a words
commands[reprokit]=reprokit
ask reprokit bis
ask reprokit run --ref
ask reprokit validate --cells --cuda 11.
""",
    "fish": """
source ./script
complete -C "reprokit bis"
complete -C "reprokit run --ref"
complete -C "reprokit validate --cells --cuda 11."
""",
}


@pytest.mark.system
@pytest.mark.parametrize("shell", ASKING)
def test_a_shell_completes_commands_options_and_values(
    shell: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"needs {shell}")
    reprokit = tmp_path / "bin" / "reprokit"
    reprokit.parent.mkdir()
    reprokit.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT} exec {sys.executable} -m reprokit "$@"\n')
    reprokit.chmod(0o755)
    monkeypatch.setenv("PATH", str(reprokit.parent), prepend=":")
    words = ["reprokit", "integrate", "completion", shell]
    (tmp_path / "script").write_bytes(subprocess.run(words, capture_output=True, check=True).stdout)
    done = subprocess.run([program, "-c", ASKING[shell]], cwd=tmp_path, capture_output=True, text=True, check=False)
    said = done.stdout
    assert "bisect" in said, (said, done.stderr)
    assert "--refresh-bases" in said
    assert "11.8" in said


@pytest.mark.parametrize(
    ("shell", "path", "then"),
    [
        ("bash", ".local/share/bash-completion/completions/reprokit", "source {}"),
        ("zsh", ".local/share/zsh/site-functions/_reprokit", "fpath+=("),
        ("fish", ".config/fish/completions/reprokit.fish", "new shells have it"),
    ],
)
def test_it_is_installed_where_the_shell_looks(
    shell: str,
    path: str,
    then: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert invoke(["integrate", "completion", shell]) == 0
    script = capsys.readouterr().out.strip()
    assert invoke(["integrate", "completion", shell, "--install"]) == 0
    said = capsys.readouterr().out
    assert str(tmp_path / path) in said
    assert then.format(tmp_path / path) in said
    assert (tmp_path / path).read_text().strip() == script
    assert "_REPROKIT_COMPLETE" in script
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "data"))
    assert invoke(["integrate", "completion", shell, "--install"]) == 0
    assert str(tmp_path / "data") in capsys.readouterr().out


def test_the_commands_are_completed_without_importing_them() -> None:
    code = (
        "import sys, os\n"
        "os.environ.update(_REPROKIT_COMPLETE='bash_complete', COMP_WORDS='reprokit b', COMP_CWORD='1')\n"
        "from reprokit.cli import cli\n"
        "try: cli.main([], prog_name='reprokit')\n"
        "except SystemExit: print([name for name in sys.modules if name.endswith('_command')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.splitlines() == ["plain,bisect", "plain,bundle", "[]"]
