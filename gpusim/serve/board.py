"""What all pages of a dashboard share: the store, what is remembered of it, and the templates.

Mental model: whatever is remembered belongs to a *stamp*, the newest numbers of the tables that pages are made of; a
store that has not changed has the same stamp, which costs a look at the end of seven indexes. What takes long to read
(the newest value of every series) is read once, by whoever asks first, while others wait for it; of a newer stamp, only
what is new.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from sqlalchemy import func, select

from gpusim import __version__
from gpusim.errors import ToolchainError
from gpusim.serve import address, figures
from gpusim.serve.address import Links
from gpusim.serve.newest import PlanState, read_state
from gpusim.serve.overview import plan_names
from gpusim.serve.trends import COMPARISON, COVERAGE, Trends, compared_run, covered_run
from gpusim.store.schema import alert_events, cells, commits, documents, points, refusals, runs
from gpusim.store.store import Store

try:
    from jinja2 import Environment, FunctionLoader, StrictUndefined
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError("the dashboard needs jinja2: pip install 'gpusim[serve]'") from error

#: A stamp is looked up at most so often: during a run that keeps a value each moment, a page may be as old as this.
STAMP_SECONDS = 1.0
#: What was deleted leaves the stamp as it is; it is forgotten after so long.
KEPT_SECONDS = 600.0
_TABLES = (points, alert_events, runs, documents, commits, refusals, cells)
Stamp = tuple


class Board:
    """The dashboard of ``store``."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.accuracy = Trends("compare", COMPARISON, compared_run)
        self.coverage = Trends("cover", COVERAGE, covered_run)
        self._states: dict[str, tuple[Stamp, float, PlanState]] = {}
        self._locks: dict[str, threading.Lock] = {}
        self._lock, self._stamping = threading.Lock(), threading.Lock()
        self._stamp: tuple[float, Stamp] | None = None
        self._plans: tuple[Stamp, float, list[str]] | None = None
        self._environment = _environment()

    def stamp(self, *, now: bool = False) -> Stamp:
        """The store's newest change, as old as :data:`STAMP_SECONDS` unless ``now``."""
        with self._stamping:
            kept = None if now else self.fresh_stamp()
            if kept is not None:
                return kept
            newest = [select(func.max(table.c.id)).scalar_subquery() for table in _TABLES]
            with self.store.reading() as connection:
                found: Stamp = () if connection is None else tuple(connection.execute(select(*newest)).one())
            self._stamp = (time.monotonic(), found)
            return found

    def fresh_stamp(self) -> Stamp | None:
        """What :meth:`stamp` would say without a look at the store, None where it would look."""
        kept = self._stamp
        return kept[1] if kept is not None and time.monotonic() < kept[0] + STAMP_SECONDS else None

    def plans(self) -> list[str]:
        """The plans that have a history, by name."""
        stamp, kept = self.stamp(), self._plans
        if kept is not None and kept[0] == stamp and time.monotonic() < kept[1] + KEPT_SECONDS:
            return kept[2]
        with self.store.reading() as connection:
            names = [] if connection is None else plan_names(connection)
        self._plans = (stamp, time.monotonic(), names)
        return names

    def state(self, plan: str) -> PlanState:
        """The newest value of every series of ``plan``."""
        with self._lock:
            lock = self._locks.setdefault(plan, threading.Lock())
        with lock:
            stamp, now, kept = self.stamp(), time.monotonic(), self._states.get(plan)
            if kept is not None and now > kept[1] + KEPT_SECONDS:  # what was deleted is seen when all is read again
                kept = None
            if kept is not None and kept[0] == stamp:
                return kept[2]
            state = read_state(self.store, plan, kept[2] if kept else None)
            self._states[plan] = (stamp, kept[1] if kept else now, state)
            return state

    def render(self, template: str, links: Links, values: Mapping[str, Any]) -> str:
        """The page of ``template``."""
        return self._environment.get_template(template).render(
            links=links,
            at=address,
            version=__version__,
            store_name=str(self.store.url.database).rpartition("/")[2],
            **values,
        )


def asset(name: str) -> bytes:
    """A file that belongs to all pages."""
    return files("gpusim.serve").joinpath("assets", name).read_bytes()


@cache
def _environment() -> Environment:
    """The compiled templates, of all boards of a process."""
    folder = files("gpusim.serve").joinpath("templates")
    environment = Environment(
        loader=FunctionLoader(lambda name: folder.joinpath(name).read_text("utf-8")),
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    for each in (figures.number, figures.signed, figures.percent, figures.value, figures.time_us, figures.day,
                 figures.moment, figures.short):  # fmt: skip
        environment.filters[each.__name__] = each
    # Compiled now, a page's template does not take its first reader's time.
    for each in folder.iterdir():
        if each.name.endswith(".html"):
            environment.get_template(each.name)
    return environment
