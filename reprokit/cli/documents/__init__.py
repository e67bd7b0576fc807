"""What each command prints as JSON, and the JSON Schema of it. A test lists the commands that print none, and why."""

from __future__ import annotations

import importlib
import re
from typing import Any

from reprokit.core.errors import UsageError
from reprokit.core.near_match import near

DIALECT = "https://json-schema.org/draft/2020-12/schema"

CASE = "case"
"""The name of the schema of case files, which are not output of a command."""

FACTS = "facts"
"""The name of the schema of what ``new --facts`` reads."""

SCHEMAS = {
    "result": "reprokit.report.formats.json:RunResult",
    "search": "reprokit.search.queries:SearchDocument",
    "audit": "reprokit.search.queries:AuditDocument",
    "explanation": "reprokit.report.explanation:Explanations",
    "validate": "reprokit.cli.validate_command:Validation",
    "matrix": "reprokit.cli.documents.records:CellList",
    "list": "reprokit.cli.list_command:CaseList",
    "build": "reprokit.cli.documents.records:ImageList",
    "locks": "reprokit.cli.documents.records:Locks",
    "exec": "reprokit.report.outputs:Executed",
    "runs": "reprokit.cli.history_command:RunList",
    "timings": "reprokit.report.timings:RunTimings",
    "history": "reprokit.report.history.changes:History",
    "changes": "reprokit.report.history.changes:ChangeList",
    "diff": "reprokit.report.differences:Diff",
    "rejudge": "reprokit.report.history.rejudging:Rejudgement",
    "store-check": "reprokit.store.upkeep:CheckResult",
    "store-import": "reprokit.store.archive:ImportResult",
    "store-rebuild": "reprokit.store.upkeep:RebuildResult",
    "store-copy": "reprokit.store.upkeep:CopyResult",
    "store-sync": "reprokit.store.upkeep:SyncResult",
    "doctor": "reprokit.cli.doctor.ground:Findings",
    "config": "reprokit.cli.config_command:Configuration",
    "gc": "reprokit.cli.gc_command:GcResult",
}
"""Name -> the record that is printed, ``MODULE:CLASS``. Where a document has a format, it is reprokit-NAME/v1."""

PRINTED: dict[str, tuple[str, ...]] = {
    "run": ("build", "result"),
    "show": ("timings", "explanation", "result"),
    "store merge": ("result",),
    "isolate": ("search",),
    "bisect": ("search",),
    "reduce": ("search",),
    "audit": ("audit",),
    "validate": ("matrix", "validate"),
    "list": ("list",),
    "lock": ("locks",),
    "exec": ("exec",),
    "history": ("runs", "changes", "history"),
    "diff": ("diff",),
    "store rejudge": ("rejudge",),
    "store check": ("store-check",),
    "store import": ("store-import",),
    "store rebuild": ("store-rebuild",),
    "store copy": ("store-copy",),
    "store sync": ("store-sync",),
    "doctor": ("doctor",),
    "config": ("config",),
    "gc": ("gc",),
}
"""Command -> the documents that its ``--json`` prints."""


def _of_class(name: str) -> dict[str, Any]:
    """The JSON Schema of the class of a document. Raises UsageError."""
    from pydantic import TypeAdapter

    if name == FACTS:
        from reprokit.intake.facts import FactsDocument

        return FactsDocument.model_json_schema(mode="validation")
    if name not in SCHEMAS:
        known = (CASE, FACTS, *SCHEMAS)
        raise UsageError(f"no schema {name!r}{near(name, known, prefix='; ')}; known: {', '.join(known)}")
    module, _, record = SCHEMAS[name].partition(":")
    found = getattr(importlib.import_module(module), record)
    made = TypeAdapter(found).json_schema(mode="validation")
    if form := getattr(found, "FORMAT", None):
        made["properties"] = {"format": {"const": form, "title": "Format", "type": "string"}, **made["properties"]}
        made["required"] = ["format", *made["required"]]
    if measured := made.get("$defs", {}).get("Measured"):
        measured["properties"].pop("further")
        measured |= {"required": list(measured["properties"]), "additionalProperties": True}
        measured["description"] += " Further axes stand beside these keys, each with its version."
    return made


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of a document. Raises UsageError."""
    commands = ", ".join(f"reprokit {command}" for command, names in PRINTED.items() if name in names)
    found = _of_class(name)
    for one in (found, *found.get("$defs", {}).values()):
        if "description" in one:
            # Of records, the first paragraph of the docstring: more is for programmers of reprokit.
            text = re.sub(r":[a-z]+:`[~.]*([^`]*)`", r"`\1`", one["description"].split("\n\n")[0].replace("``", "`"))
            one["description"] = " ".join(text.split())
    return {
        "$schema": DIALECT,
        "$id": f"urn:reprokit:{name}:v1",
        **found,
        "title": f"JSON of {commands or 'reprokit new --facts'}",
    }
