"""Chases of one thread by loads, and by bulk copies of 16 bytes, through buffers that L1, L2 or DRAM hold: cycles a hop
on A100, H800 and RTX 4090.

Mental model: a random cycle over 128-byte lines. A buffer that L2 holds is walked once, and what further hops take is
measured; of one that nothing holds as many lines are walked as there are hops, from cold caches. So beyond L2 the pages
that a TLB has lost in a long walk are not here.

Measured: HPMLL/NVIDIA-Hopper-Benchmark, commit ded6f57 (random cycle, best of 7 after a warm-up), 20 of its 771
footprints: each level.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from asynchronous.rounds import Row, per_round

import gpusim

FOLDER = Path(__file__).parent
GPUS = {"A100 PCIe": "a100_pcie_40gb", "H800 PCIe": "h100_pcie", "RTX 4090": "rtx4090"}
_HOPS, _LINE_WORDS, _LINKING_THREADS = 384, 16, 256
#: Lines of a buffer that no L2 here holds, and lines that stand for it: from cold caches those that are walked decide.
_BEYOND_L2, _COLD_LINES = 1 << 20, 1 << 16


def chase_rows(every: int) -> Iterator[Row]:
    """Every ``every``-th row: cycles a hop."""
    with open(FOLDER / "chase.csv", newline="") as file:
        measured = list(csv.DictReader(file))[::every]
    for row in measured:
        cycles = hop_cycles(GPUS[row["gpu"]], row["how"] == "TMA", 8 * int(row["footprint_kib"]))
        yield f"{row['gpu']}, {row['how']}, {row['footprint_kib']} KiB", float(row["cycles"]), cycles


def hop_cycles(gpu: str, copies: bool, lines: int) -> float:
    """Simulated cycles a hop through a buffer of ``lines`` lines of 128 bytes, by bulk copies or by loads."""
    cold = lines > _BEYOND_L2
    first, lines = (0, _COLD_LINES) if cold else (lines, lines)
    order = np.random.default_rng(1).permutation(lines)
    chain = np.zeros(lines * _LINE_WORDS, np.uint64)
    chain[order * _LINE_WORDS] = np.roll(order, -1) * _LINE_WORDS
    linked = not cold and not copies
    if copies:
        kernel = gpusim.cuda_cpp(FOLDER / "bulk_copies.cu", "chase_bulk")
    else:
        kernel = gpusim.cuda_cpp(FOLDER / "cached_chase.cu", "chase_cached", [f"-DLINKED={int(linked)}"])

    def cycles(hops: int) -> int:
        args = (chain.copy(), np.zeros(1, np.uint64), np.int32(hops), np.uint64(order[0] * _LINE_WORDS))
        if not copies:
            args = (*args, np.int32(lines))
        trace = gpusim.capture(kernel, 1, _LINKING_THREADS if linked else 1, args, gpu=gpu)
        return gpusim.simulate(trace, gpu).cycles

    return per_round(cycles, (first + _HOPS // 4, first + _HOPS + _HOPS // 4))
