"""What a machine consists of: a description of its parts and of the routes between them.

Mental model: a graph of plain facts, with no state. A node is a part (or several alike that share its messages, such
as groups of SMs): its kind, the device that it belongs to, the spec that it is built from. A route says which kind of
message goes from one node to another, and the least time that it takes. :class:`gpusim.engine.machine.Machine` builds
the parts and wires them as described. The least latency over all routes is the engine's window: no part can see
within one what another does. One GPU is a graph with one device; more devices, and what lies between them, are
further nodes and routes::

    graph = machine_graph([spec, spec]).extended(parts=[Node("link", "link", link_spec, None)], routes=[...])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.engine.latencies import burst_ticks, dram_answer_ticks, dram_request_ticks, peer_ticks, turnaround_halves
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.crossbar import request_latency_ticks, response_latency_ticks
from gpusim.model.link import LinkSpec
from gpusim.model.messages import MESSAGES, NEVER, TICKS_PER_CYCLE


@dataclass(frozen=True)
class Node:
    """A part: its unique ``name``; its ``kind``, which says how it is built; the ``spec`` that it is built from; its
    ``device``, None if it lies between devices."""

    name: str
    kind: str
    spec: Any
    device: int | None = 0

    @property
    def gpu(self) -> int:
        """The device, for a part that must belong to one; raises SpecError if it does not."""
        if self.device is None:
            raise SpecError(f"{self.name}: a part of kind {self.kind} belongs to a device; give its number")
        return self.device


@dataclass(frozen=True)
class Route:
    """Messages of the kind ``message`` (a name in :data:`gpusim.model.messages.MESSAGES`) go from node ``source`` to
    node ``target`` and take ``latency_ticks`` or more. Of messages that carry a device, a node of a device gets its
    own."""

    source: str
    target: str
    message: str
    latency_ticks: int


@dataclass(frozen=True)
class MachineGraph:
    """A machine's ``parts`` (the longest to run through a window first) and ``routes``. Raises SpecError where a route
    leads nowhere, a name stands twice, or the devices have different clocks."""

    parts: tuple[Node, ...]
    routes: tuple[Route, ...]

    def __post_init__(self) -> None:
        names = [node.name for node in self.parts]
        for name in names:
            if names.count(name) > 1:
                raise SpecError(f"the machine has two parts named {name}; give each its own name")
        for route in self.routes:
            for end in (route.source, route.target):
                if end not in names:
                    raise SpecError(f"a route for {route.message} leads to {end}, which is no part: {', '.join(names)}")
            if route.message not in MESSAGES:
                raise SpecError(
                    f"{route.source} to {route.target}: {route.message} is no kind of message: {', '.join(MESSAGES)}"
                )
        clocked = [node for node in self.parts if isinstance(node.spec, (GpuSpec, LinkSpec))]
        if len({node.spec.clock_hz for node in clocked}) > 1:
            clocks = ", ".join(f"{node.name} {node.spec.clock_hz / 1e6:g} MHz" for node in clocked)
            raise SpecError(f"the parts of one machine count ticks of one clock, these have several: {clocks}")
        if sorted(self.devices) != list(range(len(self.devices))):
            raise SpecError(f"devices are numbered 0, 1, ...; this machine has {sorted(self.devices)}")

    @property
    def devices(self) -> dict[int, GpuSpec]:
        """The GPUs by their device numbers."""
        return {
            node.device: node.spec for node in self.parts if node.device is not None and isinstance(node.spec, GpuSpec)
        }

    @property
    def name(self) -> str:
        """The GPUs' names."""
        return " + ".join(spec.name for spec in self.devices.values())

    @property
    def window_limit_cycles(self) -> int:
        """Longest window that is exact: the least latency of any route, in whole cycles."""
        return min(route.latency_ticks for route in self.routes) // TICKS_PER_CYCLE

    @property
    def least_ticks(self) -> dict[str, dict[str, int]]:
        """Least time from an event of one node to the arrival at another of a message that it causes, over whichever
        nodes; of a node to itself, until something comes back. NEVER where there is no way."""
        names = [node.name for node in self.parts]
        least = {source: dict.fromkeys(names, NEVER) for source in names}
        for route in self.routes:
            least[route.source][route.target] = min(least[route.source][route.target], route.latency_ticks)
        for over in names:
            for source in names:
                for target in names:
                    way = least[source][over] + least[over][target]
                    least[source][target] = min(least[source][target], way)
        return least

    def extended(self, parts: Iterable[Node] = (), routes: Iterable[Route] = ()) -> MachineGraph:
        """The machine with further parts and routes."""
        return MachineGraph((*self.parts, *parts), (*self.routes, *routes))


def part_name(device: int, kind: str) -> str:
    """The name of a GPU's part in the machine."""
    return f"gpu{device}.{kind}"


def machine_graph(specs: Sequence[GpuSpec]) -> MachineGraph:
    """GPUs side by side, devices 0, 1, ..., with nothing between them."""
    return MachineGraph(
        tuple(node for device, spec in enumerate(specs) for node in _gpu_parts(spec, device)),
        tuple(route for device, spec in enumerate(specs) for route in _gpu_routes(spec, device)),
    )


def gpu_graph(spec: GpuSpec) -> MachineGraph:
    """One GPU: SMs, L2, DRAM and block dispatcher."""
    return machine_graph([spec])


def _gpu_parts(spec: GpuSpec, device: int) -> list[Node]:
    return [Node(part_name(device, kind), kind, spec, device) for kind in ("l2", "sm", "hbm", "dispatcher")]


def _gpu_routes(spec: GpuSpec, device: int) -> list[Route]:
    l2, sm, hbm, dispatcher = (part_name(device, kind) for kind in ("l2", "sm", "hbm", "dispatcher"))
    to_dispatcher, to_sm = turnaround_halves(spec)
    return [
        Route(sm, l2, "request", request_latency_ticks(spec)),
        Route(l2, sm, "response", response_latency_ticks(spec)),
        Route(l2, hbm, "dram_request", dram_request_ticks(spec)),
        Route(hbm, l2, "dram_response", burst_ticks(spec) + dram_answer_ticks(spec)),
        Route(dispatcher, sm, "start", to_sm * TICKS_PER_CYCLE),
        Route(sm, dispatcher, "exit", to_dispatcher * TICKS_PER_CYCLE),
        Route(sm, sm, "peer", peer_ticks(spec)),
    ]
