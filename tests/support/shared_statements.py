"""One cache of compiled statements for all stores of a process of the tests.

Mental model: SQLAlchemy keeps for each engine the SQL that it has made of a statement, and a store's engine lives as
long as the store. A test opens a store of its own, whose every statement is then made anew, a third of the processor
time of the test. What the SQL of a statement is depends on the dialect and the statement alone: the first engine's
dialect and cache serve all others of SQLite.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Engine

from gpusim.store import connection


@contextmanager
def shared_statements() -> Iterator[None]:
    """Let stores of SQLite that are opened meanwhile share what they compile."""
    plain, first = connection.create_engine, []

    def create_engine(*arguments: Any, **options: Any) -> Engine:
        engine = plain(*arguments, **options)
        if engine.dialect.name == "sqlite":
            first.append((engine.dialect, engine._compiled_cache))
            engine.dialect, engine._compiled_cache = first[0]
        return engine

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connection, "create_engine", create_engine)
        yield
