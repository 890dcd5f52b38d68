"""The machine as a graph: a second GPU and a link are additions, and no GPU notices another that it does not speak
to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from hand_traces import Asm, build, small_gpu

from gpusim.engine.gpu import simulate
from gpusim.engine.graph import Node, Route, gpu_graph, machine_graph
from gpusim.engine.launch import Observation
from gpusim.engine.machine import BUILDERS, Machine
from gpusim.engine.result import LaunchResult
from gpusim.engine.round_windows import stages_of, turns_of, turns_pay
from gpusim.errors import SpecError, UsageError
from gpusim.gpus.load import load_gpu
from gpusim.model.link import LinkSpec
from gpusim.model.messages import NEVER, PACKET, TICKS_PER_CYCLE
from gpusim.trace.record import PipeClass

SMALL, LARGE = small_gpu(sm_count=2), small_gpu(sm_count=5, l1__miss_entries=6)
LINK = LinkSpec(latency_ns=400.0, bytes_per_ns=100.0, clock_hz=SMALL.clock_hz)
#: Shorter than any latency within a GPU: windows become shorter.
SHORT_LINK = replace(LINK, latency_ns=20.0)


def launch(seed: int, blocks: int = 9):
    """Loads, arithmetic and stores all over memory."""
    asm = Asm()
    for i in range(6):
        asm.load(lambda b, w, i=i: ((1 << 30) + (b * 7 + w * 3 + i) * seed * 64, 4), barrier=i % 3)
        asm.op(PipeClass.FMA, 4, wait_mask=7 if i % 2 else 0)
    asm.store(lambda b, w: ((1 << 31) + (b * 2 + w) * seed * 128, 4), wait_mask=7)
    return build(asm.exit(), blocks=blocks, threads=64, name=f"launch_{seed}")


FIRST, SECOND = launch(5), launch(11, blocks=23)


@dataclass(frozen=True)
class Post:
    """What a :class:`Mailbox` is to send: (tick, target device, bytes)."""

    packets: tuple[tuple[int, int, int], ...]
    latency_ticks: int


class Mailbox:
    """A stand-in for what will use a link: sends packets at given ticks and keeps those that come."""

    def __init__(self, name: str, device: int, post: Post) -> None:
        self.name, self.device, self.last_tick = name, device, 0
        self.minimum_latency_ticks = post.latency_ticks
        self.received: list[tuple[int, int, int]] = []
        self._post, self._coming = sorted(post.packets), []
        self._sequence = 0

    def deliver(self, batch: np.ndarray) -> None:
        assert (batch["device"] == self.device).all()
        self._coming += [(int(row["time"]), int(row["source"]), int(row["bytes"])) for row in batch]

    def next_tick(self) -> int:
        return min([tick for tick, *_ in (*self._post, *self._coming)], default=NEVER)

    def advance(self, until_tick: int) -> list[np.ndarray]:
        self.received += sorted(message for message in self._coming if message[0] < until_tick)
        self._coming = [message for message in self._coming if message[0] >= until_tick]
        due = [entry for entry in self._post if entry[0] < until_tick]
        self._post = self._post[len(due) :]
        batch = np.zeros(len(due), PACKET)
        for row, (tick, device, size) in zip(batch, due, strict=True):
            row["time"], row["device"], row["bytes"] = tick + self.minimum_latency_ticks, device, size
            row["source"], row["sequence"] = self.device, self._sequence
            self._sequence += 1
        return [batch] if len(batch) else []

    def waiting_for(self) -> str:
        return f"{self.name}: {len(self._post)} packets to send" if self._post else ""


BUILD = {**BUILDERS, "mailbox": lambda graph, node, threads: [Mailbox(node.name, node.device, node.spec)]}


def linked(link: LinkSpec, posts: dict[int, tuple] | None = None, specs=(SMALL, LARGE)):
    """Two GPUs with a mailbox each and a link between them; ``posts``: what each mailbox sends."""
    parts, routes, near = [Node("link", "link", link, None)], [], 400 * TICKS_PER_CYCLE
    for device in range(len(specs)):
        name = f"gpu{device}.mailbox"
        parts.append(Node(name, "mailbox", Post((posts or {}).get(device, ()), near), device))
        routes += [Route(name, "link", "packet", near), Route("link", name, "packet", link.latency_ticks)]
    return machine_graph(specs).extended(parts, routes), near


def facts(result: LaunchResult) -> tuple:
    """Everything that a result says of a launch, comparable."""
    return (
        result.cycles,
        tuple(sorted(result.counters.items())),
        result.stalls_by_instruction.tobytes(),
        result.work_by_instruction.tobytes(),
        result.block_times.tobytes(),
    )


POSTS = {
    0: tuple((997 * i, 1, 4096 * i + 1) for i in range(8)),
    1: tuple((5003 * i, 0, 100_000) for i in range(4)),
}


@pytest.mark.parametrize(
    ("link", "threads", "window", "seed"),
    [(LINK, 1, None, None), (LINK, 2, 7, 1), (SHORT_LINK, 1, None, 2), (SHORT_LINK, 2, 1, 3)],
)
def test_a_launch_on_each_of_two_gpus_at_once_takes_what_it_takes_on_one_alone(link, threads, window, seed):
    graph, _ = linked(link, POSTS)
    with Machine(graph, threads, window, seed, BUILD) as machine:
        both = machine.launch_together({0: FIRST, 1: SECOND})
    for device, trace, spec in ((0, FIRST, SMALL), (1, SECOND, LARGE)):
        assert both[device].device == device
        assert facts(both[device]) == facts(simulate(trace, spec).launches[0])


def test_readings_over_time_are_those_of_a_gpu_alone():
    with Machine(machine_graph([SMALL, LARGE])) as machine:
        both = machine.launch_together({0: FIRST, 1: SECOND}, wanted=Observation(samples=True))
    for device, trace, spec in ((0, FIRST, SMALL), (1, SECOND, LARGE)):
        alone = simulate(trace, spec, samples=True, threads=1).launches[0]
        np.testing.assert_array_equal(both[device].samples, alone.samples)


def test_a_launch_on_the_second_gpu_leaves_the_first_ones_caches_alone():
    with Machine(machine_graph([SMALL, SMALL])) as machine:
        first = machine.launch(FIRST)
        cold = machine.launch(FIRST, device=1)
        machine.devices[0].warm([SECOND], FIRST)
        again = machine.launch(FIRST, device=1)
    assert facts(first) == facts(cold)
    assert again.cycles < cold.cycles and again.counters["dram__bytes_read.sum"] == 0


def arrivals(link: LinkSpec, posts: dict[int, tuple], window: int | None = None, seed: int | None = None):
    graph, near = linked(link, posts)
    with Machine(graph, 1, window, seed, BUILD) as machine:
        machine.launch_together({0: FIRST, 1: SECOND})
        boxes = [machine.parts[f"gpu{device}.mailbox"][0] for device in range(2)]
        assert all(box.waiting_for() == "" for box in boxes)
        return [box.received for box in boxes], near


@pytest.mark.parametrize("link", [LINK, SHORT_LINK])
def test_a_message_arrives_a_latency_after_its_last_byte(link):
    size = 12_800
    (to_first, to_second), near = arrivals(link, {0: ((1000, 1, size), (1000, 1, 100)), 1: ((90_000, 0, size),)})
    sent = 1000 + near
    on_the_lane = round(size / link.bytes_per_ns * link.clock_hz / 1e9 * TICKS_PER_CYCLE)
    little = round(100 / link.bytes_per_ns * link.clock_hz / 1e9 * TICKS_PER_CYCLE)
    assert [(source, amount) for _, source, amount in to_second] == [(0, 100), (0, size)]
    assert to_second[0][0] == pytest.approx(sent + little + link.latency_ticks, abs=1)
    assert to_second[1][0] == pytest.approx(sent + little + on_the_lane + link.latency_ticks, abs=2)
    assert to_first == [(pytest.approx(90_000 + near + on_the_lane + link.latency_ticks, abs=1), 1, size)]


@pytest.mark.parametrize(("window", "seed"), [(1, 0), (7, 1), (None, 2)])
def test_neither_window_nor_order_shows_in_what_comes_over_the_link(window, seed):
    assert arrivals(SHORT_LINK, POSTS, window, seed) == arrivals(SHORT_LINK, POSTS)


def test_the_window_is_the_least_latency_of_all_routes():
    one, two = gpu_graph(SMALL), machine_graph([SMALL, LARGE])
    assert one.window_limit_cycles == two.window_limit_cycles == linked(LINK)[0].window_limit_cycles
    assert linked(SHORT_LINK)[0].window_limit_cycles == SHORT_LINK.latency_ticks // TICKS_PER_CYCLE
    assert SHORT_LINK.latency_ticks // TICKS_PER_CYCLE < one.window_limit_cycles
    with pytest.raises(UsageError, match="window_cycles"):
        Machine(linked(SHORT_LINK)[0], 1, one.window_limit_cycles, builders=BUILD)


@pytest.mark.parametrize("unused", [frozenset(), frozenset({"peer"})])
@pytest.mark.parametrize(
    "graph", [gpu_graph(load_gpu("h200")), gpu_graph(SMALL), linked(LINK)[0], linked(SHORT_LINK)[0]]
)
@pytest.mark.parametrize("shared", [False, True])
def test_no_message_comes_too_late_for_parts_that_take_turns(graph, unused, shared):
    stages = stages_of(graph) if shared else {node.name: place for place, node in enumerate(graph.parts)}
    turns = turns_of(graph, 10**6, unused, stages)
    for route in graph.routes:
        if route.message in unused:
            continue
        there = turns.offset_ticks[route.target] - turns.offset_ticks[route.source]
        is_seen = stages[route.source] < stages[route.target]
        assert route.latency_ticks - there >= (0 if is_seen else turns.window_ticks)
    assert turns.window_ticks // TICKS_PER_CYCLE >= graph.window_limit_cycles
    assert min(turns.offset_ticks.values()) == 0 and turns_of(graph, 5, unused).window_ticks == 5 * TICKS_PER_CYCLE


def test_turns_are_as_long_as_the_shortest_way_round():
    graph = gpu_graph(load_gpu("h200"))
    cycles = {route.message: route.latency_ticks // TICKS_PER_CYCLE for route in graph.routes}
    assert turns_of(graph, 10**6).window_ticks == cycles["peer"] * TICKS_PER_CYCLE
    round_trip = cycles["request"] + cycles["response"]
    assert turns_of(graph, 10**6, frozenset({"peer"})).window_ticks == round_trip * TICKS_PER_CYCLE


def test_parts_of_a_stage_send_each_other_nothing():
    for graph in (gpu_graph(load_gpu("h200")), linked(LINK)[0]):
        stages = stages_of(graph)
        assert {route.source for route in graph.routes if stages[route.source] == stages[route.target]} <= {
            node.name
            for node in graph.parts
            if node.kind == "sm"  # SMs of one node, to each other
        }
    assert stages_of(gpu_graph(SMALL)) == {"gpu0.l2": 0, "gpu0.sm": 1, "gpu0.hbm": 1, "gpu0.dispatcher": 0}


@pytest.mark.parametrize(
    ("l2_ns", "sm_ns", "threads", "pay"),
    [(0, 100, 2, True), (40, 100, 2, True), (200, 100, 2, False), (40, 100, 8, False), (0, 100, 8, True)],
)
def test_turns_pay_where_the_l2_has_little_to_do(l2_ns, sm_ns, threads, pay):
    times = {"l2": l2_ns, **{f"sm{i}": sm_ns // threads * 2 for i in range(threads)}}
    stages = {name: int(name != "l2") for name in times}
    assert turns_pay(times, stages, threads) == pay


def test_a_part_that_is_faster_than_its_routes_say_is_refused():
    graph = gpu_graph(SMALL)
    boasts = replace(graph, routes=tuple(replace(route, latency_ticks=10**6) for route in graph.routes))
    with pytest.raises(SpecError, match="gpu0.l2.*its routes say 1000000 or more"):
        Machine(boasts)


@pytest.mark.parametrize(
    ("parts", "routes", "message"),
    [
        ([Node("gpu0.l2", "l2", SMALL)], [], "two parts named gpu0.l2"),
        ([], [Route("gpu0.l2", "gpu1.l2", "packet", 100)], "leads to gpu1.l2, which is no part"),
        ([], [Route("gpu0.l2", "gpu0.sm", "letter", 100)], "letter is no kind of message"),
        ([Node("link", "link", replace(LINK, clock_hz=1e9), None)], [], "link 1000 MHz"),
        ([Node("gpu7.l2", "l2", SMALL, 7)], [], r"numbered 0, 1, ...; this machine has \[0, 7\]"),
    ],
)
def test_a_description_that_makes_no_sense_is_refused(parts, routes, message):
    with pytest.raises(SpecError, match=message):
        gpu_graph(SMALL).extended(parts, routes)


def test_what_a_machine_lacks_is_refused():
    with pytest.raises(SpecError, match="kind mailbox; known: l2, sm"):
        Machine(linked(LINK)[0])
    with Machine(gpu_graph(SMALL)) as machine, pytest.raises(UsageError, match="has no device 1; give 0 to 0"):
        machine.launch(FIRST, device=1)
    with pytest.raises(SpecError, match=r"link joins devices 0 to 1, not device 5"):
        arrivals(LINK, {0: ((1000, 5, 8),)})
    graph, _ = linked(LINK, POSTS)
    deaf = replace(graph, routes=tuple(route for route in graph.routes if route.target != "gpu1.mailbox"))
    with Machine(deaf, builders=BUILD) as machine, pytest.raises(SpecError, match=r"link sends to device 1, to which"):
        machine.launch(FIRST)
    mute = replace(graph, routes=tuple(route for route in graph.routes if route.source != "gpu0.mailbox"))
    with Machine(mute, builders=BUILD) as machine, pytest.raises(SpecError, match=r"gpu0.mailbox sends.*no route"):
        machine.launch(FIRST)
