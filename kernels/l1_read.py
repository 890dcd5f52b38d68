"""L1 and L2 read bandwidth of one block an SM: every block sums products over the same footprint.

The published curve's kernel (RRZE-HPC/gpu-benches, gpu-cache): a block of 512 threads (fewer, where its
halves are not whole rounds of so many) walks two halves of ``footprint_kib`` of floats together, lap after
lap, and all blocks walk the same data. After each lap the sum is multiplied by a number. So the footprint leaves
L1 at its size, and beyond that all SMs ask L2 for the same lines at about the same time.
"""

from __future__ import annotations

import functools

import numpy as np
from numba import cuda

from .case import Case, Kernel, Launch, require_block, require_positive

#: Products that are unrolled within a lap, and in laps so short that several are unrolled together. The
#: original unrolls up to 63 and 32; from 32 on Numba's compiler keeps the loop, with a larger body.
LAP_ROUNDS, SHORT_LAPS_ROUNDS = 16, 32
#: Blocks of the launch that reads everything once.
FIRST_BLOCKS = 2


@functools.cache
def _kernel(rounds: int, block_threads: int):
    """The kernel with a lap's rounds as a constant, so that the compiler unrolls it."""
    unrolled = min(rounds, LAP_ROUNDS)
    turns, rest = divmod(rounds, unrolled)
    laps_unrolled = max(1, SHORT_LAPS_ROUNDS // rounds)

    # Without a bound sm_120's compiler takes 130 registers, more than an SM has for 512 threads.
    bound = {"launch_bounds": block_threads} if block_threads > 256 else {}

    @cuda.jit(**bound)
    def sum_products(values, half, laps, zero, one, apart, sums):
        first = np.uint64(cuda.blockIdx.x * apart + cuda.threadIdx.x % half)
        other = np.uint64(half)
        step = np.uint64(zero)  # unknown to be zero: each lap loads again
        total = np.float32(0)
        i = first
        for _ in range(laps // laps_unrolled):
            for _ in range(laps_unrolled):
                j = i
                for _ in range(turns):
                    for k in range(unrolled):
                        at = j + np.uint64(k * block_threads)
                        total += values[at] * values[at + other]
                    j += np.uint64(unrolled * block_threads)
                for k in range(rest):
                    at = j + np.uint64(k * block_threads)
                    total += values[at] * values[at + other]
                total *= one
                i += step
        for _ in range(laps % laps_unrolled):
            for k in range(rounds):
                at = i + np.uint64(k * block_threads)
                total += values[at] * values[at + other]
            total *= one
            i += step
        sums[cuda.grid(1)] = total

    return sum_products


@functools.cache
def _sum_kernel(rounds: int, block_threads: int, dtype: str):
    """The published program before 2025: a plain sum, with a lap's rounds as a constant."""
    unrolled = min(rounds, SHORT_LAPS_ROUNDS)
    turns, rest = divmod(rounds, unrolled)
    laps_unrolled = max(1, SHORT_LAPS_ROUNDS // rounds)
    nothing = np.dtype(dtype).type(0)

    @cuda.jit
    def sum_values(values, count, laps, zero, one, apart, sums):
        step = np.uint64(zero)  # unknown to be zero: each lap loads again
        total = nothing
        i = np.uint64(cuda.blockIdx.x * apart + cuda.threadIdx.x % count)
        for _ in range(laps // laps_unrolled):
            for _ in range(laps_unrolled):
                j = i
                for _ in range(turns):
                    for k in range(unrolled):
                        total += values[j + np.uint64(k * block_threads)]
                    j += np.uint64(unrolled * block_threads)
                for k in range(rest):
                    total += values[j + np.uint64(k * block_threads)]
                total *= one
                i += step
        for _ in range(laps % laps_unrolled):
            for k in range(rounds):
                total += values[i + np.uint64(k * block_threads)]
            total *= one
            i += step
        sums[cuda.grid(1)] = total

    return sum_values


def make(
    *,
    footprint_kib: float,
    window_kib: float,
    laps: int,
    blocks: int,
    block_threads: int,
    rounds_apart: int,
    operands: int,
    dtype: str,
    seed: int = 0,
) -> Case:
    """``window_kib`` of the footprint is read in each lap (0: all of it), from its beginning by block 0, by
    each other one from ``rounds_apart`` rounds after where the block before it begins. A first, untimed launch of
    two blocks, which are at home in different halves of L2, reads all of it once. Both must be whole rounds of the
    block, ``operands`` values a thread, except that a footprint smaller than a round is read by several warps at
    once. ``operands`` = 2: products of two values, from the two halves of the footprint; 1: a plain sum, as in the
    published program before 2025, with ``dtype`` float32 or float64."""
    require_block(block_threads, multiple=32)
    require_positive(laps=laps, blocks=blocks)
    if (operands, dtype) not in ((2, "float32"), (1, "float32"), (1, "float64")):
        raise ValueError(
            f"operands and dtype must be 2 and float32, or 1 and float32 or float64, not {operands} and {dtype}"
        )
    window_kib = window_kib or footprint_kib
    if not 0 < window_kib <= footprint_kib:
        raise ValueError(f"window_kib must lie in the footprint of {footprint_kib} KiB, not {window_kib}")
    value_bytes = np.dtype(dtype).itemsize
    per_kib = 1024 // (operands * value_bytes)  # loads of each operand
    count = int(footprint_kib * per_kib)
    if count < 32 or count % 32 or count != footprint_kib * per_kib:
        raise ValueError(f"footprint_kib must be a multiple of {32 / per_kib:g}, not {footprint_kib}")
    rounds = {}
    for name, kib in (("footprint_kib", footprint_kib), ("window_kib", window_kib)):
        rounds[name], rest = divmod(int(kib * per_kib), block_threads)
        if rest and count >= block_threads:
            raise ValueError(f"{name} ({kib}) must be whole rounds of {operands * value_bytes * block_threads} bytes")
        rounds[name] = max(1, rounds[name])
    apart = rounds_apart * block_threads
    if rounds_apart < 0 or (blocks - 1) * rounds_apart + rounds["window_kib"] > max(rounds["footprint_kib"], 1):
        raise ValueError(
            f"{blocks} blocks that begin {rounds_apart} rounds apart leave the footprint of "
            f"{rounds['footprint_kib']} rounds"
        )
    # Zeros and ones: sums stay exact in any order.
    values = np.random.default_rng(seed).integers(0, 2, operands * count).astype(dtype)
    terms = np.resize(values.reshape(operands, count).prod(axis=0), (max(count, block_threads),))
    plan = {"footprint_kib": (FIRST_BLOCKS, 1, 0), "window_kib": (blocks, laps, apart)}
    arrays = {name: np.zeros(grid * block_threads, dtype) for name, (grid, _, _) in plan.items()}

    def launch(name: str, timed: bool) -> Launch:
        blocks, laps, apart = plan[name]
        one = np.dtype(dtype).type(1)
        args = (values, np.int32(count), np.int32(laps), np.int32(0), one, np.int32(apart), arrays[name])
        if operands == 2:
            kernel = _kernel(rounds[name], block_threads)
        else:
            kernel = _sum_kernel(rounds[name], block_threads, dtype)
        return Launch(kernel, (blocks,), (block_threads,), args, timed=timed)

    def check() -> None:
        for name, (blocks, laps, apart) in plan.items():
            for block in range(blocks):
                read = terms[block * apart :][: rounds[name] * block_threads].reshape(-1, block_threads)
                sums = arrays[name][block * block_threads :][:block_threads]
                np.testing.assert_array_equal(sums, laps * read.sum(axis=0))

    loads = float(operands) * rounds["window_kib"] * laps * blocks * block_threads
    return Case(
        launches=(launch("footprint_kib", False), launch("window_kib", True)),
        check=check,
        work={"bytes_read": value_bytes * loads, "loads": loads, "flops": loads},
    )


KERNELS = {
    "l1_read": Kernel(
        name="l1_read",
        purpose="read bandwidth of one block an SM as the footprint, the same for all, walks out of L1",
        axes={
            "footprint_kib": (1, 4, 16, 64, 128, 172, 204, 280, 1152, 8872, 36456),
            "window_kib": (0, 512),
            "laps": (1, 2, 8),
            "blocks": (1, 108, 132),
            "block_threads": (256, 512, 1024),
            "rounds_apart": (0, 1),
            "operands": (1, 2),
            "dtype": ("float32",),
        },
        default={
            "footprint_kib": 64, "window_kib": 0, "laps": 4, "blocks": 132, "block_threads": 512, "rounds_apart": 0,
            "operands": 2, "dtype": "float32",
        },
        small={
            "footprint_kib": 8, "window_kib": 4, "laps": 3, "blocks": 2, "block_threads": 128, "rounds_apart": 1,
            "operands": 2, "dtype": "float32",
        },
        make=make,
    )
}  # fmt: skip
