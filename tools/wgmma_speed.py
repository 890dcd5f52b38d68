"""How fast products of a warp group (wgmma) are emulated, in GFLOP a CPU second, by format and columns.

Mental model: a block of one or two warp groups repeats one product; CPU seconds of many repetitions, less those of few,
over the operations of the difference. A multiply-add counts as two.

    python tools/wgmma_speed.py               all
    python tools/wgmma_speed.py bf16          those whose name contains bf16
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click
import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import gpusim

#: Name: (types, depth, options, element type of NumPy).
FORMATS = {
    "f16": ("f32.f16.f16", 16, ", 1, 1, 0, 0", np.float16),
    "bf16": ("f32.bf16.bf16", 16, ", 1, 1, 0, 0", np.float32),
    "tf32": ("f32.tf32.tf32", 8, ", 1, 1", np.float32),
    "e4m3": ("f32.e4m3.e4m3", 32, ", 1, 1", np.uint8),
    "s8": ("s32.s8.s8", 32, "", np.int8),
}
COLUMNS = (8, 64, 128, 256)
TILE_BYTES = 40960
_SOURCE = r"""
extern "C" __global__ void repeat(const uint4 *from, REGISTER *out, int times)
{
    extern __shared__ __align__(1024) uint4 tiles[];
    for (int i = threadIdx.x; i < TILE_BYTES / 16; i += blockDim.x) tiles[i] = from[i];
    __syncthreads();
    unsigned long long start = __cvta_generic_to_shared(tiles) >> 4 | 1ull << 62 | 64ull << 32;
    REGISTER d[COUNT];
    for (int i = 0; i < COUNT; i++) d[i] = 0;
    for (int i = 0; i < times; i++) {
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
        for (int k = 0; k < 4; k++)
            asm volatile("wgmma.mma_async.sync.aligned.m64nCOLUMNSkDEPTH.TYPES {LIST}, %A_AT, %B_AT, 1OPTIONS;"
                         : BOUND : "l"(start + 2 * k), "l"(start + 512 + 2 * k));
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
    }
    for (int i = 0; i < COUNT; i++) out[i * blockDim.x + threadIdx.x] = d[i];
}
"""


def source(name: str, columns: int) -> str:
    """CUDA C++ of the kernel for one format and number of columns."""
    types, depth, options, _ = FORMATS[name]
    count, letter = columns // 2, "r" if types.startswith("s") else "f"
    texts = {
        "LIST": ",".join(f"%{i}" for i in range(count)), "BOUND": ",".join(f'"+{letter}"(d[{i}])' for i in range(count)),
        "A_AT": str(count), "B_AT": str(count + 1), "COUNT": str(count), "COLUMNS": str(columns), "DEPTH": str(depth),
        "TYPES": types, "OPTIONS": options, "REGISTER": "int" if letter == "r" else "float", "TILE_BYTES": str(TILE_BYTES),
    }  # fmt: skip
    text = _SOURCE
    for word, replacement in texts.items():
        text = text.replace(word, replacement)
    return text


def operands(name: str) -> np.ndarray:
    """Numbers as matrices have them, as bytes of shared memory."""
    rng = np.random.default_rng(0)
    kind = FORMATS[name][3]
    if name == "bf16":
        return (
            (rng.normal(size=TILE_BYTES // 2).astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
        )
    if kind in (np.uint8, np.int8):
        return rng.integers(0, 0x60, TILE_BYTES).astype(np.uint8)
    return rng.normal(size=TILE_BYTES // np.dtype(kind).itemsize).astype(kind).view(np.uint8)


def cpu_seconds(kernel: object, tiles: np.ndarray, out: np.ndarray, groups: int, times: int) -> float:
    """CPU seconds of a capture."""
    started = time.process_time()
    gpusim.capture(kernel, 1, 128 * groups, (tiles, out, times), gpu="h200", shared_bytes=TILE_BYTES)
    return time.process_time() - started


@click.command(help=(__doc__ or "").splitlines()[0])
@click.argument("word", default="")
def main(word: str) -> None:
    for name, (_, depth, _, _) in FORMATS.items():
        for columns in COLUMNS if word in name else ():
            kernel = gpusim.cuda_cpp(source(name, columns), "repeat")
            tiles, out = operands(name), np.zeros(128 * 256, np.float32)
            for groups in (1, 2):
                few, many = 8, 8 + max(64, (1 << 17) // columns // groups)
                cpu_seconds(kernel, tiles, out, groups, few)  # compiled by then
                spent = cpu_seconds(kernel, tiles, out, groups, many) - cpu_seconds(kernel, tiles, out, groups, few)
                operations = 2 * 64 * columns * depth * 4 * (many - few) * groups
                print(
                    f"{name:5} m64n{columns}k{depth}, {groups} warp groups: {operations / spent / 1e9:6.2f} GFLOP a CPU second",
                    flush=True,
                )


if __name__ == "__main__":
    main()
