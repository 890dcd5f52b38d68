"""Errors of GPUs that are described from their datasheets alone, from the stored residuals.

Mental model: a residual is a ratio of times; here it is the error of the published value, as `gpusim compare` takes it,
a rate's or a time's. A line a series of each GPU, and one for all of its points; beside it the same points on the
description that ships.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.compare.error import higher_is_faster
from gpusim.silicon.published import load_published
from gpusim.uncertainty.table import DATASHEET, FITTED

from .held_out import HELD_OUT, like_of
from .residuals import Residual

#: The mean error that a GPU described from its datasheet should not exceed.
TARGET_PERCENT = 12.0


@dataclass(frozen=True)
class SheetError:
    """Mean absolute errors in percent, as `gpusim compare` takes them, over the points of one series, or of all
    (``all``)."""

    gpu: str
    like: str
    series: str
    points: int
    datasheet_percent: float
    shipped_percent: float | None
    worst_percent: float


def sheet_errors(residuals: list[Residual]) -> list[SheetError]:
    """A line a series, and one for each GPU as a whole behind its series."""
    units = {(point.gpu, point.series): point.unit for point in load_published()}

    def errors(kind: str, gpu: str) -> dict[tuple[str, str], float]:
        """(series, point) -> signed percent of the value."""
        found = {}
        for row in residuals:
            if (row.source, row.kind, row.gpu) == ("published", kind, gpu):
                ratio = 1 / row.time_ratio if higher_is_faster(units[gpu, row.series]) else row.time_ratio
                found[row.series, row.point] = 100 * (ratio - 1)
        return found

    lines = []
    for gpu in HELD_OUT:
        sheet, shipped = errors(DATASHEET, gpu), errors(FITTED, gpu)
        for series in [*dict.fromkeys(name for name, _ in sheet), "all"]:
            own = [key for key in sheet if series in (key[0], "all")]
            if own:
                both = [abs(shipped[key]) for key in own if key in shipped]
                lines.append(
                    SheetError(
                        gpu, like_of(gpu), series, len(own), float(np.mean([abs(sheet[key]) for key in own])),
                        float(np.mean(both)) if len(both) == len(own) else None, max((sheet[key] for key in own), key=abs),
                    )
                )  # fmt: skip
    return lines
