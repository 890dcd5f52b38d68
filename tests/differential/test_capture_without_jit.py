"""Compiled and interpreted, the emulator must give the same bytes: results, paths, accesses, coded chunks."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys

import numpy as np
import pytest
from numba import cuda, float32, int32

from gpusim.capturing import capture
from gpusim.trace.coding import decode_chunk, encode_chunk


@cuda.jit
def mixture(values, counts, out):
    room = cuda.shared.array(64, float32)
    local = cuda.local.array(4, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    room[t] = values[i] * float32(1.5)
    for k in range(4):
        local[(k + t) % 4] = k * t
    cuda.syncthreads()
    total = room[63 - t]
    for k in range(t % 5):
        total += room[(t + k) % 64] / (float32(1) + values[i])
    total += cuda.shfl_down_sync(0xFFFFFFFF, total, 3)
    cuda.atomic.add(counts, t % 3, local[t % 4])
    out[i] = total + cuda.syncthreads_count(int32(values[i] > float32(0.5)))


def digest(gpu: str) -> str:
    """A hash of everything that a capture of ``mixture`` leaves behind."""
    values = np.random.default_rng(3).random(128).astype(np.float32)
    counts, out = np.zeros(3, np.int32), np.zeros(128, np.float32)
    trace = capture(mixture, 2, 64, (values, counts, out), gpu=gpu)
    seal = hashlib.sha256(out.tobytes() + counts.tobytes())
    for chunk in trace.chunk_list:
        for array in (chunk.warps, chunk.runs, chunk.path_start, chunk.accesses, chunk.scattered):
            seal.update(np.ascontiguousarray(array).tobytes())
        payload = encode_chunk(chunk, trace.program)
        seal.update(payload)
        seal.update(encode_chunk(decode_chunk(payload, trace.program), trace.program))
    return seal.hexdigest()


@pytest.mark.by_day(1)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90"])
def test_the_interpreter_gives_the_same_with_and_without_its_compiler(gpu: str) -> None:
    done = subprocess.run(
        [sys.executable, __file__, gpu],
        env={**os.environ, "NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == digest(gpu)


if __name__ == "__main__":
    print(digest(sys.argv[1]))
