"""Hypothesis strategies over the shapes of a kernel: sizes near boundaries, tails, powers of two, tiny and huge.

Mental model: a kernel's shape is a value for each of its axes. Axes of :data:`SIZES` count work (rows, columns,
tokens): any whole number will do, and the interesting ones lie beside the boundaries of warps, tiles, lines, waves and
powers of two. All other axes are choices from the values that the kernel lists. The work of a drawn shape, counted as
the product of its sizes over those of the kernel's small shape, stays under ``growth``, so that a search spends its
time on many cases and not on one. What a kernel itself refuses, the caller rejects.

Imports neither gpusim nor a kernel: an entry's axes come as plain values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st

#: Axes that count work: any positive whole number makes sense.
SIZES = frozenset(
    [
        "n",
        "m",
        "k",
        "rows",
        "columns",
        "tokens",
        "vocabulary",
        "sequences",
        "context",
        "batch",
        "batches",
        "height",
        "width",
        "size",
        "channels",
        "filters",
        "planes",
        "vertices",
        "experts",
        "mean_row_length",
        "mean_degree",
        "distinct",
        "addresses",
        "draws",
        "limit",
        "footprint_kib",
        "buffer_kib",
    ]
)
#: What boundaries are multiples of: lanes of a warp, tiles, lines of 4-byte words, usual blocks, pages of a cache.
BOUNDARIES = (8, 16, 32, 64, 128, 256, 1024)
#: Work of a shape against that of the kernel's small one, at most, unless the caller says otherwise.
GROWTH = 64


def sizes(most: int, *, marks: Sequence[int] = ()) -> st.SearchStrategy[int]:
    """Whole numbers from 1 to ``most``: the first few, beside multiples of :data:`BOUNDARIES` and of ``marks``, beside
    powers of two, at ``most``, and anything between. Shrinks towards 1."""
    near = [boundary for boundary in (*BOUNDARIES, *marks) if 1 < boundary <= most]
    drawn = [st.integers(1, min(most, 9)), st.integers(1, most)]
    if near:
        drawn.append(st.sampled_from(near).flatmap(lambda boundary: _beside(boundary, most)))
    powers = [1 << shift for shift in range(1, most.bit_length())]
    if powers:
        drawn.append(st.sampled_from(powers).flatmap(lambda power: _around(power, most)))
    drawn.append(_around(most, most))
    return st.one_of(drawn)


def _beside(boundary: int, most: int) -> st.SearchStrategy[int]:
    """A multiple of ``boundary``, one less or one more, within 1 and ``most``."""
    return st.integers(1, most // boundary).flatmap(lambda times: _around(times * boundary, most))


def _around(value: int, most: int) -> st.SearchStrategy[int]:
    return st.sampled_from((value, value - 1, value + 1)).map(lambda each: max(1, min(most, each)))


@st.composite
def shapes(
    draw: st.DrawFn,
    axes: Mapping[str, Sequence[Any]],
    small: Mapping[str, Any],
    *,
    growth: float = GROWTH,
    marks: Sequence[int] = (),
    fixed: Mapping[str, Any] | None = None,
    bounds: Mapping[str, range] | None = None,
) -> dict[str, Any]:
    """A shape: every axis of ``axes`` (values worth trying) with a value; ``small`` is the kernel's small shape.

    ``growth``: most work, as a multiple of the small shape's; ``marks``: sizes to draw beside (a wave of blocks times
    their threads, a production shape); ``fixed``: axes that keep a value; ``bounds``: axes that are any whole number of
    a range. The order in which sizes take their part of the growth is drawn too, so that wide, tall and square shapes
    all come up.
    """
    fixed, bounds = dict(fixed or {}), bounds or {}
    shape = {axis: fixed.get(axis) for axis in axes}
    left = float(growth)
    keeps_grain = draw(st.booleans())
    names = [axis for axis in axes if axis not in fixed]
    counted = [axis for axis in names if axis in bounds or _is_size(axis, small[axis])]
    for axis in draw(st.permutations(counted)):
        most = max(1, int(max(1, small[axis]) * max(1.0, left)))
        if axis in bounds:
            most = max(1, min(most, bounds[axis][-1]))
        value = draw(sizes(most, marks=[mark for mark in marks if mark <= most]))
        if axis in bounds:
            shape[axis] = within(value, bounds[axis])
        else:
            shape[axis] = grained(value, (*axes[axis], small[axis])) if keeps_grain else value
        left /= max(1.0, shape[axis] / max(1, small[axis]))
    for axis in names:
        if axis not in counted:
            shape[axis] = draw(_choice(axis, axes[axis], small[axis], left))
            if _is_number(shape[axis]) and _is_number(small[axis]) and small[axis] > 0:
                left /= max(1.0, shape[axis] / small[axis])
    return shape


@st.composite
def beside(
    draw: st.DrawFn,
    known: Sequence[Mapping[str, Any]],
    axes: Mapping[str, Sequence[Any]],
    small: Mapping[str, Any],
    *,
    growth: float = GROWTH,
    fixed: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """A shape of ``known`` (what a network launches; axes that it leaves out are choices) or one near it: sizes one
    more or less, half or twice, or beside a boundary, as the next model, batch or split has them. A neighbour whose
    work is more than ``growth`` times that of ``small`` is given up for the known shape itself."""
    start = {axis: value for axis, value in draw(st.sampled_from(list(known))).items() if axis in axes}
    counted = [axis for axis, value in start.items() if _is_size(axis, value)]
    moved = draw(st.sets(st.sampled_from(counted), max_size=2)) if counted else set()
    start |= {axis: draw(_choice(axis, axes[axis], small[axis], 1.0)) for axis in axes if axis not in start}
    start |= dict(fixed or {})
    near = {axis: draw(_near(value)) if axis in moved else value for axis, value in start.items()}
    near |= dict(fixed or {})
    chosen = near if work(near, small) <= growth else start
    return {axis: chosen[axis] for axis in axes}


def _near(value: int) -> st.SearchStrategy[int]:
    beside_boundary = st.sampled_from(BOUNDARIES).map(lambda boundary: max(1, value // boundary * boundary))
    steps = st.sampled_from((value - 1, value + 1, value // 2, 2 * value)).map(lambda each: max(1, each))
    return steps | beside_boundary


def work(shape: Mapping[str, Any], small: Mapping[str, Any]) -> float:
    """Work of a shape as a multiple of the small one's: the product of all numbers that add to it."""
    ratios = (
        value / small[axis]
        for axis, value in shape.items()
        if _is_number(value) and _is_number(small.get(axis)) and small[axis] > 0 and not _divides(axis)
    )
    return math.prod(max(1.0, ratio) for ratio in ratios)


