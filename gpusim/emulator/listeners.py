"""What the emulator reports of a launch while it runs, to whoever wants to know.

Mental model: the emulator runs blocks and logs what they do; it looks for no defects and shows no progress. It tells
its listeners of each event, in the order in which events happen, and goes on. Some events ask something back: a
listener may take what would end the launch, and then it goes on without the threads that cannot.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpusim.trace.record import Chunk


class Fault(NamedTuple):
    """Why a warp stopped: ``status`` (BAD_ADDRESS or MISALIGNED of :mod:`gpusim.isa.warp`), the block's ``state`` with
    its fault fields, and the lanes of the access, as the kernel named them: ``address`` int64[32], lane mask
    ``mask``."""

    status: int
    state: np.record
    address: np.ndarray
    mask: int


@dataclass(frozen=True)
class HeapBlock:
    """``size`` bytes of the device heap at ``address``, allocated by ``thread`` (its number in the block) of ``block``
    (its number in the grid) in instruction number ``instruction``."""

    address: int
    size: int
    block: int
    thread: int
    instruction: int


class Listener:
    """Hears what happens; override what is of interest."""

    def warp_faulted(self, fault: Fault) -> int:
        """An access of a warp hits nothing, or lies askew. The mask of the lanes that are to end before the
        instruction, which the others of ``fault.mask`` then make; if no listener names one, the launch ends with an
        error."""
        return 0

    def block_stuck(self, state: np.record) -> bool:
        """All warps of a block that are left wait for what cannot come. True to take that: its threads end where they
        stand and the launch goes on; if no listener does, it ends with an error."""
        return False

    def syncs_logged(self, first_block: int, syncs: np.ndarray) -> None:
        """Barriers that lanes have reached, in order: rows of ``SYNC_TABLE`` (:mod:`gpusim.isa.warp`), whose warps
        count from ``first_block``. They are logged only where a listener overrides this."""

    def events_logged(self, events: np.ndarray) -> None:
        """Events that order asynchronous work, as they happened: rows of ``EVENT_TABLE`` (:mod:`gpusim.isa.warp`). They
        are logged only where a listener overrides this."""

    def free_refused(self, freed: HeapBlock) -> bool:
        """A kernel frees an address that is not allocated (``size`` 0). True to take that: nothing is freed, and the
        launch goes on; if no listener does, it ends with an error."""
        return False

    def heap_left(self, blocks: Sequence[HeapBlock]) -> None:
        """The launch has ended; these blocks of the device heap, in the order of the threads that allocated them, were
        not freed."""

    def tensor_memory_left(self, blocks: int, first: int, columns: int) -> None:
        """The launch has ended; so many blocks have not given back all of their tensor memory, block number ``first``
        so many columns of it."""

    def blocks_ended(self, first_block: int, blocks: int) -> None:
        """Blocks from ``first_block`` on have come to their end."""

    def emulating(self, blocks: int, warp_instructions: int) -> None:
        """So many blocks have ended and so many instructions been executed; told every few milliseconds. What this
        raises ends the launch."""

    def chunk_closed(self, chunk: Chunk) -> None:
        """A stretch of the trace is complete; blocks at its end may go on in the next (``open_blocks``)."""
