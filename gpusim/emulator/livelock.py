"""Notices when blocks that run side by side only go round in circles.

Mental model: a block that spins for a flag looks busy. But the machine is deterministic: if everything that the
resident blocks can see (their registers, where each warp stands, shared, local and global memory) is exactly as
it was some rounds ago, it will be so again for ever. So while no block ends or begins, the blocks' own state is hashed
after each round and compared with a kept one, which is renewed at growing distances (Brent's cycle search); global
memory is looked at only when that has come round, which in a kernel that works it hardly ever does. A loop that counts
its iterations, or looks at a clock, never repeats itself: for that there is the instruction limit.
"""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from typing import Protocol

import numpy as np

#: Fields of STATE that say where the warps of a block stand and what they wait for.
_FIELDS = (
    "pc", "fragment", "mask", "wait", "predicates", "live", "arrived", "again", "vote", "held", "held_pc", "held_mask",
)  # fmt: skip
#: Rounds in which each state is compared with the kept one; the loop must come round to the same place within them.
WINDOW_ROUNDS = 64
#: Rounds without any block ending or beginning before the first look.
PATIENCE_ROUNDS = 4
#: Above this much global memory it is not looked at, and the instruction limit has to serve.
MOST_BYTES = 1 << 30


class Resident(Protocol):
    """What is looked at of a slot."""

    states: np.recarray
    registers: np.ndarray
    backing: list[np.ndarray]


class LivelockDetector:
    """Told after each round; says when nothing can ever change any more."""

    def __init__(self) -> None:
        self.progress()

    def progress(self) -> None:
        """A block has ended or begun: start over."""
        self._rounds, self._renewal = 0, PATIENCE_ROUNDS
        self._kept = self._memory = b""

    def reached(self, slots: Sequence[Resident], allocations: np.ndarray) -> bool:
        """Whether the state after this round is one that has been before; ``allocations`` int64[a, 3] as in
        :class:`gpusim.isa.warp.Machine`."""
        self._rounds += 1
        renew = self._rounds == self._renewal
        if self._rounds < PATIENCE_ROUNDS or self._rounds > self._renewal // 2 + WINDOW_ROUNDS and not renew:
            return False
        digest = _digest(slots)
        if digest == self._kept and int(allocations[:, 1].sum()) <= MOST_BYTES:
            memory = _memory_digest(allocations)
            if memory == self._memory:
                return True
            self._memory = memory
        elif renew:
            self._kept, self._memory = digest, b""
        if renew:
            self._renewal *= 2
        return False


def _digest(slots: Sequence[Resident]) -> bytes:
    total = hashlib.blake2b(digest_size=16)
    for slot in slots:
        state = slot.states[0]
        for name in _FIELDS:
            if name in slot.states.dtype.names:
                total.update(np.ascontiguousarray(state[name]))
        total.update(slot.registers)
        for array in slot.backing:
            total.update(array)
    return total.digest()


def _memory_digest(allocations: np.ndarray) -> bytes:
    total = hashlib.blake2b(digest_size=16)
    for _, size, host in allocations.tolist():
        total.update((ctypes.c_char * size).from_address(host))
    return total.digest()
