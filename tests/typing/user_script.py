"""What a user writes, typed: pyright must find nothing here, and see each name as what it is (``assert_type``).

``tests/test_typing.py`` checks it; nothing runs it.
"""

from __future__ import annotations

from pathlib import Path
from typing import assert_type

import numpy as np
from numba import cuda

import gpusim


@cuda.jit
def saxpy(a, x, y):
    i = cuda.grid(1)  # pyright: ignore[reportCallIssue] - numba-cuda's own stub wants another argument
    if i < x.size:
        y[i] = a * x[i] + y[i]


def told(kernel: str, done: int, blocks: int, warp_instructions: int) -> None:
    print(f"{kernel}: {done} of {blocks} blocks, {warp_instructions} warp instructions")


def main(folder: Path) -> float:
    x, y = np.ones(100_000, np.float32), np.ones(100_000, np.float32)
    try:
        trace = gpusim.capture(saxpy, 391, (256, 1, 1), (np.float32(2), x, y), gpu="h200", progress=told)
    except (gpusim.CompileError, gpusim.UnsupportedOpcodeError) as error:
        raise SystemExit(error.exit_code) from error
    assert_type(trace, gpusim.Trace)
    assert_type(trace.warp_instructions, int)
    trace.save(folder / "saxpy.trace")
    again = gpusim.Trace.load(folder / "saxpy.trace")
    assert_type(again.launch.grid, tuple[int, int, int])

    result = gpusim.simulate([trace, again], gpu=gpusim.load_gpu("h200"), threads=1)
    assert_type(result, gpusim.Result)
    assert_type(result.cycles, int)
    assert_type(result.counters["smsp__inst_executed.sum"], float)
    assert_type(result.launches[0].stalls, dict[str, int])
    assert_type(gpusim.list_gpus(), list[str])
    assert_type(gpusim.bench(lambda: (saxpy, 391, 256, (np.float32(2), x, y)), gpu="h200"), float)

    explanation = gpusim.explain([trace, again], result.spec, result)
    assert_type(explanation.sentence, str)
    print(explanation.sentence, {finding.unit: finding.saved_percent for finding in explanation.findings})
    return result.time_us


memory = gpusim.DeviceMemory()
gpusim.capture(saxpy, 1, 32, (np.float32(2), np.ones(32), np.ones(32)), memory=memory, check=["memory", "race"])
