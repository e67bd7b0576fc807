"""Options that several commands share, and what they turn into."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from click.core import ParameterSource

from reprokit.case import units
from reprokit.case.filters import Filter
from reprokit.case.matrix import Selection, parse_group, parse_values
from reprokit.case.trust import keys_named
from reprokit.cli import case_argument
from reprokit.core.errors import RecordError, UsageError
from reprokit.core.files import write
from reprokit.core.near_match import near
from reprokit.core.terminal import echo, echo_data, json_text
from reprokit.core.text import whole_number
from reprokit.engine import kinds, registry
from reprokit.environment.axes import AXES, AXIS_NAMES
from reprokit.environment.axis import Axis
from reprokit.environment.catalog import OURS

# What the decorators need is imported above; the rest where it is used, since every command pays for this module.
if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from reprokit.core.json_record import JsonDocument, JsonRecord
    from reprokit.evidence.records import RunRecord
    from reprokit.evidence.sequential import Trials
    from reprokit.run.request import Request
    from reprokit.store.database import Store

F = TypeVar("F", bound=Callable[..., Any])
PROGRAM = "reprokit.program"


class Sections(click.Command):
    """A command whose help has its options in ``sections``: title -> their names."""

    def __init__(self, *args: Any, sections: Mapping[str, Sequence[str]], **more: Any) -> None:
        super().__init__(*args, **more)
        self.sections = sections

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click's, section by section; what no section names is in the last one."""
        own = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        records = {one.name: record for one in own if (record := one.get_help_record(ctx))}
        *_, last = self.sections
        for title, names in self.sections.items():
            with formatter.section(title):
                chosen = [records.pop(name) for name in names]
                formatter.write_dl(chosen + (list(records.values()) if title == last else []))


class WithProgram(click.Command):
    """A command line whose words behind ``--`` are another program's."""

    program = "-- COMMAND..."

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click's, of the words before ``--``."""
        at = args.index("--") if "--" in args else len(args)
        ctx.meta[PROGRAM] = args[at + 1 :]
        return super().parse_args(ctx, args[:at])

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        """With the program's place."""
        return [*super().collect_usage_pieces(ctx), self.program]


def program_of(context: click.Context) -> list[str]:
    """The words behind ``--``."""
    words: list[str] = context.meta[PROGRAM]
    return words


def cases_argument(required: bool = True) -> Callable[[F], F]:
    """CASE...: a file, a folder, the id of a case, a Markdown file, ``-`` or a URL."""
    return click.argument(
        "cases",
        nargs=-1,
        required=required,
        metavar="CASE...",
        callback=case_argument.paths(store_path),
        shell_complete=_files,
    )


