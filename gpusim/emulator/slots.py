"""Room for resident blocks, and what the log holds of them.

Mental model: a slot is what one block at a time needs to run: a state, registers, shared and local memory. A stretch of
the log is so many blocks from one on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.emulator.clusters import ResidentCluster
from gpusim.isa import warp as at

#: Fields of a state that belong to the launch, not to a slot.
SHARED_FIELDS = (
    "used",
    "executed",
    "now",
    "dropping_call",
    "dropped_prints",
    "epoch",
    "words_used",
    "changes",
    "bulks_used",
    "watch_host",
    "events_host",
    "events_used",
    "events_room",
    "tensor_left",
    "tensor_left_block",
    "tensor_left_units",
    "history_used",
    "hurries",
    "last_wait",
    "time_ahead",
)


@dataclass(eq=False)  # equal would mean that all of their states and registers are
class Slot:
    """Room for one resident block: its STATE[1] record array, registers, and the memory behind its pointers."""

    states: np.recarray
    registers: np.ndarray
    raw: np.ndarray  # the bytes of ``states``, counters of what was executed among them
    backing: list[np.ndarray]
    block: int = -1
    #: ``changes`` of the launch when all that its warps did was to poll, -1: they did something else
    polled_at: int = -1
    #: rows of the launch's ``touched`` for the words that they poll; none: too many to say
    watched: tuple[int, ...] = ()
    #: the cluster whose block it holds; None: the launch has none
    cluster: ResidentCluster | None = None
    #: why its block stopped last
    status: int = at.DONE

    def __post_init__(self) -> None:
        self.states[0]["registers_host"] = self.registers.ctypes.data
        fields: list[str] = list(SHARED_FIELDS)
        self._shared = self.states.view(np.ndarray)[fields]
        #: The state itself, by ``["name"]``: a record's attributes cost twenty times as much, which counts where blocks
        #: take turns.
        self.plain: np.void = self.states.view(np.ndarray).view(np.dtype((np.void, self.states.dtype)))[0]

    def go_on_from(self, other: Slot) -> None:
        """Take over what the slots of a launch have in common from the one that ran last."""
        self._shared[:] = other._shared


@dataclass(frozen=True)
class LoggedBlocks:
    """What the log holds: ``blocks`` blocks from ``first_block`` on, of which the last ``open_blocks`` go on."""

    first_block: int
    blocks: int
    open_blocks: int = 0


def stuck_blocks(resident: Sequence[Slot]) -> list[Slot]:
    """The blocks of a cluster that are left, all of which wait at its barrier for a thread that cannot come; none: no
    cluster is so."""
    for slot in resident:
        if slot.status == at.CLUSTER_WAIT:
            members = [other for other in resident if other.cluster is slot.cluster]
            waiting = [other for other in members if (other.states[0].fragment == at.AT_CLUSTER).any()]
            if len(waiting) == len(members) and all(other.status == at.CLUSTER_WAIT for other in members):
                return members
    return []


def release_grid(state: np.record) -> None:
    """Everybody has arrived at the grid's barrier: let this block's fragments go on."""
    waiting = state.fragment == at.AT_GRID
    state.fragment[waiting] = at.READY
    state.ready[:] += waiting.sum(axis=1)
