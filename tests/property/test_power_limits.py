"""A board's power limit in projections: every operator that takes power takes longer under a lower one, and no command
forgets it."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from click.testing import CliRunner

from gpusim.commands.project import project
from gpusim.energy.figures import figures_for
from gpusim.energy.operator import energy_of
from gpusim.energy.power import HeldWatts, held_limit
from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.whole import ModelProjection, project_model
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.operators import AttentionOp, GemmOp, MemoryOp, MoeOp

H100 = load_gpu("h100")
OPERATORS = {
    "product": GemmOp(4096, 4096, 4096),
    "products in a batch": GemmOp(512, 512, 512, batch=64),
    "fp8": GemmOp(4096, 4096, 4096, "fp8"),
    "generation": AttentionOp("generation", 64, 1, 8192, 64, 8, 128),
    "context": AttentionOp("context", 4, 4096, 4096, 32, 8, 128),
    "latent generation": AttentionOp("generation", 64, 1, 4096, 128, 1, 1, kind="mla"),
    "latent context": AttentionOp("context", 2, 2048, 2048, 64, 1, 1, kind="mla"),
    "experts": MoeOp(4096, 4096, 2048, 64, 4),
    "memory": MemoryOp("norm", 1e9, 1e9),
}


@pytest.mark.parametrize("op", OPERATORS.values(), ids=OPERATORS)
def test_a_lower_limit_never_shortens_an_operator_and_a_low_one_slows_it(op) -> None:
    seconds = [Prices(H100, limit_watts=watts).of(op).seconds for watts in (math.inf, 700.0, 400.0, 200.0, 140.0)]
    assert seconds == sorted(seconds)
    assert seconds[-1] > 1.1 * seconds[0]


def test_what_waits_for_dram_keeps_its_time_until_its_clock_is_far_down() -> None:
    op = OPERATORS["generation"]
    free, mild = (Prices(H100, limit_watts=watts).of(op) for watts in (math.inf, 370.0))
    assert energy_of(H100, free, math.inf).average_watts > 370.0
    assert mild.seconds < 1.02 * free.seconds
    assert energy_of(H100, mild, 370.0).average_watts < 370.001


@pytest.mark.parametrize("gpu", list_gpus())
def test_every_gpu_has_a_limit_above_what_it_takes_at_rest(gpu: str) -> None:
    assert load_gpu(gpu).board.power_limit_watts > 0
    assert Prices(load_gpu(gpu)).of(MemoryOp("norm", 1e8, 1e8)).seconds > 0


def test_what_a_board_takes_at_rest_is_what_it_says_and_else_goes_with_its_sms() -> None:
    l4, busy = load_gpu("l4"), figures_for(load_gpu("l4")).busy_watts
    assert l4.board.resting_watts > 0
    for watts in (20.0, 40.0):
        figures = figures_for(override_gpu(l4, [f"board.resting_watts={watts}"]))
        assert figures.constant_watts + figures.leakage_watts == pytest.approx(watts)
        # So does what SMs take beside their events: both are the same silicon's, at a voltage of the board's.
        assert figures.busy_watts == pytest.approx(busy * watts / l4.board.resting_watts)
    by_sms, h100 = figures_for(replace(l4, board=replace(l4.board, resting_watts=0.0))), figures_for(H100)
    assert by_sms.constant_watts * H100.sm_count == pytest.approx(h100.constant_watts * l4.sm_count)
    # What a board that takes less at rest has left goes to what it computes.
    slow, fast = (
        Prices(override_gpu(l4, [f"board.resting_watts={watts}"])).of(GemmOp(8, 8192, 4096)).seconds
        for watts in (50, 20)
    )
    assert fast < slow


@pytest.mark.parametrize(
    "command",
    [
        "gemm 4096 4096 4096",
        "gemm 4096 4096 4096 --dtype fp8",
        "attention --batch 64 --length 8192 --heads 64 --kv-heads 8",
        "attention --phase context --batch 4 --length 4096 --heads 32",
        "moe 4096 --hidden 4096 --intermediate 2048 --experts 8 --top-k 2",
        "llama3_8b --phase prefill",
        "llama3_8b --phase prefill --sweep batch=1,2",
        "llama3_8b --phase prefill --one-clock",
    ],
)
def test_each_command_takes_a_limit_and_keeps_the_mean_power_within_it(command: str) -> None:
    rows = []
    for limit in ("700", "160"):
        ran = CliRunner().invoke(
            project, [*command.split(), "--gpu", "h100", "--power-limit-watts", limit, "--format", "json"]
        )
        assert ran.exit_code == 0, ran.output
        rows.append(json.loads(ran.stdout)[0])
    time, watts = ("us", "average_watts") if "us" in rows[0] else ("step_ms", "watts_per_gpu")
    assert rows[1][time] > 1.1 * rows[0][time]
    assert rows[1][watts] <= 160.1 * (1.01 if "--one-clock" in command else 1.0)


def test_a_limit_below_what_idles_is_refused_in_one_line() -> None:
    ran = CliRunner().invoke(
        project, ["attention", "--batch", "1", "--length", "512", "--heads", "8", "--power-limit-watts", "50"]
    )
    assert ran.exit_code != 0 and "at rest" in str(ran.exception or ran.output)


def test_a_gpu_of_which_a_value_is_changed_keeps_its_boards_limit() -> None:
    changed = override_gpu(H100, ("l2.slice_bytes_per_ns=105",))
    assert changed.board.power_limit_watts == 700.0
    op = OPERATORS["product"]
    assert Prices(changed).of(op).seconds > 1.05 * Prices(changed, limit_watts=math.inf).of(op).seconds


@pytest.mark.parametrize("phase", ["prefill", "decode"])
def test_a_step_with_one_clock_keeps_its_mean_power_within_the_limit(phase: str) -> None:
    network, plan = decoder_of("llama3_8b"), Plan(phase, batch=8, sequence=2048)
    free = project_model(Prices(H100, math.inf), network, plan)
    assert project_model(Prices(H100, 2000.0, one_clock=True), network, plan).step == free.step
    limit = 0.7 * free.watts
    held = project_model(Prices(H100, limit, one_clock=True), network, plan)
    assert held.watts == pytest.approx(limit, rel=0.02)
    assert held.step.seconds > free.step.seconds and held.joules < free.joules


def test_operators_of_little_power_slow_down_with_the_others_of_a_step() -> None:
    network, plan = decoder_of("llama3_8b"), Plan("prefill", batch=8, sequence=2048)
    apart, together = (project_model(Prices(H100, 500.0, one_clock=one), network, plan) for one in (False, True))

    def seconds(step: ModelProjection) -> float:
        """Of what multiplies nothing."""
        return sum(item.seconds for item in step.items if item.projection.flops == 0)

    assert seconds(together) > seconds(apart)


def test_a_product_that_dram_bounds_keeps_its_time_where_the_clock_falls() -> None:
    board = load_gpu("l4")  # 72 W, of which its clocks take most
    few, many = GemmOp(1, 37888, 3584), GemmOp(4096, 37888, 3584)
    for op, most in ((few, 1.03), (many, 3.0)):
        held, free = (Prices(board, limit_watts=watts).of(op).seconds for watts in (72.0, math.inf))
        assert held <= most * free
    assert Prices(board).of(many).seconds > 1.1 * Prices(board, limit_watts=math.inf).of(many).seconds


def test_a_limit_that_has_held_for_long_slows_launches_however_short() -> None:
    spec = load_gpu("h100")
    shape = GemmShape(2048, 8192, 8192, "bf16")
    alone, held, free = (project_gemm(spec, shape, limit_watts=watts).seconds for watts in (None, held_limit(spec), math.inf))  # fmt: skip
    assert free < alone < held
    # What is under the limit is as fast either way.
    small = GemmShape(16, 1024, 1024, "bf16")
    assert project_gemm(spec, small).seconds == project_gemm(spec, small, limit_watts=held_limit(spec)).seconds
    assert held_limit(spec, 400.0) != 400.0
    assert held_limit(spec, 400.0) == HeldWatts(400)
    assert Prices(spec).of(GemmOp(2048, 8192, 8192, "bf16")).seconds == held
