"""The tables of the record, the same in every database. Plain SQLAlchemy Core."""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
)
from sqlalchemy.types import TypeEngine


class PortableText(TypeDecorator[str]):
    """A text that sorts by its code points in every database, and is never cut.

    PostgreSQL takes no NUL, which SQLite does: U+FFFD stands for it there.
    """

    impl = String
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        """SQLite has it as ever; it takes longer texts in the same column."""
        return Text(collation="C") if dialect.name == "postgresql" else super().load_dialect_impl(dialect)

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """A text as the database takes it."""
        if value is None or dialect.name != "postgresql":
            return value
        return value.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


class LongText(PortableText):
    """The same, of a text of any length."""

    impl = Text
    cache_ok = True


ROW = BigInteger().with_variant(Integer, "sqlite")  # the number of a row: a team has more than 2^31 trials some day

metadata = MetaData()

version = Table("version", metadata, Column("number", Integer, nullable=False))
"""One row: :data:`reprokit.store.sqlite_file.CURRENT`."""

journals = Table(
    "journals",
    metadata,
    Column("run_id", PortableText(40), primary_key=True),
    Column("size", BigInteger, nullable=False),  # how many bytes of the run's journal are in the tables
    Column("copied", Boolean, nullable=False),  # whether all of it was put there, and nothing decided
)

runs = Table(
    "runs",
    metadata,
    Column("id", PortableText(40), primary_key=True),
    Column("started_at", PortableText(40), nullable=False),
    Column("finished_at", PortableText(40)),
    Column("exit_status", Integer),
    Column("version", PortableText(40), nullable=False),
    Column("owner", JSON, nullable=False),  # host, pid and start of the process: tells a live run from a killed one
    Column("request", JSON, nullable=False),  # what was asked, enough to resume it
    Column("host", JSON, nullable=False),
)

cases = Table(
    "cases",
    metadata,
    Column("digest", PortableText(80), primary_key=True),
    Column("id", PortableText(200), nullable=False),
    Column("title", LongText, nullable=False),
    Column("text", LongText, nullable=False),
)

cells = Table(
    "cells",
    metadata,
    Column("id", ROW, primary_key=True),
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), nullable=False),
    Column("number", Integer, nullable=False),  # from 1, the order of the table that people see
    Column("case_id", PortableText(200), nullable=False),
    Column("case_key", LongText, nullable=False),  # the id, and of another author's case its origin
    Column("case_path", LongText, nullable=False),
    Column("case_digest", PortableText(80), nullable=False),
    Column("cell", JSON, nullable=False),
    Column("cell_key", LongText, nullable=False),  # canonical text of the cell: finds the same cell in other runs
    Column("variant", PortableText(8), nullable=False),
    Column("verdict", PortableText(24)),  # NULL until decided
    Column("expected", PortableText(24)),
    Column("as_expected", Boolean),
    Column("reason", LongText, nullable=False, default=""),
    Column("rules", PortableText(16), nullable=False, default=""),
    Column("seconds", Float),
    Column("image", JSON),
    Column("environment", JSON),
    Column("dockerfile", LongText, nullable=False, default=""),
    Column("repeat", LongText, nullable=False, default=""),  # the plain docker run line
    Column("details", JSON),  # base and sources that served, warnings, the failing build step
    Column("trials", JSON, nullable=False),
    Index("cells_by_run", "run_id", "number", unique=True),
    Column("reused_from", PortableText(60)),  # RUN:CELL that it was taken over from; NULL where it ran
    Index("cells_by_case", "case_key", "run_id").ddl_if(dialect="sqlite"),
    Index("cells_by_case_hash", "case_key", postgresql_using="hash").ddl_if(dialect="postgresql"),  # of any length
)

summarised = Table(
    "summarised",
    metadata,
    # A run whose summaries are those of its cells: see reprokit.store.summaries.
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
)

layouts = Table(
    "layouts",
    metadata,
    Column("digest", PortableText(64), primary_key=True),
    Column("case_key", LongText, nullable=False),
    Column("cells", JSON, nullable=False),  # [[number, variant, cell]]: runs that had the same cells share it
)

summaries = Table(
    "summaries",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("layout", ForeignKey("layouts.digest"), primary_key=True),
    Column("letters", LongText, nullable=False),  # one for each cell of the layout
    Column("palette", LongText, nullable=False),  # JSON: what the letters mean
    Index("summaries_by_layout", "layout"),
)

findings = Table(
    "findings",
    metadata,
    Column("run_id", ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True),
    Column("key", PortableText(400), primary_key=True),
    # What a search learned from outside (a cost, an index's releases), so that it goes the same way when it is
    # resumed; under ANSWER what it found in the end.
    Column("value", JSON, nullable=False),
)
