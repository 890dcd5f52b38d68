"""The arithmetic families in one place: which function executes which range of op numbers.

Mental model: a switch by range; the family's own switch picks the body.
"""

from __future__ import annotations

from gpusim.capture.alu_double import execute_double
from gpusim.capture.alu_float import execute_float
from gpusim.capture.alu_half import execute_half
from gpusim.capture.alu_integer import execute_integer
from gpusim.capture.jit import compiled
from gpusim.sass.opcodes import DOUBLE_BASE, FLOAT_BASE, HALF_BASE


@compiled
def execute_arithmetic(op, f0, f1, f2, f3, p0, p1, x, y, z, w, xf, yf, zf, wf, q):
    """Run the arithmetic body ``op``; the contract of the arguments is in :mod:`gpusim.sass.form`."""
    if op < FLOAT_BASE:
        execute_integer(op, f0, f1, f2, f3, p0, p1, x, y, z, w, xf, yf, zf, wf, q)
    elif op < DOUBLE_BASE:
        execute_float(op, f0, f1, f2, f3, p0, p1, x, y, z, w, xf, yf, zf, wf, q)
    elif op < HALF_BASE:
        execute_double(op, f0, f1, f2, f3, p0, p1, x, y, z, w, xf, yf, zf, wf, q)
    else:
        execute_half(op, f0, f1, f2, f3, p0, p1, x, y, z, w, xf, yf, zf, wf, q)
