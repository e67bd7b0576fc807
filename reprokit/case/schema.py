"""The JSON Schema of case files, made from the models, for editors and for validators of other languages. Pure."""

from __future__ import annotations

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from reprokit.case.axes import FIRST_RELEASE, KnownAxes
from reprokit.case.model import FIX_CHANGES, RESERVED, Case

ID = "urn:reprokit:case:v1"
DIALECT = "https://json-schema.org/draft/2020-12/schema"

_VALUE = {"type": ["string", "number", "boolean", "null"]}
_AXIS_NAME = r"^[A-Za-z_][A-Za-z0-9_]*$"


class _Generator(GenerateJsonSchema):
    """No titles made from the names of keys, and no defaults: both only clutter what editors show."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        """A key that may be left out is not a key that may be null."""
        return self.generate_inner(schema["schema"])


def json_schema(known: KnownAxes) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) of a case file as a YAML parser reads it that guesses types. ``known``: its axes.

    It accepts every valid case. What depends on more than one key (templates, references between sections) only
    ``reprokit validate`` checks.
    """
    schema = Case.model_json_schema(by_alias=True, schema_generator=_Generator)
    definitions = schema["$defs"]
    for definition in (schema, *definitions.values()):
        definition.pop("title", None)
        # What editors show: the first paragraph of the docstring, as Markdown.
        definition["description"] = definition["description"].split("\n\n")[0].replace("``", "`")
    definitions["Matrix"] = _matrix(definitions["Matrix"], known)
    definitions["Fix"] = _fix(schema, definitions)
    schema["properties"]["matrix"]["description"] += (
        f" Known axes: {', '.join(known.names)}; others are template variables."
    )
    schema["properties"]["fix"] = {
        "$ref": "#/$defs/Fix",
        "description": schema["properties"]["fix"]["description"],
    }
    return {
        "$schema": DIALECT,
        "$id": ID,
        **schema,
        "title": "reprokit case, format reprokit/v1",
    }


def _matrix(generated: dict[str, Any], axes: KnownAxes) -> dict[str, Any]:
    """Axes are beside ``exclude`` and ``include`` in the file, whatever their names."""
    axis = {"type": "array", "minItems": 1}
    known = {
        # A case that is older than an axis may have a free one of its name.
        one.name: {**axis, "items": dict(one.schema) if one.since == FIRST_RELEASE else _VALUE, "description": one.help}
        for one in axes
    }
    return {
        "description": "Axes by name, with their values, and exclude and include as in GitHub Actions.",
        "type": "object",
        "properties": known | {name: generated["properties"][name] for name in RESERVED},
        "propertyNames": {"pattern": _AXIS_NAME},
        "additionalProperties": {**axis, "items": _VALUE, "description": "A free axis: only a template variable."},
    }


def _fix(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """A part of a case: the same keys as in the case, none of them required, at any depth."""
    partial: dict[str, Any] = {
        "summary": {"type": ["string", "number", "boolean"], "description": "What the fix changes, in one line."},
        "only": {
            **definitions["Matrix"]["properties"]["exclude"],
            "minItems": 1,
            "description": "Partial cells: where the fix makes sense. Everywhere by default.",
        },
    }
    for key in FIX_CHANGES:
        partial[key] = _without_required(schema["properties"][key], definitions)
    return {
        "description": "The change under which the failure must be gone.",
        "type": "object",
        "properties": partial,
        "additionalProperties": False,
    }


def _without_required(value: Any, definitions: dict[str, Any]) -> Any:
    """A copy in which references go to ``Partial...`` definitions, which require nothing."""
    if isinstance(value, list):
        return [_without_required(item, definitions) for item in value]
    if not isinstance(value, dict):
        return value
    copy = {key: _without_required(item, definitions) for key, item in value.items() if key != "required"}
    reference = copy.get("$ref", "")
    name = reference.rpartition("/")[2]
    if name in definitions and name not in ("LayoutRule",):
        if f"Partial{name}" not in definitions:
            definitions[f"Partial{name}"] = {}
            definitions[f"Partial{name}"] = _without_required(definitions[name], definitions)
        copy["$ref"] = f"#/$defs/Partial{name}"
    return copy
