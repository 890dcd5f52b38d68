"""How many launches wait on each stream, over time, and how long each waits from its call to its start.

Mental model: a call adds one to its stream's queue, a start takes one away. Only work whose call was recorded counts,
and work that seems to start before its call (clocks of host and GPU differ by microseconds) starts with it: so the
length is never negative. Its time integral, taken at the ends of equal intervals of the span, gives the mean length in
each: exact, however many launches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from gpusim.production.facts import Evidence, Fact
from gpusim.production.imports.device_work import NONE
from gpusim.production.imports.sorted_records import SortedRecords
from gpusim.record.sketch import LOG_GAMMA, merged, quantile_ns

INTERVALS = 48
#: ``key``: time; at one time, calls (``change`` 1) before starts (-1).
CHANGE = np.dtype([("key", "i8"), ("tie", "i1"), ("change", "i1"), ("device", "i4"), ("stream", "i8")])


class Delays:
    """From call to start, of one GPU."""

    def __init__(self) -> None:
        self.bins: dict[int, int] = {}
        self.count = self.sum_ns = self.most_ns = self.early = self.earliest_ns = self.without_call = 0
        self.most: tuple[int, int, int] = (0, 0, 0)

    def add(self, work: np.ndarray) -> None:
        """Any WORK of the GPU."""
        known = work[work["launch"] != NONE]
        self.without_call += len(work) - len(known)
        if not len(known):
            return
        delay = known["begin"] - known["launch"]
        self.early += int((delay < 0).sum())
        self.earliest_ns = min(self.earliest_ns, int(delay.min()))
        delay = np.maximum(delay, 0)
        self.count, self.sum_ns = self.count + len(delay), self.sum_ns + int(delay.sum())
        at = int(delay.argmax())
        self.most = max(self.most, (int(delay[at]), int(known["begin"][at]), int(known["row"][at])))
        bins = np.where(delay < 2, 0, np.ceil(np.log(np.maximum(delay, 2)) / LOG_GAMMA)).astype(np.int64)
        number, counts = np.unique(bins, return_counts=True)
        self.bins = merged(self.bins, dict(zip(number.tolist(), counts.tolist())))

    def fact(self, rank: int, device: str, names: list[str]) -> Fact | None:
        """None where no call is known."""
        if not self.count:
            return None
        half, most = quantile_ns(self.bins, 0.5) or 0.0, quantile_ns(self.bins, 0.99) or 0.0
        numbers = {
            "launches": self.count, "without_call": self.without_call, "before_call": self.early,
            "earliest_ns": self.earliest_ns, "mean_ns": self.sum_ns / self.count, "median_ns": half, "p99_ns": most,
            "most_ns": self.most[0],
        }  # fmt: skip
        summary = f"from the launch call to the start: median {half / 1e3:.1f} us, p99 {most / 1e3:.1f} us"
        if self.early:
            summary += f"; {self.early} start before their call, by {-self.earliest_ns / 1e3:.1f} us at most: the clocks differ"
        length, begin, row = self.most
        evidence = [Evidence(names[row], begin, rank=rank, value=float(length))]
        return Fact("delay", summary, rank, device, "", {k: float(v) for k, v in numbers.items()}, evidence)


def changes(work: np.ndarray) -> np.ndarray:
    """What an array of WORK does to queues."""
    known = work[work["launch"] != NONE]
    made = np.zeros(2 * len(known), CHANGE)
    made["key"] = np.concatenate([known["launch"], np.maximum(known["begin"], known["launch"])])
    made["change"] = np.repeat(np.array([1, -1], "i1"), len(known))
    made["tie"] = -made["change"]
    made["device"], made["stream"] = np.tile(known["device"], 2), np.tile(known["stream"], 2)
    return made


class _Queue:
    def __init__(self, edges: np.ndarray) -> None:
        self.edges, self.at_edges = edges, np.zeros(len(edges))
        self.length = self.most = self.launches = 0
        self.most_at_ns, self.time, self.integral = 0, int(edges[0]), 0.0

    def add(self, time: np.ndarray, change: np.ndarray) -> None:
        lengths = self.length + np.cumsum(change.astype(np.int64))
        assert lengths.min() >= 0, "a launch started before it was queued"
        before = np.concatenate([[self.length], lengths[:-1]])
        times = np.concatenate([[self.time], time])
        integral = self.integral + np.concatenate([[0.0], np.cumsum(before * np.diff(times).astype(float))])
        inside = (self.edges >= times[0]) & (self.edges <= times[-1])
        self.at_edges[inside] = np.interp(self.edges[inside], times, integral)
        at = int(lengths.argmax())
        if lengths[at] > self.most:
            self.most, self.most_at_ns = int(lengths[at]), int(time[at])
        self.launches += int((change > 0).sum())
        self.length, self.time, self.integral = int(lengths[-1]), int(time[-1]), float(integral[-1])

    def means(self) -> np.ndarray:
        """The mean length in each interval between edges."""
        late = self.edges > self.time
        self.at_edges[late] = self.integral + self.length * (self.edges[late] - self.time).astype(float)
        return np.diff(self.at_edges) / np.maximum(np.diff(self.edges), 1)


def queue_facts(
    records: Iterable[np.ndarray], first_ns: int, last_ns: int, rank: int, devices: list[str]
) -> Iterator[Fact]:
    """One fact a stream, from arrays of CHANGE in the order of time between these two times, both included."""
    edges = np.linspace(first_ns, max(last_ns, first_ns + 1), INTERVALS + 1).astype(np.int64)
    queues: dict[tuple[int, int], _Queue] = {}
    for batch in records:
        names, which = np.unique(batch[["device", "stream"]], return_inverse=True)
        for i, (device, stream) in enumerate(names.tolist()):
            part = batch[which == i]
            queue = queues.setdefault((device, stream), _Queue(edges))
            queue.add(part["key"], part["change"])
    for (device, stream), queue in sorted(queues.items()):
        means = queue.means()
        mean = queue.integral / max(1, last_ns - first_ns)
        numbers = {"launches": queue.launches, "mean": mean, "most": queue.most, "most_at_ns": queue.most_at_ns}
        summary = f"stream {stream}: {mean:.2f} launches wait on average, {queue.most} at most"
        evidence = [
            Evidence("mean length", int(begin), int(end - begin), rank, float(value))
            for begin, end, value in zip(edges[:-1], edges[1:], means)
        ]
        yield Fact(
            "queue",
            summary,
            rank,
            devices[device],
            f"stream {stream}",
            {k: float(v) for k, v in numbers.items()},
            evidence,
        )


def sorted_changes() -> SortedRecords:
    """Where :func:`changes` gather."""
    return SortedRecords(CHANGE)
