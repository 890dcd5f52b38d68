"""The published curves as two more sets: those that the descriptions were set from, and those held out.

Mental model: ``gpusim compare --against published`` replays points of curves; here all GPUs' points are summed up as
the other sets' rows are, by what the curve was to the description. A curve is no choice among variants, so there is no
regret; the rank is the mean over the series.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from gpusim.compare.error import ComparedPoint
from gpusim.compare.run import compare
from gpusim.silicon.published import load_published

from .figures import NO_FIGURES, figures, spearman

NAME = "published"
HALVES = {True: "fitted", False: "held out"}


def summaries(jobs: int, all_points: bool = False) -> list[dict[str, Any]]:
    """The figures of both; replays the default points of every series, or all."""
    gpus = list(dict.fromkeys(point.gpu for point in load_published()))
    return summed(compare((), gpus, all_points=all_points, jobs=jobs).rows)


def summed(rows: Sequence[ComparedPoint]) -> list[dict[str, Any]]:
    """The figures of points that were replayed."""
    found = []
    for fitted, half in HALVES.items():
        mine = [row for row in rows if row.fitted == fitted]
        facts = {"set": NAME, "half": half, "gpu": "each its own", "of_rows": len(mine), "failed": 0}
        if not mine:
            found.append(facts | NO_FIGURES)
            continue
        names = [f"{row.gpu} {row.series} {row.point}" for row in mine]
        whole = figures(names, [r.simulated for r in mine], [r.measured for r in mine], [None] * len(mine), False)
        found.append(facts | asdict(whole) | {"rank": _mean_rank(mine)})
    return found


def _mean_rank(rows: Sequence[ComparedPoint]) -> float | None:
    series: dict[tuple[str, str], list[ComparedPoint]] = defaultdict(list)
    for row in rows:
        series[row.gpu, row.series].append(row)
    ranks = [
        rank
        for each in series.values()
        if (rank := spearman(np.array([r.simulated for r in each]), np.array([r.measured for r in each]))) is not None
    ]
    return float(np.mean(ranks)) if ranks else None
