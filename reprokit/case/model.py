"""The case format, reprokit/v1, as models. Every scalar arrives as the text that was written. Strings of
``TEMPLATED`` are Jinja2 templates, whose final form :mod:`.render` checks per cell. Descriptions go into the JSON
Schema, for editors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Discriminator, Field, Tag

from reprokit.case.comparing import Compare
from reprokit.case.limits import ABOUT
from reprokit.case.matrix import matches
from reprokit.case.measures import Leaks, Ratio
from reprokit.case.scalars import (
    Absolute,
    Below,
    Command,
    Confidence,
    Conflicts,
    Cores,
    Count,
    CudaLibraries,
    Duration,
    EnvName,
    EnvValue,
    ExceptionType,
    ExitCode,
    FileMode,
    FileName,
    FrameText,
    GitRef,
    GitUrl,
    Glob,
    GpuCapability,
    GpuModel,
    Image,
    Instant,
    Ipc,
    Memory,
    Network,
    OneLine,
    OutputStreams,
    PartialCell,
    Patch,
    PatternText,
    Pids,
    PipOptions,
    PipRequirement,
    Rate,
    Reproduces,
    Sanitize,
    Scalar,
    Sha256,
    SignalName,
    Size,
    Title,
    TrialCount,
    Truth,
    Ulimit,
    UlimitName,
    User,
    Whole,
    expected,
    mapping_or,
)
from reprokit.case.tree import Loc

RESERVED = ("exclude", "include")
"""Keys of ``matrix`` that are not axes."""

FIX_CHANGES = (
    "environment",
    "sources",
    "files",
    "datasets",
    "env",
    "workdir",
    "command",
    "resources",
    "trials",
)
"""The parts of the case that a fix can change."""

FIX_KEYS = ("summary", "only", *FIX_CHANGES)
"""Keys that ``fix`` may hold: what it is in one line, where it makes sense (partial cells), and what it changes."""

TEMPLATED = ("environment", "sources", "files", "datasets", "env", "command", "resources")
"""Sections whose strings are templates."""


class Model(BaseModel):
    """Base: unknown keys are errors, instances are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class Report(Model):
    """Where the bug was reported, and the environments as reported."""

    url: Scalar = Field("", description="Where the bug was reported.")
    environments: tuple[dict[str, Any], ...] = Field(
        (), description="The environments as reported. Keys are free; only `isolate --reported` reads them."
    )


class Matrix(Model):
    """Axes by name, in the order written, and ``exclude`` and ``include`` as in GitHub Actions.

    In the file the axes are beside ``exclude`` and ``include``; the loader gathers them under ``axes``.
    """

    axes: dict[str, tuple[Scalar, ...]] = Field({}, description="Axis name -> its values.")
    exclude: tuple[PartialCell, ...] = Field((), description="Partial cells to leave out, as in GitHub Actions.")
    include: tuple[PartialCell, ...] = Field((), description="Whole extra cells to add.")

    def columns(self) -> dict[str, tuple[str, ...]]:
        """The axes, those of ``include`` too, each with its values in the order of the case."""
        found: dict[str, dict[str, None]] = {name: dict.fromkeys(values) for name, values in self.axes.items()}
        for cell in self.include:
            for name, value in cell.items():
                found.setdefault(name, {})[value] = None
        return {name: tuple(values) for name, values in found.items()}


class PipStep(Model):
    """One of several steps of `environment.pip`: what one `pip install` takes, after the steps before it."""

    requirements: tuple[PipRequirement, ...] = Field(description="Python requirements to install, as pip writes them.")
    options: tuple[PipOptions, ...] = Field((), description="Options of this step, behind those of pip_options.")


class PlacedStep(NamedTuple):
    """A step of pip with the paths, in the case, of its requirements and of its own options."""

    loc: Loc
    requirements: tuple[str, ...]
    options_loc: Loc
    options: tuple[str, ...]


def _requirement_or_step(value: object) -> str:
    if isinstance(value, (dict, PipStep)):
        return "mapping"
    return "list" if isinstance(value, (list, tuple)) else "requirement"


def _one_kind(items: tuple[object, ...]) -> tuple[object, ...]:
    if len({_requirement_or_step(item) == "requirement" for item in items}) > 1:
        raise expected("requirements alone or steps alone", "a step of one requirement is a list as well: [numpy<2]")
    return items


