"""Two samples of timings: symmetric verdicts, few false alarms, slowdowns found, and figures as SciPy computes them."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from gpusim.compare.error import Verdict
from gpusim.compare.noise import REGIMES, RecordedNoise, trials
from gpusim.compare.overall import spearman, summarise_pairs
from gpusim.compare.statistics import (
    LEAST_SAMPLES,
    Thresholds,
    compare_samples,
    mann_whitney_p,
    median_interval,
    oddities,
)
from gpusim.errors import NoDataError
from gpusim.silicon.row import SiliconRow
from gpusim.silicon.rows import append_rows

OPPOSITE = {Verdict.SLOWER: Verdict.FASTER, Verdict.FASTER: Verdict.SLOWER}
times = st.lists(st.floats(1, 1e4), min_size=LEAST_SAMPLES, max_size=60)
seeds = st.integers(0, 2**32 - 1)


def normal(seed: int, n: int = 60, level: float = 100.0, jitter: float = 0.01) -> np.ndarray:
    return level * np.exp(np.random.default_rng(seed).normal(0, jitter, n))


@given(times, times, st.booleans())
def test_swapping_the_samples_swaps_faster_and_slower_and_nothing_else(a, b, interleaved) -> None:
    there, back = compare_samples(a, b, interleaved=interleaved), compare_samples(b, a, interleaved=interleaved)
    assert back.verdict == OPPOSITE.get(there.verdict, there.verdict)
    assert there.ratio * back.ratio == pytest.approx(1)
    assert (there.low * back.high, there.high * back.low) == (pytest.approx(1), pytest.approx(1))
    assert there.low <= there.ratio * (1 + 1e-12) and there.ratio <= there.high * (1 + 1e-12)
    assert there.p_value == pytest.approx(back.p_value)


@given(times, times, st.floats(0.01, 100))
def test_the_unit_of_time_does_not_matter(a, b, scale) -> None:
    plain, scaled = compare_samples(a, b), compare_samples(np.multiply(a, scale), np.multiply(b, scale))
    assert scaled.ratio == pytest.approx(plain.ratio) and scaled.low == pytest.approx(plain.low)


@given(times)
def test_a_sample_is_not_slower_than_itself(a) -> None:
    assert compare_samples(a, a).verdict not in (Verdict.FASTER, Verdict.SLOWER)


@given(seeds)
def test_a_tail_that_grows_is_not_a_slower_kernel(seed) -> None:
    base, head = normal(seed), normal(seed + 1)
    head[::5] *= 1.3  # a fifth of the launches was interrupted
    assert compare_samples(base, head).verdict != Verdict.SLOWER


@given(seeds, st.sampled_from([0.9, 1.1]))
def test_a_tenth_is_always_found(seed, factor) -> None:
    expected = Verdict.SLOWER if factor > 1 else Verdict.FASTER
    assert compare_samples(normal(seed), factor * normal(seed + 1)).verdict == expected


def test_few_samples_and_small_absolute_shifts_confirm_nothing() -> None:
    few = compare_samples([1.0] * 3, [2.0] * 3)
    assert few.verdict == Verdict.AMBIGUOUS and "fewer than" in few.reason
    short = compare_samples(normal(1, level=2.0), 1.1 * normal(2, level=2.0), Thresholds(least_us=0.5))
    assert short.verdict == Verdict.SAME and "below 0.5 us" in short.reason


@pytest.mark.parametrize("bad", [[], [1.0, 0.0], [1.0, -2.0], [float("nan")]])
def test_what_is_no_sample_of_times_is_refused(bad) -> None:
    with pytest.raises(NoDataError, match="head"):
        compare_samples([1.0, 2.0], bad)


def test_a_and_a_is_silent_and_three_percent_are_found(capsys) -> None:
    figures = {}
    for interleaved in (False, True):
        for slowdown in (0.0, 3.0):
            drawn = trials(REGIMES, 200, slowdown_percent=slowdown, interleaved=interleaved, seed=7)
            figures[interleaved, slowdown] = Counter(
                compare_samples(t.base_us, t.head_us, interleaved=t.interleaved).verdict for t in drawn
            )
    alarms = {i: 200 - figures[i, 0.0][Verdict.SAME] - figures[i, 0.0][Verdict.AMBIGUOUS] for i in (False, True)}
    found = {i: figures[i, 3.0][Verdict.SLOWER] for i in (False, True)}
    with capsys.disabled():
        for interleaved, how in ((False, "in two runs"), (True, "in turns")):
            print(
                f"\nmeasured {how}: {alarms[interleaved] / 2:.1f} % false alarms of 200 A/A comparisons, "
                f"{found[interleaved] / 2:.1f} % of 200 slowdowns of 3 % found"
            )
    assert max(alarms.values()) <= 2 and min(found.values()) >= 190
    assert figures[False, 3.0][Verdict.FASTER] == figures[True, 3.0][Verdict.FASTER] == 0


def test_recorded_noise_takes_the_place_of_the_assumed_one() -> None:
    recording = normal(3, 200, level=7.0)
    noise = RecordedNoise.of([recording, [1.0] * 4])
    (trial,) = trials([noise], 1, slowdown_percent=5.0)
    base = trial.base_us / np.median(trial.base_us)
    assert np.isin(np.round(base / base[0], 9), np.round(np.divide.outer(recording, recording), 9)).all()
    assert np.median(trial.head_us) / np.median(trial.base_us) == pytest.approx(1.05, abs=0.02)
    with pytest.raises(NoDataError):
        RecordedNoise.of([[1.0] * 4])


def test_what_is_odd_about_a_sample_is_said() -> None:
    quiet = normal(5, 100, jitter=0.002)
    assert oddities(quiet) == []
    assert "drift of +2" in oddities(quiet * np.linspace(1, 1.03, 100))[0]
    hopping = quiet * np.where(np.arange(100) // 10 % 2, 1.05, 1.0)
    assert any("two states 5.0 % apart" in note for note in oddities(hopping))
    shuffled = np.random.default_rng(0).permutation(hopping)
    assert any("two modes 5.0 % apart" in note for note in oddities(shuffled))
    struck = quiet.copy()
    struck[[3, 50]] *= 1.5
    assert any("2 outliers" in note for note in oddities(struck))


values = st.lists(st.integers(1, 12).map(float), min_size=3, max_size=30)


@given(values, values)
def test_the_rank_test_is_scipys(a, b) -> None:
    reference = scipy.stats.mannwhitneyu(a, b, method="asymptotic").pvalue
    expected = 1.0 if np.isnan(reference) else reference
    assert mann_whitney_p(np.array(a), np.array(b)) == pytest.approx(expected, abs=1e-9)


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(1, 9)), min_size=3, max_size=30))
def test_the_rank_correlation_is_scipys(pairs) -> None:
    a, b = zip(*pairs, strict=True)
    if len(set(a)) == 1 or len(set(b)) == 1:
        assert np.isnan(spearman(a, b))
    else:
        assert spearman(a, b) == pytest.approx(scipy.stats.spearmanr(a, b).statistic, abs=1e-12)


def test_the_interval_of_a_median_holds_it_as_often_as_it_says() -> None:
    random = np.random.default_rng(11)
    held = sum(low <= 1.0 <= high for _, low, high in (median_interval(random.lognormal(0, 1, 41)) for _ in range(400)))
    assert 0.93 <= held / 400 <= 0.99


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=20), st.floats(0.5, 2))
def test_a_uniformly_biased_model_has_that_bias_in_all_figures(measured, factor) -> None:
    overall = summarise_pairs([factor * m for m in measured], measured, 10.0)
    assert overall.geometric_mean_ratio == pytest.approx(factor)
    assert overall.bias_percent == pytest.approx(100 * (factor - 1), abs=1e-9)
    assert overall.mape_percent == pytest.approx(abs(100 * (factor - 1)), abs=1e-9)
    assert np.isnan(summarise_pairs([], [], 10.0).mape_percent)


def test_the_tool_prints_how_often_each_verdict_is_given(tmp_path) -> None:
    rows = tmp_path / "rows.jsonl"
    append_rows(rows, [SiliconRow("saxpy", samples_us=tuple(normal(seed, 64))) for seed in (1, 2)])
    main = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "verdict_power.py"))["main"]
    printed = CliRunner().invoke(main, ["--rows", str(rows), "--count", "4", "--slowdown", "0", "--slowdown", "9", "--format", "json"])
    figures = {(r["measured"], r["slowdown_percent"]): r for r in json.loads(printed.output)}
    assert len(figures) == 4 and {r["noise"] for r in figures.values()} == {"recorded"}
    assert all(r["slower_percent"] == (100 if slowdown else 0) for (_, slowdown), r in figures.items())
