"""The machine: parts built and wired from a description, and the launches that run on it.

Mental model: a :class:`Machine` is a graph of parts (:mod:`gpusim.engine.graph`) that keep their state, caches above
all, from launch to launch, and one clock. Launches run one after another, or at once on different devices, under a
:class:`~gpusim.engine.window.WindowScheduler` until nothing in the machine has anything left to do; a launch ends with
its last block or its last acknowledged store, whichever is later.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import cast

from gpusim.engine.block_dispatcher import Dispatcher
from gpusim.engine.chain import ChainResult, RunningChain, why_not_at_once
from gpusim.engine.device import Device
from gpusim.engine.graph import MachineGraph, Node, part_name
from gpusim.engine.hbm import HbmPart
from gpusim.engine.l2 import L2Part
from gpusim.engine.launch import NOTHING_MORE, Observation, RunningLaunch
from gpusim.engine.link import LinkPart
from gpusim.engine.part import Part
from gpusim.engine.peer_port import PeerPort, windows_of
from gpusim.engine.result import LaunchResult
from gpusim.engine.round_windows import Turns, stages_of, turns_of, turns_pay
from gpusim.engine.run_ahead import run_ahead
from gpusim.engine.sm import SmGroup, is_clustered
from gpusim.engine.window import WindowScheduler
from gpusim.engine.window_calls import WindowCalls
from gpusim.errors import DeadlockError, SpecError, UsageError
from gpusim.io.progress import task
from gpusim.model.messages import MESSAGES, TICKS_PER_CYCLE
from gpusim.trace.record import Trace

#: Fewer blocks than this are done before threads have been given their parts.
_BLOCKS_WORTH_THREADS = 16
#: Builds the part of a node, or the parts that share its messages; the second argument is how many may run at once.
Builder = Callable[[MachineGraph, Node, int], Sequence[Part]]
#: Messages that only launches with clusters send.
_OF_CLUSTERS = frozenset({"peer"})
#: Windows that threads share before it is decided, once more, whether the parts are to take turns.
_WINDOWS_TO_DECIDE = 16
#: Cycles of SMs that one call of compiled code runs through at most, a few tenths of a second: Python obeys a signal
#: between two calls. A machine whose parts are far apart could take windows that last for minutes.
_MOST_SM_CYCLES = 1 << 18


def _sm_groups(_graph: MachineGraph, node: Node, threads: int) -> list[SmGroup]:
    sms = node.spec.sm_count
    threads = min(threads, sms)
    bounds = [sms * i // threads for i in range(threads + 1)]
    return [SmGroup(node.spec, lo, hi - lo, node.gpu) for lo, hi in pairwise(bounds)]


#: Kind of node -> how it is built.
BUILDERS: dict[str, Builder] = {
    "l2": lambda graph, node, threads: [L2Part(node.spec, node.gpu, windows_of(graph, node.gpu))],
    "sm": _sm_groups,
    "hbm": lambda graph, node, threads: [HbmPart(node.spec, node.gpu)],
    "dispatcher": lambda graph, node, threads: [Dispatcher(node.spec, node.gpu)],
    "peer_port": lambda graph, node, threads: [PeerPort(node.spec, node.gpu)],
    "link": lambda graph, node, threads: [LinkPart(node.spec, len(graph.devices), node.name)],
}


class Machine:
    """The machine that ``graph`` describes, at some cycle; a context manager that owns its threads.

    ``threads``: parts run at once, SMs of a device in so many groups; ``window_cycles``: length of the engine's
    windows, the longest that is exact and not too much work by default; ``order_seed``: visit parts and SMs in a
    shuffled order. None of these changes a result. ``builders``: how each kind of node is built. Raises UsageError for
    a window that is not exact, SpecError for a part that is faster than its routes say, or of no known kind.
    """

    def __init__(
        self,
        graph: MachineGraph,
        threads: int = 1,
        window_cycles: int | None = None,
        order_seed: int | None = None,
        builders: Mapping[str, Builder] = BUILDERS,
    ) -> None:
        limit = graph.window_limit_cycles
        if limit < 1:
            raise UsageError(f"{graph.name}: a latency between its parts is below one cycle")
        if window_cycles is not None and not 1 <= window_cycles <= limit:
            raise UsageError(f"window_cycles = {window_cycles}; {graph.name} allows 1 to {limit}")
        self.graph = graph
        self.windows = 0
        self.cycle = 0
        of_a_group = max(
            (-(-spec.sm_count // min(threads, spec.sm_count)) for spec in graph.devices.values()), default=1
        )
        longest = min(limit, max(1, _MOST_SM_CYCLES // of_a_group))
        self.window_ticks = (window_cycles or longest) * TICKS_PER_CYCLE
        # In turns windows may be longer, without clusters longest. One thread runs one part after the other.
        most = max(1, _MOST_SM_CYCLES // of_a_group)
        self._turns = {}
        self._stages = stages_of(graph) if threads > 1 else None
        if window_cycles is None:
            self._turns = {
                clustered: turns_of(graph, most, frozenset() if clustered else _OF_CLUSTERS, self._stages)
                for clustered in (True, False)
            }
        self.parts = {node.name: _build(graph, node, threads, builders) for node in graph.parts}
        self._wires = {
            part.name: _wires_of(graph, node, self.parts) for node in graph.parts for part in self.parts[node.name]
        }
        self._ahead = run_ahead(graph, self.parts)
        self.devices = [_device(number, graph, self.parts) for number in sorted(graph.devices)]
        self._helpers = threads - 1  # beside the caller's thread
        self._pool = ThreadPoolExecutor(self._helpers) if self._helpers else None
        self._random = random.Random(order_seed) if order_seed is not None else None
        if self._random is not None:
            for device in self.devices:
                for group in device.groups:
                    order = group.state.order
                    order[:] = self._random.sample(order.tolist(), len(order))

    def __enter__(self) -> Machine:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def launch(
        self, trace: Trace, *, device: int = 0, keep_l1: bool = False, wanted: Observation = NOTHING_MORE
    ) -> LaunchResult:
        """Run one launch to its end on a device of the machine as it stands; ``keep_l1`` leaves the L1 as it is."""
        return self.launch_together({device: trace}, keep_l1=keep_l1, wanted=wanted)[device]

    def launch_chain(
        self, traces: Sequence[Trace], *, device: int = 0, keep_l1: bool = False, wanted: Observation = NOTHING_MORE
    ) -> ChainResult:
        """Run launches at once of which each depends programmatically on the one before (:mod:`gpusim.engine.chain`),
        the first as :meth:`launch` does. Raises UsageError for launches that cannot be, DeadlockError if one cannot
        end."""
        if reason := why_not_at_once(traces):
            raise UsageError(f"launches that depend on each other programmatically: {reason}; simulate them one by one")
        reach = 2 * self.window_ticks // TICKS_PER_CYCLE
        chain = RunningChain(self.devices[device], traces, self.cycle, reach, keep_l1, wanted)
        with task(f"simulating {chain.kernel}", chain.blocks, "blocks", chain.how_far):
            self._run({device: chain}, wanted)
        result, end = chain.finish()
        self._quiet_from(end)
        return result

    def _quiet_from(self, end: int) -> None:
        """The next launch begins at ``end``, or when all parts are quiet."""
        quiet = max(part.last_tick for parts in self.parts.values() for part in parts)
        self.cycle = max(self.cycle, end, -(-quiet // TICKS_PER_CYCLE))

    def launch_together(
        self, traces: Mapping[int, Trace], *, keep_l1: bool = False, wanted: Observation = NOTHING_MORE
    ) -> dict[int, LaunchResult]:
        """Run one launch on each of several devices, all from this cycle on, until the machine is quiet; by device.
        Raises DeadlockError if a launch cannot end."""
        for number in traces:
            if number not in range(len(self.devices)):
                raise UsageError(f"{self.graph.name} has no device {number}; give 0 to {len(self.devices) - 1}")
        clustered = any(is_clustered(trace.program, trace.launch) for trace in traces.values())
        turns = self._turns.get(clustered) if not wanted.looks_at_boundaries else None
        longest_ticks, window_ticks = self.window_ticks, self.window_ticks
        if turns is not None:
            longest_ticks, window_ticks = turns.reach_ticks, turns.window_ticks
        # The longest turn, and a window more that a group of SMs may run ahead.
        reach = (longest_ticks + window_ticks) // TICKS_PER_CYCLE
        running = {
            number: RunningLaunch(self.devices[number], trace, self.cycle, reach, keep_l1, wanted)
            for number, trace in traces.items()
        }
        first = next(iter(running.values()))
        what = f"simulating {', '.join(launch.kernel for launch in running.values())}"
        with task(what, first.blocks, "blocks", first.how_far):
            self._run(running, wanted, turns)
        results = {}
        for number, launch in running.items():
            results[number], end = launch.finish()
            self._quiet_from(end)
        return results

    def _run(
        self, running: Mapping[int, RunningLaunch | RunningChain], wanted: Observation, turns: Turns | None = None
    ) -> None:
        """Run all parts until nothing has anything left to do."""
        parts = [part for parts in self.parts.values() for part in parts]
        offsets, calls, stages = None, None, None
        if turns is not None:
            offsets = {part.name: offset for node, offset in turns.offset_ticks.items() for part in self.parts[node]}
            launch = next(iter(running.values()))
            if self._stages is not None:
                stages = {part.name: self._stages[node] for node in turns.offset_ticks for part in self.parts[node]}
            elif WindowCalls.fit(parts) and isinstance(launch, RunningLaunch):
                calls = WindowCalls(parts, turns.window_ticks, offsets, lambda: launch.next_boundary)
        if self._random is not None and calls is None and (turns is None or stages is not None):
            self._random.shuffle(parts)

        def on_boundary(device: int | None, tick: int) -> None:
            if device is not None and device in running:
                running[device].on_boundary(tick)

        def on_window(device: int | None, _until_tick: int) -> None:
            if device is not None and device in running:
                running[device].on_window()

        start_tick = self.cycle * TICKS_PER_CYCLE
        busy = max(self.devices[number].dispatcher.blocks for number in running)

        def scheduler_of(in_turns: bool, expected_ns: Mapping[str, int]) -> WindowScheduler:
            return WindowScheduler(
                parts,
                self._wires,
                turns.window_ticks if in_turns and turns is not None else self.window_ticks,
                start_tick,
                self._pool if busy >= _BLOCKS_WORTH_THREADS else None,
                on_window if wanted.progress is not None else None,
                on_boundary,
                self._helpers,
                None if wanted.looks_at_boundaries else self._ahead,
                offsets if in_turns else None,
                calls,
                stages if in_turns else None,
                None if stages is None else _WINDOWS_TO_DECIDE,
                expected_ns,
            )

        # With several threads all parts run at once first: what their turns take says what is faster from then on.
        scheduler = scheduler_of(turns is not None and stages is None, {})
        scheduler.run()
        while stages is not None and scheduler.has_left:
            self.windows += scheduler.windows
            expected_ns = scheduler.expected_ns
            scheduler = scheduler_of(turns_pay(expected_ns, stages, 1 + self._helpers), expected_ns)
            scheduler.run()
        self.windows += scheduler.windows
        stuck = [launch.kernel for number, launch in running.items() if not self.devices[number].dispatcher.done]
        if stuck:
            warps = [running[number].waiting() for number in running if not self.devices[number].dispatcher.done]
            waiting = "; ".join(filter(None, [*warps, *scheduler.waiting()]))
            raise DeadlockError(f"{', '.join(stuck)}: nothing can move any more; {waiting}")


def _build(graph: MachineGraph, node: Node, threads: int, builders: Mapping[str, Builder]) -> Sequence[Part]:
    """The parts of a node, none of which is faster than the routes that leave it."""
    if node.kind not in builders:
        raise SpecError(f"{node.name}: nothing builds a part of kind {node.kind}; known: {', '.join(builders)}")
    parts = builders[node.kind](graph, node, threads)
    least = min((route.latency_ticks for route in graph.routes if route.source == node.name), default=0)
    for part in parts:
        if part.minimum_latency_ticks < least:
            raise SpecError(
                f"{part.name}: a message may take {part.minimum_latency_ticks} ticks only, its routes say {least} or more"
            )
    return parts


def _wires_of(graph: MachineGraph, node: Node, parts: Mapping[str, Sequence[Part]]) -> dict:
    """Kind of message -> the parts that take it, of what a node sends."""
    wires: dict = {}
    for route in graph.routes:
        if route.source == node.name:
            wires.setdefault(MESSAGES[route.message], []).extend(parts[route.target])
    return wires


def _device(number: int, graph: MachineGraph, parts: Mapping[str, Sequence[Part]]) -> Device:
    return Device(
        number,
        graph.devices[number],
        groups=cast(list[SmGroup], parts[part_name(number, "sm")]),
        l2=cast(L2Part, parts[part_name(number, "l2")][0]),
        hbm=cast(HbmPart, parts[part_name(number, "hbm")][0]),
        dispatcher=cast(Dispatcher, parts[part_name(number, "dispatcher")][0]),
    )
