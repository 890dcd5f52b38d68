"""The report's charts as SVG texts that stand in the page itself.

Mental model: one function a chart, from a saved document (see :mod:`gpusim.report.saved`) to ``<svg>``; the
same document gives the same text. Matplotlib draws (the extra ``gpusim[report]``). A chart has the page's background
and, where matplotlib would draw black, the page's colour of text, so that it is read on a dark page too; other colours
are of middle lightness. To a screen reader it is one image, with a sentence that says what it shows.
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import Any

from gpusim.errors import ToolchainError

try:
    import matplotlib as mpl
    from matplotlib.figure import Figure
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError("the HTML report needs matplotlib and jinja2: pip install 'gpusim[report]'") from error

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "gpusim",
    "font.family": "sans-serif",
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
}
_BLUE, _ORANGE, _GREEN, _GREY = "#3b6ea5", "#d1772b", "#4b8f4b", "#8a8a8a"
_PALETTE = (_BLUE, _ORANGE, _GREEN, "#8e5ea2", "#b8a13a", "#4aa3a2", "#a0522d", "#6c7a89")
_WIDTH = 7.4
#: A document from elsewhere may hold any text, any number of times: a letter costs the drawing 70 us, a bar 10 ms.
_MOST_LETTERS, _MOST_BARS = 48, 64
#: Of bars, curves or points those that are told to who does not see them.
_MOST_TOLD = 4
_LEGEND_COLUMNS = 4


#: Width or height of the outermost element, which comes first.
_SIZE = re.compile(r'(?<=\s)(?:width|height)="[0-9.]+pt"\s')
#: What matplotlib draws black, in the styles of elements; a text that is black has no colour in its style.
_BLACK = re.compile(r'(?<=: )#000000(?=[;"])')


def _svg(figure: Figure, says: str) -> str:
    """``says``: what the chart shows, to those who do not see it."""
    text = io.StringIO()
    with mpl.rc_context(STYLE):
        figure.savefig(text, format="svg", metadata={"Date": None}, bbox_inches="tight", transparent=True)
    svg = text.getvalue()
    # Without a size of its own it takes the width that the page has for it.
    drawn = _BLACK.sub("currentColor", _SIZE.sub("", svg[svg.index("<svg") :], count=2))
    return f'<svg role="img" aria-label="{escape(says)}" fill="currentColor"{drawn.removeprefix("<svg")}'


def _figure(height: float) -> tuple[Figure, Any]:
    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(_WIDTH, height))
        return figure, figure.subplots()


def _legend_below(axes: Any) -> None:
    """What colours mean, in rows below: beside the axes it would be out of sight where a page is narrower."""
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(-0.02, -0.28), ncol=_LEGEND_COLUMNS)


def _short(text: str) -> str:
    """A name no longer than there is room for."""
    return text if len(text) <= _MOST_LETTERS else f"{text[: _MOST_LETTERS - 3]}..."


def _label(text: str) -> str:
    """A name as a chart shows it: short, and no formula."""
    return _short(text).replace("$", r"\$")


def stall_chart(document: dict[str, Any]) -> str:
    """Warp-cycles by stall reason."""
    total = sum(document["stalls"].values()) or 1
    rows = sorted((100 * cycles / total, name) for name, cycles in document["stalls"].items() if cycles)[-_MOST_BARS:]
    figure, axes = _figure(0.5 + 0.22 * max(1, len(rows)))
    colours = [_GREEN if name == "selected" else _BLUE for _, name in rows]
    bars = axes.barh([_label(name) for _, name in rows], [percent for percent, _ in rows], color=colours)
    axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
    axes.set_xlabel("percent of resident warp-cycles (green: issuing)")
    most = ", ".join(f"{_short(name)} {percent:.1f}" for percent, name in reversed(rows[-_MOST_TOLD:]))
    return _svg(figure, f"Bars: percent of resident warp-cycles by stall reason; {most}")


def unit_chart(document: dict[str, Any]) -> str:
    """Busy share of every unit."""
    units = list(reversed(document["units"][:_MOST_BARS]))
    figure, axes = _figure(0.5 + 0.22 * max(1, len(units)))
    bars = axes.barh([_label(unit["unit"]) for unit in units], [unit["busy_percent"] for unit in units], color=_BLUE)
    axes.bar_label(bars, fmt="%.1f", padding=2, fontsize=8)
    axes.set_xlim(0, 108)
    axes.axvline(100, color=_GREY, linewidth=0.8)
    axes.set_xlabel("percent of the time that it could work")
    busiest = sorted(units, key=lambda unit: -unit["busy_percent"])[:_MOST_TOLD]
    most = ", ".join(f"{_short(unit['unit'])} {unit['busy_percent']:.1f}" for unit in busiest)
    return _svg(figure, f"Bars: percent of the time that each unit is busy; {most}")


def roofline_chart(document: dict[str, Any]) -> str:
    """Roofs, slopes and the run's points; empty where there is no floating-point work."""
    data = document["roofline"]
    if not data["points"] or not data["roofs"]:
        return ""
    figure, axes = _figure(3.4)
    top = max(data["roofs"].values())
    places = [point["operations_per_byte"] for point in data["points"]]
    ridges = [top / slope for slope in data["slopes"].values()]
    low, high = min(places + ridges) / 4, max(places + ridges) * 4
    # Levels of equal traffic share a place: their names stand one below the other.
    for number, ((level, slope), colour) in enumerate(
        zip(data["slopes"].items(), (_GREEN, _ORANGE, _BLUE), strict=False)
    ):
        ridge = top / slope
        axes.plot(
            [low, ridge], [low * slope, top], color=colour, linewidth=1.2, label=f"{_label(level)} {slope:,.0f} GB/s"
        )
        for point in data["points"]:
            if point["level"] == level:
                place = point["operations_per_byte"], point["g_operations_per_s"]
                axes.plot(*place, "o", color=colour, markersize=6)
                axes.annotate(_label(level), place, textcoords="offset points", xytext=(6, 6 - 9 * number), fontsize=8)
    for kind, roof in list(data["roofs"].items())[:_MOST_BARS]:
        axes.plot([low, high], [roof, roof], color=_GREY, linewidth=1.2)
        axes.annotate(f"{_label(kind)} {roof:,.0f} Gop/s", (high, roof), ha="right", va="bottom", fontsize=8)
    axes.set(xscale="log", yscale="log", xlim=(low, high), xlabel="operations per byte", ylabel="G operations / s")
    axes.set_ylim(bottom=min(point["g_operations_per_s"] for point in data["points"]) / 4)  # points clear of the axis
    # Above the axes: a point may lie anywhere under the roofs.
    axes.legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.05), ncol=len(data["slopes"]))
    places = [
        f"{_short(point['level'])} {point['operations_per_byte']:.3g} operations a byte, {point['g_operations_per_s']:.3g} G operations a second"
        for point in data["points"][:_MOST_TOLD]
    ]
    return _svg(figure, f"Roofline, both axes logarithmic; {'; '.join(places)}")