PipItem = Annotated[
    Annotated[PipRequirement, Tag("requirement")]
    | Annotated[tuple[PipRequirement, ...], Tag("list")]
    | Annotated[PipStep, Tag("mapping")],
    Discriminator(_requirement_or_step),
]


class EnvironmentSection(Model):
    """What the image holds beside what the known axes ask for."""

    image: Image = Field("", description="An explicit base image instead of one chosen from the axes.")
    apt: tuple[OneLine, ...] = Field(
        (),
        description="Packages to install on Debian and Ubuntu. `python3-dev` brings the headers of the cell's Python.",
    )
    dnf: tuple[OneLine, ...] = Field(
        (), description="Packages to install on distributions with RPM packages: centos, rhel, rocky, fedora ..."
    )
    pip: Annotated[tuple[PipItem, ...], AfterValidator(_one_kind)] = Field(
        (),
        description="Python requirements to install, as pip writes them; or a list of steps, installed one after the "
        "other: each is a list of requirements, or has `requirements` and `options`.",
    )
    pip_options: tuple[PipOptions, ...] = Field(
        (), description="Options of pip install: index, find-links, constraints, no-build-isolation ..."
    )
    pip_before: Instant = Field(
        "",
        description="pip sees only the files that an index received before this day (midnight UTC) or moment: "
        "2021-05-04 or 2021-05-04T10:22:11Z. A pinned version, and a package with later files alone, come all the "
        "same. Empty (default): no limit.",
    )
    setup: Scalar = Field("", description="Shell, run while the image is built, after apt and pip.")
    conflicts: Conflicts = Field(
        "refuse",
        description="allow: versions that are known not to go together (GCC and nvcc, a framework and CUDA, an axis "
        "and a requirement of pip) are what the case is about. refuse (default): such a cell is unsupported.",
    )
    cuda_libraries: CudaLibraries = Field(
        "all",
        description="none: the case only compiles, so that a CUDA of wheels is the compiler and the runtime library "
        "(20 MB) instead of the whole toolkit (some GB). all (default): cuBLAS, cuSOLVER and all other libraries, "
        "whoever provides CUDA.",
    )
    sanitize: Sanitize = Field(
        "",
        description="address, thread or undefined: C and C++ of pip, of setup and of commands that use CFLAGS, "
        "CXXFLAGS and LDFLAGS are compiled with this sanitizer, and an interpreter loads its library. memcheck, "
        "racecheck, initcheck or synccheck: the command runs below this tool of NVIDIA's compute-sanitizer, on a GPU.",
    )

    @property
    def pip_steps(self) -> Iterator[PlacedStep]:
        """The steps in which pip installs; requirements that are in no list are one."""
        loc: Loc = ("environment", "pip")
        if plain := tuple(item for item in self.pip if isinstance(item, str)):
            yield PlacedStep(loc, plain, loc, ())
        for at, item in enumerate(self.pip):
            own = (*loc, at)
            if isinstance(item, PipStep):
                yield PlacedStep((*own, "requirements"), item.requirements, (*own, "options"), item.options)
            elif not isinstance(item, str):
                yield PlacedStep(own, item, own, ())


class Source(Model):
    """A tree that the host fetches and that is put into the image at a pinned commit."""

    git: GitUrl = Field(description="Address of the git repository.")
    ref: GitRef = Field(description="Tag, branch or commit. What is recorded is the commit.")
    path: Below = Field(description="Where the tree is put, below workdir.")
    patch: Patch = Field("", description="A unified diff to apply to the tree.")


class LayoutRule(Model):
    """A glob below the dataset that must match at least ``min`` files."""

    glob: Glob = Field(description="Glob below the dataset, such as images/*.png.")
    min: Whole = Field(1, description="The least number of files that it must match.")


class Dataset(Model):
    """Data mounted read-only below workdir, or a stand-in generated inside the image."""

    path: Below = Field(description="Where the data is mounted read-only, below workdir.")
    layout: tuple[LayoutRule, ...] = Field((), description="Globs that the data must satisfy.")
    sha256: dict[str, Sha256] = Field({}, description="Digests that must hold: path below the dataset -> SHA-256.")
    generate: Scalar = Field(
        "", description="Shell that makes a stand-in when no real data is given; {{ out }} is the folder to fill."
    )


