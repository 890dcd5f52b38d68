"""Charts of a comparison as SVG texts: simulated against measured, errors by launch, where the cycles go astray.

Mental model: one function a chart, from the document of one GPU's comparison
(:func:`gpusim.report.comparison.comparison_document`) to ``<svg>``; the same document gives the same text.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gpusim.report.charts import _BLUE, _GREEN, _GREY, _MOST_TOLD, _ORANGE, _PALETTE, _figure, _label, _svg

_COLOURS = {"SAME": _GREEN, "AMBIGUOUS": _GREY, "FASTER": _BLUE, "SLOWER": _ORANGE}
#: More launches than this make a bar chart unreadable: the ones furthest off are drawn.
MOST_BARS = 40
#: Letters of a shape beside a bar.
LONGEST_SHAPE = 28


def judged(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The launches that have both times."""
    return [launch for launch in document["launches"] if launch["measured_cycles"]]


def labels(launches: Sequence[dict[str, Any]]) -> list[str]:
    """Short names of launches: the kernel, its shape, the caches. Of a long shape those axes come first in which the
    launches of its kernel differ, so that no two of them read alike."""
    values: dict[tuple[str, str], set[str]] = {}
    for launch in launches:
        for axis in launch["shape"].split(","):
            values.setdefault((launch["kernel"], axis.partition("=")[0]), set()).add(axis)
    names = []
    for launch in launches:
        shape = launch["shape"]
        if len(shape) > LONGEST_SHAPE:
            axes = sorted(shape.split(","), key=lambda axis: len(values[launch["kernel"], axis.partition("=")[0]]) == 1)
            shape = ",".join(axes)[:LONGEST_SHAPE] + ".."
        names.append(_label(f"{launch['kernel']} {shape} ({launch['cache']})"))
    return names


def scatter_chart(document: dict[str, Any]) -> str:
    """Simulated over measured cycles, both logarithmic, with the identity and a factor of 1.1 and 1.5 around it."""
    figure, axes = _figure(5.2)
    launches = judged(document)
    cycles = [launch[key] for launch in launches for key in ("measured_cycles", "simulated_cycles")]
    low, high = min(cycles) / 1.6, max(cycles) * 1.6
    axes.plot([low, high], [low, high], color="black", linewidth=1)
    for factor, shade in ((1.5, _GREY), (1.1, _BLUE)):
        axes.fill_between(
            [low, high],
            [low / factor, high / factor],
            [low * factor, high * factor],
            color=shade,
            alpha=0.14,
            linewidth=0,
        )
    for verdict, colour in _COLOURS.items():
        mine = [launch for launch in launches if launch["verdict"] == verdict]
        if not mine:
            continue
        x = [launch["measured_cycles"] for launch in mine]
        reach = [
            [launch["measured_cycles"] - launch["measured_low_cycles"] for launch in mine],
            [launch["measured_high_cycles"] - launch["measured_cycles"] for launch in mine],
        ]
        y = [launch["simulated_cycles"] for launch in mine]
        axes.errorbar(
            x, y, xerr=reach, fmt="o", markersize=4.5, color=colour, elinewidth=0.9, label=f"{verdict} ({len(mine)})"
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlim=(low, high),
        ylim=(low, high),
        xlabel="measured cycles",
        ylabel="simulated cycles",
    )
    axes.legend(frameon=False, loc="upper left", fontsize=8)
    return _svg(figure, f"Points: simulated over measured cycles of {len(launches)} launches, both axes logarithmic")


def error_chart(document: dict[str, Any]) -> str:
    """Signed error of each launch with the interval of the measurement, the worst on top."""
    launches = sorted(judged(document), key=lambda launch: abs(launch["error_percent"]))[-MOST_BARS:]
    figure, axes = _figure(0.7 + 0.21 * len(launches))
    for place, launch in enumerate(launches):
        low, high = (
            100 * (launch["simulated_cycles"] / launch[end] - 1)
            for end in ("measured_high_cycles", "measured_low_cycles")
        )
        middle = launch["error_percent"]
        colour = _COLOURS.get(launch["verdict"], _GREY)
        axes.barh(place, middle, color=colour, height=0.7)
        axes.errorbar(middle, place, xerr=[[middle - low], [high - middle]], color="black", elinewidth=0.9, capsize=2)
    axes.set_yticks(range(len(launches)), labels(launches), fontsize=7.5)
    axes.set_ylim(-0.6, len(launches) - 0.4)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("error of the simulated cycles in percent, with the measurement's interval")
    return _svg(
        figure, f"Bars: error of {len(launches)} launches in percent, the largest on top; the table below has them"
    )


