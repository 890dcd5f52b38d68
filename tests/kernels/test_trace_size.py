"""Does a trace of a regular kernel take at most one byte a warp instruction, as a file?"""

from __future__ import annotations

import pytest

pytest.importorskip("numba.cuda", reason="needs the CUDA wheels")

from gpusim.cases.suite import capture_case, make_case
from gpusim.gpus.load import load_gpu

#: Kernels whose lanes and warps go alike, at shapes of over a hundred thousand warp instructions: programs and headers
#: count.
REGULAR = {
    "saxpy": {"n": 2**18},
    "stream_triad": {"block_threads": 256, "blocks_per_sm": 1},
    "transpose": {},
    "matmul_tiled": {"m": 128, "n": 128, "k": 128},
    "softmax": {},
}


@pytest.mark.parametrize("name", REGULAR)
def test_a_regular_kernel_takes_at_most_a_byte_a_warp_instruction(name, tmp_path):
    gpu = load_gpu("h200")
    launches = capture_case(make_case(name, REGULAR[name], gpu), gpu, folder=tmp_path)
    instructions = sum(launch.trace.warp_instructions for launch in launches)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert instructions > 50_000 and size <= instructions, f"{size} bytes for {instructions} warp instructions"