def bandwidth_chart(document: dict[str, Any], launch: dict[str, Any]) -> str:
    """DRAM and L2 bandwidth over one launch."""
    over = launch.get("over_time")
    if not over:
        return ""
    figure, axes = _figure(2.2)
    time_us = _time_us(document, over)
    dram = [r + w for r, w in zip(over["dram_read_gb_per_s"], over["dram_write_gb_per_s"], strict=True)]
    writes = over["dram_write_gb_per_s"]
    curves = (("L2", over["l2_gb_per_s"], _ORANGE), ("DRAM", dram, _BLUE), ("DRAM, writes", writes, _GREEN))
    for name, values, colour in curves:
        axes.step(time_us, values, where="post", label=name, color=colour, linewidth=1)
    peak = document["roofline"]["slopes"]["DRAM"]
    axes.axhline(peak, color=_GREY, linewidth=0.8, linestyle="--")
    axes.annotate("DRAM peak", (time_us[-1], peak), ha="right", va="bottom", fontsize=8, color=_GREY)
    axes.set(xlabel="microseconds since the launch", ylabel="GB/s")
    axes.set_ylim(bottom=0)
    axes.set_xlim(left=0)
    _legend_below(axes)
    most = ", ".join(f"{name} {max(values):,.0f}" for name, values, _ in curves)
    return _svg(figure, f"Curves over the launch's time: bandwidth in GB/s; at most {most}; DRAM's peak {peak:,.0f}")


def warp_chart(document: dict[str, Any], launch: dict[str, Any]) -> str:
    """What the resident warps do over one launch, all SMs together."""
    over = launch.get("over_time")
    if not over:
        return ""
    names = [name for name in over if name.startswith("warps.") and any(over[name])]
    names = sorted(names, key=lambda name: -sum(over[name]))[:_MOST_BARS]
    figure, axes = _figure(2.2)
    colours = [mpl.colormaps["tab20"](i / 20) for i in range(len(names))]
    labels = [_label(name.removeprefix("warps.")) for name in names]
    axes.stackplot(_time_us(document, over), [over[name] for name in names], labels=labels, colors=colours, step="post")
    axes.set(xlabel="microseconds since the launch", ylabel="warps")
    axes.set_xlim(left=0)
    _legend_below(axes)
    most = ", ".join(name.removeprefix("warps.") for name in names[:_MOST_TOLD])
    return _svg(figure, f"Areas over the launch's time: warps by what they do; most {most}")


def _time_us(document: dict[str, Any], over: dict[str, list[float]]) -> list[float]:
    return [cycle / document["clock_hz"] * 1e6 for cycle in over["cycle"]]
