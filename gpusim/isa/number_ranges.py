"""Ranges of the micro-op numbers (column OP of the code matrix), by who executes them.

The interpreter tells by the range alone where an instruction belongs: control flow and memory stop a run of
arithmetic; lane-crossing instructions look at the warp's state; the rest are bodies with entry points.
"""

from __future__ import annotations

CONTROL_BASE = 0  # gpusim/emulator/control_flow.py: branches, barriers, exits
MEMORY_BASE = 100  # gpusim/emulator/access*.py: loads, stores, atomics
LANES_BASE = 200  # gpusim/isa/bodies/lanes.py: shuffles, votes, matches, special registers
FIRST_BODY = 300  # gpusim/isa/body.py: all that is declared as a body
