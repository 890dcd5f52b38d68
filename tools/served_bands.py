"""How wide the intervals of requests and servers are, by what published rows of one half say, and how many rows of the
other half they hold.

Mental model: a cell is a framework, dense networks or networks of experts, and GPUs of measured generations or others.
Its factor holds four of five of its learning rows. Of a generation with eight rows or more in it the factor is its own:
a new GPU's rows are further off than those of GPUs that the figures of hosts were learnt on. A cell with fewer than
eight takes the widest of its own, of what the rows say that differ from it in one of the three alone, and, without a
row of its own, of what all rows say: what is known less is no surer.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pandas as pd

from gpusim.project.bands import LEAST_ROWS, cell_of
from tools.model_error import factor

_BY = ("framework", "experts", "known")
#: Generations that stand for those whose products were measured, and for others.
_GENERATIONS = {True: "hopper", False: "ada"}


def cells(learning: pd.DataFrame, frameworks: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Cell -> ``factor``, its own ``rows``, and the same of ``generations`` with rows enough; ``learning``: rows with
    ``framework``, ``experts``, the GPU's ``generation``, ``known`` (whether that was measured) and
    ``error_percent``."""
    found: dict[str, dict[str, Any]] = {}
    for values in itertools.product(frameworks, (False, True), (True, False)):
        alike = [learning[name] == value for name, value in zip(_BY, values, strict=True)]
        own = learning[alike[0] & alike[1] & alike[2]]
        if len(own) >= LEAST_ROWS:
            chosen = factor(own)["factor"]
        else:
            pools = [learning[one & other] for one, other in itertools.combinations(alike, 2)]
            chosen = max(factor(rows)["factor"] for rows in (own if len(own) else learning, *pools) if len(rows))
        generations = {
            str(name): {"factor": factor(of)["factor"], "rows": len(of)}
            for name, of in own.groupby("generation")
            if len(of) >= LEAST_ROWS
        }
        found[cell_of(values[0], values[1], _GENERATIONS[values[2]])] = {
            "factor": chosen,
            "rows": len(own),
            "generations": generations,
        }
    return found


def calibration(final: pd.DataFrame, factors: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A record a cell with rows in ``final``, generations with a factor of their own apart: the factor, how many rows
    set it, and how many of the rows that set nothing lie inside."""
    rows, cells_met = [], set()
    for values, of_cell in final.groupby(list(_BY), sort=True):
        cell = cell_of(values[0], values[1], _GENERATIONS[values[2]])
        cells_met.add(cell)
        apart = factors[cell]["generations"]
        for name, own in of_cell.groupby(
            of_cell["generation"].where(of_cell["generation"].isin(list(apart)), ""), sort=True
        ):
            chosen = apart[name] if name else factors[cell]
            rows.append(
                {"cell": f"{cell}: {name}" if name else cell, "rows_that_set": chosen["rows"], "factor": chosen["factor"], "rows": len(own), "inside_interval_percent": round(100 * own.inside.mean())}
            )  # fmt: skip
    rows.append({"cell": "all", "rows_that_set": sum(factors[cell]["rows"] for cell in cells_met), "factor": None, "rows": len(final), "inside_interval_percent": round(100 * final.inside.mean())})  # fmt: skip
    return rows
