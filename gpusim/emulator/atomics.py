"""Atomic read-modify-write of one lane: old value to a register, new value to memory.

Mental model: blocks run one after another and lanes in order, so an atomic is an ordinary update. Types and
operations are those of PTX's atom and red; ``inc`` and ``dec`` wrap at the operand; floating minimum and
maximum do not exist there (Numba builds them from compare-and-swap). ``F32_FTZ`` flushes denormals, as the
hardware's float adder at L2 and the FTZ suffix in SASS say; 16-bit floats keep them (``.noftz``).
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.pointers import load32, load64, store32, store64
from gpusim.isa import float_ops
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.bodies.scalar import bits64_of, bits_of, double_of, float_of, flush32, sum_error
from gpusim.isa.bodies.small import decode_half, encode_half
from gpusim.isa.jit import inner
from gpusim.isa.lane_masks import signed32

LOW = 0xFFFFFFFF
_SIGN = np.int64(-(2**63))
#: The count of pending transactions of an mbarrier, modulo 2 ** 21.
_PENDING = np.int64(0x1FFFFF)


@inner
def atomic_lane(registers, x, y, w, q, lane, operation, kind, address):
    """Apply ``operation`` of ``kind`` at host ``address``; ``x``, ``y`` and ``w`` are where the lane's operands
    and result lie among the registers."""
    if kind >= ops.F32X4_FTZ:
        words = 2 if kind == ops.F16X4 or kind == ops.BF16X4 else 4
        single = np.int64(ops.F32_FTZ)
        if kind != ops.F32X4_FTZ:
            single = np.int64(ops.F16X2 if kind == ops.F16X4 or kind == ops.F16X8 else ops.BF16X2)
        for word in range(words):
            step = word * at.ROW
            _narrow(registers, x + step, y, w + step, q, lane, operation, single, address + 4 * word)
    elif kind == ops.B128:
        _widest(registers, x, y, w, lane, operation, address)
    elif kind == ops.U64 or kind == ops.S64 or kind == ops.F64 or kind == ops.F32X2_FTZ:
        _wide(registers, x, y, w, q, lane, operation, kind, address)
    else:
        _narrow(registers, x, y, w, q, lane, operation, kind, address)


@inner
def _narrow(registers, x, y, w, q, lane, operation, kind, address):
    old, operand = load32(address), registers[x]
    registers[w] = old
    if kind == ops.F32 or kind == ops.F32_FTZ:
        store32(address, signed32(_add_float(old, operand, kind == ops.F32_FTZ)))
        return
    if kind == ops.F16X2 or kind == ops.BF16X2:
        style = float_ops.F16 if kind == ops.F16X2 else float_ops.BF16
        if operation == ops.ADD:
            store32(address, _add_halves(old, operand, style))
        else:
            store32(address, _extreme_halves(old, operand, style, operation == ops.MIN))
        return
    if operation == ops.SAFEADD:
        store32(address, signed32(np.int64(old) + 1))
    elif operation == ops.CAS or operation == ops.CAST:
        if old == operand:
            store32(address, registers[y])
        if operation == ops.CAST:
            _note_outcome(registers, w, q, lane, old == operand)
    else:
        first, second = np.int64(old), np.int64(operand)
        if kind == ops.U32:
            first &= LOW
            second &= LOW
        store32(address, signed32(_combine(operation, first, second)))


@inner
def _note_outcome(registers, w, q, lane, swapped):
    """What CAST returns: 1 or 0 in a register (pair), or a predicate."""
    registers[w] = 1 if swapped else 0
    registers[w + at.ROW] = 0
    if swapped:
        q[0] |= np.uint32(np.int64(1) << lane)


@inner
def _below(first, second):
    """Whether ``first`` is less than ``second`` as unsigned 64-bit numbers, whether compiled or not."""
    return (first ^ _SIGN) < (second ^ _SIGN)


@inner
def _wide(registers, x, y, w, q, lane, operation, kind, address):
    old = np.int64(load64(address))
    operand = (np.int64(registers[x]) & LOW) | (np.int64(registers[x + at.ROW]) << 32)
    registers[w] = signed32(old)
    registers[w + at.ROW] = old >> 32
    if kind == ops.F64:
        store64(address, bits64_of(double_of(old) + double_of(operand)))
        return
    if kind == ops.F32X2_FTZ:
        store32(address, signed32(_add_float(signed32(old), signed32(operand), True)))
        store32(address + 4, signed32(_add_float(np.int32(old >> 32), np.int32(operand >> 32), True)))
        return
    if operation == ops.CAS or operation == ops.CAST:
        if old == operand:
            store64(address, (np.int64(registers[y]) & LOW) | (np.int64(registers[y + at.ROW]) << 32))
        if operation == ops.CAST:
            _note_outcome(registers, w, q, lane, old == operand)
        return
    if operation == ops.ARRIVE_AMPERE:
        store64(address, _arrived(old))
        return
    if operation == ops.ARRIVE or operation == ops.PHASE or operation >= ops.DROP:
        _barrier_object(registers, x, q, lane, operation, address, old)
        return
    new = old
    if kind == ops.U64 and (operation == ops.MIN or operation == ops.MAX):
        below = _below(old, operand)
        new = old if below == (operation == ops.MIN) else operand
    elif operation == ops.INC:
        new = old + 1 if _below(old, operand) else np.int64(0)
    elif operation == ops.DEC:
        new = operand if old == 0 or _below(operand, old) else old - 1
    else:
        new = _combine(operation, old, operand)
    store64(address, new)


@inner
def _widest(registers, x, y, w, lane, operation, address):
    """EXCH and CAS of 16 bytes."""
    same = True
    for word in range(4):
        old = load32(address + 4 * word)
        registers[w + word * at.ROW] = old
        same &= old == registers[x + word * at.ROW]
    if operation == ops.EXCH or same:
        fresh = x if operation == ops.EXCH else y
        for word in range(4):
            store32(address + 4 * word, registers[fresh + word * at.ROW])


@inner
def _arrived(old):
    """Ampere's mbarrier after one more arrival: the low word is 2 ** 30 less the threads that a phase expects, bits
    32..62 are 2 ** 31 less those still to come, and bit 63, into which the last one carries, is the parity of the phase
    (read off the code that initialises, tests and counts it)."""
    new = old + (np.int64(1) << 32)
    if (old ^ new) >> 63 & 1:
        expected = (np.int64(0x40000000) + (old & LOW)) & 0x7FFFFFFF
        new = (new & ~(np.int64(0x7FFFFFFF) << 32)) | (expected << 32)
    return new


@inner
def _barrier_object(registers, x, q, lane, operation, address, old):
    """An mbarrier's 64-bit word, as the code around SYNCS lays it out: bits 1..20 are 2 ** 20 less the threads that a
    phase expects, bits 43..62 the same less those still to come, so that the last one to arrive carries into bit 63,
    the parity of the phase. A phase ends when nobody is still to come and no transaction is pending; those are counted
    in bits 21..41, and bit 42 says that only they are missing (where the machine keeps them is not published)."""
    if operation == ops.PHASE:
        if (old >> 63) & 1 != (np.int64(registers[x]) >> 31) & 1:
            q[0] |= np.uint32(np.int64(1) << lane)
        return
    store64(address, barrier_after(old, operation, np.int64(registers[x])))


@inner
def barrier_after(old, operation, count):
    """The word of an mbarrier that holds ``old`` after an ``operation`` other than PHASE with ``count`` threads or
    transactions."""
    pending, waits = (old >> 21) & _PENDING, (old >> 42) & 1
    expected, parity = (old >> 1) & 0xFFFFF, (old >> 63) & 1
    missing = (old >> 43) & 0xFFFFF  # 2 ** 20 less those still to come
    if operation == ops.EXPECT or operation == ops.EXPECT_ARRIVE or operation == ops.EXPECT_DROP:
        pending = (pending + count) & _PENDING
    elif operation == ops.COMPLETE:
        pending = (pending - count) & _PENDING
    if operation == ops.EXPECT_ARRIVE or operation == ops.EXPECT_DROP:
        count = np.int64(1)
    if operation == ops.DROP or operation == ops.EXPECT_DROP:
        expected = (expected + count) & 0xFFFFF
    if operation != ops.EXPECT and operation != ops.COMPLETE:
        missing += count
    if missing >> 20 or waits:
        waits = np.int64(pending != 0)
        if waits == 0:
            parity, missing = parity ^ 1, expected
    missing &= 0xFFFFF
    return old & 1 | expected << 1 | pending << 21 | waits << 42 | missing << 43 | parity << 63


@inner
def complete_transactions(address, count):
    """``count`` transactions of the mbarrier at host ``address`` are complete."""
    store64(address, barrier_after(np.int64(load64(address)), np.int64(ops.COMPLETE), count))


@inner
def _combine(operation, old, operand):
    if operation == ops.ADD:
        return old + operand
    if operation == ops.MIN:
        return min(old, operand)
    if operation == ops.MAX:
        return max(old, operand)
    if operation == ops.AND:
        return old & operand
    if operation == ops.OR:
        return old | operand
    if operation == ops.XOR:
        return old ^ operand
    if operation == ops.INC:
        return np.int64(0) if old >= operand else old + 1
    if operation == ops.DEC:
        return operand if old == 0 or old > operand else old - 1
    return operand  # EXCH


@inner
def _add_float(old, operand, flush):
    """FP32 sum of two bit patterns."""
    if flush:
        old, operand = flush32(np.int64(old)), flush32(np.int64(operand))
    total = np.int64(bits_of(np.float32(float_of(np.int32(old)) + float_of(np.int32(operand)))))
    return flush32(total) if flush else total


@inner
def _extreme_halves(old, operand, style, least):
    """Minimum or maximum of both halves; a number wins over NaN, -0 is below +0 (PTX ISA, min and max)."""
    chosen = np.int64(0)
    for part in range(2):
        first, second = (np.int64(old) >> (16 * part)) & 0xFFFF, (np.int64(operand) >> (16 * part)) & 0xFFFF
        a, b = decode_half(first, style), decode_half(second, style)
        takes_first = a < b if least else a > b
        if a == b:
            takes_first = (first >> 15 != 0) == least
        if a != a and b != b:
            first, takes_first = np.int64(0x7FFF), True
        elif b != b:
            takes_first = True
        chosen |= (first if takes_first else second) << (16 * part)
    return signed32(chosen)


@inner
def _add_halves(old, operand, style):
    """Sums of both halves, each rounded once."""
    total = np.int64(0)
    for part in range(2):
        first = np.float64(decode_half((np.int64(old) >> (16 * part)) & 0xFFFF, style))
        second = np.float64(decode_half((np.int64(operand) >> (16 * part)) & 0xFFFF, style))
        value = first + second
        total |= encode_half(value, sum_error(first, second, value), style) << (16 * part)
    return signed32(total)
