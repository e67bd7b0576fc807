"""The case format, reprokit/v1, as models: the one place that says which keys exist and of what type they are.

Every scalar arrives as the text that was written (the loader never lets YAML guess a type); counts, sizes,
durations and booleans are parsed from that text where the format asks for one. Strings under ``environment``,
``sources``, ``files``, ``datasets``, ``env``, ``command`` and ``resources`` are Jinja2 templates over a cell's
axes, so their final form is checked per cell, in :mod:`reprokit.case.render`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

Scalar = Annotated[str, WithJsonSchema({"type": ["string", "number", "boolean"]})]
"""Text as written. Editors and validators that let YAML guess see ``3.10`` as a number: the schema allows it."""

KNOWN_AXES = ("os", "python", "gcc", "cuda", "cudnn")


class Model(BaseModel):
    """Base: unknown keys are errors, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Report(Model):
    """Where the bug was reported, and the environments as reported (free keys, never interpreted)."""

    url: str = ""
    environments: tuple[dict[str, Any], ...] = ()


class Matrix(BaseModel):
    """Axes by name (kept in the order written), plus ``exclude`` and ``include`` as in GitHub Actions."""

    model_config = ConfigDict(extra="allow", frozen=True)

    os: tuple[Scalar, ...] | None = None
    python: tuple[Scalar, ...] | None = None
    gcc: tuple[Scalar, ...] | None = None
    cuda: tuple[Scalar, ...] | None = None
    cudnn: tuple[Scalar, ...] | None = None
    exclude: tuple[dict[str, Scalar], ...] = ()
    include: tuple[dict[str, Scalar], ...] = ()
    __pydantic_extra__: dict[str, tuple[Scalar, ...]]

    @property
    def axes(self) -> dict[str, tuple[str, ...]]:
        """Axis name -> values, in the order in which the case writes them."""
        return {name: getattr(self, name) for name in self.model_fields_set_in_order if getattr(self, name) is not None}

    @property
    def model_fields_set_in_order(self) -> tuple[str, ...]:
        """Names of the axes in file order (the loader builds the model from an ordered mapping)."""
        raise NotImplementedError


class Environment(Model):
    """What the image holds beside what the known axes ask for."""

    image: str = ""
    apt: tuple[Scalar, ...] = ()
    pip: tuple[Scalar, ...] = ()
    pip_options: tuple[Scalar, ...] = ()
    setup: str = ""


class Source(Model):
    """A tree that the host fetches and that is put into the image at a pinned commit; ``path`` is below workdir."""

    git: str
    ref: Scalar
    path: str
    patch: str = ""


class LayoutRule(Model):
    """A glob below the dataset that must match at least ``min`` files."""

    glob: str
    min: Annotated[int, Field(ge=0)] = 1


class Dataset(Model):
    """Data mounted read-only at ``path`` below workdir, or generated inside the image by ``generate``."""

    path: str
    layout: tuple[LayoutRule, ...] = ()
    sha256: dict[str, str] = {}
    generate: str = ""


class Resources(Model):
    """Limits of one trial, as text: each may be a template. Parsed per cell into :class:`reprokit.case.cellspec.Limits`."""

    gpus: Scalar = "0"
    gpu_memory: Scalar | None = None
    cpus: Scalar | None = None
    memory: Scalar | None = None
    shm_size: Scalar | None = None
    pids: Scalar | None = None
    timeout: Scalar = "30m"
    network: str = "none"
    user: Scalar = "repro"


class Failure(Model):
    """The signature: every key given must match. Without any key, a nonzero exit code is the failure."""

    exit_code: int | Literal["nonzero"] | None = None
    signal: str | None = None
    exception: str | None = None
    message: str | None = None
    frames: tuple[str, ...] = ()
    output: str | None = None
    out_of_memory: bool | None = None
    timed_out: bool | None = None


class Expect(Model):
    """How the failure looks and in which cells it shows."""

    failure: Failure = Failure()
    reproduces: Literal["all", "none", "unknown"] | tuple[dict[str, Scalar], ...] = "unknown"


class Case(Model):
    """One bug. ``fix``, as written, is merged over the case by the loader, which yields a second ``Case``."""

    schema_: Literal["reprokit/v1"] = Field(alias="schema")
    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")]
    title: str
    description: str = ""
    report: Report | None = None
    tags: tuple[Scalar, ...] = ()
    matrix: Matrix = Matrix()
    environment: Environment = Environment()
    sources: dict[str, Source] = {}
    files: dict[str, str] = {}
    datasets: dict[str, Dataset] = {}
    env: dict[str, Scalar] = {}
    workdir: str = "/workspace"
    command: str | tuple[Scalar, ...]
    resources: Resources = Resources()
    trials: Annotated[int, Field(ge=1)] = 1
    expect: Expect = Expect()
    fix: dict[str, Any] | None = None
