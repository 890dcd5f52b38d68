"""The search over an order of points: what was read, which steps were found, and what is left open.

Mental model: both ends are read first: without a difference there is nothing to find, and that, too, is an answer. Then
a step is found by halves; what else differs among the points that were read is told, since a search by halves finds a
step, not all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from gpusim.bisect.criterion import Criterion, Wish, criterion_of
from gpusim.bisect.reading import Order, Point, Reading
from gpusim.bisect.search import OutOfRuns, Search, Step
from gpusim.errors import NoDataError
from gpusim.io.progress import say, task

COMMIT = "commit"


@dataclass(frozen=True)
class Found:
    """What a search over ``points`` gave, all in ``metric``. ``steps``: those that were found, the one that crosses the
    limit first; empty where the ends do not differ. ``further``: pairs of points that differ beside them, within which
    more steps lie. ``readings`` by place.
    ``turned``: the first point is BAD's."""

    what: str
    metric: str
    points: Sequence[Point]
    criterion: Criterion
    readings: dict[int, Reading] = field(repr=False)
    steps: tuple[Step, ...] = ()
    further: tuple[Step, ...] = ()
    turned: bool = False

    @property
    def plural(self) -> str:
        """What several points are called."""
        return plural_of(self.what)

    @property
    def is_exact(self) -> bool:
        """Whether every step that was found is at one point."""
        return all(step.is_exact for step in self.steps)

    def value(self, index: int) -> float | None:
        """The value at a place that was read."""
        return self.readings[index].value(self.metric)


def find_steps(
    order: Order, wish: Wish, metric: str | None, *, all_steps: bool = False, every: bool = False,
    most_runs: int | None = None, turned: bool = False, preferred: Sequence[str] = (),
) -> Found:  # fmt: skip
    """Find where ``order`` steps. ``metric``: None takes the first of ``preferred`` in which the ends differ.
    ``all_steps``: each step that leaves a trace between points that are read; ``every``: read all points. Raises
    NoDataError where an end has no value."""
    last = len(order.points) - 1
    readings: dict[int, Reading] = {}
    shown = task(f"bisecting {plural_of(order.what)}")

    def read(index: int) -> float | None:
        if index not in readings:
            readings[index] = order.read(index)
            told = readings[index].refused or ", ".join(
                f"{n} {v:g}" for n, v in readings[index].values.items() if n in wanted
            )
            say(f"{order.what} {order.points[index].label}: {told}")
        return readings[index].value(chosen)

    wanted: set[str] = set(preferred) if metric is None else {metric}
    chosen = metric or preferred[0]
    with shown:
        for index in (0, last):
            if read(index) is None:
                end = "GOOD" if (index == 0) != turned else "BAD"
                raise NoDataError(
                    f"{end}, {order.what} {order.points[index].label}, has no value: {readings[index].refused}; name another one"
                )
        if metric is None:
            differs = (name for name in preferred if readings[0].values.get(name) != readings[last].values.get(name))
            chosen = next(differs, preferred[-1])
        search = Search(len(order.points), read, most_runs)
        ends = [search.value(index) for index in (0, last)]
        # A number that stands for machine code has no size: it is another one, or it is not.
        good, bad = reversed(ends) if turned else ends
        assert good is not None and bad is not None
        criterion = criterion_of(good, bad, Wish(exact=True) if chosen == "code" else wish)
        if not criterion.differs and not every:
            return Found(order.what, chosen, order.points, criterion, readings, turned=turned)
        first = search.step(0, last, lambda value: criterion.is_bad(value) != turned) if criterion.differs else None
        if every:
            with suppress(OutOfRuns):
                for index in range(last + 1):
                    search.value(index)
        if all_steps or every:
            steps = tuple(search.steps(_same))
            return Found(order.what, chosen, order.points, criterion, readings, steps, turned=turned)
        further = tuple(step for step in search.differing(_same) if step != first)
        found = () if first is None else (first,)
        return Found(order.what, chosen, order.points, criterion, readings, found, further, turned)


def plural_of(what: str) -> str:
    """``commits``, ``versions of ptxas``."""
    return "commits" if what == COMMIT else f"versions of {what}"


def _same(before: float, after: float) -> bool:
    return before == after
