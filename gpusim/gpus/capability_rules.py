"""What a GPU's compute capability alone fixes: how much an SM holds, and how wide a slice of its L2 and an SM's way to
it are.

Mental model: the CUDA C++ Programming Guide tabulates an SM's limits by compute capability; a product of a capability
has them whatever its datasheet says, so a GPU that is made like one of another capability must not inherit them.
Capabilities that the guide does not list here (newer minors of a known major) take what their related GPU has.
"""

from __future__ import annotations

from typing import Any

_KIB = 1024
_VOLTA = (0, 8, 16, 32, 64, 96)
_AMPERE = (0, 8, 16, 32, 64, 100, 132, 164)
_GA10X = (0, 8, 16, 32, 64, 100)
_HOPPER = (*_AMPERE, 196, 228)


def _limits(
    warps: int, blocks: int, most_kib: int, block_kib: int, l1_kib: int, carveouts: tuple[int, ...]
) -> dict[str, Any]:
    return {
        "sm.max_warps": warps,
        "sm.max_blocks": blocks,
        "sm.shared_max_bytes": most_kib * _KIB,
        "sm.shared_per_block_max_bytes": block_kib * _KIB,
        "sm.shared_carveouts_kib": list(carveouts),
        "l1.total_bytes": l1_kib * _KIB,
    }


#: Source: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability" and each architecture's
#: tuning guide (carve-outs, unified cache). A block's reserve of 1 KiB counts since 8.0.
LIMITS: dict[tuple[int, int], dict[str, Any]] = {
    (7, 0): _limits(64, 32, 96, 96, 128, _VOLTA) | {"sm.shared_reserved_bytes": 0},
    (7, 5): _limits(32, 16, 64, 64, 96, (32, 64)) | {"sm.shared_reserved_bytes": 0},
    (8, 0): _limits(64, 32, 164, 163, 192, _AMPERE) | {"sm.shared_reserved_bytes": 1024},
    (8, 6): _limits(48, 16, 100, 99, 128, _GA10X) | {"sm.shared_reserved_bytes": 1024},
    (8, 9): _limits(48, 24, 100, 99, 128, _GA10X) | {"sm.shared_reserved_bytes": 1024},
    (9, 0): _limits(64, 32, 228, 227, 256, _HOPPER) | {"sm.shared_reserved_bytes": 1024},
    (10, 0): _limits(64, 32, 228, 227, 256, _HOPPER) | {"sm.shared_reserved_bytes": 1024},
    (10, 3): _limits(64, 32, 228, 227, 256, _HOPPER) | {"sm.shared_reserved_bytes": 1024},
    (12, 0): _limits(48, 24, 100, 99, 128, _GA10X) | {"sm.shared_reserved_bytes": 1024},
}

#: Bytes that an L2 slice reads a clock, by capability, where something other than a published curve says so: 7.0 and
#: 8.0: A100 whitepaper (2,048 and 5,120 bytes a clock over 64 and 80 slices); 7.5 and 8.6: accel-sim, configs
#: SM75_RTX2060 and SM86_RTX3070 (32-byte sub-partitions).
SLICE_BYTES_PER_CLOCK = {(7, 0): 32, (7, 5): 32, (8, 0): 64, (8, 6): 32}
#: Elsewhere: what a slice of GA100 has, and no described GPU of a newer generation reads more than 64 bytes a clock but
#: for Blackwell's.
USUAL_SLICE_BYTES_PER_CLOCK = 64


#: Bytes a clock of the network's port at an SM. Elsewhere as wide as a slice: 8.9: an L40's SMs take in 16.2 bytes a
#: clock each when all read from L2 (RRZE l1_read), an A40's 16.7, a TPC of two SMs 32, though its slices are twice as
#: wide; 12.0 is taken to be as 8.9.
SM_PORT_BYTES_PER_CLOCK = {(8, 9): 32, (12, 0): 32}


def port_width(capability: tuple[int, int]) -> int:
    """Bytes a clock of an SM's port to L2."""
    return SM_PORT_BYTES_PER_CLOCK.get(capability, slice_width(capability))


def slice_width(capability: tuple[int, int]) -> int:
    """Bytes a clock of an L2 slice."""
    return SLICE_BYTES_PER_CLOCK.get(capability, USUAL_SLICE_BYTES_PER_CLOCK)
