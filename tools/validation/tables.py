"""Order and regret within tables of configurations: one kernel on one problem, timed at several choices.

Mental model: a set's ``twins`` are the columns in which its configurations differ. Rows that agree in all else that
says what ran are a table, and a user who tunes asks of each: in which order do its configurations come, and what does
the best predicted one take above the fastest?
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from .figures import LEAST_CHOICE, figures
from .sets import MeasuredRow, MeasuredSet


def tables(
    chosen: MeasuredSet, records: Sequence[Mapping[str, Any]], rows: Mapping[tuple[str, str], MeasuredRow]
) -> list[dict[str, Any]]:
    """Of each table of ``chosen`` with at least three predicted rows: its name, half, rows, errors in per cent, rank
    correlation and regret in per cent; in the order of the records. ``records``: as validate.py makes them; ``rows``:
    by set and identity."""
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    alike = [each for each in chosen.entry["identity"] if each not in chosen.entry["twins"]]
    for record in records:
        if record["set"] == chosen.name and "failed" not in record:
            values = rows[chosen.name, record["row"]].values
            found[" ".join(f"{name}={values[name]}" for name in alike)].append(record)
    return [_table(chosen.name, name, mine) for name, mine in found.items() if len(mine) >= LEAST_CHOICE]


def _table(set_name: str, name: str, records: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    made = figures(
        [each["row"] for each in records],
        [each["predicted_us"] for each in records],
        [each["measured_us"] for each in records],
        [each["noise_percent"] for each in records],
        one_problem=True,
    )
    halves = {each["half"] for each in records}
    return {
        "set": set_name,
        "table": name,
        "half": halves.pop() if len(halves) == 1 else "both",
        "rows": made.rows,
        "mape_percent": round(made.mape_percent, 1),
        "signed_percent": round(made.signed_percent, 1),
        "rank": made.rank,
        "regret_percent": made.regret_percent,
    }
