"""Walks the boxes of tensors, row by row, between global and shared memory.

Mental model: a box is rows of contiguous elements. Of each row the part that lies in the tensor is moved; the rest of
it, and rows outside, is filled on a load and left alone on a store. Rows of a tiled map follow its dimensions and their
element strides; those of an im2col map are pixels, which wander through a bounding box in the order of the dimensions
(of a wide map along W and the images alone), from the coordinates on, each looked at the instruction's offsets further
on; gather4 and scatter4 name four rows. In shared memory the rows lie one behind the other, swizzled. What is moved is
noted as few boxes as it takes (the trace's BULK). Source: PTX ISA, "Tensors", tiled, im2col, im2col::w and
im2col::w::128 mode; where the halo of the last lies in shared memory it shows in a picture alone, and what is here is
inferred from tcgen05.cp.4x256b, which takes a row for each 32 lanes.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator import tensor_maps as m
from gpusim.emulator.pointers import copy_bytes, load8, load32, load64, store8, store32, store64
from gpusim.emulator.tensor_elements import FLIPPED, fill_pattern, loaded, reduce_element, swizzled
from gpusim.isa import bulk_ops as bulk
from gpusim.isa.jit import apart, inner
from gpusim.isa.lane_masks import signed32

#: Numbers of a logged box: access, kind | swizzle << 8 | blocks << 16, address, descriptor, four strides, four counts,
#: bytes of a row, bytes, shared address.
LOG_ACCESS, LOG_KIND, LOG_ADDRESS, LOG_DESCRIPTOR, LOG_STRIDE, LOG_COUNT, LOG_ROW_BYTES, LOG_BYTES, LOG_SHARED = (
    0, 1, 2, 3, 4, 8, 12, 13, 14,
)  # fmt: skip
LOG_WIDTH = 16
#: Boxes that one instruction notes at most: each pixel of an im2col map one, and each of a halo (im2col::w).
MOST_BOXES = 1536


@inner
def find_host(state, address, size):
    """Host address of ``size`` bytes of global memory at ``address``; 0 where no allocation holds them."""
    table = state.allocations_host
    if state.allocations == 0 or address < 0:
        return np.int64(0)
    guess = table + 24 * state.allocation_hint
    base = load64(guess)
    if base <= address and address + size <= base + load64(guess + 8):
        return address - base + load64(guess + 16)
    low, high = np.int64(0), np.int64(state.allocations)
    while low < high:
        middle = (low + high) >> 1
        if load64(table + 24 * middle) <= address:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return np.int64(0)
    entry = table + 24 * (low - 1)
    base = load64(entry)
    if address + size > base + load64(entry + 8):
        return np.int64(0)
    state.allocation_hint = low - 1
    return address - base + load64(entry + 16)


@inner
def note_box(state, address, n, strides, counts):
    """Log a box of rows at global ``address``: ``n`` of ``counts`` and ``strides`` count; the first of an instruction
    has its bytes."""
    t = state.tensor
    place = state.bulks_host + 8 * LOG_WIDTH * state.bulks_used
    state.bulks_used += 1
    store64(place + 8 * LOG_ACCESS, t[m.NOTE_ACCESS])
    store64(place + 8 * LOG_KIND, t[m.NOTE_KIND] | t[m.SWIZZLE] << 8 | t[m.NOTE_BLOCKS] << 16)
    store64(place + 8 * LOG_ADDRESS, address)
    store64(place + 8 * LOG_DESCRIPTOR, t[m.NOTE_DESCRIPTOR])
    for i in range(4):
        store64(place + 8 * (LOG_STRIDE + i), strides[i] if i < n else np.int64(0))
        store64(place + 8 * (LOG_COUNT + i), counts[i] if i < n else np.int64(n >= 0))
    store64(place + 8 * LOG_ROW_BYTES, t[m.NOTE_ROW_BYTES] if n >= 0 else np.int64(0))
    store64(place + 8 * LOG_BYTES, t[m.NOTE_BYTES])
    store64(place + 8 * LOG_SHARED, t[m.NOTE_SHARED])
    t[m.NOTE_BYTES] = t[m.NOTE_BLOCKS] = 0


@inner
def _flush_runs(state):
    """Log the rows that have been gathered: ``RUNS`` runs of ``RUN_ROWS`` rows."""
    t = state.tensor
    if t[m.RUNS]:
        strides, counts = state.bulk_strides, state.bulk_counts
        strides[0], strides[1], counts[0], counts[1] = t[m.RUN_STEP], t[m.RUNS_STEP], t[m.RUN_ROWS], t[m.RUNS]
        note_box(state, t[m.RUN_FIRST], 2, strides, counts)
        t[m.RUNS] = 0


@inner
def _close_run(state):
    """The run at hand ends: it joins those before if it is as long and as far from the last as they are from each
    other."""
    t = state.tensor
    if t[m.NEW_ROWS] == 0:
        return
    alike = t[m.RUNS] and t[m.RUN_ROWS] == t[m.NEW_ROWS] and t[m.RUN_STEP] == t[m.NEW_STEP]
    if alike and t[m.RUNS] == 1:
        t[m.RUNS_STEP] = t[m.NEW_FIRST] - t[m.RUN_FIRST]
    if not alike or t[m.NEW_FIRST] != t[m.RUN_FIRST] + t[m.RUNS] * t[m.RUNS_STEP]:
        _flush_runs(state)
        t[m.RUN_FIRST], t[m.RUN_ROWS], t[m.RUN_STEP], t[m.RUNS_STEP] = t[m.NEW_FIRST], t[m.NEW_ROWS], t[m.NEW_STEP], 0
    t[m.RUNS] += 1
    t[m.NEW_ROWS] = 0


@inner
def _note_row(state, address, continues):
    """A row at global ``address`` is moved; ``continues``: it may belong to the run at hand."""
    t = state.tensor
    if continues and t[m.NEW_ROWS] == 1:
        t[m.NEW_STEP] = address - t[m.NEW_FIRST]
    if not continues or t[m.NEW_ROWS] == 0 or address != t[m.NEW_FIRST] + t[m.NEW_ROWS] * t[m.NEW_STEP]:
        _close_run(state)
        t[m.NEW_FIRST], t[m.NEW_STEP] = address, 0
    t[m.NEW_ROWS] += 1


@inner
def _global_offset(t, elements):
    """Bytes in global memory of ``elements`` of a row."""
    return elements * t[m.BITS] >> 3


@inner
def _load_part(source, target, place, first, last, swizzle, kind, pattern):
    """The 16 bytes at shared address ``place`` (of which host address ``target`` is where shared address 0 lies), of
    which bytes ``first`` to ``last`` are at ``source`` and the rest is filled."""
    if first == 0 and last == 16:
        store64(target + swizzled(place, swizzle), loaded(np.int64(load64(source)), kind))
        store64(target + swizzled(place + 8, swizzle), loaded(np.int64(load64(source + 8)), kind))
        return
    store64(target + swizzled(place, swizzle), pattern)
    store64(target + swizzled(place + 8, swizzle), pattern)
    for byte in range(first, last):
        store8(target + swizzled(place + byte, swizzle), load8(source + byte))
    if kind == bulk.F32_FTZ or kind == bulk.TF32 or kind == bulk.TF32_FTZ:
        for byte in range(first, last, 4):
            word = target + swizzled(place + byte, swizzle)
            store32(word, signed32(loaded(np.int64(load32(word)) & 0xFFFFFFFF, kind)))


@inner
def _move_row(state, form, operation, source, place, target, first, last):
    """Move a row whose first byte lies at shared address ``place`` and would lie at host address ``source``: bytes
    ``first`` to ``last`` of it, the rest is filled on a load. Counted in bytes of shared memory."""
    t = state.tensor
    size, swizzle, kind = t[m.ROW_BYTES], t[m.SWIZZLE], t[m.TYPE]
    packed = m.packed_bytes(kind)
    pattern = fill_pattern(kind, t[m.FILL])
    if form == bulk.TENSOR_REDUCE:
        byte = first
        while byte < last:
            byte += reduce_element(source + byte, target + swizzled(place + byte, swizzle), operation, kind)
        return
    as_it_is = packed == 0 and (kind < bulk.F32_FTZ or kind > bulk.TF32_FTZ)
    if as_it_is and swizzle and swizzle != FLIPPED and first == 0 and last == size:
        for part in range(0, size, 16):
            held = target + swizzled(place + part, swizzle)
            if form == bulk.TENSOR_LOAD:
                store64(held, load64(source + part))
                store64(held + 8, load64(source + part + 8))
            else:
                store64(source + part, load64(held))
                store64(source + part + 8, load64(held + 8))
        return
    plain = swizzle == 0 and as_it_is
    if form == bulk.TENSOR_LOAD and plain and first == 0 and last == size:
        copy_bytes(target + place, source, size)
        return
    if form == bulk.TENSOR_STORE and plain:
        copy_bytes(source + first, target + place + first, last - first)
        return
    for part in range(0, size, 16):
        low, high = min(max(first - part, 0), 16), max(min(last - part, 16), 0)
        if form == bulk.TENSOR_LOAD and packed:
            for byte in range(16):
                inside = low <= byte < high and byte < packed
                value = load8(source + part // 16 * packed + byte) if inside else np.int32(0)
                store8(target + swizzled(place + part + byte, swizzle), value)
        elif form == bulk.TENSOR_LOAD:
            _load_part(source + part, target, place + part, low, max(low, high), swizzle, kind, pattern)
        elif packed:
            for byte in range(packed if high > low else 0):
                store8(source + part // 16 * packed + byte, load8(target + swizzled(place + part + byte, swizzle)))
        elif low == 0 and high == 16:
            store64(source + part, load64(target + swizzled(place + part, swizzle)))
            store64(source + part + 8, load64(target + swizzled(place + part + 8, swizzle)))
        else:
            for byte in range(low, high):
                store8(source + part + byte, load8(target + swizzled(place + part + byte, swizzle)))


@inner
def _row(state, form, operation, address, inside, place, targets, follows):
    """One row: that of element 0 of the innermost dimension lies at global ``address``, if the row is ``inside`` the
    tensor. It is moved to or from shared address ``place`` of each of the blocks ``targets``. Returns False where it is
    not there."""
    t = state.tensor
    x, size = t[m.COORDINATE], t[m.ROW_BYTES]
    scale = np.int64(1) if m.packed_bytes(t[m.TYPE]) else np.int64(0)
    elements = size if scale else (size << 3) // t[m.BITS]
    first, last = min(max(-x, 0), elements), max(min(t[m.DIMENSION] - x, elements), 0)
    if not inside or first >= last:
        first = last = np.int64(0)
    start = address + _global_offset(t, x + first)
    bytes_moved = _global_offset(t, last - first)
    host = np.int64(0)
    if bytes_moved:
        host = find_host(state, start, bytes_moved)
        if host == 0:
            state.fault_space, state.fault_address, state.fault_bytes = m.OUTSIDE, start, bytes_moved
            return False
        t[m.NOTE_ROW_BYTES] = bytes_moved
        if follows >= 0:
            _note_row(state, start, follows != 0)
    if form == bulk.TENSOR_PREFETCH:
        return True
    if not scale:
        first, last = _global_offset(t, first), _global_offset(t, last)
        host -= first
    else:
        host -= _global_offset(t, first)
    for rank in range(16):
        if targets >> rank & 1:
            _move_row(state, form, operation, host, place, state.bulk_targets[rank], first, last)
    return True


@inner
def _tile(state, form, operation, place, targets):
    """All rows of a tile."""
    t = state.tensor
    for i in range(1, 5):
        t[m.OFFSET + i - 1] = (t[m.BOX + i] + t[m.STEP + i] - 1) // t[m.STEP + i]
    n1, n2, n3, n4 = t[m.OFFSET], t[m.OFFSET + 1], t[m.OFFSET + 2], t[m.OFFSET + 3]
    for l in range(n4):
        at4 = t[m.COORDINATE + 4] + l * t[m.STEP + 4]
        for k in range(n3):
            at3 = t[m.COORDINATE + 3] + k * t[m.STEP + 3]
            for j in range(n2):
                at2 = t[m.COORDINATE + 2] + j * t[m.STEP + 2]
                beyond = (
                    0 <= at4 < t[m.DIMENSION + 4] and 0 <= at3 < t[m.DIMENSION + 3] and 0 <= at2 < t[m.DIMENSION + 2]
                )
                base = t[m.ADDRESS] + at4 * t[m.STRIDE + 4] + at3 * t[m.STRIDE + 3] + at2 * t[m.STRIDE + 2]
                for i in range(n1):
                    at1 = t[m.COORDINATE + 1] + i * t[m.STEP + 1]
                    inside = beyond and 0 <= at1 < t[m.DIMENSION + 1]
                    if not _row(state, form, operation, base + at1 * t[m.STRIDE + 1], inside, place, targets, -1):
                        return False
                    place += t[m.PITCH]
    _note_tile(state)
    return True


@inner
def _note_tile(state):
    """Note the part of a tile that is in bounds, as one box."""
    t = state.tensor
    strides, counts = state.bulk_strides, state.bulk_counts
    address, some = t[m.ADDRESS] + _global_offset(t, max(t[m.COORDINATE], 0)), t[m.NOTE_ROW_BYTES] > 0
    for i in range(1, 5):
        at, step, rows = t[m.COORDINATE + i], t[m.STEP + i], t[m.OFFSET + i - 1]
        first = (-at + step - 1) // step if at < 0 else np.int64(0)
        last = min((t[m.DIMENSION + i] - 1 - at) // step, rows - 1) if at < t[m.DIMENSION + i] else np.int64(-1)
        some &= first <= last
        counts[i - 1], strides[i - 1] = max(last - first + 1, 0), step * t[m.STRIDE + i]
        address += (at + first * step) * t[m.STRIDE + i]
    note_box(state, address if some else np.int64(0), 4 if some else -1, strides, counts)


@inner
def _columns(state, form, operation, place, targets):
    """The pixels of an im2col map, from the coordinates on."""
    t = state.tensor
    spatial = t[m.RANK] - 2
    batch = t[m.RANK] - 1
    follows = np.int64(0)
    for _ in range(t[m.PIXELS]):
        at = t[m.COORDINATE + batch]
        inside = 0 <= at < t[m.DIMENSION + batch]
        address = t[m.ADDRESS] + at * t[m.STRIDE + batch]
        for i in range(spatial):
            at = t[m.COORDINATE + 1 + i] + t[m.OFFSET + i]
            inside = inside and 0 <= at < t[m.DIMENSION + 1 + i]
            address += at * t[m.STRIDE + 1 + i]
        if not _row(state, form, operation, address, inside, place, targets, follows):
            return False
        place += t[m.PITCH]
        follows = np.int64(inside)
        carried = True
        for i in range(spatial):
            if carried:
                t[m.COORDINATE + 1 + i] += t[m.STEP + 1 + i]
                carried = t[m.COORDINATE + 1 + i] >= t[m.DIMENSION + 1 + i] + t[m.UPPER + i]
                if carried:
                    t[m.COORDINATE + 1 + i] = t[m.LOWER + i]
                    follows = np.int64(0)
        if carried:
            t[m.COORDINATE + batch] += 1
    return True


@inner
def _step_wide(t):
    """The next pixel of a wide map: along W through the bounding box, then of the next image, while H and D stay."""
    t[m.COORDINATE + 1] += t[m.STEP + 1]
    if t[m.COORDINATE + 1] >= t[m.DIMENSION + 1] + t[m.UPPER]:
        t[m.COORDINATE + 1] = t[m.LOWER]
        t[m.COORDINATE + t[m.RANK] - 1] += 1
        return np.int64(0)
    return np.int64(1)


@inner
def _wide_columns(state, form, mode, operation, place, targets):
    """The pixels of im2col::w and of im2col::w::128, and their halos: of the first those that follow; of the second
    those that follow each 32 pixels, the first of each set of 32 behind the pixels, then the second ones (as
    tcgen05.cp.4x256b takes rows)."""
    t = state.tensor
    batch, follows, groups = t[m.RANK] - 1, np.int64(0), np.int64(mode == bulk.MODE_WIDE_128)
    count = t[m.PIXELS] + t[m.HALO]
    for i in range(count):
        at, wide = t[m.COORDINATE + batch], t[m.COORDINATE + 1] + t[m.OFFSET]
        inside = 0 <= at < t[m.DIMENSION + batch] and 0 <= wide < t[m.DIMENSION + 1]
        address = t[m.ADDRESS] + at * t[m.STRIDE + batch] + wide * t[m.STRIDE + 1]
        for other in range(2, batch):
            inside = inside and 0 <= t[m.COORDINATE + other] < t[m.DIMENSION + other]
            address += t[m.COORDINATE + other] * t[m.STRIDE + other]
        if i < t[m.PIXELS] or groups == 0:
            if not _row(state, form, operation, address, inside, place + i * t[m.PITCH], targets, follows):
                return False
        if groups and i >= bulk.WIDE_GROUP and i % bulk.WIDE_GROUP < t[m.HALO]:
            again = np.int64(-1) if i < t[m.PIXELS] else follows  # it is read once
            row = bulk.WIDE_PIXELS + i % bulk.WIDE_GROUP * 4 + i // bulk.WIDE_GROUP - 1
            if not _row(state, form, operation, address, inside, place + row * t[m.PITCH], targets, again):
                return False
        follows = _step_wide(t) & np.int64(inside)
    return True


@inner
def _rows(state, form, operation, place, targets):
    """The four rows of gather4 and scatter4."""
    t = state.tensor
    for i in range(4):
        at = t[m.COORDINATE + 1 + i]
        inside = 0 <= at < t[m.DIMENSION + 1]
        if not _row(
            state, form, operation, t[m.ADDRESS] + at * t[m.STRIDE + 1], inside, place, targets, np.int64(i > 0)
        ):
            return False
        place += t[m.PITCH]
    return True


@inner
def box_rows(state, mode):
    """Rows of the box, those out of bounds included."""
    t = state.tensor
    if mode == bulk.MODE_ROWS:
        return np.int64(4)
    if mode == bulk.MODE_IM2COL or mode == bulk.MODE_WIDE:
        return t[m.PIXELS] + t[m.HALO]
    if mode == bulk.MODE_WIDE_128:
        return t[m.PIXELS] + t[m.HALO] * (bulk.WIDE_PIXELS // bulk.WIDE_GROUP)
    rows = np.int64(1)
    for i in range(1, 5):
        rows *= (t[m.BOX + i] + t[m.STEP + i] - 1) // t[m.STEP + i]
    return rows


@apart
def move_box(state, form, mode, operation, place, targets):
    """Move the box that ``State.tensor`` describes: to or from shared address ``place`` of the blocks with the ranks
    ``targets``, whose shared memory begins at ``State.bulk_targets``. False, with the fault's fields set, where global
    memory is not there."""
    t = state.tensor
    t[m.RUNS] = t[m.NEW_ROWS] = t[m.NOTE_ROW_BYTES] = 0
    packed = m.packed_bytes(t[m.TYPE])
    unit = np.int64(16 if packed else 2 if t[m.TYPE] == bulk.PACKED_4_IN_8 else 1)
    if t[m.COORDINATE] & (unit - 1):
        state.fault_space, state.fault_address, state.fault_bytes = m.ODD_COORDINATE, t[m.COORDINATE], unit
        return False
    if mode == bulk.MODE_TILE:
        return _tile(state, form, operation, place, targets)
    if mode == bulk.MODE_ROWS:
        done = _rows(state, form, operation, place, targets)
    elif mode == bulk.MODE_IM2COL:
        done = _columns(state, form, operation, place, targets)
    else:
        done = _wide_columns(state, form, mode, operation, place, targets)
    if done:
        _close_run(state)
        if t[m.RUNS] == 0:
            note_box(state, np.int64(0), -1, state.bulk_strides, state.bulk_counts)
        _flush_runs(state)
    return done
