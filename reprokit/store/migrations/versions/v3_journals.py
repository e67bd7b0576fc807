"""How much of each run's journal is in the tables."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "3"
down_revision = "2"


def upgrade() -> None:
    """Add the table."""
    op.create_table(
        "journals",
        sa.Column("run_id", sa.String(40), primary_key=True),
        sa.Column("size", sa.BigInteger, nullable=False),
    )
