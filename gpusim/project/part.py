"""Priced operators, added up: seconds, an interval, operations, bytes.

Mental model: times of launches that follow each other add. Their errors are taken as the same for operators of one type
(a model that is 8 % slow on one product is so on all), and independent between types; so widths add within a type, and
by their squares between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpusim.project.operator import Operator
from gpusim.project.prices import Prices
from gpusim.tile.projection import Projection


@dataclass(frozen=True)
class Priced:
    """An operator with what one launch of it takes."""

    operator: Operator
    projection: Projection

    @property
    def seconds(self) -> float:
        """Of all its launches."""
        return self.operator.count * self.projection.seconds


@dataclass(frozen=True)
class Interval:
    """``seconds`` expected; four of five measurements should lie between ``low_seconds`` and ``high_seconds``, if
    ``validated``."""

    seconds: float
    low_seconds: float
    high_seconds: float
    validated: bool


def priced(operators: Iterable[Operator], prices: Prices) -> tuple[Priced, ...]:
    """Each with its projection; equal ones of a part as one with their count."""
    counts: dict[Operator, int] = {}
    for operator in operators:
        key = Operator(operator.part, operator.name, operator.op)
        counts[key] = counts.get(key, 0) + operator.count
    return tuple(Priced(each.times(count), prices.of(each.op)) for each, count in counts.items())


def merged(items: Iterable[Priced]) -> tuple[Priced, ...]:
    """Equal operators, of several stages, as one with the sum of their counts."""
    counts: dict[Operator, int] = {}
    projections: dict[Operator, Projection] = {}
    for item in items:
        key = replace(item.operator, count=1)
        counts[key] = counts.get(key, 0) + item.operator.count
        projections[key] = item.projection
    return tuple(Priced(key.times(count), projections[key]) for key, count in counts.items())


def seconds_of(items: Iterable[Priced]) -> float:
    """Of all."""
    return sum(item.seconds for item in items)


def interval_of(items: Iterable[Priced], seconds: float | None = None) -> Interval:
    """Of launches that follow each other; where they take another time in all (overlap, pipeline), widths go with it:
    ``seconds``."""
    low: dict[str, float] = {}
    high: dict[str, float] = {}
    total, validated = 0.0, True
    for item in items:
        found, kind, count = item.projection, type(item.operator.op).__name__, item.operator.count
        total += item.seconds
        low[kind] = low.get(kind, 0.0) + count * (found.seconds - found.low_seconds)
        high[kind] = high.get(kind, 0.0) + count * (found.high_seconds - found.seconds)
        validated = validated and found.validated
    scale = 1.0 if seconds is None or not total else seconds / total
    less, more = (scale * math.sqrt(sum(width * width for width in each.values())) for each in (low, high))
    total *= scale
    return Interval(total, max(0.0, total - less), total + more, validated)
