"""A comparison with measured rows as records: the tables of the command line and the document of JSON.

Mental model: one function a table, each a list of dicts with the same keys; :func:`comparison_document` holds all of it
in full.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gpusim.compare.baseline import Change, Line
from gpusim.compare.error import Verdict
from gpusim.compare.measured import Entry, MeasuredComparison
from gpusim.compare.overall import WORST
from gpusim.report.attribution import by_line
from gpusim.report.hot import hot_rows
from gpusim.report.summary import share_document
from gpusim.report.tables import rounded

#: Source lines kept of each launch.
HOT_LINES = 8
Records = list[dict[str, Any]]


def entry_record(entry: Entry) -> dict[str, Any]:
    """One launch, flat: what CSV holds."""
    measured = entry.measured
    interval = entry.interval_cycles
    return {
        "gpu": entry.gpu,
        "kernel": entry.kernel,
        "shape": entry.shape,
        "launch": entry.launch,
        "cache": entry.cache,
        "method": entry.method,
        "sm_clock_mhz": entry.clock_mhz,
        "simulated_cycles": entry.simulated_cycles,
        "simulated_cycles_low": interval[0],
        "simulated_cycles_high": interval[1],
        "measured_cycles": measured.median if measured else math.nan,
        "measured_low_cycles": measured.low if measured else math.nan,
        "measured_high_cycles": measured.high if measured else math.nan,
        "error_percent": entry.judgement.error_percent,
        "within_interval": entry.within_interval,
        "allowed_percent": entry.judgement.allowed_percent,
        "verdict": str(entry.verdict),
        "reason": entry.judgement.reason,
        "joined_by": entry.joined_by,
        "finding": entry.finding,
        "note": entry.note,
    }


def launch_records(comparison: MeasuredComparison) -> Records:
    """The table of launches: cycles, error, verdict."""
    return [
        {
            "gpu": e.gpu,
            "launch": e.name,
            "cache": e.cache,
            "simulated_cycles": e.simulated_cycles,
            "interval_cycles": _between(e.interval_cycles),
            "measured_cycles": e.measured.median if e.measured else math.nan,
            "plus_minus_cycles": (e.measured.high - e.measured.low) / 2 if e.measured else math.nan,
            "error_percent": e.judgement.error_percent,
            "allowed_percent": e.judgement.allowed_percent,
            "verdict": str(e.verdict),
            "joined_by": e.joined_by,
        }
        for e in comparison.entries
    ]


def _between(interval: tuple[float, float]) -> str:
    """An interval in a table's cell."""
    return "-" if math.isnan(interval[0]) else f"{rounded(interval[0])} to {rounded(interval[1])}"


def overall_records(comparisons: Sequence[MeasuredComparison]) -> Records:
    """One row a GPU: the figures over all its launches, and how much of what was asked for was compared."""
    return [
        {
            "gpu": c.gpu,
            "launches": c.overall.launches,
            "mape_percent": c.overall.mape_percent,
            "bias_percent": c.overall.bias_percent,
            "geometric_mean_ratio": c.overall.geometric_mean_ratio,
            "spearman": c.overall.spearman,
            "within_tolerance_percent": c.overall.within_tolerance_percent,
            "within_interval_percent": c.within_interval_percent,
            "not_compared": len(c.uncompared) + sum(e.measured is None for e in c.entries),
        }
        for c in comparisons
    ]


def worst_records(comparison: MeasuredComparison) -> Records:
    """The launches that are furthest off, with the reason of their verdict."""
    ranked = sorted(comparison.judged, key=lambda e: -abs(math.log(e.simulated_cycles / e.measured.median)))
    return [
        {
            "launch": e.name,
            "cache": e.cache,
            "error_percent": e.judgement.error_percent,
            "verdict": str(e.verdict),
            "reason": e.judgement.reason,
        }
        for e in ranked[:WORST]
    ]


def counter_records(comparison: MeasuredComparison, every: bool = False) -> Records:
    """Counters that differ by more than theirs may, or ``every`` counter that both sides have."""
    return [
        {
            "launch": e.name,
            "cache": e.cache,
            "counter": d.counter,
            "simulated": d.simulated,
            "measured": d.measured,
            "error_percent": d.error_percent,
            "agrees": d.agrees,
        }
        for e in comparison.entries
        for d in e.counters
        if every or not d.agrees
    ]


def finding_records(comparison: MeasuredComparison) -> Records:
    """What is odd although the cycles agree, and what had to be assumed."""
    odd = [{"launch": e.name, "cache": e.cache, "what": e.finding} for e in comparison.entries if e.finding]
    return odd + [{"launch": e.name, "cache": e.cache, "what": e.note} for e in comparison.entries if e.note]


