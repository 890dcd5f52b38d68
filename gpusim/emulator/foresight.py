"""What rounds of a polling loop would compute that nobody has made yet, as far as no memory tells.

Mental model: the instructions on the way round a loop are known from its code. Their arithmetic is executed on the
warp's registers, the rest is left out; afterwards the registers are what they were. So it is known for how long a
back-off would sleep in each of its rounds, however often the emulator went round: the simulated warp may go round more
often, or less.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.runs import execute_arithmetic
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import inner, seldom
from gpusim.trace.layout import MAX_SLEEP_NS

#: Runs of all rounds that are foreseen, so that the log, in which each of them stands, has room for them.
_MOST_RUNS = 64


@inner
def place_of(state, warp):
    """Where the lanes of the warp's own rows begin among the registers, and its predicates among theirs."""
    group = warp // at.GROUP_WARPS
    place = warp - group * at.GROUP_WARPS
    base = state.own_base + group * state.own_stride + place * at.LANES
    return np.int64(base), np.int64(group * (at.PREDICATE_SLOTS * at.GROUP_WARPS) + place)


@inner
def run_path(state, matrix, registers, polls, decision, warp, mask):
    """Execute the arithmetic on the way from ``decision`` to the next for the lanes ``mask``, which alone are active;
    state.executing is used up then. Returns for how many ns a NANOSLEEP by a register on it sleeps: as long as the lane
    that asks for most."""
    base, slots = place_of(state, warp)
    asked = np.int64(0)
    for i in range(polls[decision, at.POLL_COUNT]):
        pc = np.int64(polls[decision, at.POLL_PATH + 2 * i])
        end = pc + np.int64(polls[decision, at.POLL_PATH + 2 * i + 1])
        while pc < end:
            row = matrix[pc]
            if row[at.ARITHMETIC_RUN]:
                stop = min(pc + np.int64(row[at.ARITHMETIC_RUN]), end)
                execute_arithmetic(state, matrix, registers, pc, stop, base, slots, warp, np.int64(1))
                pc = stop
                continue
            if row[at.RECORDS] and row[at.OP] == ops.GIVE_WAY:
                x = np.int64(row[at.A + at.SOURCE_OFFSET]) + (np.int64(row[at.A + at.SOURCE_OWN]) & base)
                for lane in range(at.LANES):
                    if (mask >> lane) & 1:
                        asked = max(asked, np.int64(registers[x + lane]) & np.int64(at.FULL))
            pc += 1
    return min(asked, np.int64(MAX_SLEEP_NS))


@inner
def _keep(state, matrix, registers, polls, decision, warp, kept):
    """Keep the registers that the way from ``decision`` on writes behind the ``kept`` ones. Returns how many there are;
    -1: too many."""
    base, _ = place_of(state, warp)
    for i in range(polls[decision, at.POLL_COUNT]):
        first = np.int64(polls[decision, at.POLL_PATH + 2 * i])
        for pc in range(first, first + np.int64(polls[decision, at.POLL_PATH + 2 * i + 1])):
            row = matrix[pc]
            if row[at.ARITHMETIC_RUN] == 0 or row[at.D_OWN] == 0:
                continue
            for word in range(row[at.D_WORDS]):
                place, known = np.int64(row[at.D_OFFSET]) + base + word * at.ROW, False
                for other in range(kept):
                    known |= state.kept_at[other] == place
                if known:
                    continue
                if kept == at.KEPT_ROWS:
                    return np.int64(-1)
                state.kept_at[kept] = place
                for lane in range(at.LANES):
                    state.kept[kept, lane] = registers[place + lane]
                kept += 1
    return kept


@inner
def own_decision(polls, decision):
    """The decision inside the loop to which ``decision`` belongs, which may stand before it."""
    for other in range(polls.shape[0]):
        same = polls[other, at.POLL_LOOP] == polls[decision, at.POLL_LOOP]
        inside = polls[other, at.POLL_AT] >= polls[other, at.POLL_HEAD]
        if same and inside and polls[other, at.POLL_KIND] == at.POLL_EXACT:
            return np.int64(other)
    return np.int64(decision)


@seldom
def foresee_sleeps(state, matrix, registers, polls, decision, warp, mask):
    """The warp's lanes ``mask``, which alone are active, come to the ``decision`` of a polling loop: note for how long
    its rounds would sleep (State.poll_sleeps), until one sleeps as long as the one before."""
    state.poll_sleeps_known[warp] = 0
    if polls[decision, at.POLL_GROWS] == 0:
        return
    own = own_decision(polls, decision)
    kept = _keep(state, matrix, registers, polls, decision, warp, np.int64(0))
    if kept >= 0 and own != decision:
        kept = _keep(state, matrix, registers, polls, own, warp, kept)
    if kept < 0:
        return
    _, slots = place_of(state, warp)
    for slot in range(at.PREDICATE_SLOTS):
        state.kept_predicates[slot] = state.predicates[slots + slot * at.GROUP_WARPS]
    executing, clock = state.executing[0], state.clock
    most = min(np.int64(at.POLL_SLEEPS), _MOST_RUNS // max(1, np.int64(polls[own, at.POLL_COUNT])))
    known, before = np.int64(0), np.int64(-1)
    while known < most:
        asked = np.int64(run_path(state, matrix, registers, polls, own if known else np.int64(decision), warp, mask))
        if asked == before:
            break
        state.poll_sleeps[warp, known] = before = asked
        known += 1
    state.poll_sleeps_known[warp], state.executing[0], state.clock = known, executing, clock
    for slot in range(at.PREDICATE_SLOTS):
        state.predicates[slots + slot * at.GROUP_WARPS] = state.kept_predicates[slot]
    for row in range(kept):
        for lane in range(at.LANES):
            registers[state.kept_at[row] + lane] = state.kept[row, lane]
