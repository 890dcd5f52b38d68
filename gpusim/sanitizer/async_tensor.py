"""Tensor memory in the asynchronous check: columns that products and copies of tcgen05 write and read, and what warps
do with them meanwhile.

Mental model: a column remembers the tensor core's last work that writes it, the last that reads it (as A), and of every
warp of its block the last load and store. That work is done for whoever has learnt of it by an mbarrier to which it was
committed. Lanes are followed in two halves of each warp's 32, as products of 64 rows divide them. Of 32 columns it is
remembered who has allocated them (not where two blocks did so together), for others know of it by a barrier alone. Not
followed: scales and metadata, and which of a half's lanes are meant.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.tensor_matrices import chunk_address, layout_of
from gpusim.emulator.tensor_memory import copy_shape
from gpusim.emulator.tensor_products import columns_of, is_deep, rows_of
from gpusim.isa import tensor_memory_ops as ops
from gpusim.isa.jit import apart, inner
from gpusim.sanitizer.async_clocks import code_in, mark, tell
from gpusim.sanitizer.async_shared import note_read, reads_async
from gpusim.sanitizer.async_tables import (
    ALLOCATED,
    ALLOCATED_LATE,
    ALLOCATION_STEPS,
    ALLOCATION_UNSEEN,
    ALLOCATORS,
    CODE_BITS,
    COLUMN_READ,
    COLUMN_WRITER,
    FREED_BUSY,
    FREED_READ,
    GRANULE,
    RELINQUISHED,
    STORED,
    TENSOR_DONE,
    TENSOR_OVER_READ,
    TENSOR_OVER_STORE,
    TENSOR_OVER_WORK,
    TENSOR_READ,
    TENSOR_UNFILLED,
    TENSOR_UNSTORED,
    TENSOR_UNWRITTEN,
    TENSOR_WORK,
    TWO_PRODUCTS,
    WARP_COLUMNS,
    WARPS,
)  # fmt: skip
from gpusim.trace.layout import RANK_SHIFT

_COLUMN = (1 << ops.LANE_SHIFT) - 1
#: Columns of 32 bits that the rows of an A in tensor memory take, and those of 96 packed 4-bit floats.
_A_COLUMNS, _DEEP_COLUMNS = 8, 12
_BOTH = 3


@inner
def _pending(m, s, agent, held, at):
    """Whether the tensor core's work noted at ``at`` is not known to ``agent`` to be done."""
    return held[at] != 0 and m.clock[s, agent, m.facts[TENSOR_DONE] + held[at] - 1] < held[at + 1]


@inner
def _told(m, s, what, agent, code, other, other_code, column):
    tell(m, s, what, agent, code, np.int64(other), np.int64(other_code), np.int64(column), np.int64(0), np.int64(0))