def within(value: int, bounds: range) -> int:
    """The number of ``bounds`` at ``value`` or next below it, the least where there is none."""
    return bounds[min(len(bounds) - 1, max(0, (value - bounds.start) // bounds.step))]


def grained(value: int, known: Sequence[int]) -> int:
    """``value`` made as round as the values ``known`` to work: a power of two where all of them are, else a multiple
    of their greatest common divisor; rounded down, but never below the least of its kind."""
    least = min(known)
    if len(known) > 2 and all(each & (each - 1) == 0 for each in known):
        return max(least, 1 << (value.bit_length() - 1))
    grain = math.gcd(*known)
    return max(grain, value // grain * grain)


def _is_size(axis: str, value: Any) -> bool:
    return axis in SIZES and _is_number(value) and value > 0


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _divides(axis: str) -> bool:
    """Whether more of it is no more work."""
    return axis.startswith("block_") or axis == "tile"


def _choice(axis: str, values: Sequence[Any], small: Any, left: float) -> st.SearchStrategy[Any]:
    """One of the values that the kernel lists, or its small one, first so that shrinking ends there. Numbers beyond
    what is left of the work are out, except for the block's size, which divides work instead of adding to it."""
    kept = [
        value
        for value in values
        if _divides(axis) or not _is_number(value) or not _is_number(small) or value <= max(1, small) * max(1.0, left)
    ]
    return st.sampled_from(list(dict.fromkeys([small, *kept])))


def wave_marks(
    sm_count: int, blocks_per_sm: Sequence[int] = (1, 2, 8), block_threads: Sequence[int] = (128, 256)
) -> list[int]:
    """Element counts at which blocks of usual sizes fill a machine of ``sm_count`` SMs exactly."""
    return sorted({sm_count * blocks * threads for blocks in blocks_per_sm for threads in block_threads})
