"""Rules about how accesses fall on sectors, banks and words, and about the bytes that DRAM moves.

Mental model: the lanes of a warp ask together. What they ask for beyond the bytes that they need (sectors, passes over
the banks, collisions on a word) is waste that another layout saves; what they need at DRAM's peak is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from gpusim.engine.bound import ROOF_PERCENT
from gpusim.gpus.spec import GpuSpec
from gpusim.model import counters as count
from gpusim.model import stall_reasons as stall
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import MemoryKind, PipeClass, Space
from gpusim.why import retrace
from gpusim.why.evidence import Evidence
from gpusim.why.proposal import LEAST_PERCENT, Proposal

#: Sectors a request, times the least that its bytes need, from which on an access counts as uncoalesced.
UNCOALESCED = 1.5
#: So many warps' atomics a word count as many on few words.
_CONTENDED = 32
#: Of atomics' accesses: lanes that share a word in so few of them are chance.
_FEW_SHARED = 0.01
#: Instructions on mbarriers: as memory goes, atomics on a word of shared memory.
_BARRIER_OBJECT = "SYNCS."


def coalescing(found: Evidence) -> Iterator[Proposal]:
    """Lines of source whose requests take more sectors than their bytes need."""
    table = found.program.instructions
    sectors = (found.work[:, count.LOAD_SECTORS] + found.work[:, count.STORE_SECTORS]).astype(np.float64)
    requests = (found.work[:, count.LOAD_REQUESTS] + found.work[:, count.STORE_REQUESTS]).astype(np.float64)
    lanes = found.work[:, count.THREAD_INSTRUCTIONS].astype(np.float64)
    least = np.maximum(requests, lanes * table["access_bytes"] / retrace.SECTOR_BYTES)
    plain = np.isin(table["memory_kind"], (MemoryKind.LOAD, MemoryKind.STORE)) & (table["records"] == 1)
    wasted = np.where(plain & (sectors > UNCOALESCED * least), sectors - least, 0.0)
    # Weighed by the data that waits and by the port that the sectors pass: one a cycle and SM.
    port = 100.0 * sectors.sum() / max(1.0, found.cycles * found.spec.sm_count)
    waiting = found.percent_of(stall.LONG_SCOREBOARD) + found.percent_of(stall.LG_THROTTLE)
    scale = min(100.0, max(port, waiting)) / max(1.0, sectors.sum())
    for place, chosen, percent in found.by_place(wasted * scale, LEAST_PERCENT):
        each, ideal = sectors[chosen].sum() / requests[chosen].sum(), least[chosen].sum() / requests[chosen].sum()
        yield Proposal(
            "coalescing", percent, place, f"{each:.3g} sectors a request where {ideal:.3g} would do",
            "let neighbouring threads access neighbouring addresses",
            "its requests in order through the bytes that they touched",
            trace=lambda t, chosen=chosen: retrace.in_order(t, chosen),
        )  # fmt: skip


def bank_conflicts(found: Evidence) -> Iterator[Proposal]:
    """Lines whose accesses to shared memory take more passes than they need."""
    table = found.program.instructions
    conflicts = np.where(table["space"] == Space.SHARED, found.work[:, count.SHARED_CONFLICTS], 0).astype(np.float64)
    atomic = np.isin(table["memory_kind"], (MemoryKind.ATOMIC, MemoryKind.REDUCTION))
    conflicts[atomic | (table["records"] != 1)] = 0.0
    waiting = found.percent_of(stall.SHORT_SCOREBOARD) + found.percent_of(stall.MIO_THROTTLE)
    scale = max(waiting / max(1.0, conflicts.sum()), 100.0 / max(1.0, found.cycles * found.spec.sm_count))
    for place, chosen, percent in found.by_place(conflicts * scale, LEAST_PERCENT):
        ways = 1 + conflicts[chosen].sum() / max(1, found.stalls[chosen, SELECTED].sum())
        yield Proposal(
            "bank conflicts", percent, place, f"{ways:.3g} wavefronts an access to shared memory",
            "pad the rows by one element (or swizzle)", "its lanes on different banks",
            trace=lambda t, chosen=chosen: retrace.side_by_side(t, chosen),
        )  # fmt: skip


def atomics(found: Evidence) -> Iterator[Proposal]:
    """Lines whose atomics collide within a warp."""
    table = found.program.instructions
    atomic = np.isin(table["memory_kind"], (MemoryKind.ATOMIC, MemoryKind.REDUCTION))
    lanes = found.work[:, count.THREAD_INSTRUCTIONS] / np.maximum(1, found.stalls[:, SELECTED])
    busy = np.where(atomic & (lanes > 1), found.stalls[:, SELECTED], 0).astype(np.float64)
    for place, chosen, share in found.by_place(busy / max(1.0, busy.sum()), 0.05):
        one_word = (found.work[chosen, count.ATOMIC_SECTORS].sum() <= 2 * found.stalls[chosen, SELECTED].sum()) and (
            table["space"][chosen] != Space.SHARED
        ).all()
        if one_word:
            yield Proposal(
                "atomics", 50.0 * share, place, f"{lanes[chosen].max():.3g} lanes add to one word",
                "add up within the warp first (shuffles), one atomic a warp", "one lane of each warp",
                trace=lambda t, chosen=chosen: retrace.one_lane(t, chosen),
            )  # fmt: skip
        elif any(_BARRIER_OBJECT in found.program.texts[index] for index in np.flatnonzero(chosen)):
            yield Proposal(
                "atomics", 50.0 * share, place, f"{lanes[chosen].max():.3g} lanes arrive at an mbarrier one after another",
                "let one lane of each warp arrive, with the count of all (after __syncwarp)", "one lane of each warp",
                trace=lambda t, chosen=chosen: retrace.one_lane(t, chosen), at_most=True,
            )  # fmt: skip
        elif (table["space"][chosen] == Space.SHARED).all() and _on_words_of_their_own(found, chosen):
            yield Proposal(
                "atomics", 50.0 * share, place, "lanes' atomics meet at different words of one bank of shared memory",
                "pad the rows by one element (or swizzle)", "its lanes on different banks",
                trace=lambda t, chosen=chosen: retrace.side_by_side(t, chosen),
            )  # fmt: skip
        elif (table["space"][chosen] == Space.SHARED).all():
            yield Proposal(
                "atomics", 50.0 * share, place, "lanes collide in shared memory",
                "give each warp (or lane) a copy and add the copies up at the end", "its lanes on different words",
                trace=lambda t, chosen=chosen: retrace.side_by_side(t, chosen), at_most=True,
            )  # fmt: skip


def contended_atomics(found: Evidence) -> Iterator[Proposal]:
    """Lines whose atomics in global memory go to few words, which L2 takes one after another."""
    table, spec = found.program.instructions, found.spec
    atomic = np.isin(table["memory_kind"], (MemoryKind.ATOMIC, MemoryKind.REDUCTION)) & (table["space"] != Space.SHARED)
    issues = np.where(atomic, found.stalls[:, SELECTED], 0).astype(np.float64)
    # As if all went to one word: what they take at most.
    most_percent = 100.0 * spec.l2.atomic_interval_ns * 1e-9 * spec.clock_hz / max(1, found.cycles)
    for place, chosen, percent in found.by_place(issues * most_percent, LEAST_PERCENT):
        each = retrace.accesses_a_word(found.traces[0], chosen)
        if each < _CONTENDED:
            continue
        yield Proposal(
            "contended atomics", min(100.0, percent), place, f"{each:.3g} atomics a word, which L2 takes one after another",
            "add up within the block first (shuffles, shared memory), let fewer blocks add, or spread over more words", "the atomics left out",
            trace=lambda t, chosen=chosen: retrace.without(t, chosen), at_most=True,
        )  # fmt: skip


def _on_words_of_their_own(found: Evidence, chosen: np.ndarray) -> bool:
    """Whether lanes of a warp share a word in at most a hundredth of the accesses."""
    lanes, words = retrace.lanes_and_words(found.traces[0], chosen)
    return (words < lanes).mean() <= _FEW_SHARED if len(lanes) else False


def constants(found: Evidence) -> Iterator[Proposal]:
    """Loads of constants whose lanes ask for different ones, which the constant cache serves one after another."""
    table = found.program.instructions
    loads = (table["pipe"] == PipeClass.CONSTANT) & (table["records"] > 0)
    waiting = np.where(loads, found.stalls[:, stall.MATH_PIPE_THROTTLE] + found.stalls[:, SELECTED], 0)
    for place, chosen, percent in found.by_place(waiting * (100.0 / found.warp_cycles), LEAST_PERCENT):
        _, words = retrace.lanes_and_words(found.traces[0], chosen)
        if not len(words) or words.mean() < 2:
            continue
        yield Proposal(
            "constants", percent, place, f"the lanes of a warp load {words.mean():.3g} different constants one after another",
            "keep the table in shared memory, whose banks serve different words at once", "one constant a load",
            trace=lambda t, chosen=chosen: retrace.on_one_word(t, chosen), at_most=True,
        )  # fmt: skip


def local_memory(found: Evidence) -> Iterator[Proposal]:
    """Traffic of registers that were spilled, and of arrays in local memory."""
    table = found.program.instructions
    local = table["space"] == Space.LOCAL
    sectors = found.work[:, count.LOCAL_LOAD_SECTORS] + found.work[:, count.LOCAL_STORE_SECTORS]
    every = max(1, int(sectors.sum() + found.work[:, count.LOAD_SECTORS].sum()))
    if not local.any() or 100.0 * sectors.sum() / every < LEAST_PERCENT:
        return
    yield Proposal(
        "local memory", 100.0 * float(sectors.sum()) / every, found.place(int(np.argmax(sectors))),
        "registers spilled, or an array indexed at run time", "keep fewer values alive, index arrays by constants",
        "accesses to local memory move nothing", trace=lambda t: retrace.without(t, local), at_most=True,
    )  # fmt: skip


def dram_roof(found: Evidence) -> Iterator[Proposal]:
    """DRAM at its peak."""
    moved = found.counter("dram__bytes_read.sum") + found.counter("dram__bytes_write.sum")
    busy = 100.0 * moved / (found.spec.dram.peak_bytes_per_ns * found.spec.ns(found.cycles))
    if busy < ROOF_PERCENT:
        return

    def twice(spec: GpuSpec) -> GpuSpec:
        return replace(spec, dram=replace(spec.dram, peak_bytes_per_ns=2 * spec.dram.peak_bytes_per_ns))

    yield Proposal(
        "DRAM roof", busy, "", f"at the roof: DRAM moves {busy:.3g} % of its peak",
        "fewer bytes only (a smaller dtype, fusion with what reads the result); with half of them", "half the bytes",
        gpu=twice,
    )  # fmt: skip
