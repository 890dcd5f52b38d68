"""Rows of a sweep as points: which plan, how fast a token, how many tokens a second and GPU, each with its interval.

Mental model: a row is a record of :mod:`gpusim.project.records`, perhaps from a file that somebody kept. What a page
needs of it is read once, and refused where it is no finite positive figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.errors import UsageError


@dataclass(frozen=True)
class Span:
    """An expected value between ``low`` and ``high``, where four of five measurements should lie."""

    middle: float
    low: float
    high: float

    @property
    def below(self) -> float:
        """From the lower end."""
        return max(0.0, self.middle - self.low)

    @property
    def above(self) -> float:
        """To the upper end."""
        return max(0.0, self.high - self.middle)


@dataclass(frozen=True)
class Point:
    """``index``: of the row; ``gpu``: its name; ``choice``: axis of the sweep -> the plan's value; ``latency_ms``: of a
    token, or of a step; ``rate``: tokens a second and GPU; ``first_ms``: to the first token, of requests;
    ``limiter``: the unit that most of the time goes to."""

    index: int
    gpu: str
    gpus: int
    choice: Mapping[str, Any]
    latency_ms: Span
    rate: Span
    first_ms: Span | None
    joules_per_token: float
    memory_gb: float
    memory_of_gb: float
    fits: bool
    validated: bool
    limiter: str


def points_of(rows: Sequence[Mapping[str, Any]], choices: Sequence[Mapping[str, Any]]) -> list[Point]:
    """A point a row, with the ``choices`` that its plan is of. Raises UsageError for a row without figures (of a file
    of another sweep)."""
    return [_point(index, row, choice) for index, (row, choice) in enumerate(zip(rows, choices, strict=True))]


def _point(index: int, row: Mapping[str, Any], choice: Mapping[str, Any]) -> Point:
    latency = _span(row, "tpot_ms" if "tpot_ms" in row else "step_ms")
    rate = _figure(row, "tokens_per_s_per_gpu")
    whole = _whole(row, latency)
    return Point(
        index, str(row.get("gpu", "")), int(_figure(row, "gpus")), choice, latency,
        Span(rate, rate * whole.middle / whole.high, rate * whole.middle / whole.low),
        _span(row, "ttft_ms") if "ttft_ms" in row else None, 1.0 / _figure(row, "tokens_per_joule"), _figure(row, "memory_gb"), _figure(row, "memory_of_gb"),
        row.get("fits") is True, row.get("validated") is True, str(row.get("limiter", row.get("decode_limiter", ""))),
    )  # fmt: skip


def _whole(row: Mapping[str, Any], latency: Span) -> Span:
    """Of what the throughput is taken over: all of a server's requests, a request, or a step."""
    if "seconds_low" in row:
        return Span(_figure(row, "seconds"), _figure(row, "seconds_low"), _figure(row, "seconds_high"))
    if "ttft_ms" not in row:
        return latency
    first, rest = _span(row, "ttft_ms"), _figure(row, "output") - 1.0
    return Span(*(getattr(first, end) + rest * getattr(latency, end) for end in ("middle", "low", "high")))


def _span(row: Mapping[str, Any], name: str) -> Span:
    middle, low, high = (_figure(row, f"{name}{end}") for end in ("", "_low", "_high"))
    return Span(middle, min(low, middle), max(high, middle))


def _figure(row: Mapping[str, Any], name: str) -> float:
    value = row.get(name)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value <= 0:
        raise UsageError(
            f"a row of the sweep has {name} = {value!r}, no positive figure: give --resume another file, or remove it"
        )
    return float(value)


def balanced(front: Sequence[Point]) -> Point:
    """Of a front the plan with the most throughput for its latency."""
    return max(front, key=lambda point: point.rate.middle / point.latency_ms.middle)
