"""Factors of prediction intervals from validation errors.

Mental model: who asks for a time asks it of a kernel that validation has not seen, from other hands than those whose
kernels it has seen. So what counts as one is the *set*: rows that one program or one author measured, however many
kernels, GPUs and points it has, whose common error is a random effect. In a class (a kind of description; a limiter, or
tensor cores) the next set's errors are taken to lie like those of its sets, one weight each, and of all launches of the
kind, with the weight of POOL_SETS more: a class known from many sets speaks for itself, one known from two leans on the
rest. What is read off them is the size that the level's share of their weight does not exceed, not their mean square: a
few rows that are far off make most of a mean square, and a normal distribution of that width holds more than its level
of all others. A quantile known from so few sets is not sure itself: it is taken wider by as much as Student's t, with
as many degrees of freedom as sets, is wider than a normal distribution. A class with fewer than LEAST_SETS sets, or
whose sets lie outside of what the others say too often (``unsure``, :mod:`validation.coverage`), is not called
validated: it is told the widest factor, and no less than its own rows need.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from functools import cache

import numpy as np
from scipy import stats

from gpusim.uncertainty.limiters import CLASSES, TENSOR
from gpusim.uncertainty.table import DATASHEET, FITTED, Row

from .residuals import Residual
from .sets import FINAL

LEVEL = 0.80
#: Weight, in sets, from which a class counts as validated.
LEAST_SETS = 2
#: Rows from which a set has the whole weight of one in a class: a single row of it that lies apart is no set that lies
#: apart.
WHOLE_SET_ROWS = 3
#: Weight, in sets, of what all launches of the kind say of a class, no more than those have: with 1 the widths are
#: those of single sets, with 8 all limiters are nearly alike (``tools/write_intervals.py --rules``).
POOL_SETS = 4.0


def set_of(row: Residual) -> str:
    """What counts as one: all rows of a program or an author."""
    return row.measured_by


def gpu_of(row: Residual) -> str:
    """The GPU, however it was described."""
    return row.gpu


def class_of(row: Residual) -> str:
    """What limited it, or that it computed on tensor cores, whatever limited it then."""
    return TENSOR if row.tensor else row.limiter


def calibration(rows: Iterable[Residual]) -> list[Residual]:
    """The rows that intervals are made from: held out, and of no half that is looked at last."""
    return [row for row in rows if row.held_out and row.half != FINAL]


def weights_of(rows: Sequence[Residual]) -> np.ndarray:
    """A weight a row, one for each set together, less for sets of few rows."""
    names = [set_of(row) for row in rows]
    weights = {name: min(count / WHOLE_SET_ROWS, 1) / count for name, count in Counter(names).items()}
    return np.array([weights[name] for name in names])


def factor_of(own: Sequence[Residual], pool: Sequence[Residual], pool_sets: float = POOL_SETS) -> float:
    """The factor that holds LEVEL of the next set's rows, of a class's ``own`` rows and of the ``pool`` it leans on."""
    return _factor(_weighed(own), _weighed(pool), pool_sets)


def _weighed(rows: Sequence[Residual]) -> tuple[np.ndarray, np.ndarray]:
    """Sizes and weights."""
    return np.array([row.size for row in rows]), weights_of(rows)


def _factor(
    own: tuple[np.ndarray, np.ndarray], pool: tuple[np.ndarray, np.ndarray], pool_sets: float = POOL_SETS
) -> float:
    (sizes, weights), (others, leaning) = own, pool
    if len(others):
        weights = np.concatenate([weights, leaning * min(pool_sets / leaning.sum(), 1.0)])
    sets = float(weights.sum())
    return math.exp(_holding(np.concatenate([sizes, others]), weights) * _wider(sets))


@cache
def _wider(sets: float) -> float:
    """By how much Student's t is wider than a normal distribution."""
    tail = (1 + LEVEL) / 2
    return float(stats.t.ppf(tail, sets) / stats.norm.ppf(tail))


def own_factor(own: Sequence[Residual]) -> float:
    """The factor that LEVEL of the weight of ``own`` rows lies within, whatever the next set is like."""
    return math.exp(_holding(*_weighed(own)))


