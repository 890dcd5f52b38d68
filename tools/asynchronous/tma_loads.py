"""Loads by the tensor memory accelerator of an H800 by what they move: plain bulk copies and boxes of tensors of one to
three dimensions.

Mental model: each block keeps one load in flight; a load takes what a longer launch takes more, over its loads. As on
silicon the boxes of a tensor of 32768 x 32768 or 1024 x 1024 x 1024 floats are loaded in order, here only as many of
them as the launches take.

Measured: HPMLL/NVIDIA-Hopper-Benchmark, commit ded6f57, an H800 PCIe (114 SMs, 1,755 MHz, HBM2e), which is
``h100_pcie`` here; 4 GiB in one launch. Its loads of 768 bytes and of more than 1 KiB through a map of one dimension
are left out: their times do not belong to these sizes (768 bytes would take 685 cycles, 512 and 1,024 took 877 and
918), and CUDA encodes no box of more than 256 elements.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from math import ceil, prod
from pathlib import Path

import numpy as np
from asynchronous.rounds import Row, cycles_a_round

import gpusim
from gpusim.gpus.load import load_gpu

FOLDER = Path(__file__).parent
GPU, SMS = "h100_pcie", 114
_LOADS = (6, 18)
#: Floats of a tensor along all dimensions but the last, by their number.
_EXTENTS = {1: (), 2: (32768,), 3: (1024, 1024)}
#: A tensor that would take more than this is not made.
_MOST_BYTES = 1 << 28


def load_rows(every: int) -> Iterator[Row]:
    """Every ``every``-th row: cycles a load."""
    with open(FOLDER / "tma_loads.csv", newline="") as file:
        measured = list(csv.DictReader(file))[::every]
    for row in measured:
        rank, blocks_per_sm, *box = (int(row[name]) for name in ("rank", "blocks_per_sm", "x", "y", "z"))
        cycles = load_cycles(rank, blocks_per_sm, box)
        if cycles is not None:
            what = f"{4 * prod(box)} bytes" if rank < 2 else " x ".join(map(str, box[:rank]))
            yield f"{'map' if rank else 'no map'}, {what}, {blocks_per_sm} an SM", float(row["load_cycles"]), cycles


def load_cycles(rank: int, blocks_per_sm: int, box: list[int]) -> float | None:
    """Simulated cycles a load; None where the tensor would take too much room."""
    blocks = SMS * blocks_per_sm
    extents = _EXTENTS[max(1, rank)]
    boxes = [extent // side for extent, side in zip(extents, box, strict=False)]
    last = ceil(blocks * _LOADS[-1] / prod(boxes)) * box[len(extents)]
    shape = (last, *reversed(extents))
    if 4 * prod(shape) > _MOST_BYTES:
        return None
    tensor = np.zeros(shape, np.float32)
    options = [f"-DRANK={rank}", *(f"-D{name}={side}" for name, side in zip("XYZ", box, strict=True))]
    kernel = gpusim.cuda_cpp(FOLDER / "tma_loads.cu", "load_boxes", options)
    rank_box = tuple(reversed(box[: tensor.ndim])) if rank else (4,)
    tensor_map = gpusim.TensorMap(tensor, rank_box)
    across, along = (*boxes, 1 << 30, 1 << 30)[:2]

    def args(loads: int) -> tuple:
        return (tensor_map, tensor, np.zeros(blocks, np.float32), np.int32(loads), np.int32(across), np.int32(along))

    return cycles_a_round(kernel, blocks, 1, _LOADS, load_gpu(GPU), args, gpu=GPU, shared_bytes=4 * prod(box))
