"""The entry points of bodies, which the interpreter calls by address.

Mental model: the interpreter names operands by host addresses, rows of the register file or of its scratch. An entry
point rebuilds arrays from those and calls one body (:mod:`gpusim.isa.body`): once for each warp, or once for the lanes
of all. Calling by address keeps bodies out of the interpreter's own compilation, and each is compiled, and kept on
disk, on its own, when a kernel that needs it is first executed. (Bodies used to be compiled by families: a kernel with
one conversion waited ten seconds for all of FP32. An LLVM switch over all bodies would bring that back.)

The entry points of one kind are one function's code over and over, each with another global ``body``: copies and not
closures, since Numba's cache knows a function by its file, qualified name and line, but a closure by a pickle of its
cells, which differs from process to process.
"""

from __future__ import annotations

import ctypes
from functools import cache
from types import FunctionType

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, types
from numba.extending import intrinsic

from gpusim.isa import warp as at
from gpusim.isa.body import BODIES, LANES_AT_ONCE, Body, Reach, body_of
from gpusim.isa.jit import entry

_WORD, _PLACE = types.int32, types.int64
_ENTRY = types.void(_WORD, _WORD, _WORD, _WORD, _PLACE, _PLACE, _PLACE, _PLACE, _PLACE, _PLACE)

#: Four rows of an operand.
_OPERAND = np.dtype([("i", "<i4", (4, at.ROW))])
_FIELDS = ("p0", "p1", "q", "rules", "work")
_FIRST = at.STATE.fields["p0"][1]
#: What bodies see of STATE, from its field ``p0`` on: predicates as lane masks by warp; what this generation's tensor
#: cores do, and room for them to work.
MASKS = np.dtype(
    {
        "names": _FIELDS,
        "formats": [at.STATE.fields[name][0] for name in _FIELDS],
        "offsets": [at.STATE.fields[name][1] - _FIRST for name in _FIELDS],
    }
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


#: What an entry point's code calls; each copy of the code has its own.
body = None


def _warps(f0, f1, f2, f3, x, y, z, w, masks, warps):
    m = _masks_at(masks)
    f = np.int64(f0), np.int64(f1), np.int64(f2), np.int64(f3)
    for warp in range(warps):
        at_x, at_y = _operand_at(x + warp * _WARP_BYTES), _operand_at(y + warp * _WARP_BYTES)
        at_z, at_w = _operand_at(z + warp * _WARP_BYTES), _operand_at(w + warp * _WARP_BYTES)
        body(f, (m.p0[warp], m.p1[warp]), at_x.i, at_y.i, at_z.i, at_w.i, m.q[warp])


def _lanes(f0, f1, f2, f3, x, y, z, w, masks, warps):
    f = np.int64(f0), np.int64(f1), np.int64(f2), np.int64(f3)
    lanes = np.uint64(warps) * np.uint64(at.LANES)
    body(f, _operand_at(x).i, _operand_at(y).i, _operand_at(z).i, _operand_at(w).i, lanes)


def _matrices(f0, f1, f2, f3, x, y, z, w, masks, warps):
    m = _masks_at(masks)
    f = np.int64(f0), np.int64(f1), np.int64(f2), np.int64(f3)
    for warp in range(warps):
        at_x, at_y = _operand_at(x + warp * _WARP_BYTES), _operand_at(y + warp * _WARP_BYTES)
        at_z, at_w = _operand_at(z + warp * _WARP_BYTES), _operand_at(w + warp * _WARP_BYTES)
        body(f, at_x.i, at_y.i, at_z.i, at_w.i, m.rules, m.work)


_CODE = {Reach.WARP: _warps, Reach.LANES: _lanes, Reach.MATRIX: _matrices}


@cache
def _entry_function(of: Body) -> FunctionType:
    """The code of the body's kind with ``body`` as what it calls."""
    code = _CODE[of.reach]
    function = FunctionType(code.__code__, {**globals(), "body": of.function}, f"{code.__name__}_{of.name}")
    function.__qualname__ = function.__name__
    return function


def needed(op_numbers: np.ndarray, vector_bodies: np.ndarray) -> list[Body]:
    """The bodies that these instructions (columns OP and VECTOR_BODY of the code matrix) call by address."""
    apart = op_numbers[(vector_bodies == 0) | (vector_bodies == LANES_AT_ONCE)]
    return [of for number in np.unique(apart).tolist() if (of := body_of(number)) is not None]


if config.DISABLE_JIT:

    def entry_addresses(bodies: list[Body]) -> np.ndarray:
        """Stand-ins for the entry points' addresses: the places of the bodies."""
        return np.arange(at.ENTRY_POINTS)

    def _plain(dtype, address):
        buffer = (ctypes.c_uint8 * dtype.itemsize).from_address(int(address))
        return np.frombuffer(buffer, dtype)[0]

    def call_body(address, f0, f1, f2, f3, x, y, z, w, masks, warps):
        """Run a body on operands at host addresses, for ``warps`` warps."""
        of, m = BODIES[int(address)], _plain(MASKS, masks)
        f = tuple(np.int64(flag) for flag in (f0, f1, f2, f3))
        for warp in range(1 if of.reach == Reach.LANES else int(warps)):
            words = [_plain(_OPERAND, int(a) + warp * _WARP_BYTES)["i"] for a in (x, y, z, w)]
            if of.reach == Reach.LANES:
                of.function(f, *words, int(warps) * at.LANES)
            elif of.reach == Reach.MATRIX:
                of.function(f, *words, m["rules"], m["work"])
            else:
                of.function(f, (m["p0"][warp], m["p1"][warp]), *words, m["q"][warp])

else:

    def entry_addresses(bodies: list[Body]) -> np.ndarray:
        """int64[ENTRY_POINTS]: host address of each body's entry point, compiled now if need be; 0 for those that are
        not among ``bodies``."""
        addresses = np.zeros(at.ENTRY_POINTS, np.int64)
        for of in bodies:
            addresses[of.place] = entry(_entry_function(of), _ENTRY).address
        return addresses

    @intrinsic
    def call_body(typing_context, address, f0, f1, f2, f3, x, y, z, w, masks, warps):
        """Run a body on operands at host addresses, for ``warps`` warps."""
        signature = types.void(types.int64, *_ENTRY.args)

        def generate(context, builder, signature, arguments):
            word, wide = ir.IntType(32), ir.IntType(64)
            kind = ir.FunctionType(ir.VoidType(), [word] * 4 + [wide] * 6)
            builder.call(builder.inttoptr(arguments[0], ir.PointerType(kind)), arguments[1:])
            return context.get_dummy_value()

        return signature, generate
