"""Kernels that others timed and that an SM's own pipes bound, as launches: shared memory read in patterns, and random
numbers by 64-bit multiplication.

Mental model: memory hardly counts. A round of the reads is as long as the next one, so that few of them say what all
take (``depth``); a number further on in a sequence takes more turns of a loop to reach, so that a part of the launch is
blocks from all over it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np

from .launches import HERE, CudaKernel, Row, Timed

#: Of the reads: threads of a block, blocks (of 128 x 80 x 16 threads in all), rounds of a launch, and parts that a
#: round counts as, of which a run to some depth has its number.
_READERS, _READER_BLOCKS, _ROUNDS, _PARTS = 128, 1280, 1000, 32
#: Rounds that a run has at least: four, as the compiler may join so many.
_LEAST_ROUNDS = 4
#: How a pattern's lanes begin: so many read one word; so many lie in different rows of one bank.
_PATTERNS = {
    "each_its_own": (1, 1),
    **{f"together_{lanes}": (lanes, 1) for lanes in (2, 4, 8, 16, 32)},
    **{f"conflict_{ways}": (1, ways) for ways in (2, 4, 8, 16)},
}
#: Of the numbers: threads of a block, and what a place is multiplied by so that a part of the blocks lies all over the
#: launch (2^32 by the golden ratio, odd).
_DRAWERS, _ALL_OVER = 256, 0x9E3779B1
#: Where the sequence begins and what it adds, whatever they are; the numbers' least one and their range.
_SEED, _ADDEND, _FROM, _WIDTH = 3141592654, 1442695040888963407, 10, 90


def shared_reads(row: Row, checkout: Path | None = None) -> Timed:
    """Reads of ``word`` (float, float2, float4) in the ``pattern`` of a block's lanes."""
    together, apart = _PATTERNS[str(row["pattern"])]
    made = CudaKernel(HERE / "shared_reads.cu", f"shared_reads<{row['word']}, {together}, {apart}>")

    def arguments(depth: int | None) -> tuple:
        rounds = _ROUNDS if depth is None else depth // _PARTS
        return np.zeros(_READERS * _READER_BLOCKS, np.float32), np.int32(rounds)

    return Timed(
        made, (_READER_BLOCKS, 1), (_READERS,), arguments, (made.source,), cut_axis=0, depth=_ROUNDS * _PARTS,
        depth_step=_LEAST_ROUNDS * _PARTS, sms_alike=True,
    )  # fmt: skip


def random_numbers(row: Row, checkout: Path | None = None) -> Timed:
    """``count`` (a power of two) uniform numbers of ``dtype``, each by a jump of its own."""
    name, kind = {"float": ("float", np.float32), "double": ("double", np.float64)}[str(row["dtype"])]
    count = int(row["count"])
    made = CudaKernel(HERE / "jumped.cu", f"jumped<{name}>")
    blocks = count // _DRAWERS + 1

    def arguments(depth: int | None) -> tuple:
        part = depth is not None and depth < count
        apart, among = (_ALL_OVER, count // _DRAWERS - 1) if part else (1, 2**32 - 1)
        return (
            np.zeros(count, kind), np.uint64(count), kind(_FROM), kind(_WIDTH), np.uint64(_ADDEND), np.uint64(_SEED),
            np.uint32(apart), np.uint32(among),
        )  # fmt: skip

    return Timed(
        made, (blocks,), (_DRAWERS,), arguments, (made.source,), depth=count, depth_step=_DRAWERS,
        grid_of=lambda depth: (depth // _DRAWERS,), depends_on_data=True,
    )  # fmt: skip


INSTRUCTION_FAMILIES: Mapping[str, Callable[[Row, Path | None], Timed]] = {
    "shared_reads": shared_reads,
    "random_numbers": random_numbers,
}
