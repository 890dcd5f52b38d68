"""Functions of CUDA's DPX on H800, A100 and RTX 4090: cycles a call of a chain of one thread, calls a cycle and SM of
1,024 threads.

Mental model: what these functions take is what the compiler makes of them. That of CUDA 12.0 (the measurements are of
2023) makes an IMAD.IADD and a VIMNMX of `__viaddmax_s32` on sm_90, today's one VIADDMNMX: 10 cycles or 4. So the table
is compiled by it where its package is installed. On sm_80 and sm_89 functions are emulated by several instructions.

Measured: HPMLL/NVIDIA-Hopper-Benchmark, commit ded6f57. Its rates of a whole GPU are not here: they are of a clock that
was not read. Where its compiler removed work (`suspect` there) a function is left out.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from asynchronous.rounds import Row, per_round
from validation.own_compiler import cubin_of

import gpusim
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec

FOLDER = Path(__file__).parent
COMPILER = "nvidia-cuda-nvrtc-cu12==12.0.140"
#: Which description stands for a GPU that was measured.
GPUS = {"H800": "h100_pcie", "A100": "a100_pcie_40gb", "RTX 4090": "rtx4090"}
_THREADS = 1024
_ROUNDS = (256, 1024)


def programming_rows(every: int, own_compiler: bool = True) -> Iterator[Row]:
    """Every ``every``-th function of each GPU: cycles a call, and calls a cycle."""
    with open(FOLDER / "dynamic_programming.csv", newline="") as file:
        measured = list(csv.DictReader(file))[::every]
    for row in measured:
        spec = replace(load_gpu(GPUS[row["gpu"]]), sm_count=1)
        chain = _round_cycles(row["function"], "chain", 1, spec, own_compiler)
        beside = _round_cycles(row["function"], "side_by_side", _THREADS, spec, own_compiler)
        name = f"{row['function']}, {row['gpu']}"
        if row["latency_cycles"]:
            yield f"{name}, cycles a call", float(row["latency_cycles"]), chain
        if row["calls_per_cycle"]:
            yield f"{name}, calls a cycle and SM", float(row["calls_per_cycle"]), 4 * _THREADS / beside


def _round_cycles(function: str, entry: str, threads: int, spec: GpuSpec, own_compiler: bool) -> float:
    """Cycles a round of the kernel ``entry``."""
    halves = "16x2" in function
    arguments = 5 if function.startswith("__vib") and halves else 4 if function.startswith("__vib") else 3
    arguments = 2 if function.startswith("__vimax_") else arguments
    kind = np.uint32 if halves or "_u32" in function else np.int32
    fixed = [
        f"-DFUNCTION={function}",
        f"-DARGUMENTS={arguments}",
        f"-DTYPE={'int' if kind is np.int32 else 'unsigned'}",
    ]
    source, (major, minor) = FOLDER / "dynamic_programming.cu", spec.capability
    values = np.arange(2 * threads).astype(kind)

    def cycles(rounds: int) -> int:
        options = [*fixed, f"-DROUNDS={rounds}"]
        if own_compiler:
            kernel = gpusim.cubin(*cubin_of(COMPILER, source, entry, tuple(options), f"sm_{major}{minor}"))
        else:
            kernel = gpusim.cuda_cpp(source, entry, options)
        trace = gpusim.capture(kernel, 1, threads, (values, np.empty(threads, kind)), gpu=spec.name)
        return gpusim.simulate(trace, spec).cycles

    return per_round(cycles, _ROUNDS)
