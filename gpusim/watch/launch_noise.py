"""What noise a measured launch is expected to have, by how long it takes, before its own history can say.

Mental model: a launch of few waves and microseconds feels every tick of the clock and every busy neighbour: its times
scatter many times as much as those of a launch that fills the GPU for milliseconds. So launches are put in classes by
duration, a decade each, and histories with enough points say what is usual in their class (their median). A young
history is judged by that until it knows better (the moderated variance of Smyth, Stat. Appl. Genet. Mol. Biol. 3, 2004,
with its classes as in limma-trend).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gpusim.watch.detect import Noise
from gpusim.watch.history import History
from gpusim.watch.spread import Spread

#: A history of so many points tells its class what is usual.
_TELLING = 20
#: What a class is worth, in degrees of freedom, beside a history's own points: as a history of half that many. A guess.
_WEIGHT = 10.0
#: Relative standard deviation from commit to commit where no history tells: of a decade of microseconds, from the first
#: below 10 us. From 0.5 % (nvbench's default limit for the noise of a measurement) to six times that for launches of
#: few microseconds: as the regimes of tools/noise.py.
_USUAL = (0.03, 0.01, 0.005)
#: Resolution of %globaltimer on most GPUs, microseconds: times are multiples of it where nothing finer is used.
_TICK_US = 0.032


def duration_class(history: History) -> int:
    """The decade of its median duration: 0 below 10 us, 1 below 100 us, ...; -1 where the unit is not us."""
    values = [point.value for point in history.points if point.value > 0]
    if history.unit != "us" or not values:
        return -1
    return max(0, math.floor(math.log10(float(np.median(values)))))


def expected_noise(histories: Sequence[History]) -> list[Noise]:
    """What is known of the noise of each of ``histories`` from the others of its class; nothing where durations are not
    known."""
    classes = [duration_class(each) for each in histories]
    told: dict[int, list[float]] = {}
    for history, kind in zip(histories, classes):
        values = np.array([point.value for point in history.points if not math.isnan(point.value)])
        if kind >= 0 and len(values) >= _TELLING:
            told.setdefault(kind, []).append(Spread(values).sigma / float(np.median(values)))
    found = []
    for history, kind in zip(histories, classes):
        if kind < 0:
            found.append(Noise())
            continue
        share = float(np.median(told[kind])) if kind in told else _USUAL[min(kind, len(_USUAL) - 1)]
        middle = float(np.median([point.value for point in history.points if not math.isnan(point.value)]))
        found.append(Noise(_TICK_US / math.sqrt(12), share * middle, _WEIGHT))
    return found
