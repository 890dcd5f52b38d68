"""Which bytes of shared memory two warps touch with no barrier between, and what is read before it is written.

Mental model: between two barriers of a block, nothing orders its warps. So a block's trace is cut into *epochs* by
the barriers that each thread has passed, and within an epoch the order in which the emulator happened to run the
warps counts for nothing: two threads of different warps that touch the same byte, one of them writing, are a
hazard unless both do so atomically, or write the same values (which the trace does not know:
:class:`gpusim.sanitizer.asynccheck.WrittenValues` does). Every byte remembers its last writer and the last reader of
two warps. Read before written is a matter of earlier epochs, and of the reader's own warp. Local memory belongs to one
thread and knows no hazards, only missing writes.

All of it is read off the trace: a barrier at which a warp waited ends a run. Not seen: hazards between lanes of
one warp, and between blocks, those of a cluster included; order by flags in shared memory. Kernels with named barriers
or mbarriers are followed by clocks instead (:mod:`gpusim.sanitizer.async_races`).
"""

from __future__ import annotations

import numpy as np

from gpusim.isa.jit import compiled, inner
from gpusim.isa.lane_masks import first_lane
from gpusim.trace.layout import RANK_SHIFT
from gpusim.trace.record import SCATTERED, MemoryKind, Space

# columns of ``code`` int64[n, CODE_COLUMNS]: an instruction as the check sees it
(RECORDS, KIND, SPACE, BYTES, WAITS, CODE_COLUMNS) = range(6)
# columns of ``shared`` int64[bytes, SHADOW_COLUMNS]: what a byte of shared memory remembers. Epochs count from 1.
(
    WRITTEN,  # 1 once anybody has written it
    W_EPOCH, W_THREAD, W_CODE, W_ATOMIC,
    R_EPOCH, R_THREAD, R_CODE, R_ATOMIC,
    S_EPOCH, S_THREAD, S_CODE, S_ATOMIC,  # a reader of another warp than R
    SHADOW_COLUMNS,
) = range(14)  # fmt: skip
# columns of ``found`` int64[limit, FOUND_COLUMNS]: a finding, counted by what and where in the code
(WHAT, CODE, OTHER_CODE, BLOCK, THREAD, OTHER_THREAD, PLACE, COUNT, FOUND_COLUMNS) = range(9)
# values of WHAT
(WRITE_WRITE, READ_WRITE, SHARED_UNWRITTEN, LOCAL_UNWRITTEN) = range(4)
# columns of ``cursor`` int64[warps, CURSOR_COLUMNS]: where a warp stands in its path
(C_RUN, C_OFFSET, C_ACCESS, CURSOR_COLUMNS) = range(4)
# entries of ``facts`` int64[FACTS]
(SHARED_BASE, SHARED_BYTES, LOCAL_BYTES, SHARED_WINDOW, LOCAL_WINDOW, RACES, READS) = range(7)
# blocks of the grid and of a cluster along x, y, z; other blocks may write a block's shared memory; the block's rank in
# its cluster
GRID, CLUSTER, WRITTEN_BY_OTHERS, RANK, FACTS = 7, 10, 13, 14, 15

SHARED, LOCAL, GENERIC = int(Space.SHARED), int(Space.LOCAL), int(Space.GENERIC)
LOAD, STORE, ATOMIC, REDUCTION, COPY, MATRIX = (
    int(kind)
    for kind in (
        MemoryKind.LOAD, MemoryKind.STORE, MemoryKind.ATOMIC, MemoryKind.REDUCTION, MemoryKind.ASYNC_COPY,
        MemoryKind.MATRIX_LOAD,
    )
)  # fmt: skip
#: In the place of a kind: a load that is a part of an atomic (:mod:`gpusim.sanitizer.guarded_loads`).
GUARDED_LOAD = -2
_SCATTERED = int(SCATTERED)
LANES = 32


