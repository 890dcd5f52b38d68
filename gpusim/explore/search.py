"""The search: Hypothesis draws workloads, steered to divergence and to what no workload has exercised.

Mental model: a search is many short rounds. In a round Hypothesis draws a pool of shapes of a few kernels, some of them
holding on to axes of a shape that was worth it before; ``target()`` pulls the draws towards shapes of which
:mod:`gpusim.explore.predict` foretells most new bins or a divergence, which takes a fraction of a millisecond a shape. The
best of the pool are run, one after the other, and so is one of the kernel that has run least, now and then blindly: what
nobody foretells is found so. Kernels earn their rounds by the new bins and the divergences of their last examples and by the holes that recorded
coverage says they can fill. Every run is kept, so that nothing is run twice and a search that was stopped goes on where it
stopped; findings are made from the runs afterwards (:mod:`gpusim.explore.report_findings`).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from hypothesis import HealthCheck, Phase, given, settings, target
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from gpusim.errors import LaunchError, UsageError
from gpusim.explore.coverage import Coverage
from gpusim.explore.examples import Tried
from gpusim.explore.holes import kernel_of
from gpusim.explore.points import all_bins
from gpusim.explore.predict import Guess, Predictor
from gpusim.explore.properties import Outcome, Property
from gpusim.gpus.spec import GpuSpec
from gpusim.suite import find_kernel, shape_text

#: Kernels of a round, shapes drawn for it, and how many of them are run: the best, and one of the kernel that has run
#: least, which is taken blindly so often.
ROUND_KERNELS, ROUND_DRAWS, ROUND_BEST, BLIND = 4, 48, 3, 0.5
#: What a kernel that has not run yet is worth, in bins: its first runs open more than any later one.
UNTRIED = 20.0
#: New bins that a kernel's next shape is credited with for being new in every value, however barren the last were.
LEAST_LUCK = 0.3
#: What a shape like the worst divergence of its kernel is worth, in bins, while few of the last runs diverged.
DIVERGENCE = 2.0
#: A kernel's last examples that its chance of another round depends on.
MEMORY = 12

Strategy = Callable[..., st.SearchStrategy[dict[str, Any]]]


@dataclass
class _Candidate:
    """A shape that could be run, and what is foretold of it."""

    kernel: str
    shape: dict[str, Any]
    guess: Guess


@dataclass
class Search:
    """The state of a search over ``kernels`` for divergences of ``prop``; :meth:`run` goes on from it.

    ``shapes(axes, small, growth=, marks=, fixed=)``: strategy of shapes (:mod:`gpusim.workloads.strategies`);
    ``known``: recorded coverage, by which kernels are chosen for holes; ``recall``: the outcome of a shape that another
    search has run, None where none has; ``mine``: whether a kernel and the text of a shape are for this search or for
    one beside it; ``gpu``: what shapes are foretold for;
    ``steer=False`` draws kernel and shape from the plain strategies in one run of Hypothesis, which is what the
    benchmark (``tools/explore_bench.py``) compares with.
    """

    kernels: Sequence[str]
    prop: Property
    shapes: Strategy
    gpu: GpuSpec
    seed: int = 0
    growth: float = 16.0
    marks: Sequence[int] = ()
    machine_axes: Mapping[str, Any] = field(default_factory=dict)
    known: Coverage = field(default_factory=Coverage)
    steer: bool = True
    recall: Callable[[str, Mapping[str, Any]], Outcome | None] = lambda kernel, shape: None
    mine: Callable[[str, str], bool] = lambda kernel, shape: True
    tried: list[Tried] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    refused: int = 0
    rounds: int = 0
    _seen: dict[tuple[str, str], Outcome] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._predictor = Predictor(self.gpu)
        self._missing = np.array([each not in self.coverage for each in all_bins()])

    def run(
        self,
        *,
        max_examples: int,
        max_seconds: float = float("inf"),
        progress: Callable[[str], None] = lambda line: None,
        keep: Callable[[Tried], None] = lambda tried: None,
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Try up to ``max_examples`` in all (those of before count), until ``max_seconds`` have passed or there is
        ``enough``. ``keep`` is called with every run as soon as it is known; raises what a property raises beyond a
        refused shape."""
        end = time.monotonic() + max_seconds
        barren = 0

        def done() -> bool:
            return len(self.tried) >= max_examples or time.monotonic() > end or enough()

        while not done() and barren < 8 * len(self.kernels):
            before = len(self.tried)
            # A round's choices follow from the seed and its number alone, so that the same seed gives the same search.
            rng = random.Random(f"{self.seed}/{self.rounds}")
            if self.steer:
                self._round(rng, done, keep)
            else:
                self._plain_round(rng, max(ROUND_DRAWS, max_examples - before), done, keep)
            self.rounds += 1
            barren = barren + 1 if len(self.tried) == before else 0
            self._tell(progress, max_examples)

    def _tell(self, progress: Callable[[str], None], max_examples: int) -> None:
        worst = max((abs(t.outcome.divergence) for t in self.tried), default=0.0)
        last = self.tried[-1].kernel if self.tried else "nothing"
        progress(
            f"[{len(self.tried):>4}/{max_examples}] {last}: {len(self.coverage.hits)} bins, "
            f"{sum(1 for t in self.tried if self.prop.fails(t.outcome))} divergences, worst {100 * worst:.3g} %"
        )

    def restore(self, tried: Tried) -> None:
        """Take up a run of an earlier search."""
        self._seen[tried.key] = tried.outcome
        self._take(tried)

    def measure(
        self, kernel: str, shape: Mapping[str, Any], keep: Callable[[Tried], None], chance: np.ndarray | None = None
    ) -> Outcome | None:
        """The outcome of a shape, run now or remembered; None for one that kernel or machine refuses. ``chance``:
        what was foretold of it."""
        key = kernel, shape_text(dict(shape))
        if key in self._seen:
            return self._seen[key]
        try:
            outcome = self.recall(kernel, shape) or self.prop.judge(kernel, shape)
        except (UsageError, LaunchError):
            self.refused += 1
            return None
        self._seen[key] = outcome
        tried = Tried(kernel, dict(shape), outcome, len(self.coverage.only_in(outcome.coverage)))
        self._take(tried, chance)
        if self.steer and ("registers" in {point for point, _ in outcome.coverage.hits}):
            self._predictor.remember_resources(kernel, shape)
        keep(tried)
        return outcome

    def _take(self, tried: Tried, chance: np.ndarray | None = None) -> None:
        self.tried.append(tried)
        self.coverage = self.coverage.merge(tried.outcome.coverage)
        self._missing = np.array([each not in self.coverage for each in all_bins()])
        self._predictor.learn(tried.kernel, tried.shape, tried.outcome.coverage, tried.outcome.divergence, chance)

    def _strategy(self, kernel: str, held: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]] | None:
        """Shapes of ``kernel``, those axes held; None where the property can measure none."""
        only = self.prop.shapes(kernel)
        if only is not None:
            return st.sampled_from(only) if only else None
        entry = find_kernel(kernel)
        fixed = {axis: value for axis, value in self.machine_axes.items() if axis in entry.axes}
        return self.shapes(entry.axes, entry.small, growth=self.growth, marks=self.marks, fixed={**held, **fixed})

    def _draw(
        self, kernels: Sequence[str], held: Mapping[str, Mapping[str, Any]], rng: random.Random, draws: int,
        see: Callable[[str, dict[str, Any]], None],
    ) -> None:
        """Let Hypothesis draw ``draws`` shapes of ``kernels`` and show each to ``see``."""
        strategies = {}
        for kernel in kernels:
            free = self._strategy(kernel, {})
            if free is not None:
                strategies[kernel] = free | self._strategy(kernel, held[kernel]) if held.get(kernel) else free
        if not strategies:
            return

        @with_seed(rng.getrandbits(64))
        @settings(
            max_examples=draws,
            database=None,
            deadline=None,
            phases=(Phase.generate, Phase.target),
            suppress_health_check=list(HealthCheck),
        )
        @given(st.sampled_from(list(strategies)).flatmap(lambda k: st.tuples(st.just(k), strategies[k])))
        def draw(drawn: tuple[str, dict[str, Any]]) -> None:
            see(*drawn)

        draw()

    def _plain_round(
        self, rng: random.Random, draws: int, done: Callable[[], bool], keep: Callable[[Tried], None]
    ) -> None:
        def see(kernel: str, shape: dict[str, Any]) -> None:
            if not done() and self.mine(kernel, shape_text(shape)):
                self.measure(kernel, shape, keep)

        self._draw(self.kernels, {}, rng, draws, see)

    def _round(self, rng: random.Random, done: Callable[[], bool], keep: Callable[[Tried], None]) -> None:
        kernels = self._choose_kernels(rng)
        pool: dict[tuple[str, str], _Candidate] = {}

        def see(kernel: str, shape: dict[str, Any]) -> None:
            key = kernel, shape_text(shape)
            if key in self._seen or key in pool or not self.mine(*key):
                return
            found = self._predictor.guess(kernel, shape)
            if found is None:
                self.refused += 1
                return
            pool[key] = _Candidate(kernel, shape, found)
            target(self._value(pool[key]), label="foretold")

        self._draw(kernels, {kernel: self._held(kernel, rng) for kernel in kernels}, rng, ROUND_DRAWS, see)
        for turn in range(ROUND_BEST + 1):
            if not pool or done():
                return
            values = {each: self._value(candidate) for each, candidate in pool.items()}
            if turn == ROUND_BEST:  # the turn of the kernel that has had fewest, now by what promises most, now blindly
                values = {each: value for each, value in values.items() if each[0] == kernels[0]} or values
                if rng.random() < BLIND:
                    values = dict.fromkeys(values, 0.0)
            # Among equals (nothing has run yet) not the simplest, which is drawn first.
            key = rng.choice([each for each, value in values.items() if value == max(values.values())])
            chosen = pool.pop(key)
            self.measure(chosen.kernel, chosen.shape, keep, chosen.guess.chance)
            # What has just run says more of the rest of its kernel: else the best would be alike.
            for candidate in pool.values():
                if candidate.kernel == chosen.kernel:
                    candidate.guess = self._predictor.guess(candidate.kernel, candidate.shape) or candidate.guess

    def _value(self, candidate: _Candidate) -> float:
        """New bins that a shape can be hoped to hit, and a little for being new itself or like a divergence."""
        kernel = candidate.kernel
        if not self._predictor.knows(kernel):
            return UNTRIED
        last = [tried for tried in self.tried if tried.kernel == kernel][-MEMORY:]
        gain = float(candidate.guess.chance[self._missing].sum())
        luck = max(LEAST_LUCK, (1.0 + sum(t.new_bins for t in last)) / (2.0 + len(last)))
        failed = sum(1 for t in last if self.prop.fails(t.outcome))
        worst = max((abs(t.outcome.divergence) for t in last), default=0.0)
        like = candidate.guess.divergence / worst if failed else 0.0
        return gain + luck * candidate.guess.novelty + DIVERGENCE * like / (1.0 + failed)

    def _choose_kernels(self, rng: random.Random) -> list[str]:
        """A few kernels for a round: the one that has run least, and others, those more likely that promise more."""
        promise = self._promise()
        weights = {}
        for kernel in self.kernels:
            last = [tried for tried in self.tried if tried.kernel == kernel][-MEMORY:]
            earned = (1.0 + sum(t.new_bins for t in last)) / (1.0 + len(last))
            diverging = sum(1 for t in last if self.prop.fails(t.outcome)) / (1.0 + len(last))
            untried = 0.0 if last else UNTRIED
            weights[kernel] = earned + diverging + untried + promise.get(kernel, 0)
        runs = Counter(tried.kernel for tried in self.tried)
        chosen = [min(rng.sample(list(self.kernels), len(self.kernels)), key=runs.__getitem__)]
        del weights[chosen[0]]
        while weights and len(chosen) < ROUND_KERNELS:
            chosen += rng.choices(list(weights), list(weights.values()))
            del weights[chosen[-1]]
        return chosen

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
