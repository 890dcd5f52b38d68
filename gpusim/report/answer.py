"""The first lines of a simulation: how long, how near which roof, bound by what, and what would help.

Mental model: of all that a result holds, what a developer asks first. Rates are of the whole run; what bounds it is
:mod:`gpusim.engine.bound`'s answer, and how sure the time is that of :mod:`gpusim.uncertainty`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpusim.engine.bound import Bound
from gpusim.engine.result import Result, time_text
from gpusim.engine.utilisation import traffic
from gpusim.report.roofline import roofline
from gpusim.report.tables import format_pairs, rounded
from gpusim.uncertainty.interval import Interval
from gpusim.uncertainty.limiters import Limiter
from gpusim.why.advice import Advice, Remedy
from gpusim.why.explain import kernels_text

#: Remedies that are shown.
MOST_REMEDIES = 3


@dataclass(frozen=True)
class Rate:
    """``per_s`` of ``roof``, both in 1e9 a second: bytes, or operations of a kind of arithmetic."""

    name: str
    per_s: float
    roof: float

    @property
    def percent(self) -> float:
        """Of the roof; 0 where there is none."""
        return 100.0 * self.per_s / self.roof if self.roof else 0.0


@dataclass(frozen=True)
class Answer:
    """``dram`` in GB/s, ``arithmetic`` in G operations/s by dtype; ``roof``: the unit nearest to its peak and how near;
    ``bound_by`` in the field's terms, ``limiter`` its class; ``interval`` of the time."""

    kernel: str
    gpu: str
    time_us: float
    cycles: int
    dram: Rate
    arithmetic: tuple[Rate, ...]
    roof: str
    roof_percent: float
    bound_by: str
    limiter: Limiter
    interval: Interval
    error_us: float | None
    simulated_percent: float


def answer(result: Result) -> Answer:
    """What is said of ``result`` first."""
    moved = traffic(result.launches)
    roofs = roofline(result.launches, result.spec, moved)
    seconds = result.cycles / result.clock_hz
    kinds = sorted(roofs["operations"].items(), key=lambda item: -item[1])
    error = result.error_cycles
    return Answer(
        kernel=kernels_text(result),
        gpu=result.gpu,
        time_us=result.time_us,
        cycles=int(result.cycles),
        dram=Rate("DRAM", moved["dram__bytes.sum"] / seconds / 1e9, roofs["slopes"]["DRAM"]),
        arithmetic=tuple(Rate(kind, done / seconds / 1e9, roofs["roofs"][kind]) for kind, done in kinds),
        roof=result.bound.roof,
        roof_percent=result.bound.roof_percent,
        bound_by=bound_by(result.bound),
        limiter=result.bound.limiter,
        interval=result.interval,
        error_us=None if error is None else 1e6 * error / result.clock_hz,
        simulated_percent=result.simulated_percent,
    )


def answer_document(found: Answer) -> dict[str, Any]:
    """The rates, roof and bound as flat values for JSON; time and cycles stand beside them."""
    return {
        "dram_gb_per_s": found.dram.per_s,
        **{f"g_operations_per_s.{rate.name}": rate.per_s for rate in found.arithmetic},
        "roof": found.roof,
        "roof_percent": found.roof_percent,
        "bound_by": found.bound_by,
        "limiter": str(found.limiter),
    }


def interval_document(interval: Interval | None) -> dict[str, Any]:
    """An interval as flat values for JSON; the texts only where they say something."""
    if interval is None:
        return {}
    return {
        "time_us_low": interval.low_us,
        "time_us_high": interval.high_us,
        "interval_level_percent": interval.level_percent,
        "interval_basis": interval.basis,
        "interval_outside": "; ".join(interval.outside),
    }


def remedy_records(remedies: tuple[Remedy, ...]) -> list[dict[str, Any]]:
    """Remedies as a table: what is wrong, what to do, and how its saving was simulated."""
    return [
        {
            "problem": remedy.problem,
            "place": remedy.place,
            "remedy": remedy.advice,
            "simulated_as": remedy.how,
            "cycles": remedy.cycles,
            "saves_percent": remedy.saved_percent,
            "bound": "at most" if remedy.at_most else "about",
        }
        for remedy in remedies
    ]


def answer_text(found: Answer, advice: Advice | None, form: str = "table", power: str = "") -> str:
    """The answer as text: a name and what is said of it a line. ``advice`` None: remedies were not looked for;
    ``power``: what is to be said of it, if anything."""
    within = "" if not found.error_us else f", sampling +- {rounded(found.error_us)} us (95 %)"
    part = (
        "" if found.simulated_percent == 100.0 else f", from {rounded(found.simulated_percent)} % of the instructions"
    )
    sure = found.interval
    lines = [
        ("kernel", f"{found.kernel} on {found.gpu}"),
        ("time", f"{time_text(found.time_us, sure)}{within}{part}"),
        ("interval", interval_text(sure)),
        ("cycles", str(found.cycles)),
        ("DRAM", _of_roof(found.dram, "B/s")),
        *((rate.name, _of_roof(rate, "OP/s" if rate.name == "tensor" else "FLOP/s")) for rate in found.arithmetic),
        ("roof", f"{found.roof}, {rounded(found.roof_percent)} % of its peak: the busiest unit"),
        ("bound by", found.bound_by),
        *([("power", power)] if power else []),
    ]
    remedies = _remedies(advice)
    lines += [("remedy" if number == 0 else "", text) for number, text in enumerate(remedies)]
    if form == "table":
        lines.append(("more", "--why (each unit made free), --by line, --details (counters), --format json"))
    return format_pairs(lines, form)


def interval_text(interval: Interval) -> str:
    """What the interval rests on, and what it does not."""
    if interval.outside:
        return f"not validated ({'; '.join(interval.outside)}): the widest there is, {interval.basis}"
    return f"{rounded(interval.level_percent)} % of measurements should lie within; {interval.basis}"


def _remedies(advice: Advice | None) -> list[str]:
    if advice is None:
        return ["not looked for: add --why"]
    if advice.remedies:
        return [remedy.sentence for remedy in advice.remedies[:MOST_REMEDIES]]
    if advice.untried and not advice.tried:
        return [f"{advice.untried[0]}: not simulated, the run is large; add --why"]
    if not advice.tried:
        return ["none found"]
    return [
        "the one that was tried saves no time"
        if advice.tried == 1
        else f"none of the {advice.tried} tried would save time"
    ]


def bound_by(found: Bound) -> str:
    """What bounds a run, in the field's terms: launch overhead, latency, or a unit of memory or compute."""
    if found.limiter == Limiter.LAUNCH:
        return f"launch overhead: {rounded(found.percent)} % of the time"
    if found.limiter == Limiter.LATENCY:
        return f"latency: {found.reason}, {rounded(found.percent)} % of the warp-cycles"
    return f"{'memory' if found.is_memory else 'compute'}: {found.roof}"


def _of_roof(rate: Rate, unit: str) -> str:
    text = _with_prefix(rate.per_s, unit)
    return f"{text}, {rounded(rate.percent)} % of {_with_prefix(rate.roof, unit)}" if rate.roof else text


def _with_prefix(giga: float, unit: str) -> str:
    """``giga`` in 1e9: bytes stay in GB/s as vendors give them, operations go over to T."""
    if unit != "B/s" and giga >= 1000.0:
        return f"{rounded(giga / 1000)} T{unit}"
    return f"{rounded(giga)} G{unit}"
