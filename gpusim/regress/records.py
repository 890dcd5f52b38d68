"""Outcomes as records: the tables of the command line, and the values that JSON holds.

Mental model: as in :mod:`gpusim.report.summary`, one function a table, each a list of dicts with the same keys.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpusim.regress.align import Change
from gpusim.regress.explain import sentence
from gpusim.regress.outcome import Outcome

#: A counter that moved by less than this is not shown in tables.
COUNTER_PERCENT = 1.0


def headline_records(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """One record an outcome."""
    return [
        {
            "kind": outcome.kind,
            "kernel": outcome.kernel,
            "shape": outcome.shape,
            "launch": outcome.launch,
            "gpu": outcome.gpu,
            "unit": outcome.unit,
            "base": outcome.base,
            "head": outcome.head,
            "change_percent": outcome.change_percent,
            "verdict": str(outcome.verdict),
            "changed": ", ".join(outcome.causes),
            "reason": outcome.reason,
        }
        for outcome in outcomes
    ]


def short_records(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """The headline for the eye."""
    return [
        {
            "launch": outcome.name,
            "gpu": outcome.gpu,
            "unit": outcome.unit,
            "base": _shown(outcome.base),
            "head": _shown(outcome.head),
            "change_percent": _shown(outcome.change_percent),
            "verdict": str(outcome.verdict),
            "reason": outcome.reason,
        }
        for outcome in outcomes
    ]


def stall_records(outcome: Outcome) -> list[dict[str, Any]]:
    """Cycles of the difference by stall reason; they add up to it."""
    terms = outcome.attribution.stalls if outcome.attribution else ()
    return [
        {
            "stall": term.stall,
            "cycles": term.cycles,
            "base_warp_cycles": term.base,
            "head_warp_cycles": term.head,
            "unit": term.unit,
        }
        for term in terms
    ]


def line_records(outcome: Outcome, most: int | None = None) -> list[dict[str, Any]]:
    """Cycles of the difference by source line."""
    terms = outcome.attribution.lines if outcome.attribution else ()
    return [
        {
            "file": term.file,
            "line": term.line,
            "cycles": term.cycles,
            "changed_instructions": term.changed,
            "code": term.text,
        }
        for term in terms[:most]
    ]


def line_table(outcome: Outcome, most: int) -> list[dict[str, Any]]:
    """:func:`line_records` for the eye."""
    return [
        {
            "line": f"{record['file'].rsplit('/', 1)[-1]}:{record['line']}" if record["line"] else "no line",
            "cycles": record["cycles"],
            "changed_instructions": record["changed_instructions"],
            "code": record["code"],
        }
        for record in line_records(outcome, most)
    ]


def instruction_records(outcome: Outcome, most: int | None = None) -> list[dict[str, Any]]:
    """Cycles of the difference by instruction, of those that changed or whose time did."""
    terms = outcome.attribution.instructions if outcome.attribution else ()
    shown = [term for term in terms if term.cycles or term.pair.change != Change.SAME]
    return [
        {
            "change": str(term.pair.change),
            "cycles": term.cycles,
            "stall": term.stall,
            "base_address": f"{term.pair.base.address:04x}" if term.pair.base else "",
            "base_sass": term.pair.base.text if term.pair.base else "",
            "head_address": f"{term.pair.head.address:04x}" if term.pair.head else "",
            "head_sass": term.pair.head.text if term.pair.head else "",
        }
        for term in shown[:most]
    ]


def step_records(outcome: Outcome) -> list[dict[str, Any]]:
    """Cycles of the difference by figure of the GPU, or the figures alone where their worth is not known."""
    if outcome.steps:
        return [
            {"changed": step.what, "cycles": step.cycles, "from": _values(step, "base"), "to": _values(step, "head")}
            for step in outcome.steps
        ]
    return [{"changed": f.key, "cycles": None, "from": f.base, "to": f.head} for f in outcome.figures]


def step_table(outcome: Outcome, most: int) -> list[dict[str, Any]]:
    """:func:`step_records` for the eye: more than ``most`` figures of unknown worth go by section."""
    records = [{**record, "cycles": _shown(record["cycles"], "unknown")} for record in step_records(outcome)]
    if outcome.steps or len(records) <= most:
        return records
    sections: dict[str, int] = {}
    for figure in outcome.figures:
        section = figure.key.partition(".")[0]
        sections[section] = sections.get(section, 0) + 1
    return [{"changed": section, "figures": count, "cycles": "unknown"} for section, count in sections.items()]


def unit_records(outcome: Outcome) -> list[dict[str, Any]]:
    """Units whose least cycles differ."""
    return [
        {"unit": c.unit, "base_least_cycles": c.base, "head_least_cycles": c.head, "grown": c.head - c.base}
        for c in outcome.units
    ]


def counter_records(outcome: Outcome, least_percent: float = 0.0, most: int | None = None) -> list[dict[str, Any]]:
    """Counters that moved, by how much of themselves."""
    if outcome.items is None:
        return []
    old, new = (item.record.counters for item in outcome.items)
    records = [
        {"counter": name, "base": old[name], "head": new[name], "change_percent": _percent(old[name], new[name])}
        for name in old
        if name in new and old[name] != new[name]
    ]
    records = [r for r in records if r["change_percent"] is None or abs(r["change_percent"]) >= least_percent]
    records.sort(key=lambda r: -abs(r["change_percent"]) if r["change_percent"] is not None else float("-inf"))
    return [{**r, "change_percent": _shown(r["change_percent"], "new")} for r in records[:most]]


def document(outcomes: Sequence[Outcome]) -> list[dict[str, Any]]:
    """All of every outcome, for JSON."""
    return [
        {
            **headline,
            "cycles_grown": outcome.cycles_grown,
            "sentence": sentence(outcome),
            "by_stall": stall_records(outcome),
            "by_line": line_records(outcome),
            "by_instruction": instruction_records(outcome),
            "gpu_figures": step_records(outcome),
            "by_unit": unit_records(outcome),
            "counters": counter_records(outcome),
        }
        for headline, outcome in zip(headline_records(outcomes), outcomes, strict=True)
    ]


def _values(step: Any, side: str) -> Any:
    values = [getattr(change, side) for change in step.changes]
    return values[0] if len(values) == 1 else f"{len(values)} figures" if values else ""


def _percent(old: float, new: float) -> float | None:
    return 100.0 * (new - old) / old if old else None


def _shown(value: Any, missing: str = "-") -> Any:
    return missing if value is None else value
