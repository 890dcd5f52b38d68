"""What ``gpusim simulate`` prints: the answer first, then what was asked for, and all the rest on demand.

Mental model: JSON and CSV hold everything, whatever was asked for. Text holds the answer (:mod:`gpusim.report.answer`),
one table for each thing that was asked for (launches, lines, bounds, why), and with ``details`` stalls, units, traffic
and counters.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from gpusim.engine.result import Result
from gpusim.report import summary
from gpusim.report.answer import answer, answer_text, remedy_records
from gpusim.report.attribution import Share
from gpusim.report.energy import energy_records
from gpusim.report.tables import format_records
from gpusim.why.advice import Advice
from gpusim.why.explain import Explanation

TOP_STALLS = 6
TOP_SHARES = 16


def simulation_text(
    result: Result,
    form: str,
    *,
    least: dict[str, float] | None = None,
    shares: Sequence[Share] = (),
    explanation: Explanation | None = None,
    advice: Advice | None = None,
    details: bool = False,
    power: str = "",
    reported: tuple[str, dict[str, Any]] | None = None,
) -> str:
    """A run in one of the formats, without a newline at the end. ``least``: lower bounds, ``shares``: its attribution,
    ``explanation`` and ``advice`` where they were asked for; ``details``: all tables (text only);
    ``power``: what is to be said of the board's limit (text only); ``reported``: what a measuring method would report,
    as a line and as a record."""
    least = least or {}
    if form in ("json", "csv"):
        document = summary.summary_document(result, least=least, shares=shares, explanation=explanation)
        if reported is not None:
            document["measured_by"] = reported[1]
        if form == "json":
            return json.dumps(document, indent=2)
        # One table: the attribution if it was asked for, else every value by its name.
        return format_records([summary.share_document(share) for share in shares] or flat_records(document), form)
    if explanation is not None:
        advice = Advice(explanation.remedies, explanation.remedies_tried, ())
    parts = [answer_text(answer(result), advice, form, power)]
    if reported is not None:
        parts.append(reported[0])
    if len(result.launches) > 1:
        parts.append(format_records(summary.launch_records(result), form))
    if explanation is not None:
        parts.append(explanation.sentence)
    tables = [summary.share_records(shares, TOP_SHARES)]
    if explanation is not None:
        tables += why_tables(explanation)
    tables.append(summary.bound_records(result, least))
    if details:
        tables += [
            summary.stall_records(result, TOP_STALLS),
            summary.unit_records(result),
            summary.traffic_records(result),
            energy_records(result),
            summary.counter_records(result),
        ]
    return "\n\n".join([*parts, *(format_records(records, form) for records in tables if records)])


def why_tables(explanation: Explanation) -> list[list[dict[str, Any]]]:
    """An explanation's tables: parts of the time, remedies, units made free; some may be empty."""
    return [
        summary.part_records(explanation),
        remedy_records(explanation.remedies),
        summary.finding_records(explanation),
    ]


def why_text(result: Result, explanation: Explanation, form: str = "table") -> str:
    """An explained run as text (``table`` or ``md``), for any command that has one: the answer, the sentence, the
    tables."""
    advice = Advice(explanation.remedies, explanation.remedies_tried, ())
    tables = [format_records(records, form) for records in why_tables(explanation) if records]
    return "\n\n".join([answer_text(answer(result), advice, form), explanation.sentence, *tables])


def flat_records(document: dict[str, Any]) -> list[dict[str, Any]]:
    """A document's values by dotted name."""
    records = []
    for name, value in document.items():
        if name == "units":
            records += [{"name": unit["metric"], "value": unit["busy_percent"]} for unit in value]
        elif name == "launches":
            records += [{"name": f"launch.{launch['launch']}.cycles", "value": launch["cycles"]} for launch in value]
        elif name == "why":
            records += [{"name": f"why.{f['made_free']}", "value": f["cycles"]} for f in value["made_free"]]
        elif name == "energy":
            records += [
                {"name": key if key.startswith("energy") else f"energy_{key}", "value": part}
                for key, part in value.items()
                if key != "by_unit_joules"
            ]
            records += [
                {"name": f"energy_joules.{unit}", "value": part}
                for unit, part in value.get("by_unit_joules", {}).items()
            ]
        elif isinstance(value, dict):
            prefix = {"stalls": "stall.", "least_cycles": "least_cycles."}.get(name, "")
            records += [{"name": prefix + key, "value": part} for key, part in value.items()]
        else:
            records.append({"name": name, "value": value})
    return records
