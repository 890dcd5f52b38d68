"""Name what limits a launch, and prove it: re-simulate with each unit made free, and print what that saves.

Mental model: the limiter is the unit whose removal saves most. A short launch may spend most of its time in its ramp
and its tail, so each part of it (:mod:`gpusim.why.phases`) has a limiter of its own, and the sentence names that of the
longest part first. Lower bounds say how far even a perfect schedule could go: a launch near its highest bound is
limited by that unit's rate; one far above all bounds waits for latencies. What a developer could change, and what that
would save, is :mod:`gpusim.why.advice`'s to say.
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
from gpusim.why.advice import Remedy, advise
from gpusim.why.counterfactuals import COUNTERFACTUALS, Counterfactual
from gpusim.why.phases import NAMES, Parts, find_parts

#: Below this share of the time, a saving is not called a limiter.
LIMITER_PERCENT = 2.0
#: Kernels of a run that are named.
MOST_NAMED = 4


@dataclass(frozen=True)
class CounterfactualResult:
    """``unit`` made free (``how``): the cycles that the launches then take, and what that saves; ``saved_by_part``: the
    same cycles by ramp, steady state and tail, where those are known."""

    unit: str
    how: str
    cycles: int
    saved_cycles: int
    saved_percent: float
    saved_by_part: tuple[float, ...] = ()


@dataclass(frozen=True)
class PartOfTime:
    """A part of the launches' time: ramp, steady state or tail, its ``cycles`` and their share of all; ``limiter``: the
    unit that saves most of it when made free (empty if none saves 2 % of the part), and what it saves of the part."""

    name: str
    cycles: float
    percent: float
    limiter: str
    saved_percent: float


@dataclass(frozen=True)
class Explanation:
    """``findings`` by falling savings; ``least_cycles``: unit -> lower bound, by falling bound;
    ``sentence`` names the limiter of the longest part; ``parts``: ramp, steady state and tail (empty for a sampled
    run);
    ``remedies``: what a developer could change, by falling savings, out of ``remedies_tried`` that were simulated."""

    cycles: int
    findings: tuple[CounterfactualResult, ...]
    least_cycles: dict[str, float]
    sentence: str
    parts: tuple[PartOfTime, ...] = ()
    remedies: tuple[Remedy, ...] = ()
    remedies_tried: int = 0


def explain(
    traces: Sequence[Trace],
    spec: GpuSpec,
    result: Result,
    *,
    warm: Sequence[Trace] = (),
    sample: bool = False,
    progress: Callable[[str], None] = lambda line: None,
) -> Explanation:
    """What limits ``result``, which is ``simulate(traces, spec, warm=warm, sample=sample)``: the launches are simulated
    again with one unit after another made free, and the saving of each is what that unit costs.

    Each counterfactual costs one more simulation, and so does a result without samples over time (``samples=True``);
    ``progress`` gets a line for each. Raises as :func:`gpusim.engine.gpu.simulate` does.
    """
    chosen = [e for e in COUNTERFACTUALS if e.applies(result.counters, traces)]
    launches = result.launches
    if not sample and any(launch.samples is None for launch in launches):
        launches = simulate(traces, spec, warm=warm, samples=True).launches
    parts = find_parts(launches)
    lengths = parts.cycles(launches) if parts else ()
    findings = []
    with task("explaining", len(chosen), "units made free") as shown:
        for number, counterfactual in enumerate(chosen, 1):
            finding = _try(counterfactual, traces, spec, result, warm, sample, parts, lengths)
            if finding is not None:
                findings.append(finding)
                progress(f"{finding.unit}: {finding.cycles} cycles")
            shown.to(number)
    findings.sort(key=lambda finding: -finding.saved_cycles)
    least = least_cycles(traces, spec, cold=not warm)
    shares = _parts(lengths, findings)
    advice = advise(traces, result, warm=warm, sample=sample, progress=progress)
    return Explanation(
        result.cycles,
        tuple(findings),
        least,
        _sentence(result, findings, least, shares),
        shares,
        advice.remedies,
        advice.tried,
    )


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
    parts: Parts | None,
    lengths: tuple[float, ...],
) -> CounterfactualResult | None:
    """What the counterfactual saves; None where the machine has nothing to change."""
    freed, changed = counterfactual.gpu(spec, traces), counterfactual.traces(traces, spec)
    same = all(
        a.program is b.program and a.launch == b.launch and a.chunk_list is b.chunk_list
        for a, b in zip(changed, traces, strict=True)
    )
    if freed == spec and same:
        return None
    try:
        launches = simulate(changed, freed, warm=warm, sample=sample, samples=parts is not None).launches
    except LaunchError:
        return None  # the changed machine could not hold the launch (a cooperative grid, for one)
    cycles = sum(
        counterfactual.cycles(launch.cycles, old, new, spec)
        for launch, old, new in zip(launches, traces, changed, strict=True)
    )
    saved = result.cycles - cycles
    by_part: tuple[float, ...] = ()
    if parts is not None:
        if any(a.launch.blocks != b.launch.blocks for a, b in zip(changed, traces, strict=True)):
            by_part = (0.0, 0.0, float(saved))  # a grid without its last wave: the tail is what it is about
        else:
            by_part = tuple(old - new for old, new in zip(lengths, parts.cycles(launches), strict=True))
    return CounterfactualResult(
        counterfactual.unit, counterfactual.how, cycles, saved, 100.0 * saved / result.cycles, by_part
    )


def _parts(lengths: tuple[float, ...], findings: Sequence[CounterfactualResult]) -> tuple[PartOfTime, ...]:
    """Ramp, steady state and tail, each with the unit that would save most of it."""
    every = sum(lengths) or 1.0
    parts = []
    for index, cycles in enumerate(lengths):
        best = max(findings, key=lambda finding, index=index: finding.saved_by_part[index], default=None)
        saved = 100.0 * best.saved_by_part[index] / cycles if best and cycles > 0 else 0.0
        limiter = best.unit if best and saved >= LIMITER_PERCENT else ""
        parts.append(PartOfTime(NAMES[index], cycles, 100.0 * cycles / every, limiter, saved if limiter else 0.0))
    return tuple(parts)


def _sentence(
    result: Result,
    findings: Sequence[CounterfactualResult],
    least: dict[str, float],
    parts: Sequence[PartOfTime],
) -> str:
    kernels, (is_, its) = kernels_text(result), ("is", "its") if len(result.launches) == 1 else ("are", "their")
    unit, bound = next(iter(least.items()))
    room = f"the highest lower bound ({unit}, {bound:.0f} cycles) is {100.0 * bound / result.cycles:.3g} % of it"
    best = findings[0] if findings else None
    longest = max(parts, key=lambda part: part.cycles, default=None)
    if longest is not None and longest.limiter:
        # What limits most of the time, not what saves most where it starts and ends.
        best = next(finding for finding in findings if finding.unit == longest.limiter)
    if best is None or max(best.saved_percent, longest.saved_percent if longest else 0.0) < LIMITER_PERCENT:
        most = f"{best.unit} would save {max(0.0, best.saved_percent):.3g} %" if best else "nothing could be made free"
        return f"{kernels} on {result.gpu}: no single unit limits {its} {result.cycles} cycles ({most}); {room}."
    where = f" in {its} {longest.name} ({longest.percent:.3g} % of the time)" if longest and longest.limiter else ""
    text = (
        f"{kernels} on {result.gpu} {is_} limited most by {best.unit}{where}: with it free ({best.how}), "
        f"{its} {result.cycles} cycles would be {best.cycles}, {best.saved_percent:.3g} % less"
    )
    others = [f"{part.name} ({part.percent:.3g} %): {part.limiter or 'no single unit'}" for part in parts]
    others = [text for part, text in zip(parts, others, strict=True) if part is not longest and part.percent >= 1.0]
    if others:
        text += f"; {', '.join(others)}"
    else:
        rest = (f for f in findings if f is not best)
        second = next((f for f in rest if f.saved_percent >= max(LIMITER_PERCENT, best.saved_percent / 2)), None)
        if second is not None:
            text += f"; {second.unit} alone would save {second.saved_percent:.3g} %"
    return f"{text}; {room}."
