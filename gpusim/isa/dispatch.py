"""The arithmetic families behind entry points that the interpreter calls by address.

Mental model: the interpreter names operands by host addresses, rows of the register file or of its scratch.
Each entry point rebuilds arrays from those and calls the family's body, once for each warp of a team (the
loops of ``alu_loops.py``: once for all of them). Calling by address keeps the families out of the interpreter's own
compilation: each is compiled once, not once more for every function that reaches it.
"""

from __future__ import annotations

import ctypes

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, types
from numba.extending import intrinsic

from gpusim.isa import warp as at
from gpusim.isa.bodies.double import execute_double
from gpusim.isa.bodies.float import execute_float
from gpusim.isa.bodies.half import execute_half
from gpusim.isa.bodies.integer import execute_integer
from gpusim.isa.bodies.loops import FIRST_LOOP, execute_loop
from gpusim.isa.bodies.tensor import execute_tensor
from gpusim.isa.jit import entry
from gpusim.isa.opcodes import DOUBLE_BASE, END, FLOAT_BASE, HALF_BASE, INTEGER_BASE, TENSOR_BASE

#: First op number behind each family's range, in the order of State.family.
FAMILY_ENDS = (FLOAT_BASE, DOUBLE_BASE, HALF_BASE, TENSOR_BASE, END)
_TENSOR_FAMILY = len(FAMILY_ENDS) - 1
#: The family of the loops over several warps, whose bodies have numbers of their own.
LOOP_FAMILY = len(FAMILY_ENDS)
_WORD, _PLACE = types.int32, types.int64
_ENTRY = types.void(_WORD, _WORD, _WORD, _WORD, _WORD, _PLACE, _PLACE, _PLACE, _PLACE, _PLACE, _PLACE)

#: Four rows of an operand, as integers and as floats.
_OPERAND = np.dtype(
    {
        "names": ["i", "f"],
        "formats": [("<i4", (4, at.ROW)), ("<f4", (4, at.ROW))],
        "offsets": [0, 0],
        "itemsize": 16 * at.ROW,
    }
)
#: The last fields of STATE: predicates as lane masks by warp; what this generation's tensor cores do, and
#: room for them to work.
MASKS = np.dtype(
    [
        ("p0", "<u4", (at.GROUP_WARPS,)),
        ("p1", "<u4", (at.GROUP_WARPS,)),
        ("q", "<u4", (at.GROUP_WARPS, 2)),
        ("rules", "<i4", (at.TENSOR_RULES,)),
        ("work", "<i4", (at.TENSOR_WORK_WORDS,)),
    ]
)
_OPERAND_TYPE, _MASKS_TYPE = from_dtype(_OPERAND), from_dtype(MASKS)
_WARP_BYTES = 4 * at.LANES


def record_at(record_type):
    """The record at an int64 address (a record is a pointer to Numba)."""

    @intrinsic
    def record(typing_context, address):
        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(record_type))

        return record_type(types.int64), generate

    return record


_operand_at, _masks_at = record_at(_OPERAND_TYPE), record_at(_MASKS_TYPE)


def _integer(op, f0, f1, f2, f3, x, y, z, w, masks, warps):
    m = _masks_at(masks)
    for warp in range(warps):
        at_x, at_y = _operand_at(x + warp * _WARP_BYTES), _operand_at(y + warp * _WARP_BYTES)
        at_z, at_w = _operand_at(z + warp * _WARP_BYTES), _operand_at(w + warp * _WARP_BYTES)
        execute_integer(
            op, f0, f1, f2, f3, m.p0[warp], m.p1[warp], at_x.i, at_y.i, at_z.i, at_w.i, at_x.f, at_y.f, at_z.f, at_w.f,
            m.q[warp],
        )  # fmt: skip


def _float(op, f0, f1, f2, f3, x, y, z, w, masks, warps):
    m = _masks_at(masks)
    for warp in range(warps):
        at_x, at_y = _operand_at(x + warp * _WARP_BYTES), _operand_at(y + warp * _WARP_BYTES)
        at_z, at_w = _operand_at(z + warp * _WARP_BYTES), _operand_at(w + warp * _WARP_BYTES)
        execute_float(
            op, f0, f1, f2, f3, m.p0[warp], m.p1[warp], at_x.i, at_y.i, at_z.i, at_w.i, at_x.f, at_y.f, at_z.f, at_w.f,
            m.q[warp],
        )  # fmt: skip


def _double(op, f0, f1, f2, f3, x, y, z, w, masks, warps):
    m = _masks_at(masks)
    for warp in range(warps):
        at_x, at_y = _operand_at(x + warp * _WARP_BYTES), _operand_at(y + warp * _WARP_BYTES)
        at_z, at_w = _operand_at(z + warp * _WARP_BYTES), _operand_at(w + warp * _WARP_BYTES)
        execute_double(
            op, f0, f1, f2, f3, m.p0[warp], m.p1[warp], at_x.i, at_y.i, at_z.i, at_w.i, at_x.f, at_y.f, at_z.f, at_w.f,
            m.q[warp],
        )  # fmt: skip


