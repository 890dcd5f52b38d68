"""What a datasheet says of a GPU's links, as claims of its file.

Mental model: datasheets count both directions together, and know two kinds: NVLink through a switch, and PCIe. What
NCCL makes of a kind of link is what it makes of the described GPUs' (``a100_80gb``, ``a40``), by the ratio of the
rates.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpusim.gpus.datasheet import Datasheet
from gpusim.gpus.load import Claim
from gpusim.gpus.spec import GpuSpec, NodeSpec

#: Share of a link's rate that NCCL reckons a ring with: 240 of 300 GB/s (A100), 20 of 32 (PCIe 4).
_NVLINK_RING_SHARE, _PCIE_RING_SHARE = 0.8, 0.625
#: The first capability whose NVSwitch adds up what passes (NVLS; NVIDIA H100 whitepaper).
_SUMS_FROM = (9, 0)
#: Of NVLink where the related GPU has none: a100_80gb's.
_NVLINK_CHANNELS = 24


def link_claims(sheet: Datasheet, base: GpuSpec, stated, ruled) -> Iterator[tuple[str, Claim]]:
    """(key, claim) of each value of the node that is another than the related GPU's; nothing where the datasheet is
    silent."""
    links = sheet.links
    if links is None:
        return
    if links.gpus is not None and links.gpus != base.node.gpus:
        yield stated("node.gpus", links.gpus, f"{links.gpus} GPUs behind one switch")
    if links.nvlink_gb_per_s is not None:
        wanted = _of_nvlink(links.nvlink_gb_per_s / 2, base, sheet.capability or base.capability)
        kind, both = "NVLink", links.nvlink_gb_per_s
    elif links.pcie_gb_per_s is not None:
        wanted = _of_pcie(links.pcie_gb_per_s / 2)
        kind, both = "PCIe", links.pcie_gb_per_s
    else:
        return
    for key, value in wanted.items():
        if value != getattr(base.node, key):
            if key == "link_bytes_per_ns":
                yield stated(f"node.{key}", value, f"{both:g} GB/s of {kind}, both ways together")
            else:
                yield ruled(f"node.{key}", value, f"as other GPUs with {kind}")


def _of_nvlink(one_way: float, base: GpuSpec, capability: tuple[int, int]) -> dict[str, object]:
    switched = base.node.channels > NodeSpec().channels
    return {
        "link_bytes_per_ns": one_way,
        "link_latency_ns": base.node.link_latency_ns if switched else 300.0,
        "packet_overhead_bytes": base.node.packet_overhead_bytes if switched else 32.0,
        "channels": base.node.channels if switched else _NVLINK_CHANNELS,
        "ring_bytes_per_ns": round(_NVLINK_RING_SHARE * one_way, 1),
        "switch_sums": tuple(capability) >= _SUMS_FROM,
    }


def _of_pcie(one_way: float) -> dict[str, object]:
    card = NodeSpec()
    return {
        "link_bytes_per_ns": one_way,
        "link_latency_ns": card.link_latency_ns,
        "packet_overhead_bytes": card.packet_overhead_bytes,
        "channels": card.channels,
        "ring_bytes_per_ns": round(_PCIE_RING_SHARE * one_way, 1),
        "switch_sums": False,
    }
