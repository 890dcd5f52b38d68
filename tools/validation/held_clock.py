"""The clock that a board's power leaves a launch which is measured in a loop.

Mental model: a part of the launch runs on a few SMs, with as much less of L2 and of DRAM's bandwidth, and may take as
much less of the board's watts; the clock falls until it does (:func:`gpusim.report.power.within_power`). Its energies
are guesses of the generation's; nothing of the measured set is in them.
"""

from __future__ import annotations

import gpusim
from gpusim.engine.result import Result
from gpusim.gpus.cut_down import cut_down
from gpusim.gpus.spec import GpuSpec
from gpusim.report.power import within_power
from gpusim.trace.record import Trace


def held_clock_hz(part: Trace, first: Trace, spec: GpuSpec, sms: int) -> float:
    """Of ``part``, some waves of a launch on ``sms`` of the SMs of ``spec``, whose code is in the caches by
    ``first``."""

    def simulated(at: GpuSpec) -> Result:
        return gpusim.simulate(part, gpu=at, code=first, sample=True)

    limit_watts = spec.board.power_limit_watts * sms / spec.sm_count
    return within_power(simulated, cut_down(spec, sms), limit_watts).clock_share * spec.clock_hz
