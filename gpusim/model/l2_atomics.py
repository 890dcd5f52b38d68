"""Where the L2 does atomics, and how long they take there.

Mental model: an atomic unit takes the requests of its lines one after the other, and a request's 32-byte sectors one
after the other. A pass does one lane of each word of a sector. A request of one sector takes ``atomic_interval_ns`` a
pass; of several, the first pass of each takes ``atomic_sector_ns``, and lanes that meet on a word the interval for all
but the first. 1 KiB shares two units, each of four lines: lines whose addresses differ by 512 bytes alone have one.

What says so: threads that add to N words D bytes apart, each always to the same one.

- HUT, H100 (Gop/s of ``red.u32``, 1,056 warps; the unit page of ``gmem_atomic`` of the hardware-unit-test probes): 1.36
  on one word, 5.4 on four of a sector, so words of a sector go in one pass; 12.6 on the 32 of a line, 27.2 on 256,
  which is twice one line for eight, 165 on 2,048, thirteen times one for 64; 2.3 on four words 128 bytes apart, which
  is more than one unit gives and less than four. On sm_120: 2.42, 9.70, 15.5, 31.1, 240 (15.5 lines' worth).
- QRC, B300 (ademeure/QuickRunCUDA, ULTRA_DENSE_B300_PIPE_CATALOG.md section 34.6, ``REDG``): 3.15 on two words, 6.3 on
  four, 15.8 on eight and on 32, 31 on 256, 122 on 1,024: twice one line for eight, 7.7 times one for 32.
- One lane a warp on one word, and lines of four sectors each (``patterns_rtx2080ti``, ``patterns_titan_v``,
  ``patterns_rtx4070``): 0.79, 0.79 and 0.59 ns a request, and 4.0, 4.0 and 3.05: five times as much, as on sm_120 (HUT:
  0.413 and 2.06). Passes of two words, or of four, on B300 and on sm_120 are the interval too: 5.08 ns for eight, 3.30
  for eight. That two or three sectors take their part of what four do is a guess.

A float, two halves and vectors of four floats take what an integer does where nothing contends (HUT). On one word an
add waits for the one before, whose sum it needs: three cycles (``atomic_float_cycles``), where an integer's sum is
there in one. The unit knows the line that it did last: whether it is the word too is not followed, which makes a
difference to single lanes on other words of the same line.
"""

from __future__ import annotations

from gpusim.model.address_hash import UNIT_LINES, local_slice_of
from gpusim.model.coalescer import FLOATING_PASSES
from gpusim.model.compiled import inner
from gpusim.model.l2_state import AMOUNT, HOME, SECTORS, UNIT_FREE, UNIT_LINE, L2Rates, L2State, field, line_of
from gpusim.model.sector_mask import popcount


@inner
def take_turns(p: L2Rates, s: L2State, time: int, node: int) -> int:
    """The arithmetic of an atomic or reduction at its line's unit, not before tick ``time``; returns its end."""
    unit = field(s, node, HOME)
    if line_of(s, node) & UNIT_LINES:  # the unit of the line 512 bytes before
        local = local_slice_of(line_of(s, node) ^ UNIT_LINES, p.layout)
        unit += local - unit % p.slices_per_partition
    sectors, passes = popcount(field(s, node, SECTORS)), field(s, node, AMOUNT)
    first = p.atomic if sectors == 1 else sectors * p.atomic_sector
    each = p.atomic
    if passes >= FLOATING_PASSES:
        passes -= FLOATING_PASSES
        each = max(each, p.atomic_float)
        if s.servers[unit, UNIT_LINE] == line_of(s, node) + 1:
            first = max(first, each)
    end = max(time, s.servers[unit, UNIT_FREE]) + first + max(0, passes - sectors) * each
    s.servers[unit, UNIT_FREE] = end
    s.servers[unit, UNIT_LINE] = line_of(s, node) + 1
    return end
