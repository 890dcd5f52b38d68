"""Rows as text: one function from a list of records to table, JSON, CSV or Markdown.

Mental model: every command that prints data makes a list of dicts with the same keys, and this file
writes them in the format that was asked for. JSON and CSV carry full precision; table and Markdown
round for the eye.
"""

from __future__ import annotations

import csv
import io
import json
import math
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any, TextIO

from gpusim.errors import ToolchainError

try:
    from tabulate import tabulate
except ImportError:  # JSON and CSV need none
    tabulate = None

FORMATS = ("table", "json", "csv", "md")
#: Of a fraction in text; whole numbers, and all digits before the point, are written out.
SIGNIFICANT_DIGITS = 3
#: Between two columns of a table, and of a column that is folded, at least.
_GAP, LEAST_WIDTH = 2, 20
#: Larger figures are written with an exponent.
MOST_DIGITS = 15


def format_records(records: Sequence[dict[str, Any]], form: str) -> str:
    """``records`` (dicts with the same keys, in column order) as text that ends without a newline. Tables round
    fractions to three significant digits.

    ``form`` is one of :data:`FORMATS`; no number in JSON is NaN or infinite (they become null).
    """
    if form == "json":
        finite = [{key: _finite(value) for key, value in record.items()} for record in records]
        return json.dumps(finite, indent=2, allow_nan=False)
    columns = list(records[0]) if records else []
    if form == "csv":
        text = io.StringIO()
        writer = csv.DictWriter(text, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {key: value + 0.0 if isinstance(value, float) else value for key, value in record.items()}
            for record in records
        )
        return text.getvalue().rstrip("\n")
    if tabulate is None:
        raise ToolchainError("tables need the package tabulate: pip install tabulate, or give --format json")
    cells = [[_cell(record[column]) for column in columns] for record in records]
    numeric = [all(isinstance(r[c], (int, float)) for r in records) for c in columns]
    return tabulate(
        cells,
        headers=columns,
        tablefmt="github" if form == "md" else "simple",
        colalign=["right" if n else "left" for n in numeric] if records else None,
        disable_numparse=True,
    )


def folded(records: Sequence[dict[str, Any]], columns: Sequence[str], stream: TextIO) -> list[dict[str, Any]]:
    """``records`` of a table with the texts of ``columns`` folded so that lines fit a terminal; as they are where
    ``stream`` is none."""
    if not records or not stream.isatty():
        return list(records)
    widths = {name: max(len(name), *(len(_cell(record[name])) for record in records)) for name in records[0]}
    taken = sum(width + _GAP for name, width in widths.items() if name not in columns)
    each = max(LEAST_WIDTH, (shutil.get_terminal_size().columns - taken) // len(columns) - _GAP)
    return [
        {name: textwrap.fill(str(value), each) if name in columns else value for name, value in record.items()}
        for record in records
    ]


def format_cards(records: Sequence[dict[str, Any]], form: str) -> str:
    """As :func:`format_records`, but a table is a paragraph a record with a line a column: for few records whose texts
    are too long to stand beside each other. Lines without a value are left out."""
    if form != "table" or tabulate is None:
        return format_records(records, form)
    cards = ([(name, _cell(value)) for name, value in record.items() if value != ""] for record in records)
    return "\n\n".join(tabulate(card, tablefmt="plain", disable_numparse=True) for card in cards)


def format_pairs(pairs: Sequence[tuple[str, str]], form: str) -> str:
    """Names and what is said of them, a line each; ``form`` is ``table`` or ``md``."""
    if tabulate is None:
        raise ToolchainError("tables need the package tabulate: pip install tabulate, or give --format json")
    if form == "md":
        return tabulate(pairs, headers=("", ""), tablefmt="github", disable_numparse=True)
    return tabulate(pairs, tablefmt="plain", disable_numparse=True)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value + 0.0 if math.isfinite(value) else None  # a negative zero plus zero is zero
    return value


def rounded(value: float) -> str:
    """Three significant digits; all digits before the point, since a million cycles are read as 1170687, not as
    1.17e+06."""
    value += 0.0  # a negative zero plus zero is zero
    text = f"{value:.{SIGNIFICANT_DIGITS}g}"
    return f"{value:.0f}" if "e+" in text and abs(value) < 10**MOST_DIGITS else text


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return "-" if math.isnan(value) else rounded(value)
    return str(value)