def _files(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Has the shell complete files and folders."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def one_case_argument(function: F) -> F:
    """CASE of a search, which takes one; it is left out with --resume."""
    return click.argument(
        "case", required=False, metavar="CASE", callback=case_argument.paths(store_path), shell_complete=_files
    )(function)


def selection_options(function: F) -> F:
    """An option for every known axis, --axis, --only, --skip."""
    # What is applied last comes first in the help.
    function = click.option("--skip", multiple=True, metavar="K=V,K=V", help="Leave out cells that match.")(function)
    function = click.option(
        "--only", multiple=True, metavar="K=V,K=V", help="Keep only cells that match (several: any of them)."
    )(function)
    function = click.option("--axis", multiple=True, metavar="NAME=A,B", help="Replace any other axis.")(function)
    return axis_options("Replace the {axis.name} axis for this invocation.")(function)


def axis_options(text: str, axes: Sequence[Axis] = AXES) -> Callable[[F], F]:
    """An option for every known axis. ``text``: its help, with ``{axis.name}``."""

    def decorate(function: F) -> F:
        for axis in reversed(axes):
            function = click.option(
                f"--{axis.name}", metavar="A,B", help=text.format(axis=axis), shell_complete=_completing(axis)
            )(function)
        return function

    return decorate


def _completing(axis: Axis) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """Completes the last value of a list by those that the axis has where nothing else is asked for."""

    def complete(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
        before, comma, last = incomplete.rpartition(",")
        known = axis.releases({}, OURS)
        short = (".".join(value.split(".")[: axis.precision]) for value in known)
        return [before + comma + value for value in dict.fromkeys(short) if value.startswith(last)]

    return complete


def filter_options(function: F) -> F:
    """--tag, --framework, --needs."""
    function = click.option(
        "--needs",
        multiple=True,
        metavar="A,B",
        help="Only cases that need gpu, network, source, data or root; no-gpu: that do not; none: that need nothing.",
    )(function)
    function = click.option(
        "--framework",
        "frameworks",
        multiple=True,
        metavar="A,B",
        help="Only cases with this framework, such as torch, paddle, numpy (several: any of them).",
    )(function)
    return click.option(
        "--tag", "tags", multiple=True, metavar="A,B", help="Only cases with this tag (several: any of them)."
    )(function)


def filter_of(given: dict[str, Any]) -> Filter:
    """The Filter that --tag, --framework and --needs ask for; takes them out of ``given``."""

    def words(name: str) -> tuple[str, ...]:
        texts = given.pop(name, ())
        found = tuple(word.strip() for text in texts for word in text.split(",") if word.strip())
        if texts and not found:  # such as from a shell variable that is not set: to choose nothing is not all
            raise UsageError(f"--{name.removesuffix('s') if name != 'needs' else name}: no value is given")
        return found

    return Filter(tags=words("tags"), frameworks=words("frameworks"), needs=words("needs"))


def _trials(ctx: click.Context, param: click.Parameter, value: str | None) -> Trials | None:
    """``5``, ``auto``, or ``max=20,confidence=0.95,rate=0.1``, as a policy; what is left out is as in a case."""
    if value is None:
        return None
    from reprokit.run.request import read_trials

    try:
        return read_trials(value)
    except UsageError as error:
        raise click.BadParameter(str(error)) from None


def unit(name: str) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """A callback that reads a size or duration as case files spell them."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else getattr(units, name)(value)
        except ValueError as error:
            raise click.BadParameter(f"{value}: expected {error}") from None

    return read


trials_option = click.option(
    "--trials",
    metavar="N|auto|K=V,K=V",
    callback=_trials,
    help="Trials per cell, instead of what the case says: a number, or max=20,confidence=0.95,rate=0.1 (auto is just "
    "that) to stop when it is decided whether the cell reproduces at a rate of at least RATE.",
)


confirm_option = click.option(
    "--confirm",
    type=click.Choice(["auto", "always", "exact", "never"]),
    default=None,
    help="Repeat cells until their trials exclude chance. auto: for at most as long again as the "
    "case's trials took, at least 60 s; always: until chance is excluded, up to 60 trials of a cell; "
    'exact: also 90 trials of each cell that passes, which "exactly" takes.',
)


def stand_in_options(function: F) -> F:
    """--dataset and --source."""
    function = click.option(
        "--source", "sources", multiple=True, metavar="NAME=DIR", help="A folder that stands in for a git source."
    )(function)
    return click.option(
        "--dataset", "datasets", multiple=True, metavar="NAME=DIR", help="Mount real data instead of generated data."
    )(function)


base_option = click.option(
    "--base",
    "base_images",
    type=click.Choice(["auto", "registry", "bootstrap"]),
    default=None,
    help="Where base images come from: a registry, or the distribution's packages. "
    "auto takes a registry if one answers.",
)
engine_option = click.option(
    "--engine",
    type=click.Choice(kinds.CHOICES),
    default=None,
    help="What builds and runs; see `reprokit run --help`.",
)
ENGINES = (
    "auto: the container engine that DOCKER_HOST, the docker context or the default socket leads to, else a Podman "
    "service, started if need be. " + " ".join(f"{one.kind}: {one.help}." for one in registry.entries())
)
"""What the values of --engine mean, for the help of one command."""
locked_option = click.option(
    "--locked",
    is_flag=True,
    help="Build from the locks beside the cases and from nothing else; refuse a lock that is missing or stale. "
    "Without it, a lock is not used.",
)
refresh_option = click.option(
    "--refresh-bases",
    is_flag=True,
    help="Take base images of a registry as they are now. Otherwise each stays as it was first seen.",
)
verbose_option = click.option(
    "-v", "--verbose", is_flag=True, help="Stream the output of builds and cells; a slow reader misses lines."
)


def trust_options(function: F) -> F:
    """--yes, --reviewed."""
    function = click.option(
        "--reviewed",
        multiple=True,
        metavar="sha256:...",
        callback=_digests,
        help="Run only cases whose text has this digest (several: any of them); nothing is asked then.",
    )(function)
    return click.option(
        "-y", "--yes", is_flag=True, help="Answer what would be asked with yes: run whatever case a URL leads to."
    )(function)


def _digests(ctx: click.Context, param: click.Parameter, given: tuple[str, ...]) -> tuple[str, ...]:
    """Digests as reprokit writes them."""
    for text in given:
        if not re.fullmatch(r"(sha256:)?[0-9a-f]{64}", text):
            raise click.BadParameter(f"{text}: expected sha256: and 64 hexadecimal digits, as `validate --asks` prints")
    return tuple(f"sha256:{text.removeprefix('sha256:')}" for text in given)


class TargetType(click.Path):
    """A file to write: a path, or ``file:///PATH``; ``s3://BUCKET/KEY`` stays the text that :func:`written` takes."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """A path, or the address of an object in a bucket. Raises UsageError for another address."""
        from reprokit.store import targets

        if isinstance(value, str) and targets.is_remote(value):
            return value
        return super().convert(str(targets.local(value)) if isinstance(value, str) else value, param, ctx)


def written(target: Path | str) -> AbstractContextManager[Path]:
    """The file to write for a target of :class:`TargetType`: it is sent to its bucket when the block ends."""
    from reprokit.store import targets

    return targets.sent(target) if isinstance(target, str) else nullcontext(target)


class StoreType(click.Path):
    """A folder; of a database on a server, the one that has this host's part of it."""

    name = "store"

    def __init__(self) -> None:
        super().__init__(file_okay=False, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The folder. Raises UsageError for an address that cannot be a store."""
        from reprokit.engine import site
        from reprokit.store import remote

        if isinstance(value, str) and remote.is_address(value):
            return remote.folder_of(value, site.settings().files)
        return super().convert(value, param, ctx)


store_option = click.option(
    "--store",
    "store_folder",
    is_eager=True,  # the ids of cases are looked up in it
    type=StoreType(),
    default=None,
    help="Where runs are recorded: a folder, or postgresql://USER@HOST/DATABASE [default: .reprokit in the "
    "project, or $REPROKIT_STORE].",
)


def _jobs() -> int:
    from reprokit.run.request import default_jobs

    return default_jobs()


jobs_option = click.option(
    "-j",
    "--jobs",
    type=click.IntRange(min=1),
    default=_jobs,
    show_default="the number of CPUs",
    help="Builds, and trials, at a time.",
)


def selection_of(options: dict[str, Any]) -> Selection:
    """The Selection that the shared options ask for; takes them out of ``options``. Raises UsageError."""
    from reprokit.environment.cases import check_versions

    axes = {}
    for name in AXIS_NAMES:
        given = options.pop(name)
        if given is not None:
            axes[name] = parse_values(given)
    for text in options.pop("axis"):
        name, equals, values = text.partition("=")
        if not equals:
            raise UsageError(f"--axis {text}: not of the form NAME=A,B")
        axes[name.strip()] = parse_values(values)
    check_versions(axes)
    return Selection(
        axes=axes,
        only=tuple(parse_group(text) for text in options.pop("only")),
        skip=tuple(parse_group(text) for text in options.pop("skip")),
    )


def folders_of(option: str, texts: Sequence[str]) -> dict[str, Path]:
    """``NAME=DIR`` texts as a mapping. Raises UsageError naming the option."""
    folders = {}
    for text in texts:
        name, equals, folder = text.partition("=")
        if not (equals and name and folder):
            raise UsageError(f"{option} {text}: not of the form NAME=DIR")
        path = Path(folder).expanduser()
        if not path.is_dir():
            raise UsageError(f"{option} {text}: {path} is not a folder")
        folders[name] = path
    return folders


def unselected_request_of(given: dict[str, Any]) -> Request:
    """The Request, of all cells, that a command's options ask for; what is left in ``given`` are its own keywords."""
    from reprokit.run.request import Request

    datasets = folders_of("--dataset", given.pop("datasets"))
    return Request.configured(datasets=datasets, sources=folders_of("--source", given.pop("sources")), **given)


def request_of(given: dict[str, Any]) -> Request:
    """As :func:`unselected_request_of`, of the selected cells of the selected cases."""
    selection, wanted = selection_of(given), filter_of(given)
    return unselected_request_of({**given, "selection": selection, "filter": wanted})


def store_path(given: Path | None) -> Path:
    """The store's folder: as given, as configured, or the project's."""
    from reprokit.engine import site

    return given.expanduser().resolve() if given else site.settings().store_folder()


def obeyed_store(given: Path | None) -> Path:
    """As :func:`store_path`, for a command that builds or runs by what the store remembers.

    Raises UsageError for another user's that no one named.
    """
    from reprokit.core.owned import other_owner
    from reprokit.engine import site

    folder = store_path(given)
    if given is None and site.settings().store is None and (owner := other_owner(folder)):
        raise UsageError(
            f"{folder} belongs to {owner}, and what a store remembers decides what is built and run: name it with "
            f"--store {folder}, or another one"
        )
    return folder


def echo_document(done: JsonDocument) -> None:
    """Print what ``--json`` asks for."""
    write_json(Path("-"), done)


def existing_store(given: Path | None) -> Path:
    """As :func:`store_path`. Raises UsageError when nothing was run yet."""
    folder = store_path(given)
    if not folder.is_dir():
        raise UsageError(f"nothing was run here yet: {folder} does not exist; run a case first, or name --store")
    return folder


def store_of(given: Path | None) -> Store:
    """The store that is there. Raises UsageError when nothing was run yet."""
    return open_store(existing_store(given))


def open_store(folder: Path) -> Store:
    """The store in ``folder``; what damaged journals cost is said on standard error when it is added."""
    from reprokit.store.database import Store

    store = Store(folder)
    for text in store.damage:
        echo(f"warning: {text}: it is left out, and the rest is kept: see `reprokit store check`", err=True)
    return store


def known_cases(store: Store, given: Sequence[str]) -> list[str]:
    """The keys of cases that were run, from ids, addresses, case files and folders. Raises UsageError for an unknown
    one.
    """
    from reprokit.run.loading import load

    known, found = store.case_keys(), []
    for text in given:
        files = load(text) if text not in known and Path(text).exists() else ()
        keys = [file.key for file in files] or keys_named(text, known) or [text]
        unknown = [each for each in keys if each not in known]
        if len(unknown) == len(keys):
            raise UsageError(f"no run of a case {unknown[0]!r} is recorded{near(unknown[0], known, prefix='; ')}")
        found += [each for each in keys if each in known]
    return list(dict.fromkeys(found))


def last_run(store: Store, key: str) -> RunRecord:
    """The newest run of a case with that case's cells alone. Raises UsageError when it was only searched."""
    seen = store.last_seen(key)
    if seen is None:
        raise UsageError(f"the case {key!r} was only searched: name the run of a search")
    return store.run(seen[0].id).of_case(key)


def cell_of_run(text: str) -> tuple[str, int] | None:
    """The two parts of ``RUN:NUMBER``; None for another text, and for a file of that name."""
    with suppress(OSError):  # it may be too long for a name
        if Path(text).exists():
            return None
    left, colon, number = text.rpartition(":")
    found = whole_number(number)
    return (left, found) if colon and left and found is not None else None


def typed(option: str) -> bool:
    """Whether the user typed an option of the command that runs, rather than leaving it at its default."""
    return click.get_current_context().get_parameter_source(option) is ParameterSource.COMMANDLINE


def refuse(reason: str, *names: str) -> None:
    """Raise UsageError for what the user typed of these options and arguments, which ``reason`` rules out."""
    params = [one for one in click.get_current_context().command.params if one.name in names and typed(one.name)]
    if params:
        words = (one.opts[-1] if isinstance(one, click.Option) else (one.metavar or "").strip("[].") for one in params)
        raise UsageError(f"{reason}: leave out {', '.join(words)}")


def check_writable(option: str, path: Path | None) -> None:
    """Before hours of work: can the file be written at its end? Raises UsageError."""
    if path is None or path == Path("-"):
        return
    there = next(place for place in (path, *path.absolute().parents) if place.exists())
    if not os.access(there, os.W_OK) or (there != path and not there.is_dir()):
        raise UsageError(f"{option} {path}: {there} cannot be written; name another file")


FILE = click.Path(path_type=Path, dir_okay=False, allow_dash=True)


def json_file_option(help_text: str) -> Callable[[F], F]:
    """The option --json FILE of a command that also says what it does: for :func:`write_json`."""
    return click.option("--json", "json_file", type=FILE, help=help_text)


def json_option(help_text: str) -> Callable[[F], F]:
    """The option --json of a command that prints JSON instead."""
    return click.option("--json", "as_json", is_flag=True, help=help_text)


junit_option = click.option("--junit", "junit_file", type=FILE, help="Write JUnit XML.")


def read_text(option: str, path: Path) -> str:
    """The text of the file that an option names; ``-`` is standard input. Raises UsageError."""
    try:
        return sys.stdin.read() if path == Path("-") else path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{option} {path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None


def write_json(path: Path | None, done: JsonDocument | Sequence[JsonRecord]) -> None:
    """Write JSON to the file that --json names, as :func:`write_file` does; None = to none."""
    if path is not None:
        data = [one.to_json() for one in done] if isinstance(done, Sequence) else done.to_json()
        write_file(path, json_text(data))


def write_file(path: Path, text: str, hint: str = "") -> None:
    """Write a file whole or not at all; ``-`` is standard output. Raises RecordError, with ``hint``, when it cannot."""
    try:
        if path == Path("-"):
            echo_data(text, nl=False)
        else:
            write(path, text)
    except OSError as error:
        raise RecordError(f"{path} cannot be written: {error.strerror}{hint}") from error
