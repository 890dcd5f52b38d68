"""What a replay says: how long, how much of the exchange is not hidden by computation, what the end waited for.

Mental model: of each rank the intervals in which it computes and in which it exchanges (or waits for others to come).
Exposed is what is exchange and no computation. The critical path goes back from the last end, each node to the one
whose end let it begin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from gpusim.execution.trace import ExecutionTrace, Node

_COMPUTING = ("compute", "memory")


@dataclass(frozen=True, slots=True)
class Happened:
    """``node`` began, and ended; ``moved``: of an exchange when its last member had come; ``after``: (rank, id) of the
    node whose end let it begin, None for none. Seconds."""

    node: Node
    began: float
    moved: float
    ended: float
    after: tuple[int, int] | None


@dataclass(frozen=True)
class RankTimes:
    """Of one rank, in seconds: ``total`` until its last end, in which it was ``computing``, ``exchanging`` (waits for
    others included, ``waiting``), ``exposed`` (exchanging and not computing), ``idle`` (neither)."""

    rank: int
    total: float
    computing: float
    exchanging: float
    waiting: float
    exposed: float
    idle: float


@dataclass(frozen=True)
class Replay:
    """``happened``: by rank and node id; ``carried_bytes``: by link of the cluster."""

    gpu: str
    gpus: int
    happened: Mapping[int, Mapping[int, Happened]]
    traces: Mapping[int, ExecutionTrace]
    carried_bytes: Mapping[str, float]

    @property
    def seconds(self) -> float:
        """Until the last end of any rank."""
        return max((each.ended for own in self.happened.values() for each in own.values()), default=0.0)

    def times(self) -> list[RankTimes]:
        """Of each rank."""
        return [_times(rank, list(own.values())) for rank, own in self.happened.items()]

    def critical_path(self) -> list[tuple[int, Happened, float]]:
        """Rank, node, and the seconds that it adds, from the first to the last; they add up to all but where nothing
        was let begin by an end."""
        last = max(
            ((each.ended, rank, node) for rank, own in self.happened.items() for node, each in own.items()),
            default=None,
        )
        found: list[tuple[int, Happened, float]] = []
        place = None if last is None else (last[1], last[2])
        until = 0.0 if last is None else last[0]
        while place is not None:
            each = self.happened[place[0]][place[1]]
            begin = min(until, each.moved if each.node.communicates else each.began)
            found.append((place[0], each, until - begin))
            until, place = begin, each.after
        return found[::-1]


def _times(rank: int, rows: list[Happened]) -> RankTimes:
    total = max((each.ended for each in rows), default=0.0)
    computing = _joined((each.began, each.ended) for each in rows if each.node.kind in _COMPUTING)
    exchanging = _joined((each.began, each.ended) for each in rows if each.node.communicates)
    both = _joined([*computing, *exchanging])
    waiting = _joined((each.began, each.moved) for each in rows if each.node.communicates)
    exposed = _length(both) - _length(computing)
    return RankTimes(
        rank, total, _length(computing), _length(exchanging), _length(waiting), exposed, total - _length(both)
    )


def _joined(intervals: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    found: list[tuple[float, float]] = []
    for begin, end in sorted(intervals):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        elif end > begin:
            found.append((begin, end))
    return found


def _length(intervals: list[tuple[float, float]]) -> float:
    return sum(end - begin for begin, end in intervals)


def rank_records(found: Replay) -> list[dict[str, Any]]:
    """A row a rank, times in microseconds."""
    rows = []
    for each in found.times():
        rows.append({"rank": each.rank} | {
            f"{name}_us": _figure(1e6 * getattr(each, name))
            for name in ("total", "computing", "exchanging", "waiting", "exposed", "idle")
        } | {"exposed_percent": _figure(100 * each.exposed / each.total if each.total else 0.0)})  # fmt: skip
    return rows


def path_records(found: Replay) -> list[dict[str, Any]]:
    """What the critical path consists of: a row a rank and node's name, the costliest first."""
    sums: dict[tuple[int, str, str], list[float]] = {}
    for rank, each, seconds in found.critical_path():
        own = sums.setdefault((rank, each.node.kind, each.node.name), [0, 0.0])
        own[0] += 1
        own[1] += seconds
    total = found.seconds or 1.0
    rows = sorted(sums.items(), key=lambda pair: -pair[1][1])
    return [
        {"rank": rank, "kind": kind, "node": name, "nodes": int(count), "us": _figure(1e6 * seconds), "percent": _figure(100 * seconds / total)}
        for (rank, kind, name), (count, seconds) in rows
    ]  # fmt: skip


def node_records(found: Replay) -> list[dict[str, Any]]:
    """A row a node, as it ran."""
    return [
        {
            "rank": rank, "id": each.node.id, "node": each.node.name, "kind": each.node.kind, "stream": each.node.stream, "begin_us": _figure(1e6 * each.began),
            "end_us": _figure(1e6 * each.ended), "us": _figure(1e6 * (each.ended - each.began)), "waited_us": _figure(1e6 * (each.moved - each.began)),
        }
        for rank, own in found.happened.items()
        for each in sorted(own.values(), key=lambda each: (each.began, each.node.id))
    ]  # fmt: skip


def _figure(value: float) -> float:
    return float(f"{value:.6g}")
