"""Rules about loads that are waited for: in a loop, outside of loops, in shared memory.

Mental model: a warp that waits for one load at a time takes a latency for each; with several in flight it takes one
latency for all. What has them in flight depends on why they are not: iterations that follow each other (unroll), a
barrier between them (prefetch), a chain of pointers (several chains), or a thread that has nothing else to load (more
elements a thread).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from gpusim.model import stall_reasons as stall
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import Flag, MemoryKind, PipeClass, Space, Trace
from gpusim.why import retrace
from gpusim.why.evidence import Evidence
from gpusim.why.loops import Loop, feeds_itself, loads_of, most_in_flight, never_waiting, prefetched, unrolled
from gpusim.why.proposal import LEAST_PERCENT, UNROLL, Proposal

#: Loads that a warp is proposed to have in flight: registers for more are rarely free. A guess.
MOST_IN_FLIGHT = 16
_FAR = (Space.GLOBAL, Space.GENERIC, Space.LOCAL)


def _waits(found: Evidence, reason: int) -> dict[Loop | None, float]:
    """Percent of the warp-cycles that wait for ``reason``, by the innermost loop that they wait in."""
    sums: dict[Loop | None, float] = {}
    for index in np.flatnonzero(found.stalls[:, reason]):
        loop = found.loop_of(int(index))
        sums[loop] = sums.get(loop, 0.0) + 100.0 * float(found.stalls[index, reason]) / found.warp_cycles
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


@dataclass
class _Group:
    """Loops of one line and kind (the compiler makes several of one): changed together."""

    percent: float
    in_flight: int
    changes: list[Callable[[Trace], Trace]]

    def change(self, trace: Trace) -> Trace:
        for change in self.changes:
            trace = change(trace)
        return trace


def loads_in_flight(found: Evidence) -> Iterator[Proposal]:
    """Loads that each iteration of a loop waits for."""
    groups: dict[tuple[str, str, int], _Group] = {}
    for loop, percent in _waits(found, stall.LONG_SCOREBOARD).items():
        loads = loads_of(found.program, loop, (MemoryKind.LOAD,), _FAR).tolist() if loop else []
        if loop is None or not loads:
            continue
        place = found.place(loads[int(np.argmax(found.stalls[loads, SELECTED]))])
        together = most_in_flight(found.program, loop, loads)
        kind, times, change = _change(found, loop, loads, together)
        if change is not None:
            group = groups.setdefault((kind, place, times), _Group(0.0, 0, []))
            group.percent += percent
            group.in_flight = max(group.in_flight, together)
            group.changes.append(change)
    for (kind, place, times), group in groups.items():
        if group.percent >= LEAST_PERCENT:
            yield _proposal(kind, place, times, group)


def _change(
    found: Evidence, loop: Loop, loads: list[int], together: int
) -> tuple[str, int, Callable[[Trace], Trace] | None]:
    """What would have more of the ``loads`` of a loop in flight, ``together`` being so now: the kind of change, how
    many iterations it joins, and the change; None where registers would hardly do."""
    if (found.program.instructions["flags"][loop.of(found.program)] & Flag.BARRIER_WAIT != 0).any():
        if prefetched(found.traces[0], loop, loads) is None:
            return "ahead", 0, lambda trace: never_waiting(trace, loop, loads)
        return "prefetch", 0, lambda trace: prefetched(trace, loop, loads) or trace
    if any(feeds_itself(found.program, loop, load) for load in loads):
        return "chains", 2, lambda trace: unrolled(trace, loop, loads, 2)
    times = next((times for times in (UNROLL, 2) if times * together <= MOST_IN_FLIGHT), 0)
    return "unroll", times, (lambda trace: unrolled(trace, loop, loads, times)) if times else None


def _proposal(kind: str, place: str, times: int, group: _Group) -> Proposal:
    percent, many = group.percent, _number(group.in_flight, "load")
    if kind == "chains":
        return Proposal(
            "dependent loads", percent, place, "each load needs the one before it", "follow two chains at a time",
            "the loads of two iterations in flight together", trace=group.change,
        )  # fmt: skip
    if kind == "unroll":
        return Proposal(
            "loads in flight", percent, place, f"{many} in flight",
            f"unroll by {times} ({times * group.in_flight} in flight)",
            f"the loads of {times} iterations in flight together", trace=group.change,
        )  # fmt: skip
    return Proposal(
        "loads in flight", percent, place, f"{many} waited for in each iteration",
        "load the next tile while this one is worked on (prefetch into registers)",
        "each iteration waits for the loads of the one before" if kind == "prefetch" else "no iteration waits for its loads",
        trace=group.change, at_most=kind == "ahead",
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
