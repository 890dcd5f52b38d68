"""From nothing, or from an older version of the schema, to the one that this gpusim writes.

Mental model: a store knows its version; a list of steps leads from each version to the next; all that are needed run
in one transaction that holds the write lock, so that of several processes which find an old store one migrates it and
the others find it done, and a kill in between leaves the old store. A newer store is refused, never guessed at.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import Connection, inspect, text

from gpusim.errors import StoreError, StoreFormatError
from gpusim.store.schema import (
    APPLICATION_ID,
    VERSION,
    alert_events,
    alert_marks,
    alert_series,
    alerts,
    cells,
    commits,
    deliveries,
    documents,
    gpus,
    gpusim_store,
    metadata,
    method_facts,
    points,
    refusals,
    series,
)


def _add_gpus_and_documents(connection: Connection) -> None:
    """1 to 2: runs gain documents, and the figures of GPUs are kept."""
    metadata.create_all(connection, tables=[gpus, documents])


def _add_watch(connection: Connection) -> None:
    """2 to 3: histories of plans."""
    metadata.create_all(connection, tables=[commits, series, method_facts, points, refusals, cells])


def _add_alerts(connection: Connection) -> None:
    """3 to 4: alerts, and what is to be delivered of them."""
    metadata.create_all(connection, tables=[alerts, alert_series, alert_events, alert_marks, deliveries])


def _add_points_history(connection: Connection) -> None:
    """4 to 5: an index that finds the steps of a series. A store of before version 3 has it from its tables'
    creation."""
    next(index for index in points.indexes if index.name == "points_history").create(connection, checkfirst=True)


#: Version -> the step that leads from it to the next one.
STEPS: dict[int, Callable[[Connection], None]] = {
    1: _add_gpus_and_documents,
    2: _add_watch,
    3: _add_alerts,
    4: _add_points_history,
}
_VERSION_TABLE = gpusim_store.name


def stored_version(connection: Connection, name: str) -> int:
    """The schema's version of the store ``name`` behind ``connection``; 0 for an empty database. Raises
    StoreFormatError for a newer version and for another program's database."""
    tables = inspect(connection).get_table_names()
    if _VERSION_TABLE not in tables:
        if tables and connection.dialect.name == "sqlite":
            raise StoreFormatError(
                f"{name}: a database of another program (it holds {tables[0]!r}), not a gpusim store"
            )
        return 0  # on a server other tables may lie beside ours
    versions = connection.execute(text(f"SELECT version FROM {_VERSION_TABLE}")).scalars().all()
    if len(versions) != 1 or not isinstance(versions[0], int) or versions[0] < 1:
        raise StoreFormatError(f"{name}: damaged: its version is {versions!r:.60}")
    if versions[0] > VERSION:
        raise StoreFormatError(
            f"{name}: written by a newer gpusim (schema {versions[0]}, this one knows {VERSION}); upgrade gpusim, "
            "or set GPUSIM_STORE to another file"
        )
    return versions[0]


def migrate(connection: Connection, name: str) -> None:
    """Bring the store to :data:`VERSION`, within the write transaction of ``connection``."""
    if connection.dialect.name == "postgresql":
        # Creating a table locks nothing that a second process would meet before it creates the same.
        connection.execute(text("SELECT pg_advisory_xact_lock(:key)"), {"key": APPLICATION_ID})
    version = stored_version(connection, name)
    if version == 0:
        metadata.create_all(connection)
        connection.execute(gpusim_store.insert().values(version=VERSION))
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql(f"PRAGMA application_id={APPLICATION_ID}")
        return
    for step in range(version, VERSION):
        STEPS[step](connection)
    if version < VERSION:
        connection.execute(gpusim_store.update().values(version=VERSION))


def refuse_old(version: int, name: str) -> None:
    """Raise StoreError if a store that can only be read is of an older version."""
    if 0 < version < VERSION:
        raise StoreError(
            f"{name}: of an older gpusim (schema {version}), and it cannot be migrated without writing; copy it to where "
            "it can be written and set GPUSIM_STORE to the copy"
        )
