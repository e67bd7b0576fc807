"""The command line. Each command lives in a module of its own, imported only when called: start-up stays short."""

from __future__ import annotations

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

COMMANDS = {
    "run": "Build and run the cells of cases, and judge whether the failure reproduces.",
    "new": "Draft a case from a bug report: a file, an issue, standard input.",
    "capture": "Run a command that fails on this machine, and write a case from what it shows.",
    "collect": "Print the environment of this machine for a bug report, and run what fails.",
    "import": "Write cases of the bugs in a data set that others collected: BugsInPy, SWE-bench.",
    "validate": "Check case files; report every error of every file at once, with its position.",
    "matrix": "Show the cells of a case, after selection.",
    "render": "Write the Dockerfile and build context of cells to a folder.",
    "export": "Write a cell as a folder that editors open as a development container.",
    "build": "Build the images of cells without running them.",
    "shell": "Open a shell in the container of a cell, with the command of the case at hand.",
    "exec": "Run a command in the container of one cell, or of many, and show what differs.",
    "isolate": "Find which differences between a failing and a passing cell are the cause.",
    "bisect": "Find the release or commit since which a case is broken or fixed.",
    "reduce": "Find the smallest case that still fails in the same way, and write it.",
    "explain": "Explain which difference between the decided cells matters.",
    "lock": "Record every version and hash that cells are built from, in a file beside the case.",
    "diff": "Show how the environments of two cells, or of two runs, differ.",
    "list": "List cases with their last results.",
    "index": "Write the catalogue page of a folder of cases.",
    "merge": "Merge the stores of several jobs into one, with a run of all their cells.",
    "history": "List runs, or the cells of a case over time and what changed when.",
    "changes": "Show which cells have changed since a date or a run: appeared, gone, back.",
    "store": "Check, back up, export, import and rebuild the record of runs.",
    "rejudge": "Judge recorded cells again from their logs, and list which verdicts would change.",
    "show": "Show a recorded run, or one cell of it with its log and environment.",
    "report": "Write a report: pages that open from the disk, or one run in another format.",
    "share": "Write the Markdown of an issue: verdicts, what they explain, and the case to run.",
    "bundle": "Write a recorded cell with its image to an archive that needs Docker or Podman alone.",
    "gc": "Remove what reprokit keeps on this disk, until it fits into a budget.",
    "doctor": "Check this host for problems, and suggest fixes.",
    "config": "Show the configuration: each value, and where it comes from.",
    "schema": "Print the JSON Schema of case files, for editors.",
    "completion": "Print or install what completes commands in bash, zsh and fish.",
    "mcp": "Serve these commands to a coding agent, over the Model Context Protocol.",
    "github": "Steps that workflows on GitHub Actions call.",
}

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

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands, without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.command(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog="A bug is one YAML file. `reprokit run ptxas-unknown-arch`, which comes with reprokit, is a good first one.",
)
@click.version_option(__version__, "-V", "--version", prog_name="reprokit")
@click.pass_context
def cli(ctx: click.Context) -> None:
    """Reproduce a reported bug in every environment that its case names, and record whether it fails."""
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
    with interrupts.raised():
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
    except Exception:
        # Status 1 is a finding about the user's bug: a defect of reprokit must not look like one.
        echo_traceback()
        echo("reprokit: this is a defect of reprokit itself; please report it with the lines above", err=True)
        return 3
    return result if isinstance(result, int) else 0
