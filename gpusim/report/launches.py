"""The launches of a program by kernel: how often each ran, what all of its launches took, and how they differ.

Mental model: an account has a row for launches that follow each other and do not differ; a loop leaves hundreds. Rows
of one kernel (on one device, of one process) are added up, the kernel that takes most first.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from gpusim.report.tables import format_records

#: More rows than this are summarised first, and then left out unless they are asked for.
MOST_ROWS = 20
_KEYS = ("process", "device", "kernel")


def by_kernel(records: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row a kernel of ``records`` (rows of an account: ``launches`` alike each). ``cycles``, ``share_percent`` and
    the least, median and most of a launch are of those that were simulated; where none was, ``warp_instructions`` and
    their share take their place. None where there is nothing to say."""
    timed = any(record.get("cycles") is not None for record in records)
    of = "cycles" if timed else "warp_instructions"
    groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for record in records:
        groups.setdefault(tuple(record.get(key) for key in _KEYS), []).append(record)
    total = sum(record["launches"] * (record[of] or 0) for record in records)
    rows: list[dict[str, Any]] = []
    for group in groups.values():
        each = [record[of] for record in group if record[of] is not None for _ in range(record["launches"])]
        row: dict[str, Any] = {key: group[0][key] for key in _KEYS if key in group[0]}
        row["launches"] = sum(record["launches"] for record in group)
        if any(record[of] is None for record in records):  # of which some alone were to be simulated
            row["simulated"] = len(each)
        row[of] = sum(each) if each else None
        if timed:
            row["time_us"] = sum(record["launches"] * (record["time_us"] or 0.0) for record in group) if each else None
        row["share_percent"] = 100.0 * sum(each) / total if each and total else None
        row |= {
            f"least_{of}": min(each, default=None),
            f"median_{of}": statistics.median(each) if each else None,
            f"most_{of}": max(each, default=None),
        }
        if any("findings" in record for record in group):
            row["findings"] = sum(record.get("findings") or 0 for record in group)
        rows.append(row | {"host_ms": sum(record["host_ms"] for record in group)})
    return sorted(rows, key=lambda row: -(row[of] or 0))


def launches_text(records: Sequence[dict[str, Any]], every: bool) -> str:
    """The account as tables to read: of many rows their kernels first, and the rows below if ``every`` one is asked
    for."""
    if len(records) <= MOST_ROWS:
        return _table(records)
    text = _table(by_kernel(records))
    if every:
        return f"{text}\n\n{_table(records)}"
    return f"{text}\n\n{len(records)} rows of launches: --all-launches lists them, --output FILE keeps them"


def _table(records: Sequence[dict[str, Any]]) -> str:
    return format_records(
        [{key: "" if value is None else value for key, value in record.items()} for record in records], "table"
    )