@inner
def _known_allocated(m, s, agent, code, rank, first, count):
    """Tell of columns that ``agent`` uses at ``code`` and of whose allocation by another warp it does not know."""
    for unit in range(first // ops.UNIT_COLUMNS, min((first + count - 1) // ops.UNIT_COLUMNS + 1, ops.UNITS)):
        other, since = m.blocks[s, rank, ALLOCATORS + unit] - 1, m.blocks[s, rank, ALLOCATION_STEPS + unit]
        if other >= 0 and other != agent and code_step(since) > m.clock[s, agent, other]:
            _told(m, s, ALLOCATION_UNSEEN, agent, code, other, code_in(since), max(first, unit * ops.UNIT_COLUMNS))


@inner
def _work_writes(m, s, agent, code, rank, first, count, halves, number, accumulates):
    """The tensor core's work ``number`` of ``agent`` writes ``count`` columns from ``first`` on in ``halves`` of the
    lanes."""
    f, clock = m.facts, m.clock[s, agent]
    _known_allocated(m, s, agent, code, rank, first, count)
    for half in range(2):
        if not halves >> half & 1:
            continue
        for column in range(first, min(first + count, ops.MEMORY_COLUMNS)):
            held = m.tensor[s, rank, half, column]
            if held[COLUMN_WRITER] != agent + 1 and _pending(m, s, agent, held, np.int64(COLUMN_WRITER)):
                _told(m, s, TWO_PRODUCTS, agent, code, held[COLUMN_WRITER] - 1, held[COLUMN_WRITER + 2], column)
            written = held[COLUMN_WRITER] != 0
            for warp in range(f[WARPS]):
                other = rank * f[WARPS] + warp
                read, stored = held[WARP_COLUMNS + warp], held[WARP_COLUMNS + f[WARPS] + warp]
                written |= stored != 0
                if read and other != agent and code_step(read) > clock[other]:
                    _told(m, s, TENSOR_OVER_READ, agent, code, other, code_in(read), column)
                _stored(m, s, agent, code, other, stored, column, accumulates)
            if accumulates and not written:
                _told(m, s, TENSOR_UNWRITTEN, agent, code, -1, -1, column)
            held[COLUMN_WRITER], held[COLUMN_WRITER + 1], held[COLUMN_WRITER + 2] = agent + 1, number, code


@inner
def code_step(marked):
    """The step of a mark."""
    return marked >> CODE_BITS


@inner
def _stored(m, s, agent, code, writer, stored, column, reads):
    """The tensor core is to use, at ``code`` of ``agent``, a column that ``writer`` has stored into."""
    if not stored:
        return
    if writer != agent and code_step(stored) > m.clock[s, agent, writer]:
        _told(m, s, TENSOR_OVER_STORE, agent, code, writer, code_in(stored), column)
    elif reads and code_step(stored) > m.clock[s, agent, m.facts[STORED] + writer]:
        _told(m, s, TENSOR_UNSTORED, agent, code, writer, code_in(stored), column)


@apart
def product_columns(m, s, agent, code, a, d, idesc, flags, number):
    """What a product reads and writes in tensor memory."""
    rank, blocks, rows = agent // m.facts[WARPS], np.int64(1), rows_of(idesc)
    two = flags & ops.TWO_BLOCKS != 0
    if two:
        rank, blocks, rows = rank & ~1, np.int64(2), rows // 2
    dealt = two or flags & ops.WEIGHT_STATIONARY != 0
    columns = columns_of(idesc) // (128 // rows if dealt else 1)
    halves = np.int64(_BOTH)
    if rows == 64 and not dealt:
        halves = np.int64(2) if d >> ops.LANE_SHIFT & 16 else np.int64(1)
    of_a = np.int64(_DEEP_COLUMNS if is_deep(flags & ops.KIND_MASK, idesc) else _A_COLUMNS)
    for i in range(blocks):
        if flags & ops.A_IN_TENSOR_MEMORY:
            _known_allocated(m, s, agent, code, rank + i, a & _COLUMN, of_a)
            for half in range(2):
                for column in range(a & _COLUMN, min((a & _COLUMN) + of_a, ops.MEMORY_COLUMNS)):
                    held = m.tensor[s, rank + i, half, column]
                    for warp in range(m.facts[WARPS]):
                        other, stored = (rank + i) * m.facts[WARPS] + warp, WARP_COLUMNS + m.facts[WARPS] + warp
                        _stored(m, s, agent, code, other, held[stored], column, True)
                    held[COLUMN_READ], held[COLUMN_READ + 1], held[COLUMN_READ + 2] = agent + 1, number, code
        _work_writes(
            m, s, agent, code, rank + i, d & _COLUMN, columns, halves, number, flags & np.int64(ops.ACCUMULATES) != 0
        )


@apart
def _moves(m, s, agent, code, operation, address, shape, repeats, packed):
    """A load or store of a warp."""
    rank, width, halves = agent // m.facts[WARPS], np.int64(1), np.int64(_BOTH)
    if shape == ops.LANES_16x64:
        width = np.int64(2)
    elif shape == ops.LANES_16x128:
        width = np.int64(4)
    elif shape == ops.LANES_16x256:
        width = np.int64(8)
    if shape != ops.LANES_32:
        halves = np.int64(2) if address >> ops.LANE_SHIFT & 16 else np.int64(1)
    first, warp = address & _COLUMN, agent % m.facts[WARPS]
    now = mark(m, s, agent, code)
    _known_allocated(m, s, agent, code, rank, first, width * (1 + packed) * repeats)
    for half in range(2):
        if not halves >> half & 1:
            continue
        for column in range(first, min(first + width * (1 + packed) * repeats, ops.MEMORY_COLUMNS)):
            held = m.tensor[s, rank, half, column]
            if operation == ops.LOAD:
                _loads(m, s, agent, code, held, column)
                held[WARP_COLUMNS + warp] = now
                continue
            for at in (COLUMN_WRITER, COLUMN_READ):
                if _pending(m, s, agent, held, np.int64(at)):
                    _told(m, s, TENSOR_OVER_WORK, agent, code, held[at] - 1, held[at + 2], column)
            held[WARP_COLUMNS + m.facts[WARPS] + warp] = now


@inner
def _loads(m, s, agent, code, held, column):
    if _pending(m, s, agent, held, np.int64(COLUMN_WRITER)):
        _told(m, s, TENSOR_UNFILLED, agent, code, held[COLUMN_WRITER] - 1, held[COLUMN_WRITER + 2], column)
    elif held[COLUMN_WRITER] == 0:
        stored = WARP_COLUMNS + m.facts[WARPS]
        for warp in range(m.facts[WARPS]):
            if held[stored + warp]:
                return
        _told(m, s, TENSOR_UNWRITTEN, agent, code, -1, -1, column)


@inner
def _allocates(m, s, agent, code, allocated, blocks):
    rank = agent // m.facts[WARPS]
    if m.blocks[s, rank, RELINQUISHED]:
        _told(m, s, ALLOCATED_LATE, agent, code, -1, m.blocks[s, rank, RELINQUISHED] - 1, 0)
    first = rank if blocks == 1 else rank & ~1
    for block in range(first, first + blocks):
        fresh = allocated & ~m.blocks[s, block, ALLOCATED]
        m.blocks[s, block, ALLOCATED] |= allocated
        for unit in range(ops.UNITS):
            if fresh >> unit & 1:
                m.blocks[s, block, ALLOCATORS + unit] = agent + 1 if blocks == 1 else 0
                m.blocks[s, block, ALLOCATION_STEPS + unit] = mark(m, s, agent, code)
                m.tensor[s, block, :, unit * ops.UNIT_COLUMNS : (unit + 1) * ops.UNIT_COLUMNS, :] = 0


@inner
def _frees(m, s, agent, code, kept):
    f = m.facts
    rank, clock = agent // f[WARPS], m.clock[s, agent]
    freed = m.blocks[s, rank, ALLOCATED] & ~kept
    m.blocks[s, rank, ALLOCATED] &= kept
    for unit in range(ops.UNITS):
        if not freed >> unit & 1:
            continue
        for column in range(unit * ops.UNIT_COLUMNS, (unit + 1) * ops.UNIT_COLUMNS):
            for half in range(2):
                held = m.tensor[s, rank, half, column]
                for at in (COLUMN_WRITER, COLUMN_READ):
                    if _pending(m, s, agent, held, np.int64(at)):
                        _told(m, s, FREED_BUSY, agent, code, held[at] - 1, held[at + 2], column)
                for warp in range(2 * f[WARPS]):
                    other, moved = rank * f[WARPS] + warp % f[WARPS], held[WARP_COLUMNS + warp]
                    if moved and other != agent and code_step(moved) > clock[other]:
                        _told(m, s, FREED_READ, agent, code, other, code_in(moved), column)


@inner
def _copies(m, s, agent, code, address, shape, pair, descriptor):
    m.agents[s, agent, TENSOR_WORK] += 1
    number, rank, blocks = m.agents[s, agent, TENSOR_WORK], agent // m.facts[WARPS], np.int64(1)
    if pair:
        rank, blocks = rank & ~1, np.int64(2)
    rows, chunks = copy_shape(shape)
    for block in range(rank, rank + blocks):
        if layout_of(descriptor)[0]:
            for row in range(rows):
                for chunk in range(chunks):
                    place = chunk_address(descriptor, False, np.int64(chunk), np.int64(row)) | block << RANK_SHIFT
                    reads_async(m, s, agent, code, place, np.int64(GRANULE), False)
                    note_read(m, s, place, np.int64(GRANULE), np.int64(TENSOR_READ), agent, number, code)
        _work_writes(m, s, agent, code, block, address & _COLUMN, 4 * chunks, np.int64(_BOTH), number, False)


@apart
def tensor_memory(m, s, agent, code, operation, place, c, d, e):
    """An instruction on tensor memory other than a product; as :func:`gpusim.emulator.events.note_memory` notes it."""
    if operation == ops.LOAD or operation == ops.STORE:
        _moves(m, s, agent, code, operation, place, c, d, e)
    elif operation == ops.ALLOCATE:
        _allocates(m, s, agent, code, place, d + 1)
    elif operation == ops.RELEASE:
        _frees(m, s, agent, code, place)
    elif operation == ops.COPY:
        _copies(m, s, agent, code, place, c, d, e)
    elif operation == ops.SHIFT:
        m.agents[s, agent, TENSOR_WORK] += 1
        rank, blocks = agent // m.facts[WARPS], np.int64(1)
        if d:
            rank, blocks = rank & ~1, np.int64(2)
        for block in range(rank, rank + blocks):
            _work_writes(
                m,
                s,
                agent,
                code,
                block,
                place & _COLUMN,
                np.int64(8),
                np.int64(_BOTH),
                m.agents[s, agent, TENSOR_WORK],
                False,
            )
