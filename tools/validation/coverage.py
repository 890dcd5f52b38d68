"""How often intervals hold for what they were not made from, and how wide they are.

Mental model: each part of the calibration rows (a set, a GPU, a set on a GPU with both left out) is judged by the table
that all other parts make, as a user's kernel is: where a class has too few sets left it is told the widest factor.
Beside the share inside stands what it is paid with: the median half-width, and the interval score (Gneiting and Raftery
2007, eq. 43) of the logarithms, which adds to an interval's width what a row outside lies beyond it, 2 / (1 - level)
times: of two rules the lower score is the better.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import ne

import numpy as np
from scipy import stats

from gpusim.uncertainty.limiters import CLASSES
from gpusim.uncertainty.table import DATASHEET, FITTED, Row

from .intervals import LEVEL, class_of, gpu_of, rows_at, set_of
from .residuals import Residual

#: How often intervals that hold at the level are called so.
CHANCE = 0.9

Part = Callable[[Residual], str]
Rule = Callable[[Sequence[Residual]], Sequence[Row]]


@dataclass(frozen=True)
class Judged:
    """A row, and the ``factor`` of the interval that it is judged by."""

    row: Residual
    factor: float

    @property
    def inside(self) -> bool:
        """Whether the measurement lies within."""
        return self.row.size <= math.log(self.factor)

    @property
    def score(self) -> float:
        """The interval score of its logarithm."""
        half = math.log(self.factor)
        return 2 * half + 2 / (1 - LEVEL) * max(0.0, self.row.size - half)


@dataclass(frozen=True)
class Held:
    """How often intervals held for rows of a class; percents over ``points``, and with each of ``parts`` (sets, GPUs,
    cells of both) as one; ``half_width_percent``: the median over points of what the interval allows upwards;
    ``score``: the interval score, each part as one, in percent of the time."""

    kind: str
    limiter: str
    parts: int
    points: int
    inside_percent: float
    inside_parts_percent: float
    half_width_percent: float
    score: float


def judged_by(rows: Sequence[Row], residuals: Iterable[Residual]) -> Iterator[Judged]:
    """Each residual by the interval that the table has for its class; the widest, where it has none."""
    widest = max((row["factor"] for row in rows), default=math.inf)
    factors = {(row["kind"], row["limiter"]): row["factor"] for row in rows}
    for each in residuals:
        yield Judged(each, factors.get((each.kind, class_of(each)), widest))


def cell_of(row: Residual) -> str:
    """A set on a GPU."""
    return f"{set_of(row)} on {gpu_of(row)}"


def left_out(known: Sequence[Residual], *parts: Part, rule: Rule | None = None) -> list[Judged]:
    """Each calibration row, by the interval that would be said with all rows but those of its part; of several
    ``parts``, without all rows that share any one with it."""
    rule = rule or rows_at
    cells: dict[tuple[str, ...], list[Residual]] = defaultdict(list)
    cell_of_each = [tuple(part(row) for part in parts) for row in known]
    for row, names in zip(known, cell_of_each, strict=True):
        cells[names].append(row)
    found = []
    for names, own in sorted(cells.items()):
        rest = [row for row, others in zip(known, cell_of_each, strict=True) if all(map(ne, others, names))]
        found += judged_by(rule(rest), own)
    return found


def _mean_of_parts(judged: Iterable[Judged], part: Part, value: Callable[[Judged], float]) -> float:
    groups: dict[str, list[float]] = defaultdict(list)
    for each in judged:
        groups[part(each.row)].append(value(each))
    return 100 * float(np.mean([np.mean(own) for own in groups.values()]))


def share_percent(judged: Iterable[Judged], part: Part) -> float:
    """The share of rows inside, each part counting as one."""
    return _mean_of_parts(judged, part, lambda each: each.inside)


def chance_percent(parts: int) -> float:
    """The share inside that so many sets reach in CHANCE of the cases where intervals hold at the level: ten sets of
    which each is inside or not scatter about it by 13 %. Intervals that were called validated only above the level
    itself would be so, of ten classes for which they hold, in five."""
    return 100 * (LEVEL - float(stats.norm.ppf(CHANCE)) * math.sqrt(LEVEL * (1 - LEVEL) / parts))


def too_seldom(judged: Sequence[Judged], part: Part) -> bool:
    """Whether the rows lie within less often than at the level, by more than the chance of so few parts."""
    return share_percent(judged, part) < chance_percent(len({part(each.row) for each in judged}))


def unsure(known: Sequence[Residual], missed: Collection[str], capability_of: Mapping[str, str]) -> set[str]:
    """Classes whose rows, each set as one or each GPU as one, lie within the intervals that the others' rows make
    :func:`too_seldom`; without the capabilities ``missed``, of which none is promised."""
    found = set()
    for part in (set_of, gpu_of):
        judged = [each for each in left_out(known, part) if capability_of[each.row.gpu] not in missed]
        of_each = {name: [each for each in judged if class_of(each.row) == name] for name in CLASSES}
        found |= {name for name, own in of_each.items() if own and too_seldom(own, part)}
    return found


def rule_of(pool_sets: float) -> Rule:
    """The table's rule with another weight of all launches."""
    return lambda known: rows_at(known, pool_sets)


def settled_rule(rows: Sequence[Row]) -> Rule:
    """The table's rule, of which the classes that ``rows`` of the whole table do not validate are not validated."""
    beyond = {row["limiter"] for row in rows if row["coarser"]}
    return lambda known: rows_at(known, unsure=beyond)


#: What is left out -> the parts, and what counts as one.
LEFT_OUT: dict[str, tuple[tuple[Part, ...], Part]] = {
    "set": ((set_of,), set_of),
    "GPU": ((gpu_of,), gpu_of),
    "set and GPU": ((set_of, gpu_of), cell_of),
    "limiter": ((class_of,), class_of),
}


@dataclass(frozen=True)
class HeldPart:
    """One part (a set, a GPU) and how its rows lie within the intervals that the others make: percent of ``points``;
    ``error_percent``: the median error;
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
    for each in judged:
        groups[part(each.row), each.row.kind].append(each)
    found = []
    for (name, kind), own in sorted(groups.items()):
        size_at = quantile_of(each.row.size for each in own)
        half, most = (100 * math.expm1(size_at(share)) for share in (0.5, LEVEL))
        found.append(HeldPart(name, kind, len(own), half, most, 100 * sum(each.inside for each in own) / len(own)))
    return found


def quantile_of(values: Iterable[float]) -> Callable[[float], float]:
    """The least of the values that a share of them does not exceed, as a function of the share."""
    ordered = sorted(values)
    return lambda share: ordered[math.ceil(share * len(ordered) - 1e-9) - 1]


def held(judged: Iterable[Judged], part: Part) -> list[Held]:
    """The shares by kind and limiter, of each kind, of each limiter, and of all."""
    every = list(judged)
    found = []
    for kind in (FITTED, DATASHEET, "all"):
        for name in (*CLASSES, "all"):
            own = [each for each in every if kind in ("all", each.row.kind) and name in ("all", class_of(each.row))]
            if not own:
                continue
            found.append(
                Held(
                    kind, name, len({part(each.row) for each in own}), len(own), 100 * sum(each.inside for each in own) / len(own),
                    share_percent(own, part), 100 * (float(np.median([each.factor for each in own])) - 1), _mean_of_parts(own, part, lambda each: each.score),
                )
            )  # fmt: skip
    return found
