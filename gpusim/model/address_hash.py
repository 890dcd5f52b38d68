"""Where an address lives: home partition, slice, set, DRAM channel, bank and row of a line.

Mental model: addresses are interleaved over the partitions in pieces of a few KiB (4 KiB on Hopper and Blackwell), and
within a partition over its slices in chunks of 256 bytes, one round of chunks after the other, each
round starting at another slice: a contiguous buffer loads every partition, slice, set and channel evenly, and no
power-of-two stride can stay on one of them. Which is first in a turn or round comes from folding its number; of
the real hash functions little more than the sizes of the pieces and their evenness is public. (256 bytes are the
width of a memory partition that NVIDIA documents from the GT200 on.)

Where a GPU's file says so, DRAM rows change places within groups, slices and their sets not: what is read within a
short time then loads channels and banks unevenly, as streams show on silicon, L2's slices still evenly, as sums over
what L2 holds show, and a whole group loads the channels alike. Lines that share a row without that share one with it.

A :class:`Layout` says how many of each there are.

All arguments and results are plain int64; line numbers are byte addresses over 128.
"""

from __future__ import annotations

from typing import NamedTuple

from gpusim.gpus.spec import DramSpec, L2Spec
from gpusim.model.compiled import compiled
from gpusim.model.whole_division import quotient, remainder

#: Neighbouring lines that have the same home: 1 << CHUNK_SHIFT.
CHUNK_SHIFT = 1
#: The bit of a line's number that two lines of one atomic unit differ by (:mod:`gpusim.model.l2_atomics`).
UNIT_LINES = 4


class Layout(NamedTuple):
    """How many partitions and slices (of all partitions) there are, log2 of the lines that neighbour one
    another in a partition, the rounds of chunks that share their DRAM rows, and log2 of the rows whose order is
    scattered."""

    slices: int
    partitions: int
    piece_shift: int
    row_rounds: int = 1
    scatter_shift: int = 0


def layout_of(l2: L2Spec, dram: DramSpec) -> Layout:
    """The layout of a GPU's L2 and of the DRAM behind it."""
    piece_shift = (l2.partition_piece_bytes // l2.line_bytes).bit_length() - 1
    row_rounds = max(1, dram.row_bytes * dram.channels // ((l2.line_bytes << CHUNK_SHIFT) * l2.slices))
    return Layout(l2.slices, l2.partitions, piece_shift, row_rounds, dram.scattered_rows.bit_length() - 1)


@compiled
def fold(number: int) -> int:
    """A number of up to 50 bits scattered evenly over 0 .. 65535."""
    mixed = number ^ (number >> 9) ^ (number >> 21) ^ (number >> 34)
    mixed = (mixed & 0x1FFFFF) * 0x9E3779B1
    mixed = (mixed ^ (mixed >> 19)) & 0x7FFFFFFF
    return ((mixed * 0x2C1B3C6D) >> 24) & 0xFFFF


@compiled
def partition_of(line: int, on: Layout) -> int:
    """The home partition of a line."""
    piece = line >> on.piece_shift
    turn = quotient(piece, on.partitions)
    return remainder(piece - turn * on.partitions + fold(turn), on.partitions)


@compiled
def _order_in_partition(line: int, on: Layout) -> int:
    """The place of a line among those of its partition, in the order in which slices take turns at them."""
    turn = quotient(line >> on.piece_shift, on.partitions)
    return (turn << on.piece_shift) + (line & ((1 << on.piece_shift) - 1))


@compiled
def _slice_and_round(line: int, on: Layout) -> tuple[int, int]:
    """(Slice of a line, counted within a partition; the round of chunks that the line belongs to)."""
    slices = quotient(on.slices, on.partitions)
    chunk = _order_in_partition(line, on) >> CHUNK_SHIFT
    turn = quotient(chunk, slices)
    return remainder(chunk - turn * slices + fold(turn), slices), turn


@compiled
def local_slice_of(line: int, on: Layout) -> int:
    """The slice of a line, counted within its home partition (or within another that keeps a copy)."""
    return _slice_and_round(line, on)[0]


@compiled
def slice_of(line: int, on: Layout) -> int:
    """The home slice of a line, 0 .. slices - 1; its home partition is ``slice % partitions``."""
    return local_slice_of(line, on) * on.partitions + partition_of(line, on)


@compiled
def set_of(line: int, on: Layout, sets: int) -> int:
    """The set of a line inside its slice (the same in every partition)."""
    order = (_slice_and_round(line, on)[1] << CHUNK_SHIFT) + (line & ((1 << CHUNK_SHIFT) - 1))
    return remainder(order + fold(quotient(order, sets) + 0x51ED), sets)


@compiled
def _scattered(row: int, shift: int) -> int:
    """The place of a row among the 1 << ``shift`` rows that it is scattered over: a permutation of each group."""
    mask = (1 << shift) - 1
    group = row >> shift
    half = (shift + 1) >> 1
    place = (row ^ fold(group)) & mask
    place = (place * 0x9E3779B1) & mask
    place ^= place >> half
    place = (place * 0x2C1B3C6D) & mask
    place ^= place >> half
    return (group << shift) + place


@compiled
def _place_in_dram(line: int, on: Layout) -> tuple[int, int]:
    """(Slice, round) whose place in DRAM the line has: its own, unless rows are scattered."""
    local, turn = _slice_and_round(line, on)
    if on.scatter_shift:
        slices = quotient(on.slices, on.partitions)
        rows = quotient(turn, on.row_rounds)
        place = _scattered(rows * slices + local, on.scatter_shift)
        place_rows = quotient(place, slices)
        turn += (place_rows - rows) * on.row_rounds
        local = place - place_rows * slices
    return local * on.partitions + partition_of(line, on), turn


@compiled
def channel_of(line: int, on: Layout, channels: int) -> int:
    """The DRAM channel of a line, in its home partition: a slice's place is that of channels / slices of them, or
    slices share one."""
    place, turn = _place_in_dram(line, on)
    if channels >= on.slices:
        share = quotient(channels, on.slices)
        return place * share + remainder(turn, share)
    return quotient(place, quotient(on.slices, channels))


@compiled
def row_of(line: int, on: Layout, channels: int, row_lines: int) -> int:
    """The DRAM row of a line within its channel, counted over all banks."""
    place, turn = _place_in_dram(line, on)
    if channels >= on.slices:
        chunk = quotient(turn, quotient(channels, on.slices))
    else:
        share = quotient(on.slices, channels)
        chunk = turn * share + remainder(place, share)
    return quotient((chunk << CHUNK_SHIFT) + (line & ((1 << CHUNK_SHIFT) - 1)), row_lines)


@compiled
def bank_of(row: int, banks: int) -> int:
    """The bank of a row: neighbouring rows lie in different banks."""
    return remainder(row + fold(quotient(row, banks)), banks)
