"""Writes of the grids of a chain that an SM has under way: a grid's memory is flushed when the last of them has been
acknowledged.

Mental model: ``griddepcontrol.wait`` lasts until the grids before have completed and their memory operations are
performed and visible (PTX ISA, griddepcontrol). A store is performed when the L2 has acknowledged it, a bulk store when
the accelerator is done with it. An SM counts them by grid; if a block ends while some of its grid are open, the
dispatcher is told when the last one is closed.
"""

from __future__ import annotations

from gpusim.model.compiled import inner
from gpusim.model.messages import FLUSHED
from gpusim.model.sm_tables import E_BLOCK, E_CYCLE, E_KIND, E_SLOT, E_SM, R_EXITS
from gpusim.model.timing import FIRST_SM
from gpusim.state_tables import Table

GRID_WRITES_TABLE = Table(__name__, "grid_writes", "a grid of the chain on an SM", "Its memory operations under way.")
OPEN = GRID_WRITES_TABLE.column("count", "writes, reductions and bulk stores that are not performed yet")
OWED = GRID_WRITES_TABLE.column("flag", "a block has ended meanwhile: the dispatcher waits for the last of them")


@inner
def perform(grid_writes, exits, report, timing, sm, grid, now):
    """One of the grid's writes has been performed in cycle ``now``."""
    grid_writes[sm, grid, OPEN] -= 1
    if grid_writes[sm, grid, OPEN] or not grid_writes[sm, grid, OWED]:
        return
    grid_writes[sm, grid, OWED] = 0
    i = report[R_EXITS]
    exits[i, E_CYCLE], exits[i, E_SM], exits[i, E_SLOT] = now, sm + timing[FIRST_SM], -1
    exits[i, E_BLOCK], exits[i, E_KIND] = grid, FLUSHED
    report[R_EXITS] = i + 1
