"""Summaries of runs, from which their history is read. They are made later, in portions: this step takes no time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "6"
down_revision = "5"


def upgrade() -> None:
    """Add the tables."""
    postgres = op.get_context().dialect.name == "postgresql"

    def text(length: int | None) -> sa.types.TypeEngine[str]:
        return sa.Text(collation="C") if postgres else sa.String(length) if length else sa.Text()

    def run() -> sa.Column[str]:
        return sa.Column("run_id", text(40), sa.ForeignKey("runs.id", ondelete="CASCADE"), primary_key=True)

    op.create_table("summarised", run())
    op.create_table(
        "layouts",
        sa.Column("digest", text(64), primary_key=True),
        sa.Column("case_id", text(200), nullable=False),
        sa.Column("cells", sa.JSON, nullable=False),
    )
    op.create_table(
        "summaries",
        run(),
        sa.Column("layout", text(64), sa.ForeignKey("layouts.digest"), primary_key=True),
        sa.Column("letters", text(None), nullable=False),
        sa.Column("palette", text(None), nullable=False),
    )
    op.create_index("summaries_by_layout", "summaries", ["layout"])
