"""What Alembic runs: the steps, in the transaction of :func:`reprokit.store.migrations.migrate`."""

from __future__ import annotations

from alembic import context

context.configure(connection=context.config.attributes["connection"])
context.run_migrations()
