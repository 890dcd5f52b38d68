"""From 32 lane addresses to the 128-byte lines, sectors and shared-memory words that they touch.

Mental model: a warp's memory instruction names one address a lane. The coalescer turns them into a
list of distinct lines in order of first touch, each with a mask of its four 32-byte sectors; the tag
stage looks those lines up, ``tag_banks`` banks side by side. Addresses are int64 byte addresses,
naturally aligned, so that a lane stays inside one line.

``lines`` is int64[.., lines, columns].
"""

from __future__ import annotations

import numpy as np

from gpusim.model.bit_sets import population
from gpusim.model.compiled import compiled, inner
from gpusim.model.trace_tables import A_ADDRESS, A_MASK, A_STRIDE, LANES
from gpusim.state_tables import Table
from gpusim.trace.record import SCATTERED

LINE_TABLE = Table(__name__, "lines", "a line of an access", "A 128-byte line that a warp's access touches.")
ADDRESS = LINE_TABLE.column("address", "of the line")
SECTORS = LINE_TABLE.column("mask", "sectors of it that the access touches")
LANE_BYTES = LINE_TABLE.column("bytes", "moved, at most 128")
OPERATIONS = LINE_TABLE.column(
    "count",
    "passes of an atomic: of each sector, the lanes on its most contended word; FLOATING_PASSES more if it adds in floating point",
)

#: More than the passes of any access: 32 lanes on a word.
FLOATING_PASSES = 1 << 12
LINE_BYTES = 128
SECTOR_SHIFT = 5
#: Line-number bits whose parity gives the tag bank's bits. Four aligned lines always fall on four banks;
#: the higher bits are fitted to the tag-stage wavefronts of both GPUs of l1_stride.csv (mean error 3.8 %):
#: 1.2 cycles for 2 to 3 consecutive lines, 2.7 for 8 to 9, 9.2 for 32 lines a pitch of 16,392 bytes apart.
BANK_MASK_0 = 0x5555_5555_5D95
BANK_MASK_1 = 0xAAAA_AAAA_A7EA
BANK_MASK_2 = 0x3333_3333_330C


@compiled
def lane_addresses(accesses, index, scattered, mask, out):
    """Byte address of every lane of one access record, int64[32] ``out``.

    ``accesses``, ``scattered`` int64[.., columns] (see ``trace_tables``); lanes that are off get an address too, which
    is not to be used. ``mask`` is returned as read from the record, ANDed with the argument.
    """
    address = accesses[index, A_ADDRESS]
    stride = accesses[index, A_STRIDE]
    if stride <= SCATTERED:
        for lane in range(LANES):
            out[lane] = address + scattered[SCATTERED - stride, lane]
    else:
        for lane in range(LANES):
            out[lane] = address + lane * stride
    return accesses[index, A_MASK] & mask


@inner
def sectors_between(start, end):
    """Mask of the sectors of a line that bytes ``start .. end - 1`` (offsets in the line) touch; bytes
    beyond the line's end, which only a misaligned access has, are left out."""
    first = start >> SECTOR_SHIFT
    last = min(end - 1, LINE_BYTES - 1) >> SECTOR_SHIFT
    return ((1 << (last + 1)) - 1) & ~((1 << first) - 1)


@compiled
def coalesce_span(start, end, lines, row):
    """Lines of the contiguous byte range ``start .. end - 1`` into ``lines[row]``; returns how many."""
    n = 0
    line = start & ~(LINE_BYTES - 1)
    while line < end:
        low = max(start, line)
        high = min(end, line + LINE_BYTES)
        lines[row, n, ADDRESS] = line
        lines[row, n, SECTORS] = sectors_between(low - line, high - line)
        lines[row, n, LANE_BYTES] = high - low
        lines[row, n, OPERATIONS] = 1
        n += 1
        line += LINE_BYTES
    return n


@compiled
def coalesce_lanes(addresses, mask, width, lines, row, n):
    """Append the distinct lines of the lanes in ``mask``, each ``width`` bytes wide; returns the new count.

    Lines already in ``lines[row, :n]`` are extended.
    """
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        address = addresses[lane]
        line = address & ~(LINE_BYTES - 1)
        offset = address - line
        found = -1
        for i in range(n - 1, -1, -1):
            if lines[row, i, ADDRESS] == line:
                found = i
                break
        if found < 0:
            found = n
            lines[row, n, ADDRESS] = line
            lines[row, n, SECTORS] = 0
            lines[row, n, LANE_BYTES] = 0
            lines[row, n, OPERATIONS] = 1
            n += 1
        lines[row, found, SECTORS] |= sectors_between(offset, offset + width)
        moved = lines[row, found, LANE_BYTES] + width
        lines[row, found, LANE_BYTES] = min(moved, LINE_BYTES)
    return n


@compiled
def count_operations(addresses, mask, lines, row, n, floating):
    """Set OPERATIONS of each line: passes in which an atomic does one lane of each word of one 32-byte sector, and
    FLOATING_PASSES where it is ``floating`` (1).

    A lane's word is the 4-byte one at its address, however wide it is: vectors of 8 and 16 bytes go at the rate of
    words (HUT, :mod:`gpusim.model.l2_atomics`).
    """
    for i in range(n):
        lines[row, i, OPERATIONS] = 0  # the count of each sector in a byte of its own, until all are known
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        word = addresses[lane] >> 2
        same = 0
        for other in range(lane + 1):
            if (mask >> other) & 1 and addresses[other] >> 2 == word:
                same += 1
        line = addresses[lane] & ~(LINE_BYTES - 1)
        shift = (addresses[lane] - line >> SECTOR_SHIFT) << 3
        for i in range(n):
            if lines[row, i, ADDRESS] == line:
                most = lines[row, i, OPERATIONS] >> shift & 0xFF
                if most < same:
                    lines[row, i, OPERATIONS] += (same - most) << shift
    for i in range(n):
        packed = lines[row, i, OPERATIONS]
        passes = (packed & 0xFF) + (packed >> 8 & 0xFF) + (packed >> 16 & 0xFF) + (packed >> 24)
        lines[row, i, OPERATIONS] = passes + floating * FLOATING_PASSES


@inner
def _odd(number):
    """1 if an odd number of the bits of ``number`` are set."""
    return population(number) & 1


@compiled
def tag_wavefronts(lines, row, n, banks, bank_load):
    """Cycles that the tag stage needs for the ``n`` lines: the fullest bank's count.

    Bit i of a line's bank is the parity of the line number under ``BANK_MASK_i``. ``banks`` is 1, 2, 4 or
    8; ``bank_load`` is scratch, int64[>= banks].
    """
    if n <= 1 or banks == 1:
        return n
    for bank in range(banks):
        bank_load[bank] = 0
    most = 0
    for i in range(n):
        number = lines[row, i, ADDRESS] >> 7
        bank = _odd(number & BANK_MASK_0)
        if banks > 2:
            bank |= _odd(number & BANK_MASK_1) << 1
        if banks > 4:
            bank |= _odd(number & BANK_MASK_2) << 2
        bank_load[bank] += 1
        if bank_load[bank] > most:
            most = bank_load[bank]
    return most


@compiled
def bits(mask):
    """Set bits of a 32-bit mask."""
    return population(mask)


def scattered_rows(scattered: np.ndarray) -> np.ndarray:
    """The trace's uint64[s, 32] address rows as the int64 that the jitted functions compute with."""
    return scattered.view(np.int64) if scattered.dtype == np.uint64 else scattered.astype(np.int64)
