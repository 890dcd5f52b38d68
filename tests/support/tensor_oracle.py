"""What a tensor copy moves, by NumPy and loops over elements: the PTX ISA's description of tiled and im2col mode, word
for word.

Imports nothing from gpusim. Sizes and coordinates go as tensor maps have them, the innermost dimension first.
"""

from __future__ import annotations

from itertools import product

import numpy as np


def swizzled(place: int, mode: str) -> int:
    """Where the byte at shared address ``place`` lies with a swizzle: parts of a row of 128 bytes change places by the
    row's number."""
    row, at = place // 128, place % 128
    if mode == "128B":
        at = (at // 16 ^ row % 8) * 16 + at % 16
    elif mode == "64B":
        at = at // 64 * 64 + (at % 64 // 16 ^ row % 4) * 16 + at % 16
    elif mode == "32B":
        at = at // 32 * 32 + (at % 32 // 16 ^ row % 2) * 16 + at % 16
    elif mode == "128B_ATOM_64B":
        at = (at // 64 ^ row % 2) * 64 + at % 64
    elif mode.startswith("128B_ATOM_32B"):
        at = (at // 32 ^ row % 4) * 32 + at % 32
        if mode.endswith("FLIP_8B"):
            at = at // 16 * 16 + (at % 16 // 8 ^ row % 2) * 8 + at % 8
    return row * 128 + at


def tile_elements(shape, box, steps, at):
    """For each element of a tile, in the order of shared memory, its index in the tensor or None where it is out of
    bounds."""
    counts = [box[0], *(-(-size // step) for size, step in zip(box[1:], steps[1:], strict=True))]
    steps = [1, *steps[1:]]
    for index in product(*(range(count) for count in reversed(counts))):
        place = [c + i * step for c, i, step in zip(at, reversed(index), steps, strict=True)]
        inside = all(0 <= p < size for p, size in zip(place, shape, strict=True))
        yield tuple(place) if inside else None


def column_elements(shape, lower, upper, channels, pixels, steps, at, offsets):
    """The same of an im2col map, whose pixels wander through the bounding box from ``at`` on."""
    spatial, base = len(shape) - 2, list(at)
    for _ in range(pixels):
        for channel in range(channels):
            place = [at[0] + channel, *(b + o for b, o in zip(base[1:-1], offsets, strict=True)), base[-1]]
            inside = all(0 <= p < size for p, size in zip(place, shape, strict=True))
            yield tuple(place) if inside else None
        for i in range(1, spatial + 1):
            base[i] += steps[i]
            if base[i] <= shape[i] - 1 + upper[i - 1]:
                break
            base[i] = lower[i - 1]
        else:
            base[-1] += 1


def wide_elements(shape, lower, upper, channels, pixels, step, at, halo, offset, sets_of):
    """The same of a wide im2col map: ``pixels`` along W, image by image, and ``halo`` more of them; with ``sets_of``
    not those at the end but those behind each so many pixels, which lie behind all pixels, one of each set, then the
    next of each."""
    walk, w, n = [], at[1], at[-1]
    for _ in range(pixels + halo):
        walk.append([*(at[2:-1]), n, w + offset])
        w += step
        if w > shape[1] - 1 + upper:
            w, n = lower, n + 1
    order = list(range(pixels + halo))
    if sets_of:
        order[pixels:] = [first + i for i in range(halo) for first in range(sets_of, pixels + 1, sets_of)]
    for position in order:
        *others, image, width = walk[position]
        for channel in range(channels):
            place = [at[0] + channel, width, *others, image]
            inside = all(0 <= p < size for p, size in zip(place, shape, strict=True))
            yield tuple(place) if inside else None


def row_elements(shape, width, column, rows):
    """The same of gather4 and scatter4."""
    for row in rows:
        for i in range(width):
            inside = 0 <= column + i < shape[0] and 0 <= row < shape[1]
            yield (column + i, row) if inside else None


def shared_places(count: int, row_bytes: int, size: int, swizzle: str, start: int):
    """Shared address of each of ``count`` elements of ``size`` bytes, in rows of ``row_bytes``, the first at
    ``start``."""
    span = {"none": 0, "32B": 32, "64B": 64}.get(swizzle, 128)
    pitch = max(row_bytes, span)
    for element in range(count):
        byte = element * size
        yield swizzled(start + byte // row_bytes * pitch + byte % row_bytes, swizzle)


def fill_bytes(dtype: np.dtype, nan: bool) -> bytes:
    if not nan:
        return bytes(dtype.itemsize)
    return b"\xff" * (dtype.itemsize - 1) + b"\x7f"


def loaded(
    tensor: np.ndarray, elements, row_bytes: int, swizzle: str, start: int, size: int, nan: bool = False
) -> np.ndarray:
    """uint8[size]: shared memory from address ``start`` on after a load, 0xEE where nothing is written; ``tensor`` has
    its innermost dimension last."""
    elements = list(elements)
    shared = np.full(size, 0xEE, np.uint8)
    for index, place in zip(
        elements, shared_places(len(elements), row_bytes, tensor.itemsize, swizzle, start), strict=True
    ):
        value = fill_bytes(tensor.dtype, nan) if index is None else tensor[tuple(reversed(index))].tobytes()
        shared[place - start : place - start + len(value)] = list(value)
    return shared


def stored(
    tensor: np.ndarray, elements, row_bytes: int, swizzle: str, start: int, shared: np.ndarray, combine=None
) -> np.ndarray:
    """The tensor after a store of uint8[size] shared memory, or after a reduction with ``combine(old, new)``."""
    elements, out = list(elements), tensor.copy()
    for index, place in zip(
        elements, shared_places(len(elements), row_bytes, tensor.itemsize, swizzle, start), strict=True
    ):
        if index is not None:
            at = place - start
            value = shared[at : at + tensor.itemsize].view(tensor.dtype)[0]
            key = tuple(reversed(index))
            out[key] = value if combine is None else combine(out[key], value)
    return out
