"""Whether what a command printed as JSON is what its published schema says, with no key more."""

from __future__ import annotations

from functools import cache
from typing import Any

import jsonschema

from reprokit.cli import documents


def as_published(name: str, data: Any) -> Any:
    """The data. Fails where the schema of that name refuses it, or does not describe all of it."""
    _validator(name).validate(data)
    return data


@cache
def _validator(name: str) -> jsonschema.Draft202012Validator:
    """A reader has to accept keys of newer versions; a test finds those that were forgotten."""
    schema = documents.schema(name)
    for one in (schema, *schema.get("$defs", {}).values()):
        if "properties" in one:
            one.setdefault("additionalProperties", False)
    return jsonschema.Draft202012Validator(schema)
