"""The first lines of a simulation: how long, how near which roof, bound by what, and what would help.

Mental model: of all that a result holds, what a developer asks first. Rates are of the whole run; the roof is the unit
that was busiest of its peak. From 60 % of it on the run is bound by that unit, below by what its warps wait for: the
threshold that ncu's own rules use ("below 60 % of peak typically indicate latency issues", Nsight Compute's
speed-of-light rule).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gpusim.engine.result import Result
from gpusim.model.stall_reasons import SELECTED, STALL_NAMES
from gpusim.report.roofline import roofline
from gpusim.report.tables import format_pairs, rounded
from gpusim.report.utilisation import Unit, traffic, utilisation
from gpusim.why.advice import Advice, Remedy
from gpusim.why.explain import kernels_text
from gpusim.why.proposal import ROOF_PERCENT

#: Remedies that are shown.
MOST_REMEDIES = 3
#: From this share of the time on, the launch itself is what bounds the run.
_LAUNCH_PERCENT = 50.0
#: Parts of a unit that is shown itself, or another measure of it.
_NOT_ROOFS = ("of it, shared memory", "DRAM bus")
_ROOF_NAMES = {"DRAM bytes": "DRAM bandwidth"}
_MEMORY = ("L1", "L2", "DRAM", "crossbar", "LSU")


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
    ``bound_by`` in the field's terms."""

    kernel: str
    gpu: str
    time_us: float
    cycles: int
    dram: Rate
    arithmetic: tuple[Rate, ...]
    roof: str
    roof_percent: float
    bound_by: str
    error_us: float | None
    simulated_percent: float


def answer(result: Result) -> Answer:
    """What is said of ``result`` first."""
    moved = traffic(result.launches)
    roofs = roofline(result.launches, result.spec, moved)
    seconds = result.cycles / result.clock_hz
    units = [u for u in utilisation(result.launches, result.spec) if u.name not in _NOT_ROOFS]
    highest = max(units, key=lambda unit: unit.percent)
    kinds = sorted(roofs["operations"].items(), key=lambda item: -item[1])
    error = result.error_cycles
    return Answer(
        kernel=kernels_text(result),
        gpu=result.gpu,
        time_us=result.time_us,
        cycles=int(result.cycles),
        dram=Rate("DRAM", moved["dram__bytes.sum"] / seconds / 1e9, roofs["slopes"]["DRAM"]),
        arithmetic=tuple(Rate(kind, done / seconds / 1e9, roofs["roofs"][kind]) for kind, done in kinds),
        roof=_ROOF_NAMES.get(highest.name, highest.name),
        roof_percent=highest.percent,
        bound_by=_bound_by(result, highest),
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


def answer_text(found: Answer, advice: Advice | None, form: str = "table") -> str:
    """The answer as text: a name and what is said of it a line. ``advice`` None: remedies were not looked for."""
    within = "" if not found.error_us else f" +- {rounded(found.error_us)} us (95 %)"
    part = (
        "" if found.simulated_percent == 100.0 else f", from {rounded(found.simulated_percent)} % of the instructions"
    )
    lines = [
        ("kernel", f"{found.kernel} on {found.gpu}"),
        ("time", f"{rounded(found.time_us)} us{within}{part}"),
        ("cycles", str(found.cycles)),
        ("DRAM", _of_roof(found.dram, "B/s")),
        *((rate.name, _of_roof(rate, "OP/s" if rate.name == "tensor" else "FLOP/s")) for rate in found.arithmetic),
        ("roof", f"{found.roof}, {rounded(found.roof_percent)} % of its peak: the busiest unit"),
        ("bound by", found.bound_by),
    ]
    remedies = _remedies(advice)
    lines += [("remedy" if number == 0 else "", text) for number, text in enumerate(remedies)]
    if form == "table":
        lines.append(("more", "--why (each unit made free), --by line, --details (counters), --format json"))
    return format_pairs(lines, form)


def _remedies(advice: Advice | None) -> list[str]:
    if advice is None:
        return ["not looked for: add --why"]
    if advice.remedies:
        return [remedy.sentence for remedy in advice.remedies[:MOST_REMEDIES]]
    if advice.untried and not advice.tried:
        return [f"{advice.untried[0]}: not simulated, the run is large; add --why"]
    return ["none found" if not advice.tried else f"none of the {advice.tried} tried would save time"]


def _bound_by(result: Result, highest: Unit) -> str:
    launch = result.spec.launch
    overhead = 100.0 * len(result.launches) * (launch.start_cycles + launch.end_cycles) / max(1, result.cycles)
    if overhead >= _LAUNCH_PERCENT:
        return f"launch overhead: {rounded(overhead)} % of the time"
    if highest.percent >= ROOF_PERCENT:
        memory = highest.name.startswith(_MEMORY)
        return f"{'memory' if memory else 'compute'}: {_ROOF_NAMES.get(highest.name, highest.name)}"
    waits = {name: cycles for name, cycles in result.stalls.items() if name != STALL_NAMES[SELECTED]}
    reason = max(waits, key=waits.__getitem__)
    share = 100.0 * waits[reason] / max(1, sum(result.stalls.values()))
    return f"latency: {reason}, {rounded(share)} % of the warp-cycles"


def _of_roof(rate: Rate, unit: str) -> str:
    text = _with_prefix(rate.per_s, unit)
    return f"{text}, {rounded(rate.percent)} % of {_with_prefix(rate.roof, unit)}" if rate.roof else text


def _with_prefix(giga: float, unit: str) -> str:
    """``giga`` in 1e9: bytes stay in GB/s as vendors give them, operations go over to T."""
    if unit != "B/s" and giga >= 1000.0:
        return f"{rounded(giga / 1000)} T{unit}"
    return f"{rounded(giga)} G{unit}"
