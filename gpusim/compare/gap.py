"""Where the gap between simulated and measured cycles comes from: named terms that add up to it, and a residual.

Mental model: if silicon's costs differ from the description's (an L2 twice as slow), then all launches are off, each by
as much as it uses that unit. So: raise each unit's cost a little and simulate again (how many cycles does this launch
pay for that unit?), then look for the *few* cost changes, common to all launches, that explain all gaps together.

What is known, and what is attribution:

- *Known*: each ``cost`` term is a difference of two simulations, one with the unit's cost as described and one with the
  cost found; they are taken one after another (the units in the machine's order), so nothing is counted twice.
- *Attribution*: that the costs found are silicon's. They are the sparsest explanation (a lasso, then two Gauss-Newton
  steps on the units that it names); ``alternatives`` lists units that would explain the gaps nearly as well. No more
  units are named than the launches can tell apart, one for each :data:`ROWS_A_UNIT`; with fewer launches than that the
  sentence says so. Rows that pay for every unit alike, as repeats of one launch do, count as one.
- ``traffic`` terms are attribution too: where a counter was measured, its relative difference, at what the simulation
  says the unit costs.
- ``residual`` is the gap less all terms: what no cost explains. Terms and residual add up to the gap exactly.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.compare.case_simulator import CaseSimulator, Costs, cache_state
from gpusim.compare.join import LaunchFacts
from gpusim.compare.unit_costs import UNIT_COSTS, UnitCost
from gpusim.io.progress import task
from gpusim.silicon.row import SiliconRow

#: A cost change must explain about this much of a launch to be worth naming (the lasso's penalty). A guess.
PENALTY_PERCENT = 1.0
#: Costs are looked for within these factors of the described ones.
LEAST_FACTOR, MOST_FACTOR = 0.25, 5.0
#: Changes smaller than this are not named.
NAMED_PERCENT = 3.0
MOST_UNITS = 4
#: Launches that it takes to name one unit: with fewer, some other unit explains them as well. A guess.
ROWS_A_UNIT = 3
#: A unit can stand in for a named one if, with it, the mean error left grows by no more than this many percent of the
#: cycles.
ALTERNATIVE_PERCENT = 1.0
#: Differences of traffic below this are not given a cost.
TRAFFIC_PERCENT = 2.0
#: Share of the mean error that costs explain at least for silicon to be said to behave so; below it they are no more
#: than what a fit of noise finds.
LEAST_EXPLAINED_SHARE = 0.1
_STEPS, _SWEEPS = 2, 500


@dataclass(frozen=True)
class GapCase:
    """One launch with a measured time: ``measured`` cycles, ``clock_hz`` of the measurement."""

    row: SiliconRow
    launch: LaunchFacts
    measured: float
    clock_hz: float


@dataclass(frozen=True)
class Term:
    """``cycles`` of a gap (simulated - measured; negative: silicon takes longer here than the model says)."""

    name: str
    kind: str  # "cost", "traffic" or "residual"
    cycles: float


@dataclass(frozen=True)
class UnitFinding:
    """A cost that differs: ``factor`` of the described one; ``alternatives`` explain the gaps nearly as well."""

    unit: str
    factor: float
    alternatives: tuple[str, ...]


@dataclass(frozen=True)
class Decomposition:
    """``terms`` of each case in order, the residual last; mean absolute errors of the cycles in percent, as described
    and with the costs found; ``launches``: how many of the cases differ in what they pay for."""

    findings: tuple[UnitFinding, ...]
    terms: tuple[tuple[Term, ...], ...]
    mape_before_percent: float
    mape_after_percent: float
    launches: int

    @property
    def sentence(self) -> str:
        """The findings in words; of too few launches, that they are too few."""
        rows = self.launches
        # Repeats of a launch name no unit, but can show that there is no gap.
        if rows < ROWS_A_UNIT and (self.findings or len(self.terms) < ROWS_A_UNIT):
            one = "One launch is" if rows == 1 else f"{rows} launches are"
            return f"{one} too few to tell which unit's cost differs ({ROWS_A_UNIT} for one unit): {self._candidates()}"
        if not self.findings:
            return "No cost of a unit explains the gaps: what there is of them is residual."
        found = ", ".join(
            f"{f.unit} x {f.factor:.2f}" + (f" (or {' or '.join(f.alternatives)})" if f.alternatives else "")
            for f in self.findings
        )
        before, after = self.mape_before_percent, self.mape_after_percent
        if after > (1.0 - LEAST_EXPLAINED_SHARE) * before:
            return (
                f"No cost of a unit explains the gaps: with the best, {found}, the mean error is {after:.1f} % in place "
                f"of {before:.1f} %. What there is of them is residual, or a mistake of the measurement."
            )
        return f"Silicon behaves as if {found}: with that, the mean error falls from {before:.1f} % to {after:.1f} %."

    def _candidates(self) -> str:
        if not self.findings:
            return "no single unit's cost explains the gaps."
        (only,) = self.findings
        others = f"; so would {' or '.join(only.alternatives)}" if only.alternatives else ""
        return f"{only.unit} x {only.factor:.2f} would explain them as far as one unit can{others}."


def most_units(rows: int) -> int:
    """Units whose cost so many launches can tell apart: one at the least, to have a candidate."""
    return min(MOST_UNITS, max(1, rows // ROWS_A_UNIT))


def decompose(cases: Sequence[GapCase], simulator: CaseSimulator) -> Decomposition:
    """Decompose the gaps of all cases together. Each case is simulated again about once a unit that it uses."""
    measured = np.array([case.measured for case in cases])
    base = _cycles(cases, simulator, ())
    slopes = np.zeros((len(cases), len(UNIT_COSTS)))  # cycles for a whole cost more
    with task("finding what each unit costs", len(UNIT_COSTS), "units") as shown:
        for column, unit in enumerate(UNIT_COSTS):
            slopes[:, column] = _slopes(cases, simulator, unit, base)
            shown.to(column + 1)
    traffic = [_traffic(case, simulator, slopes[i]) for i, case in enumerate(cases)]
    gap = measured - base - np.array([sum(t.values()) for t in traffic])
    changes = lasso(slopes / measured[:, None], gap / measured, PENALTY_PERCENT / 100)
    different = len(np.unique(np.round(slopes / measured[:, None], 3), axis=0))
    # The units that explain most cycles; a large factor of a cost that no launch pays much for explains none.
    explained = np.abs(changes) * np.abs(slopes / measured[:, None]).mean(axis=0)
    chosen = sorted(np.argsort(-explained)[: most_units(different)])
    chosen = [int(u) for u in chosen if abs(changes[u]) >= NAMED_PERCENT / 100]
    target = measured - np.array([sum(t.values()) for t in traffic])
    with task("fitting the costs"):
        factors = _refine(cases, simulator, chosen, 1 + changes[chosen], target, measured)
    kept = [i for i, factor in enumerate(factors) if abs(factor - 1) >= NAMED_PERCENT / 100]
    costs = tuple((UNIT_COSTS[chosen[i]].unit, float(factors[i])) for i in kept)
    with task("splitting the gaps over the costs"):
        terms, after = _sequential_terms(cases, simulator, costs, base, traffic)
    spare = slopes / measured[:, None]
    findings = tuple(
        UnitFinding(unit, factor, _alternatives(spare, gap / measured, unit, costs)) for unit, factor in costs
    )
    left = after + np.array([sum(t.values()) for t in traffic])
    return Decomposition(
        findings,
        tuple(terms),
        float(100 * np.abs(base / measured - 1).mean()),
        float(100 * np.abs(left / measured - 1).mean()),
        different,
    )


def _cycles(cases: Sequence[GapCase], simulator: CaseSimulator, costs: Costs) -> np.ndarray:
    return np.array([simulator.cycles(case.row, case.launch, case.clock_hz, costs) for case in cases])


def _slopes(cases: Sequence[GapCase], simulator: CaseSimulator, unit: UnitCost, base: np.ndarray) -> np.ndarray:
    """Cycles that each case would take more at twice the cost of the unit, from a small step."""
    costs = ((unit.unit, 1 + unit.step),)
    slopes = np.zeros(len(cases))
    for i, case in enumerate(cases):
        counters = simulator.simulate(case.launch, cache_state(case.row)[0], case.clock_hz).counters
        if unit.applies(counters, simulator.trace(case.launch)):
            slopes[i] = (simulator.cycles(case.row, case.launch, case.clock_hz, costs) - base[i]) / unit.step
    return slopes


def _traffic(case: GapCase, simulator: CaseSimulator, slopes: np.ndarray) -> dict[str, float]:
    """Unit -> cycles that silicon takes more because it moves more than the model, at the model's cost."""
    simulated = simulator.simulate(case.launch, cache_state(case.row)[0], case.clock_hz).counters
    terms = {}
    for unit, slope in zip(UNIT_COSTS, slopes, strict=True):
        more = traffic_difference(unit.traffic, simulated, case.row.counters)
        if slope > 0 and abs(more) >= TRAFFIC_PERCENT / 100:
            terms[unit.unit] = float(slope * np.clip(more, LEAST_FACTOR - 1, MOST_FACTOR - 1))
    return terms


