"""The links of a GPU: within its node, and between nodes.

Mental model: a GPU sends at one rate to all others of its node (a switch in between), and at a lower one through its
network card to other nodes. The figures are the GPU file's (``[node]``, :class:`gpusim.gpus.spec.NodeSpec`), so a GPU
that inherits another has its links.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec, NodeSpec

#: GPUs on whose links the collectives of ``errors.json`` were measured.
MEASURED_ON = ("a100_80gb", "h100")


@dataclass(frozen=True)
class Node:
    """``link_bytes_per_second``: one way, of a GPU; ``channels``: rings that NCCL lays; ``ring_gb_per_second``: what
    its choice reckons with; ``switch_sums``: NVLS;
    ``link_latency_us``: of a store, one way; ``packet_overhead_bytes``: on the link beside a packet's data."""

    gpus: int
    link_bytes_per_second: float
    channels: int
    ring_gb_per_second: float
    switch_sums: bool
    network_bytes_per_second: float
    network_latency_us: float
    link_latency_us: float
    packet_overhead_bytes: float
    measured: bool


def node_of(spec: GpuSpec) -> Node:
    """The links of ``spec``, in seconds as the collectives are timed; ``measured`` where they are those of a GPU whose
    collectives were."""
    own = spec.node
    return Node(
        gpus=own.gpus,
        link_bytes_per_second=own.link_bytes_per_ns * 1e9,
        channels=own.channels,
        ring_gb_per_second=own.ring_bytes_per_ns,
        switch_sums=own.switch_sums,
        network_bytes_per_second=own.network_bytes_per_ns * 1e9,
        network_latency_us=own.network_latency_ns / 1e3,
        link_latency_us=own.link_latency_ns / 1e3,
        packet_overhead_bytes=own.packet_overhead_bytes,
        measured=own in _measured_nodes(),
    )


@functools.cache
def _measured_nodes() -> tuple[NodeSpec, ...]:
    return tuple(load_gpu(name).node for name in MEASURED_ON)
