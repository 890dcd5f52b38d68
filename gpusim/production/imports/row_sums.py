"""Counts of rows of launches, from arrays of launches: by row, phase and operator.

Mental model: each array is grouped by its three numbers at once; what a group adds to its row are sums, extremes and
counts of bins. Above ``most`` rows a new one is counted without its phase and operator, and above twice that as OTHER
of its GPU.
"""

from __future__ import annotations

import numpy as np

from gpusim.production.imports.device_work import NONE
from gpusim.production.launches import OTHER, Launch, LaunchTotal
from gpusim.record.sketch import LOG_GAMMA, merged

MOST_SUMS = 200_000


class RowSums:
    """``sums``: counts by (row, phase, operator); their ``what`` is filled in by who knows the numbers."""

    def __init__(self, most: int = MOST_SUMS) -> None:
        self.most = most
        self.sums: dict[tuple[int, int, int], LaunchTotal] = {}
        self.coarse = 0

    def add(self, work: np.ndarray) -> None:
        """Count an array of WORK."""
        keys = np.stack([work["row"], work["phase"], work["operator"]], axis=1)
        order = np.lexsort(keys.T[::-1])
        work, keys = work[order], keys[order]
        new = np.any(keys[1:] != keys[:-1], axis=1)
        starts = np.concatenate([[0], np.flatnonzero(new) + 1, [len(work)]])
        timed = work["end"] != NONE
        ns = np.where(timed, work["end"] - work["begin"], 0)
        bins = np.where(ns < 2, 0, np.ceil(np.log(np.maximum(ns, 2)) / LOG_GAMMA)).astype(np.int64)
        for begin, end in zip(starts[:-1].tolist(), starts[1:].tolist()):
            is_timed = timed[begin:end]
            there = self._row(tuple(keys[begin].tolist()))
            part, count = ns[begin:end][is_timed], int(is_timed.sum())
            number, counts = np.unique(bins[begin:end][is_timed], return_counts=True)
            if count:
                there.least_ns = min(there.least_ns, int(part.min())) if there.timed else int(part.min())
                there.most_ns = max(there.most_ns, int(part.max()))
                there.bins = merged(there.bins, dict(zip(number.tolist(), counts.tolist())))
            total = int(part.sum())
            there.launches += end - begin
            there.timed += count
            there.sum_ns += total
            there.weighted_launches += end - begin
            there.weighted_ns += total
            there.moved_bytes += int(work["moved"][begin:end].sum())

    def _row(self, key: tuple[int, ...]) -> LaunchTotal:
        row, phase, operator = key
        there = self.sums.get((row, phase, operator))
        if there is None:
            if len(self.sums) >= self.most:
                self.coarse += 1
                row, phase, operator = (row if len(self.sums) < 2 * self.most else 0), 0, 0
            there = self.sums.setdefault((row, phase, operator), LaunchTotal(Launch(OTHER)))
        return there
