"""Why a resident warp did not issue in a cycle: one reason for every warp-cycle, by Nsight's names.

Mental model: between two issues of a warp lie cycles of, in this order, its own stall count
(``wait``, or ``branch_resolving`` after a taken branch), the dependence, instruction or constant that it waits
for, and the competition for a port (throttles), for operand reads (``dispatch_stall``) or for the issue slot
(``not_selected``). The cycle in which it issues is ``selected``. So the reasons of a launch add up to its resident
warp-cycles exactly.
"""

from __future__ import annotations

from gpusim.state_tables import Table

STALL_TABLE = Table(
    __name__, "stalls", "an instruction of the program", "Warp cycles before its issues, by what the warps waited for."
)
SELECTED = STALL_TABLE.column("warp cycles", "the cycle in which it issues", counter="selected")
WAIT = STALL_TABLE.column("warp cycles", "its own stall count", counter="wait")
BRANCH_RESOLVING = STALL_TABLE.column("warp cycles", "the same after a taken branch", counter="branch_resolving")
LONG_SCOREBOARD = STALL_TABLE.column(
    "warp cycles", "data of global, local or generic memory", counter="long_scoreboard"
)
SHORT_SCOREBOARD = STALL_TABLE.column(
    "warp cycles",
    "data of shared memory, shuffles, transcendental and other variable-latency pipes",
    counter="short_scoreboard",
)
IMC_MISS = STALL_TABLE.column(
    "warp cycles", "a constant: one that its cache lacks, or the result of a constant load", counter="imc_miss"
)
BARRIER = STALL_TABLE.column("warp cycles", "the other warps of its block", counter="barrier")
MEMBAR = STALL_TABLE.column("warp cycles", "acknowledgements of its stores, behind a fence", counter="membar")
MATH_PIPE_THROTTLE = STALL_TABLE.column("warp cycles", "the port of a pipe", counter="math_pipe_throttle")
LG_THROTTLE = STALL_TABLE.column(
    "warp cycles", "the memory queue is full and the next instruction is global or local", counter="lg_throttle"
)
MIO_THROTTLE = STALL_TABLE.column(
    "warp cycles", "the memory queue is full and the next instruction is shared, shuffle ...", counter="mio_throttle"
)
NOT_SELECTED = STALL_TABLE.column("warp cycles", "another warp of its sub-core was taken", counter="not_selected")
NO_INSTRUCTION = STALL_TABLE.column("warp cycles", "the instruction has not been fetched", counter="no_instruction")
DISPATCH_STALL = STALL_TABLE.column(
    "warp cycles", "operand reads of instructions before it keep the register-file ports", counter="dispatch_stall"
)
SLEEPING = STALL_TABLE.column("warp cycles", "the end of a NANOSLEEP", counter="sleeping")
GMMA = STALL_TABLE.column(
    "warp cycles", "groups of a warp group's products (wgmma), or room for another one", counter="gmma"
)
GRIDDEPCONTROL = STALL_TABLE.column(
    "warp cycles",
    "the end of the grid before, at griddepcontrol.wait (Nsight Compute documents no reason of its own for it)",
    counter="griddepcontrol",
)
STALL_NAMES = STALL_TABLE.counters()
