"""Do prediction intervals hold for what they were not made from, are they what the residuals make, and do they say where they were not validated?"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hand_traces import Asm, build, small_gpu
from validation.coverage import calibrated_quantile, held, judged_by, left_out, rows_of, share_percent
from validation.held_out import HELD_OUT, held_out, like_of
from validation.intervals import (
    LEVEL,
    POOL_SETS,
    calibration,
    factor_of,
    gpu_of,
    limiter_of,
    row_for,
    rows_at,
    set_of,
    weights_of,
)
from validation.residuals import Residual, load_residuals
from write_intervals import document

from gpusim import cli
from gpusim.engine.gpu import simulate
from gpusim.engine.result import time_text
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.trace.record import PipeClass
from gpusim.uncertainty.interval import Interval, interval_of
from gpusim.uncertainty.limiters import Limiter
from gpusim.uncertainty.table import DATASHEET, FITTED, row_of, table, widest

GPU = small_gpu(sm_count=2)
#: What the shares of left-out sets may differ from the level: they are known from some ten sets, of which one more or less is worth this much.
SLACK_PERCENT = 10.0


def residual(
    series: str, error: float, kind: str = FITTED, limiter: str = "DRAM", gpu: str = "h200", **other
) -> Residual:
    return Residual("published", kind, gpu, series, "n=1", limiter, 1, "", math.exp(error), **other)


def factor(rows: list[Residual], quantile: float = LEVEL) -> float:
    """Of rows that lean on nothing."""
    return math.log(factor_of(rows, (), quantile))


def test_a_factor_by_hand() -> None:
    # Four sets weigh alike; of two rows each has half of that: 3.5 of 4 are reached at 0.3.
    rows = [residual("a", 0.1), residual("a", -0.2), residual("b", 0.05), residual("b", 0.3), residual("c", 0.1), residual("d", -0.4)] * 3  # fmt: skip
    assert factor(rows, 0.75) == pytest.approx(0.3) and factor(rows) == pytest.approx(0.4)
    rows += [residual(name, 0.01) for name in "efghij"] * 3  # ten sets: 8.5 are reached at 0.1, 9 at 0.3
    assert factor(rows) == pytest.approx(0.1) and factor(rows, 0.9) == pytest.approx(0.3)


def test_points_kernels_and_gpus_of_a_set_count_as_one() -> None:
    streams = [residual(f"stream_{n}", 0.4, gpu=gpu) for n in ("read", "scale") for gpu in ("h200", "a40", "l40")]
    streams += [residual("stencil3", 0.4)]
    assert {set_of(row) for row in streams} == {"streams and stencils"}
    assert factor([*streams, *(residual(name, 0.1) for name in "bcdef" * 3)]) == pytest.approx(0.1)
    external = [replace(residual(f"kernels {n}", 0.1), source="kernels") for n in "ab"]
    assert {set_of(row) for row in external} == {"kernels"}


def test_a_set_of_one_row_has_a_third_of_the_weight() -> None:
    rows = [residual(name, 0.1) for name in "ab" * 3] + [residual("c", 0.5)]
    assert weights_of(rows).tolist() == pytest.approx([1 / 3] * 7) and weights_of(rows, 14).sum() == pytest.approx(14)
    assert factor(rows) == pytest.approx(0.1) and factor(
        [*rows, residual("c", 0.5), residual("c", 0.5)]
    ) == pytest.approx(0.5)
    made = row_for(FITTED, Limiter.DRAM, [residual("a", 0.1)] * 3 + [residual("b", 0.1)] * 2, LEVEL)
    assert made is not None and made["coarser"]


def test_a_class_of_few_sets_leans_on_all_launches_of_its_kind() -> None:
    own, rest = [residual(name, 0.3) for name in "ab" * 3], [residual(name, 0.1) for name in "cdefgh" * 3]
    assert math.log(factor_of(own, rest, LEVEL, 100)) == pytest.approx(0.1)
    assert math.log(factor_of(own, rest, LEVEL, 1)) == pytest.approx(0.3)
    assert math.log(factor_of(own, rest, LEVEL, POOL_SETS)) == pytest.approx(0.3)  # two of six are more than a fifth


def test_new_sets_lie_within_as_often_as_the_level_says() -> None:
    """Sets whose points err alike: the next one's points lie within in 80 % of the cases, of classes known from few sets and from many."""
    random = np.random.default_rng(5)

    def points(name: str, limiter: str) -> list[Residual]:
        common = random.normal(0, 0.1)
        return [residual(name, common + random.normal(0, 0.03), limiter=limiter) for _ in range(random.integers(1, 20))]

    shares = []
    for _ in range(15):
        known = [row for i in range(8) for row in points(str(i), "DRAM" if i % 3 else "L2")]
        table_ = rows_at(known, calibrated_quantile(known))
        shares.append(np.mean([ok for _, ok in judged_by(table_, points("new", random.choice(["DRAM", "L2"])))]))
    assert LEVEL - 0.05 <= np.mean(shares) <= LEVEL + 0.15


