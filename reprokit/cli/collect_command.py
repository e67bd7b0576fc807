"""``reprokit collect``."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import click

from reprokit.cli import OWN_VARIABLES, options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo
from reprokit.intake import captured_python

EXAMPLES = """\b
Examples:
  reprokit collect                                   # the environment, with all packages
  reprokit collect --for train.py                    # with the packages that train.py imports
  reprokit collect -- python train.py > report.md    # run what fails, too
  reprokit collect --with-source -- python train.py  # with the text of train.py
  reprokit collect --program > collect.py            # for a machine without reprokit: python3 collect.py
"""


@click.command("collect", context_settings={"allow_interspersed_args": False}, epilog=EXAMPLES)
@click.option(
    "--for", "script", type=click.Path(exists=True, dir_okay=False), help="Only the packages that this program imports."
)
@click.option(
    "--python",
    "interpreter",
    metavar="PROGRAM",
    help="The Python whose packages are listed. By default that of COMMAND, else the first on PATH.",
)
@click.option(
    "--timeout",
    metavar="TIME",
    callback=options.unit("duration"),
    help="Stop COMMAND after this time, such as 90s or 5m; never by default.",
)
@click.option("--with-source", is_flag=True, help="Add the text of that program, or of the one that COMMAND runs.")
@click.option("--program", is_flag=True, help="Print the program that collects: one file for Python 3.6 and later.")
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[-- COMMAND...]")
def command(
    script: str | None,
    interpreter: str | None,
    timeout: float | None,
    with_source: bool,
    program: bool,
    words: tuple[str, ...],
) -> int:
    """Print the environment of this machine as Markdown, for a bug report.

    System, Python, packages, compilers, CUDA, GPUs, and the variables that matter. COMMAND is run, and its last lines
    of output and its exit status are added. Names of users and hosts, home directories and secrets are left out; read
    the text before you send it. `reprokit new --from` makes a case of it.
    """
    if program:
        options.write_file(Path("-"), captured_python.COLLECT.read_text(encoding="utf-8"))
        return 0
    python = shutil.which(interpreter) if interpreter else captured_python.interpreter_for(words)
    if python is None:
        raise UsageError(f"--python {interpreter}: no such program")
    if interpreter and not captured_python.can_collect(python):
        raise UsageError(f"--python {interpreter}: it is not a Python 3.6 or later")
    echo(f"the packages are those of {python}; --python names another one", err=True)
    arguments = [f"--timeout={timeout or 0:g}", *([f"--for={script}"] if script else [])]
    arguments += [*(["--with-source"] if with_source else []), "--", *words]
    environ = {name: value for name, value in os.environ.items() if name not in OWN_VARIABLES}
    try:
        process = subprocess.Popen([python, str(captured_python.COLLECT), *arguments], env=environ)
    except OSError as error:
        raise UsageError(f"{python}: {error.strerror}; name another Python with --python") from None
    while True:
        try:
            return process.wait()
        except KeyboardInterrupt:
            continue  # it has it, too, and reports how a command that hangs was interrupted
