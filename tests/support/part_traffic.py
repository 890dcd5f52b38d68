"""Small random traffic for each kind of part, for the contract that all parts keep (``test_part_contract.py``).

Mental model: a :class:`Case` is a part alone in a test bench: messages on their way to it, and a stand-in for its
neighbours that answers what it sends. :func:`play` runs it to its end in steps of any length and notes what every step
showed. A new kind of part is put to the test by one more entry in :data:`TRAFFIC`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import small_memory
from hand_traces import Asm, build, small_gpu
from hypothesis import strategies as st
from random_programs import launches

from gpusim.engine.arena import Arena
from gpusim.engine.block_dispatcher import Dispatcher
from gpusim.engine.graph import gpu_graph
from gpusim.engine.hbm import HbmPart
from gpusim.engine.l2 import L2Part
from gpusim.engine.link import LinkPart
from gpusim.engine.part import Part
from gpusim.engine.peer_port import PeerPort, PeerPortSpec
from gpusim.engine.sm import SmGroup
from gpusim.model.address_hash import channel_of, layout_of
from gpusim.model.crossbar import request_latency_ticks, response_latency_ticks
from gpusim.model.link import LinkSpec
from gpusim.model.messages import (
    ATOMIC,
    DRAM_REQUEST,
    DRAM_RESPONSE,
    EXIT,
    MESSAGES,
    NEVER,
    PACKET,
    READ,
    REDUCTION,
    REQUEST,
    RESPONSE,
    START,
    WRITE,
)
from gpusim.model.messages import TICKS_PER_CYCLE as CYCLE
from gpusim.model.occupancy import occupancy

#: Where the host keeps something, which depends on what it has freed by then: no time in the machine does.
HOST_FIELDS = {START: "warp_row"}
#: Kind of message -> rows of that kind.
Sent = dict[np.dtype, np.ndarray]


@dataclass
class Case:
    """``part`` in the state in which it meets ``arrivals`` (batches of one row); ``answer`` gives the neighbours'
    messages to a batch that the part has sent, each ``answer_ticks`` or more after the message that it answers;
    ``settle`` asserts from all that was sent that nothing was lost; ``latencies``: least latency by kind of message."""

    part: Part
    arrivals: list[np.ndarray]
    settle: Callable[[Sent], None]
    latencies: dict[np.dtype, int]
    answer: Callable[[np.ndarray], list[np.ndarray]] = lambda batch: []
    answer_ticks: int = 0


@dataclass(frozen=True)
class Seen:
    """What anybody can see of a part from outside."""

    next_tick: int
    last_tick: int
    waiting_for: str
    counters: tuple


@dataclass
class Step:
    """One advance to ``until``, which sent ``sent``; what was seen before and after."""

    until: int
    before: Seen
    after: Seen
    sent: list[np.ndarray]
    copies: list[bytes] = field(default_factory=list)


@dataclass
class Log:
    """A case that has come to its end."""

    case: Case
    steps: list[Step]

    @property
    def sent(self) -> Sent:
        """All that was sent, by kind, in an order that does not depend on the steps."""
        batches: dict[np.dtype, list[np.ndarray]] = {}
        for step in self.steps:
            for batch in step.sent:
                batches.setdefault(batch.dtype, []).append(batch)
        sent = {kind: np.concatenate(rows) for kind, rows in batches.items()}
        for kind in HOST_FIELDS.keys() & sent.keys():
            sent[kind][HOST_FIELDS[kind]] = 0
        return {kind: np.sort(rows, order=kind.names) for kind, rows in sent.items()}


def look(part: Part) -> Seen:
    """The part as it stands."""
    counters = part.counters() if hasattr(part, "counters") else {}
    return Seen(part.next_tick(), part.last_tick, part.waiting_for(), tuple(counters.items()))


def play(case: Case, seed: int | None = None) -> Log:
    """Run the part until it and its neighbours are quiet: in the longest steps, with messages delivered one by one in
    order, or with a ``seed`` in random steps, with messages shuffled, in batches of any size, some long before their
    time."""
    draw = random.Random(seed)
    part, coming, now = case.part, list(case.arrivals), 0
    longest = (part.minimum_latency_ticks + case.answer_ticks) // CYCLE
    steps: list[Step] = []
    while True:
        first = min([part.next_tick(), *(int(row["time"][0]) for row in coming)])
        if first >= NEVER:
            steps.append(_advance(part, now + longest * CYCLE))
            return Log(case, steps)
        if seed is None or draw.random() < 0.9:  # else run through the idle time, which must show nothing
            now = max(now, first // CYCLE * CYCLE)
        until = now + CYCLE * (longest if seed is None else draw.randint(1, longest))
        due = [row for row in coming if row["time"][0] < until or (seed is not None and draw.random() < 0.3)]
        taken = {id(row) for row in due}
        coming = [row for row in coming if id(row) not in taken]
        for batch in _batches(due, draw if seed is not None else None):
            part.deliver(batch)
        steps.append(_advance(part, until))
        for batch in steps[-1].sent:
            coming += [row for answers in case.answer(batch.copy()) for row in np.split(answers, len(answers))]
        now = until


def _batches(rows: list[np.ndarray], draw: random.Random | None) -> list[np.ndarray]:
    if draw is None:
        return sorted(rows, key=lambda row: int(row["time"][0]))
    draw.shuffle(rows)
    batches: list[list[np.ndarray]] = []
    for row in rows:
        if batches and batches[-1][0].dtype == row.dtype and draw.random() < 0.7:
            batches[-1].append(row)
        else:
            batches.append([row])
    return [np.concatenate(batch) for batch in batches]


def _advance(part: Part, until: int) -> Step:
    before = look(part)
    sent = part.advance(until)
    return Step(until, before, look(part), sent, [batch.tobytes() for batch in sent])


def _latencies(kind: str, spec) -> dict[np.dtype, int]:
    """What the description of a GPU says of the routes that leave a part."""
    routes = [route for route in gpu_graph(spec).routes if route.source == f"gpu0.{kind}"]
    return {MESSAGES[route.message]: route.latency_ticks for route in routes}


def _once(sent: Sent, kind: np.dtype, names: list[str], wanted: list[tuple]) -> None:
    """Each of ``wanted`` was sent exactly once, and nothing else of that kind."""
    rows = sent.get(kind, np.zeros(0, kind))
    assert sorted(rows[names].tolist()) == sorted(wanted)


def _times(draw, count: int, most_gap: int) -> list[int]:
    """Ticks in order, with gaps of up to ``most_gap``, many of them none."""
    gaps = draw(st.lists(st.one_of(st.just(0), st.integers(0, most_gap)), min_size=count, max_size=count))
    return np.cumsum(gaps, dtype=np.int64).tolist() if gaps else []


@st.composite
def dram_traffic(draw) -> Callable[[], Case]:
    """Reads and writes of few lines, at channels of two banks."""
    spec = small_memory.small_gpu()
    count = draw(st.integers(1, 25))
    asked = np.zeros(count, DRAM_REQUEST)
    asked["time"] = _times(draw, count, 4000)
    lines = draw(st.lists(st.integers(0, 40), min_size=count, max_size=count))
    asked["line"] = np.array(lines, np.uint64) * np.uint64(spec.l2.line_bytes)
    asked["channel"] = [channel_of(line, layout_of(spec.l2, spec.dram), spec.dram.channels) for line in lines]
    asked["sequence"] = asked["handle"] = np.arange(count)
    asked["kind"] = draw(st.lists(st.sampled_from([READ, WRITE]), min_size=count, max_size=count))
    asked["sectors"] = draw(st.lists(st.integers(1, 15), min_size=count, max_size=count))

    def settle(sent: Sent) -> None:
        _once(sent, DRAM_RESPONSE, ["sequence", "handle", "sectors"], asked[["sequence", "handle", "sectors"]].tolist())

    return lambda: Case(HbmPart(spec), np.split(asked, count), settle, _latencies("hbm", spec))


@st.composite
def l2_traffic(draw) -> Callable[[], Case]:
    """Accesses of all kinds by four SMs; a DRAM that answers out of order."""
    spec = small_memory.small_gpu()
    count = draw(st.integers(1, 25))
    asked = np.zeros(count, REQUEST)
    asked["time"] = _times(draw, count, 3000)
    asked["line"] = [128 * line for line in draw(st.lists(st.integers(0, 40), min_size=count, max_size=count))]
    kinds = [READ, READ, WRITE, ATOMIC, REDUCTION]
    asked["kind"] = draw(st.lists(st.sampled_from(kinds), min_size=count, max_size=count))
    asked["sm"] = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    asked["sectors"] = draw(st.lists(st.integers(1, 15), min_size=count, max_size=count))
    asked["tag"] = asked["sequence"] = np.arange(count)
    asked["operations"] = 1
    asked["bytes"] = [draw(st.sampled_from([4, 32])) * bin(sectors).count("1") for sectors in asked["sectors"]]
    late = draw(st.integers(1, 200))

    def answer(batch: np.ndarray) -> list[np.ndarray]:
        if batch.dtype != DRAM_REQUEST:
            return []
        filled = np.zeros(len(batch), DRAM_RESPONSE)
        for name in ("sequence", "handle", "sectors"):
            filled[name] = batch[name]
        filled["time"] = batch["time"] + 10 * CYCLE + batch["sequence"] * late % 4096
        return [filled]

    def settle(sent: Sent) -> None:
        _once(sent, RESPONSE, ["sm", "tag", "kind"], asked[["sm", "tag", "kind"]].tolist())

    return lambda: Case(
        L2Part(spec), np.split(asked, count), settle, _latencies("l2", spec), answer, answer_ticks=10 * CYCLE
    )


@st.composite
def sm_traffic(draw) -> Callable[[], Case]:
    """Blocks of a random program that start in slots of two SMs; an L2 that answers out of order."""
    spec = small_gpu(sm_count=2)
    trace = draw(launches(most_blocks=4))
    fit = occupancy(trace.launch, spec)
    starts = np.zeros(trace.launch.blocks, START)
    starts["time"] = np.array(_times(draw, len(starts), 300)) * CYCLE
    starts["block"] = np.arange(len(starts))
    starts["sm"], starts["slot"] = starts["block"] % 2, starts["block"] // 2
    late = draw(st.integers(0, 200))

    def answer(batch: np.ndarray) -> list[np.ndarray]:
        if batch.dtype != REQUEST:
            return []
        answers = np.zeros(len(batch), RESPONSE)
        for name in ("tag", "sm", "kind", "sectors"):
            answers[name] = batch[name]
        answers["time"] = batch["time"] + 200 * CYCLE + batch["tag"] * late % 5000
        return [answers]

    def settle(sent: Sent) -> None:
        _once(sent, EXIT, ["sm", "slot", "block"], starts[["sm", "slot", "block"]].tolist())

    def case() -> Case:
        arena, group, rows = Arena(), SmGroup(spec, 0, 2), starts.copy()
        for chunk in trace.chunks():
            live = arena.add(chunk)
            mine = slice(chunk.first_block, chunk.first_block + chunk.blocks)
            rows["warp_row"][mine] = live.warps + np.arange(chunk.blocks) * trace.launch.warps_per_block
        group.begin_launch(trace.program, trace.launch, fit, arena, keep_l1=False)
        return Case(group, np.split(rows, len(rows)), settle, _latencies("sm", spec), answer, answer_ticks=200 * CYCLE)

    return case


@st.composite
def dispatcher_traffic(draw) -> Callable[[], Case]:
    """A launch of blocks that end some time after they started, many at once."""
    interval = draw(st.sampled_from([1, 3]))
    spec = small_gpu(sm_count=3, launch__block_turnaround_cycles=90, launch__dispatch_interval_cycles=interval)
    blocks, per_chunk = draw(st.integers(1, 30)), draw(st.sampled_from([1, 3, 64]))
    trace = build(Asm().exit(), blocks=blocks, blocks_per_chunk=per_chunk)
    durations = draw(st.lists(st.integers(0, 3), min_size=5, max_size=5))
    blocks_per_sm = draw(st.integers(1, 3))
    least = spec.launch.block_turnaround_cycles // 2 + 1

    def answer(batch: np.ndarray) -> list[np.ndarray]:
        ends = np.zeros(len(batch), EXIT)
        for name in ("sm", "slot", "block"):
            ends[name] = batch[name]
        ends["time"] = batch["time"] + (least + 40 * np.array(durations)[batch["block"] % 5]) * CYCLE
        return [ends]

    def settle(sent: Sent) -> None:
        _once(sent, START, ["block"], [(block,) for block in range(trace.launch.blocks)])

    def case() -> Case:
        part = Dispatcher(spec)
        part.begin_launch(trace, blocks_per_sm, launch_cycle=70, arena=Arena(), reach=100)
        return Case(part, [], settle, _latencies("dispatcher", spec), answer, answer_ticks=least * CYCLE)

    return case


@st.composite
def link_traffic(draw) -> Callable[[], Case]:
    """Packets between three devices."""
    count = draw(st.integers(1, 25))
    packets = np.zeros(count, PACKET)
    packets["time"] = _times(draw, count, 3000)
    packets["source"] = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    packets["device"] = draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))
    packets["bytes"] = draw(st.lists(st.integers(1, 4096), min_size=count, max_size=count))
    packets["sequence"] = packets["handle"] = np.arange(count)
    spec = LinkSpec(latency_ns=draw(st.sampled_from([30.0, 500.0])), bytes_per_ns=25.0, clock_hz=1e9)

    def settle(sent: Sent) -> None:
        names = ["source", "device", "bytes", "sequence", "handle"]
        _once(sent, PACKET, names, packets[names].tolist())

    return lambda: Case(LinkPart(spec, 3), np.split(packets, count), settle, {PACKET: spec.latency_ticks})


@st.composite
def peer_traffic(draw) -> Callable[[], Case]:
    """Requests of device 0's SMs, some for device 1's memory, and device 1's for memory of device 0."""
    spec, base, count = small_gpu(sm_count=4), 1 << 34, draw(st.integers(1, 20))
    asked, packets = np.zeros(count, REQUEST), np.zeros(draw(st.integers(0, 20)), PACKET)
    asked["time"] = _times(draw, count, 3000)
    away = draw(st.lists(st.booleans(), min_size=count, max_size=count))
    asked["line"] = [base * theirs + 128 * place for place, theirs in enumerate(away)]
    asked["sm"], asked["tag"], asked["sequence"] = np.arange(count) % 4, np.arange(count) + 7, np.arange(count)
    asked["kind"], asked["sectors"], asked["bytes"] = draw(st.sampled_from([READ, WRITE, ATOMIC])), 5, 64
    packets["time"] = _times(draw, len(packets), 3000)
    packets["line"] = 128 * np.arange(len(packets))
    packets["source"], packets["device"], packets["tag"], packets["sm"] = 1, 0, np.arange(len(packets)) + 50, 3
    packets["kind"], packets["sectors"], packets["sequence"] = (
        draw(st.sampled_from([READ, WRITE])),
        3,
        np.arange(len(packets)),
    )
    late = draw(st.integers(1, 200))

    def answer(batch: np.ndarray) -> list[np.ndarray]:
        if batch.dtype == REQUEST:
            answers = np.zeros(len(batch), RESPONSE)
            for name in ("tag", "sm", "kind", "sectors"):
                answers[name] = batch[name]
        elif batch.dtype == PACKET and (batch["answer"] == 0).any():
            answers = batch[batch["answer"] == 0].copy()
            answers["source"], answers["device"], answers["answer"] = 1, 0, 1
            answers["sequence"] += 1000
            batch = batch[batch["answer"] == 0]
        else:
            return []
        answers["time"] = batch["time"] + 10 * CYCLE + batch["sequence"].astype(np.int64) * late % 4096
        return [answers]

    def settle(sent: Sent) -> None:
        out = sent.get(PACKET, np.zeros(0, PACKET))
        theirs = asked[np.array(away)]
        assert sorted(out["tag"][out["answer"] == 0].tolist()) == theirs["tag"].tolist()
        assert sorted(out["tag"][out["answer"] == 1].tolist()) == packets["tag"].tolist()
        _once(sent, RESPONSE, ["sm", "tag"], theirs[["sm", "tag"]].tolist())
        _once(sent, REQUEST, ["line"], packets[["line"]].tolist())

    own = PeerPortSpec(spec, ((base, 2 * base, 1),), 100.0, 32)
    arrivals = [*np.split(asked, count), *(np.split(packets, len(packets)) if len(packets) else [])]
    out_ticks = round(100.0 * spec.clock_hz / 1e9 * CYCLE)
    latencies = {PACKET: out_ticks, REQUEST: request_latency_ticks(spec), RESPONSE: response_latency_ticks(spec)}
    return lambda: Case(PeerPort(own, 0), arrivals, settle, latencies, answer, answer_ticks=10 * CYCLE)


#: Kind of part -> what draws a test bench for it; each call of what was drawn gives the same case anew.
TRAFFIC: dict[str, st.SearchStrategy[Callable[[], Case]]] = {
    "hbm": dram_traffic(),
    "l2": l2_traffic(),
    "sm": sm_traffic(),
    "dispatcher": dispatcher_traffic(),
    "link": link_traffic(),
    "peer_port": peer_traffic(),
}
