"""``gpusim bisect``: what was found, as text or as JSON."""

from __future__ import annotations

import json
from typing import Any

import click

from gpusim.bisect.confirmation import CONFIRMED, REFUTED, UNMEASURED, UNSETTLED, Confirmation
from gpusim.bisect.find import Found
from gpusim.bisect.reading import Reading
from gpusim.bisect.reasons import Reason, reason_between, summary
from gpusim.bisect.search import Step
from gpusim.regress import records
from gpusim.regress.outcome import Outcome
from gpusim.report.tables import format_records

#: Exit codes of ``gpusim bisect``.
NO_DIFFERENCE, FOUND, CANNOT_TELL = 0, 1, 4
MOST_ROWS = 8
_SAID = {
    CONFIRMED: "Silicon confirms the step.",
    REFUTED: "Silicon does not confirm the step: what was measured does not differ as the simulation says.",
    UNSETTLED: "The measurements do not settle whether silicon confirms the step; measure longer.",
    UNMEASURED: "What was measured is not of this case on both sides.",
}


def print_found(request: str, found: Found, confirmation: Confirmation | None, form: str) -> str:
    """Print what was found; the text that says it without tables."""
    reasons = [_reason(found, step) for step in found.steps]
    said = " ".join([summary(found), *(reason.sentence for reason in reasons)])
    if form == "json":
        click.echo(json.dumps(_document(request, found, reasons, confirmation), indent=2, allow_nan=False))
        return said
    if form == "csv":
        click.echo(format_records(_reading_records(found), form))
        return said
    click.echo(f"{request}: {summary(found)}\n\n{format_records(_reading_records(found), form)}")
    for step, reason in zip(found.steps, reasons, strict=True):
        click.echo(f"\n{found.points[step.before].label} to {found.points[step.after].label}: {reason.sentence}")
        for table in (*reason_tables(reason), _compiled_records(found, step)):
            if table:
                click.echo("\n" + format_records(table, form))
    if confirmation is not None:
        _print_confirmation(confirmation, form)
    return said


def reason_tables(reason: Reason) -> list[list[dict[str, Any]]]:
    """What explains the launch that moved most, or the opcodes that changed."""
    if not reason.outcomes:
        changed = [
            {"opcode": name, "before": old, "after": new, "grown": new - old} for name, old, new in reason.opcodes
        ]
        return [changed[:MOST_ROWS]] if changed else []
    outcome = reason.outcomes[0]
    tables = [
        records.step_table(outcome, MOST_ROWS),
        [record for record in records.stall_records(outcome) if record["cycles"]],
        records.line_table(outcome, MOST_ROWS),
        records.instruction_records(outcome, MOST_ROWS),
        records.unit_records(outcome),
    ]
    return [table for table in tables if table]


def _reason(found: Found, step: Step) -> Reason:
    labels = found.points[step.before].label, found.points[step.after].label
    return reason_between(found.readings[step.before], found.readings[step.after], labels)


def _compiled_records(found: Found, step: Step) -> list[dict[str, Any]]:
    """Figures of machine code before and after, where nothing was run."""
    before, after = found.readings[step.before], found.readings[step.after]
    if before.launches:
        return []
    return [
        {
            "figure": name,
            "before": before.values[name],
            "after": after.values[name],
            "grown": after.values[name] - before.values[name],
        }
        for name in before.values
        if name != "code"
    ]


def _reading_records(found: Found) -> list[dict[str, Any]]:
    """The points that were read, in their order."""
    rows = []
    for index in sorted(found.readings):
        value, point = found.value(index), found.points[index]
        rows.append(
            {
                found.what: point.label, "value": "-" if value is None else _shown(value, found.metric), "unit": found.metric,
                "state": _state(found, index, value), "title": point.title, "why_no_value": found.readings[index].refused,
            }
        )  # fmt: skip
    return rows


def _state(found: Found, index: int, value: float | None) -> str:
    if value is None:
        return "no value"
    state = "bad" if found.criterion.is_bad(value) else "good"
    return f"{state}, changed" if any(step.after == index for step in found.steps) else state


def _shown(value: float, metric: str) -> Any:
    if metric == "code":
        return f"{int(value):012x}"
    return int(value) if value == int(value) else value


def _print_confirmation(confirmation: Confirmation, form: str) -> None:
    if confirmation.outcomes:
        click.echo("\n" + format_records(records.short_records(confirmation.outcomes), form))
        click.echo("\n" + _SAID[confirmation.state])
    if confirmation.state != CONFIRMED and confirmation.commands:
        click.echo(
            "\nto confirm it on a machine with the GPU, then bisect again:\n"
            + "\n".join(f"  {line}" for line in confirmation.commands)
        )


def _document(request: str, found: Found, reasons: list[Reason], confirmation: Confirmation | None) -> dict[str, Any]:
    values = found.criterion
    return {
        "case": request,
        "what": found.what,
        "status": "no difference" if not found.steps else "found" if found.is_exact else "cannot tell",
        "metric": found.metric,
        "good": values.good,
        "bad": values.bad,
        "limit": None if values.exact else values.limit,
        "sentence": summary(found),
        "steps": [_step_document(found, step, reason) for step, reason in zip(found.steps, reasons, strict=True)],
        "further": [_range(found, step) for step in found.further],
        "points": len(found.points),
        "readings": [_reading_document(found, index) for index in sorted(found.readings)],
        "confirmation": None if confirmation is None else {
            "state": confirmation.state, "commands": list(confirmation.commands),
            "outcomes": records.headline_records(confirmation.outcomes),
        },
    }  # fmt: skip


def _range(found: Found, step: Step) -> dict[str, Any]:
    return {
        "before": found.points[step.before].name, "after": found.points[step.after].name,
        "value_before": found.value(step.before), "value_after": found.value(step.after),
    }  # fmt: skip


def _step_document(found: Found, step: Step, reason: Reason) -> dict[str, Any]:
    return {
        **_range(found, step),
        "candidates": [found.points[index].name for index in step.candidates],
        "exact": step.is_exact,
        "sentence": reason.sentence,
        "opcodes": [{"opcode": name, "before": old, "after": new} for name, old, new in reason.opcodes],
        "launches": launch_documents(reason.outcomes),
    }


def launch_documents(outcomes: tuple[Outcome, ...]) -> list[dict[str, Any]]:
    """All that ``gpusim regress`` says of launches."""
    return records.document(outcomes)


def _reading_document(found: Found, index: int) -> dict[str, Any]:
    reading: Reading = found.readings[index]
    point = found.points[index]
    return {
        "name": point.name, "label": point.label, "title": point.title, "state": _state(found, index, found.value(index)),
        "values": dict(reading.values), "refused": reading.refused, "unchecked": reading.unchecked, "facts": dict(reading.facts),
    }  # fmt: skip
