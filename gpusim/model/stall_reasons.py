"""Why a resident warp did not issue in a cycle: one reason for every warp-cycle, by Nsight's names.

Mental model: between two issues of a warp lie cycles of, in this order, its own stall count
(``wait``, or ``branch_resolving`` after a taken branch), the dependence, instruction or constant that it waits
for, and the competition for a port (throttles), for operand reads (``dispatch_stall``) or for the issue slot
(``not_selected``). The cycle in which it issues is ``selected``. So the reasons of a launch add up to its resident
warp-cycles exactly.
"""

from __future__ import annotations

(
    SELECTED,
    WAIT,
    BRANCH_RESOLVING,
    LONG_SCOREBOARD,  # data of global, local or generic memory
    SHORT_SCOREBOARD,  # data of shared memory, shuffles, transcendental and other variable-latency pipes
    IMC_MISS,  # a constant: one that its cache lacks, or the result of a constant load
    BARRIER,
    MEMBAR,
    MATH_PIPE_THROTTLE,
    LG_THROTTLE,  # the memory queue is full and the next instruction is global or local
    MIO_THROTTLE,  # the memory queue is full and the next instruction is shared, shuffle ...
    NOT_SELECTED,
    NO_INSTRUCTION,  # the instruction has not been fetched
    DISPATCH_STALL,  # operand reads of instructions before it keep the register-file ports
) = range(14)

STALL_NAMES = (
    "selected",
    "wait",
    "branch_resolving",
    "long_scoreboard",
    "short_scoreboard",
    "imc_miss",
    "barrier",
    "membar",
    "math_pipe_throttle",
    "lg_throttle",
    "mio_throttle",
    "not_selected",
    "no_instruction",
    "dispatch_stall",
)
