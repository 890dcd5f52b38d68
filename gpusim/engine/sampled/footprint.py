"""Which lines of global memory a few blocks touch."""

from __future__ import annotations

import numpy as np

from gpusim.trace.record import SCATTERED, WARP_LANES, Trace

#: Bytes of a line of L2, on all GPUs so far; only shares of it are asked for.
_LINE_SHIFT = 7


def lines_of(trace: Trace) -> np.ndarray:
    """Numbers of the lines in the launch's allocations in which an access of ``trace`` begins, int64[n], ascending."""
    bounds = np.array(trace.launch.allocations, np.int64).reshape(-1, 2)
    bounds = bounds[np.argsort(bounds[:, 0])]
    if not len(bounds):
        return np.zeros(0, np.int64)
    found = []
    lanes = np.arange(WARP_LANES)
    for chunk in trace.chunks():
        on = (chunk.accesses["mask"][:, None] >> lanes & 1).astype(bool)
        scattered = chunk.accesses["stride"] == SCATTERED
        place = chunk.accesses["address"].astype(np.int64)
        stride = np.where(scattered, 0, chunk.accesses["stride"]).astype(np.int64)
        address = place[:, None] + lanes * stride[:, None]
        address[scattered] = chunk.scattered.view(np.int64)[place[scattered]]
        address = address[on]
        which = np.searchsorted(bounds[:, 0], address, side="right") - 1
        inside = (which >= 0) & (address < bounds[which, 0] + bounds[which, 1])
        found.append(np.unique(address[inside] >> _LINE_SHIFT))
    return np.unique(np.concatenate(found))
