"""The search: Hypothesis draws workloads in rounds, steered to divergence and to what no workload has exercised.

Mental model: a search is many short rounds. A round belongs to one kernel and sometimes holds on to axes of a shape
that was worth it before (it opened new bins or diverged most); within it Hypothesis draws shapes, and ``target()``
pulls towards divergence and new bins. Kernels earn their rounds by the new bins that their last examples brought and
by the holes that recorded coverage says they can fill. Every run is kept, so that nothing is run twice and a search
that was stopped goes on where it stopped; findings are made from the runs afterwards
(:mod:`gpusim.explore.report_findings`).
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from gpusim.errors import LaunchError, UsageError
from gpusim.explore.coverage import Coverage
from gpusim.explore.holes import kernel_of
from gpusim.explore.properties import Outcome, Property
from gpusim.suite import find_kernel, shape_text

#: Examples of a round: enough for target() to climb a step, few enough for kernels to take turns.
ROUND_EXAMPLES = 6
#: A kernel's last examples that its chance of another round depends on.
MEMORY = 12

Strategy = Callable[..., st.SearchStrategy[dict[str, Any]]]


@dataclass(frozen=True)
class Tried:
    """One run: kernel, complete shape, what was measured, and how many bins it was the first to hit."""

    kernel: str
    shape: Mapping[str, Any]
    outcome: Outcome
    new_bins: int


@dataclass
class Search:
    """The state of a search over ``kernels`` for divergences of ``prop``; :meth:`run` goes on from it.

    ``shapes(axes, small, growth=, marks=, fixed=)``: strategy of shapes (:mod:`gpusim.workloads.strategies`);
    ``known``: recorded coverage, by which kernels are chosen for holes; ``steer=False`` draws kernels in turn and
    shapes from the plain strategy, which is what the benchmark compares with.
    """

    kernels: Sequence[str]
    prop: Property
    shapes: Strategy
    seed: int = 0
    growth: float = 16.0
    marks: Sequence[int] = ()
    machine_axes: Mapping[str, Any] = field(default_factory=dict)
    known: Coverage = field(default_factory=Coverage)
    steer: bool = True
    tried: list[Tried] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    refused: int = 0
    rounds: int = 0
    _seen: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def run(
        self,
        *,
        max_examples: int,
        max_seconds: float = float("inf"),
        progress: Callable[[str], None] = lambda line: None,
        keep: Callable[[Tried], None] = lambda tried: None,
    ) -> None:
        """Try up to ``max_examples`` in all (those of before count) or until ``max_seconds`` have passed. ``keep`` is
        called with every run as soon as it is known; raises what a property raises beyond a refused shape."""
        end = time.monotonic() + max_seconds
        barren = 0
        while len(self.tried) < max_examples and time.monotonic() < end and barren < 8 * len(self.kernels):
            before = len(self.tried)
            # A round's choices follow from the seed and its number alone, so that the same seed gives the same search.
            rng = random.Random(f"{self.seed}/{self.rounds}")
            kernel = self._choose_kernel(rng)
            self._round(kernel, rng, max_examples, end, keep)
            self.rounds += 1
            barren = barren + 1 if len(self.tried) == before else 0
            worst = max((abs(t.outcome.divergence) for t in self.tried), default=0.0)
            progress(
                f"[{len(self.tried):>4}/{max_examples}] {kernel}: {len(self.coverage.hits)} bins, "
                f"{sum(1 for t in self.tried if self.prop.fails(t.outcome))} divergences, worst {100 * worst:.3g} %"
            )

    def restore(self, tried: Tried) -> None:
        """Take up a run of an earlier search."""
        self.tried.append(tried)
        self.coverage = self.coverage.merge(tried.outcome.coverage)
        self._seen[tried.kernel, shape_text(dict(tried.shape))] = tried.outcome

    def measure(self, kernel: str, shape: Mapping[str, Any], keep: Callable[[Tried], None]) -> Outcome | None:
        """The outcome of a shape, run now or remembered; None for one that kernel or machine refuses."""
        key = kernel, shape_text(dict(shape))
        if key in self._seen:
            return self._seen[key]
        try:
            outcome = self.prop.measure(kernel, shape)
        except (UsageError, LaunchError):
            self.refused += 1
            return None
        self._seen[key] = outcome
        new = len(self.coverage.only_in(outcome.coverage))
        self.coverage = self.coverage.merge(outcome.coverage)
        tried = Tried(kernel, dict(shape), outcome, new)
        self.tried.append(tried)
        keep(tried)
        return outcome

    def _round(
        self, kernel: str, rng: random.Random, most: int, end: float, keep: Callable[[Tried], None]
    ) -> None:
        entry = find_kernel(kernel)
        fixed = {axis: value for axis, value in self.machine_axes.items() if axis in entry.axes}
        if self.steer:
            fixed = {**self._held(kernel, rng), **fixed}
        only = self.prop.shapes(kernel)
        if only is not None and not only:
            return
        strategy = (
            self.shapes(entry.axes, entry.small, growth=self.growth, marks=self.marks, fixed=fixed)
            if only is None
            else st.sampled_from(only)
        )

        @with_seed(rng.getrandbits(64))
        @settings(
            max_examples=ROUND_EXAMPLES,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.target),
            suppress_health_check=list(HealthCheck),
        )
        @given(strategy)
        def draw(shape: dict[str, Any]) -> None:
            if len(self.tried) >= most or time.monotonic() > end:
                return
            known = len(self.coverage.hits)
            outcome = self.measure(kernel, shape, keep)
            if outcome is not None and self.steer:
                target(abs(outcome.divergence), label="divergence")
                target(float(len(self.coverage.hits) - known), label="new bins")

        draw()

    def _choose_kernel(self, rng: random.Random) -> str:
        if not self.steer:
            return self.kernels[self.rounds % len(self.kernels)]
        promise = self._promise()
        weights = []
        for kernel in self.kernels:
            last = [tried for tried in self.tried if tried.kernel == kernel][-MEMORY:]
            earned = (1.0 + sum(t.new_bins for t in last)) / (1.0 + len(last))
            diverging = sum(1 for t in last if self.prop.fails(t.outcome)) / (1.0 + len(last))
            untried = 0.0 if last else 4.0
            weights.append(earned + diverging + untried + promise.get(kernel, 0))
        return rng.choices(list(self.kernels), weights)[0]

    def _promise(self) -> dict[str, float]:
        """For each kernel, the holes that recorded coverage says it can fill, one point in ten."""
        promise: dict[str, float] = {}
        for each, hits in self.known.hits.items():
            if each not in self.coverage:
                for kernel in {kernel_of(example) for example in hits.examples}:
                    promise[kernel] = promise.get(kernel, 0.0) + 0.1
        return promise

    def _held(self, kernel: str, rng: random.Random) -> dict[str, Any]:
        """Axes to hold on to in this round: of a shape that was worth it, about half; often none."""
        worth = [t for t in self.tried if t.kernel == kernel and (t.new_bins or self.prop.fails(t.outcome))]
        if not worth or rng.random() < 0.5:
            return {}
        weights = [1.0 + t.new_bins + 10.0 * abs(t.outcome.divergence) for t in worth]
        shape = rng.choices(worth, weights)[0].shape
        return {axis: value for axis, value in shape.items() if rng.random() < 0.5}
