"""How each trial failed is kept with it. Of earlier trials it stays unknown: a cell's details name each way once."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "2"
down_revision = "1"


def upgrade() -> None:
    """Add the column, and the indexes that the first stores did not have."""
    op.add_column("trials", sa.Column("failure", sa.JSON))
    op.create_index("cells_by_run", "cells", ["run_id", "number"], unique=True, if_not_exists=True)
    in_time = ["case_id", "cell_key", "variant", "run_id", "number", "verdict", "as_expected"]
    op.create_index("cells_in_time", "cells", in_time, if_not_exists=True)
