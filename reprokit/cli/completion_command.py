"""``reprokit completion``."""

from __future__ import annotations

import os
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from reprokit.cli import options
from reprokit.core.terminal import echo, echo_data

PLACES = {
    "bash": ("XDG_DATA_HOME", ".local/share", "bash-completion/completions/reprokit"),
    "zsh": ("XDG_DATA_HOME", ".local/share", "zsh/site-functions/_reprokit"),
    "fish": ("XDG_CONFIG_HOME", ".config", "fish/completions/reprokit.fish"),
}
"""Where each shell finds completions of a user: a variable, what it is by default below the home, and the file."""
THEN = {
    "bash": "new shells have it, where the package bash-completion is installed; otherwise add to ~/.bashrc: source {}",
    "zsh": "add to ~/.zshrc, before compinit: fpath+=({})",
    "fish": "new shells have it",
}


@click.command(
    "completion",
    epilog="""\b
Examples:
  reprokit completion bash --install
  source <(reprokit completion zsh)         # for this shell alone
""",
)
@click.argument("shell", type=click.Choice([*PLACES]))
@click.option("--install", is_flag=True, help="Write it to where the shell looks for completions of this user.")
def command(shell: str, install: bool) -> int:
    """Print what completes commands, options, values of axes and files in a shell."""
    found = get_completion_class(shell)
    assert found is not None
    script = found(click.get_current_context().find_root().command, {}, "reprokit", "_REPROKIT_COMPLETE").source()
    if not install:
        echo_data(script)
        return 0
    variable, usual, name = PLACES[shell]
    path = Path(os.environ.get(variable) or Path.home() / usual) / name
    options.write_file(path, script)
    echo(f"{path}: {THEN[shell].format(path.parent if shell == 'zsh' else path)}")
    return 0
