"""Do prediction intervals hold for what they were not made from, are they what the residuals make, and do they say
where they were not validated?"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hand_traces import Asm, build, small_gpu
from validation.coverage import LEFT_OUT, chance_percent, held, judged_by, left_out, settled_rule, share_percent, unsure
from validation.held_out import HELD_OUT, held_out, like_of
from validation.intervals import (
    LEVEL,
    calibration,
    class_of,
    factor_of,
    gpu_of,
    is_validated,
    own_factor,
    rows_at,
    set_of,
    weights_of,
)
from validation.residuals import Residual, load_residuals
from write_intervals import document, missed

from gpusim import cli
from gpusim.engine.gpu import simulate
from gpusim.engine.result import time_text
from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.trace.record import PipeClass
from gpusim.uncertainty import interval
from gpusim.uncertainty.interval import Interval, interval_of
from gpusim.uncertainty.limiters import CLASSES, TENSOR, Limiter
from gpusim.uncertainty.table import DATASHEET, FITTED, row_of, table, widest

GPU = small_gpu(sm_count=2)
#: What the shares of left-out sets may differ from the level: they are known from some ten sets, of which one more or
#: less is worth this much.
SLACK_PERCENT = 10.0


def residual(
    series: str, error: float, kind: str = FITTED, limiter: str = "DRAM", gpu: str = "h200", **other
) -> Residual:
    return Residual("published", kind, gpu, series, "n=1", limiter, 1, "", math.exp(error), **other)


def row_for(rows: list[Residual], limiter: str, kind: str = FITTED) -> dict:
    (found,) = [row for row in rows_at(rows) if (row["kind"], row["limiter"]) == (kind, limiter)]
    return found


def half(rows: list[Residual], pool: list[Residual] | None = None, pool_sets: float = 4) -> float:
    return math.log(factor_of(rows, pool or [], pool_sets))


def test_a_factor_by_hand() -> None:
    # Four sets weigh alike, whatever their rows: errors of 0.1, 0.2, 0.1 and 0.3, of which 80 % of the weight lie
    # within 0.3. Student's t at 0.9 with 4 degrees of freedom is 1.5332, the normal distribution's quantile 1.2816.
    rows = [residual("a", 0.1), *[residual("b", -0.2)] * 5, *[residual("c", 0.1)] * 3, *[residual("d", 0.3)] * 3]
    rows += [residual("a", -0.1)] * 2
    assert half(rows) == pytest.approx(1.5332 / 1.2816 * 0.3, rel=1e-4)
    # Of a single set it is 3.0777: one set says little of the next.
    assert half(rows[1:6]) == pytest.approx(3.0777 / 1.2816 * 0.2, rel=1e-4)


def test_few_rows_that_are_far_off_do_not_widen_what_holds_all_others() -> None:
    """Errors of heavy tails: a mean square, times what a normal distribution needs, would hold more than the level
    says."""
    random = np.random.default_rng(3)
    many = [residual(f"{i}", error) for i, error in enumerate(0.05 * random.standard_t(2, 4000)) for _ in range(3)]
    width, sizes = half(many[::2]), np.array([row.size for row in many])
    assert np.mean(sizes <= width) == pytest.approx(LEVEL, abs=0.015)
    assert 1.2816 * math.sqrt(np.mean(sizes**2)) > 1.3 * width


def test_points_kernels_and_gpus_of_a_set_count_as_one() -> None:
    streams = [residual(f"stream_{n}", 0.4, gpu=gpu) for n in ("read", "scale") for gpu in ("h200", "a40", "l40")]
    streams += [residual("stencil3", 0.4)]
    assert {set_of(row) for row in streams} == {"streams and stencils"}
    rest = [residual(name, 0.1) for name in "bcdef" * 3]
    assert half([*streams, *rest]) == pytest.approx(half([*streams[:3], *rest]))
    external = [replace(residual(f"kernels {n}", 0.1), source="kernels") for n in "ab"]
    assert {set_of(row) for row in external} == {"kernels"}


def test_a_set_of_one_row_has_a_third_of_the_weight() -> None:
    rows = [residual(name, 0.1) for name in "ab" * 3] + [residual("c", 0.5)]
    assert weights_of(rows).tolist() == pytest.approx([1 / 3] * 7)
    assert half([*rows, *rows[-1:] * 2]) > half(rows) > 0.1
    assert not is_validated([residual("a", 0.1)] * 3 + [residual("b", 0.1)] * 2)
    assert is_validated([residual("a", 0.1)] * 3 + [residual("b", 0.1)] * 3)


def test_a_class_of_few_sets_leans_on_all_launches_of_its_kind() -> None:
    own, rest = [residual(name, 0.3) for name in "ab" * 3], [residual(name, 0.1) for name in "cdefgh" * 3]
    alone, leaning, whole = half(own), half(own, rest), half(own, rest, 100)
    assert alone > leaning > whole > half(rest)
    # No more weight than all launches have: of a single set one.
    assert half(own, rest[::6], 4) == half(own, rest[::6], 1)


def test_new_sets_lie_within_as_often_as_the_level_says() -> None:
    """Sets whose points err alike: the next one's points lie within in 80 % of the cases, of classes known from few
    sets and from many."""
    random = np.random.default_rng(5)

    def points(name: str, limiter: str) -> list[Residual]:
        common = random.normal(0, 0.1)
        return [residual(name, common + random.normal(0, 0.03), limiter=limiter) for _ in range(random.integers(1, 20))]

    shares: dict[str, list[float]] = {"DRAM": [], "L2": []}
    for _ in range(200):
        made = rows_at([row for i in range(8) for row in points(str(i), "DRAM" if i % 3 else "L2")])
        for limiter, found in shares.items():
            found.append(float(np.mean([each.inside for each in judged_by(made, points("new", limiter))])))
    for found in shares.values():
        assert LEVEL - 0.06 <= np.mean(found) <= LEVEL + 0.08


def test_few_sets_take_those_of_all_gpus_and_say_so() -> None:
    own = [residual(name, 0.1) for name in "abcd" * 3]
    made = row_for(own, "DRAM")
    assert {**made, "factor": 0} == {
        "kind": FITTED, "limiter": "DRAM", "factor": 0, "basis": "DRAM-bound on fitted GPUs", "coarser": False, "sets": 4, "kernels": 4, "series": 4, "points": 12,
    }  # fmt: skip
    rest = row_for(own + [residual(name, 0.3, limiter="L1") for name in "eee"], "L1")
    assert rest["coarser"] and rest["sets"] == 1 and rest["factor"] == pytest.approx(math.exp(0.3), abs=1e-3)
    sheet = [residual(name, 0.5, kind=DATASHEET, gpu="a40") for name in "abcd" * 3]
    leaning = row_for(own[::4] + sheet, "DRAM")
    assert leaning["basis"] == "DRAM-bound on all GPUs" and leaning["series"] == 5


def test_the_table_is_what_the_residuals_make() -> None:
    made = document(load_residuals())
    assert made == table(), "run tools/write_intervals.py"
    assert {(row["kind"], row["limiter"]) for row in made["rows"]} == {
        (k, each) for k in (FITTED, DATASHEET) for each in CLASSES
    }
    assert all(row["factor"] > 1 for row in made["rows"])


@cache
def capability_of(gpu: str) -> str:
    return "{}.{}".format(*load_gpu(gpu).capability)


def test_a_capability_whose_measurements_lie_outside_is_not_called_validated() -> None:
    # Six sets on two capabilities agree within 3 %; a third one's, of other sets, are a factor of two off.
    alike = [residual(name, 0.03, gpu=gpu) for name in "abcdef" for gpu in ("a40", "l40")]
    of = {"a40": "8.6", "l40": "8.9", "t4": "7.5"}
    assert missed([*alike, *(residual(name, 0.7, gpu="t4") for name in "gh")], of) == ["7.5"]
    assert missed([*alike, *(residual(name, 0.03, gpu="t4") for name in "gh")], of) == []


@pytest.mark.parametrize("name", LEFT_OUT)
def test_intervals_hold_for_rows_that_they_were_not_made_from(name: str) -> None:
    known = calibration(load_residuals())
    parts, part = LEFT_OUT[name]
    judged = left_out(known, *parts, rule=settled_rule(table()["rows"]))
    shares = {(each.kind, each.limiter): each for each in held(judged, part)}
    for kind in (FITTED, DATASHEET, "all"):
        assert shares[kind, "all"].inside_parts_percent >= 100 * LEVEL - 2, (name, shares[kind, "all"])
    # What a capability is said not to be validated for is no promise.
    promised = [each for each in judged if capability_of(each.row.gpu) not in table()["missed"]]
    kept = {(each.kind, each.limiter): each for each in held(promised, part)}
    for limiter in {row["limiter"] for row in table()["rows"] if not row["coarser"]}:
        found = kept["all", limiter]
        assert found.inside_parts_percent >= chance_percent(found.parts), (name, found)
    for limiter in {class_of(row) for row in known}:
        found = shares["all", limiter]
        assert found.inside_parts_percent >= min(100 * LEVEL - SLACK_PERCENT, chance_percent(found.parts)), (
            name,
            found,
        )


def test_a_class_whose_sets_lie_outside_is_not_validated() -> None:
    # Many sets agree within 3 %; of three of another limiter half of the rows are a factor of 1.8 off, outside of what
    # all others say. Of the capability of those nothing is promised.
    of = {"h200": "9.0", "a40": "8.6"}
    near = [residual(name, 0.03) for name in "abcdefghijklmnopqrstuvw" for _ in range(3)]
    known = [*near, *(residual(name, error, limiter="L1", gpu="a40") for name in "xyz" for error in (0.03, 0.6) * 2)]
    assert unsure(known, [], of) == {"L1"} and unsure(known, ["8.6"], of) == set()
    sure, settled = (
        {(row["kind"], row["limiter"]): row["coarser"] for row in rows_at(known, unsure=left)} for left in ((), {"L1"})
    )
    assert not sure[FITTED, "L1"] and settled[FITTED, "L1"]


def test_what_few_sets_miss_by_chance_is_not_held_against_them() -> None:
    """Nine of ten classes of intervals that hold at the level are called so, known from five sets or from forty."""
    random = np.random.default_rng(7)
    for sets in (5, 40):
        shares = 100 * random.binomial(sets, LEVEL, 4000) / sets
        assert 0.88 <= np.mean(shares >= chance_percent(sets)) <= 0.96
    assert chance_percent(10) < chance_percent(40) < 100 * LEVEL


def test_held_out_rows_judge_no_interval_that_they_made() -> None:
    rows = [residual(name, 0.01) for name in "abcd"] + [residual("far", 2.0)]
    judged = {each.row.series: each.inside for each in left_out(rows, set_of)}
    assert judged["far"] is False and judged["a"] is True


def test_with_set_and_gpu_left_out_neither_is_among_the_rows_that_judge() -> None:
    rows = [residual(name, 0.1, gpu=gpu) for name in "abc" for gpu in ("a40", "l40")] * 3
    seen = []
    left_out(
        rows, set_of, gpu_of, rule=lambda rest: seen.append({(set_of(r), gpu_of(r)) for r in rest}) or rows_at(rest)
    )
    assert seen[0] == {("b", "l40"), ("c", "l40")} and len(seen) == 6


def test_the_score_charges_width_and_misses() -> None:
    (within, beyond) = judged_by(rows_at([residual(n, 0.1) for n in "abcd" * 3]), [residual("new", 0.0), residual("new", 0.5)])  # fmt: skip
    width = 2 * math.log(within.factor)
    assert within.score == pytest.approx(width)
    assert beyond.score == pytest.approx(width + 10 * (0.5 - width / 2))
    assert share_percent([within, beyond], set_of) == 50


def test_a_class_with_too_few_sets_is_told_the_widest_factor() -> None:
    many = [residual(n, 0.1) for n in "abcdefgh" * 3] + [residual(n, 0.4, limiter="L1") for n in "qrst" * 3]
    assert row_for(many, "L2")["coarser"]
    assert row_for(many, "L2")["factor"] == row_for(many, "L1")["factor"] > row_for(many, "DRAM")["factor"]
    assert row_for(many, "L2")["basis"] == "L1-bound on fitted GPUs, which err most"
    judged = list(judged_by(rows_at(many), [residual("new", error, limiter="L2") for error in (0.1, 3.0)]))
    assert [each.inside for each in judged] == [True, False]


def test_tensor_cores_are_a_class_of_their_own_whatever_limits_them() -> None:
    many = [residual(n, 0.1) for n in "abcdefgh" * 3]
    on_tensor = [residual("deep", 0.5, tensor="FP8")] * 4
    made = row_for([*many, *on_tensor], TENSOR)
    assert made["coarser"] and made["factor"] == pytest.approx(math.exp(0.5), abs=1e-3)
    assert made["basis"] == "on tensor cores, on all GPUs" and made["sets"] == 1
    assert row_for([*many, *on_tensor], "DRAM")["points"] == 24
    assert row_for(many, TENSOR)["factor"] == row_for(many, "DRAM")["factor"]
    assert own_factor(on_tensor) == pytest.approx(math.exp(0.5))


def test_a_datasheet_is_nowhere_surer_than_a_fitted_description() -> None:
    rows = [residual(n, 0.5) for n in "abcd" * 3] + [residual(n, 0.1, kind=DATASHEET, gpu="a40") for n in "abcd" * 3]
    assert row_for(rows, "DRAM", DATASHEET)["factor"] == row_for(rows, "DRAM")["factor"] > math.exp(0.5)


def test_what_is_looked_at_last_or_was_fitted_makes_no_interval() -> None:
    rows = [replace(residual("a", 0.1), half="final"), replace(residual("b", 0.1), held_out=0), residual("c", 0.1)]
    assert [row.series for row in calibration(rows)] == ["c"]


def test_a_gpu_is_held_out_with_all_that_its_curves_set() -> None:
    made, own = held_out("a40"), load_gpu("a40")
    assert made.name == "a40_datasheet" and like_of("a40") == "l40"
    # Fitted on the A40 itself, and inherited by the L40 that it is described like.
    assert made.dram.read_write_turnaround_ns != own.dram.read_write_turnaround_ns
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
        (interval_of(10.0, spec, Limiter.DRAM, formats=["INT8"]), "INT8"),
        (interval_of(10.0, spec, Limiter.DRAM, devices=2), "several GPUs"),
        (interval_of(10.0, spec, Limiter.DRAM, chained=True), "programmatic"),
        (interval_of(10.0, spec, Limiter.LAUNCH), "too few launch-bound"),
    ):
        assert what in " ".join(other.outside) and other.high_us == pytest.approx(10 * most)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"sm_count": 140}, ""),
        ({"sm_count": 288}, "sm_count 288 is above every described GPU's, of which the most is 188"),
        ({"clock_hz": 0.9e9}, "clock_hz 900000000 is below every described GPU's, of which the least is 1.41e+09"),
        ({"dram": 22_000.0}, "dram.peak_bytes_per_ns 22000 is above every described GPU's, of which the most is 8000"),
    ],
)
def test_a_made_up_gpu_beyond_all_that_are_described_is_not_called_validated(changes: dict, said: str) -> None:
    spec = load_gpu("h200")
    if "dram" in changes:
        changes = {"dram": replace(spec.dram, peak_bytes_per_ns=changes["dram"])}
    mine = interval_of(10.0, replace(spec, name="mine", **changes), Limiter.SHARED)
    assert "; ".join(mine.outside) == said and (mine.high_us == pytest.approx(10 * widest()["factor"])) == bool(said)


def test_described_gpus_are_read_until_two_have_a_made_up_one_between_them(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    monkeypatch.setattr(interval, "load_gpu", lambda name: (read.append(name), load_gpu(name))[1])
    interval._sizes_of.cache_clear()
    spec = load_gpu("h200")
    interval_of(10.0, replace(spec, name="mine"), Limiter.DRAM)
    assert 2 <= len(read) <= len(list_gpus()) // 2
    interval_of(10.0, replace(spec, name="mine", sm_count=1), Limiter.DRAM)
    assert sorted(read) == sorted(list_gpus())  # each once: the least of all is named


@pytest.mark.parametrize(
    ("gpu", "format"),
    [("v100", "F16"), ("t4", "INT8"), ("b200", "F16"), ("rtx5090", "FP4"), ("a100_80gb", "TF32"), ("h200", "INT8")],
)
def test_what_has_no_row_says_so(gpu: str, format: str) -> None:
    spec = load_gpu(gpu)
    capability = "{}.{}".format(*spec.capability)
    said = "; ".join(interval_of(10.0, spec, Limiter.PIPE, formats=[format]).outside)
    assert f"tensor cores for {format} on compute capability {capability}" in said
    plain = "; ".join(interval_of(10.0, spec, Limiter.DRAM).outside)
    assert ("nothing was measured on compute capability" in plain) == (capability not in table()["architectures"])
    assert ("fewer than four of five measurements" in plain) == (capability in table()["missed"])


def test_what_sampling_claims_widens_an_interval_as_independent_errors_do() -> None:
    spec = load_gpu("h200")
    whole, part = (interval_of(10.0, spec, Limiter.DRAM, error_us=error) for error in (0.0, 1.0))
    # It claims 95 %: at the interval's 80 % that is 1.2816 / 1.96 of it.
    claimed = math.log(1.1) * 1.2816 / 1.96
    assert math.log(part.high_us / 10) ** 2 == pytest.approx(math.log(whole.high_us / 10) ** 2 + claimed**2)
    errors = np.random.default_rng(0).normal(0, [[math.log(whole.high_us / 10) / 1.2816], [math.log(1.1) / 1.96]], (2, 50000)).sum(0)  # fmt: skip
    assert np.mean(np.abs(errors) <= math.log(part.high_us / 10)) == pytest.approx(LEVEL, abs=0.01)


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