def gap_chart(document: dict[str, Any]) -> str:
    """The terms of each launch's gap, in percent of its measured cycles; empty without a decomposition."""
    launches = [launch for launch in judged(document) if launch["gap"]]
    launches = sorted(launches, key=lambda launch: abs(launch["error_percent"]))[-MOST_BARS:]
    if not launches:
        return ""
    names = list(dict.fromkeys(_term(term) for launch in launches for term in launch["gap"]))
    names.sort(key=lambda name: name == "residual")
    figure, axes = _figure(1.0 + 0.21 * len(launches))
    left, right = [0.0] * len(launches), [0.0] * len(launches)
    for number, name in enumerate(names):
        widths = [
            100 * sum(t["cycles"] for t in launch["gap"] if _term(t) == name) / launch["measured_cycles"]
            for launch in launches
        ]
        starts = [right[i] if width >= 0 else left[i] for i, width in enumerate(widths)]
        colour = "#cccccc" if name == "residual" else _PALETTE[number % len(_PALETTE)]
        axes.barh(range(len(launches)), widths, left=starts, color=colour, height=0.7, label=name)
        for i, width in enumerate(widths):
            right[i] += max(width, 0)
            left[i] += min(width, 0)
    axes.set_yticks(range(len(launches)), labels(launches), fontsize=7.5)
    axes.set_ylim(-0.6, len(launches) - 0.4)
    axes.axvline(0, color="black", linewidth=0.8)
    axes.set_xlabel("simulated - measured, in percent of the measured cycles, by what explains it")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(-0.5, 1.0))
    most = ", ".join(names[:_MOST_TOLD])
    return _svg(figure, f"Bars: simulated minus measured cycles of {len(launches)} launches in percent, by {most}")


def _term(term: dict[str, Any]) -> str:
    return f"{term['name']} ({term['kind']})" if term["kind"] == "traffic" else term["name"]


def stall_chart(document: dict[str, Any]) -> str:
    """Where each launch's simulated warp-cycles go, the largest reasons by name."""
    launches = list(reversed(document["launches"][:MOST_BARS]))
    totals: dict[str, float] = {}
    for launch in launches:
        whole = sum(launch["stalls"].values()) or 1
        for reason, cycles in launch["stalls"].items():
            totals[reason] = totals.get(reason, 0.0) + cycles / whole
    reasons = sorted((r for r in totals if totals[r]), key=lambda r: -totals[r])
    shown, rest = reasons[:7], reasons[7:]
    figure, axes = _figure(1.0 + 0.21 * len(launches))
    starts = [0.0] * len(launches)
    for number, reason in enumerate([*shown, "others"] if rest else shown):
        widths = []
        for launch in launches:
            whole = sum(launch["stalls"].values()) or 1
            part = (
                sum(launch["stalls"].get(r, 0) for r in rest) if reason == "others" else launch["stalls"].get(reason, 0)
            )
            widths.append(100 * part / whole)
        colour = "#cccccc" if reason == "others" else _PALETTE[number % len(_PALETTE)]
        axes.barh(range(len(launches)), widths, left=starts, color=colour, height=0.7, label=reason)
        starts = [start + width for start, width in zip(starts, widths, strict=True)]
    axes.set_yticks(range(len(launches)), labels(launches), fontsize=7.5)
    axes.set(xlim=(0, 100), ylim=(-0.6, len(launches) - 0.4), xlabel="percent of resident warp-cycles (simulated)")
    axes.legend(frameon=False, fontsize=8, ncols=4, loc="lower left", bbox_to_anchor=(-0.5, 1.0))
    most = ", ".join(shown[:_MOST_TOLD])
    return _svg(
        figure, f"Bars: percent of resident warp-cycles of {len(launches)} launches by stall reason; most {most}"
    )
