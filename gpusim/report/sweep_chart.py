"""A sweep as a picture: rates above, times below, over its first axis; a line for each combination of the others.

Mental model: the rows are those that the table prints. Sizes are drawn on a logarithmic axis where they span enough,
choices (a data type, a GPU) side by side. Matplotlib draws (the extra ``gpusim[report]``).
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from gpusim.errors import ToolchainError
from gpusim.io.whole_file import write_whole
from gpusim.report.charts import STYLE

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError("a plot needs matplotlib: pip install 'gpusim[report]'") from error

#: Rates in the order in which they are preferred, with what their axis says.
RATES = {
    "gb_per_s": "GB/s of the bytes that the kernel needs",
    "gflop_per_s": "G floating-point operations / s",
    "dram_gb_per_s": "GB/s at DRAM",
}
#: From this ratio of the largest to the smallest an axis is logarithmic.
LEAST_LOG_RATIO = 8
_INCHES, _DPI = (7.4, 6.4), 150
#: More lines than this have no legend that can be read, more values no names of their own.
MOST_NAMED = 12
#: More values than this stand in each other's way unless they are turned.
MOST_LEVEL = 7


def save_sweep_chart(rows: Sequence[Mapping[str, Any]], axes: Sequence[str], path: Path) -> None:
    """Draw ``rows`` (a mapping a point, as the sweep's table has them) over the first of ``axes`` into ``path``, in the
    format that its ending says. Points that were refused are left out."""
    rows = [row for row in rows if row.get("time_us", "") != ""]
    across = next(iter(axes), "gpu")
    rate = next((name for name in RATES if any(row.get(name, "") != "" for row in rows)), None)
    with mpl.rc_context(cast("dict[Any, Any]", STYLE)):
        figure = Figure(figsize=_INCHES, layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True)
        lines = _lines(rows, [name for name in ("kernel", *axes, "gpu") if name != across])
        places = _places(rows, across)
        for label, own in lines.items():
            for part, name in ((above, rate), (below, "time_us")):
                points = [(places[str(row[across])], row[name]) for row in own if name and row.get(name, "") != ""]
                part.plot(
                    *zip(*points, strict=True), marker="o", markersize=4, linewidth=1.2, label=label
                ) if points else None
        above.set(ylabel=RATES.get(rate or "", ""))
        above.set_ylim(bottom=0)
        below.set(ylabel="microseconds", xlabel=across)
        if _spans([row["time_us"] for row in rows]):
            below.set_yscale("log")
            below.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            below.yaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
            below.yaxis.set_minor_locator(NullLocator())
        is_number = all(_is_number(row[across]) for row in rows)
        if is_number and _spans(list(places.values())):
            below.set_xscale("log", base=2)
        if not is_number or len(places) <= MOST_NAMED:
            below.set_xticks(list(places.values()), list(places), rotation=0 if len(places) <= MOST_LEVEL else 45)
            below.xaxis.set_minor_locator(NullLocator())
        if 1 < len(lines) <= MOST_NAMED:
            above.legend(fontsize=8, frameon=False)
        data = io.BytesIO()
        figure.savefig(data, format=path.suffix.removeprefix("."), dpi=_DPI, metadata=_undated(path))
    write_whole(path, data.getvalue())


def _lines(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> dict[str, list[Mapping[str, Any]]]:
    """The rows of each combination of the columns ``names``, by its label."""
    found: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        label = ", ".join(f"{name}={row[name]}" if name not in ("kernel", "gpu") else str(row[name])
                          for name in names if row.get(name, "") != "")  # fmt: skip
        found.setdefault(label, []).append(row)
    return found


def _places(rows: Sequence[Mapping[str, Any]], across: str) -> dict[str, float]:
    """Where each value of the axis stands: a number at itself, choices one after another."""
    values = list(dict.fromkeys(row[across] for row in rows))
    if all(map(_is_number, values)):
        return {str(value): float(value) for value in values}
    return {str(value): float(place) for place, value in enumerate(values)}


def _spans(values: Sequence[float]) -> bool:
    """Whether the values want a logarithmic axis."""
    return bool(values) and min(values) > 0 and max(values) / min(values) >= LEAST_LOG_RATIO


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _undated(path: Path) -> dict[str, Any]:
    """The same rows give the same file."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(path.suffix, {})
