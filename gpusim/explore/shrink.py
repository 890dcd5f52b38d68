"""The smallest workload that still diverges: each axis brought down as far as the divergence lasts.

Mental model: a shape is a value an axis; smaller is nearer to the kernel's simplest shape. Axis by axis numbers are
halved towards 1 and then lowered step by step, choices go back to the kernel's first one, until a whole round changes
nothing. What is tried is remembered, so that the same shape is never run twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Shape = dict[str, Any]


def shrink(
    shape: Mapping[str, Any],
    diverges: Callable[[Shape], bool],
    axes: Mapping[str, Sequence[Any]],
    small: Mapping[str, Any],
    *,
    most_tries: int = 60,
    size: Callable[[Shape], float] = lambda shape: 0.0,
) -> Shape:
    """The smallest shape found, in at most ``most_tries`` runs of ``diverges`` (True while the divergence lasts; False
    also for shapes that the kernel refuses). ``axes``: values worth trying of each axis; ``small``: the kernel's small
    shape, whose choices count as the simplest; ``size``: what no step may make larger, such as the number of blocks,
    which grows when a block's threads become fewer."""
    best = dict(shape)
    tried: set[tuple] = {_key(best)}
    left = most_tries

    def holds(candidate: Shape) -> bool:
        nonlocal left
        key = _key(candidate)
        if key in tried or left <= 0:
            return False
        tried.add(key)
        if size(candidate) > size(best):
            return False
        left -= 1
        return diverges(candidate)

    changed = True
    while changed and left > 0:
        changed = False
        for axis in best:
            for value in _simpler(best[axis], axes.get(axis, ()), small.get(axis)):
                candidate = {**best, axis: value}
                if holds(candidate):
                    best, changed = candidate, True
                    break
    return best


def _simpler(value: Any, known: Sequence[Any], small: Any) -> Iterator[Any]:
    """Simpler values than ``value``, the simplest first."""
    if isinstance(value, bool) or not isinstance(value, int):
        if value != small and small is not None:
            yield small
        return
    seen = set()
    # The known values below, then bisection towards the value itself: the first that still diverges is taken.
    candidates = [1, small, *sorted(v for v in known if isinstance(v, int) and not isinstance(v, bool))]
    low = 1
    while low < value:
        candidates.append(low)
        low = (low + value + 1) // 2 if low + 1 < value else value
    for each in sorted(v for v in candidates if isinstance(v, int) and 0 < v < value):
        if each not in seen:
            seen.add(each)
            yield each


def _key(shape: Mapping[str, Any]) -> tuple:
    return tuple(shape.items())
