"""A run as the result file, ``reprokit-result/v1``: the record as it is, for programs."""

from __future__ import annotations

from reprokit.evidence.records import RunRecord
from reprokit.report.publishing import FormatSources, RunFormat
from reprokit.report.result import dumps


def _write(run: RunRecord, sources: FormatSources) -> str:
    return dumps(run, sources.folder, sources.file_of, **sources.more)


FORMAT = RunFormat(name="json", help="the result file", suffix=".json", scrubbed=False, write=_write)
