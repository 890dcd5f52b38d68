"""Figures and dates as the pages write them: one function a kind.

Mental model: a reader compares figures of a column, so that all of a kind are written alike; what is not known is a
dash.
"""

from __future__ import annotations

import math
from datetime import UTC, datetime

NOTHING = "–"


def number(value: float | None) -> str:
    """A whole number with its digits in threes, a fraction with four that count."""
    if value is None or not math.isfinite(value):
        return NOTHING
    if value == int(value) and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.4g}" if abs(value) < 1e4 else f"{value:,.0f}"


def signed(value: float | None) -> str:
    """With its sign, a plus included."""
    if value is None or not math.isfinite(value):
        return NOTHING
    return f"{'+' if value > 0 else ''}{number(value)}"


def percent(value: float | None) -> str:
    """A change in percent, with as many digits as it takes to be more than 0."""
    if value is None or math.isnan(value):
        return NOTHING
    if math.isinf(value):
        return "from 0"
    digits = 1 if abs(value) >= 1 or value == 0 else 2 if abs(value) >= 0.095 else 3
    return f"{value:+.{digits}f} %"


def value(amount: float | None, unit: str) -> str:
    """Of a series, with its unit."""
    return NOTHING if amount is None else f"{number(amount)} {'µs' if unit == 'us' else unit}"


def time_us(microseconds: float | None) -> str:
    """A time in the unit that it is read best in."""
    if microseconds is None or not math.isfinite(microseconds):
        return NOTHING
    for factor, unit in ((1e6, "s"), (1e3, "ms"), (1.0, "µs")):
        if microseconds >= factor:
            return f"{microseconds / factor:.4g} {unit}"
    return f"{microseconds * 1e3:.3g} ns"


def day(seconds: float | None) -> str:
    """The UTC date of seconds since 1970."""
    try:
        return datetime.fromtimestamp(seconds or 0, UTC).strftime("%Y-%m-%d") if seconds else NOTHING
    except (OverflowError, OSError, ValueError):  # a store may hold any number
        return NOTHING


def moment(text: str) -> str:
    """A time of the store (ISO 8601) to the minute."""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError):
        return text or NOTHING


def short(hash_: str) -> str:
    """The first digits of a commit's hash; what is no hash as it is."""
    return hash_[:10] if len(hash_) >= 40 else hash_
