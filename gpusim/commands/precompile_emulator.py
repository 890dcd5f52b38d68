"""Compile the interpreter ahead of its first use, for instance beside the engine on another core.

Mental model: the interpreter is compiled for types, not for kernels, so one thread that runs anything at all
makes Numba compile, and cache on disk, all but the bodies with entry points; those are asked for one by one, and take
as long::

    python -m gpusim.commands.precompile_emulator [--interpreter | --bodies]
"""

from __future__ import annotations

import sys

import numpy as np
from numba import cuda

from gpusim.capturing import capture
from gpusim.isa.body import BODIES
from gpusim.isa.dispatch import entry_addresses


@cuda.jit
def _one_store(out):
    out[0] = 1


def precompile_interpreter(capability: tuple[int, int] = (9, 0)) -> None:
    """Run one thread."""
    capture(_one_store, 1, 1, (np.zeros(1, np.int32),), gpu=capability)


def precompile_bodies() -> None:
    """Make every body's entry point."""
    entry_addresses([body for body in BODIES if body.function is not None])


if __name__ == "__main__":
    half = sys.argv[1:]
    if half != ["--bodies"]:
        precompile_interpreter()
    if half != ["--interpreter"]:
        precompile_bodies()
