"""Kinds of DRAM, and which one each built-in GPU has.

Mental model: what a standard fixes (how wide a channel is, its banks and pages) follows from the kind alone; a GPU file
states what comes of it, not the kind.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class MemoryKind:
    """What a DRAM standard fixes, the bits of its bus for which L2 has a slice, and the share of its pin rate that
    streams reach.
    ``masked_writes``: whether parts of sectors are written with a mask, as seen on an RTX 4070 (GDDR6X); an RTX 2080 Ti
    (GDDR6) does not."""

    channel_bits: int
    banks: int
    row_bytes: int
    slice_bits: int
    efficiency: float
    source: str
    efficiency_source: str
    masked_writes: bool = False


_TWO_HBM3 = "as fitted for GH200 and H200"
#: Widths, banks and pages: JEDEC JESD250 (GDDR6), JESD239 (GDDR7), JESD235 (HBM2), JESD238 (HBM3), JESD270-4 (HBM4: 32
#: channels of 64 bits, each of two pseudo channels), JESD209-5 (LPDDR5 and 5X: channels of 16 bits, 16 banks, pages of
#: 2 KiB). Of HBM4 and LPDDR5 no stream was measured here, and a slice of L2 for so many bits is a guess too.
MEMORY_KINDS: dict[str, MemoryKind] = {
    "GDDR6": MemoryKind(16, 16, 2048, 8, 0.976, "JEDEC GDDR6", "A40: stream init and read, 679 of 696 GB/s"),
    "GDDR6X": MemoryKind(16, 16, 2048, 8, 0.976, "as GDDR6", "as GDDR6", masked_writes=True),
    "GDDR7": MemoryKind(
        8, 16, 1024, 8, 0.934, "JEDEC GDDR7: four channels a device", "RTX 5090: reads, 1,674 of 1,792 GB/s"
    ),
    "HBM2": MemoryKind(
        64, 16, 1024, 64, 0.965, "JEDEC HBM2, pseudo channels", "A100 40 GB: stream read, 1500 of 1555 GB/s"
    ),
    "HBM2e": MemoryKind(
        64, 16, 1024, 64, 0.945, "JEDEC HBM2, pseudo channels", "between A100 80 GB (0.925) and H100 PCIe (0.965)"
    ),
    "HBM3": MemoryKind(32, 16, 1024, 64, 0.98, "JEDEC HBM3, pseudo channels", _TWO_HBM3),
    "HBM3e": MemoryKind(32, 16, 1024, 64, 0.98, "JEDEC HBM3, pseudo channels", _TWO_HBM3),
    "HBM4": MemoryKind(32, 16, 1024, 64, 0.98, "JEDEC HBM4, pseudo channels", "as HBM3, not measured"),
    "LPDDR5": MemoryKind(16, 16, 2048, 8, 0.976, "JEDEC LPDDR5", "as GDDR6, not measured"),
    "LPDDR5X": MemoryKind(16, 16, 2048, 8, 0.976, "JEDEC LPDDR5", "as GDDR6, not measured"),
}
#: Built-in GPU -> its memory, which its file's figures alone do not tell.
MEMORY_OF = {
    "t4": "GDDR6", "v100": "HBM2", "a100_80gb": "HBM2e", "a100_40gb": "HBM2", "a100_pcie_40gb": "HBM2", "a30": "HBM2", "a40": "GDDR6", "a10": "GDDR6",
    "rtx_a4000": "GDDR6", "rtx_a6000": "GDDR6", "rtx3090": "GDDR6X", "l40": "GDDR6", "l40s": "GDDR6", "l4": "GDDR6",
    "rtx4090": "GDDR6X", "h100": "HBM3", "h100_pcie": "HBM2e", "h800": "HBM3", "gh200": "HBM3", "h200": "HBM3e",
    "b200": "HBM3e", "b300": "HBM3e", "gb200": "HBM3e", "rtx5090": "GDDR7", "rtx_pro_6000": "GDDR7", "rtx_pro_6000_server": "GDDR7",
    "rtx2080ti": "GDDR6", "titan_rtx": "GDDR6", "rtx2070_super": "GDDR6", "titan_v": "HBM2", "rtx3080": "GDDR6X", "rtx3070": "GDDR6",
    "rtx4060ti": "GDDR6", "rtx4070": "GDDR6X", "rtx4070ti_super": "GDDR6X",
    "a10g": "GDDR6", "rtx3060": "GDDR6", "rtx3080ti": "GDDR6X", "l20": "GDDR6", "rtx_6000_ada": "GDDR6",
    "rtx4070_super": "GDDR6X", "rtx4080": "GDDR6X", "h20": "HBM3", "h20_141gb": "HBM3e", "h100_nvl": "HBM3", "gb300": "HBM3e", "rtx5060ti": "GDDR7",
    "rtx5070": "GDDR7", "rtx5070ti": "GDDR7", "rtx5080": "GDDR7", "rtx5080_laptop": "GDDR7", "rtx2070": "GDDR6", "rtx3070ti_laptop": "GDDR6",
}  # fmt: skip
