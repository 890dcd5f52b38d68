"""How often intervals hold for what they were not made from, and the quantile at which they hold as often as they say.

Mental model: each part of the calibration rows (a set, a GPU) is judged by the table that all other parts make, as a user's kernel is: where a class has too few
sets left it is told the widest factor. The quantile of the errors at which each factor is read is the least, from the level's own upwards, at which both kinds of
parts, each part counting as one, lie within as often as the level says.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpusim.uncertainty.limiters import Limiter
from gpusim.uncertainty.table import DATASHEET, FITTED, Row

from .intervals import LEVEL, POOL_SETS, calibration, gpu_of, rows_at, set_of
from .residuals import Residual

Part = Callable[[Residual], str]
Judged = tuple[Residual, bool]
#: Quantiles that are tried, in percent.
_STEP_PERCENT, _MOST = 1, 0.99


@dataclass(frozen=True)
class Held:
    """How often intervals held for rows of a class; percents over ``points``, and with each of ``parts`` (sets or GPUs) as one."""

    kind: str
    limiter: str
    parts: int
    points: int
    inside_percent: float
    inside_parts_percent: float


def judged_by(rows: Sequence[Row], residuals: Iterable[Residual]) -> Iterator[Judged]:
    """Each residual, and whether the interval that the table has for it holds it: the widest, where its class has too few sets."""
    widest = max((row["factor"] for row in rows), default=math.inf)
    factors = {(row["kind"], row["limiter"]): row["factor"] for row in rows if not row["coarser"]}
    for each in residuals:
        yield each, each.size <= math.log(factors.get((each.kind, each.limiter), widest))


def left_out(known: Sequence[Residual], part: Part, quantile: float, pool_sets: float = POOL_SETS) -> list[Judged]:
    """Each calibration row, and whether it lies within the interval that would be said with all rows but those of its ``part``."""
    found = []
    for name in sorted({part(row) for row in known}):
        rest = [row for row in known if part(row) != name]
        found += judged_by(rows_at(rest, quantile, pool_sets), [row for row in known if part(row) == name])
    return found


def share_percent(judged: Iterable[Judged], part: Part) -> float:
    """The share of rows inside, each part counting as one."""
    groups: dict[str, list[bool]] = defaultdict(list)
    for row, inside in judged:
        groups[part(row)].append(inside)
    return 100 * sum(sum(each) / len(each) for each in groups.values()) / len(groups)


def calibrated_quantile(known: Sequence[Residual], pool_sets: float = POOL_SETS) -> float:
    """The least quantile, from LEVEL upwards, at which left-out sets and left-out GPUs lie within at LEVEL; the highest tried, where none does."""
    for percent in range(round(100 * LEVEL), round(100 * _MOST), _STEP_PERCENT):
        quantile = percent / 100
        if all(
            share_percent(left_out(known, part, quantile, pool_sets), part) >= 100 * LEVEL for part in (set_of, gpu_of)
        ):
            return quantile
    return _MOST


def rows_of(residuals: Sequence[Residual]) -> list[Row]:
    """The table's rows, of all residuals."""
    known = calibration(residuals)
    return rows_at(known, calibrated_quantile(known))


@dataclass(frozen=True)
class HeldPart:
    """One part (a set, a GPU) and how its rows lie within the intervals that the others make: percent of ``points``; ``error_percent``: the median error;
    ``holds_percent``: within which the level's share of its rows lie."""

    part: str
    kind: str
    points: int
    error_percent: float
    holds_percent: float
    inside_percent: float


def by_part(judged: Iterable[Judged], part: Part) -> list[HeldPart]:
    """A line a part and kind of description."""
    groups: dict[tuple[str, str], list[Judged]] = defaultdict(list)
    for row, inside in judged:
        groups[part(row), row.kind].append((row, inside))
    found = []
    for (name, kind), own in sorted(groups.items()):
        size_at = quantile_of(row.size for row, _ in own)
        half, most = (100 * math.expm1(size_at(share)) for share in (0.5, LEVEL))
        found.append(HeldPart(name, kind, len(own), half, most, 100 * sum(ok for _, ok in own) / len(own)))
    return found


def quantile_of(values: Iterable[float]) -> Callable[[float], float]:
    """The least of the values that a share of them does not exceed, as a function of the share."""
    ordered = sorted(values)
    return lambda share: ordered[math.ceil(share * len(ordered) - 1e-9) - 1]


def held(judged: Iterable[Judged], part: Part) -> list[Held]:
    """The shares by kind and limiter, of each kind, and of all."""
    every = list(judged)
    found = []
    for kind in (FITTED, DATASHEET, "all"):
        for limiter in (*map(str, Limiter), "all"):
            own = [(row, ok) for row, ok in every if kind in ("all", row.kind) and limiter in ("all", row.limiter)]
            if not own or (kind == "all" and limiter != "all"):
                continue
            found.append(
                Held(
                    kind, limiter, len({part(row) for row, _ in own}), len(own), 100 * sum(ok for _, ok in own) / len(own),
                    share_percent(own, part),
                )
            )  # fmt: skip
    return found