class FileEntry(Model):
    """A small file that travels in the case, with its permissions."""

    content: Scalar = Field(description="The text of the file.")
    mode: FileMode | None = Field(
        None,
        description='Its permissions, such as "755". By default a text that begins with #! gets 755, any other 644.',
    )


class Resources(Model):
    """Limits of one trial. Each may be a template.

    Kept as text here and parsed per cell into :class:`reprokit.case.cellspec.Limits`, as :data:`.limits.LIMITS` says.
    """

    gpus: Count = Field("0", description=ABOUT["gpus"])
    gpu_memory: Size | None = Field(None, description=ABOUT["gpu_memory"])
    gpu_model: GpuModel | None = Field(None, description=ABOUT["gpu_model"])
    gpu_capabilities: tuple[GpuCapability, ...] = Field((), description=ABOUT["gpu_capabilities"])
    cpus: Cores | None = Field(None, description=ABOUT["cpus"])
    memory: Memory | None = Field(None, description=ABOUT["memory"])
    shm_size: Size | None = Field(None, description=ABOUT["shm_size"])
    ipc: Ipc = Field("private", description=ABOUT["ipc"])
    pids: Pids | None = Field(None, description=ABOUT["pids"])
    ulimits: dict[UlimitName, Ulimit] = Field({}, description=ABOUT["ulimits"])
    timeout: Duration = Field("30m", description=ABOUT["timeout"])
    network: Network = Field("none", description=ABOUT["network"])
    backtrace: Truth = Field(False, description=ABOUT["backtrace"])
    user: User = Field("repro", description=ABOUT["user"])
    output: OutputStreams = Field("joined", description=ABOUT["output"])


class TrialsEntry(Model):
    """Trials that stop when the cell is decided: whether it reproduces at a rate of at least ``rate``.

    See :mod:`reprokit.evidence.sequential`. A flaky cell then counts as reproducing where the case expects that,
    unless its rate is decided to be lower.
    """

    max: TrialCount = Field(20, description="How many trials a cell gets at most.")
    confidence: Confidence = Field(0.95, description="How sure the decision and the intervals are to be.")
    rate: Rate = Field(0.1, description="The share of trials that must fail for the cell to count as reproducing.")


class Hang(Model):
    """Where a command hangs that never ends; its stacks are then taken at the time limit."""

    frames: Annotated[tuple[FrameText, ...], Field(min_length=1)] = Field(
        description="file:function or library:function, in the order of calls, in one thread at each of three looks."
    )


class Failure(Model):
    """The signature: every key given must match. Without any key, a nonzero exit code is the failure."""

    exit_code: ExitCode = Field(
        None,
        description="A number, or nonzero (the default when nothing else is given, and beside exception, message and "
        "frames). 126 and 127, and a script that its interpreter cannot open, count only where the number is given.",
    )
    signal: SignalName | None = Field(None, description="Signal that ended the process, such as SIGSEGV.")
    exception: ExceptionType | None = Field(
        None,
        description="Type of the last traceback in the output, bare or dotted, such as RuntimeError; of any test that "
        "failed; of Java, Node.js and C++, and panic of Go and Rust. The program must end as an uncaught one ends it, "
        "unless exit_code says otherwise.",
    )
    message: PatternText | None = Field(
        None, description="Substring of that exception's message; /.../ is a regular expression in RE2's syntax."
    )
    frames: tuple[FrameText, ...] = Field(
        (),
        description="file:function, in this order, somewhere in that traceback; or library:function in the stack "
        "of the crash, where resources.backtrace asks for it; there the function may be a regular expression.",
    )
    output: PatternText | None = Field(
        None, description="Substring of stdout or stderr; /.../ is a regular expression in RE2's syntax."
    )
    out_of_memory: Truth | None = Field(None, description="The failure is that the memory runs out.")
    timed_out: (
        Annotated[Annotated[Truth, Tag("truth")] | Annotated[Hang, Tag("mapping")], mapping_or("truth", Hang)] | None
    ) = Field(None, description="The failure is that the command never ends; or where it hangs: {frames: [...]}.")


