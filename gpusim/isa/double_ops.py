"""Numbers of the FP64 bodies."""

from __future__ import annotations

from gpusim.isa.opcodes import DOUBLE_BASE

ADD = DOUBLE_BASE + 0
MULTIPLY = DOUBLE_BASE + 1
FUSED = DOUBLE_BASE + 2
COMPARE = DOUBLE_BASE + 3
ORDER = DOUBLE_BASE + 4  # DSETP.MIN, DSETP.MAX: which operand a minimum or maximum takes
MINMAX = DOUBLE_BASE + 5
