"""From where a cell was taken over is kept with it. All earlier ones ran."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "5"
down_revision = "4"


def upgrade() -> None:
    """Add the column, also to the index of what history asks for."""
    op.add_column("cells", sa.Column("reused_from", sa.String(60)))
    op.drop_index("cells_in_time", "cells", if_exists=True)
    in_time = ["case_id", "cell_key", "variant", "run_id", "number", "verdict", "as_expected", "reused_from"]
    if op.get_context().dialect.name != "postgresql":
        op.create_index("cells_in_time", "cells", in_time)
        return
    # Its indexes take no row above 2.7 kB.
    size = "octet_length(case_id) + octet_length(cell_key)"
    op.create_index("cells_in_time_short", "cells", in_time, postgresql_where=sa.text(f"{size} <= 2000"))
    op.create_index("cells_in_time_long", "cells", ["id"], postgresql_where=sa.text(f"{size} > 2000"))