def test_few_sets_take_those_of_all_gpus_and_say_so() -> None:
    own = [residual(name, 0.1) for name in "abcd" * 3]
    others = [residual(name, 0.3, limiter="L1") for name in "eee"]
    made = row_for(FITTED, Limiter.DRAM, own, LEVEL)
    assert made == {
        "kind": FITTED, "limiter": "DRAM", "factor": 1.1052, "basis": "DRAM-bound on fitted GPUs", "coarser": False, "sets": 4, "kernels": 4, "series": 4, "points": 12,
    }  # fmt: skip
    rest = row_for(FITTED, Limiter.L1, own + others, LEVEL)
    assert rest is not None and rest["coarser"] and rest["sets"] == 1
    sheet = [residual(name, 0.5, kind=DATASHEET, gpu="a40") for name in "abcd" * 3]
    leaning = row_for(FITTED, Limiter.DRAM, own[::4] + sheet, LEVEL)
    assert leaning is not None and leaning["basis"] == "DRAM-bound on all GPUs" and leaning["series"] == 5


def test_the_quantile_widens_until_left_out_sets_lie_within() -> None:
    alike = [residual(name, 0.1 + i / 1000) for i, name in enumerate("abcdefghij")]
    assert calibrated_quantile(alike) == LEVEL
    # Each GPU has one set that errs more than all that the others have: at 80 % they would be outside.
    apart = [residual(f"{gpu}{n}", 0.1 + 0.01 * i, gpu=gpu) for i, gpu in enumerate("abcdefgh") for n in range(3)]
    quantile = calibrated_quantile(apart)
    assert quantile > LEVEL
    for part in (set_of, gpu_of):
        assert share_percent(left_out(apart, part, quantile), part) >= 100 * LEVEL
    assert share_percent(left_out(apart, gpu_of, LEVEL), gpu_of) < 100 * LEVEL


def test_the_table_is_what_the_residuals_make() -> None:
    made = document(load_residuals())
    assert made == table(), "run tools/write_intervals.py"
    assert {(row["kind"], row["limiter"]) for row in made["rows"]} == {
        (k, str(each)) for k in (FITTED, DATASHEET) for each in Limiter
    }
    assert all(row["factor"] > 1 for row in made["rows"])


@pytest.mark.parametrize("part", [set_of, gpu_of, limiter_of])
def test_intervals_hold_for_rows_that_they_were_not_made_from(part) -> None:
    known = calibration(load_residuals())
    shares = {(each.kind, each.limiter): each for each in held(left_out(known, part, calibrated_quantile(known)), part)}
    for kind in (FITTED, DATASHEET, "all"):
        inside = shares[kind, "all"].inside_parts_percent
        assert inside >= 100 * LEVEL - SLACK_PERCENT, (part.__name__, shares[kind, "all"])


def test_held_out_rows_judge_no_interval_that_they_made() -> None:
    rows = [residual(name, 0.01) for name in "abcd"] + [residual("far", 2.0)]
    judged = {row.series: ok for row, ok in left_out(rows, set_of, LEVEL)}
    assert judged["far"] is False and judged["a"] is True


def test_a_class_with_too_few_sets_is_told_the_error_of_the_worst() -> None:
    many = [residual(n, 0.1) for n in "abcdefgh" * 3]
    made = rows_of(many + [residual(n, 0.5, limiter="L1") for n in "qrst" * 3])
    rows = {row["limiter"]: row for row in made if row["kind"] == FITTED}
    assert rows["L2"]["coarser"] and rows["L2"]["factor"] == pytest.approx(math.exp(0.5), abs=1e-4)
    assert rows["L2"]["basis"] == "L1-bound on fitted GPUs, which err most" and rows["DRAM"]["factor"] < math.exp(0.2)
    judged = judged_by(made, [residual("new", error, limiter="L2") for error in (0.4, 0.6)])
    assert [inside for _, inside in judged] == [True, False]


def test_a_datasheet_is_nowhere_surer_than_a_fitted_description() -> None:
    rows = [residual(n, 0.5) for n in "abcd" * 3] + [residual(n, 0.1, kind=DATASHEET, gpu="a40") for n in "abcd" * 3]
    factors = {row["kind"]: row["factor"] for row in rows_of(rows) if row["limiter"] == "DRAM"}
    assert factors[DATASHEET] == factors[FITTED] == pytest.approx(math.exp(0.5), abs=1e-4)


