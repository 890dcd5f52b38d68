"""Training whose weights are shared out over replicas (ZeRO 3): what gathering them costs, what it spares, and where it
is refused."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from gpusim.cli import run
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.project.execution import step_traces
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.settings import schedule_of
from gpusim.project.whole import ModelProjection, project_model

PRICES = Prices(load_gpu("a100_80gb"))
NETWORK = decoder_of("llama3_8b")
SHARED_OUT = Plan("train", batch=32, sequence=4096, data_parallel=8, recompute="full", zero=3)


def of_exchanges(found: ModelProjection) -> float:
    return sum(item.seconds for item in found.items if item.operator.communicates)


def test_long_micro_batches_hide_exchanges_but_the_first_and_the_last_and_are_slowed_by_them() -> None:
    found, kept = (
        project_model(PRICES, NETWORK, SHARED_OUT),
        project_model(PRICES, NETWORK, replace(SHARED_OUT, zero=1)),
    )
    # Nothing is added up in FP32 behind products of weights' gradients, whose sums are scattered.
    assert not any("added up" in item.operator.name for item in found.items)
    assert found.communication_seconds < 0.5 * of_exchanges(found)
    ends = sum(
        item.projection.seconds for item in found.items if item.operator.name in ("gathered", "gradients scattered")
    )
    assert found.communication_seconds > 0.5 * ends
    assert found.step.seconds == pytest.approx(kept.step.seconds, rel=0.1)


def test_short_micro_batches_wait_for_weights() -> None:
    short = replace(SHARED_OUT, batch=8, sequence=128)
    found = project_model(PRICES, NETWORK, short)
    assert found.step.seconds > of_exchanges(found) > 0.5 * found.step.seconds
    assert found.step.seconds > 1.2 * project_model(PRICES, NETWORK, replace(short, zero=1)).step.seconds


def test_each_micro_batch_gathers_weights_anew() -> None:
    whole = replace(SHARED_OUT, batch=8, sequence=512)
    more = replace(whole, batch=32, micro_batches=4)
    first, second = (project_model(PRICES, NETWORK, plan) for plan in (whole, more))
    assert second.communication_seconds == pytest.approx(4 * first.communication_seconds, rel=1e-6)


def test_weights_gradients_and_state_take_a_share_of_memory() -> None:
    shared_out, kept = (project_model(PRICES, NETWORK, replace(SHARED_OUT, zero=zero)).footprint for zero in (3, 1))
    assert shared_out.training_bytes < kept.training_bytes / 2
    assert shared_out.weight_bytes < kept.weight_bytes / 3
    assert shared_out.activation_bytes == kept.activation_bytes


def test_sums_of_gradients_slow_what_they_run_beside() -> None:
    kept = replace(SHARED_OUT, zero=0)
    alone = project_model(PRICES, NETWORK, replace(kept, batch=kept.replica_batch, data_parallel=1))
    found = project_model(PRICES, NETWORK, kept)
    (sums,) = (item.seconds for item in found.items if item.operator.communicates)
    longer = found.step.seconds - alone.step.seconds
    layers = NETWORK.layers
    assert 1.1 * sums / layers < longer < 0.5 * sums
    assert found.hidden_seconds == pytest.approx(sums - longer, rel=1e-6)


def test_one_replica_has_nothing_to_share_out() -> None:
    alone = replace(SHARED_OUT, data_parallel=1, batch=4)
    assert project_model(PRICES, NETWORK, alone).step == project_model(PRICES, NETWORK, replace(alone, zero=0)).step


def test_a_page_says_that_weights_are_gathered() -> None:
    assert "ZeRO 3" in schedule_of(SHARED_OUT)
    assert "ZeRO 3" not in schedule_of(replace(SHARED_OUT, zero=1))


@pytest.mark.parametrize("changed", [{"pipeline_parallel": 2}, {"zero": 2}])
def test_what_is_not_projected_is_refused(changed: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="not projected beside a pipeline|stages 0, 1 and 3"):
        replace(SHARED_OUT, **changed)


def test_traces_of_weights_shared_out_are_refused() -> None:
    with pytest.raises(UsageError, match="give --zero 1"):
        step_traces(PRICES, NETWORK, SHARED_OUT)


def test_the_command_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["project", "llama3_8b", "--gpu", "a100_80gb:8", "--phase", "train", "--batch", "8", "--sequence", "512", "--dp", "8"]  # fmt: skip
    assert run([*words, "--zero", "3", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["zero"] == 3 and row["step_ms"] > 0
    assert run([*words, "--zero", "2"]) == 2
