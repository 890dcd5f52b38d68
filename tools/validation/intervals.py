"""Factors of prediction intervals from validation errors, and how often they hold for what they were not made from.

Mental model: split conformal prediction with the kernel as the unit (hierarchical conformal prediction: Lee, Barber and Willett 2023), since who asks
for a time asks it of a kernel that validation has not seen: K kernels share the weight K / (K + 1) equally, each over its own points on whatever GPUs, and
the rest is one at infinity; the factor is the least error at which the weight reaches the level. Fewer units make a wider interval by that rule alone.
Of fewer kernels than the rule needs (four, for 80 %) the unit is the kernel on one GPU; of fewer of those, the next coarser class speaks.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpusim.uncertainty.limiters import Limiter
from gpusim.uncertainty.table import DATASHEET, FITTED, Row

from .residuals import Residual
from .sets import FINAL

LEVEL = 0.80
#: The least number of units of which the rule gives a finite interval at all: K / (K + 1) is to reach the level.
LEAST_UNITS = math.ceil(LEVEL / (1 - LEVEL) - 1e-9)
#: Coarser classes in order, by kind of description: a fitted one may lean on what datasheets were worse at, not the other way round.
_FITTED_FALL_BACK = ((FITTED, True), (None, True), (FITTED, False), (None, False))
_DATASHEET_FALL_BACK = ((DATASHEET, True), (DATASHEET, False), (None, False))


def calibration(rows: Iterable[Residual]) -> list[Residual]:
    """The rows that intervals are made from: held out, and of no half that is looked at last."""
    return [row for row in rows if row.held_out and row.half != FINAL]


def factor_of(rows: Sequence[Residual], level: float = LEVEL) -> float | None:
    """The factor that a new kernel's points lie within at ``level``; None of too few units."""
    by_kernel = len({row.series for row in rows}) >= LEAST_UNITS
    groups: dict[tuple[str, ...], list[float]] = defaultdict(list)
    for row in rows:
        groups[(row.series,) if by_kernel else row.group].append(row.size)
    each = 1 / (len(groups) + 1)
    sizes = sorted((size, each / len(own)) for own in groups.values() for size in own)
    reached = 0.0
    for size, weight in sizes:
        reached += weight
        if reached >= level - 1e-9:
            return math.exp(size)
    return None


def row_for(kind: str, limiter: Limiter, rows: Sequence[Residual]) -> Row | None:
    """The row of the table for a kind and a limiter, from calibration rows: of its own class, or of the next coarser one that has enough units."""
    for of_kind, of_limiter in _FITTED_FALL_BACK if kind == FITTED else _DATASHEET_FALL_BACK:
        own = [
            row
            for row in rows
            if (of_kind is None or row.kind == of_kind) and (not of_limiter or row.limiter == limiter)
        ]
        factor = factor_of(own)
        if factor is not None:
            return Row(
                kind=kind, limiter=str(limiter), factor=round(factor, 4), basis=basis(of_kind, of_limiter, limiter),
                coarser=not of_limiter,
                kernels=len({row.series for row in own}), series=len({row.group for row in own}), points=len(own),
            )  # fmt: skip
    return None


def basis(kind: str | None, of_limiter: bool, limiter: Limiter) -> str:
    """Whose errors a row is from, in words."""
    launches = f"{limiter}-bound" if of_limiter else "all launches"
    described = {FITTED: "on fitted GPUs", DATASHEET: "on GPUs known from datasheets", None: "on all GPUs"}[kind]
    return f"{launches} {described}"


def rows_of(rows: Sequence[Residual]) -> list[Row]:
    """The table's rows. A GPU known from its datasheet is nowhere surer than a fitted one."""
    known = calibration(rows)
    fitted = {limiter: row_for(FITTED, limiter, known) for limiter in Limiter}
    found = list(fitted.values())
    for limiter in Limiter:
        row, surer = row_for(DATASHEET, limiter, known), fitted[limiter]
        if row and surer and not surer["coarser"] and surer["factor"] > row["factor"]:
            row = Row(**{**surer, "kind": DATASHEET})
        found.append(row)
    return [row for row in found if row is not None]


@dataclass(frozen=True)
class Held:
    """How often intervals held for rows of a class that they were not made from; percents over ``points``, and with each of ``kernels`` as one."""

    kind: str
    limiter: str
    kernels: int
    points: int
    inside_percent: float
    inside_kernels_percent: float


def left_out(rows: Sequence[Residual], part: Callable[[Residual], str]) -> Iterator[tuple[Residual, bool]]:
    """Each calibration row, and whether it lies within the interval that would be said with all rows but those of its ``part``."""
    known = calibration(rows)
    for name in sorted({part(row) for row in known}):
        rest = [row for row in known if part(row) != name]
        yield from judged_by(rows_of(rest), [row for row in known if part(row) == name])


def kernel_of(row: Residual) -> str:
    """The kernel, on whatever GPU: an external set's kernels have one author, and count as one."""
    return row.series if row.source == "published" else row.source


def gpu_of(row: Residual) -> str:
    """The GPU, however it was described."""
    return row.gpu


def held(judged: Iterable[tuple[Residual, bool]]) -> list[Held]:
    """The shares by kind and limiter, of each kind, and of all."""
    every = list(judged)
    found = []
    for kind in (FITTED, DATASHEET, "all"):
        for limiter in (*map(str, Limiter), "all"):
            own = [(row, ok) for row, ok in every if kind in ("all", row.kind) and limiter in ("all", row.limiter)]
            if not own or (kind == "all") != (limiter == "all") and kind == "all":
                continue
            groups: dict[str, list[bool]] = defaultdict(list)
            for row, ok in own:
                groups[row.series].append(ok)
            shares = [sum(oks) / len(oks) for oks in groups.values()]
            found.append(
                Held(
                    kind,
                    limiter,
                    len(groups),
                    len(own),
                    100 * sum(ok for _, ok in own) / len(own),
                    100 * sum(shares) / len(shares),
                )
            )
    return found


def judged_by(rows: Sequence[Row], residuals: Iterable[Residual]) -> Iterator[tuple[Residual, bool]]:
    """Each residual, and whether the interval that the table has for it holds it: the widest, where its class has too few units."""
    widest = max((row["factor"] for row in rows), default=math.inf)
    factors = {(row["kind"], row["limiter"]): row["factor"] for row in rows if not row["coarser"]}
    for each in residuals:
        yield each, each.size <= math.log(factors.get((each.kind, each.limiter), widest))
