"""Lanes of one warp that reduce over sets of their own at one instruction (``__reduce_add_sync`` with each set's
mask)."""

from __future__ import annotations

import numpy as np
import pytest

import gpusim

pytestmark = pytest.mark.usefixtures("without_source_lines")

SOURCE = """
extern "C" __global__ void sets(const int *key, const unsigned *value, unsigned *sums, int *most, unsigned *bits) {
  int i = threadIdx.x;
  unsigned mine = __match_any_sync(0xffffffff, key[i]);
  sums[i] = __reduce_add_sync(mine, value[i]);
  most[i] = __reduce_max_sync(mine, (int)value[i]);
  bits[i] = __reduce_xor_sync(mine, value[i]);
}
extern "C" __global__ void apart(const int *key, const unsigned *value, unsigned *sums) {
  int i = threadIdx.x;
  unsigned mine = __match_any_sync(0xffffffff, key[i]), own = value[i];
  if (i % 3 == 0) own = own * own + 1;  // lanes of one set come in two parts
  else if (i % 3 == 1) for (int j = 0; j < i; ++j) own = own * 5 + 3;
  sums[i] = __reduce_add_sync(mine, own);
}
"""
KEYS = {
    "one": np.zeros(64, np.int32),
    "two": np.arange(64, dtype=np.int32) % 2,
    "halves": np.arange(64, dtype=np.int32) % 32 // 16,
    "own": np.arange(64, dtype=np.int32),
    "many": np.random.default_rng(0).integers(0, 5, 64).astype(np.int32),
}
GPUS = ["sm_80", "sm_89", "sm_90", "sm_100", "sm_120"]


def by_set(keys: np.ndarray, values: np.ndarray, reduce: np.ufunc) -> list[int]:
    """What each thread's set, of lanes of its warp, reduces to."""
    warps = np.arange(64) // 32
    return [reduce.reduce(values[(keys == keys[i]) & (warps == warps[i])], dtype=values.dtype) for i in range(64)]


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("keys", KEYS)
def test_each_set_reduces_its_own_values(gpu: str, keys: str) -> None:
    key, value = KEYS[keys], np.random.default_rng(1).integers(0, 1 << 31, 64).astype(np.uint32)
    sums, most, bits = np.zeros(64, np.uint32), np.zeros(64, np.int32), np.zeros(64, np.uint32)
    gpusim.capture(gpusim.cuda_cpp(SOURCE, "sets"), 1, 64, (key, value, sums, most, bits), gpu=gpu)
    np.testing.assert_array_equal(sums, by_set(key, value, np.add))
    np.testing.assert_array_equal(most, by_set(key, value, np.maximum))
    np.testing.assert_array_equal(bits, by_set(key, value, np.bitwise_xor))


@pytest.mark.parametrize("gpu", GPUS)
@pytest.mark.parametrize("keys", KEYS)
def test_sets_whose_lanes_come_at_different_times(gpu: str, keys: str) -> None:
    key, value = KEYS[keys], np.random.default_rng(2).integers(0, 1 << 31, 64).astype(np.uint32)
    sums = np.zeros(64, np.uint32)
    gpusim.capture(gpusim.cuda_cpp(SOURCE, "apart"), 1, 64, (key, value, sums), gpu=gpu)
    own = value.copy()
    for i in range(64):
        if i % 3 == 0:
            own[i] = own[i] * own[i] + np.uint32(1)
        for _ in range(i if i % 3 == 1 else 0):
            own[i] = own[i] * np.uint32(5) + np.uint32(3)
    np.testing.assert_array_equal(sums, by_set(key, own, np.add))
