"""About how long it takes to simulate a launch of a network, without running anything.

Mental model: seconds at one shape were measured on one machine, and grow with the axes as its warp instructions do,
which were counted there and at twice each axis (tools/record_simulation_cost.py writes both). Another machine is faster
or slower as a whole; caches and occupancy make a single shape dearer or cheaper. So a figure is good for the choice
between waiting and ``--sample``, to within a small factor.
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Mapping
from typing import Any

from gpusim.io.sibling import traces_folder

#: What a run costs before its first instruction: the process, the compiled code read from disk. guess
START_SECONDS = 1.5


def simulation_seconds(kernel: str, shape: Mapping[str, Any]) -> float | None:
    """About the seconds of a core that ``gpusim simulate kernel:shape`` takes, with everything compiled; None for a
    kernel of which nothing is recorded. Axes that ``shape`` leaves out are those of the recorded shape."""
    known = _recorded().get(kernel)
    if known is None:
        return None
    factors = (
        _growth(shape[axis] / known["shape"][axis], power)
        for axis, power in known["powers"].items()
        if isinstance(shape.get(axis), int) and shape[axis] > 0 and known["shape"][axis]
    )
    return START_SECONDS + known["seconds"] * math.prod(factors)


def _growth(ratio: float, power: float) -> float:
    """By what the work grows where an axis does by ``ratio``, of which twice as much is 2 ** ``power`` as much work."""
    # A power below one is a fixed part and one that is proportional to the axis.
    return 1.0 + (ratio - 1.0) * (2.0**power - 1.0) if 0.0 <= power <= 1.0 else ratio**power


def duration_text(seconds: float | None) -> str:
    """``12 s``, ``7 min``, ``3 h``, ``2 days``; empty for None."""
    if seconds is None:
        return ""
    for size, unit in ((86_400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


@functools.lru_cache(maxsize=1)
def _recorded() -> dict[str, Any]:
    return json.loads((traces_folder("recorded") / "simulation_cost.json").read_text("utf-8"))
