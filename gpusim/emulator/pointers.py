"""Loads and stores at a host address: how jitted code reaches the user's arrays with no copy.

Mental model: the interpreter has checked that the bytes belong to a live array; these functions only move
them, at any alignment. Compiled, each is one machine instruction; with Numba's JIT switched off the same
names work through ctypes.
"""

from __future__ import annotations

import ctypes

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic


def _compiled_load(bits: int, result):
    @intrinsic
    def load(typing_context, address):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], ir.PointerType(ir.IntType(bits)))
            value = builder.load(pointer, align=1)
            wanted = context.get_value_type(signature.return_type)
            return value if wanted.width == bits else builder.zext(value, wanted)

        return result(types.int64), generate

    return load


def _compiled_store(bits: int, argument):
    @intrinsic
    def store(typing_context, address, value):
        def generate(context, builder, signature, arguments):
            pointer = builder.inttoptr(arguments[0], ir.PointerType(ir.IntType(bits)))
            stored = arguments[1]
            if stored.type.width != bits:
                stored = builder.trunc(stored, ir.IntType(bits))
            builder.store(stored, pointer, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, argument), generate

    return store


def _compiled_copy():
    @intrinsic
    def copy(typing_context, target, source, count):
        def generate(context, builder, signature, arguments):
            byte = ir.PointerType(ir.IntType(8))
            name = "llvm.memmove.p0.p0.i64"
            kind = ir.FunctionType(ir.VoidType(), [byte, byte, ir.IntType(64), ir.IntType(1)])
            function = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
            pointers = [builder.inttoptr(arguments[i], byte) for i in (0, 1)]
            builder.call(function, [*pointers, arguments[2], ir.Constant(ir.IntType(1), 0)])
            return context.get_dummy_value()

        return types.void(types.int64, types.int64, types.int64), generate

    return copy


def _compiled_spread():
    @intrinsic
    def spread(typing_context, address, mask):
        def generate(context, builder, signature, arguments):
            lanes = ir.VectorType(ir.IntType(32), 32)
            pointer = builder.inttoptr(arguments[0], ir.PointerType(lanes))
            bits = builder.bitcast(arguments[1], ir.VectorType(ir.IntType(1), 32))
            builder.store(builder.zext(bits, lanes), pointer, align=4)
            return context.get_dummy_value()

        return types.void(types.int64, types.uint32), generate

    return spread


def _compiled_gather():
    @intrinsic
    def gather(typing_context, address):
        def generate(context, builder, signature, arguments):
            lanes = ir.VectorType(ir.IntType(32), 32)
            words = builder.load(builder.inttoptr(arguments[0], ir.PointerType(lanes)), align=4)
            return builder.bitcast(builder.icmp_unsigned("!=", words, ir.Constant(lanes, None)), ir.IntType(32))

        return types.uint32(types.int64), generate

    return gather


def _plain_spread(address, mask):
    words = (ctypes.c_int32 * 32).from_address(int(address))
    for lane in range(32):
        words[lane] = (int(mask) >> lane) & 1


def _plain_gather(address):
    words = (ctypes.c_int32 * 32).from_address(int(address))
    return np.uint32(sum((words[lane] != 0) << lane for lane in range(32)))


def _plain_load(kind):
    def load(address):
        return kind.from_address(int(address)).value

    return load


def _plain_store(kind):
    def store(address, value):
        kind.from_address(int(address)).value = int(value)

    return store


def _plain_copy(target, source, count):
    ctypes.memmove(int(target), int(source), int(count))


if config.DISABLE_JIT:
    load8 = _plain_load(ctypes.c_uint8)
    load16 = _plain_load(ctypes.c_uint16)
    load32 = _plain_load(ctypes.c_int32)
    load64 = _plain_load(ctypes.c_int64)
    store8 = _plain_store(ctypes.c_uint8)
    store16 = _plain_store(ctypes.c_uint16)
    store32 = _plain_store(ctypes.c_int32)
    store64 = _plain_store(ctypes.c_int64)
    copy_bytes = _plain_copy
    spread_mask, gather_mask = _plain_spread, _plain_gather
else:
    #: loadN(address int64): N bits; 8 and 16 zero-extended to int32, 32 as int32, 64 as int64
    load8 = _compiled_load(8, types.int32)
    load16 = _compiled_load(16, types.int32)
    load32 = _compiled_load(32, types.int32)
    load64 = _compiled_load(64, types.int64)
    #: storeN(address int64, value): the low N bits of value
    store8 = _compiled_store(8, types.int32)
    store16 = _compiled_store(16, types.int32)
    store32 = _compiled_store(32, types.int32)
    store64 = _compiled_store(64, types.int64)
    #: copy_bytes(target, source, count): as memmove
    copy_bytes = _compiled_copy()
    #: spread_mask(address, mask): 32 words, 1 where the lane mask has a bit, else 0
    spread_mask = _compiled_spread()
    #: gather_mask(address): the lane mask of the 32 words that are not 0
    gather_mask = _compiled_gather()
