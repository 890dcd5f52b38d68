"""The dashboard's charts, each a function from what is read to an ``<svg>``.

Mental model: what can be clicked is a link with a name, so that a keyboard and a screen reader reach it too; beside
each chart the page has the same as a table. The value axis does not begin at 0 where a step of a percent is to be seen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from gpusim.regress.attribution import StallTerm
from gpusim.serve.canvas import Canvas
from gpusim.serve.figures import day as day_of
from gpusim.serve.figures import percent, signed, time_us
from gpusim.serve.history import SeriesChange, SeriesHistory
from gpusim.serve.pairs import KernelRatio
from gpusim.serve.scales import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    WIDTH,
    across_pixels,
    dated,
    frame,
    linear,
    logarithmic,
    up_pixels,
)
from gpusim.serve.thinning import thin_band, thin_line

#: Changes that are marked, the newest; more would lie on each other.
MOST_MARKS = 60
MOST_KERNELS = 250
#: Half the width of a change's mark, in pixels.
_MARK = 7.0
#: Corners of the marks that the legend of a history shows (▲ ▼ ◆), for who does not tell their colours apart; each
#: around its own middle.
SHAPES = {
    "slower": ((-1.0, -0.75), (1.0, -0.75), (0.0, 1.0)),
    "faster": ((-1.0, 0.75), (1.0, 0.75), (0.0, -1.0)),
    "method": ((-1.0, 0.0), (0.0, 1.0), (1.0, 0.0), (0.0, -1.0)),
}


def history_chart(history: SeriesHistory, link: Callable[[SeriesChange], str], marked: int | None = None) -> str:
    """A series over its commits, with its changes as links; the change at position ``marked`` stands out."""
    points = history.points
    if not points:
        return ""
    canvas = Canvas(WIDTH, HEIGHT)
    places = [float(point.position) for point in points]
    where = [float(position) for position, _ in history.times]
    across = dated([time for _, time in history.times], *across_pixels(canvas), where)
    measured = history.key.mode == "measured"
    values = [point.value for point in points]
    shown = [*values, *(point.low for point in points), *(point.high for point in points)] if measured else values
    up = linear(shown, *up_pixels(canvas))
    frame(canvas, across, up)
    xs = [across.place(place) for place in places]
    if measured:
        low, high = ([up.place(getattr(point, name)) for point in points] for name in ("low", "high"))
        canvas.area(*thin_band(xs, low, high), "band")
    canvas.line(*thin_line(xs, [up.place(value) for value in values]), "line", steps=not measured)
    for change in history.changes[-MOST_MARKS:]:
        x, y = across.place(change.position), up.place(change.after)
        chosen = change.position == marked
        if chosen:
            canvas.lines([(x, BOTTOM, x, canvas.height)], "here")
        day = day_of(points[change.index].time)
        name = f"{percent(change.percent)} on {day}{f', alert {change.alert}' if change.alert else ''}"
        look = look_of(change)
        canvas.shape(x, y, _MARK + 2 * chosen, SHAPES[look], look, name, link(change))
    return canvas.svg(f"{history.key.name} over commits, in {history.key.unit}")


def trend_chart(lines: Mapping[str, Sequence[tuple[float, float]]], title: str, unit: str = " %") -> str:
    """Several lines over time, each a rising sequence of (seconds since 1970, value), named at its end."""
    drawn = {name: points for name, points in lines.items() if points}
    if not drawn:
        return ""
    canvas = Canvas(WIDTH, HEIGHT)
    times = sorted({time for points in drawn.values() for time, _ in points})
    room = 90.0 if len(drawn) > 1 else 0.0
    left, right = across_pixels(canvas)
    across = dated(times, left, right - room)
    up = linear(
        [value for points in drawn.values() for _, value in points], *up_pixels(canvas), from_zero=True, unit=unit
    )
    frame(canvas, across, up)
    ends = sorted((up.place(points[-1][1]), name) for name, points in drawn.items())
    label_y = -math.inf
    label_of = {}
    for y, name in ends:  # names that would lie on each other are moved up
        label_y = max(y - 4, label_y + 14)
        label_of[name] = label_y
    for number, (name, points) in enumerate(drawn.items()):
        look = f"s{number % 6}"
        places = [(across.place(time), up.place(value)) for time, value in points]
        canvas.line([x for x, _ in places], [y for _, y in places], f"trend {look}")
        spots = len(points) if len(points) <= MOST_MARKS else 1
        for (x, y), (time, value) in zip(places[-spots:], points[-spots:], strict=True):
            canvas.dot(x, y, 3.5, f"spot {look}", f"{name}: {value:.1f}{unit} on {day_of(time)}")
        if room:
            canvas.text(places[-1][0] + 9, label_of[name], name, f"name {look}")
    return canvas.svg(title)


def pair_chart(rows: Sequence[KernelRatio], first: str, second: str, link: Callable[[KernelRatio], str]) -> str:
    """Each kernel's time on one GPU over its time on another; below the line the second is faster."""
    if not rows:
        return ""
    # Where there are too many, those that gain and lose most.
    some = sorted(rows, key=lambda row: -abs(math.log(row.ratio)))[:MOST_KERNELS]
    canvas = Canvas(WIDTH, 420.0)
    across = logarithmic([row.first_us for row in some], *across_pixels(canvas))
    up = logarithmic([row.second_us for row in some], *up_pixels(canvas))
    frame(canvas, across, up)
    low, high = max(across.low, up.low), min(across.high, up.high)
    if low < high:
        canvas.line([across.place(low), across.place(high)], [up.place(low), up.place(high)], "equal")
    for row in some:
        look = "faster" if row.ratio < 1 else "slower"
        name = f"{row.kernel}: {time_us(row.first_us)} on {first}, {time_us(row.second_us)} on {second}"
        canvas.dot(across.place(row.first_us), up.place(row.second_us), 5, look, name, link(row))
    canvas.text(canvas.width - RIGHT, BOTTOM + 6, f"µs on {first}", "axis", "end")
    canvas.text(LEFT + 4, canvas.height - 20, f"µs on {second}", "axis")
    return canvas.svg(f"Time of each kernel on {second} over its time on {first}, in microseconds")


