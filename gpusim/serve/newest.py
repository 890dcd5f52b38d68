"""The newest value of every series of a plan, and what none has.

Mental model: a series' newest point is one look into an index, so that the newest of all of them take as many looks as
there are series, however long their histories are. The value at a commit is the median of its repetitions by the method
that gave the last of them, as in :mod:`gpusim.watch.read_history`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from sqlalchemy import Select, func, select

from gpusim.store.schema import commits, points, series
from gpusim.store.store import Store
from gpusim.watch.read_history import SeriesKey

_KEY = tuple(series.c)
_MEGAHERTZ = 1e6
#: Numbers are given when a point is written and seen when its transaction ends: so many before the last one are looked
#: at again.
_OVERLAP = 1000
#: Where more series have moved, all are read.
_MOST_MOVED = 2000


@dataclass(frozen=True)
class Newest:
    """The newest value of ``key``, at the commit of ``position``; ``clock_hz``: 0 where nobody knows it."""

    key: SeriesKey
    position: int
    value: float
    clock_hz: float

    @property
    def time_us(self) -> float | None:
        """Microseconds; None for cycles of an unknown clock."""
        if self.key.unit == "us":
            return self.value
        return _MEGAHERTZ * self.value / self.clock_hz if self.clock_hz else None


@dataclass(frozen=True)
class PlanState:
    """``newest``: of each series, by name. ``position``: of the plan's newest commit that has a value or is kept;
    ``gpus`` and
    ``toolchains``: those of its series; ``last_point``: the number of the newest point of the store when it was
    read."""

    plan: str
    position: int
    newest: Sequence[Newest] = field(repr=False)
    gpus: tuple[str, ...]
    toolchains: tuple[str, ...]
    last_point: int = 0


def read_state(store: Store, plan: str, before: PlanState | None = None) -> PlanState:
    """What a plan's series stand at. ``before``: what they stood at once; only series with points since then are looked
    at again."""
    with store.reading() as connection:
        if connection is None:
            return PlanState(plan, -1, (), (), ())
        last_point = connection.execute(select(func.max(points.c.id))).scalar() or 0
        query, found = newest_query(plan), {}
        if before is not None:
            new = select(points.c.series_id).where(points.c.id > before.last_point - _OVERLAP).distinct()
            moved = connection.execute(new.limit(_MOST_MOVED + 1)).scalars().all()
            if len(moved) <= _MOST_MOVED:
                query = query.where(series.c.id.in_(moved))
                found = {each.key.id: each for each in before.newest}
        rows = connection.execute(query).all()
        last = connection.execute(select(func.max(commits.c.position)).where(commits.c.plan == plan)).scalar()
    groups: dict[int, list] = {}
    for row in rows:
        groups.setdefault(row[0], []).append(row)
    found |= {number: _newest(each) for number, each in groups.items()}
    newest = sorted(found.values(), key=lambda each: _order(each.key))
    return PlanState(
        plan, -1 if last is None else int(last), newest, tuple(sorted({each.key.gpu for each in newest})),
        tuple(sorted({each.key.toolchain for each in newest})), last_point,
    )  # fmt: skip


def newest_query(plan: str) -> Select:
    """The rows of the newest commit of each series of ``plan``."""
    other = points.alias()
    last = (
        select(func.max(other.c.position)).where(other.c.series_id == series.c.id).correlate(series).scalar_subquery()
    )
    return (
        select(*_KEY, points.c.id, points.c.position, points.c.method, points.c.value, points.c.clock_hz)
        .select_from(series.join(points, points.c.series_id == series.c.id))
        .where(series.c.plan == plan, points.c.position == last)
    )


def read_key(store: Store, number: int) -> SeriesKey | None:
    """The series of that number."""
    with store.reading() as connection:
        if connection is None or not 0 < number < 1 << 63:
            return None
        row = connection.execute(select(*_KEY).where(series.c.id == number)).first()
    return None if row is None else SeriesKey(*row)


def read_siblings(store: Store, key: SeriesKey) -> list[SeriesKey]:
    """The series of the same kernel in the same plan."""
    query = select(*_KEY).where(series.c.plan == key.plan, series.c.kernel == key.kernel)
    with store.reading() as connection:
        rows = [] if connection is None else connection.execute(query).all()
    return sorted((SeriesKey(*row) for row in rows), key=_order)


def _order(key: SeriesKey) -> tuple:
    return (key.kernel, key.shape, key.launch, key.gpu, key.toolchain, key.mode)


def _newest(rows: list) -> Newest:
    width = len(_KEY)
    last = max(rows, key=lambda row: row[width])
    same = [row[width + 3] for row in rows if row[width + 2] == last[width + 2]]
    return Newest(SeriesKey(*last[:width]), last[width + 1], statistics.median(same), last[width + 4])
