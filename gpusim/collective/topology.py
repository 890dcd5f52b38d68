"""A cluster's graph: the ports of each GPU, its network card, and which of them a message passes.

Mental model: within a node every GPU has a port out and one in, at the switch's far side nothing is narrow (NVSwitch;
PCIe switches as coarsely); between nodes every GPU has a network card, out and in, and the network is not narrow. What
is copied or sent by SMs passes the channels of its kernel too, which belong to one collective alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import simpy

from gpusim.collective.fabric import Fabric
from gpusim.collective.node import Node
from gpusim.errors import SpecError

#: Data of a packet: what SMs store, and what copy engines send (S. Jeaugey of NVIDIA, nccl-tests issue 149).
SM_PACKET_BYTES, COPY_PACKET_BYTES = 128.0, 256.0
#: A node's links are given for one node; a cluster may have so many GPUs.
MOST_GPUS = 1 << 14


@dataclass(frozen=True)
class Path:
    """``links`` that a message passes, ``loads``: bytes on each for one of the message, ``latency_seconds`` until its
    last byte has arrived."""

    links: tuple[int, ...]
    loads: tuple[float, ...]
    latency_seconds: float


class Topology:
    """``gpus`` GPUs, ``node.gpus`` a node, on a fabric of their own. GPU 9 is the second of the second node where a
    node has eight."""

    def __init__(self, environment: simpy.Environment, node: Node, gpus: int) -> None:
        if not 1 <= gpus <= MOST_GPUS:
            raise SpecError(f"a cluster of {gpus} GPUs, not between 1 and {MOST_GPUS}")
        self.node, self.gpus, self.fabric = node, gpus, Fabric(environment)
        link, network = node.link_bytes_per_second, node.network_bytes_per_second
        self._out = [self.fabric.link(f"gpu{each} out", link) for each in range(gpus)]
        self._in = [self.fabric.link(f"gpu{each} in", link) for each in range(gpus)]
        several = gpus > node.gpus
        self._card_out = [self.fabric.link(f"card{each} out", network) for each in range(gpus if several else 0)]
        self._card_in = [self.fabric.link(f"card{each} in", network) for each in range(gpus if several else 0)]

    def node_of(self, gpu: int) -> int:
        """The number of its node."""
        return gpu // self.node.gpus

    def path(self, source: int, target: int, wire: float = 1.0, packet_bytes: float = SM_PACKET_BYTES) -> Path:
        """From GPU to GPU. ``wire``: bytes sent for each of the message (flags of a protocol)."""
        if self.node_of(source) != self.node_of(target):
            return Path(
                (self._card_out[source], self._card_in[target]), (1.0, 1.0), 1e-6 * self.node.network_latency_us
            )
        load = wire * self.packet_load(packet_bytes)
        return Path((self._out[source], self._in[target]), (load, load), 1e-6 * self.node.link_latency_us)

    def port_out(self, gpu: int, wire: float = 1.0) -> Path:
        """Into the switch and no further: what the switch sums or copies to all."""
        return Path((self._out[gpu],), (wire * self.packet_load(SM_PACKET_BYTES),), 1e-6 * self.node.link_latency_us)

    def port_in(self, gpu: int, wire: float = 1.0) -> Path:
        """Out of the switch."""
        return Path((self._in[gpu],), (wire * self.packet_load(SM_PACKET_BYTES),), 1e-6 * self.node.link_latency_us)

    def packet_load(self, packet_bytes: float) -> float:
        """Bytes on a link for one of data."""
        return 1.0 + self.node.packet_overhead_bytes / packet_bytes

    def copy(self, source: int, target: int, message_bytes: float) -> simpy.Event:
        """The arrival of a copy by a copy engine (``cudaMemcpyPeerAsync``) that begins now."""
        path = self.path(source, target, packet_bytes=COPY_PACKET_BYTES)
        return self.fabric.send(path.links, message_bytes, path.latency_seconds, path.loads)
