"""Votes, matches and sums of warps whose lanes name different sets: each set is on its own (CUDA C++ Programming Guide,
warp vote functions), in the fast way of the machine code and in the slow one, which generations code differently."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim

SOURCE = """
__global__ void sets(const unsigned *in, unsigned *out) {
  unsigned t = threadIdx.x, odd = in[t] & 1, ballot = __ballot_sync(~0u, odd), set = odd ? ballot : ~ballot;
  out[t] = __ballot_sync(set, 1);
  out[32 + t] = __ballot_sync(set, t & 2);
  out[64 + t] = __any_sync(set, t == 31) + 2 * __all_sync(set, t < 31);
  out[96 + t] = __shfl_sync(set, t, __ffs(set) - 1);
#if __CUDA_ARCH__ >= 800
  out[128 + t] = __reduce_add_sync(set, t);
#endif
  if (t & 4) out[160 + t] = __ballot_sync(set & 0xf0f0f0f0, 1);
}
"""


@pytest.mark.parametrize("gpu", ["sm_75", "sm_80", "sm_90", "sm_120"])
def test_lanes_that_name_different_sets_see_their_own(gpu: str) -> None:
    values = np.random.default_rng(1).integers(0, 1 << 32, 32, dtype=np.uint64).astype(np.uint32)
    out = np.zeros(192, np.uint32)
    gpusim.capture(gpusim.cuda_cpp(SOURCE, "sets"), 1, 32, (values, out), gpu=gpu)
    odd, lanes = values & 1, range(32)
    own = [[other for other in lanes if odd[other] == odd[lane]] for lane in lanes]
    expected = [
        [sum(1 << o for o in each) for each in own],
        [sum(1 << o for o in each if o & 2) for each in own],
        [(31 in each) + 2 * (31 not in each) for each in own],
        [each[0] for each in own],
        [sum(each) * (gpu != "sm_75") for each in own],
        [sum(1 << o for o in own[lane] if o & 4) * (lane & 4 != 0) for lane in lanes],
    ]
    assert (out.reshape(6, 32) == np.array(expected, dtype=np.uint32)).all()
