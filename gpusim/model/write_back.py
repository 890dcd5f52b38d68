"""Accumulators of warp groups' products (wgmma) on their way back into the register file, beside the writes of other
instructions.

Mental model: a sub-core writes one register of a warp a cycle for its tensor core. A product writes its accumulators
while it multiplies, and has cycles to spare where it multiplies longer than it writes. A register that another
instruction writes meanwhile takes ``register_file.product_write_cycles`` of that: first of what is to spare, then the
products are late by it. Other instructions never wait.

Lateness is kept as a clock of the tensor core that stands still for it: it is ``TENSOR_LATE`` behind, all times of
products are times of that clock, and a warp that waits for one looks again when it should be there. Source: probes on
an H800 (cicuvc/nvidia-sass-document, register_bandwidth.md), where beside a write each 2 to 2.5 cycles products take
1.9, 3.9 and 15.7 cycles longer with 4, 8 and 32 accumulators a thread, whether they add or overwrite;
``tests/timing/test_write_back.py`` has them.
"""

from __future__ import annotations

from gpusim.model import program as op
from gpusim.model.bit_sets import lowest
from gpusim.model.compiled import inlined, inner
from gpusim.model.messages import NEVER, TICKS_PER_CYCLE
from gpusim.model.residency import PC, PRODUCTS_LATE, earliest_issue
from gpusim.model.scheduler import ASLEEP
from gpusim.model.sm_tables import (
    TENSOR_FREE_TICK,
    TENSOR_LATE,
    TENSOR_PRODUCT_TICKS,
    TENSOR_SPARE,
    TENSOR_SPARE_MOST,
    TENSOR_SPARE_TICK,
)
from gpusim.trace.record import Flag

FLAGS_OF_PRODUCTS = int(Flag.PRODUCT) | int(Flag.PRODUCT_WAIT)


@inner
def begin_product(subs, sub, tick, interval_ticks, spare_ticks):
    """The tensor core, which is free at ``tick`` of its own clock, is given a product with so much to spare. Returns
    when it will be free behind it."""
    if subs[sub, TENSOR_FREE_TICK] <= tick:
        subs[sub, TENSOR_SPARE] = spare_ticks
        subs[sub, TENSOR_SPARE_TICK] = tick
    subs[sub, TENSOR_SPARE_MOST] = spare_ticks
    subs[sub, TENSOR_PRODUCT_TICKS] = interval_ticks
    return max(tick, subs[sub, TENSOR_FREE_TICK]) + interval_ticks


@inlined
def write_beside(subs, sub, taken_ticks, now):
    """An instruction that writes ``taken_ticks`` of the write-back issues in cycle ``now``."""
    tick = now * TICKS_PER_CYCLE - subs[sub, TENSOR_LATE]
    interval = subs[sub, TENSOR_PRODUCT_TICKS]
    if interval and subs[sub, TENSOR_FREE_TICK] > tick:
        most = subs[sub, TENSOR_SPARE_MOST]
        spare = 0
        if most:
            gained = (tick - subs[sub, TENSOR_SPARE_TICK]) * most // interval
            spare = min(most, subs[sub, TENSOR_SPARE] + gained)
            subs[sub, TENSOR_SPARE_TICK] = tick
            subs[sub, TENSOR_SPARE] = max(0, spare - taken_ticks)
        subs[sub, TENSOR_LATE] += max(0, taken_ticks - spare)


@inner
def look_again(resident, program, sub, first, late_cycles, now):
    """Warps of the sub-core that are due and wait for products: those whose products are late sleep on."""
    warps, known = resident.warps, resident.ready
    rest = resident.sets[sub, ASLEEP]
    while rest:
        warp = first + lowest(rest)
        rest &= rest - 1
        if known[warp] > now or not program[warps[warp, PC], op.FLAGS] & FLAGS_OF_PRODUCTS:
            continue
        if warps[warp, PRODUCTS_LATE] == late_cycles:
            continue
        warps[warp, PRODUCTS_LATE] = late_cycles
        ready = earliest_issue(warps, resident.board, program, warp)
        if ready != NEVER and ready > now:
            known[warp] = ready
