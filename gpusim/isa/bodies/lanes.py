"""Bodies of the instructions that look across lanes: shuffle, vote, match, reduce, special registers.

Mental model: as for arithmetic, one call executes one instruction; unlike arithmetic, lanes that do not
execute (``executing`` bit 0) must not be looked at, or are seen as the PTX ISA says. Operands are places in
the register file: where the first of a warp's 32 lanes lies; further words follow ROW apart. Semantics: PTX ISA 8,
shfl.sync, vote.sync, match.sync, redux.sync; register names as in its special-register chapter.
"""

from __future__ import annotations

import numpy as np

from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner
from gpusim.isa.lane_masks import first_lane, first_predicate, signed32
from gpusim.trace.layout import RANK_SHIFT


@inner
def execute_lanes(state, registers, warp, op, f0, f1, x, y, z, w, q, vote_in, executing, active):
    """Execute lane-crossing body ``op`` for one warp: reads registers at x, y, z; writes at w, and q."""
    if op == ops.SPECIAL:
        _special(state, registers, warp, f0, f1, w, executing, active)
    elif op == ops.SHUFFLE:
        _shuffle(registers, f0, x, y, z, w, q, executing)
    elif op == ops.VOTE:
        ballot = vote_in & executing
        if f0 == ops.VOTE_ANY:
            holds = ballot != 0
        elif f0 == ops.VOTE_ALL:
            holds = ballot == executing
        else:
            holds = ballot == executing or ballot == 0
        q[0] = at.FULL if holds else 0
        for lane in range(at.LANES):
            registers[w + lane] = signed32(ballot)
    elif op == ops.MATCH:
        _match(registers, f0, f1, x, w, q, executing)
    elif op == ops.REDUCE:
        _reduce(registers, f0, f1, x, w, executing)
    elif op == ops.FIRST_LANE:
        value = registers[x + (first_lane(executing) & 31)]
        differ = np.int64(0)
        for lane in range(at.LANES):
            if registers[x + lane] != value:
                differ |= np.int64(1) << lane
        for lane in range(at.LANES):
            registers[w + lane] = value
        kept = vote_in if f0 else vote_in & ~executing
        q[0] = np.uint32((differ & executing | kept) & at.FULL)
    elif op == ops.PACK_PREDICATES:
        _pack(state, registers, warp, f0, f1, x, y, w)
    elif op == ops.UNPACK_PREDICATES:
        _unpack(state, registers, warp, f0, f1, x, y, executing)
    elif op == ops.BARRIER_RESULT:
        for lane in range(at.LANES):
            registers[w + lane] = state.result[warp]
        q[0] = at.FULL if state.result[warp] != 0 else 0
    elif op == ops.ELECT:
        chosen = first_lane(executing) & 31
        q[0] = np.uint32(np.int64(1) << chosen | vote_in & ~executing & at.FULL)
        for lane in range(at.LANES):
            registers[w + lane] = chosen
    elif op == ops.CODE_ADDRESS:
        for lane in range(at.LANES):
            registers[w + lane] = f0
            registers[w + at.ROW + lane] = 0
    elif op == ops.QUERY_SPACE:
        holds = np.int64(0)
        for lane in range(at.LANES):
            high = np.int64(registers[x + at.ROW + lane])
            space = ops.QUERY_GLOBAL
            if high == state.shared_window >> 32:
                space = ops.QUERY_CLUSTER
                rank = (np.int64(registers[x + lane]) >> RANK_SHIFT) & 0xFF
                if f0 == ops.QUERY_SHARED and rank == state.cluster_rank:
                    space = ops.QUERY_SHARED
            elif high == state.local_window >> 32:
                space = ops.QUERY_LOCAL
            registers[w + lane] = 1 if space == f0 else 0
            holds |= np.int64(1 if space == f0 else 0) << lane
        q[0] = np.uint32(holds)


@inner
def _clock(state, warp, flags):
    """What the clock says to the warp, which may begin to wait now (``flags``: F1 of the instruction)."""
    value = state.clock_shown if state.clock_shown else state.clock + state.clock_ahead[warp]
    state.clock_read[warp] = value
    for slot in range(at.CLOCK_SLOTS):
        if (flags >> (ops.CLOCK_SLOT_SHIFT + slot)) & 1:
            state.clock_from[warp, slot] = value
    return value


