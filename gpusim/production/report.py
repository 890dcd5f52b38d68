"""Where production's time goes, and how much of it has no name.

Mental model: rows are grouped by some columns, and each group has its share of the time. A column's share of UNKNOWN
says how much of the time the answer leaves out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpusim.production.amounts import Amount, amount_of, grouped, share_percent
from gpusim.production.columns import COLUMNS, NamedTotal, columns_of
from gpusim.production.names.kernel_name import UNKNOWN

#: Of a report that is not told by what.
BY = ("family", "operation")


def report_records(rows: Sequence[NamedTotal], by: Sequence[str] = BY, most: int | None = None) -> list[dict[str, Any]]:
    """A row a group, those with most time first; those after ``most`` as one, whose texts are "...": the shares add up
    to 100."""
    columns = columns_of(by)
    whole = amount_of(rows)
    groups = sorted(grouped(rows, columns).items(), key=lambda each: (-each[1].time_ns, -each[1].launches, each[0]))
    shown = groups if most is None else groups[:most]
    records = [dict(zip(columns, key)) | amount_record(amount, whole) for key, amount in shown]
    rest = Amount()
    for _, amount in groups[len(shown) :]:
        rest.launches, rest.time_ns = rest.launches + amount.launches, rest.time_ns + amount.time_ns
        rest.timed, rest.sum_ns = rest.timed + amount.timed, rest.sum_ns + amount.sum_ns
    if rest.launches:
        texts = dict.fromkeys(columns, "...") | {columns[0]: f"... {len(groups) - len(shown)} more"}
        records.append(texts | amount_record(rest, whole))
    return records


def amount_record(amount: Amount, whole: Amount) -> dict[str, Any]:
    """The figures of a group; times in us that are not known are ""."""
    mean = amount.mean_ns
    return {
        "launches": round(amount.launches),
        "time_ms": amount.time_ns / 1e6,
        "share_percent": share_percent(amount, whole),
        "mean_us": "" if mean is None else mean / 1000,
        "median_us": _or_nothing(amount.quantile_us(0.5)),
        "p99_us": _or_nothing(amount.quantile_us(0.99)),
    }


def unknown_records(rows: Sequence[NamedTotal]) -> list[dict[str, Any]]:
    """A row a column: how much of the time is UNKNOWN in it, and which kernel most of that is."""
    whole = amount_of(rows)
    records = []
    for column, text in COLUMNS.items():
        lacking = [row for row in rows if text(row) == UNKNOWN]
        kernels = grouped(lacking, ("kernel",))
        most = max(kernels, key=lambda key: (kernels[key].time_ns, kernels[key].launches), default=("",))
        records.append(
            {
                "column": column,
                "unknown_percent": share_percent(amount_of(lacking), whole),
                "kernels": len(kernels),
                "most": most[0],
            }
        )
    return records


def unknown_line(rows: Sequence[NamedTotal], columns: Sequence[str]) -> str:
    """How much of the time each of ``columns`` leaves out, in a sentence."""
    whole = amount_of(rows)
    parts = []
    for column in columns:
        lacking = amount_of(row for row in rows if COLUMNS[column](row) == UNKNOWN)
        parts.append(f"{column} {share_percent(lacking, whole):.3g} %")
    return f"unknown share of {'time' if whole.time_ns else 'launches'}: {', '.join(parts)}"


def _or_nothing(value: float | None) -> Any:
    return "" if value is None else value
