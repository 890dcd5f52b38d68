"""A small read-only cache of lines whose arrival is known when they are asked for: instructions, constants.

Mental model: sets of ways, least recently used, as rows of (line number + 1, cycle from which the line is there, cycle
of the last use). A line is installed when it is requested, with the cycle of its arrival, so that a second request
waits for the first one's line. Line numbers count from the start of what is cached (a kernel's code, its constant
banks); consecutive ones fall into consecutive sets.

``lines`` is int64[caches, sets, ways, columns].
"""

from __future__ import annotations

import numpy as np

from gpusim.model.compiled import compiled, inner
from gpusim.model.messages import NEVER
from gpusim.model.whole_division import remainder
from gpusim.state_tables import Table

LINE_TABLE = Table(
    __name__,
    "code.l0, code.l1, code.l15, constants",
    "a way of a set of a cache",
    "Small caches of lines whose arrival is known.",
)
TAG = LINE_TABLE.column("index", "1 + the line; 0: empty")
READY = LINE_TABLE.column("cycle", "from which the line is there")
USED = LINE_TABLE.column("cycle", "of its last use")


def line_cache(caches: int, total_bytes: int, line_bytes: int, ways: int) -> np.ndarray:
    """Empty caches of ``total_bytes`` each, int64[caches, ways, sets, columns]; a size that is no multiple of a set's
    is rounded down, to one set at least. Neighbouring lines that came in turn stand side by side."""
    sets = max(1, total_bytes // line_bytes // ways)
    return LINE_TABLE.zeros(caches, ways, sets)


@inner
def set_of(lines, line):
    """The set of a line."""
    sets = lines.shape[2]
    return line & (sets - 1) if sets & (sets - 1) == 0 else remainder(line, sets)


@compiled
def arrival(lines, cache, line, now):
    """Cycle from which ``line`` is there (NEVER: not asked for); it becomes its set's latest used."""
    place = set_of(lines, line)
    for way in range(lines.shape[1]):
        if lines[cache, way, place, TAG] == line + 1:
            lines[cache, way, place, USED] = now
            return lines[cache, way, place, READY]
    return np.int64(NEVER)


@compiled
def install(lines, cache, line, ready, now):
    """Put ``line``, which comes at cycle ``ready``, in place of its set's least recently used one."""
    place = set_of(lines, line)
    victim = 0
    for way in range(lines.shape[1]):
        if lines[cache, way, place, TAG] == 0:
            victim = way
            break
        if lines[cache, way, place, USED] < lines[cache, victim, place, USED]:
            victim = way
    lines[cache, victim, place, TAG] = line + 1
    lines[cache, victim, place, READY] = ready
    lines[cache, victim, place, USED] = now
