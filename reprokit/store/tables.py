"""The tables of the record. Plain SQLAlchemy Core, so that a team can point it at another database."""

from __future__ import annotations

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)

metadata = MetaData()

version = Table("version", metadata, Column("number", Integer, nullable=False))
"""One row: the version of the tables, see :mod:`reprokit.store.migrations`."""

journals = Table(
    "journals",
    metadata,
    Column("run_id", String(40), primary_key=True),
    Column("size", BigInteger, nullable=False),  # how many bytes of the run's journal are in the tables
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("started_at", String(40), nullable=False),
    Column("finished_at", String(40)),
    Column("exit_status", Integer),
    Column("version", String(40), nullable=False),
    Column("owner", JSON, nullable=False),  # host, pid and start of the process: tells a live run from a killed one
    Column("request", JSON, nullable=False),  # what was asked, enough to resume it
    Column("host", JSON, nullable=False),
)

cases = Table(
    "cases",
    metadata,
    Column("digest", String(80), primary_key=True),
    Column("id", String(200), nullable=False),
    Column("title", Text, nullable=False),
    Column("text", Text, nullable=False),
)

cells = Table(
    "cells",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),  # from 1, the order of the table that people see
    Column("case_id", String(200), nullable=False),
    Column("case_path", Text, nullable=False),
    Column("case_digest", String(80), nullable=False),
    Column("cell", JSON, nullable=False),
    Column("cell_key", Text, nullable=False),  # canonical text of the cell: finds the same cell in other runs
    Column("variant", String(8), nullable=False),
    Column("verdict", String(24)),  # NULL until decided
    Column("expected", String(24)),
    Column("as_expected", Boolean),
    Column("reason", Text, nullable=False, default=""),
    Column("rules", String(16), nullable=False, default=""),
    Column("seconds", Float),
    Column("image", JSON),
    Column("environment", JSON),
    Column("dockerfile", Text, nullable=False, default=""),
    Column("repeat", Text, nullable=False, default=""),  # the plain docker run line
    Column("details", JSON),  # base and sources that served, warnings, the failing build step
    Index("cells_by_run", "run_id", "number", unique=True),
    # All that history asks for: the rows, with their measured environments, are a hundred times as large.
    Column("reused_from", String(60)),  # RUN:CELL that it was taken over from; NULL where it ran
    Index(
        "cells_in_time",
        *("case_id", "cell_key", "variant", "run_id", "number", "verdict", "as_expected", "reused_from"),
    ),
)

findings = Table(
    "findings",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("key", String(400), primary_key=True),
    # What a search learned from outside (a cost, an index's releases), so that it goes the same way when it is
    # resumed; under ANSWER what it found in the end.
    Column("value", JSON, nullable=False),
)

trials = Table(
    "trials",
    metadata,
    Column("id", Integer, primary_key=True),
    Column("cell_id", ForeignKey("cells.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("outcome", String(24), nullable=False),
    Column("exit_code", Integer),
    Column("seconds", Float, nullable=False),
    Column("oom", Boolean, nullable=False),
    Column("timed_out", Boolean, nullable=False),
    Column("exception", JSON),
    Column("reason", Text, nullable=False),
    Column("lines", JSON, nullable=False),  # log lines that the signature matched, from 1
    Column("log", Text, nullable=False),  # relative to the store's folder
    Column("failure", JSON),  # how it failed; also NULL where version 1 recorded it
    Column("usage", JSON),  # NULL where it was not measured
    Index("trials_by_cell", "cell_id", "number", unique=True),
)
