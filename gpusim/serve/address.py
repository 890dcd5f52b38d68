"""Addresses of the dashboard's pages, and how a page links to another one.

Mental model: a page has one address, a path such as ``/series/12``. On a server a link is that path; in an export each
page is the file of the same name with ``.html``, and a link is relative to the file that it stands in, so that the
folder may lie anywhere. What comes from the store (plan and GPU names) is a part of a path by :func:`part`, which no
name can leave.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from posixpath import dirname, relpath
from typing import Protocol
from urllib.parse import quote, urlencode

_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")
TODAY, ALERTS, ACCURACY = "/", "/alerts", "/accuracy"


def part(name: str) -> str:
    """``name`` as a part of a path: itself where that is plain, else a hash of it."""
    if _PLAIN.fullmatch(name):
        return name
    return "~" + hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def alerts_page(number: int) -> str:
    """The list of all alerts, page ``number`` from 1."""
    return ALERTS if number <= 1 else f"{ALERTS}/page/{number}"


def alert(number: int) -> str:
    """An alert."""
    return f"/alert/{number}"


def kernels(plan: str, number: int = 1) -> str:
    """The series of a plan, page ``number`` from 1."""
    return f"/kernels/{part(plan)}" + (f"/{number}" if number > 1 else "")


def series(number: int) -> str:
    """The history of a series."""
    return f"/series/{number}"


def change(series_id: int, position: int) -> str:
    """A change of a series at a commit's position."""
    return f"/series/{series_id}/change/{position}"


def gpus(plan: str) -> str:
    """GPU against GPU: all pairs of a plan."""
    return f"/gpus/{part(plan)}"


def gpu_pair(plan: str, first: str, second: str) -> str:
    """GPU against GPU: one pair."""
    return f"/gpus/{part(plan)}/{part(first)}/{part(second)}"


def coverage(plan: str) -> str:
    """Coverage and holes of a plan."""
    return f"/coverage/{part(plan)}"


class Links(Protocol):
    """How a page refers to another one. ``static``: there is no server, so neither forms nor filters."""

    static: bool

    def page(self, address: str, values: Mapping[str, object] | None = None) -> str:
        """A link to ``address``, with the filters of ``values`` that are not empty."""
        ...

    def asset(self, name: str) -> str:
        """A link to a file that belongs to all pages."""
        ...


class ServerLinks:
    """Paths from the server's root."""

    static = False

    def page(self, address: str, values: Mapping[str, object] | None = None) -> str:
        given = {name: str(value) for name, value in (values or {}).items() if value not in ("", None)}
        return quote(address, safe="/~") + (f"?{urlencode(given)}" if given else "")

    def asset(self, name: str) -> str:
        return f"/assets/{name}"


class FileLinks:
    """Paths relative to the file of the page at ``here``."""

    static = True

    def __init__(self, here: str) -> None:
        self._folder = dirname(file_of(here)) or "."

    def page(self, address: str, values: Mapping[str, object] | None = None) -> str:
        return quote(relpath(file_of(address), self._folder), safe="/~")

    def asset(self, name: str) -> str:
        return relpath(f"assets/{name}", self._folder)


def file_of(address: str) -> str:
    """The file, relative to the export's folder, of the page at ``address``."""
    return "index.html" if address == TODAY else f"{address.strip('/')}.html"
