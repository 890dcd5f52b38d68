"""Straight-line arithmetic: a run of instructions that neither branch nor touch memory, for warps in lockstep.

Mental model: between two loads, stores or branches nothing can part warps in lockstep, fail or end. So the
interpreter hands such a run over as a whole, and all that is left of an instruction is here: which lanes execute,
where the operands lie, which body computes. Forms with a body for all warps (column VECTOR_BODY) read and write
registers where they are; the others go through scratch rows, once a warp.

The run is called by address, as bodies with entry points are: it is compiled apart from the interpreter.
"""

from __future__ import annotations

import numpy as np
from llvmlite import ir
from numba import config, from_dtype, types
from numba.extending import intrinsic

from gpusim.isa import warp as at
from gpusim.isa.bodies.lanes import execute_lanes
from gpusim.isa.bodies.launch import FIRST_LAUNCH, execute_launch
from gpusim.isa.bodies.masked import END_MASKED, FIRST_MASKED, execute_masked
from gpusim.isa.bodies.wide import END_WIDE, WARP_BYTES, execute_wide
from gpusim.isa.body import LANES_AT_ONCE
from gpusim.isa.dispatch import call_body, record_at
from gpusim.isa.jit import entry, inlined, inner
from gpusim.isa.lane_masks import signed32
from gpusim.isa.number_ranges import FIRST_BODY

_X, _Y, _Z, _W = at.X_ROW * at.ROW, at.Y_ROW * at.ROW, at.Z_ROW * at.ROW, at.W_ROW * at.ROW
_MASKS_OFFSET = at.STATE.fields["p0"][1]


@inner
def adjusted(registers, row, column, start, scratch, lanes):
    """Bring the lanes of a source operand at ``start`` to ``scratch``, with the sign changes that the
    instruction asks for; returns where they then begin."""
    mode = row[column + at.SOURCE_MODE]
    if mode == at.MODE_PLAIN:
        return start
    last = row[column + at.SOURCE_WORDS] - 1
    source, target = np.uint64(start), np.uint64(scratch)
    for _ in range(last):
        for lane in range(lanes):
            registers[target + lane] = registers[source + lane]
        source += np.uint64(at.ROW)
        target += np.uint64(at.ROW)
    keep, flip = row[column + at.SOURCE_KEEP], row[column + at.SOURCE_FLIP]
    for lane in range(lanes):
        registers[target + lane] = (registers[source + lane] & keep) ^ flip
    if mode == at.MODE_NEGATE:
        low = np.uint64(scratch)
        if last == 0:
            for lane in range(lanes):
                registers[low + lane] = signed32(-np.int64(registers[low + lane]))
        else:
            for lane in range(lanes):
                word = np.int64(registers[low + lane]) & at.FULL
                registers[target + lane] = signed32(-np.int64(registers[target + lane]) - (1 if word else 0))
                registers[low + lane] = signed32(-word)
    return np.int64(scratch)


@inlined
def fetch(registers, row, column, base, scratch, lanes):
    """Where the lanes of a source operand begin among the registers: in the operand's own row, or
    at ``scratch`` if sign changes have to be made first."""
    start = np.int64(row[column + at.SOURCE_OFFSET]) + (np.int64(row[column + at.SOURCE_OWN]) & base)
    return start if row[at.PLAIN] else adjusted(registers, row, column, start, scratch, lanes)


@inlined
def _step(row, column):
    """Bytes from one warp's lanes of a source operand to the next one's: none in rows that all groups share."""
    if row[column + at.SOURCE_MODE] != at.MODE_PLAIN:
        return np.int64(WARP_BYTES)
    return np.int64(row[column + at.SOURCE_OWN]) & np.int64(WARP_BYTES)


