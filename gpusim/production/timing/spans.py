"""How long one GPU was busy, with what, and the time between: intervals in the order of their starts, met once.

Mental model: the time covered by intervals grows by what each reaches beyond the latest end so far; where one starts
after that end there is a gap. Both come from a running maximum of ends that is carried from array to array. Time in
which two kinds of work overlap is the sum of what each covers less what both together cover. All times in ns; work
whose end is not known covers nothing.
"""

from __future__ import annotations

import numpy as np

from gpusim.production.imports.device_work import COMMUNICATION, COMPUTATION, NONE


class Covered:
    """Time covered by intervals, sorted by start over all calls."""

    def __init__(self) -> None:
        self.ns, self.count = 0, 0
        self.first_ns: int | None = None
        self.last_ns = NONE
        #: The row whose interval ends last so far.
        self.last_row = 0

    def add(self, begin: np.ndarray, end: np.ndarray, row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """More intervals; for each, the latest end before it and the row that had it (NONE, 0 for the first)."""
        if not len(begin):
            return begin, row
        ends = np.maximum.accumulate(np.concatenate([[self.last_ns], end]))
        leads = np.concatenate([[True], ends[1:] > ends[:-1]])
        rows = np.concatenate([[self.last_row], row])[np.maximum.accumulate(np.where(leads, np.arange(len(ends)), 0))]
        self.ns += int(np.maximum(0, end - np.maximum(begin, ends[:-1])).sum())
        if self.first_ns is None:
            self.first_ns = int(begin[0])
        self.count += len(begin)
        self.last_ns, self.last_row = int(ends[-1]), int(rows[-1])
        return ends[:-1], rows[:-1]


class DeviceSpans:
    """One GPU: anything, communication, computation; each gap in which nothing ran goes to ``gaps``."""

    def __init__(self) -> None:
        self.busy, self.communication, self.computation = Covered(), Covered(), Covered()
        self.kernels = Covered()

    def add(self, work: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """An array of WORK of this GPU in the order of starts: the work itself as far as it is timed, the latest end
        before each and the row that had it."""
        work = work[work["end"] != NONE]
        for kind, covered in ((COMMUNICATION, self.communication), (COMPUTATION, self.computation)):
            part = work[work["class"] == kind]
            covered.add(part["begin"], part["end"], part["row"])
        part = work[(work["class"] == COMMUNICATION) | (work["class"] == COMPUTATION)]
        self.kernels.add(part["begin"], part["end"], part["row"])
        before, rows = self.busy.add(work["begin"], work["end"], work["row"])
        return work, before, rows

    @property
    def overlapped_ns(self) -> int:
        """Time in which communication and computation ran at once."""
        return self.communication.ns + self.computation.ns - self.kernels.ns
