"""A run as Markdown, for the summary of a job."""

from __future__ import annotations

from reprokit.evidence.records import RunRecord
from reprokit.report.markdown import run_summary
from reprokit.report.publishing import FormatSources, RunFormat


def _write(run: RunRecord, sources: FormatSources) -> str:
    return run_summary(run, sources.file_of)


FORMAT = RunFormat(name="md", help="Markdown, as for the summary of a job", suffix=".md", scrubbed=True, write=_write)
