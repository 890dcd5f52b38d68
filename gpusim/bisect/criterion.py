"""When a value counts as BAD's rather than as GOOD's.

Mental model: between the two ends lies a limit; a value on BAD's side of it is bad. Without a word of the user's it
lies half way, so that what is found is a step that takes the value across the middle; a threshold puts it so many
percent beyond GOOD, a value where it says, and ``exact`` calls bad whatever is not GOOD's very value.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from gpusim.errors import UsageError

#: Of the difference, where nothing else is said.
HALF = 0.5


@dataclass(frozen=True)
class Wish:
    """How the user wants values told apart: at most one of ``threshold_percent`` (beyond GOOD), ``limit`` and
    ``exact``."""

    threshold_percent: float | None = None
    limit: float | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        if sum((self.threshold_percent is not None, self.limit is not None, self.exact)) > 1:
            raise UsageError("--threshold, --limit and --exact are three ways to say the same: give one")


@dataclass(frozen=True)
class Criterion:
    """``good`` and ``bad``: the values at both ends; ``limit``: from which on a value is bad (``beyond``: only past
    it)."""

    good: float
    bad: float
    limit: float
    beyond: bool
    exact: bool = False

    def is_bad(self, value: float) -> bool:
        """Whether ``value`` counts as BAD's."""
        if self.exact or self.good == self.bad:
            return value != self.good
        past = (value - self.limit) * math.copysign(1.0, self.bad - self.good)
        return past > 0 if self.beyond else past >= 0

    @property
    def differs(self) -> bool:
        """Whether the two ends are on two sides of it."""
        return self.good != self.bad and self.is_bad(self.bad) and not self.is_bad(self.good)


def criterion_of(good: float, bad: float, wish: Wish, share: float = HALF) -> Criterion:
    """The criterion for values from ``good`` to ``bad``; ``share`` of their difference is the limit where ``wish`` says
    none."""
    if wish.exact:
        return Criterion(good, bad, good, True, exact=True)
    if wish.limit is not None:
        return Criterion(good, bad, wish.limit, True)
    if wish.threshold_percent is not None:
        sign = math.copysign(1.0, bad - good)
        return Criterion(good, bad, good + sign * abs(good) * wish.threshold_percent / 100.0, True)
    return Criterion(good, bad, good + share * (bad - good), False)
