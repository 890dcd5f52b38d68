"""Plans of a sweep as one chart: tokens a second and GPU over latency, with the front that nothing beats and its
intervals.

Mental model: one function, from points to ``<svg>``; the same points give the same text. A point is a plan, whose place
is its latency in ms and its throughput in tokens a second and GPU.
"""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

from gpusim.report.charts import _GREY, _PALETTE, _figure, _label, _svg
from gpusim.report.sweep_points import Point

#: From this ratio of the largest to the smallest an axis is logarithmic.
LEAST_LOG_RATIO = 8
#: Plans of a front whose numbers can be told apart in the chart.
MOST_NUMBERED = 24


def front_chart(points: Sequence[Point], front: Sequence[Point], numbered: dict[int, int], latency_name: str) -> str:
    """``points``: those that fit into memory; ``front``: of these, by latency; ``numbered``: index of a point -> the
    number that it has on the page."""
    figure, axes = _figure(4.4)
    gpus = list(dict.fromkeys(point.gpu for point in points))
    for place, gpu in enumerate(gpus):
        colour = _PALETTE[place % len(_PALETTE)]
        own = [point for point in points if point.gpu == gpu]
        x, y = [point.latency_ms.middle for point in own], [point.rate.middle for point in own]
        axes.plot(x, y, "o", color=colour, markersize=3.5, alpha=0.35, markeredgewidth=0, rasterized=False)
        best = [point for point in front if point.gpu == gpu]
        if best:
            axes.errorbar(
                [point.latency_ms.middle for point in best], [point.rate.middle for point in best],
                xerr=[[point.latency_ms.below for point in best], [point.latency_ms.above for point in best]],
                yerr=[[point.rate.below for point in best], [point.rate.above for point in best]],
                fmt="o", color=colour, markersize=5.5, elinewidth=0.8, capsize=2,
            )  # fmt: skip
        axes.plot([], [], "o", color=colour, label=_label(gpu))
    axes.plot(
        [point.latency_ms.middle for point in front], [point.rate.middle for point in front],
        color=_GREY, linewidth=1, zorder=1, label="nothing is both faster and gives more",
    )  # fmt: skip
    axes.set(xlabel=f"{latency_name}, ms (left is faster)", ylabel="tokens a second and GPU (up is more)")
    _scaled(axes, "x", [point.latency_ms.middle for point in points])
    _scaled(axes, "y", [point.rate.middle for point in points])
    if len(front) <= MOST_NUMBERED:
        shown = {point.index: numbered[point.index] for point in front}
    else:
        every = -(-len(front) // MOST_NUMBERED)
        shown = {point.index: numbered[point.index] for place, point in enumerate(front) if place % every == 0}
    for place, point in enumerate(point for point in front if point.index in shown):
        # Neighbours' numbers stand on either side of the front, so that they keep clear of each other.
        left = place % 2 == 0
        axes.annotate(
            str(shown[point.index]), (point.latency_ms.middle, point.rate.middle), textcoords="offset points",
            xytext=(-5, 5) if left else (5, -5), ha="right" if left else "left", va="bottom" if left else "top", fontsize=9, fontweight="bold",
        )  # fmt: skip
    axes.grid(color=_GREY, alpha=0.25, linewidth=0.6)
    axes.legend(fontsize=8, frameon=False, loc="lower left", bbox_to_anchor=(0.0, 1.01), ncol=3)
    return _svg(
        figure,
        f"Points: {len(points)} plans by {latency_name} and tokens a second and GPU, joined where nothing beats them",
    )


def _scaled(axes: object, name: str, values: Sequence[float]) -> None:
    """A logarithmic axis with plain figures where values span enough, else one that begins at zero."""
    axis = getattr(axes, f"{name}axis")
    if max(values) / min(values) < LEAST_LOG_RATIO:
        getattr(axes, f"set_{name}lim")(**{"left" if name == "x" else "bottom": 0})
        return
    getattr(axes, f"set_{name}scale")("log")
    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    axis.set_minor_locator(NullLocator())
