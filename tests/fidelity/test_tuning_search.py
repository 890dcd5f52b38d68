"""Does a search over configurations find the one that whole simulations of all would choose, and say what it left
out?"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.cases.case_forms import as_case
from gpusim.errors import NoDataError, UsageError
from gpusim.search import predict as prediction
from gpusim.search.found import validated_regrets
from gpusim.search.predict import COARSE, EXACT, _part_us
from gpusim.silicon.imports import read_rows

SOURCE = """
template <int EACH> __global__ void poly(float *x) {
  for (int e = 0; e < EACH; ++e) {
    int i = (blockIdx.x * EACH + e) * blockDim.x + threadIdx.x;
    float y = x[i];
    for (int k = 0; k < 120; ++k) y = y * 0.5f + 1.0f;
    x[i] = y;
  }
}
__global__ void shared_out(float *x, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] += 1.0f;
}
"""
GPU = "t4"
N = 1 << 17
SPACE = {"block": [32, 128, 2048], "each": [1, 4]}


def poly_case(block: int, each: int) -> tuple[Any, int, int, tuple]:
    return gpusim.cuda_cpp(SOURCE, f"poly<{each}>"), N // (block * each), block, (np.ones(N, np.float32),)


def counted(case: Callable[..., Any]) -> tuple[Callable[..., Any], deque[dict]]:
    calls: deque[dict] = deque()  # a list that a case closes over would be part of what it is kept by

    def counting(**parameters: Any) -> Any:
        calls.append(parameters)
        return case(**parameters)

    return counting, calls


def test_the_winner_is_that_of_whole_simulations_and_what_is_kept_is_not_predicted_again(
    tmp_path: Path, monkeypatch
) -> None:
    kept = tmp_path / "kept.jsonl"
    monkeypatch.setattr(prediction, "PART_INSTRUCTIONS", 1e5)  # so that a launch of half a million has a part
    case, calls = counted(poly_case)
    found = gpusim.tune(case, SPACE, gpu=GPU, exact=2, keep=kept)
    assert len(calls) == 6 + 2
    whole = {}
    for row in found.rows:
        if row.time_us is None:
            assert row.parameters["block"] == 2048 and "2048" in row.why  # no GPU has blocks of 2,048 threads
            continue
        kernel, grid, block, args = poly_case(**row.parameters)
        trace = gpusim.capture(kernel, grid, block, args, gpu=GPU)
        whole[row.parameters["block"], row.parameters["each"]] = gpusim.simulate(trace, GPU).time_us
        assert row.time_us == pytest.approx(whole[row.parameters["block"], row.parameters["each"]], rel=0.1), row
    assert (found.best.parameters["block"], found.best.parameters["each"]) == min(whole, key=whole.__getitem__)
    assert [row.stage for row in found.rows[:4]] == [EXACT, EXACT, COARSE, COARSE]
    assert "the best of 4 configurations, of which 2 were simulated whole; 2 left out" in str(found)
    # Broken off in the middle of a line, it goes on behind it.
    kept.write_text(kept.read_text() + '{"key": "12')
    again = gpusim.tune(case, SPACE, gpu=GPU, exact=2, keep=kept)
    assert again == found and len(calls) == 8 + 2  # what was left out is tried again
    # Kernel Tuner's tools read the cache, and so does gpusim.
    found.write_cache(tmp_path / "cache.json")
    rows = read_rows(tmp_path / "cache.json")
    assert {row.shape: row.time_us and row.time_us.median for row in rows} == pytest.approx(
        {f"block={r.parameters['block']},each={r.parameters['each']}": r.time_us for r in found.rows if r.time_us}
    )
    assert {row.gpu for row in rows} == {GPU}


def test_blocks_that_share_out_a_fixed_amount_of_work_are_not_cut(monkeypatch) -> None:
    monkeypatch.setattr(prediction, "PART_INSTRUCTIONS", 1e3)

    def first(kernel: Any) -> Any:
        return as_case("c", (kernel, 640, 128, args)).launches[0]

    args: tuple = (np.zeros(N, np.float32), N)
    spec = gpusim.load_gpu(GPU)

    def captured(launch: Any, grid: Any) -> Any:
        return gpusim.capture(launch.kernel, grid, launch.block, launch.args, gpu=spec)

    assert _part_us(first(gpusim.cuda_cpp(SOURCE, "shared_out")), spec, captured) is None
    args = (np.zeros(N, np.float32),)
    assert _part_us(first(gpusim.cuda_cpp(SOURCE, "poly<1>")), spec, captured)


def test_restrictions_objectives_and_refusals() -> None:
    class Trial:
        def suggest_categorical(self, name: str, choices: list[Any]) -> Any:
            return choices[-1] if name == "each" else choices[self.block]

        block = 1

    objective = gpusim.tuning_objective(poly_case, SPACE, gpu=GPU)
    assert objective(Trial()) == objective({"block": 128, "each": 4}) > 0
    Trial.block = 2
    assert objective(Trial()) == float("inf")
    with pytest.raises(UsageError, match="of 6 configurations none is left by restrict"):
        gpusim.tune(poly_case, SPACE, gpu=GPU, restrict=lambda block, each: block < 0)
    with pytest.raises(UsageError, match="no configuration is in the space"):
        gpusim.tune(poly_case, {}, gpu=GPU)
    with pytest.raises(NoDataError, match="no configuration can run on t4: .*2048"):
        gpusim.tune(poly_case, [{"block": 2048, "each": 1}], gpu=GPU)
    with pytest.raises(UsageError, match=r"write case as 'file.py:function'"):
        gpusim.tune(poly_case, SPACE, gpu=GPU, jobs=2)


def test_what_validation_found_stands_beside_the_winner() -> None:
    recorded = json.loads((Path(__file__).parents[2] / "traces/external/results.json").read_text())["summaries"]
    tuned = {each["set"] for each in recorded if each.get("regret_percent") is not None and each["rows"] > 2}
    assert {each.measured for each in validated_regrets()} == tuned


def test_a_configuration_whose_result_is_wrong_does_not_win_and_a_misspelt_one_is_told() -> None:
    def case(each: int):
        x = np.ones(N, np.float32)
        launch = gpusim.cuda_cpp(SOURCE, f"poly<{each}>"), N // 512, 128, (x,)  # right where each is 4

        def check() -> None:
            np.testing.assert_array_less(1.5, x)

        return (*launch, check)

    found = gpusim.tune(case, {"each": [1, 4]}, gpu=GPU)
    assert found.best.parameters == {"each": 4} and "wrong result" in found.rows[-1].why
    with pytest.raises(UsageError, match="case has no parameter eech; did you mean each"):
        gpusim.tune(case, {"eech": [1]}, gpu=GPU)
    twice = [each for each in str(found).splitlines() if "convolution_a100" in each]
    assert len(twice) == 1 and "128 configurations" in twice[0]  # not each half, and the whole


def test_an_access_out_of_bounds_and_a_deadlock_are_left_out_as_a_tuner_does() -> None:
    source = """
    __global__ void reach(float *x) {
      __shared__ float tile[REACH];
      tile[threadIdx.x] = x[threadIdx.x];
      __syncthreads();
      x[threadIdx.x] = tile[63 - threadIdx.x];
    }
    __global__ void lock(int *x) { while (atomicAdd(x, 0) == 0) {} }
    """

    def case(reach: int) -> Any:
        if not reach:
            return gpusim.cuda_cpp(source, "lock", ["-DREACH=1"]), 1, 32, (np.zeros(1, np.int32),)
        return gpusim.cuda_cpp(source, "reach", [f"-DREACH={reach}"]), 1, 64, (np.ones(64, np.float32),)

    found = gpusim.tune(case, {"reach": [0, 32, 64]}, gpu=GPU)
    assert found.best.parameters == {"reach": 64}
    failed = {row.parameters["reach"]: (row.failed, row.why) for row in found.rows if row.time_us is None}
    assert failed[32][0] == "ExecutionError" and "out of bounds" in failed[32][1] and failed[0][0] == "ExecutionError"
    assert "2 left out" in str(found) and "left out: 1 with" in str(found)
