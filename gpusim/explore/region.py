"""The region that a divergence stands for: a short rule over the axes, with witnesses inside and outside.

Mental model: runs are points in the space of shapes, some of which diverge. A rule is a conjunction of simple
statements about axes (``n % 32 != 0``, ``rows < 64``, ``dtype == 'float16'``). It is grown greedily: each step takes
the statement that leaves out most of the runs that do not diverge while keeping the case it must explain, as long as
that helps. It is a description learnt from samples, not a proof: its precision and reach are counted on the runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gpusim.io.percent import signed_percent

Shape = Mapping[str, Any]
#: Divisors that remainders are looked at for: vectors, warps, lines, tiles.
DIVISORS = (2, 4, 8, 16, 32, 64, 128, 256)
MOST_STATEMENTS = 3
#: How much better a second conjunction must tell the runs apart, in F-measure, to be worth reading. guess
LEAST_GAIN = 0.03
#: Share of two regions' divergences that the one region in their place may leave out. guess
MOST_LOST_SHARE = 0.05
WITNESSES = 3


@dataclass(frozen=True)
class Statement:
    """``axis op value``; ``op``: ``<``, ``>=``, ``==``, ``!=``, ``%==``, ``%!=`` (a multiple of ``value``, or none)."""

    axis: str
    op: str
    value: Any

    def holds(self, shape: Shape) -> bool:
        """Whether it is true of ``shape``."""
        value = shape[self.axis]
        if self.op == "<":
            return value < self.value
        if self.op == ">=":
            return value >= self.value
        if self.op == "==":
            return value == self.value
        if self.op == "!=":
            return value != self.value
        return (value % self.value == 0) == (self.op == "%==")

    def __str__(self) -> str:
        if self.op.startswith("%"):
            return f"{self.axis} % {self.value} {self.op[1:]} 0"
        return f"{self.axis} {self.op} {self.value!r}"


@dataclass(frozen=True)
class LabelledRun:
    """A shape that was run, its divergence, and whether that is one."""

    shape: Shape
    divergence: float
    fails: bool


@dataclass(frozen=True)
class Region:
    """A rule and what the runs say of it: ``inside`` diverge with it, ``misses`` satisfy it without
    diverging, ``escapes`` diverge outside it; divergences inside lie from ``low`` to ``high``. ``others``: conjunctions
    that overlap with ``statements`` and stand for the same divergences (:func:`join`)."""

    statements: tuple[Statement, ...]
    low: float
    high: float
    inside: int
    misses: int
    escapes: int
    witnesses_inside: tuple[Shape, ...]
    witnesses_outside: tuple[Shape, ...]
    others: tuple[tuple[Statement, ...], ...] = ()

    @property
    def rules(self) -> tuple[tuple[Statement, ...], ...]:
        """The conjunctions of which one must hold."""
        return (self.statements, *self.others)

    def holds(self, shape: Shape) -> bool:
        """Whether ``shape`` lies in the region."""
        return any(all(statement.holds(shape) for statement in rule) for rule in self.rules)

    def __str__(self) -> str:
        rule = " or ".join(" and ".join(map(str, rule)) or "every shape" for rule in self.rules)
        return f"{rule}: {_percent(self.low)} to {_percent(self.high)}"


def learn(runs: Sequence[LabelledRun], case: Shape) -> Region:
    """The region around ``case`` (a shape that diverges) that ``runs`` suggest; ``case`` always lies in it.

    Only divergences of the case's sign count as such. Never raises for runs that hold the case.
    """
    sign = next(run.divergence for run in runs if dict(run.shape) == dict(case)) >= 0
    failing = [run for run in runs if run.fails and (run.divergence >= 0) == sign]
    passing = [run for run in runs if not run.fails]
    statements: list[Statement] = []
    candidates = [each for each in _candidates(runs, case) if each.holds(case)]
    while passing_in(passing, statements) and len(statements) < MOST_STATEMENTS:
        selected = [run for run in failing if all(s.holds(run.shape) for s in statements)]
        selected_passing = passing_in(passing, statements)
        best = max(candidates, key=lambda each: _score(each, selected, selected_passing), default=None)
        if best is None or _score(best, selected, selected_passing) <= _score(None, selected, selected_passing):
            break
        statements.append(best)
    return _region(_needed(statements, [*failing, *passing]), failing, passing)


def _needed(statements: Sequence[Statement], runs: Sequence[LabelledRun]) -> tuple[Statement, ...]:
    """The statements without those that a later, narrower one made superfluous."""
    selected = list(statements)
    for each in statements:
        rest = [other for other in selected if other is not each]
        if len(passing_in(runs, rest)) == len(passing_in(runs, selected)):
            selected = rest
    return tuple(selected)


def join(region: Region, other: Region, runs: Sequence[LabelledRun]) -> Region | None:
    """The one region of two that are about the same divergences: at least half of those in the smaller also lie in the
    larger, or the worst of both is the same one; None for two that are not, or that differ in sign. One conjunction if
    it tells the runs apart about as well as both side by side, else both side by side."""
    positive = region.high > 0
    failing = [run for run in runs if run.fails and (run.divergence > 0) == positive]
    passing = [run for run in runs if not run.fails]
    mine = [run for run in failing if region.holds(run.shape)]
    its = [run for run in failing if other.holds(run.shape)]
    both = [run for run in mine if other.holds(run.shape)]
    if (other.high > 0) != positive or not (2 * len(both) >= min(len(mine), len(its)) or _worst(mine) is _worst(its)):
        return None
    either = mine + [run for run in its if not region.holds(run.shape)]

    def score(each: Region) -> tuple[bool, float]:
        # What is lost would come again, as a finding of its own.
        return sum(each.holds(run.shape) for run in either) >= (1.0 - MOST_LOST_SHARE) * len(either), _score_of_region(
            each
        )

    together = list(dict.fromkeys((*region.rules, *other.rules)))
    tries = [list(learn([*either, *passing], run.shape).rules) for run in (mine[0], its[0])] + [together]
    while len(together) > 1:  # each time without the conjunction that is missed least
        rest = [[rule for rule in together if rule is not left] for left in together]
        together = max(rest, key=lambda rules: score(_of(rules, failing, passing)))
        tries.append(together)
    return max((_of(rules, failing, passing) for rules in tries), key=score)


def _of(
    rules: Sequence[tuple[Statement, ...]], failing: Sequence[LabelledRun], passing: Sequence[LabelledRun]
) -> Region:
    return _region(rules[0], failing, passing, tuple(rules[1:]))


def _score_of_region(region: Region) -> float:
    """How well it tells the runs apart, less what its length costs a reader."""
    return _measure(region) - LEAST_GAIN * len(region.others)


def _worst(runs: Sequence[LabelledRun]) -> LabelledRun | None:
    return max(runs, key=lambda run: abs(run.divergence), default=None)


def _measure(region: Region) -> float:
    """The F-measure of a region: 1 if it holds all that diverges and nothing else."""
    return 2.0 * region.inside / (2.0 * region.inside + region.escapes + region.misses)


def passing_in(passing: Iterable[LabelledRun], statements: Sequence[Statement]) -> list[LabelledRun]:
    """The runs of ``passing`` that satisfy all ``statements``."""
    return [run for run in passing if all(statement.holds(run.shape) for statement in statements)]


def _score(statement: Statement | None, failing: Sequence[LabelledRun], passing: Sequence[LabelledRun]) -> float:
    """How well a statement tells the runs apart: the F-measure of what it keeps, a little less for odd ones."""
    selected = sum(1 for run in failing if statement is None or statement.holds(run.shape))
    selected_passing = sum(1 for run in passing if statement is None or statement.holds(run.shape))
    measure = 2.0 * selected / (len(failing) + selected + selected_passing) if selected else 0.0
    return measure - (1e-6 if statement is not None and statement.op == "!=" else 0.0)


def _candidates(runs: Sequence[LabelledRun], case: Shape) -> list[Statement]:
    """Statements worth trying: remainders, thresholds between the values seen, and equality of choices."""
    found: list[Statement] = []
    for axis, example in case.items():
        values = {run.shape[axis] for run in runs}
        if len(values) < 2:
            continue
        if isinstance(example, (int, float)) and not isinstance(example, bool):
            numbers = sorted(values)
            found += [Statement(axis, op, high) for high in numbers[1:] for op in ("<", ">=")]
            if all(isinstance(value, int) for value in numbers):
                found += [Statement(axis, op, divisor) for divisor in DIVISORS for op in ("%==", "%!=")]
            # A number left out would only name the run that did not diverge.
            found.append(Statement(axis, "==", example))
            continue
        found.append(Statement(axis, "==", example))
        found += [Statement(axis, "!=", value) for value in sorted(values, key=str) if value != example]
    return found


def _region(
    statements: tuple[Statement, ...],
    failing: Sequence[LabelledRun],
    passing: Sequence[LabelledRun],
    others: tuple[tuple[Statement, ...], ...] = (),
) -> Region:
    rules = (statements, *others)
    inside = [run for run in failing if any(all(s.holds(run.shape) for s in rule) for rule in rules)]
    misses = [run for run in passing if any(all(s.holds(run.shape) for s in rule) for rule in rules)]
    outside = [run for run in passing if run not in misses]
    return Region(
        statements=statements,
        low=min(run.divergence for run in inside),
        high=max(run.divergence for run in inside),
        inside=len(inside),
        misses=len(misses),
        escapes=len(failing) - len(inside),
        witnesses_inside=tuple(dict(run.shape) for run in _spread(inside)),
        witnesses_outside=tuple(dict(run.shape) for run in _spread(outside)),
        others=others,
    )


def _spread(runs: Sequence[LabelledRun]) -> list[LabelledRun]:
    """A few runs from the least divergence to the greatest."""
    ordered = sorted(runs, key=lambda run: (run.divergence, str(run.shape)))
    if len(ordered) <= WITNESSES:
        return ordered
    return [ordered[index * (len(ordered) - 1) // (WITNESSES - 1)] for index in range(WITNESSES)]


def _percent(share: float) -> str:
    """Three digits, and all of them that stand before the point."""
    return signed_percent(100 * share, ".0f" if abs(share) >= 10.0 else ".3g")
