"""Rules about waiting on other warps by polling (flags, locks, barriers of the grid) and at fences, which order what
others are to see.

Mental model: a polling warp is no idle one for the hardware: it loads, compares and branches, so its cycles stand as
long_scoreboard and branch_resolving at the loop's instructions (Nsight Compute's Profiling Guide, "Warp Stall Reasons",
knows no reason for waiting on another block). What they mean is in the trace: which word they poll, and which
instruction of which block wrote it. A fence holds a warp until its own stores and atomics have arrived; compilers put
one before and behind each atomic that is to acquire and release, which is Triton's default (``sem="acq_rel"`` of
``tl.atomic_add``) and that of ``cuda::atomic_ref``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpusim.model import stall_reasons as stall
from gpusim.trace.owners import access_owners
from gpusim.why.evidence import Evidence
from gpusim.why.proposal import LEAST_PERCENT, Proposal, counterfactual


def waiting(found: Evidence) -> Iterator[Proposal]:
    """Warps that poll for what others write, by the line that polls."""
    cycles = found.counter("sm__warp_cycles_polling.sum")
    percent = 100.0 * cycles / found.warp_cycles
    if percent < LEAST_PERCENT:
        return
    polling, writers = _polls(found)
    spent = found.stalls.sum(axis=1) * polling
    lines = found.by_place(spent, 0.2 * float(spent.sum()))
    if not lines:
        return
    place, chosen, _ = lines[0]
    stores = sorted({found.place(writer) for index in np.flatnonzero(chosen) for writer in writers.get(int(index), ())})
    whose = f" for the store at {' and '.join(stores[:2])}" if any(stores) else ""
    free = counterfactual("waiting by polling")
    yield Proposal(
        "waiting", min(percent, 100.0), place,
        f"{min(percent, 100.0):.3g} % of the warp cycles are waits for other warps, by polling{whose}",
        "let who is waited for come sooner (start it first, give it less work), or wait less often",
        "no waiting on other warps",
        trace=lambda t: free.trace(t, found.spec), at_most=True,
    )  # fmt: skip


def fences(found: Evidence) -> Iterator[Proposal]:
    """Warps that wait at a fence until what they wrote has arrived."""
    percent = found.percent_of(stall.MEMBAR)
    if percent < LEAST_PERCENT:
        return
    ((place, *_), *_) = found.by_place(found.stalls[:, stall.MEMBAR].astype(float), 0.0)
    free = counterfactual("fences")
    yield Proposal(
        "fences", percent, place, f"warps wait at fences for their own stores and atomics to arrive ({percent:.3g} % of the warp-cycles)",
        'where atomics only add up, ask for relaxed order (sem="relaxed", memory_order_relaxed; no __threadfence)', "no fence waits",
        trace=lambda t: free.trace(replace(t, program=free.program(t.program)), found.spec), at_most=True,
    )  # fmt: skip


def _polls(found: Evidence) -> tuple[np.ndarray, dict[int, set[int]]]:
    """Which instructions belong to rounds of polling, bool[instructions], and for each of their loads the instructions
    whose writes it waited for."""
    trace = found.traces[0]
    polling = np.zeros(len(trace.program.instructions), bool)
    written: dict[tuple[int, int], int] = {}
    awaited: dict[tuple[int, int], int] = {}
    for chunk in trace.chunks():
        for run in chunk.runs[chunk.polling]:
            polling[run["first"] : run["first"] + run["count"]] = True
        owners = access_owners(chunk, trace.program)
        for signal in chunk.signals:
            known = awaited if signal["polls"] else written
            known[int(signal["word"]), int(signal["count"])] = int(owners[signal["access"]])
    writers: dict[int, set[int]] = {}
    for change, load in awaited.items():
        if change in written:
            writers.setdefault(load, set()).add(written[change])
    return polling, writers
