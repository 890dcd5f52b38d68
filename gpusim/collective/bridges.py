"""NVLink bridges between two boards, of GPUs that take one: a machine may have it or not, so no GPU's file says it.

Mental model: a board has so many NVLinks at its edge; a bridge joins them all to another's. Rates are one way, half of
what datasheets and whitepapers state of both ways together; they are quoted from memory, but for the numbers of links
of TU102 and TU104 (videocardz.com/77895, of NVIDIA's Turing whitepaper) and A100's and H100's 12, which NCCL's logs
show as 24 channels (NVIDIA/nccl-tests, issues 178 and 194).
"""

from __future__ import annotations

#: GPU -> links, GB/s one way of all of them.
BRIDGES: dict[str, tuple[int, float]] = {
    "rtx2070_super": (1, 25.0),  # NVIDIA Turing whitepaper: TU104 has one x8 link, 50 GB/s both ways
    "rtx2080ti": (2, 50.0),  # the same: TU102 has two, 100 GB/s
    "titan_rtx": (2, 50.0),  # TITAN RTX, product page: 100 GB/s
    "rtx3090": (4, 56.25),  # NVIDIA Ampere GA102 whitepaper: four x4 links of 14.0625 GB/s each way
    "rtx_a6000": (4, 56.25),  # RTX A6000 datasheet: 112.5 GB/s
    "a40": (4, 56.25),  # A40 datasheet: 112.5 GB/s
    "a30": (4, 100.0),  # A30 datasheet: 200 GB/s
    "a100_pcie_40gb": (12, 300.0),  # A100 datasheet, PCIe: three bridges, 600 GB/s
    "h100_pcie": (12, 300.0),  # H100 PCIe product brief: three bridges, 600 GB/s
}
#: Of a bridge whose links nobody says: GB/s of one.
_LINK_GB_PER_S = 25.0
#: Channels that NCCL lays over a link.
_CHANNELS_A_LINK = 2


def bridge_of(gpu: str) -> tuple[int, float] | None:
    """Links and rate of the bridge that ``gpu`` takes, also one with values set otherwise (``rtx3090[...]``); None
    where none is known."""
    return BRIDGES.get(gpu.partition("[")[0])


def bridge_channels(gb_per_s: float, links: int | None = None) -> int:
    """That NCCL lays over a bridge of ``gb_per_s`` one way."""
    return _CHANNELS_A_LINK * (links or max(1, round(gb_per_s / _LINK_GB_PER_S)))
