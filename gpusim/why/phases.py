"""A launch's ramp, steady state and tail, apart: how long each takes, and how long under another machine.

Mental model: the launch starts, blocks come to the SMs, and warps issue faster and faster as the first misses are
answered: the ramp, until they first issue at half the rate that most of the work is done at. The tail begins when no
more blocks are left than half of those that the SMs held at most. The launch's own start and end belong to the ramp and
the tail. On another machine a part is the same *work* (from one warp instruction, or ended block, to another), so that
what a counterfactual saves splits over the parts exactly.
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
    """Of each launch: the warp instructions after which its ramp is over, and the ended blocks after which its tail
    begins."""

    ends: tuple[tuple[float, int], ...]

    def cycles(self, launches: Sequence[LaunchResult]) -> tuple[float, float, float]:
        """Cycles of ramp, steady state and tail, all launches together; they add up to the launches' cycles. The
        launches must execute the same instructions as those that the parts were read from, and have samples."""
        ramp = steady = tail = 0.0
        for (instructions, blocks), launch in zip(self.ends, launches, strict=True):
            cycle, issued = _issued(launch)
            first = float(np.interp(instructions, issued, cycle))
            last = max(first, float(np.sort(launch.block_end_cycles)[blocks - 1]))
            ramp += first
            steady += last - first
            tail += launch.cycles - last
        return ramp, steady, tail


def find_parts(launches: Sequence[LaunchResult]) -> Parts | None:
    """Where ramp and tail of each launch end and begin; None where one was not sampled over time, or blocks of it were
    left out."""
    ends = []
    for launch in launches:
        left_out = launch.sampling is not None and launch.sampling.skipped_blocks
        if launch.samples is None or len(launch.samples) < 3 or left_out:
            return None
        ends.append((_ramp(*_issued(launch), launch.cycles), _blocks_before_tail(launch.block_times)))
    return Parts(tuple(ends))


def _issued(launch: LaunchResult) -> tuple[np.ndarray, np.ndarray]:
    """Cycles, and the warp instructions issued by then."""
    assert launch.samples is not None
    return launch.samples[:, 0].astype(np.float64), launch.samples[:, _SELECTED].astype(np.float64)


def _ramp(cycle: np.ndarray, issued: np.ndarray, cycles: int) -> float:
    """Warp instructions issued before the rate first reaches half of the sustained one."""
    done = np.interp(np.linspace(0.0, cycles, _STRETCHES + 1), cycle, issued)
    work = np.diff(done)
    # Half of all work is done at this rate or a higher one.
    order = np.argsort(work)[::-1]
    sustained = work[order][np.searchsorted(np.cumsum(work[order]), work.sum() / 2)]
    return float(done[np.flatnonzero(work >= sustained / 2)[0]])


def _blocks_before_tail(times: np.ndarray) -> int:
    """Blocks that have ended when no more are left, resident or not started, than half of those that were resident at
    most."""
    starts, ends = np.sort(times[:, 0]), np.sort(times[:, 1])
    ended = np.arange(1, len(ends) + 1)
    most = int((np.searchsorted(starts, ends, side="right") - ended).max()) + 1  # a block counts until it ends
    return int(ended[len(ends) - ended <= most / 2][0])
