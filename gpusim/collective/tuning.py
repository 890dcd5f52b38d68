"""NCCL's own figures, by which it chooses an algorithm and a protocol: latencies and limits of bandwidth.

Those of ``src/graph/tuning.cc``, NCCL 2.20 (NVIDIA/nccl, commit b6475625) to 2.28.3 (as mirrored in
zhanglin496/nccl-2.28.3-1, commit 850a18f5), whose figures are taken where they differ. Protocols in the order of
:data:`PROTOCOLS`.
"""

from __future__ import annotations

PROTOCOLS = ("LL", "LL128", "Simple")
#: Microseconds at the start (baseLatencies).
BASE_US = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}
#: Of a step over NVLink, over PCIe, and over a network (hwLatencies; 2.20 has 28 for a tree's Simple in all three).
NVLINK_US = {"ring": (0.6, 1.9, 3.4), "tree": (0.6, 1.25, 4.0)}
PCIE_US = {"ring": (1.0, 2.5, 5.7), "tree": (1.0, 1.9, 4.0)}
NETWORK_US = {"ring": (2.7, 4.0, 14.0), "tree": (5.0, 8.5, 14.0)}
#: What each step of a ring over several nodes takes at least on its host: posting to the network (getNetOverhead, of
#: Intel's CPUs; AMD's 2), three times with Simple.
POSTING_US = (1.0, 1.0, 3.0)
#: What a ring's latency with Simple is multiplied by between nodes ("plateau effect of ring"): before Ampere, since.
PLATEAU = {"volta": 1.9, "turing": 1.9}
PLATEAU_ELSE = 1.4
#: Of a hop between two nodes whose switches sum (NVLS_TREE; 2.28.3 has 14, later versions 20.9).
SWITCH_HOP_US = 20.9
#: GB/s that LL reaches in one node (llMaxBws), by generation.
LL_GB_PER_SECOND = {"volta": 39.0, "ampere": 87.7, "hopper": 141.0, "blackwell": 282.0}
#: GB/s of a channel: of a ring with LL128, of a tree (perChMaxRingLL128Bws, perChMaxTreeBws; one node). Of Blackwell's
#: rings later versions have 40.
RING_LL128_CHANNEL = {"volta": 20.0, "ampere": 20.0, "hopper": 36.7, "blackwell": 73.4}
TREE_CHANNEL = {"volta": 26.5, "ampere": 24.0, "hopper": 38.7, "blackwell": 70.0}
#: Of a ring's bandwidth: LL's (half of what is sent are flags), LL128's, a tree's, and LL's and LL128's of a tree's.
RING_SHARES, TREE_SHARE = (0.5, 0.92, 1.0), 0.92
TREE_LL_SHARE, TREE_LL128_SHARE, TREE_LL128_NODE_SHARE = 1.0 / 3.8, 120.0 / 128.0, 7.0 / 9.0
#: What a tree reaches of its bandwidth, by the power of two of the message from 64 bytes on: NCCL's own correction of
#: its reckoning for medium sizes (treeCorrectionFactor).
TREE_CORRECTIONS = (
    (1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.0, 1.0, 1.0),
    (1.0, 1.0, 1.0, 1.0, 1.0, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1.0, 1.0),
    (0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5, 0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
)  # fmt: skip
#: Of the links' rate, what sums in the switch reach (nvlsEfficiency).
SWITCH_EFFICIENCY = {"hopper": 0.85, "blackwell": 0.74}


def tree_correction(protocol: int, message_bytes: float) -> float:
    """Share of a tree's bandwidth that a message of so many bytes reaches; ``protocol``: its place."""
    place = int(message_bytes // 64).bit_length() - 1
    row = TREE_CORRECTIONS[protocol]
    return row[max(0, place)] if place < len(row) else 1.0
