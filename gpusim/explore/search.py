"""The search: Hypothesis draws workloads, steered to divergence and to what no workload has exercised.

Mental model: the search keeps a pool of shapes of all kernels that could be run next. In a round Hypothesis draws more,
some of them holding on to axes of a shape that brought something before; ``target()`` draws towards shapes of which
:mod:`gpusim.explore.predict` expects most new bins or a divergence, which takes a fraction of a millisecond a shape.
Then the best of the pool is run, and after each run the rest is predicted again; now and then, and the more the longer
nothing new has come, a random one is (exploration): that finds what no prediction names. Kernels compete by the new
bins that their shapes are expected to hit, so that one of which nothing new comes any more gives way to others; holes
that recorded coverage says it can fill count for it. Every run is kept, so that nothing is run twice and a search that
was stopped goes on where it stopped; findings are made from the runs afterwards
(:mod:`gpusim.explore.report_findings`).
"""

from __future__ import annotations

import contextlib
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hypothesis import strategies as st
from hypothesis import target

from gpusim.cases.suite import find_kernel, shape_text
from gpusim.errors import LaunchError, UsageError
from gpusim.explore.cost import MeasuredCost
from gpusim.explore.coverage import Coverage
from gpusim.explore.coverage_holes import kernel_of
from gpusim.explore.draw import draw_shapes
from gpusim.explore.examples import Tried
from gpusim.explore.predict import LaunchPrediction, Prediction, Predictor
from gpusim.explore.property import Outcome, Property
from gpusim.gpus.spec import GpuSpec

#: Shapes drawn for each kernel before the first run and kept in the pool at most (half as many more that ``target()``
#: led to); drawn for a round; and run in it.
POOL, ROUND_DRAWS, ROUND_RUNS = 40, 48, 2
#: Draws that Hypothesis may begin for each that a round asks for.
MOST_BEGUN = 2
#: How often a run is any shape of any kernel, whatever is predicted: at least, and at most when nothing new has come
#: for far more runs than PATIENCE. guess (chosen over searches of seeds that no benchmark reports)
LEAST_EXPLORATION, MOST_EXPLORATION, PATIENCE = 1 / 16, 0.8, 6
#: What a kernel that has not run yet is worth, in bins: its first runs open more than any later one.
UNTRIED_KERNEL_BINS = 20.0
#: What a hole that recorded coverage says a kernel can fill is worth, in bins, shared among the kernel's runs.
HOLE_BINS = 0.1
#: What a shape like the worst divergence of its kernel is worth, in bins, while few of the last runs diverged.
DIVERGENCE_BINS = 2.0
#: A kernel's last examples that decide what its next divergence is worth.
RECENT_RUNS = 12

Strategy = Callable[..., st.SearchStrategy[dict[str, Any]]]


@dataclass
class Candidate:
    """A shape that could be run, what follows from its launches alone, and what is predicted of it; ``targeted``:
    whether ``target()`` may have led the draw to it."""

    kernel: str
    shape: dict[str, Any]
    from_launch: LaunchPrediction
    prediction: Prediction
    targeted: bool


