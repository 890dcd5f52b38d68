"""A block lets the grid begin that depends on its own programmatically (``griddepcontrol.launch_dependents``, SASS
PREEXIT).

Mental model: the first warp of a block to issue the instruction speaks for the block (PTX ISA, griddepcontrol: further
ones in a block have the effect of the first); the dispatcher is told, as of a block's end.
"""

from __future__ import annotations

from gpusim.model.compiled import inner
from gpusim.model.messages import GOES_ON
from gpusim.model.residency import BLOCK_NUMBER, LETS_GO
from gpusim.model.sm_tables import E_BLOCK, E_CYCLE, E_KIND, E_SLOT, E_SM, R_EXITS
from gpusim.model.timing import FIRST_SM, MAX_BLOCKS


@inner
def let_dependents_go(blocks, exits, report, timing, sm, block, now):
    """A warp of the block has issued the instruction in cycle ``now``."""
    if blocks[block, LETS_GO]:
        return
    blocks[block, LETS_GO] = 1
    i = report[R_EXITS]
    exits[i, E_CYCLE], exits[i, E_SM] = now, sm + timing[FIRST_SM]
    exits[i, E_SLOT], exits[i, E_BLOCK] = block - sm * timing[MAX_BLOCKS], blocks[block, BLOCK_NUMBER]
    exits[i, E_KIND] = GOES_ON
    report[R_EXITS] = i + 1
