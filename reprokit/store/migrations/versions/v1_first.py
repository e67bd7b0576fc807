"""The tables of reprokit 0.1, which it made by itself."""

from __future__ import annotations

revision = "1"
down_revision = None


def upgrade() -> None:
    """Nothing: every store that is brought up to date has them."""
