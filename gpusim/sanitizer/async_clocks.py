"""Vector clocks of the asynchronous check: who knows of what, and what is found if nobody does.

Mental model: :func:`release` gives what an agent knows to a row (a barrier, an mbarrier's phase), :func:`acquire` takes
it from there. An agent that waits at a barrier takes it with its next event, when all have come (:func:`settle`).
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.jit import apart, inner
from gpusim.sanitizer.async_tables import (
    AGENTS,
    BLOCK,
    CODE,
    CODE_BITS,
    CODE_MASK,
    EXTRA,
    FENCED,
    OTHER_BLOCK,
    OTHER_CODE,
    OTHER_WARP,
    PLACE,
    TIMES,
    VALUE,
    WAITING,
    WARP,
    WARPS,
    WHAT,
)  # fmt: skip


@inner
def acquire(m, s, agent, row):
    """``agent`` knows what ``row`` has gathered."""
    mine, there = m.clock[s, agent], m.clock[s, row]
    for i in range(len(mine)):
        mine[i] = max(mine[i], there[i])


@inner
def step(m, s, agent):
    """What ``agent`` does from now on is told apart from what it has done."""
    m.clock[s, agent, agent] += 1


@inner
def release(m, s, agent, row):
    """``row`` gathers what ``agent`` knows and has done."""
    mine, there = m.clock[s, agent], m.clock[s, row]
    for i in range(len(mine)):
        there[i] = max(mine[i], there[i])
    step(m, s, agent)


@inner
def settle(m, s, agent):
    """The barrier at which ``agent`` waits, if it does, has let it go."""
    row = m.agents[s, agent, WAITING]
    if row:
        m.agents[s, agent, WAITING] = 0
        acquire(m, s, agent, row - 1)


@inner
def turn_over(m, s, row, turn):
    """A barrier whose clock is ``row`` begins its turn number ``turn``, if it has not: who waits for the last one goes
    on."""
    if m.turns[s, row] == turn:
        return
    for agent in range(m.facts[AGENTS]):
        if m.agents[s, agent, WAITING] == row + 1:
            settle(m, s, agent)
    m.clock[s, row, :] = 0
    m.turns[s, row] = turn


@inner
def fence(m, s, agent):
    """What ``agent`` knows to be stored is visible to the asynchronous proxy for whoever learns of it from here on."""
    mine, agents = m.clock[s, agent], m.facts[AGENTS]
    for i in range(agents):
        mine[m.facts[FENCED] + i] = max(mine[m.facts[FENCED] + i], mine[i])
    step(m, s, agent)


@inner
def mark(m, s, agent, code):
    """A step of ``agent`` now, at instruction ``code``."""
    return np.int64(m.clock[s, agent, agent]) << CODE_BITS | np.int64(code)


@inner
def block_of(m, s, agent):
    """Number in the grid of the block that ``agent`` belongs to."""
    f = m.facts
    cluster, rank = m.clusters[s], agent // f[WARPS]
    x, y = f[7] // f[10], f[8] // f[11]  # clusters along x and y
    cx, cy, cz = cluster % x, cluster // x % y, cluster // (x * y)
    bx = cx * f[10] + rank % f[10]
    by = cy * f[11] + rank // f[10] % f[11]
    bz = cz * f[12] + rank // (f[10] * f[11])
    return bx + f[7] * (by + f[8] * bz)


@apart
def tell(m, s, what, agent, code, other, other_code, place, value, extra):
    """Count a finding: ``agent`` at instruction ``code``, and the other party (-1: there is none)."""
    found = m.found
    for i in range(m.counts[0]):
        if found[i, WHAT] == what and found[i, CODE] == code and found[i, OTHER_CODE] == other_code:
            found[i, TIMES] += 1
            return
    if m.counts[0] == len(found):
        m.counts[1] += 1
        return
    i = m.counts[0]
    m.counts[0] = i + 1
    found[i, WHAT], found[i, CODE], found[i, OTHER_CODE] = what, code, other_code
    found[i, BLOCK], found[i, WARP] = block_of(m, s, agent), agent % m.facts[WARPS]
    found[i, OTHER_BLOCK] = found[i, OTHER_WARP] = -1
    if other >= 0:
        found[i, OTHER_BLOCK], found[i, OTHER_WARP] = block_of(m, s, other), other % m.facts[WARPS]
    found[i, PLACE], found[i, VALUE], found[i, EXTRA], found[i, TIMES] = place, value, extra, 1


@inner
def code_in(marked):
    """The instruction of a step."""
    return marked & CODE_MASK