@dataclass
class Search:
    """The state of a search over ``kernels`` for divergences of ``prop``; :meth:`run` goes on from it.

    ``shapes(axes, small, growth=, marks=, fixed=)``: strategy of shapes (:mod:`gpusim.workloads.strategies`);
    ``known``: recorded coverage, by which kernels are chosen for holes; ``find_outcome``: the outcome of a shape that
    another search has run, None where none has; ``is_ours``: whether a kernel and the text of a shape are for this
    search or for one beside it; ``around``: kernel -> shapes, at and beside which (``beside``, a strategy like
    ``shapes`` that takes them first) half of its shapes are drawn; ``gpu``: what shapes are predicted for;
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
    find_outcome: Callable[[str, Mapping[str, Any]], Outcome | None] = lambda kernel, shape: None
    is_ours: Callable[[str, str], bool] = lambda kernel, shape: True
    around: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    beside: Strategy | None = None
    tried: list[Tried] = field(default_factory=list)
    coverage: Coverage = field(default_factory=Coverage)
    refused: int = 0
    refusal: str = ""
    rounds: int = 0
    _seen: dict[tuple[str, str], Outcome] = field(default_factory=dict)
    _pool: dict[tuple[str, str], Candidate] = field(default_factory=dict)
    _outdated: set[str] = field(default_factory=set)
    _refusals: Counter[str] = field(default_factory=Counter)
    _drawn: bool = False
    _small_work: dict[str, tuple[float, float]] = field(default_factory=dict)
    _costs: dict[str, MeasuredCost] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._predictor = Predictor(self.gpu)

    def run(
        self,
        *,
        max_examples: int,
        max_seconds: float = float("inf"),
        progress: Callable[[float, str], None] = lambda done, detail: None,
        keep: Callable[[Tried], None] = lambda tried: None,
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Try up to ``max_examples`` in all (those of before count), until ``max_seconds`` have passed or there is
        ``enough``. ``keep`` is called with every run as soon as it is known; raises what a property raises beyond a
        refused shape."""
        end = time.monotonic() + max_seconds
        rounds_without_runs = 0

        def done() -> bool:
            return len(self.tried) >= max_examples or time.monotonic() > end or enough()

        while not done() and rounds_without_runs < 8 * len(self.kernels):
            before = len(self.tried)
            # A round's choices follow from the seed and its number alone, so that the same seed gives the same search.
            rng = random.Random(f"{self.seed}/{self.rounds}")
            if self.steer:
                self._steered_round(rng, done, keep)
            else:
                self._unsteered_round(rng, max(ROUND_DRAWS, max_examples - before), done, keep)
            self.rounds += 1
            rounds_without_runs = rounds_without_runs + 1 if len(self.tried) == before else 0
            self._tell(progress)

    def _tell(self, progress: Callable[[float, str], None]) -> None:
        worst = max((abs(t.outcome.divergence) for t in self.tried), default=0.0)
        last = self.tried[-1].kernel if self.tried else "nothing"
        progress(
            len(self.tried),
            f"{last}: {len(self.coverage.hits)} bins, "
            f"{sum(1 for t in self.tried if self.prop.fails(t.outcome))} divergences, worst {100 * worst:.4g} %",
        )

    def restore(self, tried: Tried) -> None:
        """Take up a run of an earlier search."""
        self._seen[tried.key] = tried.outcome
        self._take(tried)

    def measure(
        self, kernel: str, shape: Mapping[str, Any], keep: Callable[[Tried], None], prediction: Prediction | None = None
    ) -> Outcome | None:
        """The outcome of a shape, run now or remembered; None for one that kernel or machine refuses. ``prediction``:
        what was predicted of it."""
        key = kernel, shape_text(dict(shape))
        if key in self._seen:
            return self._seen[key]
        try:
            outcome = self.find_outcome(kernel, shape) or self.prop.judge(kernel, shape)
        except (UsageError, LaunchError) as error:
            self.refused += 1
            self.refusal = str(error)
            self._refusals[kernel] += 1
            return None
        self._seen[key] = outcome
        tried = Tried(kernel, dict(shape), outcome, len(self.coverage.only_in(outcome.coverage)))
        self._take(tried, prediction)
        if self.steer and ("registers" in {point for point, _ in outcome.coverage.hits}):
            self._predictor.remember_resources(kernel, shape)
        keep(tried)
        return outcome

    def _take(self, tried: Tried, prediction: Prediction | None = None) -> None:
        self.tried.append(tried)
        self.coverage = self.coverage.merge(tried.outcome.coverage)
        self._learn_cost(tried)
        if self.steer:
            self._outdated.add(tried.kernel)
            probability = None if prediction is None else prediction.probability
            self._predictor.learn(
                tried.kernel, tried.shape, tried.outcome.coverage, tried.outcome.divergence, probability
            )

    def _strategy(self, kernel: str, held: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]] | None:
        """Shapes of ``kernel``, those axes held; None where the property can measure none."""
        only = self.prop.shapes(kernel)
        if only is not None:
            return st.sampled_from(only) if only else None
        entry = find_kernel(kernel)
        fixed = {axis: value for axis, value in self.machine_axes.items() if axis in entry.axes}
        fixed = {**held, **fixed}
        bounds = getattr(entry, "bounds", {})
        free = self.shapes(entry.axes, entry.small, growth=self.growth, marks=self.marks, fixed=fixed, bounds=bounds)
        known = self.around.get(kernel)
        if not known or self.beside is None:
            return free
        return free | self.beside(known, entry.axes, entry.small, growth=self.growth, fixed=fixed)

    def _draw(
        self,
        kernels: Sequence[str],
        held: Mapping[str, Mapping[str, Any]],
        rng: random.Random,
        draws: int,
        on_shape: Callable[[str, dict[str, Any]], None],
    ) -> None:
        """Let Hypothesis draw ``draws`` shapes of ``kernels`` and show each to ``on_shape``."""
        strategies = {}
        for kernel in kernels:
            free = self._strategy(kernel, {})
            if free is not None:
                strategies[kernel] = free | self._strategy(kernel, held[kernel]) if held.get(kernel) else free
        if strategies:
            draw_shapes(
                strategies, rng.getrandbits(64), draws, on_shape, most_begun=MOST_BEGUN * draws if self.steer else None
            )

    def _unsteered_round(
        self, rng: random.Random, draws: int, done: Callable[[], bool], keep: Callable[[Tried], None]
    ) -> None:
        def on_shape(kernel: str, shape: dict[str, Any]) -> None:
            if not done() and self.is_ours(kernel, shape_text(shape)) and not self._is_too_large(kernel, shape):
                self.measure(kernel, shape, keep)

        self._draw(self.kernels, {}, rng, draws, on_shape)

    def _steered_round(self, rng: random.Random, done: Callable[[], bool], keep: Callable[[Tried], None]) -> None:
        scores = self._scores()
        draws, drawn = ROUND_DRAWS if self._drawn else POOL * len(self.kernels), 0
        self._drawn = True

        def on_shape(kernel: str, shape: dict[str, Any]) -> None:
            nonlocal drawn
            drawn += 1
            key = kernel, shape_text(shape)
            if key in self._seen or key in self._pool or not self.is_ours(*key):
                return
            try:
                from_launch = self._predictor.from_launch(kernel, shape)
            except (UsageError, LaunchError) as error:
                self.refused += 1
                self.refusal = str(error)
                return
            if self._outgrows(kernel, from_launch) or self._costs_too_much(kernel, shape):
                return
            prediction = self._predictor.predict_all(kernel, [shape], [from_launch])[0]
            # Hypothesis climbs towards the target from half way on.
            self._pool[key] = Candidate(kernel, shape, from_launch, prediction, targeted=drawn > draws // 2)
            target(scores[kernel](prediction), label="predicted")

        self._draw(self.kernels, {kernel: self._held(kernel, rng) for kernel in self.kernels}, rng, draws, on_shape)
        self._trim_pool(rng)
        for _ in range(ROUND_RUNS):
            if not self._pool or done():
                return
            chosen = self._pool.pop(self._choose(rng))
            self.measure(chosen.kernel, chosen.shape, keep, chosen.prediction)

    def _is_too_large(self, kernel: str, shape: Mapping[str, Any]) -> bool:
        """Whether a shape that nothing predicts outgrows the small one; one that is refused is told so where it is
        run."""
        try:
            return self._costs_too_much(kernel, shape) or self._outgrows(
                kernel, self._predictor.from_launch(kernel, shape)
            )
        except (UsageError, LaunchError):
            return False

    def _outgrows(self, kernel: str, found: LaunchPrediction) -> bool:
        """Whether a launch has more than ``growth`` times the small shape's blocks and bytes of arguments, although its
        axes have not: an axis may stand for its square (n of an n x n matrix), which no strategy of shapes knows. A
        refused small shape says nothing."""
        if kernel not in self._small_work:
            try:
                self._small_work[kernel] = self._predictor.from_launch(kernel, find_kernel(kernel).small).work
            except (UsageError, LaunchError):
                self._small_work[kernel] = (math.inf, math.inf)
        return all(now > self.growth * small for now, small in zip(found.work, self._small_work[kernel], strict=True))

    def _learn_cost(self, tried: Tried) -> None:
        """Take up what a run has cost, and let go of shapes of the pool that this shows to cost too much."""
        kernel = tried.kernel
        if kernel not in self._costs:
            self._costs[kernel] = MeasuredCost(find_kernel(kernel).small)
        self._costs[kernel].learn(tried.shape, tried.outcome.coverage.instructions)
        for key in [
            key for key, each in self._pool.items() if key[0] == kernel and self._costs_too_much(kernel, each.shape)
        ]:
            del self._pool[key]

    def _costs_too_much(self, kernel: str, shape: Mapping[str, Any]) -> bool:
        """Whether runs say that a shape executes more than ``growth`` times the small shape's instructions: those may
        grow as the cube of an axis whose blocks and bytes grow as its square."""
        return kernel in self._costs and self._costs[kernel].of(shape) > self.growth

    def _trim_pool(self, rng: random.Random) -> None:
        """Let go of shapes of kernels of which the pool has too many; those that ``target()`` led to do not push out
        others."""
        for kernel in self.kernels:
            for targeted, most in ((False, POOL), (True, POOL // 2)):
                keys = [key for key, each in self._pool.items() if key[0] == kernel and each.targeted is targeted]
                for key in rng.sample(keys, max(0, len(keys) - most)):
                    del self._pool[key]

    def _choose(self, rng: random.Random) -> tuple[str, str]:
        """The shape of the pool to run next."""
        if self.tried and rng.random() < self._exploration_rate():
            free = [key for key, each in self._pool.items() if not each.targeted] or list(self._pool)
            kernel = rng.choice(sorted({kernel for kernel, _ in free}))
            return rng.choice([key for key in free if key[0] == kernel])
        for kernel in sorted(self._outdated):
            self._predict_again([each for each in self._pool.values() if each.kernel == kernel])
        self._outdated.clear()
        scores = self._scores()
        values = {key: scores[each.kernel](each.prediction) for key, each in self._pool.items()}
        # Among equals (nothing has run yet) not the simplest, which is drawn first.
        most = max(values.values())
        return rng.choice([key for key, value in values.items() if value == most])

    def _exploration_rate(self) -> float:
        """How often a shape is drawn at random whatever its prediction: the more, the longer nothing new has come."""
        runs_without_new = next((n for n, t in enumerate(reversed(self.tried)) if t.new_bins), len(self.tried))
        return max(LEAST_EXPLORATION, MOST_EXPLORATION * (1.0 - PATIENCE / max(PATIENCE, runs_without_new)))

    def _predict_again(self, candidates: Sequence[Candidate]) -> None:
        """Predict for the shapes of one kernel again after it has run."""
        if not candidates:
            return
        kernel = candidates[0].kernel
        for each in candidates:
            # What the machine refuses now that the kernel's registers are known, it refuses when it is run.
            with contextlib.suppress(UsageError, LaunchError):
                each.from_launch = (
                    each.from_launch if each.from_launch.complete else self._predictor.from_launch(kernel, each.shape)
                )
        found = self._predictor.predict_all(kernel, [e.shape for e in candidates], [e.from_launch for e in candidates])
        for each, prediction in zip(candidates, found, strict=True):
            each.prediction = prediction

    def _scores(self) -> dict[str, Callable[[Prediction], float]]:
        """For each kernel, what a shape is worth running of which that is predicted: new bins that it is expected to
        hit, and a little for being like a divergence."""
        fillable = self._fillable_holes()
        of_kernel: dict[str, list[Tried]] = {kernel: [] for kernel in self.kernels}
        for tried in self.tried:
            of_kernel.setdefault(tried.kernel, []).append(tried)

        def score(kernel: str) -> Callable[[Prediction], float]:
            runs = of_kernel[kernel]
            untried = 0.0 if runs else UNTRIED_KERNEL_BINS / (1 + self._refusals[kernel]) ** 2
            extra = untried + fillable.get(kernel, 0.0) / (1 + len(runs) + self._refusals[kernel])
            last = runs[-RECENT_RUNS:]
            failed = sum(1 for t in last if self.prop.fails(t.outcome))
            worst = max((abs(t.outcome.divergence) for t in last), default=0.0)
            like = DIVERGENCE_BINS / (1.0 + failed) / worst if failed and worst else 0.0
            new_bins = self._predictor.new_bins(kernel)
            return lambda prediction: extra + new_bins(prediction) + like * prediction.divergence

        return {kernel: score(kernel) for kernel in self.kernels}

    def _fillable_holes(self) -> dict[str, float]:
        """For each kernel, the holes that recorded coverage says it can fill, in bins."""
        fillable: dict[str, float] = {}
        for each, hits in self.known.hits.items():
            if each not in self.coverage:
                for kernel in {kernel_of(example) for example in hits.examples}:
                    fillable[kernel] = fillable.get(kernel, 0.0) + HOLE_BINS
        return fillable

    def _held(self, kernel: str, rng: random.Random) -> dict[str, Any]:
        """Axes to hold on to in this round: of a shape that was worth it, about half; often none."""
        worth = [t for t in self.tried if t.kernel == kernel and (t.new_bins or self.prop.fails(t.outcome))]
        if not worth or rng.random() < 0.5:
            return {}
        weights = [1.0 + t.new_bins + 10.0 * abs(t.outcome.divergence) for t in worth]
        shape = rng.choices(worth, weights)[0].shape
        return {axis: value for axis, value in shape.items() if rng.random() < 0.5}
