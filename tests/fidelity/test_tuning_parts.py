"""Does the part that predicts a configuration stand for the whole: as many blocks an SM, and no trace left of it?"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gpusim
from gpusim.search import predict as prediction
from gpusim.search.predict import COARSE, EXACT, part_for, predict

GPU = "t4"
SOURCE = """
__global__ void poly(float *x) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  float y = x[i];
  for (int k = 0; k < 400; ++k) y = y * 0.5f + 1.0f;
  x[i] = y;
}
__global__ void order(int *at, int *times, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  at[i] = n - 1 - i;
  times[i] += 1;
}
__global__ void gather(const int *at, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[at[i]];
}
#if __CUDA_ARCH__ >= 900
__global__ void both(float *x) {
  for (int k = 0; k < 20; ++k) asm volatile("barrier.cluster.arrive; barrier.cluster.wait;");
  x[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}
#endif
"""


@given(
    extent=st.integers(2, 5000), beside=st.integers(1, 64), sm_count=st.integers(16, 200), share=st.floats(1e-4, 0.6)
)
def test_the_busiest_sm_of_a_part_gets_as_many_blocks_as_that_of_the_whole(
    extent: int, beside: int, sm_count: int, share: float
) -> None:
    blocks = extent * beside
    found = part_for(extent, blocks, sm_count, share)
    if found is None:
        return
    along, sms = found
    assert 2 <= along <= extent and 2 <= sms <= sm_count // 2 and sms >= share * sm_count
    each, given_each = blocks / sm_count, along * beside / sms
    if each <= prediction.MANY_BLOCKS:
        assert math.ceil(given_each) == math.ceil(each)
    assert given_each == pytest.approx(each, rel=0.5 / (along - 0.5) + 1e-9)


def test_an_odd_wave_at_the_end_costs_a_part_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    # Blocks of 1,024 threads, one an SM: 90 of them are three waves on 40 SMs, for the work of two and a quarter.
    monkeypatch.setattr(prediction, "PART_INSTRUCTIONS", 1e5)

    def case(blocks: int) -> Any:
        return gpusim.cuda_cpp(SOURCE, "poly"), blocks, 1024, (np.ones(blocks * 1024, np.float32),)

    for blocks in (90, 120):
        part, whole = (predict(case, {"blocks": blocks}, GPU, stage)[0] for stage in (COARSE, EXACT))
        assert part.stage == COARSE and part.time_us == pytest.approx(whole.time_us, rel=0.03)


def test_parts_leave_no_trace_and_later_launches_find_what_earlier_ones_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "PART_INSTRUCTIONS", 1e3)
    n = 1 << 16
    at, times, x, y = (
        np.zeros(n, np.int32),
        np.zeros(n, np.int32),
        np.arange(n, dtype=np.float32),
        np.zeros(n, np.float32),
    )

    def case(block: int) -> Any:
        return [
            (gpusim.cuda_cpp(SOURCE, "order"), n // block, block, (at, times, n)),
            (gpusim.cuda_cpp(SOURCE, "gather"), n // block, block, (at, x, y)),
        ]

    row, _ = predict(case, {"block": 128}, GPU, COARSE)
    assert row.stage == COARSE and row.time_us
    assert (times == 1).all() and (
        at == np.arange(n)[::-1]
    ).all()  # the order, on which addresses depend, was made once
    assert not y.any()  # nothing depends on it: only copies were written


def test_a_launch_that_no_part_can_make_is_run_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "PART_INSTRUCTIONS", 1e3)

    def case(cluster: int) -> Any:
        class Launch:
            kernel, grid, block, shared_bytes, timed = gpusim.cuda_cpp(SOURCE, "both"), 4 * 132, 64, 0, True
            args = (np.zeros(4 * 132 * 64, np.float32),)

        launch: Any = Launch()
        launch.cluster = cluster
        return [launch]

    row, _ = predict(case, {"cluster": 4}, "h100", COARSE)
    assert row.time_us, row.why


def test_a_sampled_search_predicts_what_a_whole_one_does_and_says_that_nothing_was_checked() -> None:
    def case(block: int) -> Any:
        x = np.ones(1 << 16, np.float32)

        def check() -> None:
            raise AssertionError("the check of a sampled launch is not to run")

        return gpusim.cuda_cpp(SOURCE, "poly"), (1 << 16) // block, block, (x,), check

    found = gpusim.tune(case, {"block": [64, 256]}, gpu=GPU, sample=True)
    assert "not checked: sampled" in str(found) and len(found.rows) == 2
    whole, _ = predict(lambda block: case(block)[:-1], dict(found.best.parameters), GPU, EXACT)
    assert found.best.time_us == pytest.approx(whole.time_us, rel=0.02)


def test_a_search_may_go_by_parts_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prediction, "PART_INSTRUCTIONS", 1e3)

    def case(each: int) -> Any:
        return gpusim.cuda_cpp(SOURCE, "poly"), 160 * each, 64, (np.ones(160 * each * 64, np.float32),)

    found = gpusim.tune(case, {"each": [3, 1, 2]}, gpu=GPU, exact=0)
    assert [row.parameters["each"] for row in found.rows] == [1, 2, 3] and {row.stage for row in found.rows} == {COARSE}
    assert "of which 0 were simulated whole" in str(found)