@inner
def write_back(state, registers, d, words, lost, count):
    """Copy results from scratch to the registers at ``d``, for the executing lanes (all if ``lost`` is 0)."""
    source, target = np.uint64(_W), np.uint64(d)
    for _ in range(words):
        if lost == 0:
            for lane in range(np.uint64(count * at.LANES)):
                registers[target + lane] = registers[source + lane]
        else:
            for i in range(count):
                executing = state.executing[i]
                if executing == 0:
                    continue
                begin, result = target + np.uint64(i * at.LANES), source + np.uint64(i * at.LANES)
                for lane in range(np.uint64(at.LANES)):
                    old, new = registers[begin + lane], registers[result + lane]
                    registers[begin + lane] = new if (executing >> np.int64(lane)) & 1 else old
        source += np.uint64(at.ROW)
        target += np.uint64(at.ROW)


@inner
def write_predicates(state, row, slots):
    """Write state.q to the destination predicates of the executing lanes."""
    for n in range(2):
        slot = slots + row[at.Q0 + n] * at.GROUP_WARPS
        for i in range(at.GROUP_WARPS):
            executing = state.executing[i]
            state.predicates[slot + i] = (state.predicates[slot + i] & ~executing) | (
                np.int64(state.q[i, n]) & executing
            )


@inner
def read_predicates(state, row, slots):
    """Bring the predicate operands to state.p0, p1 and q."""
    first, second, third = (
        slots + row[at.P0] * at.GROUP_WARPS,
        slots + row[at.P1] * at.GROUP_WARPS,
        slots + row[at.P2] * at.GROUP_WARPS,
    )
    flip0, flip1, flip2 = np.int64(row[at.P0_FLIP]), np.int64(row[at.P1_FLIP]), np.int64(row[at.P2_FLIP])
    for i in range(at.GROUP_WARPS):
        state.p0[i] = np.uint32((state.predicates[first + i] ^ flip0) & at.FULL)
        state.p1[i] = np.uint32((state.predicates[second + i] ^ flip1) & at.FULL)
        state.q[i, 0] = np.uint32((state.predicates[third + i] ^ flip2) & at.FULL)


@inlined
def lost_lanes(state):
    """Not 0 if a lane of the span does not execute."""
    lost = np.int64(0)
    for i in range(at.GROUP_WARPS):
        lost |= state.span[i] & ~state.executing[i]
    return lost