def stall_chart(terms: Sequence[StallTerm]) -> str:
    """Cycles of a difference by stall reason, more to the right and fewer to the left."""
    rows = [term for term in terms if term.cycles][:12]
    if not rows:
        return ""
    height = 26.0
    canvas = Canvas(WIDTH, height * len(rows) + 6)
    name_room, figure_room = 190.0, 90.0
    least, most = min(0, *(row.cycles for row in rows)), max(0, *(row.cycles for row in rows))
    left = name_room + (figure_room if least < 0 else 0)
    scale = (canvas.width - figure_room - left) / ((most - least) or 1)
    zero = left - least * scale
    for number, row in enumerate(rows):
        y = canvas.height - height * (number + 1)
        canvas.text(name_room - 10, y + 6, row.stall, "tick", "end")
        end = zero + row.cycles * scale
        canvas.bar(
            min(zero, end), y + 2, max(abs(end - zero), 1.0), height - 8, "slower" if row.cycles > 0 else "faster"
        )
        anchor = "start" if row.cycles > 0 else "end"
        canvas.text(end + (6 if row.cycles > 0 else -6), y + 6, signed(row.cycles), "value", anchor)
    canvas.lines([(zero, 0, zero, canvas.height)], "axisline")
    return canvas.svg("Cycles of the difference by what warps wait for")


def look_of(change: SeriesChange) -> str:
    """The class of a change: slower or faster, or of a method, which is nobody's doing."""
    if change.cause not in ("commit", ""):
        return "method"
    return "slower" if change.after > change.before else "faster"
