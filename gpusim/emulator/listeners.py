"""What the emulator reports of a launch while it runs, to whoever wants to know.

Mental model: the emulator runs blocks and logs what they do; it looks for no defects and shows no progress. It tells its
listeners of each event, in the order in which events happen, and goes on. One event asks something back: a listener
may take a fault, and then the launch goes on without that block.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from gpusim.trace.record import Chunk


class Fault(NamedTuple):
    """Why a warp stopped: ``status`` (BAD_ADDRESS ... of :mod:`gpusim.isa.warp`), the block's ``state`` with its fault
    fields, and the lanes of the access, as the kernel named them: ``address`` int64[32], lane mask ``mask``."""

    status: int
    state: np.record
    address: np.ndarray
    mask: int


class Listener:
    """Hears what happens; override what is of interest."""

    def warp_faulted(self, fault: Fault) -> bool:
        """A warp cannot go on. True to take that: its block is given up as if it had never run, its stores excepted, and the
        launch goes on; if no listener does, it ends with an error."""
        return False

    def blocks_ended(self, first_block: int, blocks: int) -> None:
        """Blocks from ``first_block`` on have come to their end."""

    def emulating(self, blocks: int, warp_instructions: int) -> None:
        """So many blocks have ended and so many instructions been executed; told every few milliseconds. What this raises ends
        the launch."""

    def chunk_closed(self, chunk: Chunk) -> None:
        """A stretch of the trace is complete; blocks at its end may go on in the next (``open_blocks``)."""
