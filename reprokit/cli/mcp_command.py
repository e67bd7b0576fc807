"""``reprokit mcp``."""

from __future__ import annotations

from pathlib import Path

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.version import install_line


@click.command(
    "mcp",
    epilog=f"""\b
Examples:
  {install_line("mcp")}
  claude mcp add reprokit -- reprokit mcp        # or the settings of any other client: command reprokit, argument mcp
""",
)
@click.option(
    "--reviewed",
    metavar="sha256:...",
    multiple=True,
    help="Let the agent run an untrusted case whose text has this digest (several: any of them).",
)
@options.store_option
def command(reviewed: tuple[str, ...], store_folder: Path | None) -> int:
    """Serve reprokit's commands to a coding agent over the Model Context Protocol, on standard input and output.

    The tools draft, validate and run cases, read logs and environments, and search for the cause, each within a number
    of cells and minutes. An untrusted case is refused, unless you name its digest here after you have reviewed it.
    """
    store = options.obeyed_store(store_folder) if store_folder else None
    try:
        from reprokit.cli.agents.server import server
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "mcp":
            raise
        raise UsageError(f"reprokit mcp needs the extra 'mcp': {install_line('mcp')}") from None
    server(store, reviewed).run("stdio")
    return 0
