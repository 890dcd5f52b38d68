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


#: Links up to 16 lanes of PCIe 5.
_PCIE_BYTES_PER_SECOND = 64e9
#: Rings over PCIe pass the CPUs' bridges, which carry both ways of all GPUs at once. Published all-reduces of large
#: messages among eight GPUs with PCIe 5 reach 22, 28, 38, 39, 40 and 41 GB/s (voipmonitor/rtx6kpro,
#: hardware/pcie-bandwidth.md, commit 070506ff: five machines of RTX PRO 6000; NVIDIA/nccl, issue 1639: RTX 5090, where
#: four reach 35), in the middle 0.8 of the 48 that NVLink's share would make. What machines differ by is not described.
#: With PCIe 4, eight L40S would reach 18.6; TensorRT-LLM's servers of them, which did not set it, ask for 17 to 18.
_PCIE_RING_SHARE = 0.8
#: Of a network card's rate that is left for data. NCCL's maintainers measure all-reduces of 192 GB/s over a node's
#: eight cards of 25 (NVIDIA/nccl, issue 812: DGX A100) and expect 46 to 48 of a card of 50 (NVIDIA/nccl-tests, issue
#: 290); two clusters with four cards of 25 a node reach 95 to 97 (issues 119, of 24 A100s, and 252).
CARD_SHARE = 0.96


@dataclass(frozen=True)
class Node:
    """``link_bytes_per_second``: one way, of a GPU; ``channels``: rings that NCCL lays; ``ring_gb_per_second``: what
    its choice reckons with; ``switch_sums``: NVLS;
    ``network_bytes_per_second``: of data, one way, of its card; ``link_latency_us``: of a store, one way;
    ``packet_overhead_bytes``: on the link beside a packet's data; ``over_pcie``: its GPUs have no faster links;
    ``ring_share``: of what NCCL's rings and trees reach over NVLink, as a share of the links' rate, what they reach
    here; ``card_gb_per_second``: of a GPU's network card, nominal; ``peer_access``: a GPU reaches others' memory."""

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
    over_pcie: bool
    ring_share: float
    card_gb_per_second: float
    peer_access: bool = True


def node_of(spec: GpuSpec) -> Node:
    """The links of ``spec``, in seconds as the collectives are timed; ``measured`` where they are those of a GPU whose
    collectives were."""
    own = spec.node
    over_pcie = own.link_bytes_per_ns * 1e9 <= _PCIE_BYTES_PER_SECOND
    return Node(
        gpus=own.gpus,
        link_bytes_per_second=own.link_bytes_per_ns * 1e9,
        channels=own.channels,
        ring_gb_per_second=own.ring_bytes_per_ns,
        switch_sums=own.switch_sums,
        network_bytes_per_second=own.network_bytes_per_ns * 1e9 * CARD_SHARE,
        network_latency_us=own.network_latency_ns / 1e3,
        link_latency_us=own.link_latency_ns / 1e3,
        packet_overhead_bytes=own.packet_overhead_bytes,
        measured=own in _measured_nodes(),
        over_pcie=over_pcie,
        ring_share=_PCIE_RING_SHARE if over_pcie else 1.0,
        card_gb_per_second=own.network_bytes_per_ns,
    )


@functools.cache
def _measured_nodes() -> tuple[NodeSpec, ...]:
    return tuple(load_gpu(name).node for name in MEASURED_ON)
