"""Histories read back: the series of a plan, the points of a series, what has no value.

Mental model: a point of a history is one commit: of a measurement that was run again the median of its repetitions.
Values of the newest method at a commit stand for it; where two methods gave a value at the same commit (the model was
changed and the night run again), the older ones stay in the store and are read with ``every_method``.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from sqlalchemy import Connection, func, select

from gpusim.store.schema import cells, commits, method_facts, points, refusals, series
from gpusim.store.store import Store
from gpusim.watch.clock_states import clock_states
from gpusim.watch.history import History, Point

#: Of a series whose values have noise.
MEASURED = "measured"
#: Digits by which a report names a commit, and of a whole hash.
SHOWN_DIGITS, ALL_DIGITS = 12, 64


@dataclass(frozen=True)
class SeriesKey:
    """A series by its number and what it is of; ``unit``: cycles or us; ``file``: where the case stands, empty for the
    suite."""

    id: int
    plan: str
    kernel: str
    shape: str
    launch: int
    gpu: str
    toolchain: str
    mode: str
    unit: str
    file: str

    @property
    def name(self) -> str:
        """What a report calls it."""
        launch = f"#{self.launch}" if self.launch else ""
        text = f"{self.kernel}{':' if self.shape else ''}{self.shape}{launch} on {self.gpu}"
        return text if self.toolchain == "default" else f"{text} by {self.toolchain}"


@dataclass(frozen=True)
class HistoryPoint:
    """The value of a series at a commit, in the series' unit. ``values``: its repetitions; ``facts``: versions and
    hashes of how it came about; ``launch_id``: the stored launch with its attribution, None for a measurement."""

    position: int
    commit: str
    time: int
    author: str
    subject: str
    value: float
    low: float
    high: float
    method: str
    cubin_hash: str
    gpu_hash: str
    clock_hz: float
    launch_id: int | None
    facts: Mapping[str, str]
    values: Sequence[float] = ()


@dataclass(frozen=True)
class KeptRefusal:
    """A cell without a value, and why."""

    commit: str
    position: int
    request: str
    gpu: str
    toolchain: str
    kind: str
    message: str


def plan_names(store: Store) -> list[str]:
    """The plans that have a history."""
    with store.reading() as connection:
        if connection is None:
            return []
        return sorted(connection.execute(select(commits.c.plan).distinct()).scalars())


def list_series(store: Store, plan: str) -> list[SeriesKey]:
    """The series of a plan, by name."""
    query = select(series).where(series.c.plan == plan)
    with store.reading() as connection:
        if connection is None:
            return []
        found = [SeriesKey(**row) for row in connection.execute(query).mappings()]
    return sorted(found, key=lambda each: (each.kernel, each.shape, each.launch, each.gpu, each.toolchain))


def read_points(
    store: Store, series_id: int, *, every_method: bool = False, newest: int | None = None, since: int | None = None
) -> list[HistoryPoint]:
    """The history of a series, oldest first; the ``newest`` rows of it where that is given; from position ``since`` on,
    and the last commit with a value before that."""
    query = (
        select(points, commits.c.hash, commits.c.time, commits.c.author, commits.c.subject, method_facts.c.facts)
        .join(commits, commits.c.id == points.c.commit_id)
        .join(method_facts, method_facts.c.id == points.c.facts_id)
        .where(points.c.series_id == series_id)
        .order_by(points.c.position.desc(), points.c.id.desc())
    )
    if newest is not None:
        query = query.limit(newest)
    if since is not None:
        earlier = select(func.max(points.c.position)).where(points.c.series_id == series_id, points.c.position < since)
        query = query.where(points.c.position >= func.coalesce(earlier.scalar_subquery(), since))
    with store.reading() as connection:
        rows = [] if connection is None else list(connection.execute(query).mappings())
    groups: dict[tuple[int, str], list] = {}
    for row in rows:
        groups.setdefault((row["position"], row["method"]), []).append(row)
    found: list[HistoryPoint] = []
    for (position, _), same in groups.items():
        if every_method or not found or found[-1].position != position:
            found.append(_point(same))
    return found[::-1]


def _point(rows: list) -> HistoryPoint:
    row = rows[0]
    values = tuple(each["value"] for each in reversed(rows))
    return HistoryPoint(
        row["position"], row["hash"], row["time"], row["author"], row["subject"], statistics.median(values),
        min(each["low"] for each in rows), max(each["high"] for each in rows), row["method"], row["cubin_hash"],
        row["gpu_hash"], row["clock_hz"], row["launch_id"], _facts(row["facts"]), values,
    )  # fmt: skip


@lru_cache(maxsize=1024)
def _facts(text: str) -> Mapping[str, str]:
    """The facts of a JSON text; most points of a history have the same."""
    return MappingProxyType(json.loads(text))


def read_refusals(store: Store, plan: str, *, since: int = 0) -> list[KeptRefusal]:
    """The cells of a plan without a value, from position ``since`` on, oldest commit first."""
    query = (
        select(
            commits.c.hash, commits.c.position, refusals.c.request, refusals.c.gpu, refusals.c.toolchain,
            refusals.c.kind, refusals.c.message,
        )
        .join(commits, commits.c.id == refusals.c.commit_id)
        .where(refusals.c.plan == plan, commits.c.position >= since)
        .order_by(commits.c.position, refusals.c.id)
    )  # fmt: skip
    with store.reading() as connection:
        return [] if connection is None else [KeptRefusal(*row) for row in connection.execute(query)]


@dataclass(frozen=True)
class CommitState:
    """A commit of a plan: how many of its cells are kept, and how many of these have no value."""

    hash: str
    position: int
    time: int
    subject: str
    cells: int
    refused: int


def commit_states(store: Store, plan: str, most: int = 20) -> list[CommitState]:
    """The newest ``most`` commits of a plan, newest first."""
    with store.reading() as connection:
        return [] if connection is None else plan_commits(connection, plan, most)


def plan_commits(connection: Connection, plan: str, most: int) -> list[CommitState]:
    """As :func:`commit_states`, for who reads more at the same moment."""
    done = select(func.count()).select_from(cells).where(cells.c.commit_id == commits.c.id).scalar_subquery()
    refused = select(func.count()).select_from(refusals).where(refusals.c.commit_id == commits.c.id).scalar_subquery()
    query = (
        select(commits.c.hash, commits.c.position, commits.c.time, commits.c.subject, done, refused)
        .where(commits.c.plan == plan)
        .order_by(commits.c.position.desc())
        .limit(most)
    )
    return [CommitState(*row) for row in connection.execute(query)]


def history_of(
    key: SeriesKey, points: Sequence[HistoryPoint], *, name: str = "", digits: int = SHOWN_DIGITS
) -> History:
    """The history of ``points`` of a series, called ``name``, by default as a report calls it; its commits by so many
    digits."""
    name = name or key.name
    if key.mode != MEASURED:
        return History(name, tuple(_point_of(point, plain_method(point), digits) for point in points))
    states = clock_states([point.clock_hz for point in points])
    measured = tuple(_point_of(each, _measured_method(each, state), digits) for each, state in zip(points, states))
    return History(name, measured, True, key.unit, (f"kernel {key.kernel}", f"gpu {key.gpu}"))


def plain_method(point: HistoryPoint) -> dict[str, str]:
    """What a simulated value was got with, as :mod:`gpusim.watch.history` names it."""
    facts = point.facts
    return {
        "toolchain": facts.get("compiler", ""),
        "gpu_hash": point.gpu_hash[:12],
        "model": facts.get("model_hash", "")[:12],
        "gpusim": facts.get("gpusim_version", ""),
    }


def _measured_method(point: HistoryPoint, clock: str) -> dict[str, str]:
    facts = point.facts
    return {
        "toolchain": facts.get("compiler", ""),
        "driver": facts.get("driver", ""),
        "host": facts.get("host_hash", "")[:12],
        "device": facts.get("device", "")[:12],
        "clock": clock,
        "timer": facts.get("method", ""),
    }


def _point_of(point: HistoryPoint, method: Mapping[str, str], digits: int) -> Point:
    # The same machine code in another launch is the commit's doing too: its file says so.
    work = f"{point.cubin_hash} {point.facts.get('source_hash', '')}" if point.cubin_hash else ""
    return Point(point.commit[:digits], point.value, {name: value for name, value in method.items() if value}, work)
