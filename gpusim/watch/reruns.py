"""Which measured values are run again before anyone hears of them.

Mental model: a measurement that lies where its series lay needs no second look. One that does not is measured again,
with the others of its commit's cell, at most :data:`MOST_RERUNS` times; the value of the commit is the median of all
its repetitions, so a single disturbed one moves nothing. A simulation repeats to the digit: it is never run again.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence

from sqlalchemy import Connection, select

from gpusim.silicon.row import SiliconRow
from gpusim.store.schema import points, series
from gpusim.store.store import Store

#: The rule: so many times the spread of the last commits with values, of which there must be some.
DEVIATIONS = 3.0
LOOK_BACK = 10
LEAST_POINTS = 3
#: The spread is never taken below this share of the value: a lucky run of equal times makes no suspicion of the next.
LEAST_SHARE = 0.002
MOST_RERUNS = 2


def suspicious(store: Store, plan: str, position: int, rows: Iterable[SiliconRow]) -> bool:
    """Whether a series of ``rows``, kept at ``position``, has left the values before it."""
    names = {
        (row.kernel if not row.cache else f"{row.kernel} ({row.cache})", row.shape, row.launch, row.gpu)
        for row in rows
        if row.time_us
    }
    with store.reading() as connection:
        return connection is not None and any(_left(connection, plan, position, name) for name in names)


def _left(connection: Connection, plan: str, position: int, name: tuple[str, str, int, str]) -> bool:
    kernel, shape, launch, gpu = name
    query = (
        select(points.c.position, points.c.method, points.c.value)
        .join(series, series.c.id == points.c.series_id)
        .where(series.c.plan == plan, series.c.kernel == kernel, series.c.shape == shape, series.c.launch == launch,
               series.c.gpu == gpu, series.c.mode == "measured", points.c.position <= position)
        .order_by(points.c.position.desc())
        .limit(LOOK_BACK * (1 + MOST_RERUNS) + 1)
    )  # fmt: skip
    values: dict[int, list[float]] = {}
    method = None
    for at, how, value in connection.execute(query):
        method = how if method is None else method
        if how == method:  # another driver or host is another method, and no suspicion
            values.setdefault(at, []).append(value)
    now = values.pop(position, None)
    return now is not None and differs(list(map(statistics.median, values.values())), statistics.median(now))


def differs(before: Sequence[float], now: float) -> bool:
    """Whether ``now`` lies beyond the spread of ``before`` (newest first)."""
    known = before[:LOOK_BACK]
    if len(known) < LEAST_POINTS:
        return False
    middle = statistics.median(known)
    spread = 1.4826 * statistics.median(abs(value - middle) for value in known)  # of a normal distribution, its sigma
    return abs(now - middle) > DEVIATIONS * max(spread, LEAST_SHARE * middle)
