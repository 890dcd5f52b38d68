"""The rules of remedies: what to look for in a result, what a developer would change, and how that is simulated.

Mental model: a rule looks at one stall reason or limiter. Where it finds it, it proposes a change in a developer's
words, at a line, together with the counterfactual that measures it: the trace, the program, the launch or the machine as it
would be after the change, all else as it is. A rule only proposes; whether the change saves anything, and how much, the
simulation says (:mod:`gpusim.why.advice`). What a counterfactual leaves out (registers that the change costs, loop
overhead that it saves) is not in its figure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from gpusim.errors import LaunchError
from gpusim.gpus.spec import GpuSpec
from gpusim.model import counters as count
from gpusim.model import stall_reasons as stall
from gpusim.model.occupancy import occupancy
from gpusim.model.stall_reasons import SELECTED
from gpusim.trace.record import WARP_LANES, Flag, Launch, MemoryKind, PipeClass, Space, Trace
from gpusim.why import retrace
from gpusim.why.counterfactuals import COUNTERFACTUALS
from gpusim.why.evidence import Evidence
from gpusim.why.loops import Loop, feeds_itself, loads_of, never_waiting, prefetched, unrolled

#: Iterations whose loads an unrolled loop has in flight together, and elements that a thread takes in place of one.
UNROLL = 4
#: A rule speaks of what takes this share of the warp-cycles, or of the time, at least.
LEAST_PERCENT = 5.0
#: Sectors a request, times the least that its bytes need, from which on an access counts as uncoalesced.
UNCOALESCED = 1.5
#: Busy share from which on a unit counts as the roof. ncu's rules take 60 % as the end of "latency issues" and 80 % as high.
ROOF_PERCENT = 60.0
_FAR = (Space.GLOBAL, Space.GENERIC, Space.LOCAL)
_ARITHMETIC = (PipeClass.ALU, PipeClass.FMA, PipeClass.IMAD, PipeClass.IMAD_WIDE, PipeClass.HALF, PipeClass.FP64)


@dataclass(frozen=True)
class Proposal:
    """A change worth simulating. ``problem`` at ``place`` (``file:line`` or empty), ``advice`` against it, and ``how`` it is
    simulated; ``weight``: percent of the time or of the warp-cycles that it is about, to try the weightiest first.
    ``trace`` and ``gpu`` make the changed launches and machine; ``cycles`` makes of a changed launch's cycles those that
    count; ``warm_code``: the machine code is in the instruction caches. ``at_most``: the change removes the whole
    cost, which no rewriting does, so that its figure is a limit."""

    rule: str
    weight: float
    place: str
    problem: str
    advice: str
    how: str
    trace: Callable[[Trace], Trace] = lambda trace: trace
    gpu: Callable[[GpuSpec], GpuSpec] = lambda spec: spec
    cycles: Callable[[int, Trace, Trace], int] = lambda cycles, _old, _new: cycles
    warm_code: bool = False
    at_most: bool = False


@dataclass(frozen=True)
class Rule:
    """``looks_at``: the stall reason or limiter; ``find`` gives proposals for a kernel."""

    name: str
    looks_at: str
    find: Callable[[Evidence], Iterator[Proposal]]


def _unit(name: str) -> Callable[[GpuSpec, list[Trace]], GpuSpec]:
    return next(one.gpu for one in COUNTERFACTUALS if one.unit == name)


def _waits(found: Evidence, reason: int) -> dict[Loop | None, float]:
    """Percent of the warp-cycles that wait for ``reason``, by the innermost loop that they wait in."""
    sums: dict[Loop | None, float] = {}
    for index in np.flatnonzero(found.stalls[:, reason]):
        loop = found.loop_of(int(index))
        sums[loop] = sums.get(loop, 0.0) + 100.0 * float(found.stalls[index, reason]) / found.warp_cycles
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def _loads_in_flight(found: Evidence) -> Iterator[Proposal]:
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


def _elements_a_thread(found: Evidence) -> Iterator[Proposal]:
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


def _shared_latency(found: Evidence) -> Iterator[Proposal]:
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


def _coalescing(found: Evidence) -> Iterator[Proposal]:
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


def _bank_conflicts(found: Evidence) -> Iterator[Proposal]:
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


def _atomics(found: Evidence) -> Iterator[Proposal]:
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
        elif (table["space"][chosen] == Space.SHARED).all():
            yield Proposal(
                "atomics", 50.0 * share, place, "lanes collide in shared memory",
                "give each warp (or lane) a copy and add the copies up at the end", "its lanes on different words",
                trace=lambda t, chosen=chosen: retrace.side_by_side(t, chosen), at_most=True,
            )  # fmt: skip


def _local_memory(found: Evidence) -> Iterator[Proposal]:
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


def _barriers(found: Evidence) -> Iterator[Proposal]:
    percent = found.percent_of(stall.BARRIER)
    if percent < LEAST_PERCENT:
        return
    table = found.program.instructions
    meets = table["flags"] & Flag.BARRIER_WAIT != 0
    # Warps are charged where they go on: the barrier stands before it.
    waited = int(np.argmax(found.stalls[:, stall.BARRIER]))
    before = np.flatnonzero(meets[:waited])
    place = found.place(int(before[-1]) if len(before) else waited)

    def free(trace: Trace) -> Trace:
        code = trace.program.instructions.copy()
        code["flags"] &= ~np.uint16(Flag.BARRIER_WAIT)
        return replace(trace, program=replace(trace.program, instructions=code))

    yield Proposal(
        "barriers", percent, place, f"warps wait for each other ({percent:.3g} % of the warp-cycles)",
        "let fewer warps meet (smaller blocks, shuffles within a warp), or less often", "nobody waits at a barrier",
        trace=free, at_most=True,
    )  # fmt: skip


def _occupancy(found: Evidence) -> Iterator[Proposal]:
    first, spec = found.first, found.spec
    limiter, resident = first.occupancy_limiter, first.blocks_per_sm
    field, unit = {"registers": ("registers_per_thread", 1), "shared_mem": ("shared_bytes", 128)}.get(limiter, ("", 0))
    if not field or first.launch.blocks <= resident * spec.sm_count:
        return
    # Up to half of what a block takes, the least that has to go for the most blocks.
    have = getattr(first.launch, field)
    blocks = {
        less: _fitting(replace(first.launch, **{field: less}), spec) for less in range(have, have // 2 - 1, -unit)
    }
    most = max(blocks.values())
    enough = max(less for less, fitting in blocks.items() if fitting == most)
    if most <= resident:
        # Half of it misses two blocks for one by what the system takes of each.
        enough = spec.sm.shared_max_bytes // (resident + 1) // 128 * 128 - spec.sm.shared_reserved_bytes
        most = _fitting(replace(first.launch, **{field: enough}), spec) if limiter == "shared_mem" and enough > 0 else 0
    if most <= resident:
        return
    warps = first.launch.warps_per_block
    what, advice = {
        "registers": (f"{have} registers a thread", f"{enough} of them (max_registers={enough}), if nothing spills"),
        "shared_mem": (f"{have} bytes of shared memory a block", f"{enough} bytes of it"),
    }[limiter]
    yield Proposal(
        "occupancy", 100.0 * (1 - resident * warps / spec.sm.max_warps), "",
        f"{what} leave room for {resident * warps} of {spec.sm.max_warps} warps an SM", advice,
        f"{most * warps} warps an SM",
        trace=lambda t: replace(t, launch=replace(t.launch, **{field: enough})),
    )  # fmt: skip


def _fitting(launch: Launch, spec: GpuSpec) -> int:
    """Blocks of ``launch`` that an SM holds."""
    try:
        return occupancy(launch, spec).blocks_per_sm
    except LaunchError:
        return 0


def _dependency_chains(found: Evidence) -> Iterator[Proposal]:
    table = found.program.instructions
    slow = np.isin(table["pipe"], _ARITHMETIC) & (table["stall_cycles"] >= 3)
    # Warps are charged where they go on: the instruction before it has the stall count.
    charged = np.concatenate((found.stalls[1:, stall.WAIT], [0])) * slow
    percent = 100.0 * float(charged.sum()) / found.warp_cycles
    if percent < LEAST_PERCENT:
        return

    def shorter(trace: Trace) -> Trace:
        code = trace.program.instructions.copy()
        code["stall_cycles"][slow] = (code["stall_cycles"][slow] + 1) // 2
        return replace(trace, program=replace(trace.program, instructions=code))

    yield Proposal(
        "dependency chains", percent, found.place(int(np.argmax(charged))), "each operation needs the one before it",
        "work on two independent values at a time (two accumulators)", "half the cycles between dependent operations",
        trace=shorter,
    )  # fmt: skip


def _double_precision(found: Evidence) -> Iterator[Proposal]:
    table = found.program.instructions
    double = table["pipe"] == PipeClass.FP64
    issued = found.stalls[double, SELECTED].sum()
    pipe = found.spec.pipes["fp64"]
    copies = found.spec.sm_count * (1 if pipe.shared_by_sm else found.spec.sm.sub_cores)
    busy = 100.0 * issued * pipe.interval_cycles / max(1, found.cycles * copies)
    percent = max(busy, 100.0 * float(found.stalls[double].sum()) / found.warp_cycles)
    if percent < LEAST_PERCENT:
        return
    heaviest = np.where(double, found.stalls[:, SELECTED], 0)

    def single(trace: Trace) -> Trace:
        code = trace.program.instructions.copy()
        code["pipe"][double] = PipeClass.FMA
        return replace(trace, program=replace(trace.program, instructions=code))

    yield Proposal(
        "double precision", percent, found.place(int(np.argmax(heaviest))), "arithmetic in float64",
        "float32 where it is precise enough (a bare 0.5 is a float64)", "its operations on the FP32 pipe", trace=single,
    )  # fmt: skip


def _code_size(found: Evidence) -> Iterator[Proposal]:
    percent = found.percent_of(stall.NO_INSTRUCTION)
    if percent < LEAST_PERCENT:
        return
    cache, table = found.spec.instruction_cache, found.program.instructions
    ran = found.stalls[:, SELECTED] > 0
    size = len(np.unique(table["address"][ran] // cache.line_bytes)) * cache.line_bytes
    hottest = found.place(int(np.argmax(found.stalls[:, stall.NO_INSTRUCTION])))
    if size > cache.l0_bytes:
        level, holds = ("L1", cache.l1_bytes) if size > cache.l1_bytes else ("L0", cache.l0_bytes)

        def larger(spec: GpuSpec) -> GpuSpec:
            old = spec.instruction_cache
            new = replace(old, l0_bytes=8 * old.l0_bytes, l1_bytes=8 * old.l1_bytes)
            return replace(spec, instruction_cache=new)

        yield Proposal(
            "code size", percent, hottest,
            f"{size / 1024:.3g} KiB of code run through an instruction cache ({level}) of {holds / 1024:.3g} KiB",
            "unroll less, split the kernel, or call what is inlined often", "instruction caches that hold it all",
            gpu=larger,
        )  # fmt: skip
    yield Proposal(
        "cold code", percent / 2, "", f"{size / 1024:.3g} KiB of code are fetched for the first time",
        "let one launch do more, or launch again while the caches hold it",
        "the code in the instruction caches", warm_code=True,
    )  # fmt: skip


def _tail_wave(found: Evidence) -> Iterator[Proposal]:
    first, spec = found.first, found.spec
    wave = first.blocks_per_sm * spec.sm_count
    waves = first.launch.blocks / wave
    if waves <= 1 or first.launch.blocks % wave == 0 or first.launch.cooperative:
        return
    idle = 100.0 * (1 - waves / np.ceil(waves))
    tail = next(one for one in COUNTERFACTUALS if one.unit == "tail wave")
    if idle < LEAST_PERCENT:
        return
    yield Proposal(
        "tail wave", idle, "",
        f"{first.launch.blocks} blocks are {waves:.3g} waves of {wave}: the last one leaves SMs idle",
        f"a grid that fills whole waves ({wave * max(1, int(waves))} blocks, or a grid-stride loop)",
        "the last wave's blocks spread over all", trace=lambda t: tail.trace(t, spec),
        cycles=lambda cycles, old, new: tail.cycles(cycles, old, new, spec),
    )  # fmt: skip


def _few_blocks(found: Evidence) -> Iterator[Proposal]:
    launch, table, spec = found.first.launch, found.program.instructions, found.spec
    apart = not launch.shared_bytes and not launch.cooperative
    apart = apart and not (table["space"] == Space.SHARED).any() and not (table["pipe"] == PipeClass.BARRIER).any()
    if launch.blocks >= spec.sm_count or not apart or launch.warps_per_block < 2:
        return
    factors = [f for f in range(2, launch.warps_per_block + 1) if launch.warps_per_block % f == 0]
    factor = next((f for f in factors if launch.blocks * f >= spec.sm_count), factors[-1])
    yield Proposal(
        "few blocks", 100.0 * (1 - launch.blocks / spec.sm_count), "",
        f"{launch.blocks} blocks for {spec.sm_count} SMs",
        f"blocks of {launch.warps_per_block // factor * WARP_LANES} threads, {factor} times as many",
        "each block cut into as many", trace=lambda t: retrace.smaller_blocks(t, factor),
    )  # fmt: skip


def _launch_overhead(found: Evidence) -> Iterator[Proposal]:
    launch = found.spec.launch
    percent = 100.0 * (launch.start_cycles + launch.end_cycles) * len(found.launches) / max(1, found.cycles)
    if percent < 4 * LEAST_PERCENT:
        return
    overhead = _unit("launch overhead")
    yield Proposal(
        "launch overhead", percent, "", f"launch overhead is {percent:.3g} % of the time",
        "do more in one launch, or fuse it with its neighbours", "no time to start and to end",
        gpu=lambda spec: overhead(spec, []), at_most=True,
    )  # fmt: skip


def _dram_roof(found: Evidence) -> Iterator[Proposal]:
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


def _issue_roof(found: Evidence) -> Iterator[Proposal]:
    slots = found.cycles * found.spec.sm_count * found.spec.sm.sub_cores
    busy = 100.0 * float(found.stalls[:, SELECTED].sum()) / max(1, slots)
    if busy < ROOF_PERCENT:
        return
    more = _unit("issue slots")
    yield Proposal(
        "issue roof", busy, found.place(int(np.argmax(found.stalls[:, SELECTED]))),
        f"at the roof: {busy:.3g} % of the issue slots are used",
        "fewer instructions only (wider accesses, less index arithmetic); with half of them", "twice the issue slots",
        gpu=lambda spec: more(spec, []),
    )  # fmt: skip


#: In no order: proposals are tried by their weight.
RULES = (
    Rule("loads in flight", "long_scoreboard in a loop", _loads_in_flight),
    Rule("elements a thread", "long_scoreboard outside loops", _elements_a_thread),
    Rule("shared loads in flight", "short_scoreboard in a loop", _shared_latency),
    Rule("coalescing", "sectors a request above the least", _coalescing),
    Rule("bank conflicts", "wavefronts of shared memory above the least", _bank_conflicts),
    Rule("atomics", "lanes of an atomic that meet", _atomics),
    Rule("local memory", "sectors of local memory", _local_memory),
    Rule("barriers", "barrier", _barriers),
    Rule("occupancy", "occupancy limited by registers or shared memory", _occupancy),
    Rule("dependency chains", "wait behind arithmetic", _dependency_chains),
    Rule("double precision", "the FP64 pipe", _double_precision),
    Rule("code size", "no_instruction", _code_size),
    Rule("tail wave", "a last wave that is not full", _tail_wave),
    Rule("few blocks", "fewer blocks than SMs", _few_blocks),
    Rule("launch overhead", "the launch's start and end", _launch_overhead),
    Rule("DRAM roof", "bytes of DRAM at the peak", _dram_roof),
    Rule("issue roof", "issue slots at the peak", _issue_roof),
)


def proposals(found: Evidence) -> list[Proposal]:
    """What all rules propose for a kernel, the weightiest first."""
    return sorted((one for rule in RULES for one in rule.find(found)), key=lambda one: -one.weight)


def _number(count_: int, what: str) -> str:
    words = {1: "one", 2: "two", 3: "three", 4: "four"}
    return f"{words.get(count_, str(count_))} {what}{'' if count_ == 1 else 's'}"
