"""Energy of a model's step: GPUs that wait rest, and launches that run side by side rest once."""

from __future__ import annotations

import pytest

from gpusim.energy.figures import figures_for
from gpusim.energy.operator import energy_of
from gpusim.gpus.load import load_gpu
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import project_model


@pytest.mark.parametrize("gpu", ["t4", "l4", "a10", "rtx4090"])
def test_gpus_that_wait_for_their_pipeline_rest_at_what_their_own_board_does(gpu: str) -> None:
    spec = load_gpu(gpu)
    plan = Plan("decode", batch=1, sequence=512, dtype="fp16", kv_dtype="fp16", pipeline_parallel=8)
    figures = figures_for(spec)
    resting_watts = figures.constant_watts + figures.leakage_watts
    found = project_model(Prices(spec), decoder_of("llama3_8b"), plan)
    assert found.bubble_seconds > 0.8 * found.step.seconds
    busy_watts = (found.watts - resting_watts * 7 / 8) * 8
    assert resting_watts < found.watts < spec.board.power_limit_watts
    assert resting_watts < busy_watts < 1.05 * spec.board.power_limit_watts


def test_launches_that_run_side_by_side_rest_once() -> None:
    spec = load_gpu("l40s")
    plan = Plan("train", batch=64, sequence=512, data_parallel=2)
    found = project_model(Prices(spec), decoder_of("llama3_8b"), plan)
    assert found.hidden_seconds > 0.1 * found.step.seconds
    figures = figures_for(spec)
    resting_watts = figures.constant_watts + figures.leakage_watts
    moved = sum(item.operator.count * energy_of(spec, item.projection).joules for item in found.items)
    moved -= resting_watts * sum(item.seconds for item in found.items)
    assert found.watts == pytest.approx(resting_watts + moved / found.step.seconds)
    # What exchanges take beside products that stand at the limit does not slow these.
    assert found.watts < 1.1 * spec.board.power_limit_watts