@inner
def _special(state, registers, warp, number, flags, w, executing, active):
    value = np.int64(0)
    if ops.SR_TID_X <= number <= ops.SR_TID_Z:
        for lane in range(at.LANES):
            registers[w + lane] = state.thread[warp, number - ops.SR_TID_X, lane]
        return
    if number == ops.SR_LANE or ops.SR_EQ_MASK <= number <= ops.SR_GE_MASK or number == ops.SR_TID_PACKED:
        for lane in range(at.LANES):
            below = (np.int64(1) << lane) - 1
            if number == ops.SR_LANE:
                value = np.int64(lane)
            elif number == ops.SR_EQ_MASK:
                value = np.int64(1) << lane
            elif number == ops.SR_LT_MASK:
                value = below
            elif number == ops.SR_LE_MASK:
                value = below * 2 + 1
            elif number == ops.SR_GT_MASK:
                value = at.FULL & ~(below * 2 + 1)
            elif number == ops.SR_GE_MASK:
                value = at.FULL & ~below
            else:
                value = (
                    np.int64(state.thread[warp, 0, lane])
                    | np.int64(state.thread[warp, 1, lane]) << 16
                    | np.int64(state.thread[warp, 2, lane]) << 26
                )
            registers[w + lane] = signed32(value)
        return
    if ops.SR_CTAID_X <= number <= ops.SR_CTAID_Z:
        value = state.block_index[number - ops.SR_CTAID_X]
    elif ops.SR_NTID_X <= number <= ops.SR_NTID_Z:
        value = state.block_dim[number - ops.SR_NTID_X]
    elif ops.SR_NCTAID_X <= number <= ops.SR_NCTAID_Z:
        value = state.grid_dim[number - ops.SR_NCTAID_X]
    elif number == ops.SR_WARP:
        value = np.int64(warp)
    elif number == ops.SR_CLOCK or number == ops.SR_CLOCK_64:
        value = _clock(state, warp, flags)
    elif number == ops.SR_CLOCK_HIGH:
        value = _clock(state, warp, flags) >> 32
    elif number == ops.SR_ACTIVE_MASK:
        value = active
    elif number == ops.SR_SM:
        value = state.linear % max(1, state.sm_count)
    elif number == ops.SR_SM_COUNT:
        value = state.sm_count
    elif number == ops.SR_SHARED_WINDOW_HIGH:
        value = state.shared_window >> 32
    elif number == ops.SR_SHARED_BYTES:
        value = state.shared_bytes
    elif number == ops.SR_WARP_COUNT:
        value = state.warps
    elif number == ops.SR_SM_WARPS:
        value = state.sm_warps << 8
    elif number == ops.SR_CLUSTER_RANK:
        value = state.cluster_rank
    elif number == ops.SR_ONE:
        value = np.int64(1)
    for lane in range(at.LANES):
        registers[w + lane] = signed32(value)
        registers[w + at.ROW + lane] = signed32(value >> 32) if number == ops.SR_CLOCK_64 else 0


@inner
def _shuffle(registers, mode, x, y, z, w, q, executing):
    """Lane and clamp as PTX's shfl: clamp bits 0..4 bound the lane, bits 8..12 split the warp."""
    inside = np.int64(0)
    for lane in range(at.LANES):
        step = np.int64(registers[y + lane]) & 31
        clamp = np.int64(registers[z + lane])
        bound, segment = clamp & 31, (clamp >> 8) & 31
        highest = (lane & segment) | (bound & ~segment)
        lowest = lane & segment
        if mode == ops.SHUFFLE_UP:
            source = lane - step
            valid = source >= highest
        elif mode == ops.SHUFFLE_DOWN:
            source = lane + step
            valid = source <= highest
        elif mode == ops.SHUFFLE_BUTTERFLY:
            source = lane ^ step
            valid = source <= highest
        else:
            source = lowest | (step & ~segment)
            valid = source <= highest
        if not valid:
            source = np.int64(lane)
        # A lane that does not take part has no defined value: its own register is what hardware shows.
        if valid:
            inside |= np.int64(1) << lane
        registers[w + lane] = registers[x + (source & 31)]
    q[0] = np.uint32(inside)


