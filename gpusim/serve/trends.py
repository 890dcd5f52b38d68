"""What runs keep as documents, over time: errors of comparisons with silicon, and coverage of behaviours.

Mental model: a document never changes once it is kept, so that its summary is made once in a process and remembered by
its number (:class:`Trends`); each look at the store reads those only that are new. A document that is none, or of
another version, is left out: the page shows what can be read.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Generic, NotRequired, TypedDict, TypeVar

from sqlalchemy import select

from gpusim.compare.error import Verdict
from gpusim.errors import StoreFormatError, UsageError
from gpusim.io.records import Count, Finite, as_record, parse_record
from gpusim.store.schema import documents, runs
from gpusim.store.store import Store

#: The newest documents of a kind that a page looks at.
MOST_DOCUMENTS = 2000
#: A comparison of so many lines keeps its newest ones alone in full.
MOST_LINES = 5000
COMPARISON, COVERAGE = "comparison", "coverage"
_T = TypeVar("_T")


class _Line(TypedDict):
    """A line of a document of a comparison."""

    key: str
    verdict: Verdict
    error_percent: Finite | None
    simulated: NotRequired[Finite | None]


class _Compared(TypedDict):
    """What ``gpusim compare --save`` keeps, as far as it is shown."""

    lines: list[_Line]


@dataclass(frozen=True)
class ComparedLine:
    """One launch or published series of a comparison; ``error_percent``: simulated over measured, NaN where it has
    none; of a series (``is_series``) the mean of its points' absolute errors."""

    gpu: str
    name: str
    verdict: str
    error_percent: float
    is_series: bool = False


@dataclass(frozen=True)
class ComparedRun:
    """A comparison: ``mean_percent``: GPU -> mean absolute error of its lines with a figure, and how many these are;
    ``found``: its lines."""

    run: int
    name: str
    started: str
    gpusim_version: str
    model_hash: str
    mean_percent: dict[str, tuple[float, int]]
    found: Sequence[_Line] = field(repr=False)

    def lines(self, gpu: str) -> list[ComparedLine]:
        """Those of ``gpu``, the largest errors first."""
        own = [line for line in self.found if line["key"].partition(" ")[0] == gpu]
        rows = [ComparedLine(gpu, line["key"].partition(" ")[2], line["verdict"],
                             math.nan if line["error_percent"] is None else line["error_percent"],
                             line.get("simulated", 0.0) is None) for line in own]  # fmt: skip
        return sorted(rows, key=lambda row: -abs(row.error_percent) if row.error_percent == row.error_percent else 0.0)


@dataclass(frozen=True)
class CoveredRun:
    """A run of ``gpusim cover run``: ``points``: (point, bins, hit, holes as text); ``holes``: (point, bin, workload to
    try, why)."""

    run: int
    name: str
    started: str
    gpusim_version: str
    launches: int
    points: Sequence[tuple[str, int, int, str]]
    holes: Sequence[tuple[str, str, str, str]]

    @property
    def percent(self) -> float:
        """Bins that were hit."""
        bins = sum(point[1] for point in self.points)
        return 100.0 * sum(point[2] for point in self.points) / bins if bins else 0.0


class _Point(TypedDict):
    """A point of a document of coverage; keys beside these are left alone."""

    point: str
    bins: Count
    hit: Count
    percent: Finite
    holes: str


class _Hole(TypedDict):
    """A hole of it."""

    point: str
    bin: str
    because: str
    fills: Count


class _Covered(TypedDict):
    """What ``gpusim cover run --save`` keeps."""

    launches: Count
    points: list[_Point]
    holes: list[dict[str, str | int]]


class Trends(Generic[_T]):
    """Documents of ``kind`` that runs of ``command`` keep, oldest first, each made into a value once."""

    def __init__(self, command: str, kind: str, make: Callable[[tuple, str], _T]) -> None:
        self._command, self._kind, self._make = command, kind, make
        self._made: dict[tuple[int, str], _T | None] = {}
        self._lock = threading.Lock()

    def read(self, store: Store) -> list[_T]:
        """All that can be read."""
        c = runs.c
        heads = (
            select(documents.c.id, c.id, c.name, c.started, c.gpusim_version, c.model_hash)
            .join(runs, runs.c.id == documents.c.run_id)
            .where(c.command == self._command, documents.c.kind == self._kind)
            .order_by(documents.c.id.desc())
            .limit(MOST_DOCUMENTS)
        )
        with self._lock, store.reading() as connection:
            if connection is None:
                return []
            rows = [tuple(row) for row in connection.execute(heads)]
            keys = {
                (row[0], row[3]): row for row in rows
            }  # a number and the time of its run: the file may be another one now
            for key, row in keys.items():
                if key not in self._made:
                    text = connection.execute(select(documents.c.content).where(documents.c.id == row[0])).scalar()
                    self._made[key] = None
                    with contextlib.suppress(UsageError, StoreFormatError):
                        self._made[key] = self._make(row[1:], text or "")
            self._made = {key: self._made[key] for key in keys}
            found = [self._made[key] for key in reversed(keys)]
        return [each for each in found if each is not None]


def compared_run(head: tuple, text: str) -> ComparedRun:
    """The summary of a comparison's document."""
    run, name, started, version, model = head
    found = parse_record(_Compared, text, f"run {run}", StoreFormatError)["lines"][:MOST_LINES]
    errors: dict[str, list[float]] = {}
    for line in found:
        if line["error_percent"] is not None:
            errors.setdefault(line["key"].partition(" ")[0], []).append(abs(line["error_percent"]))
    means = {gpu: (math.fsum(each) / len(each), len(each)) for gpu, each in sorted(errors.items())}
    return ComparedRun(run, name, started, version, model, means, found)


def covered_run(head: tuple, text: str) -> CoveredRun:
    """The summary of a document of coverage."""
    run, name, started, version, _ = head
    document = parse_record(_Covered, text, f"run {run}", StoreFormatError)
    points = tuple((p["point"], p["bins"], p["hit"], p["holes"]) for p in document["points"])
    holes = []
    for each in document["holes"]:
        hole = as_record(_Hole, each, f"run {run}", StoreFormatError)
        holes.append((hole["point"], hole["bin"], str(each.get("try", "")), hole["because"]))
    return CoveredRun(run, name, started, version, document["launches"], points, tuple(holes))


def seconds_of(started: str) -> float:
    """Seconds since 1970 of a run's start; 0 for what is no time."""
    try:
        return datetime.fromisoformat(started).timestamp()
    except (ValueError, OverflowError):
        return 0.0