def _half(op, f0, f1, f2, f3, x, y, z, w, masks, warps):
    m = _masks_at(masks)
    for warp in range(warps):
        at_x, at_y = _operand_at(x + warp * _WARP_BYTES), _operand_at(y + warp * _WARP_BYTES)
        at_z, at_w = _operand_at(z + warp * _WARP_BYTES), _operand_at(w + warp * _WARP_BYTES)
        execute_half(
            op, f0, f1, f2, f3, m.p0[warp], m.p1[warp], at_x.i, at_y.i, at_z.i, at_w.i, at_x.f, at_y.f, at_z.f, at_w.f,
            m.q[warp],
        )  # fmt: skip


def _tensor(op, f0, f1, f2, f3, x, y, z, w, masks, warps):
    m = _masks_at(masks)
    for warp in range(warps):
        at_x, at_y = _operand_at(x + warp * _WARP_BYTES), _operand_at(y + warp * _WARP_BYTES)
        at_z, at_w = _operand_at(z + warp * _WARP_BYTES), _operand_at(w + warp * _WARP_BYTES)
        execute_tensor(op, f0, f1, f2, f3, at_x.i, at_y.i, at_z.i, at_w.i, m.rules, m.work)


def _loop(number, f0, f1, f2, f3, x, y, z, w, masks, warps):
    lanes = np.uint64(warps) * np.uint64(at.LANES)
    execute_loop(number, f0, f1, f2, f3, _operand_at(x).i, _operand_at(y).i, _operand_at(z).i, _operand_at(w).i, lanes)


_SOURCES = (_integer, _float, _double, _half, _tensor, _loop)

if config.DISABLE_JIT:
    _BODIES = (execute_integer, execute_float, execute_double, execute_half)

    def entry_addresses(op_numbers: np.ndarray, wide_numbers: np.ndarray) -> tuple[int, ...]:
        """Stand-ins for the entry points' addresses: the families' numbers."""
        return tuple(range(len(_SOURCES)))

    def _plain(dtype, address):
        buffer = (ctypes.c_uint8 * dtype.itemsize).from_address(int(address))
        return np.frombuffer(buffer, dtype)[0]

    def call_family(address, op, f0, f1, f2, f3, x, y, z, w, masks, warps):
        """Run body ``op`` of a family on operands at host addresses, for ``warps`` warps."""
        m, flags = _plain(MASKS, masks), (int(f0), int(f1), int(f2), int(f3))
        loop = int(address) == LOOP_FAMILY
        for warp in range(1 if loop else int(warps)):
            areas = [_plain(_OPERAND, int(a) + warp * _WARP_BYTES) for a in (x, y, z, w)]
            words, floats = [a["i"] for a in areas], [a["f"] for a in areas]
            if loop:
                execute_loop(int(op), *flags, *words, int(warps) * at.LANES)
            elif int(address) == _TENSOR_FAMILY:
                execute_tensor(int(op), *flags, *words, m["rules"], m["work"])
            else:
                _BODIES[int(address)](int(op), *flags, m["p0"][warp], m["p1"][warp], *words, *floats, m["q"][warp])

else:

    def entry_addresses(op_numbers: np.ndarray, wide_numbers: np.ndarray) -> tuple[int, ...]:
        """Host addresses of the families' entry points in the order of FAMILY_ENDS, and that of the loops; 0 for a
        family that none of the numbers (columns OP and WIDE of the code matrix) belongs to."""
        starts = (INTEGER_BASE, *FAMILY_ENDS[:-1])
        apart = op_numbers[wide_numbers == 0]
        needed = [((apart >= start) & (apart < end)).any() for start, end in zip(starts, FAMILY_ENDS, strict=True)]
        needed.append((wide_numbers >= FIRST_LOOP).any())
        return tuple(entry(_SOURCES[i], _ENTRY).address if asked else 0 for i, asked in enumerate(needed))

    @intrinsic
    def call_family(typing_context, address, op, f0, f1, f2, f3, x, y, z, w, masks, warps):
        """Run body ``op`` of a family on operands at host addresses, for ``warps`` warps."""
        signature = types.void(types.int64, *_ENTRY.args)

        def generate(context, builder, signature, arguments):
            word, wide = ir.IntType(32), ir.IntType(64)
            kind = ir.FunctionType(ir.VoidType(), [word] * 5 + [wide] * 6)
            builder.call(builder.inttoptr(arguments[0], ir.PointerType(kind)), arguments[1:])
            return context.get_dummy_value()

        return signature, generate
