"""How large the log of a launch may grow, and how small it may not be.

Mental model: what warps do is logged in arrays that grow up to a limit; one instruction of warps in lockstep, with a
decision of a polling loop behind it, must fit into an empty one.
"""

from __future__ import annotations

from gpusim.emulator.poll_rounds import DECISION_ROWS
from gpusim.errors import UsageError
from gpusim.isa import warp as at

#: Records of the log (runs, accesses, scattered rows) beyond which it does not grow: 4, 6 and 16 MiB.
LOG_LIMITS = (1 << 18, 1 << 18, 1 << 16)
#: What one instruction of warps in lockstep may log, and the decision of a polling loop after it: with less an empty
#: log is full.
LEAST_LOG = (
    at.GROUP_WARPS + at.MAX_WARPS + DECISION_ROWS + 1,
    2 * at.GROUP_WARPS + DECISION_ROWS + 1,
    2 * at.GROUP_WARPS + DECISION_ROWS + 1,
)
#: Boxes of bulk copies that the log holds: 4 MiB, where a kernel makes any.
BULK_ROWS = 1 << 15


def holding_one_decision(limits: tuple[int, int, int]) -> tuple[int, int, int]:
    """``limits``; UsageError for a log that would be full before anything is in it, so that no block ever went on."""
    if any(most < least for most, least in zip(limits, LEAST_LOG, strict=True)):
        raise UsageError(f"a log of at most {limits} entries holds not even one instruction's: at least {LEAST_LOG}")
    return limits
