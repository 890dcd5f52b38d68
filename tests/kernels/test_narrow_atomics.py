"""Atomics on one and two bytes are compiled to loops around a compare-and-swap of the word: also where the array ends
within that word."""

import numpy as np
import pytest

import gpusim

SOURCE = r"""
#include <cuda/atomic>
#include <cuda_fp16.h>
extern "C" __global__ void halves(__half *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(x + i % 5, __float2half(1));
}
extern "C" __global__ void bytes(unsigned char *x, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) cuda::atomic_ref<unsigned char, cuda::thread_scope_device>(x[i % 5]).fetch_add(1);
}
extern "C" __global__ void shared(__half *x, int n) {
  __shared__ __half sums[5];
  if (threadIdx.x < 5) sums[threadIdx.x] = 0;
  __syncthreads();
  for (int i = threadIdx.x; i < n; i += blockDim.x) atomicAdd(sums + i % 5, __float2half(1));
  __syncthreads();
  if (threadIdx.x < 5) x[threadIdx.x] = sums[threadIdx.x];
}
extern "C" __global__ void too_far(int *x) { x[2] += 1; }
"""


@pytest.mark.parametrize(("entry", "dtype"), [("halves", np.float16), ("bytes", np.uint8), ("shared", np.float16)])
@pytest.mark.parametrize("gpu", ["t4", "h200"])
def test_the_last_element_of_an_array_that_ends_within_a_word(entry, dtype, gpu):
    beyond = np.arange(8).astype(dtype)
    x = beyond[:5]  # what lies behind it in the host's memory is another's
    x[:] = 0
    trace = gpusim.capture(
        gpusim.cuda_cpp(SOURCE, entry), 1, 64, (x, np.int32(64)), gpu=gpu, check=["memory", "race", "sync"]
    )
    np.testing.assert_array_equal(x.astype(int), [13, 13, 13, 13, 12])
    np.testing.assert_array_equal(beyond[5:].astype(int), [5, 6, 7])
    assert not trace.findings


def test_an_ordinary_access_beyond_the_end_is_one_even_within_the_word():
    x = np.zeros(5, np.float16)
    with pytest.raises(gpusim.AddressError, match=r"8 bytes into argument 0 \(float16\[5\]\)"):
        gpusim.capture(gpusim.cuda_cpp(SOURCE, "too_far"), 1, 1, (x,))
