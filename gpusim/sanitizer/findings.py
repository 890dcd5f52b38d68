"""``--check memory,race,sync,leak``: what a launch does that a GPU would not forgive, or not do the same way twice.

Mental model: a checked launch is an ordinary one that goes on where it can. ``memory`` reports accesses outside
every allocation, misaligned ones, and what is freed without having been allocated (compute-sanitizer's *memcheck*; the
threads that made such an access end there, all others run on), and reads of shared or local memory that nothing has
written (*initcheck*). ``race`` reports hazards in shared memory (*racecheck*): two threads of different warps of a
block, at least one writing, no barrier between, not both atomic. ``sync`` reports barriers that threads use wrongly
(*synccheck*): see :mod:`gpusim.sanitizer.synccheck`. ``leak`` reports what a kernel has taken from the device heap and
not given back when the launch ends (memcheck's ``--leak-check full``). Host arrays count as written, and so do the
module's globals; reads of unwritten memory from ``malloc`` and what blocks do to each other are not checked.

Findings that differ only in block, thread or byte are one, with the number of thread accesses; the first is
described.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from gpusim.trace.record import Launch

#: Different findings of one check and launch that are kept; more would not be read.
MOST_FINDINGS = 256


@dataclass(frozen=True)
class Finding:
    """One defect: ``tool`` in compute-sanitizer's words, ``what`` happened, ``count`` times, first by ``thread``
    of ``block`` at ``where`` (SASS address, text, source line); a hazard's other side in ``other_...``."""

    tool: str
    what: str
    count: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    where: str
    other_thread: tuple[int, int, int] | None = None
    other_where: str = ""
    detail: str = ""

    def as_record(self) -> dict[str, object]:
        """The finding as one row of a table."""
        return {
            "tool": self.tool,
            "what": self.what,
            "count": self.count,
            "block": _triple(self.block),
            "thread": _triple(self.thread),
            "where": self.where,
            "other_thread": _triple(self.other_thread) if self.other_thread else "",
            "other_where": self.other_where,
            "detail": self.detail,
        }


class Findings:
    """Findings that differ only in block, thread or byte as one: a count, and the first of them."""

    def __init__(self) -> None:
        self._first: dict[tuple, Finding] = {}
        self._counts: dict[tuple, int] = {}

    def add(self, key: tuple, count: int, make: Callable[[], Finding]) -> None:
        """Count ``count`` more of ``key``; the first of them is described by ``make()``, whose own count is not
        asked."""
        if key in self._counts:
            self._counts[key] += count
        elif len(self._counts) < MOST_FINDINGS:
            self._counts[key], self._first[key] = count, make()

    def listed(self) -> list[Finding]:
        """All of them, in the order in which each was first added."""
        return [replace(self._first[key], count=count) for key, count in self._counts.items()]


def block_index(launch: Launch, linear: int) -> tuple[int, int, int]:
    """blockIdx of block number ``linear``."""
    x, y, _ = launch.grid
    return linear % x, linear // x % y, linear // (x * y)


def thread_index(launch: Launch, linear: int) -> tuple[int, int, int]:
    """threadIdx of thread number ``linear`` of a block."""
    x, y, _ = launch.block
    return linear % x, linear // x % y, linear // (x * y)


def _triple(index: tuple[int, int, int]) -> str:
    return "({}, {}, {})".format(*index)
