"""Time in which nothing ran on a GPU, and whether the host was the cause.

Mental model: in a gap between two pieces of work, the time before the next one had been launched is the host's (it had
nothing to run); the rest passed although work was launched: it waited for something else (an event, a copy, the launch
itself). What was launched before the recording began counts to neither.
"""

from __future__ import annotations

import heapq

import numpy as np

from gpusim.production.facts import Evidence, Fact
from gpusim.production.imports.device_work import NONE
from gpusim.record.sketch import bin_of, quantile_ns

MOST_GAPS = 8


class IdleTime:
    """Gaps of one GPU."""

    def __init__(self) -> None:
        self.ns = self.count = self.host_ns = self.launched_ns = 0
        self.bins: dict[int, int] = {}
        self.longest: list[tuple[int, int, int, int, int]] = []

    def add(self, work: np.ndarray, before: np.ndarray, rows: np.ndarray) -> None:
        """Of :meth:`gpusim.production.timing.spans.DeviceSpans.add`."""
        is_gap = (before != NONE) & (work["begin"] > before)
        work, before, rows = work[is_gap], before[is_gap], rows[is_gap]
        if not len(work):
            return
        gaps = work["begin"] - before
        known = work["launch"] != NONE
        host = np.clip(work["launch"] - before, 0, gaps)[known]
        self.ns, self.count = self.ns + int(gaps.sum()), self.count + len(gaps)
        self.host_ns += int(host.sum())
        self.launched_ns += int((gaps[known] - host).sum())
        lengths, counts = np.unique(gaps, return_counts=True)
        for length, count in zip(lengths.tolist(), counts.tolist()):
            at = bin_of(length)
            self.bins[at] = self.bins.get(at, 0) + count
        for i in np.argsort(gaps)[-MOST_GAPS:].tolist():
            gap = int(gaps[i]), int(before[i]), int(rows[i]), int(work["row"][i]), int(work["launch"][i])
            heapq.heappush(self.longest, gap)
            if len(self.longest) > MOST_GAPS:
                heapq.heappop(self.longest)

    def fact(self, span_ns: int, rank: int, device: str, names: list[str]) -> Fact | None:
        """None where nothing was idle; ``names`` of rows."""
        if not self.count:
            return None
        unknown_ns = self.ns - self.host_ns - self.launched_ns
        numbers = {
            "span_ns": span_ns, "idle_ns": self.ns, "idle_share": self.ns / span_ns, "gaps": self.count,
            "host_ns": self.host_ns, "launched_ns": self.launched_ns, "unknown_ns": unknown_ns,
            "median_ns": quantile_ns(self.bins, 0.5) or 0.0, "p99_ns": quantile_ns(self.bins, 0.99) or 0.0,
            "longest_ns": max(self.longest)[0],
        }  # fmt: skip
        summary = (
            f"nothing ran for {self.ns / 1e6:.3f} of {span_ns / 1e6:.3f} ms ({100 * self.ns / span_ns:.1f} %), "
            f"{100 * self.host_ns / self.ns:.0f} % of that until the next launch was called, "
            f"{100 * self.launched_ns / self.ns:.0f} % although it had been"
        ) + (f", {100 * unknown_ns / self.ns:.0f} % before work whose call is not told" if unknown_ns else "")
        evidence = [
            Evidence(f"between {names[was][:400]} and {names[then][:400]}", begin, length, rank)
            for length, begin, was, then, _ in sorted(self.longest, reverse=True)
        ]
        return Fact("idle", summary, rank, device, "", {k: float(v) for k, v in numbers.items()}, evidence)