def test_what_is_looked_at_last_or_was_fitted_makes_no_interval() -> None:
    rows = [replace(residual("a", 0.1), half="final"), replace(residual("b", 0.1), held_out=0), residual("c", 0.1)]
    assert [row.series for row in calibration(rows)] == ["c"]


def test_a_gpu_is_held_out_with_all_that_its_curves_set() -> None:
    made, own = held_out("a40"), load_gpu("a40")
    assert made.name == "a40_datasheet" and like_of("a40") == "l40"
    # Fitted on the A40 itself, and inherited by the L40 that it is described like.
    assert made.pipes["fp64"].latency_cycles != own.pipes["fp64"].latency_cycles
    assert made.dram.read_write_turnaround_ns == load_gpu("a100_80gb").dram.read_write_turnaround_ns
    assert {load_gpu(name).capability for name in HELD_OUT} >= {(8, 0), (8, 6), (8, 9), (9, 0)}


def test_an_interval_says_where_it_was_not_validated() -> None:
    spec = load_gpu("h200")
    fine = interval_of(10.0, spec, Limiter.DRAM)
    factor = row_of(FITTED, "DRAM")["factor"]
    assert (fine.low_us, fine.high_us) == pytest.approx((10 / factor, 10 * factor)) and not fine.outside
    assert interval_of(10.0, override_gpu(spec, ["clock_hz=1.5e9"]), Limiter.DRAM).outside == ()
    most = widest()["factor"]
    for other, what in (
        (interval_of(10.0, override_gpu(spec, ["l2.ways=8"]), Limiter.DRAM), "l2.ways"),
        (interval_of(10.0, spec, Limiter.DRAM, tensor=True), "tensor cores"),
        (interval_of(10.0, spec, Limiter.DRAM, devices=2), "several GPUs"),
        (interval_of(10.0, replace(spec, capability=(12, 0)), Limiter.DRAM), "12.0"),
    ):
        assert what in " ".join(other.outside) and other.high_us == pytest.approx(10 * most)


def test_what_sampling_claims_widens_an_interval() -> None:
    spec = load_gpu("h200")
    whole, part = (interval_of(10.0, spec, Limiter.DRAM, error_us=error) for error in (0.0, 1.0))
    assert math.log(part.high_us / 10) ** 2 == pytest.approx(math.log(whole.high_us / 10) ** 2 + 0.1**2)


def test_limiters_by_hand_made_launches() -> None:
    asm = Asm()
    for _ in range(1000):
        asm.op(PipeClass.FMA, 1)
    assert simulate(build(asm.exit(), 2, 1024), GPU).bound.limiter == Limiter.PIPE
    assert simulate(build(Asm().exit()), GPU).bound.limiter == Limiter.LAUNCH
    chain = Asm()
    for i in range(40):
        chain.load(lambda b, w, i=i: ((1 << 30) + 65536 * i, 0), barrier=0, wait_mask=1)
    assert simulate(build(chain.exit(wait_mask=1), mask=1), GPU).bound.limiter == Limiter.LATENCY


def test_results_print_their_interval() -> None:
    result = simulate(build(Asm().op(PipeClass.FMA).exit()), GPU)
    (launch,) = result.launches
    text = f"{launch.time_us:.3g} us ({launch.interval.low_us:.3g} to {launch.interval.high_us:.3g})"
    assert str(launch) == f"{launch.kernel}: {text}" and text in str(result) and text in result._repr_html_()
    assert replace(launch, spec=None).interval is None
    assert time_text(12.94, Interval(11.61, 14.42, 80.0, "")) == "12.9 us (11.6 to 14.4)"


def test_the_command_line_prints_it_in_every_form(capsys: pytest.CaptureFixture[str]) -> None:
    def shell(*words: str) -> str:
        assert cli.run(["simulate", "saxpy", "--small", *words]) == 0
        return capsys.readouterr().out

    document = json.loads(shell("--format", "json"))
    assert document["time_us_low"] < document["time_us"] < document["time_us_high"]
    assert document["interval_level_percent"] == 80 and document["interval_basis"]
    (launch,) = document["launches"]
    assert launch["time_us_low"] == pytest.approx(document["time_us_low"])
    text = shell()
    assert f"({document['time_us_low']:.3g} to {document['time_us_high']:.3g})" in text
    rows = json.loads(shell("--gpu", "h200", "--gpu", "t4", "--format", "json"))
    assert all(row["time_us_low"] < row["time_us_high"] for row in rows)