@inner
def note(found, counts, what, code, other_code, block, thread, other_thread, place):
    """Count a finding; the first of each kind keeps its block, threads and byte. ``counts[0]`` is the number of
    different ones, ``counts[1]`` of those for which there was no room, ``counts[2]`` of all."""
    counts[2] += 1
    for i in range(counts[0]):
        if found[i, WHAT] == what and found[i, CODE] == code and found[i, OTHER_CODE] == other_code:
            found[i, COUNT] += 1
            return
    if counts[0] == found.shape[0]:
        counts[1] += 1
        return
    i = counts[0]
    counts[0] = i + 1
    found[i, WHAT], found[i, CODE], found[i, OTHER_CODE] = what, code, other_code
    found[i, BLOCK], found[i, THREAD], found[i, OTHER_THREAD] = block, thread, other_thread
    found[i, PLACE], found[i, COUNT] = place, 1


@inner
def touch_shared(byte, reads, writes, atomic, epoch, thread, pc, block, races, unwritten, found, counts, place):
    """One thread touches one byte of shared memory; ``byte`` is its row of the shadow."""
    warp = thread // LANES
    if reads and unwritten and not byte[WRITTEN]:
        note(found, counts, SHARED_UNWRITTEN, pc, -1, block, thread, -1, place)
    if races and byte[W_EPOCH] == epoch and byte[W_THREAD] // LANES != warp:
        if not (atomic and byte[W_ATOMIC]):
            if writes and byte[W_CODE] <= pc:
                note(found, counts, WRITE_WRITE, byte[W_CODE], pc, block, byte[W_THREAD], thread, place)
            elif writes:
                note(found, counts, WRITE_WRITE, pc, byte[W_CODE], block, thread, byte[W_THREAD], place)
            else:
                note(found, counts, READ_WRITE, pc, byte[W_CODE], block, thread, byte[W_THREAD], place)
    if writes:
        if races:
            for at in (R_EPOCH, S_EPOCH):
                if byte[at] == epoch and byte[at + 1] // LANES != warp and not (atomic and byte[at + 3]):
                    note(found, counts, READ_WRITE, byte[at + 2], pc, block, byte[at + 1], thread, place)
        byte[WRITTEN] = 1
        byte[W_EPOCH], byte[W_THREAD], byte[W_CODE], byte[W_ATOMIC] = epoch, thread, pc, atomic
    elif reads:
        at = R_EPOCH
        if byte[R_EPOCH] == epoch and byte[R_THREAD] // LANES != warp:
            at = S_EPOCH
        byte[at], byte[at + 1], byte[at + 2], byte[at + 3] = epoch, thread, pc, atomic


@inner
def one_access(chunk, access, code, pc, kind, space, epoch, warp, block, facts, shared, local, found, counts):
    """All lanes of one ACCESS record."""
    stride, mask = np.int64(chunk.stride[access]), np.int64(chunk.mask[access])
    atomic = kind == ATOMIC or kind == REDUCTION or kind == GUARDED_LOAD
    writes = kind == STORE or kind == COPY or (atomic and kind != GUARDED_LOAD)
    reads = kind == LOAD or kind == MATRIX or atomic
    for lane in range(LANES):
        if not (mask >> lane) & 1:
            continue
        if stride == _SCATTERED:
            address = chunk.scattered[chunk.address[access], lane]
        else:
            address = chunk.address[access] + stride * lane
        thread = warp * LANES + lane
        offset, is_local = address - facts[SHARED_BASE], space == LOCAL
        if space == LOCAL:
            offset = address
        elif space == GENERIC:
            if address >> 32 == facts[SHARED_WINDOW] >> 32:
                if (address >> RANK_SHIFT) & 0xFF != facts[RANK]:
                    continue  # another block's of the cluster
                offset = (address & 0xFFFFFF) - facts[SHARED_BASE]
            elif address >> 32 == facts[LOCAL_WINDOW] >> 32:
                offset, is_local = address & 0xFFFFFFFF, True
            else:
                continue
        if offset < 0 or offset + code[pc, BYTES] > (facts[LOCAL_BYTES] if is_local else facts[SHARED_BYTES]):
            continue  # memcheck has told
        before = counts[2]
        begun = False  # an atomic on half a word is one on the word, whose other half may be nobody's
        if atomic and not is_local:
            for place in range(offset, offset + code[pc, BYTES]):
                begun |= shared[place, WRITTEN] != 0
        for place in range(offset, offset + code[pc, BYTES]):
            silent = counts[2] != before  # a lane's access counts once, whatever its width
            if not is_local:
                races = facts[RACES] and not silent
                unwritten = facts[READS] and not silent and not facts[WRITTEN_BY_OTHERS] and not begun
                touch_shared(
                    shared[place], reads, writes, atomic, epoch, thread, pc, block, races, unwritten, found, counts,
                    place,
                )  # fmt: skip
            elif writes:
                local[thread, place] = 1
            elif reads and facts[READS] and not silent and not local[thread, place]:
                note(found, counts, LOCAL_UNWRITTEN, pc, -1, block, thread, -1, place)


