"""How many passes the banked data array needs for one warp access: conflicts and broadcast.

Mental model: the data array has ``banks`` banks of one 4-byte word a cycle, for shared memory and for
L1 data alike. Lanes that want the same word of a bank share it; distinct words of one bank queue up.
Accesses of 8 and 16 bytes go in half and quarter warps, so that a pass returns 128 bytes at most. Loads of shared
memory whose neighbours are pairs of equal addresses go in passes of twice as many lanes, because what a pass returns is
packed: NVIDIA's forum (thread 77228, capability 7.0 to 7.5: 2 requests for 4 where lanes n and n ^ 1, or n and n ^ 2,
agree all over the warp), and on an A10 and an H100 (thread 373160) Nsight Compute counts 2 wavefronts of a 16-byte load
that gives either half of the warp one address, and 8 where lanes n and n + 16 agree and each quarter has a conflict of
two.
"""

from __future__ import annotations

from gpusim.model.compiled import compiled, inner
from gpusim.model.trace_tables import LANES


@compiled
def data_wavefronts(addresses, mask, width, merges, banks, words, first_of_bank, next_word):
    """Cycles in the data array, at least 1 if any lane is on, else 0.

    ``addresses`` int64[32] byte addresses; ``width`` bytes a lane: 1, 2, 4, 8, 16; ``merges``: 1 for a load of shared
    memory, else
    0. Scratch: ``words`` and ``next_word`` int64[>= 64], ``first_of_bank`` int64[>= banks].
    """
    if mask == 0:
        return 0
    words_per_lane = max(1, width // 4)
    lanes_per_pass = lanes_of_pass(addresses, mask, width, merges)
    total = 0
    start = 0
    while start < LANES:
        group = (mask >> start) & ((1 << lanes_per_pass) - 1)
        if group:
            total += _pass_wavefronts(
                addresses, group, start, lanes_per_pass, words_per_lane, banks, words, first_of_bank, next_word
            )
        start += lanes_per_pass
    return total


@inner
def lanes_of_pass(addresses, mask, width, merges):
    """How many neighbouring lanes a pass serves where no bank conflicts; arguments as of :func:`data_wavefronts`."""
    words_per_lane = max(1, width // 4)
    if merges and words_per_lane > 1 and (_are_pairs(addresses, mask, 1) or _are_pairs(addresses, mask, 2)):
        return 2 * LANES // words_per_lane
    return LANES // words_per_lane


@inner
def returns_of(addresses, mask, width, merges):
    """Passes without conflicts, each of which fills the way to the registers; arguments as of
    :func:`data_wavefronts`."""
    lanes = lanes_of_pass(addresses, mask, width, merges)
    returns = 0
    for start in range(0, LANES, lanes):
        if mask >> start & ((1 << lanes) - 1):
            returns += 1
    return returns


@inner
def _are_pairs(addresses, mask, distance):
    """Whether each lane that is on has the address of the one ``distance`` further, if that is on."""
    for lane in range(LANES):
        other = lane ^ distance
        if mask >> lane & mask >> other & 1 and addresses[lane] != addresses[other]:
            return False
    return True


@inner
def _pass_wavefronts(addresses, group, start, lanes, words_per_lane, banks, words, first_of_bank, next_word):
    """Most distinct words that one bank has to deliver for the lanes of ``group``."""
    for bank in range(banks):
        first_of_bank[bank] = -1
    n = 0
    most = 1
    for lane in range(lanes):
        if not (group >> lane) & 1:
            continue
        base = addresses[start + lane] >> 2
        for k in range(words_per_lane):
            word = base + k
            bank = word & (banks - 1)
            depth = 1
            i = first_of_bank[bank]
            while i >= 0 and words[i] != word:
                depth += 1
                i = next_word[i]
            if i < 0:
                words[n] = word
                next_word[n] = first_of_bank[bank]
                first_of_bank[bank] = n
                n += 1
                if depth > most:
                    most = depth
    return most


@compiled
def atomic_wavefronts(addresses, mask, width, banks, first_of_bank):
    """Passes of a shared-memory atomic: lanes of one bank serialise, the same word included."""
    if mask == 0:
        return 0
    for bank in range(banks):
        first_of_bank[bank] = 0
    most = 1
    for lane in range(LANES):
        if (mask >> lane) & 1:
            bank = (addresses[lane] >> 2) & (banks - 1)
            first_of_bank[bank] += 1
            if first_of_bank[bank] > most:
                most = first_of_bank[bank]
    return most * max(1, width // 4)
