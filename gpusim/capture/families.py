"""The arithmetic families behind entry points that the interpreter calls by address.

Mental model: a family's body takes a dozen arrays; the interpreter has one pointer to the scratch record.
Each entry point rebuilds the arrays from that pointer and calls the family. Calling by address keeps the
families out of the interpreter's own compilation: each is compiled once, not once more for every function
that reaches it.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, types
from numba.core import sigutils
from numba.core.ccallback import CFunc
from numba.extending import intrinsic

from gpusim.capture import layout as at
from gpusim.capture.alu_double import execute_double
from gpusim.capture.alu_float import execute_float
from gpusim.capture.alu_half import execute_half
from gpusim.capture.alu_integer import execute_integer
from gpusim.capture.alu_tensor import execute_tensor
from gpusim.capture.jit import SOURCES
from gpusim.jit_cache import stamped
from gpusim.sass.opcodes import DOUBLE_BASE, END, FLOAT_BASE, HALF_BASE, INTEGER_BASE, TENSOR_BASE

#: First op number behind each family's range, in the order of State.family.
FAMILY_ENDS = (FLOAT_BASE, DOUBLE_BASE, HALF_BASE, TENSOR_BASE, END)
_WORDS = at.SCRATCH_BYTES
_ENTRY = types.void(
    types.int32, types.int32, types.int32, types.int32, types.int32, types.uint32, types.uint32, types.int64
)


#: The scratch fields of STATE with float views of the same bytes.
_SCRATCH = np.dtype(
    {
        "names": ["x", "y", "z", "w", "xf", "yf", "zf", "wf", "q"],
        "formats": [("<i4", (4, at.LANES))] * 4 + [("<f4", (4, at.LANES))] * 4 + [("<u4", (2,))],
        "offsets": [0, _WORDS, 2 * _WORDS, 3 * _WORDS] * 2 + [4 * _WORDS],
        "itemsize": 4 * _WORDS + 8,
    }
)
#: The same for the tensor family, which has room to work behind it.
_TENSOR_SCRATCH = np.dtype(
    {
        "names": ["x", "y", "z", "w", "rules", "work"],
        "formats": [("<i4", (4, at.LANES))] * 4 + [("<i4", (at.TENSOR_RULES,)), ("<i4", (at.TENSOR_WORK_WORDS,))],
        "offsets": [0, _WORDS, 2 * _WORDS, 3 * _WORDS, 4 * _WORDS + 8, 4 * _WORDS + 8 + 4 * at.TENSOR_RULES],
        "itemsize": 4 * _WORDS + 8 + 4 * (at.TENSOR_RULES + at.TENSOR_WORK_WORDS),
    }
)
_SCRATCH_TYPE, _TENSOR_SCRATCH_TYPE = from_dtype(_SCRATCH), from_dtype(_TENSOR_SCRATCH)


def _record_at(record_type):
    @intrinsic
    def at_address(typing_context, address):
        """The record at an int64 address (a record is a pointer to Numba)."""

        def generate(context, builder, signature, arguments):
            return builder.inttoptr(arguments[0], context.get_value_type(record_type))

        return record_type(types.int64), generate

    return at_address


_scratch_at, _tensor_scratch_at = _record_at(_SCRATCH_TYPE), _record_at(_TENSOR_SCRATCH_TYPE)


def _integer(op, f0, f1, f2, f3, p0, p1, scratch):
    s = _scratch_at(scratch)
    execute_integer(op, f0, f1, f2, f3, p0, p1, s.x, s.y, s.z, s.w, s.xf, s.yf, s.zf, s.wf, s.q)


def _float(op, f0, f1, f2, f3, p0, p1, scratch):
    s = _scratch_at(scratch)
    execute_float(op, f0, f1, f2, f3, p0, p1, s.x, s.y, s.z, s.w, s.xf, s.yf, s.zf, s.wf, s.q)


def _double(op, f0, f1, f2, f3, p0, p1, scratch):
    s = _scratch_at(scratch)
    execute_double(op, f0, f1, f2, f3, p0, p1, s.x, s.y, s.z, s.w, s.xf, s.yf, s.zf, s.wf, s.q)


def _half(op, f0, f1, f2, f3, p0, p1, scratch):
    s = _scratch_at(scratch)
    execute_half(op, f0, f1, f2, f3, p0, p1, s.x, s.y, s.z, s.w, s.xf, s.yf, s.zf, s.wf, s.q)


def _tensor(op, f0, f1, f2, f3, p0, p1, scratch):
    s = _tensor_scratch_at(scratch)
    execute_tensor(op, f0, f1, f2, f3, s.x, s.y, s.z, s.w, s.rules, s.work)


_SOURCES = (_integer, _float, _double, _half, _tensor)

if config.DISABLE_JIT:
    _BODIES = (execute_integer, execute_float, execute_double, execute_half, execute_tensor)
    _TENSOR = len(_BODIES) - 1

    def entry_addresses(op_numbers: np.ndarray) -> tuple[int, ...]:
        """Stand-ins for the entry points' addresses: the families' numbers."""
        return tuple(range(len(_BODIES)))

    def call_family(address, op, f0, f1, f2, f3, p0, p1, scratch):
        """Run body ``op`` of a family on the scratch record at host address ``scratch``."""
        record = _TENSOR_SCRATCH if int(address) == _TENSOR else _SCRATCH
        buffer = (ctypes.c_uint8 * record.itemsize).from_address(int(scratch))
        s = np.frombuffer(buffer, record)[0]
        arrays = [s[name] for name in record.names]
        predicates = () if int(address) == _TENSOR else (p0, p1)
        _BODIES[int(address)](int(op), int(f0), int(f1), int(f2), int(f3), *predicates, *arrays)

else:

    @lru_cache(maxsize=None)
    def _entry(family: int) -> object:
        """A compiled entry point; made when the first kernel needs it."""
        # What numba.cfunc does, with the cache stamped before it is looked at.
        options = {"error_model": "numpy", "_nrt": False}
        entry = CFunc(_SOURCES[family], sigutils.normalize_signature(_ENTRY), locals={}, options=options)
        entry.enable_caching()
        stamped(entry, SOURCES)
        entry.compile()
        return entry

    def entry_addresses(op_numbers: np.ndarray) -> tuple[int, ...]:
        """Host addresses of the families' entry points in the order of FAMILY_ENDS; 0 for a family that
        none of the op numbers belongs to."""
        starts = (INTEGER_BASE, *FAMILY_ENDS[:-1])
        return tuple(
            _entry(i).address if ((op_numbers >= start) & (op_numbers < end)).any() else 0
            for i, (start, end) in enumerate(zip(starts, FAMILY_ENDS, strict=True))
        )

    @intrinsic
    def call_family(typing_context, address, op, f0, f1, f2, f3, p0, p1, scratch):
        """Run body ``op`` of a family on the scratch record at host address ``scratch``."""
        signature = types.void(types.int64, *_ENTRY.args)

        def generate(context, builder, signature, arguments):
            word, wide = ir.IntType(32), ir.IntType(64)
            kind = ir.FunctionType(ir.VoidType(), [word] * 7 + [wide])
            builder.call(builder.inttoptr(arguments[0], ir.PointerType(kind)), arguments[1:])
            return context.get_dummy_value()

        return signature, generate
