"""The loops of a program as its warps ran through them, and the same program with fewer waits in a loop.

Mental model: a path that jumps back from ``last`` to ``head`` is a loop of the instructions between. What a loop that
was unrolled four times would wait is simulated by letting three of four iterations run in a copy of the program
that does not wait for the loop's loads, and the fourth in the original, which waits for all of them: their loads are in
flight together. Prefetching is simulated by two copies that take turns: each waits for the loads of the iteration
before. The copies stand at the original's addresses, so that the instruction caches see the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gpusim.trace.compiled import reading
from gpusim.trace.record import NO_BARRIER, Chunk, Flag, Program, Trace
from gpusim.why.retrace import ChangedChunks

#: Dependence counters of a warp.
_COUNTERS = 6
#: More iterations than a loop has.
_ALL = 1 << 62


@dataclass(frozen=True)
class Loop:
    """Instructions ``head`` to ``last`` (indices, both included), of which paths jump back to ``head``."""

    head: int
    last: int

    def of(self, program: Program) -> np.ndarray:
        """Whether each instruction is in the loop, bool[instructions]."""
        index = np.arange(len(program.instructions))
        return (index >= self.head) & (index <= self.last)


def find_loops(trace: Trace) -> list[Loop]:
    """The loops of ``trace``, innermost first. A jump back from code behind the kernel's end (a slow path that the
    compiler put there) makes none."""
    table = trace.program.instructions
    ends = (table["flags"] & Flag.EXIT != 0) & np.array([not text.startswith("@") for text in trace.program.texts])
    before = np.concatenate(([0], np.cumsum(ends)))
    found: dict[int, int] = {}
    for chunk in trace.chunk_list:
        first = chunk.runs["first"].astype(np.int64)
        last = first + chunk.runs["count"] - 1
        follows = np.ones(len(first), bool)
        follows[chunk.path_start[:-1][np.diff(chunk.path_start) > 0]] = False
        back = np.flatnonzero(follows[1:] & (first[1:] <= last[:-1]))
        for head, end in np.unique(np.stack((first[1:][back], last[:-1][back])), axis=1).T.tolist():
            if before[end + 1] == before[head]:
                found[head] = max(end, found.get(head, 0))
    return sorted((Loop(head, last) for head, last in found.items()), key=lambda loop: loop.last - loop.head)


def innermost(loops: Sequence[Loop], index: int) -> Loop | None:
    """The smallest of ``loops`` (as :func:`find_loops` orders them) that holds instruction ``index``."""
    return next((loop for loop in loops if loop.head <= index <= loop.last), None)


def feeds_itself(program: Program, loop: Loop, load: int) -> bool:
    """Whether the address of ``load`` depends on what it loaded in the iteration before: a chain of pointers."""
    table = program.instructions
    tainted: set[int] = set()
    for _ in range(2):
        for i in range(loop.head, loop.last + 1):
            row = table[i]
            words = zip(row["sources"].tolist(), row["source_words"].tolist(), strict=True)
            reads = {register + k for register, count in words if register >= 0 for k in range(max(1, count))}
            if i == load and reads & tainted:
                return True
            if row["destination"] < 0:
                continue
            written = {int(row["destination"]) + k for k in range(max(1, int(row["destination_count"])))}
            if i == load or reads & tainted:
                tainted |= written
            elif not program.texts[i].startswith("@"):
                tainted -= written
    return False


def loads_of(program: Program, loop: Loop | None, kinds: Sequence[int], spaces: Sequence[int]) -> np.ndarray:
    """Indices of the loop's (or the program's) memory instructions of ``kinds`` in ``spaces`` that raise a counter."""
    table = program.instructions
    chosen = np.isin(table["memory_kind"], kinds) & np.isin(table["space"], spaces)
    chosen &= table["write_barrier"] != NO_BARRIER
    return np.flatnonzero(chosen & loop.of(program) if loop else chosen)


def most_in_flight(program: Program, loop: Loop, loads: Sequence[int]) -> int:
    """The most of ``loads`` that an iteration of ``loop`` issues before it waits for one of them."""
    table, chosen = program.instructions, set(loads)
    open_loads = dict.fromkeys(range(_COUNTERS), 0)
    most = 0
    for i in range(loop.head, loop.last + 1):
        for counter in open_loads:
            if int(table["wait_mask"][i]) >> counter & 1:
                open_loads[counter] = 0
        if i in chosen:
            open_loads[int(table["write_barrier"][i])] += 1
            most = max(most, sum(open_loads.values()))
    return most


def unrolled(trace: Trace, loop: Loop, loads: Sequence[int], times: int) -> Trace:
    """``trace`` with the ``loads`` of ``times`` iterations of ``loop`` in flight together."""
    return _with_copies(trace, loop, [_without_waits(trace.program, loop, loads)], times)


def prefetched(trace: Trace, loop: Loop, loads: Sequence[int]) -> Trace | None:
    """``trace`` with each iteration of ``loop`` waiting for the ``loads`` of the one before; None where all dependence
    counters are taken."""
    table = trace.program.instructions
    own = loop.of(trace.program)
    used = set(table["write_barrier"][own].tolist()) | set(table["read_barrier"][own].tolist())
    masks = int(np.bitwise_or.reduce(table["wait_mask"][own]))
    free = [c for c in range(_COUNTERS) if c not in used and not masks >> c & 1]
    taken = sorted({int(table["write_barrier"][load]) for load in loads})
    if len(free) < len(taken):
        return None
    other = dict(zip(taken, free, strict=False))
    even, odd = trace.program.instructions.copy(), trace.program.instructions.copy()
    chosen = np.zeros(len(table), bool)
    chosen[list(loads)] = True
    for counter, twin in other.items():
        waits = own & (table["wait_mask"] >> counter & 1 == 1)
        even["wait_mask"][waits] ^= np.uint8(1 << counter | 1 << twin)
        odd["write_barrier"][chosen & (table["write_barrier"] == counter)] = twin
    programs = [replace(trace.program, instructions=code) for code in (even, odd)]
    return _with_copies(trace, loop, programs, 0)


def never_waiting(trace: Trace, loop: Loop, loads: Sequence[int]) -> Trace:
    """``trace`` with no iteration of ``loop`` but the last waiting for the ``loads``."""
    return _with_copies(trace, loop, [_without_waits(trace.program, loop, loads)], _ALL)


def _without_waits(program: Program, loop: Loop, loads: Sequence[int]) -> Program:
    code = program.instructions.copy()
    counters = 0
    for load in loads:
        counters |= 1 << int(code["write_barrier"][load])
    code["wait_mask"][loop.of(program)] &= np.uint8(~counters & 0xFF)
    return replace(program, instructions=code)


def _with_copies(trace: Trace, loop: Loop, copies: Sequence[Program], times: int) -> Trace:
    """Iterations in copies of the program; ``times``: all but each ``times``-th in the first one, 0: in turns."""
    program = trace.program
    size = len(program.instructions)
    joined = replace(
        program,
        instructions=np.concatenate([program.instructions, *(copy.instructions for copy in copies)]),
        texts=program.texts * (1 + len(copies)),
    )

    def change(chunk: Chunk) -> Chunk:
        runs = chunk.runs.copy()
        iteration, length = (np.full(len(runs), -1, np.int64) for _ in range(2))
        _enter_copies(runs, chunk.path_start, loop.head, loop.last, times, size, iteration, length)
        return replace(chunk, runs=runs)

    return Trace(joined, trace.launch, ChangedChunks(trace.chunk_list, lambda: change))


@reading
def _enter_copies(runs, path_start, head, last, times, size, iteration, length):  # pragma: no cover - jitted
    """Move each run of the loop into its iteration's copy, ``size`` instructions apart. ``iteration`` and ``length``
    int64[runs], all -1: which iteration of how many each run belongs to."""
    for path in range(path_start.shape[0] - 1):
        start, stop = path_start[path], path_start[path + 1]
        visit = start
        number = -1
        for r in range(start, stop + 1):
            first = last + 1
            end = last
            if r < stop:
                first = np.int64(runs[r]["first"])
                end = first + np.int64(runs[r]["count"]) - 1
            if first > last or end < head:  # outside the loop: the visit is over
                for earlier in range(visit, r):
                    if iteration[earlier] >= 0:
                        length[earlier] = number + 1
                visit = r
                number = -1
                continue
            came_back = False
            if r > start:
                before = np.int64(runs[r - 1]["first"]) + np.int64(runs[r - 1]["count"]) - 1
                came_back = first == head and head <= before <= last
            if came_back:
                number += 1
            elif first <= head:  # a new visit, right behind another
                for earlier in range(visit, r):
                    if iteration[earlier] >= 0:
                        length[earlier] = number + 1
                visit = r
                number = 0
            iteration[r] = max(number, 0)
        copy = 0
        following = np.int64(-1)  # what a path that does not jump goes on with
        for r in range(start, stop):
            first = np.int64(runs[r]["first"])
            jumps = first != following
            following = first + np.int64(runs[r]["count"])
            if jumps:
                if iteration[r] < 0 or iteration[r] == 0 and times == 0:
                    copy = 0
                elif times == 0:
                    copy = 1 + iteration[r] % 2
                else:
                    inside = iteration[r] % times != times - 1 and iteration[r] != length[r] - 1
                    copy = 1 if inside else 0
            runs[r]["first"] = first + copy * size
