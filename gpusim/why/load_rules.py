"""Rules about loads that are waited for: in a loop, outside of loops, in shared memory.

Mental model: a warp that waits for one load at a time takes a latency for each; with several in flight it takes one
latency for all. What has them in flight depends on why they are not: iterations that follow each other (unroll), a barrier
between them (prefetch), a chain of pointers (several chains), or a thread that has nothing else to load (more elements
a thread).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gpusim.model import stall_reasons as stall
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space
from gpusim.why import retrace
from gpusim.why.evidence import Evidence
from gpusim.why.loops import Loop, feeds_itself, loads_of, never_waiting, prefetched, unrolled
from gpusim.why.proposal import LEAST_PERCENT, UNROLL, Proposal

_FAR = (Space.GLOBAL, Space.GENERIC, Space.LOCAL)


def _waits(found: Evidence, reason: int) -> dict[Loop | None, float]:
    """Percent of the warp-cycles that wait for ``reason``, by the innermost loop that they wait in."""
    sums: dict[Loop | None, float] = {}
    for index in np.flatnonzero(found.stalls[:, reason]):
        loop = found.loop_of(int(index))
        sums[loop] = sums.get(loop, 0.0) + 100.0 * float(found.stalls[index, reason]) / found.warp_cycles
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def loads_in_flight(found: Evidence) -> Iterator[Proposal]:
    """Loads that each iteration of a loop waits for."""
    for loop, percent in _waits(found, stall.LONG_SCOREBOARD).items():
        if loop is None or percent < LEAST_PERCENT:
            continue
        loads = loads_of(found.program, loop, (MemoryKind.LOAD,), _FAR).tolist()
        if not loads:
            continue
        issued = found.stalls[loads, SELECTED]
        load = loads[int(np.argmax(issued))]
        each = len([load for load in loads if found.stalls[load, SELECTED]])
        place, many = found.place(load), _number(each, "load")
        synchronised = (found.program.instructions["flags"][loop.of(found.program)] & Flag.BARRIER_WAIT != 0).any()
        if synchronised:
            spare = prefetched(found.traces[0], loop, loads) is not None
            ahead = prefetched if spare else never_waiting
            yield Proposal(
                "loads in flight", percent, place, f"{many} waited for in each iteration",
                "load the next tile while this one is worked on (prefetch into registers)",
                "each iteration waits for the loads of the one before" if spare else "no iteration waits for its loads",
                trace=lambda t, loop=loop, loads=loads, ahead=ahead: ahead(t, loop, loads) or t, at_most=not spare,
            )  # fmt: skip
        elif any(feeds_itself(found.program, loop, load) for load in loads):
            yield Proposal(
                "dependent loads", percent, place, "each load needs the one before it",
                "follow two chains at a time", "the loads of two iterations in flight together",
                trace=lambda t, loop=loop, loads=loads: unrolled(t, loop, loads, 2),
            )  # fmt: skip
        else:
            yield Proposal(
                "loads in flight", percent, place, f"{many} in flight", f"unroll by {UNROLL} ({UNROLL * each} in flight)",
                f"the loads of {UNROLL} iterations in flight together",
                trace=lambda t, loop=loop, loads=loads: unrolled(t, loop, loads, UNROLL),
            )  # fmt: skip


def elements_a_thread(found: Evidence) -> Iterator[Proposal]:
    """Loads outside of loops, in kernels whose blocks share nothing."""
    percent = _waits(found, stall.LONG_SCOREBOARD).get(None, 0.0)
    launch, table = found.first.launch, found.program.instructions
    shared = launch.shared_bytes or (table["space"] == Space.SHARED).any() or (table["pipe"] == PipeClass.BARRIER).any()
    loads = loads_of(found.program, None, (MemoryKind.LOAD,), _FAR)
    if percent < LEAST_PERCENT or shared or launch.cooperative or launch.blocks < 2 * UNROLL or not len(loads):
        return
    load = int(loads[np.argmax(found.stalls[loads, SELECTED])])
    yield Proposal(
        "elements a thread", percent, found.place(load), "each thread waits for its own few loads",
        f"let each thread take {UNROLL} elements, all loads first",
        f"{UNROLL} blocks' work done by one, its loads in flight together",
        trace=lambda t: retrace.joined_blocks(t, UNROLL),
    )  # fmt: skip


def shared_latency(found: Evidence) -> Iterator[Proposal]:
    """Loads of shared memory that each iteration of a loop waits for."""
    for loop, percent in _waits(found, stall.SHORT_SCOREBOARD).items():
        if loop is None or percent < LEAST_PERCENT:
            continue
        loads = loads_of(found.program, loop, (MemoryKind.LOAD, MemoryKind.MATRIX_LOAD), (Space.SHARED,)).tolist()
        barriers = found.program.instructions["flags"][loop.of(found.program)] & Flag.BARRIER_WAIT != 0
        if not loads or barriers.any() or any(feeds_itself(found.program, loop, load) for load in loads):
            continue
        load = loads[int(np.argmax(found.stalls[loads, SELECTED]))]
        yield Proposal(
            "shared loads in flight", percent, found.place(load), "each shared-memory load is waited for",
            f"unroll by {UNROLL}", f"the loads of {UNROLL} iterations in flight together",
            trace=lambda t, loop=loop, loads=loads: unrolled(t, loop, loads, UNROLL),
        )  # fmt: skip


def _number(count_: int, what: str) -> str:
    words = {1: "one", 2: "two", 3: "three", 4: "four"}
    return f"{words.get(count_, str(count_))} {what}{'' if count_ == 1 else 's'}"
