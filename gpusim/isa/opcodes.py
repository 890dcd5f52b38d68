"""Numbers of the emulator's bodies, by family: what a table row names and the interpreter runs.

A family owns a range of numbers and one jitted body function in ``gpusim/capture``; the interpreter
picks the family by range, the family picks the body by number.
"""

from __future__ import annotations

# Ranges: [base, next base)
CONTROL_BASE = 0  # capture/emulate.py: branches, barriers, exits (flow.py constants)
MEMORY_BASE = 100  # capture: loads, stores, atomics
LANES_BASE = 200  # capture: SHFL, VOTE, MATCH, REDUX, special registers
INTEGER_BASE = 300  # capture/alu_integer.py
FLOAT_BASE = 500  # capture/alu_float.py: FP32, conversions, MUFU
DOUBLE_BASE = 700  # capture/alu_double.py: FP64 and 64-bit conversions
HALF_BASE = 800  # capture/alu_half.py
TENSOR_BASE = 900  # capture/alu_tensor.py
END = 1000
