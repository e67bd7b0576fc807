"""``reprokit doctor``."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING

import click

from reprokit.cli import doctor, options
from reprokit.cli.display.plain import columns
from reprokit.cli.doctor.ground import Findings
from reprokit.core.terminal import echo, style
from reprokit.core.text import pluralize

if TYPE_CHECKING:
    from reprokit.cli.doctor import Finding

COLOURS = {"ok": "green", "info": "cyan", "warn": "yellow", "fail": "red"}
WIDEST = 100
EXAMPLES = """\b
Examples:
  reprokit doctor
  reprokit doctor --json | jq '.findings[] | select(.status != "ok")'

\b
Exit status: 0 nothing prevents runs (there may be warnings), 2 wrong usage,
3 something prevents runs.
"""


@click.command("doctor", epilog=EXAMPLES)
@options.json_option("Print the findings as JSON (format reprokit-doctor/v1).")
def command(as_json: bool) -> int:
    """Check this host for problems: engine, disk, store, GPU, CUDA, networks, locks, leftovers.

    Each problem comes with a suggested fix. Nothing is changed, and it takes less than a minute.
    """
    findings = doctor.examine(doctor.survey())
    if as_json:
        options.echo_document(Findings(tuple(findings)))
    else:
        for line in lines(findings, min(columns(), WIDEST)):
            echo(line)
    return doctor.exit_status(findings)


def lines(findings: list[Finding], width: int) -> list[str]:
    """The findings by check, wrapped at ``width`` columns, each with its fix below, on one line to copy."""
    found: list[str] = []
    check = ""
    for finding in findings:
        if finding.check != check:
            check = finding.check
            found.append(style(check, bold=True))
        status = finding.status.value
        text = textwrap.wrap(finding.text, max(30, width - 8), break_long_words=False, break_on_hyphens=False)
        mark = style(f"{status:4}", fg=COLOURS[status])
        found += [f"  {mark}  {line}" if not number else f"{'':8}{line}" for number, line in enumerate(text)]
        if finding.fix and not finding.fix.startswith(_SENTENCES):
            found.append(f"{'':8}{style('$', dim=True)} {finding.fix}")
        elif finding.fix:
            # An address stays on one line, however long it is.
            room = max(30, width - 10, len(finding.fix) if "://" in finding.fix else 0)
            words = textwrap.wrap(finding.fix, room, break_long_words=False, break_on_hyphens=False)
            found += [
                f"{'':8}{style('>' if not number else ' ', dim=True)} {line}" for number, line in enumerate(words)
            ]
    return [*found, "", summary(findings)]


_SENTENCES = ("see ", "set ", "fix ", "make ", "boot ")  # and not a shell command


def summary(findings: list[Finding]) -> str:
    """The number of failures and warnings, on one line."""
    counts = {name: sum(finding.status.value == name for finding in findings) for name in COLOURS}
    if counts["fail"]:
        words = f"{pluralize(counts['fail'], 'thing')} prevent{'s' if counts['fail'] == 1 else ''} runs"
        return style(words, fg="red", bold=True) + (
            f", {pluralize(counts['warn'], 'warning')}" if counts["warn"] else ""
        )
    if counts["warn"]:
        return style(f"nothing prevents runs; {pluralize(counts['warn'], 'warning')}", fg="yellow")
    return style("no problems found", fg="green")
