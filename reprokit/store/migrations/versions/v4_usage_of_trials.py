"""What each trial used is kept with it. Of earlier trials it was not measured."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "4"
down_revision = "3"


def upgrade() -> None:
    """Add the column."""
    op.add_column("trials", sa.Column("usage", sa.JSON))
