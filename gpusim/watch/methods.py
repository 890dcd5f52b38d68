"""Measured values of several methods made comparable: hosts that take turns, a driver that came and stayed.

Mental model: what comes back (two hosts, two states of a clock) is compared with its neighbours each time, so that its
offset is known and can be taken off. What came and stayed stands where it began as a place of its own: what moved there
is the method's doing.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

#: Points to either side of a change of method that say how far apart the two lie.
_NEAR = 8


def align_methods(values: np.ndarray, keys: Sequence[tuple[str, ...]]) -> tuple[np.ndarray, list[int]]:
    """``values``, float64[n], whose methods are ``keys`` (one text for each name of the method), with the offsets of
    what comes back taken off, and the places, from 0, where something begins that came and stayed."""
    new: set[int] = set()
    aligned = values.copy()
    for column in range(len(keys[0]) if keys else 0):
        names = [key[column] for key in keys]
        starts = [0, *(i + 1 for i, (one, two) in enumerate(pairwise(names)) if one != two), len(names)]
        runs = [names[start] for start in starts[:-1]]
        back = {name for name in runs if runs.count(name) > 1}
        offsets = _offsets(aligned, keys, column, starts, back)
        aligned -= np.array([offsets.get(name, 0.0) for name in names])
        for at, (one, two) in zip(starts[1:], pairwise(runs)):
            if two not in names[:at] and not (one in offsets and two in offsets):
                new.add(at)
    return aligned, sorted(new)


def _offsets(
    values: np.ndarray, keys: Sequence[tuple[str, ...]], column: int, starts: Sequence[int], back: set[str]
) -> dict[str, float]:
    """The offset of each name that comes back against the one with the most points, as far as changes of this
    ``column`` alone lead."""
    steps: dict[str, list[tuple[str, float]]] = {}
    for first, at, end in zip(starts, starts[1:-1], starts[2:]):
        old, now = keys[at - 1], keys[at]
        if sum(one != two for one, two in zip(old, now)) > 1 or not {old[column], now[column]} <= back:
            continue
        step = float(np.median(values[at : min(end, at + _NEAR)]) - np.median(values[max(first, at - _NEAR) : at]))
        steps.setdefault(old[column], []).append((now[column], step))
        steps.setdefault(now[column], []).append((old[column], -step))
    if not steps:
        return {}
    first_name = max(sorted(steps), key=lambda name: sum(key[column] == name for key in keys))
    known, todo = {first_name: 0.0}, [first_name]
    while todo:
        here = todo.pop()
        for there in sorted({name for name, _ in steps[here]} - known.keys()):
            known[there] = known[here] + float(np.median([step for name, step in steps[here] if name == there]))
            todo.append(there)
    return known
