"""The history of one series, as its page shows it: points, changes, and the commits that they are at.

Mental model: rows of the store, turned into the history that the detectors of :mod:`gpusim.watch` take. Of a simulated
series the database gives the points on either side of each step alone, for all others say the same; every step is a
change, found here; of a measured one the changes are those that alerts were opened for. Facts of a method are many
points' own: each row of them is read once.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import Connection, func, or_, select

from gpusim.errors import StoreFormatError
from gpusim.io.records import parse_record
from gpusim.store.schema import alert_series, commits, method_facts, points
from gpusim.store.store import Store
from gpusim.watch.change import percent_between
from gpusim.watch.exact import exact_changes
from gpusim.watch.history import History, Point
from gpusim.watch.read_history import SeriesKey

#: Points of the longest history that a page shows; those before it stay in the store.
MOST_POINTS = 20_000
#: Commits whose dates stand below a chart are looked up at so many places.
_TIMES = 24
#: A series that moves at more commits than this is read as a whole.
_MOST_STEPS = 2000


@dataclass(frozen=True)
class BoardPoint:
    """A series' value at a commit: of the newest method there, the median of ``count`` repetitions, between ``low`` and
    ``high``."""

    position: int
    commit_id: int
    value: float
    low: float
    high: float
    count: int
    launch_id: int | None
    method: str
    facts_id: int
    cubin_hash: str
    gpu_hash: str
    clock_hz: float
    time: int


@dataclass(frozen=True)
class CommitFacts:
    """A commit as a page names it; ``time``: seconds since 1970."""

    hash: str
    position: int
    time: int
    author: str
    subject: str


@dataclass(frozen=True)
class SeriesChange:
    """The series went from ``before`` (the point at index ``from_index``) to ``after`` (at ``index``). ``cause``:
    "commit" or what of the method changed; ``who``: the commit or "old -> new"; ``unseen``: how many commits in between
    gave no value;
    ``alert``: its number, None where there is none."""

    index: int
    from_index: int
    position: int
    before: float
    after: float
    cause: str
    who: str
    unseen: int
    alert: int | None

    @property
    def percent(self) -> float:
        """Of the value before; infinite where that is 0."""
        return percent_between(self.before, self.after)


@dataclass(frozen=True)
class SeriesHistory:
    """``points`` (of a simulated series those at its steps and ends, of ``count`` in all) and ``changes``, oldest
    first; ``commits``: by number, those of the changes and of the ends; ``times``: (position, seconds since 1970) of
    some commits between the ends, rising."""

    key: SeriesKey
    points: Sequence[BoardPoint] = field(repr=False)
    changes: Sequence[SeriesChange]
    commits: Mapping[int, CommitFacts] = field(repr=False)
    count: int = 0
    times: Sequence[tuple[int, int]] = field(default=(), repr=False)


def read_history(store: Store, key: SeriesKey) -> SeriesHistory:
    """The history of ``key``."""
    with store.reading() as connection:
        if connection is None:
            return SeriesHistory(key, (), (), {})
        steps = _steps(connection, key.id) if key.mode == "simulated" else None
        found, count = steps if steps is not None else (_points(connection, key.id), 0)
        known = _alerts(connection, key.id)
        changes = _simulated(connection, key, found, known) if key.mode == "simulated" else _measured(found, known)
        wanted = {found[each].commit_id for change in changes for each in (change.index, change.from_index)}
        wanted |= {each.commit_id for each in (*found[:1], *found[-1:])}
        times = _times(connection, key.plan, found)
        return SeriesHistory(key, found, changes, read_commits(connection, wanted), count or len(found), times)


def read_commits(connection: Connection, numbers: Iterable[int]) -> dict[int, CommitFacts]:
    """Commits by number."""
    query = select(
        commits.c.id, commits.c.hash, commits.c.position, commits.c.time, commits.c.author, commits.c.subject
    ).where(commits.c.id.in_(list(numbers)))
    return {row[0]: CommitFacts(*row[1:]) for row in connection.execute(query)}


def _steps(connection: Connection, series_id: int) -> tuple[list[BoardPoint], int] | None:
    """The points on either side of each step and at the ends, and how many points there are; None where a commit has
    several."""
    c = points.c
    # Position and value stand in an index: the points themselves are looked up where there is a step.
    rows = (
        select(
            c.position, func.lag(c.value).over(order_by=c.position).label("was"), func.lead(c.value).over(order_by=c.position).label("becomes"), c.value,
            func.lag(c.position).over(order_by=c.position).label("place_before"), func.row_number().over(order_by=c.position).label("place"),
        )
        .where(c.series_id == series_id)
        .subquery()
    )  # fmt: skip
    r = rows.c
    kept = or_(
        r.was.is_(None), r.becomes.is_(None), r.was != r.value, r.becomes != r.value, r.place_before == r.position
    )
    found = connection.execute(select(r.position, r.place_before, r.place).where(kept).order_by(r.place)).all()
    if any(position == before for position, before, _ in found):
        return None
    wanted, count = [row[0] for row in found], found[-1][2] if found else 0
    if len(wanted) > _MOST_STEPS:
        return None
    return _points(connection, series_id, wanted), count


def _times(connection: Connection, plan: str, found: Sequence[BoardPoint]) -> list[tuple[int, int]]:
    """Positions and times of commits, evenly over those of ``found``."""
    if not found:
        return []
    first, last = found[0], found[-1]
    wanted = {round(first.position + (last.position - first.position) * n / _TIMES) for n in range(1, _TIMES)}
    query = select(commits.c.position, commits.c.time).where(commits.c.plan == plan, commits.c.position.in_(wanted))
    between = {position: time for position, time in connection.execute(query)}
    return sorted({**between, first.position: first.time, last.position: last.time}.items())


def _points(connection: Connection, series_id: int, positions: Sequence[int] | None = None) -> list[BoardPoint]:
    """The points of a series, those at ``positions`` where these are given."""
    c = points.c
    query = (
        select(c.position, c.method, c.id, c.commit_id, c.value, c.low, c.high, c.launch_id, c.facts_id, c.cubin_hash,
               c.gpu_hash, c.clock_hz, commits.c.time)
        .select_from(points.join(commits, commits.c.id == c.commit_id))
        .where(c.series_id == series_id)
        .order_by(c.position.desc())
        .limit(MOST_POINTS)
    )  # fmt: skip
    if positions is not None:
        query = query.where(c.position.in_(positions))
    groups: dict[int, list] = {}
    for row in connection.execute(query):
        groups.setdefault(row[0], []).append(row)
    return [_point(rows) for rows in reversed(groups.values())]


def _point(rows: list) -> BoardPoint:
    row = rows[0]
    if len(rows) > 1:
        row = max(rows, key=lambda each: each[2])
        rows = [each for each in rows if each[1] == row[1]]
    position, method, _, commit_id, value, low, high, launch_id, facts_id, cubin_hash, gpu_hash, clock_hz, time = row
    if len(rows) > 1:
        value = statistics.median(each[4] for each in rows)
        low, high = min(each[5] for each in rows), max(each[6] for each in rows)
    return BoardPoint(
        position, commit_id, value, low, high, len(rows), launch_id, method, facts_id, cubin_hash, gpu_hash, clock_hz, time
    )  # fmt: skip


def _alerts(connection: Connection, series_id: int) -> dict[int, tuple]:
    """Position -> the change of the series that an alert names there: (alert, position before, before, after)."""
    c = alert_series.c
    query = select(c.position, c.alert_id, c.before_position, c.before, c.after).where(c.series_id == series_id)
    return {row[0]: tuple(row[1:]) for row in connection.execute(query)}


def _simulated(
    connection: Connection, key: SeriesKey, found: Sequence[BoardPoint], known: Mapping[int, tuple]
) -> list[SeriesChange]:
    facts = _facts(connection, (point.facts_id for point in found))
    plain = [_plain(point, facts[point.facts_id]) for point in found]
    changes = []
    for change in exact_changes(History(key.name, tuple(plain))):
        point = found[change.index]
        alert = known.get(point.position, (None,))[0]
        unseen = point.position - found[change.index - 1].position - 1
        changes.append(SeriesChange(
            change.index, change.index - 1, point.position, change.before, change.after, change.cause, change.who, unseen, alert,
        ))  # fmt: skip
    return changes


def _measured(found: Sequence[BoardPoint], known: Mapping[int, tuple]) -> list[SeriesChange]:
    places = {point.position: index for index, point in enumerate(found)}
    changes = []
    for position, (alert, before_position, before, after) in sorted(known.items()):
        if position in places:
            index = places[position]
            first = places.get(before_position, max(0, index - 1))
            unseen = position - before_position - 1
            changes.append(SeriesChange(index, first, position, before, after, "", "", unseen, alert))
    return changes


def _plain(point: BoardPoint, facts: tuple[Mapping[str, str], str]) -> Point:
    method, source = facts
    machine = {**method, "gpu_hash": point.gpu_hash[:12]} if point.gpu_hash else dict(method)
    work = f"{point.cubin_hash} {source}" if point.cubin_hash else ""
    return Point(str(point.position), point.value, machine, work)


_NAMES = {"toolchain": "compiler", "model": "model_hash", "gpusim": "gpusim_version"}
#: Parameters of one statement: SQLite takes some 32,000, PostgreSQL 65,535.
_MOST_AT_ONCE = 10_000


def _facts(connection: Connection, numbers: Iterable[int]) -> dict[int, tuple[Mapping[str, str], str]]:
    """Of each row of facts, the method as :data:`gpusim.watch.history.METHOD` calls its parts, and the hash of the
    source."""
    wanted, found = sorted(set(numbers)), {}
    for start in range(0, len(wanted), _MOST_AT_ONCE):
        some = wanted[start : start + _MOST_AT_ONCE]
        query = select(method_facts.c.id, method_facts.c.facts).where(method_facts.c.id.in_(some))
        for number, text in connection.execute(query):
            facts = parse_record(dict[str, str], text, f"method {number}: damaged: its facts", StoreFormatError)
            short = {name: facts.get(column, "") for name, column in _NAMES.items()}
            short["model"] = short["model"][:12]
            found[number] = ({name: value for name, value in short.items() if value}, facts.get("source_hash", ""))
    return found
