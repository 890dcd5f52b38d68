"""What Numba compiles of gpusim, to be compiled ahead and side by side: by the tests, and for the copies that faults
are planted in."""

from __future__ import annotations

#: Arguments of ``python -m``, a process each; each takes about as long as the others.
COMPILED_PARTS = (
    ("gpusim.engine.precompile",),
    ("gpusim.commands.precompile_emulator", "--interpreter"),
    ("gpusim.commands.precompile_emulator", "--bodies"),
)
