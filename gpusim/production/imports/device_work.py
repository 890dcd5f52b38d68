"""Kernels and copies, joined to the calls that launched them by the correlation number.

Mental model: calls and work are put into one order, by correlation, calls first; then each piece of work belongs to the
last call before it, if that has its number. One call may launch many kernels (a graph), a kernel may have no call (it
was launched before the recording began): its launch time is then NONE.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from gpusim.production.imports.sorted_records import SortedRecords

#: A time that is not known.
NONE = -(1 << 62)
COMPUTATION, COMMUNICATION, COPY = 0, 1, 2
#: ``key``: twice the correlation, plus one for work; ``end`` is NONE where the duration is not known.
WORK = np.dtype([
    ("key", "i8"), ("begin", "i8"), ("end", "i8"), ("device", "i4"), ("stream", "i8"), ("row", "i4"), ("class", "u1"),
    ("moved", "i8"), ("phase", "i4"), ("operator", "i4"), ("launch", "i8"),
])  # fmt: skip
_MOST_CORRELATION = 1 << 61


class DeviceWork:
    """Collects, then joins."""

    def __init__(self) -> None:
        self._records = SortedRecords(WORK)
        self.unknown = 0

    def work(
        self, correlation: int | None, begin_ns: int, end_ns: int | None, device: int, stream: int, row: int, kind: int, moved: int
    ) -> None:  # fmt: skip
        """One kernel or copy; None: not told."""
        if correlation is None or not 0 < correlation < _MOST_CORRELATION:
            self.unknown += 1
            correlation = -self.unknown
        ended = NONE if end_ns is None else end_ns
        self._records.append((2 * correlation + 1, begin_ns, ended, device, stream, row, kind, moved, 0, 0, NONE))

    def joined(self, calls: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
        """Work as WORK, with its launch time, phase and operator; once."""
        for batch in calls:
            records = np.zeros(len(batch), WORK)
            records["key"] = 2 * np.clip(batch["correlation"], -_MOST_CORRELATION, _MOST_CORRELATION)
            records["launch"] = batch["begin"]
            records["phase"], records["operator"] = batch["phase"], batch["operator"]
            self._records.extend(records)
        last = np.zeros(1, WORK)
        last["key"] = -2 * _MOST_CORRELATION
        for batch in self._records.batches():
            whole = np.concatenate([last, batch])
            is_call = whole["key"] & 1 == 0
            at = np.maximum.accumulate(np.where(is_call, np.arange(len(whole)), 0))
            last = whole[at[-1:]].copy()
            is_work = ~is_call
            work, call = whole[is_work], whole[at[is_work]]
            known = work["key"] >> 1 == call["key"] >> 1
            for name in ("launch", "phase", "operator"):
                work[name] = np.where(known, call[name], work[name])
            if len(work):
                yield work
