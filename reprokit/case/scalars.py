"""The scalars of the case format as types, each with the JSON Schema that editors see, which allows what YAML would
make of an unquoted scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import (
    BeforeValidator,
    Discriminator,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    Tag,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from reprokit.case import cellspec, units
from reprokit.case.templates import is_template
from reprokit.core.near_match import near
from reprokit.core.text import whole_number

JsonSchema = dict[str, Any]
_LOOSE: JsonSchema = {"type": ["string", "number", "boolean"]}
"""Editors and validators that let YAML guess see ``3.10`` as a number: the schema allows it."""
_OR_TEMPLATE = r"|.*\{[{%].*"


def expected(what: str, hint: str = "") -> PydanticCustomError:
    """The error for a value that is not what the key takes; ``what`` completes "expected ..."."""
    return PydanticCustomError("expected", "{expected}", {"expected": what, "hint": hint})


class _Schema:
    """What editors see of a type, in the place of what pydantic would say."""

    def __init__(self, schema: JsonSchema) -> None:
        self.schema = schema

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchema:
        return dict(self.schema) or handler(schema)


class _Text(_Schema):
    """Text that ``parse`` must accept, unless it is a template, whose text is only known per cell."""

    def __init__(self, parse: Callable[[str], object], schema: JsonSchema | None = None) -> None:
        super().__init__(schema or {})
        self.parse = parse

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def check(self, text: str) -> str:
        if not is_template(text):
            check_plain(self.parse, text)
        return text


class _Plain(_Text):
    """Text that ``parse`` must accept, and that is never a template."""

    def check(self, text: str) -> str:
        check_plain(self.parse, text)
        return text


class _Number(_Schema):
    """The number that ``parse`` makes of a text."""

    def __init__(self, parse: Callable[[str], float], **schema: Any) -> None:
        super().__init__({"type": ["number", "string"], **schema})
        self.parse = parse

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def read(self, value: object) -> object:
        if isinstance(value, float):
            return value
        return check_plain(self.parse, value if isinstance(value, str) else "")


def check_plain(parse: Callable[[str], Any], text: str) -> Any:
    """What ``parse`` makes of a text; its complaint as an error of the format."""
    try:
        return parse(text)
    except ValueError as error:
        raise expected(str(error)) from None


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return int(check_plain(units.count, value if isinstance(value, str) else ""))


def _exit_code(value: object) -> object:
    if value is None or value == "nonzero":
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        code = value
    elif isinstance(value, str) and (number := whole_number(value)) is not None:
        code = number
    else:
        hint = near(value, ("nonzero",)) if isinstance(value, str) else ""
        raise expected("an exit code from 0 to 255, or nonzero", hint or "write one number, or nonzero")
    if not 0 <= code <= 255:
        raise expected("an exit code from 0 to 255, or nonzero")
    return code


def truth(value: object) -> bool:
    """``true``, ``yes``, ``false`` or ``no``. Raises the error of the format."""
    if isinstance(value, bool):
        return value
    words = {"true": True, "yes": True, "false": False, "no": False}
    if isinstance(value, str) and value.lower() in words:
        return words[value.lower()]
    raise expected("true or false", near(value, words) if isinstance(value, str) else "")


def _reproduces(value: object) -> object:
    if isinstance(value, (list, tuple)) or value in ("all", "none", "unknown"):
        return value
    hint = near(value, ("all", "none", "unknown")) if isinstance(value, str) else 'such as [{cuda: "12.0"}]'
    raise expected("all, none, unknown or a list of partial cells", hint)


def _soft_and_hard(value: object) -> object:
    """Compose's long form ``{soft: 1024, hard: 4096}`` as ``1024:4096``."""
    if isinstance(value, Mapping) and set(value) == {"soft", "hard"}:
        return f"{value['soft']}:{value['hard']}"
    return value


def _shape(value: object) -> str:
    return "list" if isinstance(value, (list, tuple)) else "text" if isinstance(value, str) else "other"


def _choice(*words: str) -> JsonSchema:
    return {"anyOf": [{"enum": list(words)}, {"type": "string", "pattern": r"\{[{%]"}]}


def _matching(pattern: str, *types: str, **more: Any) -> JsonSchema:
    """A text of that pattern, or a template."""
    return {"type": list(types) or "string", "pattern": f"^({pattern}{_OR_TEMPLATE})$", **more}


_DIGITS: JsonSchema = {"type": ["integer", "string"], "pattern": "^[0-9]+$"}
_SIZE = r"[0-9]+(\.[0-9]+)?\s*[kKmMgGtT]?([iI]?[bB])?"

