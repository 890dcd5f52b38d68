"""Where the store is: a file of this user, or the team's PostgreSQL server.

Mental model: :mod:`gpusim.store.place` says which of them; here it becomes a URL of SQLAlchemy's. Whatever is printed
of one has its password hidden.
"""

from __future__ import annotations

import os

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from gpusim.errors import UsageError
from gpusim.store.place import VARIABLE, store_text

#: What SQLAlchemy calls the driver of ``gpusim[postgres]``.
POSTGRES_DRIVER = "postgresql+psycopg"
_POSTGRES = ("postgresql", "postgres")


def store_url(where: str | os.PathLike[str] | None = None) -> URL:
    """The URL of ``where``, else of ``GPUSIM_STORE``, else of the default. Raises UsageError for a URL that is neither
    SQLite's nor PostgreSQL's."""
    text = store_text(where)
    if "://" not in text:
        return URL.create("sqlite+pysqlite", database=text)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise UsageError(f"{VARIABLE} is no database URL; give a file's path or postgresql://USER@HOST/NAME") from None
    backend, _, driver = url.drivername.partition("+")
    if backend in _POSTGRES and driver in ("", "psycopg"):
        return url.set(drivername=POSTGRES_DRIVER)
    raise UsageError(
        f"{VARIABLE} names a {url.drivername!r} database; gpusim keeps its runs in an SQLite file (give its path) or in "
        "PostgreSQL (postgresql://USER@HOST/NAME)"
    )


def store_name(url: URL) -> str:
    """What messages call the store: the file's path, or the URL without its password."""
    if url.get_backend_name() == "sqlite":
        return str(url.database)
    return url.set(drivername="postgresql").render_as_string(hide_password=True)
