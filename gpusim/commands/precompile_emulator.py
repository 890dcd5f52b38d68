"""Compile the interpreter ahead of its first use, for instance beside the engine on another core.

Mental model: the interpreter is compiled for types, not for kernels, so one thread that runs anything at all
makes Numba compile, and cache on disk, all but the dispatch groups of arithmetic; those are asked for by name::

    python -m gpusim.commands.precompile_emulator
"""

from __future__ import annotations

import numpy as np
from numba import cuda

from gpusim.capturing import capture
from gpusim.isa.bodies.loops import FIRST_LOOP
from gpusim.isa.dispatch import FAMILY_ENDS, entry_addresses


@cuda.jit
def _one_store(out):
    out[0] = 1


def precompile(capability: tuple[int, int] = (9, 0)) -> None:
    """Run one thread, then make every family's entry point."""
    capture(_one_store, 1, 1, (np.zeros(1, np.int32),), gpu=capability)
    numbers = np.array([*FAMILY_ENDS, 0]) - 1
    entry_addresses(numbers, np.array([0] * len(FAMILY_ENDS) + [FIRST_LOOP]))


if __name__ == "__main__":
    precompile()
