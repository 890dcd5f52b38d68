"""Which granules of shared memory a product reads: matrices named by descriptors, of warp groups (wgmma) and of
tcgen05.

Mental model: a matrix is lines of chunks of 16 bytes, and a descriptor says where each lies; as the emulator gathers
them (:mod:`gpusim.emulator.warpgroup_tiles`, :mod:`gpusim.emulator.tensor_matrices`).
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.tensor_matrices import chunk_address, in_chunk, layout_of
from gpusim.emulator.tensor_products import columns_of, depth_of, format_of, rows_of
from gpusim.isa import tensor_memory_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.jit import apart, inner
from gpusim.sanitizer.async_shared import note_product, note_read, reads_async
from gpusim.sanitizer.async_tables import (
    A_IN_SHARED,
    A_TURNED,
    B_TURNED,
    COLUMNS,
    DEPTH_BYTES,
    ELEMENT_BYTES,
    FORM,
    GRANULE,
    PRODUCTS,
    ROWS,
    TENSOR_READ,
    TENSOR_WORK,
    WARPS,
)  # fmt: skip
from gpusim.trace.layout import RANK_SHIFT

#: Bits 52 to 61 of a descriptor, which say nothing to a warp group's product; the others it has as tcgen05 has them.
_NOT_OF_GROUPS = 0x3FF << 52


@inner
def _group_matrix(m, s, agent, code, descriptor, lines, depth_bytes, turned, size, group, number, leads):
    """A matrix of a warp group's product."""
    rank, plain = agent // m.facts[WARPS], descriptor & ~_NOT_OF_GROUPS
    outer = depth_bytes // size if turned else lines
    across = (lines * size if turned else depth_bytes) >> 4
    for line in range(outer):
        for chunk in range(across):
            address = chunk_address(plain, turned, np.int64(chunk), np.int64(line))
            address |= rank << RANK_SHIFT
            reads_async(m, s, agent, code, address, np.int64(GRANULE), not leads)
            if leads:
                note_product(m, s, address, group, number, code)


@apart
def group_product(m, s, agent, code, a, b):
    """A product of the warp group to which ``agent`` belongs; the first of its warps tells of stores, each of loads."""
    c, warp = m.code[code], agent % m.facts[WARPS]
    m.agents[s, agent, PRODUCTS] += 1
    number, group, leads = m.agents[s, agent, PRODUCTS], warp // at.PRODUCT_WARPS, warp % at.PRODUCT_WARPS == 0
    form, size = c[FORM], c[ELEMENT_BYTES]
    if form & A_IN_SHARED:
        _group_matrix(
            m,
            s,
            agent,
            code,
            a,
            c[ROWS],
            c[DEPTH_BYTES] >> (form >> 4 & 1),
            form & A_TURNED != 0,
            size,
            group,
            number,
            leads,
        )
    _group_matrix(m, s, agent, code, b, c[COLUMNS], c[DEPTH_BYTES], form & B_TURNED != 0, size, group, number, leads)


@inner
def _tensor_matrix(m, s, agent, code, descriptor, turned, lines, depth, form, rank, number):
    if layout_of(descriptor)[0] == 0:
        return
    width = in_chunk(form)
    across, along = (depth // width, lines) if not turned else (lines // width, depth)
    for line in range(along):
        for chunk in range(across):
            address = chunk_address(descriptor, turned, np.int64(chunk), np.int64(line)) | rank << RANK_SHIFT
            reads_async(m, s, agent, code, address, np.int64(GRANULE), False)
            note_read(m, s, address, np.int64(GRANULE), np.int64(TENSOR_READ), agent, number, code)


@apart
def tensor_product(m, s, agent, code, a, b, idesc, flags):
    """A product into tensor memory, which reads A's rows and B's columns of one block, or of both of a pair."""
    m.agents[s, agent, TENSOR_WORK] += 1
    number, kind = m.agents[s, agent, TENSOR_WORK], flags & ops.KIND_MASK
    a_form, b_form = format_of(kind, idesc >> 7 & 7, False), format_of(kind, idesc >> 10 & 7, False)
    if a_form < 0 or b_form < 0:
        return
    depth, sparse = depth_of(kind, a_form, idesc), idesc >> 2 & 1
    rank, blocks = agent // m.facts[WARPS], np.int64(1)
    if flags & ops.TWO_BLOCKS:
        rank, blocks = rank & ~1, np.int64(2)
    for i in range(blocks):
        if not flags & ops.A_IN_TENSOR_MEMORY:
            _tensor_matrix(
                m, s, agent, code, a, idesc >> 15 & 1 != 0, rows_of(idesc) // blocks, depth, a_form, rank + i, number
            )
        _tensor_matrix(
            m,
            s,
            agent,
            code,
            b,
            idesc >> 16 & 1 != 0,
            columns_of(idesc) // blocks,
            depth << sparse,
            b_form,
            rank + i,
            number,
        )