@inner
def run_epoch(chunk, first_warp, warp, cursor, passed, code, epoch, block, facts, shared, local, found, counts):
    """Follow one warp to the end of ``epoch``; True if it has come to its end."""
    path = chunk.path[first_warp + warp]
    end = chunk.path_start[path + 1]
    access_start = chunk.access_start[first_warp + warp]
    while chunk.path_start[path] + cursor[warp, C_RUN] < end:
        run = chunk.path_start[path] + cursor[warp, C_RUN]
        lanes = np.int64(chunk.run_mask[run])
        if passed[warp, first_lane(lanes)] >= epoch:
            return False
        stop = chunk.run_first[run] + chunk.run_count[run]
        for pc in range(chunk.run_first[run], stop):
            records = code[pc, RECORDS]
            if records == 0:
                continue
            access = access_start + cursor[warp, C_ACCESS]
            cursor[warp, C_ACCESS] += records
            space = code[pc, SPACE]
            if records == 2:  # an asynchronous copy: its second record is the shared destination
                access += 1
                space = SHARED
            if space == SHARED or space == LOCAL or space == GENERIC:
                one_access(
                    chunk, access, code, pc, code[pc, KIND], space, epoch, warp, block, facts, shared, local, found,
                    counts,
                )  # fmt: skip
        cursor[warp, C_RUN] += 1
        if code[stop - 1, WAITS]:
            for lane in range(LANES):
                passed[warp, lane] += (lanes >> lane) & 1
    return True


@inner
def _rank(facts, block):
    """Rank in its cluster of the block number ``block``."""
    rank, scale = np.int64(0), np.int64(1)
    for axis in range(3):
        rank += scale * (block % facts[GRID + axis] % facts[CLUSTER + axis])
        scale *= facts[CLUSTER + axis]
        block = block // facts[GRID + axis]
    return rank


@compiled
def check_blocks(
    chunk, first_block, blocks, warps_per_block, code, facts, shared, local, cursor, passed, found, counts
):
    """Check whole blocks one after another.

    ``chunk``: the columns of a Chunk (``_Columns`` of :mod:`gpusim.sanitizer.ordercheck`); ``shared`` int64[bytes,
    SHADOW_COLUMNS], ``local`` uint8[threads, bytes], ``cursor`` and ``passed`` int64[warps, 32] are scratch;
    ``found`` and ``counts`` as in :func:`note`.
    """
    for b in range(blocks):
        facts[RANK] = _rank(facts, first_block + b)
        shared[:] = 0
        local[:] = 0
        cursor[:] = 0
        passed[:] = 0
        epoch = 0
        left = True
        while left:
            epoch += 1
            left = False
            for warp in range(warps_per_block):
                ended = run_epoch(
                    chunk, b * warps_per_block, warp, cursor, passed, code, epoch, first_block + b, facts, shared,
                    local, found, counts,
                )  # fmt: skip
                if not ended:
                    left = True
