"""Where an address lives: home partition, slice, set, DRAM channel, bank and row of a line.

Mental model: consecutive chunks of 256 bytes are dealt out over all slices like cards, one round of ``slices``
chunks after the other, each round starting at another player: a contiguous buffer loads every slice, set and
channel evenly, and no power-of-two stride can stay on one of them. The start of a round comes from
folding the round's number; the real hash functions are not public, only their evenness is. (256 bytes are
the width of a memory partition that NVIDIA documents from the GT200 on.)

All arguments and results are plain int64; line numbers are byte addresses over 128.
"""

from __future__ import annotations

from gpusim.model.compiled import compiled

#: Neighbouring lines that have the same home: 1 << CHUNK_SHIFT.
CHUNK_SHIFT = 1


@compiled
def fold(number: int) -> int:
    """A number of up to 50 bits scattered evenly over 0 .. 65535."""
    mixed = number ^ (number >> 9) ^ (number >> 21) ^ (number >> 34)
    mixed = (mixed & 0x1FFFFF) * 0x9E3779B1
    mixed = (mixed ^ (mixed >> 19)) & 0x7FFFFFFF
    return ((mixed * 0x2C1B3C6D) >> 24) & 0xFFFF


@compiled
def slice_of(line: int, slices: int) -> int:
    """The home slice of a line, 0 .. slices - 1; its home partition is ``slice % partitions``."""
    chunk = line >> CHUNK_SHIFT
    deal = chunk // slices
    return (chunk - deal * slices + fold(deal)) % slices


@compiled
def _order_in_slice(line: int, slices: int) -> int:
    """How many lines of its slice lie before a line."""
    return ((line >> CHUNK_SHIFT) // slices << CHUNK_SHIFT) + (line & ((1 << CHUNK_SHIFT) - 1))


@compiled
def set_of(line: int, slices: int, sets: int) -> int:
    """The set of a line inside its slice (the same in every partition)."""
    order = _order_in_slice(line, slices)
    return (order + fold(order // sets + 0x51ED)) % sets


@compiled
def channel_of(line: int, slices: int, channels: int) -> int:
    """The DRAM channel of a line: a slice owns channels / slices of them, or slices share one."""
    home = slice_of(line, slices)
    if channels >= slices:
        share = channels // slices
        return home * share + (line >> CHUNK_SHIFT) // slices % share
    return home // (slices // channels)


@compiled
def row_of(line: int, slices: int, channels: int, row_lines: int) -> int:
    """The DRAM row of a line within its channel, counted over all banks."""
    deal = (line >> CHUNK_SHIFT) // slices
    if channels >= slices:
        chunk = deal // (channels // slices)
    else:
        share = slices // channels
        chunk = deal * share + slice_of(line, slices) % share
    return ((chunk << CHUNK_SHIFT) + (line & ((1 << CHUNK_SHIFT) - 1))) // row_lines


@compiled
def bank_of(row: int, banks: int) -> int:
    """The bank of a row: neighbouring rows lie in different banks."""
    return (row + fold(row // banks)) % banks
