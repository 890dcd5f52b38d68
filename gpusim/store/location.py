"""Where the store is: a file of this user, or the team's PostgreSQL server.

Mental model: ``GPUSIM_STORE`` says it: the path of an SQLite file, or a ``postgresql://`` URL. Unset, it is
``gpusim/store.sqlite`` in the user's data folder as the XDG base directory specification has it
(``$XDG_DATA_HOME``, else ``~/.local/share``). Whatever is printed of a URL has its password hidden.
"""

from __future__ import annotations

import os
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from gpusim.errors import UsageError

VARIABLE = "GPUSIM_STORE"
#: What SQLAlchemy calls the driver of ``gpusim[postgres]``.
POSTGRES_DRIVER = "postgresql+psycopg"
_POSTGRES = ("postgresql", "postgres")


def default_path() -> Path:
    """The user's own store. Raises UsageError where there is no home folder to put it into."""
    data = os.environ.get("XDG_DATA_HOME", "")
    try:
        # The specification: a relative path there is invalid and to be ignored.
        base = Path(data) if data and Path(data).is_absolute() else Path.home() / ".local" / "share"
    except RuntimeError:
        raise UsageError(f"there is no home folder for the store; set {VARIABLE} to a file's path") from None
    return base / "gpusim" / "store.sqlite"


def store_url(where: str | os.PathLike[str] | None = None) -> URL:
    """The URL of ``where``, else of ``GPUSIM_STORE``, else of the default. Raises UsageError for a URL that is neither
    SQLite's nor PostgreSQL's."""
    text = os.fspath(where) if where is not None else os.environ.get(VARIABLE) or os.fspath(default_path())
    if "://" not in text:
        if "\0" in text:
            raise UsageError(f"{VARIABLE}={text!r} is no path")
        return URL.create("sqlite+pysqlite", database=os.path.abspath(os.path.expanduser(text)))
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
