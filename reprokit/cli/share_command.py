"""``reprokit share``."""

from __future__ import annotations

from pathlib import Path

import click

from reprokit.cli import options
from reprokit.core.errors import UsageError
from reprokit.core.terminal import echo
from reprokit.intake import share as sharing
from reprokit.report import explanation
from reprokit.report.formats import Scrubber


@click.command(
    "share",
    epilog="""\b
Examples:
  reprokit share                                # the last run, to standard output
  reprokit share ptxas-unknown-arch -o issue.md # the last run of a case
  reprokit share case.yaml                      # before a run, too: the case alone
  reprokit share 20260101-1 --case my-case      # one case of a run of several
  reprokit share | gh issue create --title "It fails on CUDA 12.0" --body-file -
  reprokit run issue.md                         # run the case from what was shared
""",
)
@click.argument("what", default="last", metavar="[RUN|CASE]")
@click.option("--case", "case_id", metavar="ID", help="Which case of the run, where it has several.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, dir_okay=False),
    default=Path("-"),
    show_default="standard output",
    help="The file to write.",
)
@click.option("-y", "--yes", is_flag=True, help="Share the case even if its text seems to contain a secret.")
@options.store_option
def command(what: str, case_id: str | None, output: Path, yes: bool, store_folder: Path | None) -> int:
    """Write the Markdown for an issue: verdicts, what they explain, the failure, and the case, ready to run.

    RUN is the id of a run, the beginning of one, or `last`; CASE is a case file or the id of a case. Of a case, and for
    `last`, it is the last run with a conclusive verdict. Nothing is sent anywhere. The text is shortened to fit a
    GitHub issue (65,536 characters), the case last. Tokens, home directories, host and user names are removed from
    logs; the case itself is not changed.
    """
    options.check_writable("--output", output)
    # A case file is shared before anything was run here, too.
    unused = Path(what).exists() and not options.store_path(store_folder).is_dir()
    store = None if unused else options.store_of(store_folder)
    subject = sharing.subject_of(store, what, case_id)
    if (found := sharing.secrets_in(subject)) and not yes:
        raise UsageError(
            f"the text of the case seems to contain a secret ({found}): remove it and run the case again, "
            "or share it as it is with --yes"
        )
    scrub = Scrubber([subject.run] if subject.run else [])
    if store is None:
        shared = sharing.share(subject, Path(), texts=lambda digest: "", scrub=scrub)
    else:
        shared = sharing.share(
            subject, store.folder, texts=store.case_text, file_of=explanation.files_in(store), scrub=scrub
        )
    options.write_file(output, shared.text)
    if scrub.left_out:
        echo(f"left out of the texts: {', '.join(scrub.left_out)}", err=True)
    if shared.cut:
        echo(f"shortened or left out to fit an issue: {', '.join(shared.cut)}", err=True)
    return 0