class Known(Model):
    """Another failure that is known to happen in some cells, so that it is recognised where it does."""

    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")] = Field(description="Name of the other failure.")
    summary: Scalar = Field("", description="What it is, in one line.")
    url: Scalar = Field("", description="Where it was reported.")
    failure: Failure = Field(description="How it looks: the keys of expect.failure, every key given must match.")
    reproduces: tuple[PartialCell, ...] = Field(
        (), description="Partial cells in which this failure, rather than the case's own, is what is expected."
    )


class Expect(Model):
    """How the failure looks and in which cells it shows."""

    failure: Failure = Field(Failure(), description="The signature: every key given must match.")
    reproduces: Reproduces = Field(
        "unknown", description="all, none, unknown, or a list of partial cells: these and no others."
    )
    known: tuple[Known, ...] = Field(
        (), description="Other failures that are known; a cell that shows one is different-failure, and names it."
    )
    compare: Compare | None = Field(
        None, description="Instead of failure: numbers that trials write, against those of a reference."
    )
    leaks: Leaks | None = Field(None, description="Instead of failure: memory that grows with each iteration.")
    slower_than: Ratio | None = Field(
        None,
        description="Instead of failure: more CPU time than in a reference cell, or more of the seconds that the "
        "command prints as `reprokit: seconds=1.23`.",
    )
    more_memory_than: Ratio | None = Field(
        None, description="Instead of failure: a higher peak of memory than in a reference cell."
    )

    @property
    def ratio(self) -> Ratio | None:
        """What a cell is measured against, where that decides."""
        return self.slower_than or self.more_memory_than


class Case(Model):
    """A bug, as one file: the environments to try, what to run in them, and how the failure looks.

    ``fix``, as written, is merged over the case by the loader, which yields a second ``Case``.
    """

    schema_: Literal["reprokit/v1"] = Field(alias="schema", description="The version of the format: reprokit/v1.")
    id: Annotated[str, Field(pattern=r"^[a-z0-9-]+$")] = Field(
        description="Name of the case, unique in a folder of cases."
    )
    title: Title = Field(description="The bug in one line.")
    description: Scalar = Field("", description="Markdown, shown in reports.")
    report: Report | None = Field(None, description="Where the bug was reported, and in which environments.")
    tags: tuple[Scalar, ...] = Field((), description="Free words to select cases by.")
    matrix: Matrix = Field(
        Matrix(),
        description="Axes and their values.",
    )
    environment: EnvironmentSection = Field(
        EnvironmentSection(), description="What the image holds beside what the axes ask for."
    )
    sources: dict[str, Source] = Field({}, description="Git trees put into the image at a pinned commit, by name.")
    files: dict[
        FileName,
        Annotated[Annotated[Scalar, Tag("text")] | Annotated[FileEntry, Tag("mapping")], mapping_or("text", FileEntry)],
    ] = Field(
        {},
        description='Small files that travel in the case: path below workdir -> text, or {content: ..., mode: "755"}.',
    )
    datasets: dict[str, Dataset] = Field({}, description="Data mounted read-only, or generated, by name.")
    env: dict[EnvName, EnvValue] = Field({}, description="Environment variables of the command, as written.")
    workdir: Absolute = Field("/workspace", description="Folder in which the command runs.")
    command: Command = Field(description="Shell text (bash -eo pipefail), or a list of arguments (exec form).")
    resources: Resources = Field(Resources(), description="Limits of one trial.")
    trials: Annotated[
        Annotated[TrialCount, Tag("number")] | Annotated[TrialsEntry, Tag("mapping")], mapping_or("number", TrialsEntry)
    ] = Field(
        1,
        description="How many times the command is run in each cell: a number, or {max, confidence, rate}. That stops "
        "as soon as it is decided whether the cell reproduces at a rate of at least `rate`.",
    )
    expect: Expect = Field(Expect(), description="How the failure looks and in which cells it shows.")
    fix: dict[str, Any] | None = Field(
        None, description="The change under which the failure must be gone: mappings merge, lists and scalars replace."
    )

    def fix_applies(self, cell: Mapping[str, str]) -> bool:
        """Whether the fix makes sense in ``cell``: everywhere, unless ``fix.only`` names partial cells."""
        only = (self.fix or {}).get("only")
        return only is None or any(matches(cell, partial) for partial in only)
