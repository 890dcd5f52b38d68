"""What the next access will be, and by how much it is not: the columns of a chunk's accesses.

Mental model: an encoder and a decoder walk the same warps through the same paths and keep the same memory of
each instruction's accesses, so that only the error of a common guess must be stored. The guess for an access
is what the previous warp *of the same path* did at this point, moved by as much as this instruction's last
access was moved against that warp's; for a warp whose path is new, the instruction's last address plus the
step that it took twice in a row. Lanes, stride and pattern are guessed to be the same as there. Accesses that
are affine in the warp's number or in a loop's turn give zeros, whatever the loops' order.

A record whose lanes are all off (``mask == 0``) says nothing about addresses: its own are stored as they are, and
the memory of its instruction stays.
"""

from __future__ import annotations

import numpy as np

from gpusim.trace.compiled import compiled
from gpusim.trace.layout import SCATTERED

_SCATTERED = int(SCATTERED)
#: Columns of the memory int64[slots, MEMORY_COLUMNS]; a slot is one of the ACCESS records of an instruction.
(
    WARP_SEEN,  # 1 + the warp that used the slot last
    FIRST,  # its place at that warp's first use, and
    FIRST_STEP,  # by how much that was beyond the warp's before
    LAST,  # place of the last use
    STEP,  # step seen twice in a row
    NEW_STEP,  # step seen last
    SHIFT,  # place of the last use less that of the warp guessed from
    STRIDE,
    MASK,
    PATTERN,
    MEMORY_COLUMNS,
) = range(11)

#: What :func:`walk` answers: all is well, or what does not fit (only a damaged file can do that).
FINE, TOO_FEW_SCATTERED, BAD_ROW = range(3)


@compiled
def walk(
    decoding, paths, path_start, run_slots, memory, followed, address, stride, mask, place, kind, base, pattern,
    d_mask, d_stride, d_place, d_row, d_pattern, counts,
):  # fmt: skip
    """Code the accesses of all warps, in warp order, or undo it.

    ``paths`` int64[warps]; ``path_start`` int64[p + 1]; ``run_slots`` int64[runs, 2] first and end slot of each
    run; ``memory`` zeros; ``followed`` int64[p] of -1; ``address``, ``stride``, ``mask`` int64[n] the accesses;
    ``place``, ``kind`` int64[n] scratch; ``base``, ``pattern`` int64[s] of the scattered rows; ``d_...`` the
    errors of the guesses, int64[n], ``d_row`` and ``d_pattern`` int64[scattered accesses]; ``counts`` int64[2] takes
    scattered accesses and rows named in order. Encoding reads the accesses and writes the errors, decoding the
    reverse; which rows are new is the same in both: those that are named in order.
    """
    k = 0
    n_scattered = 0
    next_row = 0
    for warp in range(paths.shape[0]):
        path = paths[warp]
        offset = followed[path] - k  # from an access to the one that it is guessed from
        follows = followed[path] >= 0
        followed[path] = k
        for run in range(path_start[path], path_start[path + 1]):
            for slot in range(run_slots[run, 0], run_slots[run, 1]):
                again = memory[slot, WARP_SEEN] == warp + 1
                if follows:
                    guess = place[k + offset] + memory[slot, SHIFT]
                    guess_stride, guess_mask = stride[k + offset], mask[k + offset]
                    guess_kind = kind[k + offset]
                else:
                    if again:
                        guess = memory[slot, LAST] + memory[slot, STEP]
                    else:
                        guess = memory[slot, FIRST] + memory[slot, FIRST_STEP]
                    guess_stride, guess_mask = memory[slot, STRIDE], memory[slot, MASK]
                    guess_kind = memory[slot, PATTERN]
                if decoding:
                    mask[k] = guess_mask ^ d_mask[k]
                else:
                    d_mask[k] = mask[k] ^ guess_mask
                if mask[k] == 0:
                    guess_stride = 0
                if decoding:
                    stride[k] = guess_stride + d_stride[k]
                else:
                    d_stride[k] = stride[k] - guess_stride
                found, found_kind = guess, guess_kind
                if stride[k] == _SCATTERED:
                    if decoding:
                        if n_scattered >= d_row.shape[0]:
                            return TOO_FEW_SCATTERED
                        address[k] = next_row + d_row[n_scattered]
                    else:
                        d_row[n_scattered] = address[k] - next_row
                        d_pattern[n_scattered] = 0
                        d_place[k] = 0
                    if d_row[n_scattered] == 0:
                        if next_row >= base.shape[0]:
                            return BAD_ROW
                        if decoding:
                            base[next_row] = guess + d_place[k]
                            pattern[next_row] = guess_kind + d_pattern[n_scattered]
                        else:
                            d_place[k] = base[next_row] - guess
                            d_pattern[n_scattered] = pattern[next_row] - guess_kind
                        found, found_kind = base[next_row], pattern[next_row]
                        next_row += 1
                    n_scattered += 1
                elif mask[k] == 0:
                    if decoding:
                        address[k] = d_place[k]
                    else:
                        d_place[k] = address[k]
                else:
                    if decoding:
                        address[k] = guess + d_place[k]
                    else:
                        d_place[k] = address[k] - guess
                    found = address[k]
                place[k], kind[k] = found, found_kind
                memory[slot, MASK] = mask[k]
                if mask[k] != 0:
                    memory[slot, STRIDE], memory[slot, PATTERN] = stride[k], found_kind
                    if follows:
                        memory[slot, SHIFT] = found - place[k + offset]
                    if again:
                        step = found - memory[slot, LAST]
                        if step == memory[slot, NEW_STEP]:
                            memory[slot, STEP] = step
                        memory[slot, NEW_STEP] = step
                    else:
                        memory[slot, FIRST_STEP] = found - memory[slot, FIRST]
                        memory[slot, FIRST] = found
                        memory[slot, WARP_SEEN] = warp + 1
                    memory[slot, LAST] = found
                k += 1
    counts[0], counts[1] = n_scattered, next_row
    return FINE


def empty_memory(slots: int) -> np.ndarray:
    """The memory with which both sides start."""
    return np.zeros((max(1, slots), MEMORY_COLUMNS), np.int64)
