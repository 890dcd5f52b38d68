"""A launch's ramp, steady state and tail, apart: how long each takes, and how long under another machine.

Mental model: the rate at which warps issue rises while blocks start and first misses are waited for, stays, and falls while the last blocks
end. The ramp lasts until the rate first reaches half of what most of the work is done at, the tail begins when it last
falls below that; the launch's own start and end belong to them. On another machine a part is the same *work*: from the
same warp instruction to the same warp instruction, so that what a counterfactual saves splits over the parts exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.engine.result import LaunchResult
from gpusim.engine.samples import COLUMNS

RAMP, STEADY, TAIL = NAMES = ("ramp", "steady state", "tail")
#: Stretches of equal length that the rate is read in.
_STRETCHES = 128
_SELECTED = COLUMNS.index("stall.selected")


@dataclass(frozen=True)
class Parts:
    """Of each launch: the warp instructions after which its ramp is over and its tail begins."""

    ends: tuple[tuple[float, float], ...]

    def cycles(self, launches: Sequence[LaunchResult]) -> tuple[float, float, float]:
        """Cycles of ramp, steady state and tail, all launches together; they add up to the launches' cycles. The launches
        must execute the same instructions as those that the parts were read from, and have samples."""
        sums = np.zeros(3)
        for (ramp, tail), launch in zip(self.ends, launches, strict=True):
            cycle, issued = _issued(launch)
            first, last = np.interp((ramp, tail), issued, cycle)
            sums += (first, last - first, launch.cycles - last)
        return tuple(sums.tolist())


def find_parts(launches: Sequence[LaunchResult]) -> Parts | None:
    """Where ramp and tail of each launch end and begin; None where one was not sampled over time, or blocks of it were left out."""
    ends = []
    for launch in launches:
        left_out = launch.sampling is not None and launch.sampling.skipped_blocks
        if launch.samples is None or len(launch.samples) < 3 or left_out:
            return None
        ends.append(_ends(*_issued(launch), launch.cycles))
    return Parts(tuple(ends))


def _issued(launch: LaunchResult) -> tuple[np.ndarray, np.ndarray]:
    """Cycles, and the warp instructions issued by then."""
    assert launch.samples is not None
    return launch.samples[:, 0].astype(np.float64), launch.samples[:, _SELECTED].astype(np.float64)


def _ends(cycle: np.ndarray, issued: np.ndarray, cycles: int) -> tuple[float, float]:
    edges = np.linspace(0.0, cycles, _STRETCHES + 1)
    done = np.interp(edges, cycle, issued)
    work = np.diff(done)
    # Half of all work is done at this rate or a higher one.
    order = np.argsort(work)[::-1]
    sustained = work[order][np.searchsorted(np.cumsum(work[order]), work.sum() / 2)]
    busy = np.flatnonzero(work >= sustained / 2)
    return float(done[busy[0]]), float(done[busy[-1] + 1])
