"""``reprokit schema``."""

from __future__ import annotations

import json

import click

from reprokit.cli import documents
from reprokit.core.terminal import echo_data
from reprokit.environment.cases import json_schema


@click.command(
    "schema",
    epilog="""\b
Examples:
  reprokit schema > reprokit.schema.json  # `new` and `capture` beside it begin drafts with the line for editors
  reprokit schema result                  # of what `reprokit run --json` writes
  reprokit schema --list                  # every name, and the commands that print such JSON
""",
)
@click.argument("name", default=documents.CASE, metavar="[NAME]")
@click.option("--list", "listed", is_flag=True, help="List the names, each with the commands that print such JSON.")
def command(name: str, listed: bool) -> int:
    """Print the JSON Schema of case files, with which editors complete and check cases, or of what --json prints."""
    if listed:
        echo_data(f"{documents.CASE}: case files")
        echo_data(f"{documents.FACTS}: new --facts, which reads it")
        for each in documents.SCHEMAS:
            commands = [f"{one} --json" for one, names in documents.PRINTED.items() if each in names]
            echo_data(f"{each}: {', '.join(commands)}")
        return 0
    found = json_schema() if name == documents.CASE else documents.schema(name)
    echo_data(json.dumps(found, indent=2, ensure_ascii=False))
    return 0