Scalar = Annotated[str, _Schema(_LOOSE)]
"""Text as written."""
OneLine = Annotated[str, _Text(units.one_line, _LOOSE)]
PipOptions = Annotated[str, _Text(units.options, _LOOSE)]
PipRequirement = Annotated[str, _Text(units.requirement, _LOOSE)]
Image = Annotated[str, _Text(units.image, _LOOSE)]
EnvValue = Annotated[str, _Schema({"type": [*_LOOSE["type"], "null"]})]
Whole = Annotated[int, BeforeValidator(_whole), _Schema(_DIGITS)]
TrialCount = Annotated[
    Whole, Field(ge=1, le=units.MOST_TRIALS), _Schema({**_DIGITS, "minimum": 1, "maximum": units.MOST_TRIALS})
]
Rate = Annotated[float, _Number(units.rate, exclusiveMinimum=0, exclusiveMaximum=1)]
Tolerated = Annotated[float, _Number(units.tolerance, minimum=0)]
Times = Annotated[float, _Number(units.times, exclusiveMinimum=1, maximum=1000)]
Confidence = Annotated[float, _Number(units.confidence, minimum=0.5, exclusiveMaximum=1)]
Truth = Annotated[
    bool,
    BeforeValidator(truth),
    _Schema({"anyOf": [{"type": "boolean"}, {"enum": ["true", "false", "yes", "no"]}]}),
]
Size = Annotated[str, _Text(units.size, _matching(_SIZE, "string", "number"))]
PlainSize = Annotated[str, _Plain(units.size, {"type": ["string", "number"], "pattern": f"^{_SIZE}$"})]
Memory = Annotated[str, _Text(units.memory, _matching(_SIZE, "string", "number"))]
Duration = Annotated[str, _Text(units.duration, _matching("[0-9][0-9.dhmins]*", "string", "number"))]
Count = Annotated[str, _Text(units.count, _matching("[0-9]+", "integer", "string", minimum=0))]
Pids = Annotated[str, _Text(units.pids, _matching("[0-9]+", "integer", "string", minimum=1, maximum=units.MOST_PIDS))]
Cores = Annotated[str, _Text(units.cores, _matching("[0-9.]+", "number", "string", exclusiveMinimum=0))]
Network = Annotated[str, _Text(units.network, _choice("none", "bridge"))]
Ipc = Annotated[str, _Text(units.ipc, _choice("private", "host"))]
UlimitName = Annotated[str, _Plain(units.ulimit_name)]
Ulimit = Annotated[str, BeforeValidator(_soft_and_hard), _Schema({"type": ["integer", "string", "object"]})]
GpuCapability = Annotated[str, _Text(units.gpu_capability, _choice(*units.GPU_CAPABILITIES))]
OutputStreams = Annotated[str, _Text(units.output, _choice("joined", "separate"))]
FileMode = Annotated[str, _Text(units.file_mode, _matching("0?[0-7]{3}", "string", "integer"))]
Conflicts = Annotated[str, _Text(units.conflicts, _choice("refuse", "allow"))]
CudaLibraries = Annotated[str, _Text(units.cuda_libraries, _choice("all", "none"))]
Sanitize = Annotated[str, _Text(units.sanitizer, _choice(*get_args(cellspec.SanitizerKind)))]
Instant = Annotated[
    str, _Text(units.instant, _matching("[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9:.]+([Zz]|[+-][0-9:]+))?|"))
]
User = Annotated[str, _Text(units.user, {"type": ["string", "integer"]})]
GpuModel = Annotated[str, _Text(units.gpu_model, _LOOSE)]
GitUrl = Annotated[str, _Text(units.git_url)]
GitRef = Annotated[str, _Text(units.git_ref, _LOOSE)]
Patch = Annotated[str, _Text(units.unified_diff)]
Below = Annotated[str, _Text(units.below_workdir, _LOOSE)]
FileName = Annotated[str, _Plain(units.below_workdir)]
Absolute = Annotated[str, _Plain(units.absolute)]
Glob = Annotated[str, _Text(units.dataset_glob, _LOOSE)]
OutputGlob = Annotated[str, _Plain(units.output_glob, _LOOSE)]
Sha256 = Annotated[str, _Text(units.sha256, _LOOSE)]
PatternText = Annotated[str, _Plain(units.pattern, _LOOSE)]
FrameText = Annotated[str, _Plain(units.frame, {"type": "string", "pattern": "^[^\\s:]+:([^\\s:]|::)+$"})]
SignalName = Annotated[str, _Plain(units.signal_name, {"type": "string", "pattern": "^SIG[A-Z0-9]+$"})]
ExceptionType = Annotated[str, _Plain(units.exception_type)]
EnvName = Annotated[str, _Plain(units.env_name)]
ExitCode = Annotated[
    int | Literal["nonzero"] | None,
    BeforeValidator(_exit_code),
    _Schema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 255},
                {"const": "nonzero"},
                {"type": "string", "pattern": "^[0-9]+$"},
            ]
        }
    ),
]
PartialCell = dict[str, EnvValue]
Reproduces = Annotated[
    Annotated[Literal["all", "none", "unknown"], Tag("text")] | Annotated[tuple[PartialCell, ...], Tag("list")],
    Discriminator(_shape),
    BeforeValidator(_reproduces),
]
Title = Annotated[str, _Plain(units.not_blank, _LOOSE)]
Command = Annotated[
    Annotated[str, _Plain(units.not_blank), Tag("text")]
    | Annotated[tuple[Scalar, ...], Field(min_length=1), Tag("list")],
    Discriminator(
        _shape,
        custom_error_type="expected",
        custom_error_message="{expected}",
        custom_error_context={"expected": "shell text or a list of arguments", "hint": ""},
    ),
]


def mapping_or(tag: str, kind: type) -> Discriminator:
    """Tells what is written as a mapping, a model of that kind, from what has the tag."""
    return Discriminator(lambda value: "mapping" if isinstance(value, (dict, kind)) else tag)
