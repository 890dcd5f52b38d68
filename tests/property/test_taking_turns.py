"""Halves of a batch that take turns: what is hidden, what it costs, what cannot be."""

from __future__ import annotations

import json

import pytest

from gpusim.cli import run
from gpusim.collective.figures import figures_of
from gpusim.collective.node import node_of
from gpusim.collective.project import time_of
from gpusim.collective.shape import Collective
from gpusim.errors import UsageError
from gpusim.execution.interference import beside_of
from gpusim.gpus.load import load_gpu
from gpusim.project.alternating import taken_in_turns
from gpusim.project.layers import blocks_of, stages_of
from gpusim.project.load import halves_of
from gpusim.project.network import decoder_of
from gpusim.project.operator import Operator
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import project_model
from gpusim.tile.beside import shares_beside
from gpusim.tile.operators import GemmOp, MemoryOp

PRICES = Prices(load_gpu("h100"))
CONFIG = decoder_of("llama3_8b")
COMPUTE = Operator("x", "product", GemmOp(4096, 4096, 4096))
SUM = Operator("x", "sum", Collective("all_reduce", 8, 16 << 20))


def seconds(*operators: Operator) -> float:
    return sum(each.count * PRICES.of(each.op).seconds for each in operators)


def test_one_half_computes_while_the_other_waits() -> None:
    found = taken_in_turns(PRICES, [[[COMPUTE, SUM]], [[COMPUTE, SUM]]])
    alone, summed = seconds(COMPUTE), seconds(SUM)
    assert summed < alone
    # The second half's product runs beside the first's sum, and lacks its SMs meanwhile; the second sum nothing hides.
    assert 2 * alone + summed < found.seconds < 2 * alone + 1.5 * summed
    assert found.exposed_seconds == pytest.approx(summed, rel=0.2)
    # Without anything to compute nothing is hidden; without collectives nothing is waited for.
    assert taken_in_turns(PRICES, [[[SUM]], [[SUM]]]).exposed_seconds == pytest.approx(2 * summed, rel=1e-6)
    free = taken_in_turns(PRICES, [[[COMPUTE, Operator("x", "norm", MemoryOp("norm", 1e6, 1e6))]], [[COMPUTE]]])
    assert free.exposed_seconds == 0.0
    assert free.followed_by(1.0).exposed_seconds == 1.0


def test_a_prefill_gains_and_halves_share_out_the_batch() -> None:
    plan = Plan("prefill", batch=5, sequence=1024, tensor_parallel=8, overlap="two-batch")
    first, second = halves_of(plan)
    assert (first.ends, second.ends) == (3, 2) and first.tokens + second.tokens == 5 * 1024
    plain = project_model(PRICES, CONFIG, Plan("prefill", batch=5, sequence=1024, tensor_parallel=8))
    found = project_model(PRICES, CONFIG, plan)
    assert found.tokens == plain.tokens and found.model_flops == pytest.approx(plain.model_flops)
    assert found.step.seconds < plain.step.seconds
    assert found.communication_seconds < 0.3 * plain.communication_seconds and plain.hidden_seconds == 0.0
    # What is hidden and what is not is all that the halves exchange; what is computed takes no less than alone.
    exchanged = sum(item.seconds for item in found.items if item.operator.communicates)
    assert found.hidden_seconds + found.communication_seconds == pytest.approx(exchanged)
    computed = sum(item.seconds for item in found.items if not item.operator.communicates)
    assert found.step.seconds > computed
    (kinds,) = stages_of(CONFIG, 1)
    halves = [blocks_of(CONFIG, plan, load, kinds, True, True) for load in (first, second)]
    assert taken_in_turns(PRICES, halves).seconds == pytest.approx(found.step.seconds)


@pytest.mark.parametrize("op", [GemmOp(4096, 4096, 4096), GemmOp(32, 8192, 8192)])
def test_products_are_slowed_as_the_machine_says(op: GemmOp) -> None:
    shape = Collective("all_reduce", 8, 1 << 30)
    product = Operator("x", "product", op)
    found = taken_in_turns(PRICES, [[[Operator("x", "sum", shape)]], [[product]]])
    links = node_of(PRICES.spec)
    timing = time_of(links, "hopper", figures_of("hopper"), shape)
    beside = beside_of(links, PRICES.spec.sm_count, shape, timing)
    shares = shares_beside(PRICES.spec, op, beside.channels, beside.dram_bytes_per_second)
    assert found.seconds - found.exposed_seconds == pytest.approx(seconds(product) / shares.product, rel=1e-6)
    assert found.seconds >= timing.seconds


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"phase": "train", "batch": 8}, "leave out --overlap"), ({"phase": "prefill", "batch": 1}, "no halves"),
        ({"phase": "prefill", "batch": 4, "chunk": 64}, "without --chunk"), ({"phase": "decode", "batch": 4, "overlap": "magic"}, "known are none, two-batch"),
    ],
)  # fmt: skip
def test_what_cannot_take_turns_is_refused(values: dict, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Plan(**({"tensor_parallel": 2, "overlap": "two-batch"} | values))


def test_the_command_shows_what_is_hidden(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["project", "llama3_8b", "--gpu", "h100:4", "--phase", "prefill", "--batch", "4", "--overlap", "two-batch"]
    assert run(words) == 0
    assert "of the communication, behind computation" in capsys.readouterr().out
    assert run([*words, "--format", "json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert record["overlap"] == "two-batch" and record["hidden_communication_percent"] > 50
