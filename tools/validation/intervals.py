"""Factors of prediction intervals from validation errors.

Mental model: who asks for a time asks it of a kernel that validation has not seen, from other hands than those whose kernels it has seen. So what counts as one
is the *set*: rows that one program or one author measured, however many kernels, GPUs and points it has. A class (a kind of description, a limiter) has its sets, one
weight each, and beside them as many as POOL_SETS more that err as all launches of the kind do: a class known from many sets speaks for itself, one known from
two leans on the rest. The factor is the quantile of the absolute logarithms of time ratios at which sets that were left out lie within as often as the level says
(``validation/coverage.py``), at least the level's own. A class with fewer than LEAST_SETS sets is not called validated: it is told
the factor of the class that errs most.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from gpusim.uncertainty.limiters import Limiter
from gpusim.uncertainty.table import DATASHEET, FITTED, Row

from .residuals import Residual
from .sets import FINAL

LEVEL = 0.80
#: Weight, in sets, from which a class counts as validated.
LEAST_SETS = 2
#: Rows from which a set has the whole weight of one in a class: a single row of it that lies apart is no set that lies apart.
WHOLE_SET_ROWS = 3
#: Weight, in sets, of what all launches of the kind say of a class: with 1 and 2 the widths are those of single sets, with 8 all limiters are nearly alike
#: (``tools/write_intervals.py --pools``).
POOL_SETS = 4.0
#: Series that one program measured under several names.
_PROGRAMS = ("stream", "stencil")


def set_of(row: Residual) -> str:
    """The program or author that measured it: an external set, or the program of the curve."""
    if row.source != "published":
        return row.source
    return "streams and stencils" if row.series.startswith(_PROGRAMS) else row.series


def gpu_of(row: Residual) -> str:
    """The GPU, however it was described."""
    return row.gpu


def limiter_of(row: Residual) -> str:
    """What limited it."""
    return row.limiter


def calibration(rows: Iterable[Residual]) -> list[Residual]:
    """The rows that intervals are made from: held out, and of no half that is looked at last."""
    return [row for row in rows if row.held_out and row.half != FINAL]


def weights_of(rows: Sequence[Residual], total: float | None = None) -> np.ndarray:
    """A weight a row, equal for each set and within it but for sets of few rows; scaled to ``total`` together, if that is given."""
    _, place, counts = np.unique([set_of(row) for row in rows], return_inverse=True, return_counts=True)
    weights = (np.minimum(counts / WHOLE_SET_ROWS, 1) / counts)[place]
    return weights if total is None else weights * total / weights.sum()


def factor_of(
    own: Sequence[Residual], pool: Sequence[Residual], quantile: float, pool_sets: float = POOL_SETS
) -> float:
    """The factor that holds ``quantile`` of the weight of a class's ``own`` rows and of the ``pool`` it leans on."""
    parts = [(own, None)] * bool(own) + [(pool, pool_sets)] * bool(pool and pool_sets)
    sizes = np.array([row.size for rows, _ in parts for row in rows])
    weights = np.concatenate([weights_of(rows, total) for rows, total in parts])
    order = np.argsort(sizes, kind="stable")
    reached = np.cumsum(weights[order])
    return math.exp(sizes[order][np.searchsorted(reached, quantile * reached[-1] - 1e-9)])


def row_for(
    kind: str, limiter: Limiter, rows: Sequence[Residual], quantile: float, pool_sets: float = POOL_SETS
) -> Row | None:
    """The row of the table for a kind and a limiter, from calibration rows: of the class's own sets, where these are too few of all GPUs'; None without rows."""
    of_kind = [row for row in rows if row.kind == kind]
    own, whose = [row for row in of_kind if row.limiter == limiter], kind
    if not _is_validated(own):
        own, whose = [row for row in rows if row.limiter == limiter], None
    if not rows:
        return None
    sets = {set_of(row) for row in own}
    return Row(
        kind=kind, limiter=str(limiter), factor=_rounded_up(factor_of(own, of_kind or rows, quantile, pool_sets)),
        basis=_basis(whose, limiter), coarser=not _is_validated(own), sets=len(sets),
        kernels=len({row.series for row in own}), series=len({row.group for row in own}), points=len(own),
    )  # fmt: skip


def _rounded_up(factor: float) -> float:
    """To four digits, so that the row it comes from still lies within."""
    return math.ceil(1e4 * factor) / 1e4


def _is_validated(own: Sequence[Residual]) -> bool:
    """Whether a class is known from LEAST_SETS whole sets."""
    return bool(own) and weights_of(own).sum() >= LEAST_SETS - 1e-9


def _basis(kind: str | None, limiter: Limiter) -> str:
    """Whose errors a row is from, in words."""
    described = {FITTED: "on fitted GPUs", DATASHEET: "on GPUs known from datasheets", None: "on all GPUs"}[kind]
    return f"{limiter}-bound {described}"


def rows_at(known: Sequence[Residual], quantile: float, pool_sets: float = POOL_SETS) -> list[Row]:
    """The table's rows, of calibration rows at a quantile. A GPU known from its datasheet is nowhere surer than a fitted one."""
    if not known:
        return []
    widest = worst_row(known, quantile)
    fitted = {limiter: row_for(FITTED, limiter, known, quantile, pool_sets) for limiter in Limiter}
    found = list(fitted.values())
    for limiter in Limiter:
        row, surer = row_for(DATASHEET, limiter, known, quantile, pool_sets), fitted[limiter]
        if row and surer and not surer["coarser"] and surer["factor"] > row["factor"]:
            row = Row(**{**surer, "kind": DATASHEET})
        found.append(row)
    return [
        Row(**{**widest, "kind": row["kind"], "limiter": row["limiter"], "coarser": True}) if row["coarser"] else row
        for row in found
        if row is not None
    ]


def worst_row(known: Sequence[Residual], quantile: float) -> Row:
    """The row of the class that errs most by its own rows alone, leaning on nothing: what a class that was not validated may be like."""
    classes: dict[tuple[str, str], list[Residual]] = {}
    for row in known:
        classes.setdefault((row.kind, row.limiter), []).append(row)
    factors = {key: factor_of(own, (), quantile) for key, own in classes.items()}
    kind, limiter = max(factors, key=lambda key: (factors[key], key))
    own = classes[kind, limiter]
    return Row(
        kind=kind, limiter=limiter, factor=_rounded_up(factors[kind, limiter]), basis=f"{_basis(kind, Limiter(limiter))}, which err most", coarser=True,
        sets=len({set_of(row) for row in own}), kernels=len({row.series for row in own}), series=len({row.group for row in own}), points=len(own),
    )  # fmt: skip
