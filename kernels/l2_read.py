"""L2 and DRAM read bandwidth as the footprint grows: every block sums products of pairs.

The published curve's kernel (RRZE-HPC/gpu-benches, gpu-l2-cache): each block reads
``bytes_per_block_kib`` of doubles, and ``footprint_kib / bytes_per_block_kib`` blocks in a row read
different data before the next block starts again at the first. Data is laid out round by round:
in round r these blocks read neighbouring stretches of two doubles a thread.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, require_block, require_positive

NEVER = -1.0e300  # a sum that no data gives


@functools.cache
def _kernel(rounds: int, block_threads: int):
    """The kernel with its loop bound and stretch as constants, so that the compiler unrolls it."""
    stretch = np.uint64(2 * block_threads)
    half = np.uint64(block_threads)

    @cuda.jit
    def sum_pairs(values, sums, different_blocks, never):
        part = np.uint64(cuda.blockIdx.x % different_blocks)
        i = part * stretch + np.uint64(cuda.threadIdx.x)
        step = np.uint64(different_blocks) * stretch
        total = 0.0
        for _ in range(rounds):
            total += values[i] * values[i + half]
            i += step
        if total == never:
            sums[cuda.threadIdx.x] = total

    return sum_pairs


def make(*, footprint_kib: int, bytes_per_block_kib: int, blocks: int, block_threads: int, seed: int = 0) -> Case:
    """``footprint_kib`` must be a multiple of ``bytes_per_block_kib``, and that of one round's
    16 bytes a thread. As in the original the timed launch stores nothing, its sums equal no sentinel;
    an untimed block before it looks for one sum that does occur, which shows that they are right."""
    require_block(block_threads)
    require_positive(footprint_kib=footprint_kib, bytes_per_block_kib=bytes_per_block_kib, blocks=blocks)
    if footprint_kib % bytes_per_block_kib:
        raise ValueError(
            f"footprint_kib ({footprint_kib}) must be a multiple of bytes_per_block_kib ({bytes_per_block_kib})"
        )
    round_bytes = 16 * block_threads
    if bytes_per_block_kib * 1024 % round_bytes:
        raise ValueError(f"bytes_per_block_kib ({bytes_per_block_kib}) must be whole rounds of {round_bytes} bytes")
    different_blocks = footprint_kib // bytes_per_block_kib
    kernel = _kernel(bytes_per_block_kib * 1024 // round_bytes, block_threads)
    # Small whole numbers: sums are exact in any order.
    values = np.random.default_rng(seed).integers(0, 1000, footprint_kib * 128).astype(np.float64)
    sums, probed = np.zeros(block_threads), np.zeros(block_threads)
    pairs = values.reshape(-1, different_blocks, 2, block_threads)[:, 0]  # those of block 0
    block_sums = (pairs[:, 0] * pairs[:, 1]).sum(axis=0)
    wanted = block_sums[block_threads // 2]

    def check() -> None:
        np.testing.assert_array_equal(probed, np.where(block_sums == wanted, wanted, 0))
        np.testing.assert_array_equal(sums, np.zeros(block_threads))

    def launch(blocks: int, target: np.ndarray, sentinel: float, timed: bool) -> Launch:
        args = (values, target, np.int32(different_blocks), sentinel)
        return Launch(kernel, (blocks,), (block_threads,), args, timed=timed)

    elements = float(blocks * bytes_per_block_kib * 128)
    return Case(
        launches=(launch(1, probed, wanted, False), launch(blocks, sums, NEVER, True)),
        check=check,
        work={"bytes_read": 8.0 * elements, "loads": elements, "flops": elements},
    )


KERNELS = {
    "l2_read": Kernel(
        name="l2_read",
        purpose="read bandwidth as the footprint walks out of L1, near L2, L2 into DRAM",
        axes={
            "footprint_kib": (512, 2048, 8192, 16384, 24576, 32768, 49152, 65536, 131072),
            "bytes_per_block_kib": (512,),
            "blocks": (264, 1056, 4224, 200_000),
            "block_threads": (1024,),
        },
        default={
            "footprint_kib": 8192,
            "bytes_per_block_kib": 512,
            "blocks": 528,
            "block_threads": 1024,
        },
        small={"footprint_kib": 24, "bytes_per_block_kib": 8, "blocks": 7, "block_threads": 128},
        make=make,
    )
}