@inlined
def run_arithmetic(state, matrix, registers, first, stop, base, slots, first_warp, count):
    """Execute the arithmetic instructions ``first`` to ``stop - 1`` for the lanes state.active; afterwards
    state.executing is used up. state.clock: instructions of the launch before ``first``.

    ``base``: where the first warp's lanes of a group's own rows begin, ``slots``: of its predicates; ``first_warp``
    its number in the block; ``count``: warps from the first to the last in lockstep.
    """
    host = state.registers_host
    predicates, active, executing = state.predicates, state.active, state.executing
    lanes = np.uint64(count * at.LANES)
    whole, active_lost = False, np.int64(0)  # state.executing is state.active; lanes of the span that are not
    clock = state.clock
    for pc in range(np.uint64(first), np.uint64(stop)):
        row = matrix[pc]
        guard, flip = np.int64(row[at.GUARD]), np.int64(row[at.GUARD_FLIP])
        always = flip == 0 and (guard == at.TRUE_PREDICATE or guard == at.TRUE_UNIFORM_PREDICATE)
        if always and whole:
            lost = active_lost
        else:
            some, lost = np.int64(0), np.int64(0)
            place = np.uint64(slots + guard * at.GROUP_WARPS)  # unsigned: no index counts from the end
            for i in range(np.uint64(at.GROUP_WARPS)):
                mask = active[i] & (predicates[place + i] ^ flip)
                executing[i] = mask
                some |= mask
                lost |= state.span[i] & ~mask
            whole, active_lost = always, lost
            if some == 0:
                continue
        if row[at.SCOPE] == at.UNIFORM and lost != 0:
            for i in range(at.GROUP_WARPS):
                executing[i] = at.FULL if executing[i] else 0
            lost, whole = lost_lanes(state), False
        x = fetch(registers, row, at.A, base, _X, lanes)
        y = fetch(registers, row, at.B, base, _Y, lanes)
        z = fetch(registers, row, at.C, base, _Z, lanes)
        d = np.int64(row[at.D_OFFSET]) + (np.int64(row[at.D_OWN]) & base)
        f0, f1, f2, f3 = row[at.F0], row[at.F1], row[at.F2], row[at.F3]
        number = np.int64(row[at.VECTOR_BODY])
        if number and number < LANES_AT_ONCE:
            sx, sy, sz = _step(row, at.A), _step(row, at.B), _step(row, at.C)
            if number < END_WIDE:
                execute_wide(
                    number, f0, f1, f2, host + 4 * x, host + 4 * y, host + 4 * z, host + 4 * d, sx, sy, sz, executing,
                    lost, count,
                )  # fmt: skip
            else:
                execute_masked(
                    number, row, predicates, slots, f0, f1, f2, f3, host + 4 * x, host + 4 * y, host + 4 * z,
                    host + 4 * d, sx, sy, sz, executing, lost, count,
                )  # fmt: skip
            continue
        if number >= FIRST_LAUNCH:
            execute_launch(number, np.int64(f0), state, host + 4 * d, executing, lost, first_warp, count)
            continue
        op, w = row[at.OP], np.int64(_W)
        if number == LANES_AT_ONCE:
            if lost == 0 and row[at.APART]:
                w = d
        else:
            read_predicates(state, row, slots)
        if op >= FIRST_BODY:
            call_body(
                state.entries[op - FIRST_BODY], f0, f1, f2, f3, host + 4 * x, host + 4 * y, host + 4 * z, host + 4 * w,
                state.state_host + _MASKS_OFFSET, count,
            )  # fmt: skip
        else:
            state.clock = clock + (np.int64(pc) - first) + 1
            for i in range(count):
                if executing[i]:
                    execute_lanes(
                        state, registers, first_warp + i, op, f0, f1, x + i * at.LANES, y + i * at.LANES,
                        z + i * at.LANES, w + i * at.LANES, state.q[i], np.int64(state.p0[i]), executing[i], active[i],
                    )  # fmt: skip
                    if row[at.SCOPE] == at.WARP_WIDE:
                        executing[i] = at.FULL
            if row[at.SCOPE] == at.WARP_WIDE and lost != 0:
                lost, whole = lost_lanes(state), False
        if w != d:
            write_back(state, registers, d, row[at.D_WORDS], lost, count)
        if row[at.PREDICATES_OUT]:
            write_predicates(state, row, slots)


assert END_WIDE <= FIRST_MASKED and END_MASKED <= LANES_AT_ONCE < FIRST_LAUNCH

if config.DISABLE_JIT:
    execute_arithmetic = run_arithmetic

    def arithmetic_entry_address() -> int:
        """No entry point: the interpreter calls the function itself."""
        return 0

else:
    _state_at = record_at(from_dtype(at.STATE))

    # Arrays of a nominal size: their bounds are not looked at.
    _matrix_at = record_at(from_dtype(np.dtype([("rows", "<i4", (1 << 20, at.COLUMNS))])))
    _file_at = record_at(from_dtype(np.dtype([("words", "<i4", (1 << 26,))])))

    def _run(state_host, first, stop, base, slots, first_warp, count):
        state = _state_at(state_host)
        matrix, registers = _matrix_at(state.matrix_host).rows, _file_at(state.registers_host).words
        run_arithmetic(state, matrix, registers, first, stop, base, slots, first_warp, count)

    _ENTRY = types.void(*[types.int64] * 7)

    def arithmetic_entry_address() -> int:
        """Host address of the entry point, compiled when it is first asked for."""
        return entry(_run, _ENTRY).address

    @intrinsic
    def _call(typing_context, address, state_host, first, stop, base, slots, first_warp, count):
        def generate(context, builder, signature, arguments):
            kind = ir.FunctionType(ir.VoidType(), [ir.IntType(64)] * 7)
            builder.call(builder.inttoptr(arguments[0], ir.PointerType(kind)), arguments[1:])
            return context.get_dummy_value()

        return types.void(*[types.int64] * 8), generate

    @inlined
    def execute_arithmetic(state, matrix, registers, first, stop, base, slots, first_warp, count):
        """As :func:`run_arithmetic`, by address."""
        _call(state.arithmetic_entry, state.state_host, first, stop, base, slots, first_warp, count)
