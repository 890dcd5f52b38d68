"""Where in a row of points the value steps: by halves, past points that have no value, without taking for granted that
it steps once.

Mental model: a step lies between two points whose values are on two sides; the point in the middle says in which half
one lies. A row may step several times: halving still ends at a real step, and whatever neighbouring points it has read
on the way and that differ beside that one enclose others. What changes and changes back between two points that read
alike is seen by reading every point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

#: The value at a point, None where it has none.
Read = Callable[[int], float | None]


@dataclass(frozen=True)
class Step:
    """The value changes behind point ``before``, at ``after`` or earlier: at one of ``candidates``, of which all but
    the last have no value (or were not read, where runs were limited)."""

    before: int
    after: int

    @property
    def candidates(self) -> range:
        """The points of which one is the first with the new value."""
        return range(self.before + 1, self.after + 1)

    @property
    def is_exact(self) -> bool:
        """Whether it is known at which point."""
        return self.after == self.before + 1


class OutOfRuns(Exception):
    """No further point may be read."""


class Search:
    """A search over ``count`` points, each read at most once, ``most_runs`` of them at the most. ``known``: what was
    read."""

    def __init__(self, count: int, read: Read, most_runs: int | None = None) -> None:
        self.count, self._read, self._most = count, read, most_runs
        self.known: dict[int, float | None] = {}

    def value(self, index: int) -> float | None:
        """The value at ``index``. Raises OutOfRuns."""
        if index not in self.known:
            if self._most is not None and len(self.known) >= self._most:
                raise OutOfRuns
            self.known[index] = self._read(index)
        return self.known[index]

    def step(self, first: int, last: int, is_new: Callable[[float], bool]) -> Step:
        """A step between ``first`` and ``last``, whose values are on two sides of ``is_new``."""
        failures = 0
        while (index := self._between(first, last, failures)) is not None:
            try:
                value = self.value(index)
            except OutOfRuns:
                break
            if value is None:
                failures += 1
                continue
            failures = 0
            first, last = (first, index) if is_new(value) else (index, last)
        return Step(first, last)

    def steps(self, same: Callable[[float, float], bool]) -> list[Step]:
        """Every step between points that have been read, found by halving wherever two neighbours differ."""
        while True:
            wide = [pair for pair in self.differing(same) if self._between(pair.before, pair.after, 0) is not None]
            if not wide:
                break
            try:
                for pair in wide:
                    self._halve(pair)
            except OutOfRuns:
                break
        return self.differing(same)

    def differing(self, same: Callable[[float, float], bool]) -> list[Step]:
        """Pairs of points that have values, have none between them that has one, and differ."""
        valued = sorted((index, value) for index, value in self.known.items() if value is not None)
        return [Step(a, b) for (a, before), (b, after) in pairwise(valued) if not same(before, after)]

    def _halve(self, pair: Step) -> None:
        """Read a point between the two that has a value, if there is one."""
        failures = 0
        while (index := self._between(pair.before, pair.after, failures)) is not None:
            if self.value(index) is not None:
                return
            failures += 1

    def _between(self, first: int, last: int, failures: int) -> int | None:
        """The point to read next: the middle one and, where those have no value, spread over the whole range, for
        points without a value come in runs."""
        free = [index for index in range(first + 1, last) if index not in self.known]
        if not free:
            return None
        wanted = first + (last - first) * _spread(failures)
        return min(free, key=lambda index: abs(index - wanted))


def _spread(number: int) -> float:
    """1/2, 1/4, 3/4, 1/8, 5/8 ...: the van der Corput sequence in base 2."""
    number, share, width = number + 1, 0.0, 0.5
    while number:
        share += width * (number & 1)
        number >>= 1
        width /= 2
    return share
