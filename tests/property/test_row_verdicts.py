"""A measured row against simulated cycles: the interval decides, both ways alike; counters must agree too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.compare.baseline import Line, against_baseline, lines_document, read_lines
from gpusim.compare.case_simulator import cache_state
from gpusim.compare.counters import compare_counters, wrong_reason
from gpusim.compare.error import Summary, Verdict
from gpusim.compare.judge import ASSUMED_INTERVAL_PERCENT, KnownError, Tolerance, judge, measured_cycles
from gpusim.compare.known_error import known_errors
from gpusim.compare.stalls import stall_metrics, stall_split
from gpusim.errors import UsageError
from gpusim.silicon.row import Estimate, SiliconRow
from tools.record_model_error import error_document, write_document

cycles = st.floats(1, 1e7)
OPPOSITE = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
STRICT = Tolerance(10.0, 0.0)


@given(cycles, cycles, st.floats(0, 50), st.floats(0, 100))
def test_the_verdict_is_symmetric(simulated, measured, percent, absolute) -> None:
    tolerance = Tolerance(percent, absolute)
    there = judge(simulated, Estimate(measured, measured, measured), tolerance)
    back = judge(measured, Estimate(simulated, simulated, simulated), tolerance)
    ratio = max(simulated, measured) / min(simulated, measured)
    if abs(ratio - (1 + percent / 100)) > 1e-9 and abs(abs(simulated - measured) - absolute) > 1e-6:
        assert back.verdict == OPPOSITE.get(there.verdict, there.verdict)


@given(cycles, st.floats(0, 0.3), st.floats(0.5, 2.0))
def test_confirmed_only_if_the_whole_interval_says_so(measured, half, factor) -> None:
    estimate = Estimate(measured, measured * (1 - half), measured * (1 + half))
    verdict = judge(factor * measured, estimate, STRICT).verdict
    ends = {judge(factor * measured, Estimate(m, m, m), STRICT).verdict for m in (estimate.low, estimate.high)}
    if verdict in OPPOSITE:
        assert ends == {verdict}
    if verdict == Verdict.SAME:
        assert ends == {Verdict.SAME}
    if verdict == Verdict.AMBIGUOUS:
        assert len(ends) > 1


@pytest.mark.parametrize(
    ("simulated", "verdict"),
    [
        (1000, Verdict.SAME),
        (1070, Verdict.SAME),
        (1120, Verdict.AMBIGUOUS),
        (1200, Verdict.SLOWER),
        (800, Verdict.FASTER),
    ],
)
def test_verdicts_by_example(simulated, verdict) -> None:
    judgement = judge(simulated, Estimate(1000, 980, 1030), STRICT)
    assert judgement.verdict == verdict and judgement.reason
    assert judgement.error_percent == pytest.approx((simulated - 1000) / 10)


def test_a_known_error_a_small_launch_and_a_spoilt_clock_are_no_divergence() -> None:
    measured = Estimate(1000, 990, 1010)
    assert judge(1200, measured, STRICT).verdict == Verdict.SLOWER
    known = judge(1200, measured, STRICT, KnownError(30.0, "of published x"))
    assert known.verdict == Verdict.SAME and "of published x" in known.reason and known.allowed_percent == 30
    small = judge(1200, measured, Tolerance(10.0, 250.0))
    assert small.verdict == Verdict.SAME and small.reason.endswith("within 250 cycles")
    # 9.5 % too fast is more than a factor of 1.1, and is not called beyond 10 %.
    fast = judge(905, Estimate(1000, 1000, 1000), STRICT)
    assert fast.verdict == Verdict.FASTER and fast.reason.endswith("all of it beyond a factor of 1.100")
    spoilt = judge(1200, measured, STRICT, flags=("throttled",))
    assert spoilt.verdict == Verdict.AMBIGUOUS and "throttled" in spoilt.reason


def test_a_rows_cycles_are_its_own_or_its_time_at_its_clock() -> None:
    time = Estimate(2.0, 1.9, 2.2)
    own = SiliconRow("k", cycles=Estimate(50, 49, 51), time_us=time, sm_clock_mhz=1000.0)
    assert measured_cycles(own, 1.0) == (Estimate(50, 49, 51), "")
    timed, note = measured_cycles(SiliconRow("k", time_us=time, sm_clock_mhz=1000.0), 1.0)
    assert timed == Estimate(2000, 1900, 2200) and not note
    assumed, note = measured_cycles(SiliconRow("k", time_us=Estimate(2, 2, 2)), 1500.0)
    assert assumed.median == 3000 and assumed.high == pytest.approx(3000 * (1 + ASSUMED_INTERVAL_PERCENT / 100))
    assert "1500 MHz" in note and "no interval" in note
    sampled, _ = measured_cycles(SiliconRow("k", samples_us=(1.0, 2.0, 3.0, 2.0), sm_clock_mhz=100.0), 1.0)
    assert sampled.median == 200 and sampled.low < 200 < sampled.high
    assert measured_cycles(SiliconRow("k"), 1.0)[0] is None
    wrong, why = measured_cycles(SiliconRow("k", time_us=time, flags=("wrong_result",)), 1.0)
    assert wrong is None and "wrong result" in why


@pytest.mark.parametrize(
    ("method", "cache", "state", "assumed"),
    [
        ("ncu", "", "alone", True),
        ("ncu", "cold", "alone", False),
        ("ncu", "warm", "warm", False),
        ("events", "cold", "cold", False),
        ("imported", "", "warm", True),
    ],
)
def test_the_cache_state_is_the_rows_and_what_is_assumed_is_said(method, cache, state, assumed) -> None:
    found, note = cache_state(SiliconRow("k", method=method, cache=cache))
    assert found == state and bool(note) == assumed


def test_right_for_the_wrong_reason_is_a_finding() -> None:
    simulated = {
        "smsp__inst_executed.sum": 1000,
        "dram__bytes_read.sum": 1e6,
        "lts__t_sectors_op_read.sum": 50000,
        "mine": 1,
    }
    measured = {
        "smsp__inst_executed.sum": 1004,
        "dram__bytes_read.sum": 2e6,
        "lts__t_sectors_op_read.sum": 50400,
        "theirs": 1,
    }
    differences = {d.counter: d for d in compare_counters(simulated, measured)}
    assert set(differences) == set(simulated) & set(measured)
    assert [d.agrees for d in differences.values()] == [True, True, False]
    assert differences["dram__bytes_read.sum"].error_percent == -50
    assert "dram__bytes_read.sum -50 %" in wrong_reason(list(differences.values()))
    assert not wrong_reason(compare_counters(simulated, simulated))
    (few,) = compare_counters({"lts__t_sectors_op_read.sum": 0}, {"lts__t_sectors_op_read.sum": 500})
    assert few.agrees
    (exact,) = compare_counters({"smsp__inst_executed.sum": 10}, {"smsp__inst_executed.sum": 11})
    assert not exact.agrees


METRIC = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
stall_counts = st.fixed_dictionaries(
    {"selected": st.integers(1, 10**6)}, optional={r: st.integers(0, 10**6) for r in ("wait", "barrier")}
)


@given(cycles, stall_counts, cycles, st.dictionaries(st.sampled_from(["wait", "barrier", "drain"]), st.floats(0, 50)))
def test_a_gap_splits_over_stall_reasons_exactly_or_not_at_all(simulated, stalls, measured, ratios) -> None:
    counters = {METRIC.format(reason): ratio for reason, ratio in ratios.items()}
    split = stall_split(simulated, stalls, measured, counters)
    needed = {r for r, n in stalls.items() if n >= 0.02 * sum(stalls.values())}
    assert bool(split) == bool(ratios and needed <= {*ratios, "selected"})
    if split:
        assert sum(split.values()) == pytest.approx(simulated - measured, abs=1e-6 * (simulated + measured))


def test_equal_waiting_leaves_only_the_difference_of_issuing() -> None:
    stalls = {"selected": 100, "long_scoreboard": 300}
    counters = {METRIC.format("long_scoreboard"): 3.0, METRIC.format("long_scoreboard_not_issued"): 9.0}
    assert stall_metrics(stalls)[METRIC.format("long_scoreboard")] == 3.0
    assert stall_split(1000, stalls, 800, counters) == {"selected": 50, "long_scoreboard": 150}
    (difference,) = compare_counters(stall_metrics(stalls), counters)
    assert (
        difference.agrees
        and not compare_counters(stall_metrics(stalls), {METRIC.format("long_scoreboard"): 5.0})[0].agrees
    )


SAME, SLOWER = Verdict.SAME, Verdict.SLOWER


@pytest.mark.parametrize(
    ("before", "now", "worse"),
    [
        (Line("a", SAME, 3.0), Line("a", SLOWER, 12.0), True),
        (Line("a", SLOWER, 12.0), Line("a", SLOWER, 12.5), False),
        (Line("a", SLOWER, 12.0), Line("a", SLOWER, 20.0), True),
        (Line("a", SLOWER, 12.0), Line("a", SAME, 2.0), False),
        (Line("a", SAME, 1.0), Line("a", SAME, 9.0), False),
        (Line("b", SAME, 1.0), Line("a", SLOWER, 30.0), True),
    ],
)
def test_only_new_and_grown_divergences_are_worse_than_the_baseline(before, now, worse) -> None:
    changes = against_baseline([now], [before])
    assert changes[0].worse == worse and changes[0].reason
    assert len(changes) == (1 if before.key == now.key else 2)
    assert not against_baseline([], [before])[0].worse


@given(
    st.lists(
        st.builds(Line, st.text(max_size=9), st.sampled_from(list(Verdict)), st.floats(allow_infinity=False)),
        max_size=4,
    )
)
def test_lines_survive_their_json_form(lines) -> None:
    assert list(map(repr, read_lines(lines_document(lines), "here"))) == list(map(repr, lines))


@pytest.mark.parametrize(
    "bad",
    [
        None,
        3,
        [3],
        [{}],
        [{"key": 1, "verdict": "SAME", "error_percent": 1, "simulated": 1}],
        [{"key": "k", "verdict": "GREAT", "error_percent": 1, "simulated": 1}],
    ],
)
def test_a_document_that_is_no_comparison_is_refused(bad) -> None:
    with pytest.raises(UsageError, match="run 'x'"):
        read_lines(bad, "run 'x'")


def test_the_known_error_is_the_kernels_own_or_the_worst_of_its_gpu(tmp_path) -> None:
    summaries = [Summary("g", name, 3, mape, 0.0, SAME, "") for name, mape in (("saxpy", 4.0), ("l1_read", 12.0))]
    write_document(
        error_document([*summaries, Summary("g", "none", 0, float("nan"), 0.0, SAME, "")], "test"),
        tmp_path / "model_error.json",
    )
    known = known_errors("g", tmp_path)
    assert (known("saxpy").percent, known("softmax").percent) == (4.0, 12.0)
    assert "l1_read" in known("softmax").source and known_errors("other", tmp_path)("saxpy") is None
    (tmp_path / "model_error.json").write_text('{"gpus": {"g": {"saxpy": "much"}}}')
    with pytest.raises(UsageError, match="record_model_error"):
        known_errors("g", tmp_path)
