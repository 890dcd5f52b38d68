"""Histories read back: the series of a plan, the points of a series, what has no value.

Mental model: a point of a history is one commit: of a measurement that was run again the median of its repetitions. Values of the newest
method at a commit stand for it; where two methods gave a value at the same commit (the model was changed and the night run again), the
older ones stay in the store and are read with ``every_method``.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import func, select

from gpusim.store.schema import cells, commits, method_facts, points, refusals, series
from gpusim.store.store import Store
from gpusim.watch.history import History, Point


@dataclass(frozen=True)
class SeriesKey:
    """A series by its number and what it is of; ``unit``: cycles or us; ``file``: where the case stands, empty for the suite."""

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
    """The value of a series at a commit, in the series' unit. ``values``: its repetitions; ``facts``: versions and hashes of how it
    came about; ``launch_id``: the stored launch with its attribution, None for a measurement."""

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
    store: Store, series_id: int, *, every_method: bool = False, newest: int | None = None
) -> list[HistoryPoint]:
    """The history of a series, oldest first; the ``newest`` rows of it where that is given."""
    query = (
        select(points, commits.c.hash, commits.c.time, commits.c.author, commits.c.subject, method_facts.c.facts)
        .join(commits, commits.c.id == points.c.commit_id)
        .join(method_facts, method_facts.c.id == points.c.facts_id)
        .where(points.c.series_id == series_id)
        .order_by(points.c.position.desc(), points.c.id.desc())
    )
    if newest is not None:
        query = query.limit(newest)
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
        row["gpu_hash"], row["clock_hz"], row["launch_id"], json.loads(row["facts"]), values,
    )  # fmt: skip


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
    done = select(func.count()).select_from(cells).where(cells.c.commit_id == commits.c.id).scalar_subquery()
    refused = select(func.count()).select_from(refusals).where(refusals.c.commit_id == commits.c.id).scalar_subquery()
    query = (
        select(commits.c.hash, commits.c.position, commits.c.time, commits.c.subject, done, refused)
        .where(commits.c.plan == plan)
        .order_by(commits.c.position.desc())
        .limit(most)
    )
    with store.reading() as connection:
        return [] if connection is None else [CommitState(*row) for row in connection.execute(query)]


def stored_histories(store: Store, plan: str) -> list[History]:
    """The simulated histories of a plan, as :func:`gpusim.watch.exact.exact_changes` takes them."""
    simulated = [each for each in list_series(store, plan) if each.mode == "simulated"]
    return [History(each.name, tuple(map(_plain, read_points(store, each.id)))) for each in simulated]


def _plain(point: HistoryPoint) -> Point:
    facts = point.facts
    method = {
        "toolchain": facts.get("compiler", ""),
        "gpu_hash": point.gpu_hash[:12],
        "model": facts.get("model_hash", "")[:12],
        "gpusim": facts.get("gpusim_version", ""),
    }
    # The same machine code in another launch is the commit's doing too: its file says so.
    work = f"{point.cubin_hash} {facts.get('source_hash', '')}" if point.cubin_hash else ""
    return Point(point.commit[:12], point.value, {name: value for name, value in method.items() if value}, work)
