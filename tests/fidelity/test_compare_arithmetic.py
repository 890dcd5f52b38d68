"""The comparison's own arithmetic: errors, means, verdicts, steady-state rates, exit codes."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.commands.compare_options import CompareOptions, verdict_code
from gpusim.commands.compare_published import _failure_code
from gpusim.compare.baseline import Change
from gpusim.compare.error import ComparedPoint, Evidence, Verdict, by_evidence, summarise
from gpusim.compare.replay import steady_cycles_per_block
from gpusim.compare.run import Comparison, select
from gpusim.errors import NoDataError, UnknownKernelError


def rows(*errors: float, unit: str = "GB/s") -> list[ComparedPoint]:
    return [ComparedPoint("g", "s", f"i={i}", unit, 100.0 + e, 100.0) for i, e in enumerate(errors)]


def test_the_error_is_signed_and_relative_to_silicon() -> None:
    assert ComparedPoint("g", "s", "p", "GB/s", 90.0, 120.0).error_percent == pytest.approx(-25.0)


def test_a_record_has_exactly_the_promised_keys() -> None:
    assert list(rows(3.0)[0].record()) == [
        "gpu",
        "series",
        "point",
        "unit",
        "simulated",
        "measured",
        "error_percent",
        "fitted",
    ]


@pytest.mark.parametrize(
    ("errors", "unit", "verdict"),
    [
        ((2, -3, 4), "GB/s", Verdict.SAME),
        ((30, 20), "GB/s", Verdict.FASTER),
        ((30, 20), "cycles/load", Verdict.SLOWER),
        ((-30, -20), "GB/s", Verdict.SLOWER),
        ((-30, -20), "cycles/load", Verdict.FASTER),
        ((40, -40), "GB/s", Verdict.AMBIGUOUS),
        ((), "GB/s", Verdict.NO_DATA),
    ],
)
def test_the_verdict_says_which_way_the_simulator_leans(errors, unit, verdict) -> None:
    summary = summarise("g", "s", rows(*errors, unit=unit))
    assert summary.verdict == verdict
    assert summary.reason
    assert summary.points == len(errors)


def test_means_are_means() -> None:
    summary = summarise("g", "s", rows(10, -20, 60))
    assert (summary.mape_percent, summary.bias_percent) == (pytest.approx(30), pytest.approx(50 / 3))
    assert math.isnan(summarise("g", "s", []).mape_percent)


def test_what_was_fitted_and_what_was_held_out_are_summed_up_apart() -> None:
    held = [ComparedPoint("g", "t", f"i={i}", "GB/s", 100.0 + e, 100.0, fitted=False) for i, e in enumerate((30, -10))]
    assert by_evidence([*rows(4), *held]) == [
        Evidence(True, 1, 1, pytest.approx(4)),
        Evidence(False, 1, 2, pytest.approx(20)),
    ]
    assert [part.fitted for part in by_evidence(held)] == [False]
    assert (summarise("g", "s", rows(4)).fitted, summarise("g", "t", held).fitted) == (True, False)
    assert summarise("g", "s", [*rows(4), *held]).fitted, "one fitted point, and the series predicts nothing"


@given(
    resident=st.integers(1, 20),
    waves=st.integers(3, 8),
    interval=st.integers(1, 1000),
    start=st.integers(0, 10**6),
)
def test_a_steady_stream_of_blocks_gives_its_interval(resident, waves, interval, start) -> None:
    ends = start + interval * np.arange(resident * waves)
    assert steady_cycles_per_block(SimpleNamespace(block_end_cycles=ends), resident) == pytest.approx(interval)


def test_blocks_in_lockstep_give_the_wave_time_divided_by_the_blocks() -> None:
    ends = np.repeat(1000 + 500 * np.arange(5), 8)
    ends[-8:] += 10_000  # a slow tail must not count
    assert steady_cycles_per_block(SimpleNamespace(block_end_cycles=ends), 8) == pytest.approx(500 / 8)


def test_too_few_blocks_for_a_steady_state_are_no_data() -> None:
    with pytest.raises(NoDataError):
        steady_cycles_per_block(SimpleNamespace(block_end_cycles=np.arange(4)), 4)


def test_selecting_nothing_is_an_error_and_never_an_empty_success() -> None:
    with pytest.raises(UnknownKernelError):
        select(["saxpi"], ["h200"])
    with pytest.raises(NoDataError, match="nothing is published for saxpy"):
        select(["saxpy"], ["h200"])
    with pytest.raises(NoDataError, match="pointer_chase"):
        select(["pointer_chase"], ["h200"])


def test_a_what_if_and_an_heir_are_laid_beside_the_gpu_that_they_start_from(tmp_path) -> None:
    heir = tmp_path / "heir.toml"
    heir.write_text('inherits = "a100_80gb"\nsm_count = { value = 54, kind = "guess", source = "half an A100" }\n')
    groups = select(["l1_stride"], ["a100_80gb", str(heir)], settings=["l1.hit_latency_cycles=40"])
    names = [candidate.spec.name for candidate, _ in groups]
    assert names == ["a100_80gb[l1.hit_latency_cycles=40]", "heir[l1.hit_latency_cycles=40]"]
    for candidate, points in groups:
        assert candidate.measured_as == "a100_80gb" and candidate.spec.l1.hit_latency_cycles == 40
        assert points and all(point.gpu == "a100_80gb" for point in points)


def test_all_points_selects_the_whole_curve() -> None:
    few, every = (sum(len(points) for _, points in select([], ["a100_80gb"], all_points=a)) for a in (False, True))
    assert few < 100 < every


@pytest.mark.parametrize(
    ("verdict", "check", "strict", "code"),
    [
        (Verdict.SAME, True, True, 0),
        (Verdict.SLOWER, False, False, 0),
        (Verdict.SLOWER, True, False, 1),
        (Verdict.FASTER, True, True, 1),
        (Verdict.AMBIGUOUS, True, False, 0),
        (Verdict.AMBIGUOUS, True, True, 4),
    ],
)
def test_exit_codes_follow_the_contract(verdict, check, strict, code) -> None:
    assert verdict_code(options(check, strict), [Verdict.SAME, verdict], None) == code


def options(check: bool, strict: bool) -> CompareOptions:
    return CompareOptions((), (), "", (), 10.0, 0.0, False, check or strict, strict, "", "", None, None, None, "table")


def test_with_a_baseline_only_what_has_become_worse_counts() -> None:
    known, new = (Change("k", None, None, worse, "") for worse in (False, True))
    assert verdict_code(options(True, False), [Verdict.SLOWER], [known]) == 0
    assert verdict_code(options(True, False), [Verdict.SLOWER], [known, new]) == 1
    assert verdict_code(options(False, False), [Verdict.SLOWER], [known, new]) == 0


def test_a_series_that_failed_is_never_success(capsys) -> None:
    assert _failure_code(Comparison(rows(1.0), [], {("g", "s"): (5, "unsupported")})) == 5
    assert "unsupported" in capsys.readouterr().err
    assert _failure_code(Comparison(rows(1.0), [], {})) == 0
    with pytest.raises(NoDataError):
        _failure_code(Comparison([], [], {}))
