"""``reprokit integrate``: for editors, shells, coding agents and GitHub Actions."""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path

import click
from click.shell_completion import get_completion_class

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo, echo_data, json_text
from reprokit.core.version import install_line

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


class _Group(click.Group):
    """Imports the steps of workflows only when they are called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """With `github`."""
        return [*super().list_commands(ctx), "github"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name != "github":
            return super().get_command(ctx, cmd_name)
        group = import_module("reprokit.cli.github_steps").command
        assert isinstance(group, click.Group)
        return group


@click.group("integrate", cls=_Group)
def command() -> None:
    """What editors, shells, coding agents and GitHub Actions take of reprokit."""


@command.command(
    "schema",
    epilog="""\b
Examples:
  reprokit integrate schema > reprokit.schema.json  # `new` beside it begins drafts with the line for editors
  reprokit integrate schema result                  # of what `reprokit run --json` writes
  reprokit integrate schema --list                  # every name, and the commands that print such JSON
""",
)
@click.argument("name", default="case", metavar="[NAME]")
@click.option("--list", "listed", is_flag=True, help="List the names, each with the commands that print such JSON.")
def schema(name: str, listed: bool) -> int:
    """Print the JSON Schema of case files, with which editors complete and check cases, or of what --json prints."""
    from reprokit.cli import documents
    from reprokit.environment.cases import json_schema

    if listed:
        echo_data(f"{documents.CASE}: case files")
        echo_data(f"{documents.FACTS}: new --facts, which reads it")
        for each in documents.SCHEMAS:
            commands = [f"{one} --json" for one, names in documents.PRINTED.items() if each in names]
            echo_data(f"{each}: {', '.join(commands)}")
        return 0
    found = json_schema() if name == documents.CASE else documents.schema(name)
    echo_data(json_text(found), nl=False)
    return 0


@command.command(
    "completion",
    epilog="""\b
Examples:
  reprokit integrate completion bash --install
  source <(reprokit integrate completion zsh)         # for this shell alone
""",
)
@click.argument("shell", type=click.Choice([*PLACES]))
@click.option("--install", is_flag=True, help="Write it to where the shell looks for completions of this user.")
def completion(shell: str, install: bool) -> int:
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


@command.command(
    "mcp",
    epilog=f"""\b
Examples:
  {install_line("mcp")}
  claude mcp add reprokit -- reprokit integrate mcp   # or the settings of any other client: the same command
""",
)
@click.option(
    "--reviewed",
    metavar="sha256:...",
    multiple=True,
    help="Let the agent run an untrusted case whose text has this digest (several: any of them).",
)
@options.store_option
def mcp(reviewed: tuple[str, ...], store_folder: Path | None) -> int:
    """Serve reprokit's commands to a coding agent over the Model Context Protocol, on standard input and output.

    The tools draft, validate and run cases, read logs and environments, and search for the cause, each within a number
    of cells and minutes. An untrusted case is refused, unless you name its digest here after you have reviewed it.
    """
    store = options.obeyed_store(store_folder) if store_folder else None
    try:
        from reprokit.cli.agents import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise UsageError(f"reprokit integrate mcp needs the extra 'mcp': {install_line('mcp')}") from None
    server(store, reviewed).run("stdio")
    return 0
