"""The decomposition of gaps: terms add up to the gap, and the unit that was made dearer is the one that is named."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.compare.case_simulator import EMPTY_LAUNCH, CaseSimulator
from gpusim.compare.error import Verdict
from gpusim.compare.gap import (
    LEAST_FACTOR,
    MOST_FACTOR,
    ROWS_A_UNIT,
    Decomposition,
    GapCase,
    UnitFinding,
    decompose,
    lasso,
    most_units,
    traffic_difference,
)
from gpusim.compare.join import LaunchFacts
from gpusim.compare.measured import compare_rows, parse_requests
from gpusim.compare.unit_costs import UNIT_COSTS, program_with_costs, with_costs
from gpusim.engine.gpu import simulate
from gpusim.errors import NoDataError
from gpusim.gpus.consistency import check_consistency
from gpusim.gpus.load import list_gpus, load_gpu
from gpusim.silicon.row import SiliconRow
from gpusim.trace.record import INSTRUCTION, Flag, PipeClass

UNITS = [unit.unit for unit in UNIT_COSTS]
#: Every launch of the stand-in for the simulator pays for every unit.
COUNTERS = {name: 1000.0 for unit in UNIT_COSTS for name in unit.traffic} | {
    "lts__t_requests.sum": 1.0,
    "sm__ctas_launched.sum": 1.0,
}


@dataclass(frozen=True)
class Code:
    """As much of a program as unit costs look at."""

    instructions: np.ndarray


class UnitCostsAlone:
    """Stands in for a case simulator: a launch's cycles are what it uses of each unit, times the unit's cost."""

    def __init__(self, use: np.ndarray) -> None:
        self.use = use
        code = np.zeros(1, INSTRUCTION)
        code["pipe"], code["flags"] = PipeClass.LSU, Flag.BARRIER_WAIT
        self._trace = SimpleNamespace(program=Code(code))

    def cycles(self, _row, launch, _clock_hz, costs=()) -> float:
        factors = np.ones(len(UNITS))
        for unit, factor in costs:
            factors[UNITS.index(unit)] *= factor
        return float(self.use[launch.index] @ factors)

    def simulate(self, launch, _state, _clock_hz, costs=()):
        return SimpleNamespace(counters=COUNTERS, cycles=self.cycles(None, launch, 0, costs))

    def trace(self, _launch):
        return self._trace


def case(index: int, measured: float, counters=()) -> GapCase:
    launch = LaunchFacts("k", "", index, "k", (1, 1, 1), (1, 1, 1), "")
    return GapCase(SiliconRow("k", counters=dict(counters)), launch, measured, 1e9)


uses = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.floats(0, 1000), min_size=len(UNITS), max_size=len(UNITS)), min_size=n, max_size=n)
)


@given(uses, st.data())
def test_terms_and_residual_add_up_to_the_gap(use, data) -> None:
    use = np.array(use) + 1.0
    simulator = UnitCostsAlone(use)
    measured = [data.draw(st.floats(10, 1e5)) for _ in use]
    counted = {"dram__bytes_read.sum": data.draw(st.floats(0, 5000))}
    found = decompose([case(i, m, counted) for i, m in enumerate(measured)], simulator)
    for i, terms in enumerate(found.terms):
        assert sum(term.cycles for term in terms) == pytest.approx(use[i].sum() - measured[i], abs=1e-6)
        assert [term.kind for term in terms].count("residual") == 1 and terms[-1].name == "residual"
    assert all(LEAST_FACTOR <= finding.factor <= MOST_FACTOR for finding in found.findings)


@settings(max_examples=15)
@given(st.sampled_from(UNITS), st.sampled_from([0.6, 1.4, 2.0]), st.integers(0, 99))
def test_one_cost_that_differs_is_found_and_leaves_no_residual(unit, factor, seed) -> None:
    use = np.random.default_rng(seed).exponential(100, (12, len(UNITS))) + 1
    simulator = UnitCostsAlone(use)
    cases = [case(i, simulator.cycles(None, case(i, 1).launch, 0, ((unit, factor),))) for i in range(12)]
    found = decompose(cases, simulator)
    assert [f.unit for f in found.findings] == [unit]
    assert found.findings[0].factor == pytest.approx(factor, rel=0.01)
    assert found.mape_after_percent < 0.2 and unit in found.sentence


def test_one_launch_alone_names_its_alternatives() -> None:
    found = decompose([case(0, 3000.0)], UnitCostsAlone(np.full((1, len(UNITS)), 150.0)))
    assert found.findings and found.findings[0].alternatives


def test_no_more_units_are_named_than_the_launches_can_tell_apart() -> None:
    use = np.random.default_rng(3).exponential(100, (12, len(UNITS))) + 1
    simulator = UnitCostsAlone(use)
    costs = (("L2 latency", 2.0), ("issue", 1.6), ("barriers", 0.5), ("launch overhead", 1.8))
    cases = [case(i, simulator.cycles(None, case(i, 1).launch, 0, costs)) for i in range(12)]
    for rows, most in ((1, 1), (2, 1), (3, 1), (6, 2), (12, 4)):
        found = decompose(cases[:rows], simulator)
        assert most_units(rows) == most and len(found.findings) <= most
        assert ("too few" in found.sentence) == (rows < ROWS_A_UNIT)
        assert ("Silicon behaves" in found.sentence) == (rows >= ROWS_A_UNIT)
    assert len(found.findings) == 4
    assert "2 launches are too few" in decompose(cases[:2], simulator).sentence
    assert "One launch is too few" in decompose(cases[:1], simulator).sentence
    repeats = decompose([cases[0]] * 12, simulator)
    assert len(repeats.findings) <= 1 and "One launch is too few" in repeats.sentence


def test_without_a_gap_nothing_is_named() -> None:
    use = 10.0 + np.arange(3 * len(UNITS)).reshape(3, -1) % 7
    found = decompose([case(i, use[i].sum()) for i in range(3)], UnitCostsAlone(use))
    assert not found.findings and "No cost" in found.sentence
    assert all(terms[-1].cycles == pytest.approx(0) for terms in found.terms)


def test_costs_that_explain_next_to_nothing_are_not_silicons() -> None:
    finding = UnitFinding("L2 latency", 2.21, ("barriers",))
    assert "Silicon behaves as if L2 latency x 2.21" in Decomposition((finding,), (), 20.0, 17.9, 5).sentence
    assert "No cost of a unit explains the gaps" in Decomposition((finding,), (), 37.9, 36.8, 5).sentence


def test_more_traffic_on_silicon_is_a_term_of_its_own() -> None:
    use = np.full((1, len(UNITS)), 100.0)
    (terms,) = decompose([case(0, use.sum() + 20, {"dram__bytes_read.sum": 1200.0})], UnitCostsAlone(use)).terms
    assert ("DRAM bandwidth", "traffic", pytest.approx(-20)) in [(t.name, t.kind, t.cycles) for t in terms]
    assert traffic_difference(("a", "b"), {"a": 10, "b": 0}, {"a": 11, "b": 2, "c": 5}) == pytest.approx(0.3)
    assert traffic_difference(("a",), {"a": 0}, {"a": 5}) == 0


@given(st.integers(0, 999), st.floats(0.001, 0.1))
def test_the_lasso_leaves_no_better_step(seed, penalty) -> None:
    random = np.random.default_rng(seed)
    slopes, target = random.normal(size=(8, 5)), random.normal(size=8)
    costs = penalty * np.sqrt((slopes**2).mean(axis=0))

    def loss(x: np.ndarray) -> float:
        return float(((target - slopes @ x) ** 2).mean() / 2 + costs @ np.abs(x))

    x = lasso(slopes, target, penalty)
    for unit in range(5):
        for step in (-1e-3, 1e-3):
            moved = x.copy()
            moved[unit] = np.clip(moved[unit] + step, LEAST_FACTOR - 1, MOST_FACTOR - 1)
            assert loss(moved) >= loss(x) - 1e-9


@pytest.mark.parametrize("gpu", list_gpus())
def test_every_dial_turns_every_gpu_into_one_that_can_be_simulated(gpu) -> None:
    spec = load_gpu(gpu)
    for unit in UNIT_COSTS:
        for factor in (0.5, 1 + unit.step, 3.0):
            check_consistency(with_costs(spec, ((unit.unit, factor),)), unit.unit)
        dearer = with_costs(spec, ((unit.unit, 1 + unit.step),))
        free = unit.unit == "issue" or (unit.unit == "address translation" and spec.tlb.miss_ns == 0)
        assert (dearer == spec) == free, unit.unit
        assert with_costs(spec, ((unit.unit, 1.0),)) == spec


def test_the_issue_dial_lengthens_stall_counts_within_their_field() -> None:
    code = np.zeros(4, INSTRUCTION)
    code["stall_cycles"] = 0, 1, 4, 15
    program = Code(code)
    assert program_with_costs(program, (("issue", 2.0),)).instructions["stall_cycles"].tolist() == [0, 2, 8, 15]
    assert program_with_costs(program, (("issue", 0.25),)).instructions["stall_cycles"].tolist() == [0, 1, 1, 4]


def test_a_secretly_slower_l2_is_found_out(secret_rows) -> None:
    compared = compare_rows([], secret_rows, load_gpu("h200"), measured_as="h200", why=True)
    assert len(compared.entries) == len(secret_rows) and not compared.uncompared
    assert all(entry.joined_by == "cubin" and not entry.note for entry in compared.entries)
    verdicts = {entry.name.split(",")[0]: entry.verdict for entry in compared.entries}
    assert verdicts["pointer_chase:buffer_kib=1024"] == Verdict.FASTER
    assert verdicts["pipe_latency:op=ffma"] == Verdict.SAME
    assert [finding.unit for finding in compared.gap.findings] == ["L2 latency"], compared.gap
    assert compared.gap.findings[0].factor > 1.2
    assert compared.gap.mape_after_percent < compared.gap.mape_before_percent / 3
    for entry in compared.entries:
        gap = entry.simulated_cycles - entry.measured.median
        assert sum(term.cycles for term in entry.terms) == pytest.approx(gap, abs=1e-6)


def test_the_same_machine_has_no_gap_and_other_counters_are_a_finding(secret_rows) -> None:
    honest = load_gpu("h200")
    secret = replace(honest, l2=replace(honest.l2, hit_latency_ns=2 * honest.l2.hit_latency_ns))
    (row,) = [row for row in secret_rows if row.kernel == "saxpy"]
    lying = replace(
        row, counters={**row.counters, "smsp__inst_executed.sum": 2 * row.counters["smsp__inst_executed.sum"]}
    )
    cold = replace(row, cache="cold")
    clocked = replace(cold, sm_clock_mhz=row.sm_clock_mhz / 2)
    compared = compare_rows([("saxpy", None)], [row, lying, cold, clocked], secret, measured_as="h200")
    same, odd, empty, slow = compared.entries
    assert same.verdict == odd.verdict == Verdict.SAME and same.judgement.error_percent == 0
    assert not same.finding and "smsp__inst_executed.sum -50 %" in odd.finding
    assert slow.simulated_cycles < empty.simulated_cycles  # DRAM is fewer cycles away at half the clock
    described = compare_rows([("saxpy", None)], [clocked], secret, measured_as="h200", keeps_clock=False)
    assert described.entries[0].simulated_cycles == empty.simulated_cycles


def test_what_was_asked_for_and_not_measured_is_said(secret_rows) -> None:
    requests = parse_requests(["pair", "softmax"], {"pair": [("saxpy", {"n": 4096}), ("saxpy", {"n": 99})]})
    compared = compare_rows(requests, secret_rows, load_gpu("h200"), measured_as="h200")
    assert [entry.name for entry in compared.entries] == ["saxpy:n=4096,block_threads=256"]
    reasons = {missing.name.split(",")[0]: missing.reason for missing in compared.uncompared}
    assert reasons == {
        "softmax:rows=512": "nobody has measured this kernel here",
        "saxpy:n=99": "no measured row fits this launch",
    }
    with pytest.raises(NoDataError, match="no measured row is of a100_80gb; there are 5 rows of h200"):
        compare_rows([], secret_rows, load_gpu("a100_80gb"), measured_as="a100_80gb")


def test_a_time_net_of_an_empty_launch_is_compared_without_launch_overhead(secret_rows, tmp_path) -> None:
    simulator = CaseSimulator(load_gpu("h200"), tmp_path)
    (launch,) = simulator.add("saxpy", {"n": 4096})
    row = next(row for row in secret_rows if row.kernel == "saxpy")
    net = replace(row, counters={EMPTY_LAUNCH: 2.0})
    overhead = simulator.spec.launch.start_cycles + simulator.spec.launch.end_cycles
    assert simulator.cycles(row, launch, 1e9) - simulator.cycles(net, launch, 1e9) == overhead > 0


def test_caches_are_in_the_state_that_the_row_states(tmp_path) -> None:
    simulator, clock = CaseSimulator(load_gpu("h200"), tmp_path), 1e9
    (launch,) = simulator.add("saxpy", {"n": 4096})
    once, again = simulate([simulator.trace(launch)] * 2, simulator.machine(clock)).launches
    assert again.cycles < once.cycles
    assert [simulator.simulate(launch, state, clock).cycles for state in ("alone", "warm")] == [
        once.cycles,
        again.cycles,
    ]
    swept = simulator.simulate(launch, "cold", clock)  # its code is there, its data are not
    assert again.cycles < swept.cycles < once.cycles
    assert swept.counters["dram__bytes_read.sum"] == once.counters["dram__bytes_read.sum"]
    fetched = {
        name: (once.stalls.get(name, 0), swept.stalls.get(name, 0)) for name in ("no_instruction", "long_scoreboard")
    }
    assert fetched["no_instruction"][1] < 0.2 * fetched["no_instruction"][0]
    (chase,) = simulator.add("pointer_chase", {"buffer_kib": 1024, "loads": 192})
    alone, cold = (simulator.simulate(chase, state, clock).cycles for state in ("alone", "cold"))
    assert cold < 0.7 * alone  # its preparation has walked the buffer before
