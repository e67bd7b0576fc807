"""``reprokit schema``."""

from __future__ import annotations

import json

import click

from reprokit.core.terminal import echo_data
from reprokit.environment.cases import json_schema


@click.command(
    "schema",
    epilog="Example: reprokit schema > reprokit.schema.json, then begin a case with "
    "`# yaml-language-server: $schema=reprokit.schema.json`",
)
def command() -> int:
    """Print the JSON Schema of case files: editors complete and check cases with it."""
    echo_data(json.dumps(json_schema(), indent=2, ensure_ascii=False))
    return 0
