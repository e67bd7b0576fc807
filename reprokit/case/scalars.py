"""The scalars of the case format as types: texts that are checked, and the few that are parsed.

Each carries the JSON Schema that editors see, which allows what YAML would make of an unquoted scalar.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, get_args

from pydantic import AfterValidator, BeforeValidator, Discriminator, Field, Tag, WithJsonSchema
from pydantic_core import PydanticCustomError

from reprokit.case import cellspec, units
from reprokit.case.templates import is_template
from reprokit.core.near_match import near

_LOOSE = ["string", "number", "boolean"]


def expected(what: str, hint: str = "") -> PydanticCustomError:
    """The error for a value that is not what the key takes; ``what`` completes "expected ..."."""
    return PydanticCustomError("expected", "{expected}", {"expected": what, "hint": hint})


def _checked(parse: Callable[[str], object], *, templated: bool) -> AfterValidator:
    """Text that ``parse`` must accept, unless it is a template, whose text is only known per cell."""

    def check(text: str) -> str:
        if not (templated and is_template(text)):
            try:
                parse(text)
            except ValueError as error:
                raise expected(str(error)) from None
        return text

    return AfterValidator(check)


def _whole(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    try:
        return units.count(value if isinstance(value, str) else "")
    except ValueError as error:
        raise expected(str(error)) from None


def _number(parse: Callable[[str], float]) -> BeforeValidator:
    """The number that ``parse`` makes of a text."""

    def check(value: object) -> float:
        if isinstance(value, float):
            return value
        try:
            return parse(value if isinstance(value, str) else "")
        except ValueError as error:
            raise expected(str(error)) from None

    return BeforeValidator(check)


def _exit_code(value: object) -> object:
    if value is None or value == "nonzero":
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        code = value
    elif isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 10:
        code = int(value)
    else:
        hint = near(value, ("nonzero",)) if isinstance(value, str) else ""
        raise expected("an exit code from 0 to 255, or nonzero", hint or "write one number, or nonzero")
    if not 0 <= code <= 255:
        raise expected("an exit code from 0 to 255, or nonzero")
    return code


def truth(value: object) -> bool:
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


def _loose(pattern: str = "", **more: Any) -> WithJsonSchema:
    """Editors and validators that let YAML guess see ``3.10`` as a number: the schema allows it."""
    return WithJsonSchema({"type": _LOOSE} | ({"pattern": pattern} if pattern else {}) | more)


def _choice(*words: str) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"enum": list(words)}, {"type": "string", "pattern": r"\{[{%]"}]})


_OR_TEMPLATE = r"|.*\{[{%].*"

Scalar = Annotated[str, _loose()]
"""Text as written."""
OneLine = Annotated[str, _checked(units.one_line, templated=True), _loose()]
PipOptions = Annotated[str, _checked(units.options, templated=True), _loose()]
PipRequirement = Annotated[str, _checked(units.requirement, templated=True), _loose()]
Image = Annotated[str, _checked(units.image, templated=True), _loose()]
EnvValue = Annotated[str, WithJsonSchema({"type": [*_LOOSE, "null"]})]
Whole = Annotated[int, BeforeValidator(_whole), WithJsonSchema({"type": ["integer", "string"], "pattern": "^[0-9]+$"})]
TrialCount = Annotated[
    Whole,
    Field(ge=1, le=units.MOST_TRIALS),
    WithJsonSchema({"type": ["integer", "string"], "pattern": "^[0-9]+$", "minimum": 1, "maximum": units.MOST_TRIALS}),
]
Rate = Annotated[
    float,
    _number(units.rate),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 0, "exclusiveMaximum": 1}),
]
Tolerated = Annotated[float, _number(units.tolerance), WithJsonSchema({"type": ["number", "string"], "minimum": 0})]
Times = Annotated[
    float,
    _number(units.times),
    WithJsonSchema({"type": ["number", "string"], "exclusiveMinimum": 1, "maximum": 1000}),
]
Confidence = Annotated[
    float,
    _number(units.confidence),
    WithJsonSchema({"type": ["number", "string"], "minimum": 0.5, "exclusiveMaximum": 1}),
]
Truth = Annotated[
    bool,
    BeforeValidator(truth),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"enum": ["true", "false", "yes", "no"]}]}),
]
Size = Annotated[
    str,
    _checked(units.size, templated=True),
    WithJsonSchema(
        {
            "type": ["string", "number"],
            "pattern": r"^([0-9]+(\.[0-9]+)?\s*[kKmMgGtT]?([iI]?[bB])?" + _OR_TEMPLATE + ")$",
        }
    ),
]
PlainSize = Annotated[
    str,
    _checked(units.size, templated=False),
    WithJsonSchema({"type": ["string", "number"], "pattern": r"^[0-9]+(\.[0-9]+)?\s*[kKmMgGtT]?([iI]?[bB])?$"}),
]
Memory = Annotated[Size, _checked(units.memory, templated=True)]
Duration = Annotated[
    str,
    _checked(units.duration, templated=True),
    WithJsonSchema({"type": ["string", "number"], "pattern": r"^([0-9][0-9.dhmins]*" + _OR_TEMPLATE + ")$"}),
]
Count = Annotated[
    str,
    _checked(units.count, templated=True),
    WithJsonSchema({"type": ["integer", "string"], "pattern": "^([0-9]+" + _OR_TEMPLATE + ")$", "minimum": 0}),
]
Pids = Annotated[
    str,
    _checked(units.pids, templated=True),
    WithJsonSchema(
        {
            "type": ["integer", "string"],
            "pattern": "^([0-9]+" + _OR_TEMPLATE + ")$",
            "minimum": 1,
            "maximum": units.MOST_PIDS,
        }
    ),
]
Cores = Annotated[
    str,
    _checked(units.cores, templated=True),
    WithJsonSchema(
        {"type": ["number", "string"], "pattern": r"^([0-9.]+" + _OR_TEMPLATE + ")$", "exclusiveMinimum": 0}
    ),
]
Network = Annotated[
    str,
    _checked(units.network, templated=True),
    _choice("none", "bridge"),
]
Ipc = Annotated[
    str,
    _checked(units.ipc, templated=True),
    _choice("private", "host"),
]
UlimitName = Annotated[str, _checked(units.ulimit_name, templated=False)]
Ulimit = Annotated[str, BeforeValidator(_soft_and_hard), WithJsonSchema({"type": ["integer", "string", "object"]})]
GpuCapability = Annotated[str, _checked(units.gpu_capability, templated=True), _choice(*units.GPU_CAPABILITIES)]
OutputStreams = Annotated[
    str,
    _checked(units.output, templated=True),
    _choice("joined", "separate"),
]
FileMode = Annotated[
    str,
    _checked(units.file_mode, templated=True),
    WithJsonSchema({"type": ["string", "integer"], "pattern": "^(0?[0-7]{3}" + _OR_TEMPLATE + ")$"}),
]
Conflicts = Annotated[
    str,
    _checked(units.conflicts, templated=True),
    _choice("refuse", "allow"),
]
CudaLibraries = Annotated[
    str,
    _checked(units.cuda_libraries, templated=True),
    _choice("all", "none"),
]
Sanitize = Annotated[
    str,
    _checked(units.sanitizer, templated=True),
    _choice(*get_args(cellspec.SanitizerKind)),
]
Instant = Annotated[
    str,
    _checked(units.instant, templated=True),
    WithJsonSchema(
        {
            "type": "string",
            "pattern": r"^([0-9]{4}-[0-9]{2}-[0-9]{2}([Tt ][0-9:.]+([Zz]|[+-][0-9:]+))?|" + _OR_TEMPLATE + ")$",
        }
    ),
]
User = Annotated[str, _checked(units.user, templated=True), WithJsonSchema({"type": ["string", "integer"]})]
GpuModel = Annotated[str, _checked(units.gpu_model, templated=True), _loose()]
GitUrl = Annotated[str, _checked(units.git_url, templated=True)]
GitRef = Annotated[str, _checked(units.git_ref, templated=True), _loose()]
Patch = Annotated[str, _checked(units.unified_diff, templated=True)]
Below = Annotated[str, _checked(units.below_workdir, templated=True), _loose()]
FileName = Annotated[str, _checked(units.below_workdir, templated=False)]
Absolute = Annotated[str, _checked(units.absolute, templated=False)]
Glob = Annotated[str, _checked(units.dataset_glob, templated=True), _loose()]
OutputGlob = Annotated[str, _checked(units.output_glob, templated=False), _loose()]
Sha256 = Annotated[str, _checked(units.sha256, templated=True), _loose()]
PatternText = Annotated[str, _checked(units.pattern, templated=False), _loose()]
FrameText = Annotated[
    str,
    _checked(units.frame, templated=False),
    WithJsonSchema({"type": "string", "pattern": "^[^\\s:]+:([^\\s:]|::)+$"}),
]
SignalName = Annotated[
    str, _checked(units.signal_name, templated=False), WithJsonSchema({"type": "string", "pattern": "^SIG[A-Z0-9]+$"})
]
ExceptionType = Annotated[str, _checked(units.exception_type, templated=False)]
EnvName = Annotated[str, _checked(units.env_name, templated=False)]
ExitCode = Annotated[
    int | Literal["nonzero"] | None,
    BeforeValidator(_exit_code),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 0, "maximum": 255},
                {"const": "nonzero"},
                {"type": "string", "pattern": "^[0-9]+$"},
            ]
        }
    ),
]
PartialCell = dict[str, Annotated[str, WithJsonSchema({"type": [*_LOOSE, "null"]})]]
Reproduces = Annotated[
    Annotated[Literal["all", "none", "unknown"], Tag("text")] | Annotated[tuple[PartialCell, ...], Tag("list")],
    Discriminator(_shape),
    BeforeValidator(_reproduces),
]
Title = Annotated[str, _checked(units.not_blank, templated=False), _loose()]
Command = Annotated[
    Annotated[str, _checked(units.not_blank, templated=False), Tag("text")]
    | Annotated[tuple[Scalar, ...], Field(min_length=1), Tag("list")],
    Discriminator(
        _shape,
        custom_error_type="expected",
        custom_error_message="{expected}",
        custom_error_context={"expected": "shell text or a list of arguments", "hint": ""},
    ),
]