def _holding(sizes: np.ndarray, weights: np.ndarray) -> float:
    """The least logarithm that LEVEL of the rows' weight does not exceed."""
    order = np.argsort(sizes, kind="stable")
    reached = np.cumsum(weights[order])
    return float(sizes[order][np.searchsorted(reached, LEVEL * reached[-1] - 1e-9)])


def is_validated(own: Sequence[Residual]) -> bool:
    """Whether a class is known from LEAST_SETS whole sets."""
    return bool(own) and weights_of(own).sum() >= LEAST_SETS - 1e-9


class _Sorted:
    """Calibration rows, and which of them are of a kind, of a class and of both: looked through once for all rows of the
    table."""

    def __init__(self, rows: Sequence[Residual]) -> None:
        self.rows = rows
        self.of_kind: dict[str, list[Residual]] = defaultdict(list)
        self.of_class: dict[str, list[Residual]] = defaultdict(list)
        self.of_both: dict[tuple[str, str], list[Residual]] = defaultdict(list)
        for row in rows:
            name = class_of(row)
            self.of_kind[row.kind].append(row)
            self.of_class[name].append(row)
            self.of_both[row.kind, name].append(row)
        self._pools: dict[str, tuple[np.ndarray, np.ndarray]] = {}

    def pool(self, kind: str) -> tuple[np.ndarray, np.ndarray]:
        """Sizes and weights of what a class of the kind leans on: of all rows of the kind, of any where it has none."""
        if kind not in self._pools:
            self._pools[kind] = _weighed(self.of_kind[kind] or self.rows)
        return self._pools[kind]


def rows_at(known: Sequence[Residual], pool_sets: float = POOL_SETS, unsure: Collection[str] = ()) -> list[Row]:
    """The table's rows, of calibration rows; classes of ``unsure`` are not validated. A GPU known from its datasheet is
    nowhere surer than a fitted one."""
    if not known:
        return []
    every = _Sorted(known)
    found = {
        (kind, name): None if name in unsure else _validated_row(kind, name, every, pool_sets)
        for kind in (FITTED, DATASHEET)
        for name in CLASSES
    }
    for name in CLASSES:
        sheet, surer = found[DATASHEET, name], found[FITTED, name]
        if sheet and surer and surer["factor"] > sheet["factor"]:
            found[DATASHEET, name] = Row(**{**surer, "kind": DATASHEET})
    validated = [row for row in found.values() if row]
    widest = max(validated, key=lambda row: row["factor"]) if validated else _all_of(known)
    return [row or _other_row(*key, every, widest) for key, row in found.items()]


def _validated_row(kind: str, name: str, known: _Sorted, pool_sets: float) -> Row | None:
    """The row of a class from its own sets, where these are too few from all GPUs'; None where those are too few as
    well."""
    own, whose = known.of_both[kind, name], kind
    if not is_validated(own):
        own, whose = known.of_class[name], None
    if not is_validated(own):
        return None
    factor = _factor(_weighed(own), known.pool(kind), pool_sets)
    return _row(kind, name, factor, _basis(whose, name), False, own)


def _other_row(kind: str, name: str, known: _Sorted, widest: Row) -> Row:
    """The row of a class with too few sets: the widest factor, or what its own rows need, if that is more."""
    own = known.of_class[name]
    if own and (factor := own_factor(own)) > widest["factor"]:
        return _row(kind, name, factor, _basis(None, name), True, own)
    return Row(**{**widest, "kind": kind, "limiter": name, "coarser": True, "basis": f"{widest['basis']}, which err most"})  # fmt: skip


def _all_of(known: Sequence[Residual]) -> Row:
    """Where no class has sets enough: of all rows."""
    return _row("", "", factor_of((), known), "all launches", True, known)


def _row(kind: str, name: str, factor: float, basis: str, coarser: bool, own: Sequence[Residual]) -> Row:
    return Row(
        kind=kind, limiter=name, factor=math.ceil(1e4 * factor) / 1e4, basis=basis, coarser=coarser,
        sets=len({set_of(row) for row in own}), kernels=len({row.series for row in own}),
        series=len({row.group for row in own}), points=len(own),
    )  # fmt: skip


def _basis(kind: str | None, name: str) -> str:
    """Whose errors a row is from, in words."""
    described = {FITTED: "on fitted GPUs", DATASHEET: "on GPUs known from datasheets", None: "on all GPUs"}[kind]
    return f"on tensor cores, {described}" if name == TENSOR else f"{name}-bound {described}"