def traffic_difference(names: Sequence[str], simulated: Mapping[str, float], measured: Mapping[str, float]) -> float:
    """By how much (0.1: a tenth) more was counted than simulated, over the counters that both sides have."""
    both = [name for name in names if name in simulated and name in measured]
    model = sum(simulated[name] for name in both)
    return sum(measured[name] for name in both) / model - 1 if model > 0 else 0.0


def lasso(slopes: np.ndarray, target: np.ndarray, penalty: float) -> np.ndarray:
    """The sparse ``x`` with ``slopes @ x`` near ``target``, each ``1 + x`` within the allowed factors.

    ``slopes`` float64[cases, units] and ``target`` float64[cases], both relative to the measured cycles. Minimises
    half the mean square of what is left plus ``penalty`` x the mean absolute contribution of each unit, so that a unit
    pays for the cycles that it explains and not for the step of its cost (cyclic coordinate descent).
    """
    rows, units = slopes.shape
    x = np.zeros(units)
    norms = (slopes**2).sum(axis=0) / rows
    penalties = penalty * np.sqrt(norms)
    left = target.astype(float).copy()
    for _ in range(_SWEEPS):
        before = x.copy()
        for u in range(units):
            if norms[u] < 1e-8:  # no launch uses this unit
                continue
            gradient = slopes[:, u] @ left / rows + norms[u] * x[u]
            new = np.sign(gradient) * max(0.0, abs(gradient) - penalties[u]) / norms[u]
            new = float(np.clip(new, LEAST_FACTOR - 1, MOST_FACTOR - 1))
            left -= slopes[:, u] * (new - x[u])
            x[u] = new
        if np.abs(x - before).max() < 1e-9:
            break
    return x