def term_records(comparison: MeasuredComparison) -> Records:
    """The gap of each launch (simulated - measured cycles) and its terms, one column each, which add up to it."""
    names = list(dict.fromkeys(_label(term) for e in comparison.entries for term in e.terms))
    names.sort(key=lambda name: name == "residual")
    records = []
    for e in comparison.judged:
        if not e.terms:
            continue
        terms = {_label(term): term.cycles for term in e.terms}
        gap = e.simulated_cycles - e.measured.median
        records.append(
            {"launch": e.name, "cache": e.cache, "gap_cycles": gap, **{name: terms.get(name, 0.0) for name in names}}
        )
    return records


def stall_gap_records(comparison: MeasuredComparison) -> Records:
    """The gap of each profiled launch by what its warps wait for, one column a reason, which add up to it."""
    profiled = [e for e in comparison.judged if e.stall_gap]
    reasons = list(dict.fromkeys(reason for e in profiled for reason, cycles in e.stall_gap.items() if cycles))
    return [
        {
            "launch": e.name,
            "cache": e.cache,
            "gap_cycles": e.simulated_cycles - e.measured.median,
            **{reason: e.stall_gap.get(reason, 0.0) for reason in reasons},
        }
        for e in profiled
    ]


def _label(term: Any) -> str:
    return f"{term.name} (traffic)" if term.kind == "traffic" else term.name


def uncompared_records(comparison: MeasuredComparison) -> Records:
    """What could not be compared, and why."""
    missing = [
        {"gpu": u.gpu, "launch": u.name, "verdict": str(u.verdict), "reason": u.reason} for u in comparison.uncompared
    ]
    timeless = [e for e in comparison.entries if e.measured is None]
    return missing + [
        {"gpu": e.gpu, "launch": e.name, "verdict": str(e.verdict), "reason": e.judgement.reason} for e in timeless
    ]


def change_records(changes: Sequence[Change]) -> Records:
    """Today against the baseline."""
    return [
        {
            "what": c.key,
            "before_percent": c.before.error_percent if c.before else math.nan,
            "now_percent": c.now.error_percent if c.now else math.nan,
            "simulated_change_percent": _moved(c),
            "worse": c.worse,
            "reason": c.reason,
        }
        for c in changes
    ]


def change_documents(changes: Sequence[Change]) -> Records:
    """The same as JSON values; numbers that are none are null."""
    return [_finite(record) for record in change_records(changes)]


def _moved(change: Change) -> float:
    if change.now is None or change.before is None or not change.before.simulated > 0:
        return math.nan
    return 100.0 * (change.now.simulated / change.before.simulated - 1)


def comparison_lines(comparison: MeasuredComparison, gpu: str) -> list[Line]:
    """The launches by the keys that a baseline finds them again by; ``gpu`` stands for the machine in them."""
    return [
        Line(f"{gpu} {e.name} ({e.cache}, {e.method})", e.verdict, e.judgement.error_percent, e.simulated_cycles)
        for e in comparison.entries
    ]


def comparison_document(comparison: MeasuredComparison) -> dict[str, Any]:
    """Everything about one GPU's comparison as JSON values; numbers that are none are null."""
    document: dict[str, Any] = {
        "gpu": comparison.gpu,
        "overall": _finite(overall_records([comparison])[0]),
        "launches": [
            {
                **_finite(entry_record(e)),
                "cubin_hash": e.cubin_hash,
                "counters": [
                    _finite(
                        {
                            "counter": d.counter,
                            "simulated": d.simulated,
                            "measured": d.measured,
                            "error_percent": d.error_percent,
                            "agrees": d.agrees,
                        }
                    )
                    for d in e.counters
                ],
                "stalls": dict(e.result.stalls),
                "hot_lines": hot_rows([share_document(share) for share in by_line([e.result])], HOT_LINES),
                "stall_gap": dict(e.stall_gap),
                "gap": [{"name": t.name, "kind": t.kind, "cycles": t.cycles} for t in e.terms],
            }
            for e in comparison.entries
        ],
        "not_compared": uncompared_records(comparison),
        "rows_of_other_gpus": comparison.other_gpus,
    }
    if comparison.gap is not None:
        document["gap"] = {
            "sentence": comparison.gap.sentence,
            "mape_before_percent": comparison.gap.mape_before_percent,
            "mape_after_percent": comparison.gap.mape_after_percent,
            "findings": [
                {"unit": f.unit, "factor": f.factor, "alternatives": list(f.alternatives)}
                for f in comparison.gap.findings
            ],
        }
    return document


def _finite(record: dict[str, Any]) -> dict[str, Any]:
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in record.items()}


def verdict_counts(comparison: MeasuredComparison) -> str:
    """``7 SAME, 2 SLOWER`` in the order of the contract."""
    verdicts = [e.verdict for e in comparison.entries] + [u.verdict for u in comparison.uncompared]
    return ", ".join(f"{verdicts.count(v)} {v}" for v in Verdict if v in verdicts)
