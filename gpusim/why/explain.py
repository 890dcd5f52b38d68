"""Name what limits a launch, and prove it: re-simulate with each unit made free, and print what that saves.

Mental model: the limiter is the unit whose removal saves most. Lower bounds say how far even a perfect
schedule could go: a launch near its highest bound is limited by that unit's rate; one far above all
bounds waits for latencies.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpusim.engine.gpu import simulate
from gpusim.engine.result import Result
from gpusim.errors import LaunchError
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import task
from gpusim.theory.bounds import lower_bounds
from gpusim.trace.record import Trace
from gpusim.why.counterfactuals import COUNTERFACTUALS, Counterfactual

#: Below this share of the time, a saving is not called a limiter.
LIMITER_PERCENT = 2.0
#: Kernels of a run that are named.
MOST_NAMED = 4


@dataclass(frozen=True)
class CounterfactualResult:
    """``unit`` made free (``how``): the cycles that the launches then take, and what that saves."""

    unit: str
    how: str
    cycles: int
    saved_cycles: int
    saved_percent: float


@dataclass(frozen=True)
class Explanation:
    """``findings`` by falling savings; ``least_cycles``: unit -> lower bound, by falling bound;
    ``sentence`` names the limiter."""

    cycles: int
    findings: tuple[CounterfactualResult, ...]
    least_cycles: dict[str, float]
    sentence: str


def explain(
    traces: Sequence[Trace],
    spec: GpuSpec,
    result: Result,
    *,
    warm: Sequence[Trace] = (),
    sample: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> Explanation:
    """Explain ``result``, which is ``simulate(traces, spec, warm=warm, sample=sample)``.

    Each counterfactual costs one more simulation; ``progress`` gets a line for each. Raises as
    :func:`gpusim.engine.gpu.simulate` does.
    """
    chosen = [e for e in COUNTERFACTUALS if e.applies(result.counters, traces)]
    findings = []
    with task("explaining", len(chosen), "units made free") as shown:
        for number, counterfactual in enumerate(chosen, 1):
            finding = _try(counterfactual, traces, spec, result, warm, sample)
            if finding is not None:
                findings.append(finding)
                progress(f"{finding.unit}: {finding.cycles} cycles")
            shown.to(number)
    findings.sort(key=lambda finding: -finding.saved_cycles)
    least = least_cycles(traces, spec, cold=not warm)
    return Explanation(result.cycles, tuple(findings), least, _sentence(result, findings, least))


def kernels_text(result: Result) -> str:
    """The kernels of a run in order, each once with how often: ``softmax, saxpy x 2``; the first few of many."""
    counts = Counter(launch.kernel for launch in result.launches)
    texts = [name if count == 1 else f"{name} x {count}" for name, count in counts.items()]
    more = [f"{len(texts) - MOST_NAMED} more"] if len(texts) > MOST_NAMED else []
    return ", ".join([*texts[:MOST_NAMED], *more])


def least_cycles(traces: Sequence[Trace], spec: GpuSpec, cold: bool) -> dict[str, float]:
    """Lower bounds by unit, added up over the launches; only a first cold launch must read DRAM."""
    least: dict[str, float] = {}
    for index, trace in enumerate(traces):
        for unit, cycles in lower_bounds(trace, spec, cold=cold and index == 0).cycles.items():
            least[unit] = least.get(unit, 0.0) + cycles
    return dict(sorted(least.items(), key=lambda item: -item[1]))


def _try(
    counterfactual: Counterfactual,
    traces: Sequence[Trace],
    spec: GpuSpec,
    result: Result,
    warm: Sequence[Trace],
    sample: bool,
) -> CounterfactualResult | None:
    """What the counterfactual saves; None where the machine has nothing to change."""
    freed, changed = counterfactual.gpu(spec, traces), counterfactual.traces(traces, spec)
    same = all(a.program is b.program and a.launch == b.launch for a, b in zip(changed, traces, strict=True))
    if freed == spec and same:
        return None
    try:
        launches = simulate(changed, freed, warm=warm, sample=sample).launches
    except LaunchError:
        return None  # the changed machine could not hold the launch (a cooperative grid, for one)
    cycles = sum(
        counterfactual.cycles(launch.cycles, old, new, spec)
        for launch, old, new in zip(launches, traces, changed, strict=True)
    )
    saved = result.cycles - cycles
    return CounterfactualResult(counterfactual.unit, counterfactual.how, cycles, saved, 100.0 * saved / result.cycles)


def _sentence(result: Result, findings: Sequence[CounterfactualResult], least: dict[str, float]) -> str:
    kernels, (is_, its) = kernels_text(result), ("is", "its") if len(result.launches) == 1 else ("are", "their")
    unit, bound = next(iter(least.items()))
    room = f"the highest lower bound ({unit}, {bound:.0f} cycles) is {100.0 * bound / result.cycles:.0f} % of it"
    best = findings[0] if findings else None
    if best is None or best.saved_percent < LIMITER_PERCENT:
        most = f"{best.unit} would save {max(0.0, best.saved_percent):.1f} %" if best else "nothing could be made free"
        return f"{kernels} on {result.gpu}: no single unit limits {its} {result.cycles} cycles ({most}); {room}."
    text = (
        f"{kernels} on {result.gpu} {is_} limited most by {best.unit}: with it free ({best.how}), "
        f"{its} {result.cycles} cycles would be {best.cycles}, {best.saved_percent:.1f} % less"
    )
    second = next((f for f in findings[1:] if f.saved_percent >= max(LIMITER_PERCENT, best.saved_percent / 2)), None)
    if second is not None:
        text += f"; {second.unit} alone would save {second.saved_percent:.1f} %"
    return f"{text}; {room}."