def _refine(
    cases: Sequence[GapCase],
    simulator: CaseSimulator,
    chosen: Sequence[int],
    factors: np.ndarray,
    target: np.ndarray,
    measured: np.ndarray,
) -> np.ndarray:
    """Gauss-Newton on the chosen units with real simulations: latencies overlap, so cycles are not linear in costs."""
    units = [UNIT_COSTS[u] for u in chosen]
    best, best_error = np.ones(len(units)), float("inf")
    for step in range(_STEPS + 1):
        if not units:
            break
        costs = _named(units, factors)
        here = _cycles(cases, simulator, costs)
        left = (target - here) / measured
        error = float((left**2).mean())
        if error < best_error:
            best, best_error = factors, error
        if step == _STEPS:
            break
        slopes = np.empty((len(cases), len(units)))
        for column, unit in enumerate(units):
            moved = factors.copy()
            moved[column] *= 1 + unit.step
            slopes[:, column] = (_cycles(cases, simulator, _named(units, moved)) - here) / (unit.step * factors[column])
        scaled = slopes / measured[:, None]
        # A little ridge keeps two units that act alike from running away in opposite directions.
        ridge = 1e-4 * np.eye(len(units))
        change = np.linalg.solve(scaled.T @ scaled + ridge, scaled.T @ left)
        factors = np.clip(factors + change, LEAST_FACTOR, MOST_FACTOR)
    return best


def _named(units: Sequence[UnitCost], factors: np.ndarray) -> Costs:
    return tuple((unit.unit, float(factor)) for unit, factor in zip(units, factors, strict=True))


def _sequential_terms(
    cases: Sequence[GapCase],
    simulator: CaseSimulator,
    costs: Costs,
    base: np.ndarray,
    traffic: Sequence[dict[str, float]],
) -> tuple[list[tuple[Term, ...]], np.ndarray]:
    """Terms of each case, and the cycles with all costs changed: one unit after another, so that sums are exact."""
    stages = [base] + [_cycles(cases, simulator, costs[: k + 1]) for k in range(len(costs))]
    terms = []
    for i, case in enumerate(cases):
        of_case = [Term(unit, "cost", float(stages[k][i] - stages[k + 1][i])) for k, (unit, _) in enumerate(costs)]
        of_case += [Term(unit, "traffic", -cycles) for unit, cycles in traffic[i].items()]
        gap = float(base[i] - case.measured)
        of_case.append(Term("residual", "residual", gap - sum(term.cycles for term in of_case)))
        terms.append(tuple(of_case))
    return terms, stages[-1]


def _alternatives(slopes: np.ndarray, gap: np.ndarray, unit: str, costs: Costs) -> tuple[str, ...]:
    """Units that would explain the gaps nearly as well in the place of ``unit``, by straight lines."""
    names = [cost.unit for cost in UNIT_COSTS]
    others = [names.index(name) for name, _ in costs if name != unit]
    with_it = _error_left(slopes[:, [*others, names.index(unit)]], gap)
    found = []
    for candidate, name in enumerate(names):
        if name == unit or candidate in others or not slopes[:, candidate].any():
            continue
        if _error_left(slopes[:, [*others, candidate]], gap) <= with_it + ALTERNATIVE_PERCENT / 100:
            found.append(name)
    return tuple(found)


def _error_left(slopes: np.ndarray, gap: np.ndarray) -> float:
    """Mean absolute relative error that is left by the best changes within the allowed factors."""
    return float(np.abs(gap - slopes @ lasso(slopes, gap, 0.0)).mean())
