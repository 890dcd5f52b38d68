"""GPUs of a described node as one machine, each with the others' memory in reach of its loads and stores.

Mental model: what :mod:`gpusim.collective.topology` counts in messages the engine counts in packets: the same link, its
rate, latency and what a packet takes beside its data (``[node]`` of the GPU's file). Stores of 128 bytes so reach four
fifths of an NVLink's rate. The latency is shared by the port (a third) and the link.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpusim.collective.node import node_of
from gpusim.engine.graph import MachineGraph
from gpusim.engine.peer_memory import Windows
from gpusim.engine.peer_port import peer_graph
from gpusim.errors import SpecError
from gpusim.gpus.spec import GpuSpec
from gpusim.model.link import LinkSpec

_PORT_SHARE = 1 / 3


def peer_machine(specs: Sequence[GpuSpec], windows: Mapping[int, Windows]) -> MachineGraph:
    """``specs`` GPUs of one node, with the first one's links; ``windows``: by device, addresses (first, behind the
    last) that are another device's memory. Raises SpecError for more GPUs than a node has."""
    links = node_of(specs[0])
    if len(specs) > links.gpus:
        raise SpecError(f"{len(specs)} GPUs in a node of {links.gpus}: only a node's reach each other's memory")
    latency_ns = 1e3 * links.link_latency_us
    link = LinkSpec(latency_ns * (1 - _PORT_SHARE), links.link_bytes_per_second / 1e9, specs[0].clock_hz)
    return peer_graph(list(specs), link, dict(windows), latency_ns * _PORT_SHARE, round(links.packet_overhead_bytes))