@inner
def _match(registers, mode, words, x, w, q, executing):
    holds = np.int64(1)
    leader = first_lane(executing) & 31
    for lane in range(at.LANES):
        equal = np.int64(0)
        for other in range(at.LANES):
            same = registers[x + lane] == registers[x + other] and (
                words == 1 or registers[x + at.ROW + lane] == registers[x + at.ROW + other]
            )
            equal |= np.int64(1 if same else 0) << other
        equal &= executing
        if lane == leader and equal != executing:
            holds = np.int64(0)
        registers[w + lane] = signed32(equal)
    if mode == ops.MATCH_ALL:
        for lane in range(at.LANES):
            registers[w + lane] = signed32(executing) if holds else 0
    q[0] = at.FULL if holds else 0


@inner
def _reduce(registers, operation, how, x, w, executing):
    total, started = np.int64(0), False
    if how & ops.REDUCE_FLOAT:
        total = _reduce_floats(registers, operation, how, x, executing)
        for lane in range(at.LANES):
            registers[w + lane] = signed32(total)
        return
    signed = how & ops.REDUCE_SIGNED
    for lane in range(at.LANES):
        if not (executing >> lane) & 1:
            continue
        value = np.int64(registers[x + lane])
        if not signed:
            value &= at.FULL
        if not started:
            total, started = value, True
        elif operation == ops.ADD:
            total += value
        elif operation == ops.MIN:
            total = min(total, value)
        elif operation == ops.MAX:
            total = max(total, value)
        elif operation == ops.AND:
            total &= value
        elif operation == ops.OR:
            total |= value
        else:
            total ^= value
    for lane in range(at.LANES):
        registers[w + lane] = signed32(total)


@inner
def _reduce_floats(registers, operation, how, x, executing):
    """Least or greatest FP32 number (-0 below +0); NaNs do not count, unless there is nothing else or REDUCE_NAN says
    so."""
    best, found, spoilt = np.int64(0), False, False
    for lane in range(at.LANES):
        if not (executing >> lane) & 1:
            continue
        code = np.int64(registers[x + lane]) & (0x7FFFFFFF if how & ops.REDUCE_ABSOLUTE else at.FULL)
        if code & 0x7FFFFFFF > 0x7F800000:
            spoilt = True
            continue
        key = -(code & 0x7FFFFFFF) - 1 if code >> 31 else code
        if not found or (key < best if operation == ops.MIN else key > best):
            best, found = key, True
    if not found or (spoilt and how & ops.REDUCE_NAN):
        return np.int64(0x7FFFFFFF)
    return (-best - 1) | 0x80000000 if best < 0 else best


@inner
def _pack(state, registers, warp, byte, uniform, x, y, w):
    first = first_predicate(warp) + (at.UNIFORM_PREDICATES * at.GROUP_WARPS if uniform else 0)
    for lane in range(at.LANES):
        bits = np.int64(0)
        for i in range(7):
            bits |= ((state.predicates[first + i * at.GROUP_WARPS] >> lane) & 1) << i
        mask = np.int64(registers[y + lane]) & 0x7F
        shift = 8 * byte
        value = np.int64(registers[x + lane]) & ~(mask << shift)
        registers[w + lane] = signed32(value | (bits & mask) << shift)


@inner
def _unpack(state, registers, warp, byte, uniform, x, y, executing):
    first = first_predicate(warp) + (at.UNIFORM_PREDICATES * at.GROUP_WARPS if uniform else 0)
    for i in range(7):
        bits, chosen = np.int64(0), np.int64(0)
        for lane in range(at.LANES):
            bits |= ((np.int64(registers[x + lane]) >> (8 * byte + i)) & 1) << lane
            chosen |= ((np.int64(registers[y + lane]) >> i) & 1) << lane
        chosen &= executing
        state.predicates[first + i * at.GROUP_WARPS] = (state.predicates[first + i * at.GROUP_WARPS] & ~chosen) | (
            bits & chosen
        )
