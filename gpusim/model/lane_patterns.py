"""How the lanes of scattered accesses lie: few patterns, of which many accesses are made.

Mental model: a tile's rows, a transposed matrix, a broadcast to half a warp: the lanes' addresses are no affine
sequence, but their distances from the first lane are the same in each iteration and each block. So an access is a base
and a *pattern*, each pattern is kept once, and what only depends on it, the passes over the banks, is worked out once.
"""

from __future__ import annotations

from gpusim.model.bit_sets import lowest
from gpusim.model.compiled import compiled, inner
from gpusim.model.trace_tables import A_ADDRESS, A_MASK, A_STRIDE, FOLLOWING, LANES, PATTERN
from gpusim.state_tables import Table
from gpusim.trace.record import SCATTERED

MEMO_TABLE = Table(__name__, "memo", "a pattern, under a mask and a width", "Passes over the banks that it takes.")
M_PATTERN = MEMO_TABLE.column("index", "the pattern: PATTERN, or an affine one's bytes from lane to lane")
M_REST = MEMO_TABLE.column("packed", "mask, width, the base's place in its word and whether pairs merge, see rest_of()")
M_CYCLES = MEMO_TABLE.column("packed", "passes over the banks, above them those without conflicts; 0: nothing is known")
M_SPARE = MEMO_TABLE.column("count", "nothing: a row is half a cache line of the host's")
#: Rows of the memo, a power of two.
MEMO_ROWS = 256
_ALL_LANES = 0xFFFFFFFF


@compiled
def find_patterns(accesses, scattered, table, patterns, first_number):
    """Make scattered accesses of a chunk a base and a pattern; returns how many patterns there are, -1 if an access
    names no row of ``scattered``.

    ``accesses`` int64[n, columns] as the trace has them (A_ADDRESS: row of ``scattered`` int64[m, 32]) is changed.
    ``patterns`` int64[k, columns], with a row for each scattered access and one more, receives the patterns, which are
    numbered downwards from ``first_number``; ``table`` int64[a power of two, above 2 k] is scratch, all 0.
    """
    found = 0
    last = -1
    for i in range(accesses.shape[0]):
        if accesses[i, A_STRIDE] != SCATTERED:
            continue
        row, mask = accesses[i, A_ADDRESS], accesses[i, A_MASK]
        if row < 0 or row >= scattered.shape[0]:
            return -1
        base = scattered[row, lowest(mask)] if mask else 0
        # Warps take turns at few patterns: mostly it is the one that stood behind the last one before.
        here = patterns[last, FOLLOWING] - 1 if last >= 0 else -1
        if here < 0 or not _lies_so(scattered, row, mask, base, patterns, here):
            mixed = 0
            for lane in range(LANES):
                offset = (scattered[row, lane] - base) * (mask >> lane & 1)
                patterns[found, lane] = offset
                mixed ^= (offset << lane) ^ (offset << (lane >> 1))
            mixed ^= mixed >> 32
            mixed ^= mixed >> 16
            slot = (mixed ^ mixed >> 7) & (table.shape[0] - 1)
            while table[slot] and not _alike(patterns, table[slot] - 1, found):
                slot = (slot + 1) & (table.shape[0] - 1)
            if table[slot] == 0:
                patterns[found, PATTERN] = first_number - found
                patterns[found, FOLLOWING] = 0
                found += 1
                table[slot] = found
            here = table[slot] - 1
            if last >= 0:
                patterns[last, FOLLOWING] = here + 1
        last = here
        accesses[i, A_ADDRESS] = base
        accesses[i, A_STRIDE] = SCATTERED - here
    return found


@inner
def _lies_so(scattered, row, mask, base, patterns, pattern):
    """Whether the lanes of a row of addresses lie as those of a pattern."""
    different = 0
    if mask == _ALL_LANES:
        for lane in range(LANES):
            different |= (scattered[row, lane] - base) ^ patterns[pattern, lane]
    else:
        for lane in range(LANES):
            different |= (scattered[row, lane] - base) * (mask >> lane & 1) ^ patterns[pattern, lane]
    return different == 0


@inner
def _alike(patterns, one, other):
    """Whether two rows of patterns are the same."""
    different = 0
    for lane in range(LANES):
        different |= patterns[one, lane] ^ patterns[other, lane]
    return different == 0


@inner
def pattern_of(accesses, access, scattered):
    """What tells an access's pattern from others."""
    stride = accesses[access, A_STRIDE]
    return stride if stride > SCATTERED else scattered[SCATTERED - stride, PATTERN]


@inner
def rest_of(accesses, access, mask, width, merges):
    """What the passes depend on beside the pattern: moving all lanes by whole words moves all to other banks alike.
    ``merges``: 1 for a load of shared memory, whose pairs of equal lanes may share a pass, else 0."""
    return mask | width << 32 | (accesses[access, A_ADDRESS] & 3) << 40 | merges << 42


@inner
def memo_row(memo, pattern, rest):
    """The row of ``memo`` for a pattern."""
    mixed = pattern ^ rest ^ rest >> 32 ^ rest >> 16
    mixed ^= mixed >> 8 ^ mixed >> 4
    return mixed & (memo.shape[0] - 1)
