"""Cooperative groups of several warps: their barriers and sums lie in shared memory that CUDA reserves from sm_80."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim

SOURCE = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;
template <int TILE>
__global__ void tiles(const int *x, int *out) {
  __shared__ cg::block_tile_memory<256> memory;
  __shared__ int own[256];
  extern __shared__ int more[];
  auto block = cg::this_thread_block(memory);
  auto tile = cg::tiled_partition<TILE>(block);
  int t = block.thread_rank(), i = blockIdx.x * 256 + t;
  own[t] = x[i];
  more[t] = 3 * x[i];
  block.sync();
  int sum = cg::reduce(tile, own[t ^ 1], cg::plus<int>());
  tile.sync();
  out[i] = sum + tile.shfl(more[t], 5) + 1000 * own[t] + more[t ^ 3];
}
"""


@pytest.mark.parametrize(
    ("architecture", "tile"), [("sm_75", 64), ("sm_80", 64), ("sm_80", 128), ("sm_90", 64), ("sm_100", 128)]
)
def test_tiles_of_several_warps_keep_off_the_blocks_own_shared_memory(architecture: str, tile: int) -> None:
    x = np.random.default_rng(1).integers(1, 1000, 512).astype(np.int32)
    out = np.zeros_like(x)
    kernel = gpusim.cuda_cpp(SOURCE, f"tiles<{tile}>")
    gpusim.capture(kernel, 2, 256, (x, out), gpu=architecture, shared_bytes=1024)
    of_tile = x.reshape(-1, tile)
    told = np.repeat(of_tile.sum(axis=1) + 3 * of_tile[:, 5], tile)
    np.testing.assert_array_equal(out, told + 1000 * x + 3 * x[np.arange(512) ^ 3])
