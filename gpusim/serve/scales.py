"""From values to places on a drawing: round ticks, their labels, and the frame around them.

Mental model: a scale maps what is drawn to pixels, linearly or by logarithm; its ticks are those of Matplotlib's
locators. A time scale's ticks are days, months or years.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from gpusim.errors import ToolchainError
from gpusim.serve.canvas import Canvas

try:
    from matplotlib.ticker import LogLocator, MaxNLocator
except ImportError as error:  # an extra: say how to get it
    raise ToolchainError("the dashboard needs matplotlib: pip install 'gpusim[serve]'") from error

#: Of a chart that stands alone, in pixels of its own.
WIDTH, HEIGHT = 880.0, 300.0
LEFT, RIGHT, TOP, BOTTOM = 84.0, 16.0, 14.0, 30.0
_TICKS = 5
#: Large figures are written short, so that they fit beside the axis.
_FACTORS = ((1e9, "G"), (1e6, "M"), (1e3, "k"), (0.0, ""))
_DAY_SECONDS = 86_400


@dataclass(frozen=True)
class Scale:
    """``low`` to ``high`` onto ``start`` to ``end`` pixels, with ``ticks`` (value, label)."""

    low: float
    high: float
    start: float
    end: float
    ticks: tuple[tuple[float, str], ...]
    logarithmic: bool = False

    def place(self, value: float) -> float:
        """Where ``value`` is."""
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)


def linear(values: Sequence[float], start: float, end: float, *, from_zero: bool = False, unit: str = "") -> Scale:
    """A scale with room for ``values``, of which there is one at least."""
    low, high = min(values), max(values)
    low = min(0.0, low) if from_zero else low
    # A flat line stands in the middle of one percent of itself.
    pad = (high - low) * 0.08 or abs(high) * 0.005 or 1.0
    ticks = MaxNLocator(_TICKS, steps=[1, 2, 2.5, 5, 10]).tick_values(low if from_zero else low - pad, high + pad)
    step = ticks[1] - ticks[0]
    factor, suffix = next(each for each in _FACTORS if max(map(abs, ticks)) >= 100 * each[0])
    factor = factor or 1.0
    step /= factor
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) if step > 0 else 0
    digits += bool(digits < 12 and abs(step * 10**digits - round(step * 10**digits)) > 1e-6)
    labels = ((float(t), f"{t / factor:,.{digits}f}{suffix}{unit}") for t in ticks)
    return Scale(float(ticks[0]), float(ticks[-1]), start, end, tuple(labels))


def logarithmic(values: Sequence[float], start: float, end: float) -> Scale:
    """A scale by powers of ten with room for positive ``values``."""
    low, high = min(values) / 1.3, max(values) * 1.3
    ticks = [t for t in LogLocator(subs=(1.0,)).tick_values(low, high) if low <= t <= high]
    if len(ticks) < 2:
        ticks = [t for t in LogLocator(subs=(1.0, 2.0, 5.0)).tick_values(low, high) if low <= t <= high]
    return Scale(low, high, start, end, tuple((float(t), f"{t:,g}") for t in ticks), logarithmic=True)


def dated(times: Sequence[float], start: float, end: float, places: Sequence[float] | None = None) -> Scale:
    """A scale of ``places`` (of the times themselves where there are none), oldest first, whose ticks bear the dates of
    ``times`` (seconds since 1970)."""
    where = times if places is None else places
    low, high = where[0], where[-1]
    if high <= low:
        low, high = low - 0.5, low + 0.5
    span = times[-1] - times[0]
    form = "%Y" if span > 2000 * _DAY_SECONDS else "%b %Y" if span > 200 * _DAY_SECONDS else "%d %b"
    ticks: list[tuple[float, str]] = []
    for share in (0.04, 0.23, 0.42, 0.61, 0.8, 0.97):
        value = low + share * (high - low)
        index = min(bisect_left(where, value), len(where) - 1)
        label = _date(times[index], form)
        if not ticks or ticks[-1][1] != label:
            ticks.append((value, label))
    return Scale(low, high, start, end, tuple(ticks))


def frame(canvas: Canvas, across: Scale, up: Scale) -> None:
    """Grid lines at the ticks of ``up``, and the labels of both."""
    edge = canvas.width - RIGHT
    canvas.lines([(LEFT, up.place(value), edge, up.place(value)) for value, _ in up.ticks], "grid")
    for value, label in up.ticks:
        canvas.text(LEFT - 8, up.place(value) - 4, label, "tick", "end")
    for number, (value, label) in enumerate(across.ticks):
        canvas.text(across.place(value), BOTTOM - 20, label, "tick odd" if number % 2 else "tick", "middle")


def across_pixels(canvas: Canvas) -> tuple[float, float]:
    """The left and right end of what is drawn."""
    return LEFT, canvas.width - RIGHT


def up_pixels(canvas: Canvas) -> tuple[float, float]:
    """The lower and upper end."""
    return BOTTOM, canvas.height - TOP


def _date(time: float, form: str) -> str:
    try:
        return datetime.fromtimestamp(time, UTC).strftime(form)
    except (OverflowError, OSError, ValueError):  # a store may hold any number
        return ""
