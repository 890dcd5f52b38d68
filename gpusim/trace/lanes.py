"""Where a lane of an access record points: the one place that says how a trace names addresses."""

from __future__ import annotations

import numpy as np

from gpusim.trace.compiled import reading
from gpusim.trace.layout import SCATTERED


@reading
def lane_address(access, scattered, lane):  # pragma: no cover - jitted
    """Byte address of ``lane`` in ``access`` (a record of ACCESS), int64; ``scattered``: the rows of its chunk, [rows,
    32]. The lane must be on, or the access affine."""
    if access["stride"] == SCATTERED:
        return np.int64(scattered[np.int64(access["address"]), lane])
    return np.int64(access["address"]) + lane * np.int64(access["stride"])
