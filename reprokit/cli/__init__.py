"""The command line. Each command lives in a module of its own, imported only when called: start-up stays short."""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from reprokit.core import interrupts
from reprokit.core.errors import CaseError, ReprokitError
from reprokit.core.terminal import echo, echo_traceback
from reprokit.core.version import __version__

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

GROUPS = {
    "Start": {
        "new": "Draft a case from a bug report, a failing command or a data set.",
        "collect": "Print this machine's environment for a report; run what fails.",
        "validate": "Check case files, and list their cells.",
    },
    "Run": {
        "run": "Build and run the cells of cases; judge which reproduce.",
        "shell": "Open a shell in the container of a cell.",
        "exec": "Run a command in the containers of cells; show what differs.",
        "render": "Write the Dockerfiles of cells, or a development container.",
        "lock": "Record every version and hash that cells are built from.",
    },
    "Look": {
        "list": "List cases with their last results; write their catalogue.",
        "show": "Show a recorded run, or one cell of it, and what explains it.",
        "history": "List runs, a case over time, or what has changed since when.",
        "diff": "Show how the environments of two cells or runs differ.",
        "report": "Write pages that open from the disk, JUnit, CSV, Markdown ...",
    },
    "Find the cause": {
        "isolate": "Find which differences of a failing cell are the cause.",
        "bisect": "Find the release or commit that broke or fixed a case.",
        "reduce": "Find the smallest case that still fails in the same way.",
        "audit": "Find which cases fail before their fix and pass with it.",
    },
    "Pass on": {
        "share": "Write the Markdown of an issue, with the case to run.",
        "bundle": "Write a cell with its image, to run without reprokit.",
    },
    "Keep": {
        "store": "Check, back up, merge and judge again the record of runs.",
        "gc": "Remove what reprokit keeps on this disk, to fit a budget.",
        "config": "Show the configuration, and where each value comes from.",
        "doctor": "Check this host for problems, and suggest fixes.",
        "integrate": "For editors, shells, coding agents and GitHub Actions.",
    },
}
"""The commands in the order in which a user needs them."""
COMMANDS = {name: text for commands in GROUPS.values() for name, text in commands.items()}
_SPEED = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}
"""Without this, pydantic looks for plugins and reads the metadata of every installed package."""
OWN_VARIABLES: dict[str, str] = {}
"""The environment variables that this process set for itself."""


class Commands(click.Group):
    """Imports a command's module only when that command is called; ``--help`` imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order in which a user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name, imported now."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"reprokit.cli.{cmd_name}_command").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """As click's, with a near match for a typo."""
        if args and args[0] not in COMMANDS:
            from reprokit.core.near_match import near

            ctx.fail(f"no command {args[0]!r}{near(args[0], COMMANDS, prefix='; ')}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands, without importing them, and the options of the program."""
        from click.shell_completion import CompletionItem

        found = [CompletionItem(name, help=text) for name, text in COMMANDS.items() if name.startswith(incomplete)]
        return found + click.Command.shell_complete(self, ctx, incomplete)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The commands in their groups, without importing them."""
        width = max(map(len, COMMANDS))
        for title, commands in GROUPS.items():
            formatter.write(f"{title}:\n")
            for name, text in commands.items():
                formatter.write(f"  {name:{width}}  {text}\n")


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    options_metavar="",
    epilog="`reprokit COMMAND --help` tells more, `reprokit --version` the version. `reprokit run ptxas-unknown-arch`, "
    "a case that comes with reprokit, is a good first one.",
)
@click.version_option(__version__, "-V", "--version", prog_name="reprokit")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Reproduce a reported bug in every environment that its case names, and record whether it fails."""
    # Before, while the command is imported, Ctrl-C ends the process: what is imported may swallow an exception.
    ctx.with_resource(interrupts.raised())
    if ctx.invoked_subcommand != "doctor" and any(name.startswith("REPROKIT_") for name in os.environ):
        from reprokit.engine.site.config import unknown_variables

        for _, sentence in unknown_variables(os.environ):
            echo(f"reprokit: {sentence}", err=True)


def main() -> None:
    """Entry point: errors meant for the user become one message and the contract's exit status."""
    # Start-up and exit make no garbage worth collecting; in between the collector is on.
    gc.disable()
    OWN_VARIABLES.update({name: value for name, value in _SPEED.items() if name not in os.environ})
    os.environ.update(OWN_VARIABLES)
    status = interrupts.exit_status(invoke(sys.argv[1:]))
    gc.freeze()
    if status >= interrupts.STATUS and interrupts.threads_are_left():
        _flush()
        os._exit(status)  # they wait for what does not answer
    sys.exit(status)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()


def invoke(arguments: list[str]) -> int:
    """Run one command line, given without the program's name; returns the exit status."""
    try:
        result: Any = cli.main(arguments, prog_name="reprokit", standalone_mode=False)
    except click.ClickException as error:
        said = io.StringIO()
        error.show(file=said)
        echo(said.getvalue(), err=True, nl=False)
        return error.exit_code
    except click.Abort:
        return 130
    except CaseError as error:
        count = len(error.problems)
        echo(f"{error}\n{count} problem{'s' if count != 1 else ''}", err=True)
        return error.exit_status
    except ReprokitError as error:
        echo(f"reprokit: {error}", err=True)
        return error.exit_status
    except KeyboardInterrupt:
        echo("reprokit: interrupted", err=True)
        return 130
    except BrokenPipeError:
        # The reader of our output has closed the pipe.
        sys.stderr.close()
        return 141
    except Exception as error:
        if interrupts.is_behind(error):
            echo("reprokit: interrupted", err=True)
            return 130
        # Of a word that is asked to be a file, or a folder that this user may not look into.
        if isinstance(error, OSError) and error.filename and error.errno in (errno.ENAMETOOLONG, errno.EACCES):
            from reprokit.core.text import one_line

            echo(f"reprokit: {one_line(str(error.filename), 100)}: {error.strerror}", err=True)
            return 2
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            what = f"{error.filename} cannot be written" if error.filename else "the output cannot be written"
            with suppress(OSError):  # where that is full, too
                echo(f"reprokit: {what}: {error.strerror}; make room, or write to another disk", err=True)
            return 3
        # Status 1 is a finding about the user's bug: a defect of reprokit must not look like one.
        echo_traceback()
        echo("reprokit: this is a defect of reprokit itself; please report it with the lines above", err=True)
        return 3
    return result if isinstance(result, int) else 0
