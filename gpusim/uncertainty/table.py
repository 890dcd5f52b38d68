"""The factors of the prediction intervals, as ``tools/write_intervals.py`` computed them from what was held out.

Mental model: ``intervals.json`` says for a kind of description and a limiter, or tensor cores, within which factor of
the predicted time the held-out measurements lay, and from how many kernels that is known. It is small, and read when
the first interval is asked for.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import TypedDict

from gpusim.errors import UsageError
from gpusim.io.records import PositiveFinite, parse_record

FILE = "intervals.json"
FITTED, DATASHEET = "fitted", "datasheet"


class Row(TypedDict):
    """``factor``: at least 1; an interval is from time / factor to time x factor. ``basis``: whose errors it is from,
    in words: so many ``sets`` (what one program or author measured), ``kernels``, ``series`` (a kernel on a GPU) and
    ``points``; ``coarser``: too few sets for it to count as validated, or too many of their rows outside of what the
    others say."""

    kind: str
    limiter: str
    factor: PositiveFinite
    basis: str
    coarser: bool
    sets: int
    kernels: int
    series: int
    points: int


class Table(TypedDict):
    """``level_percent``: the share of new measurements that should lie within; ``least_sets``: from which a limiter
    counts as validated.
    ``fitted_gpus``: descriptions that were set from curves of that very GPU; ``architectures``: compute capabilities of
    which anything was measured; ``missed``: those of them whose measurements lie within the intervals that all others'
    make less often than at the level; ``tensor``: of which anything on tensor cores was, and the formats of it
    (:class:`gpusim.trace.layout.MatrixType`)."""

    about: str
    level_percent: PositiveFinite
    least_sets: int
    fitted_gpus: list[str]
    architectures: list[str]
    missed: list[str]
    tensor: dict[str, list[str]]
    rows: list[Row]


@cache
def table() -> Table:
    """The table of this installation. Raises UsageError for a damaged one."""
    path = files("gpusim.uncertainty") / FILE
    return parse_record(Table, path.read_bytes(), f"{path} cannot be read", UsageError)


@cache
def row_of(kind: str, limiter: str) -> Row:
    """The row of a kind of description and a limiter. Raises UsageError where the table has none."""
    for row in table()["rows"]:
        if (row["kind"], row["limiter"]) == (kind, limiter):
            return row
    raise UsageError(f"{FILE} has no row for {kind}, {limiter}; write it with tools/write_intervals.py")


def widest() -> Row:
    """The row of the largest factor: what is said where nothing was validated."""
    return max(table()["rows"], key=lambda row: row["factor"])
