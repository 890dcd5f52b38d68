"""A simulation as records: the tables that the command line prints and the values that JSON holds.

Mental model: one function a table, each a list of dicts with the same keys (see
:func:`gpusim.report.tables.format_records`); :func:`summary_document` puts them all into one plain value
that JSON can hold and nothing else has to interpret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpusim.engine.result import LaunchResult, Result
from gpusim.engine.utilisation import occupancy, traffic, utilisation
from gpusim.report.answer import answer, answer_document, interval_document, remedy_records
from gpusim.report.attribution import Share
from gpusim.report.energy import energy_document
from gpusim.why.explain import Explanation, kernels_text


def headline(result: Result) -> dict[str, Any]:
    """GPU, kernels, and over all launches cycles, time with its interval, and warp instructions of a run; of a sampled
    one also the share of the instructions that was simulated and the 95 % half-width of the cycles."""
    values = {
        "gpu": result.gpu,
        "kernel": kernels_text(result),
        "cycles": int(result.cycles),
        "time_us": float(result.time_us),
        **interval_document(result.interval),
        "warp_instructions": int(result.counters["smsp__inst_executed.sum"]),
    }
    if result.error_cycles is not None:
        values["error_cycles"] = round(result.error_cycles)
        values["simulated_percent"] = result.simulated_percent
    return values


def launch_records(result: Result) -> list[dict[str, Any]]:
    """Each launch alone, in order: what it took on the machine as those before it had left it."""
    return [
        {
            "launch": index,
            "kernel": launch.kernel,
            "cycles": int(launch.cycles),
            "time_us": 1e6 * launch.cycles / result.clock_hz,
            **_ends(launch),
            "warp_instructions": int(launch.counters["smsp__inst_executed.sum"]),
        }
        for index, launch in enumerate(result.launches)
    ]


def _ends(launch: LaunchResult) -> dict[str, float]:
    """The ends of a launch's interval."""
    interval = launch.interval
    return {} if interval is None else {"time_us_low": interval.low_us, "time_us_high": interval.high_us}


def stall_records(result: Result, most: int | None = None) -> list[dict[str, Any]]:
    """Warp-cycles by stall reason, largest first."""
    total = sum(result.stalls.values()) or 1
    ranked = sorted(result.stalls.items(), key=lambda item: -item[1])[:most]
    return [
        {"stall": name, "warp_cycles": int(cycles), "percent": 100.0 * cycles / total}
        for name, cycles in ranked
        if cycles
    ]


def unit_records(result: Result) -> list[dict[str, Any]]:
    """Busy share of every unit."""
    return [
        {"unit": unit.name, "busy_percent": unit.percent, "metric": unit.metric}
        for unit in utilisation(result.launches, result.spec)
    ]


def traffic_records(result: Result) -> list[dict[str, Any]]:
    """Bytes by level, hit rates, and the last launch's occupancy with its limiter."""
    values = {**traffic(result.launches), **occupancy(result.launches[-1], result.spec)}
    values["occupancy_limiter"] = values.pop("limiter")
    return [{"metric": name, "value": number(value)} for name, value in values.items()]


def bound_records(result: Result, least: dict[str, float]) -> list[dict[str, Any]]:
    """Lower bounds by unit."""
    return [
        {"unit": unit, "least_cycles": cycles, "percent_of_simulated": 100.0 * cycles / result.cycles}
        for unit, cycles in least.items()
    ]


def counter_records(result: Result) -> list[dict[str, Any]]:
    """All counters; ``extrapolated`` in place of ``value`` where sampling left blocks out."""
    column = "value" if result.simulated_percent == 100.0 else "extrapolated"
    return [{"counter": name, column: number(value)} for name, value in result.counters.items()]


def share_records(shares: Sequence[Share], most: int | None = None) -> list[dict[str, Any]]:
    """Instructions or lines for the eye: the ones with most warp-cycles first."""
    total = sum(share.warp_cycles for share in shares) or 1
    ranked = sorted(shares, key=lambda share: -share.warp_cycles)[:most]
    return [
        {
            "launch": share.launch,
            "place": f"{share.address:04x}" if share.address is not None else _line(share),
            "percent": 100.0 * share.warp_cycles / total,
            "warp_cycles": share.warp_cycles,
            "top_stall": share.top_stall,
            "issues": share.issues,
            "sectors": share.work["sectors"],
            "l1_hits": share.work["l1_hit_sectors"],
            "bank_conflicts": share.work["bank_conflicts"],
            "code": share.text,
        }
        for share in ranked
        if share.warp_cycles or share.issues
    ]


def share_document(share: Share) -> dict[str, Any]:
    """All of one instruction or line as a flat record."""
    place = {"address": share.address} if share.address is not None else {}
    return {
        "launch": share.launch,
        **place,
        "file": share.file,
        "line": share.line,
        "code": share.text,
        "issues": share.issues,
        "warp_cycles": share.warp_cycles,
        **share.work,
        **{f"stall.{reason}": cycles for reason, cycles in share.stalls.items()},
    }


def finding_records(explanation: Explanation) -> list[dict[str, Any]]:
    """What each unit made free would save."""
    return [
        {
            "made_free": finding.unit,
            "how": finding.how,
            "cycles": finding.cycles,
            "saves_cycles": finding.saved_cycles,
            "saves_percent": finding.saved_percent,
        }
        for finding in explanation.findings
    ]


def part_records(explanation: Explanation) -> list[dict[str, Any]]:
    """Ramp, steady state and tail, each with its limiter."""
    return [
        {
            "part": part.name,
            "cycles": round(part.cycles),
            "percent": part.percent,
            "limiter": part.limiter or "-",
            "saves_percent_of_part": part.saved_percent,
        }
        for part in explanation.parts
    ]


def summary_document(
    result: Result,
    *,
    least: dict[str, float] | None = None,
    shares: Sequence[Share] = (),
    explanation: Explanation | None = None,
) -> dict[str, Any]:
    """The run as one value for JSON: the headline's keys, and one key a table that was asked for."""
    document = {
        **headline(result),
        "answer": answer_document(answer(result)),
        "launches": launch_records(result),
        "stalls": {reason: int(cycles) for reason, cycles in result.stalls.items()},
        "counters": {name: number(value) for name, value in result.counters.items()},
        "units": unit_records(result),
        "traffic": {record["metric"]: record["value"] for record in traffic_records(result)},
        "energy": energy_document(result),
    }
    if least:
        document["least_cycles"] = least
    if shares:
        document["by_instruction" if shares[0].address is not None else "by_line"] = [
            share_document(share) for share in shares
        ]
    if explanation is not None:
        document["why"] = {
            "sentence": explanation.sentence,
            "made_free": finding_records(explanation),
            "parts": part_records(explanation),
            "remedies": remedy_records(explanation.remedies),
        }
    return document


def number(value: Any) -> Any:
    """A NumPy or Python number as a plain one that JSON can hold; texts stay."""
    if isinstance(value, str):
        return value
    plain = float(value)
    return int(plain) if plain.is_integer() else plain


def _line(share: Share) -> str:
    return f"{share.file.rsplit('/', 1)[-1]}:{share.line}" if share.line else "no line"
