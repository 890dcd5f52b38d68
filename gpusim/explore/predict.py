"""What a shape is likely to cover, predicted from the runs so far without running it.

Mental model: a probability a bin, some exact, some vague. A launch's grid and block are known before it runs, and with
the registers and shared memory that the same compiled kernel had in an earlier run so are all points of
:mod:`gpusim.explore.launch_points`. For the rest the nearest runs of the same kernel answer, nearest by the distance of
that point (:mod:`gpusim.explore.shape_distance`); a cross is as likely as its halves together, and a bin of an ordered
point a little likely next to one that is near. False predictions of a kernel lower the probability of the same
prediction afterwards. Bins that no run has hit can mostly not be predicted at all: for them stands the novelty of a
shape to each point, times the new bins that the kernel's last runs brought for their novelty.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gpusim.cases.case_forms import launches_ahead
from gpusim.cases.suite import make_case
from gpusim.errors import LaunchError, UsageError
from gpusim.explore.coverage import Coverage
from gpusim.explore.launch_points import LAUNCH_POINTS, launch_answers
from gpusim.explore.points import CROSS, CROSSES, POINTS, all_bins, cross_name
from gpusim.explore.shape_distance import ShapeDistance, bin_points
from gpusim.frontend.registry import compile_kernel, grid_arguments
from gpusim.gpus.spec import GpuSpec
from gpusim.isa.target import shape as as_triple
from gpusim.launch.binary import KernelBinary
from gpusim.launch.kernel_launch import sides_of
from gpusim.model.occupancy import occupancy
from gpusim.trace.record import Launch

#: Runs that a shape is compared with, and what is added to a distance before its square divides a run's weight.
NEAREST, DISTANCE_OFFSET = 4, 0.1
#: Probability of a bin next to one that is as good as certain, and of a cross whose halves are: both are weak evidence.
NEIGHBOUR_PROBABILITY, CROSS_PROBABILITY = 0.15, 0.5
#: New bins of a point for a wholly new shape before runs say otherwise, as a share of those that miss; how much novelty
#: outweighs that; and what each run leaves of what was learnt before: what a kernel brought at first it brings no more.
#: guess (chosen over searches of seeds that no benchmark reports)
FIRST_RATE, FIRST_NOVELTY, LEARNING_DECAY = 1.0, 0.5, 0.9
#: Of the points that a launch decides, those that need not even its registers.
GEOMETRY_POINTS = ("block_threads", "block_tail", "grid_blocks", "dimensions")
Shape = Mapping[str, Any]


class Prediction(NamedTuple):
    """``probability`` of each bin, float[bins] in the order of :func:`gpusim.explore.points.all_bins`; ``novelty``:
    float[points], how far the nearest run of the kernel is from it, from 0 to 1; ``divergence``: the size of it that
    is expected."""

    probability: np.ndarray
    novelty: np.ndarray
    divergence: float


class LaunchPrediction(NamedTuple):
    """What follows from a shape's launches alone: ``hit`` bool[bins]; ``decided`` bool[bins], those of which ``hit`` is
    exact; ``work``: blocks of its largest launch, bytes of its arguments; ``complete``: no earlier run would add to
    it."""

    hit: np.ndarray
    decided: np.ndarray
    work: tuple[float, float]
    complete: bool


class _Layout(NamedTuple):
    """Bin -> column; int64[pairs, 3] (cross, half, half); int64[pairs, 2] (bin, the next of an ordered point);
    bool[bins] of those that follow from the launch, and from its grid and block alone; bool[points] of the former."""

    columns: dict
    crosses: np.ndarray
    adjacent: np.ndarray
    certain: np.ndarray
    by_geometry: np.ndarray
    certain_points: np.ndarray


@cache
def _layout() -> _Layout:
    columns = {each: column for column, each in enumerate(all_bins())}
    crosses, adjacent = [], []
    for pair in CROSSES:
        for first in POINTS[pair[0]].bins:
            for second in POINTS[pair[1]].bins:
                cross = cross_name(pair), CROSS.join((first, second))
                if cross in columns:
                    crosses.append((columns[cross], columns[pair[0], first], columns[pair[1], second]))
    for point in POINTS.values():
        if point.ordered and point.name not in LAUNCH_POINTS:
            for low, high in zip(point.bins, point.bins[1:], strict=False):
                adjacent.append((columns[point.name, low], columns[point.name, high]))
    certain = np.array([set(name.split(CROSS)) <= set(LAUNCH_POINTS) for name, _ in columns])
    by_geometry = np.array([name in GEOMETRY_POINTS for name, _ in columns])
    return _Layout(
        columns, np.array(crosses), np.array(adjacent), certain, by_geometry, certain @ bin_points()[1] > 0.0
    )


@cache
def _columns_of_points() -> tuple[slice, ...]:
    ends = np.cumsum(bin_points()[1].sum(0)).astype(int).tolist()
    return tuple(slice(start, end) for start, end in zip([0, *ends], ends, strict=False))


class _Kernel:
    """What the runs of one kernel have taught."""

    def __init__(self, shape: Shape) -> None:
        bins, points = bin_points()[1].shape
        self.distance = ShapeDistance(shape)
        self.false_predictions = np.zeros(bins)
        self.novelty, self.new = np.zeros(points), np.zeros(points)
        self.runs = 0

    def take(
        self, row: np.ndarray, hit: np.ndarray, divergence: float, new: np.ndarray, probability: np.ndarray | None
    ) -> None:
        """Take up a run, of whose bins those of ``new`` had not been hit before."""
        if self.runs:
            self.novelty = LEARNING_DECAY * self.novelty + self.distance.to_runs(row[None]).min(2)[:, 0]
            self.new = LEARNING_DECAY * self.new + new @ bin_points()[1]
        if probability is not None:
            self.false_predictions += probability * ~hit
        self.distance.learn(row, hit, divergence)
        self.runs += 1

    def nearest(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """For each row probability, novelty and divergence: the mean of the nearest runs, nearer ones more."""
        hits = self.distance.hits
        distances = self.distance.to_runs(rows)
        weights = 1.0 / (DISTANCE_OFFSET + distances) ** 2
        if distances.shape[2] > NEAREST:
            least = np.partition(distances, NEAREST - 1, axis=2)[:, :, NEAREST - 1 : NEAREST]
            weights *= distances <= least
        weights /= weights.sum(2, keepdims=True)
        probability = np.zeros((len(rows), hits.shape[1]))
        for point, columns in enumerate(_columns_of_points()):
            probability[:, columns] = weights[point] @ hits[:, columns]
        return probability, distances.min(2).T.copy(), weights.mean(0) @ self.distance.divergences

    def rate(self, missing: np.ndarray) -> np.ndarray:
        """float[points]: new bins that a wholly new shape brings."""
        belongs = bin_points()[1]
        left = missing @ belongs
        first = FIRST_NOVELTY * FIRST_RATE * left / belongs.sum(0)
        return np.where(left > 0, (first + self.new) / (FIRST_NOVELTY + self.novelty), 0.0)


class Predictor:
    """Predictions for shapes on ``gpu``, learnt run by run. ``missing``: bool[bins], those that no run has hit."""

    def __init__(self, gpu: GpuSpec) -> None:
        self.gpu = gpu
        self.missing = np.ones(len(_layout().columns), bool)
        self._kernels: dict[str, _Kernel] = {}
        self._binaries: dict[tuple, KernelBinary] = {}

    def learn(
        self, kernel: str, shape: Shape, coverage: Coverage, divergence: float, probability: np.ndarray | None = None
    ) -> None:
        """Take up what a run covered and by how much it diverged; ``probability``: what had been predicted of it."""
        columns = _layout().columns
        hit = np.zeros(len(columns), bool)
        hit[[columns[each] for each in coverage.hits if each in columns]] = True
        learnt = self._kernels.get(kernel)
        if learnt is None:
            learnt = self._kernels[kernel] = _Kernel(shape)
        try:
            work = self.from_launch(kernel, shape).work
        except (UsageError, LaunchError):  # it ran, but for another machine
            work = 0.0, 0.0
        row = learnt.distance.row(shape, work)
        learnt.take(row, hit, abs(divergence), hit & self.missing, probability)
        self.missing &= ~hit

    def remember_resources(self, kernel: str, shape: Shape) -> None:
        """Note registers and shared memory of the kernels that this process has just compiled and run."""
        for launch in launches_ahead(make_case(kernel, dict(shape), self.gpu)):
            if launch.timed and _compiled_key(launch) not in self._binaries:
                self._compiled(launch)

    def _compiled(self, launch: Any) -> KernelBinary:
        binary = compile_kernel(launch.kernel, launch.args, tuple(self.gpu.capability))
        self._binaries[_compiled_key(launch)] = binary
        return binary

    def from_launch(self, kernel: str, shape: Shape) -> LaunchPrediction:
        """What follows from the launches of a shape alone. Raises UsageError or LaunchError for one that is refused."""
        layout = _layout()
        found, decided = np.zeros(len(layout.columns), bool), layout.certain
        blocks = size_bytes = 0
        for launch in launches_ahead(make_case(kernel, dict(shape), self.gpu)):
            if not launch.timed:
                continue
            binary = self._binaries.get(_compiled_key(launch))
            if launch.block is None or callable(launch.grid):  # what its language fixes when it compiles
                binary = binary or self._compiled(launch)
                named = grid_arguments(launch.kernel, binary, launch.args)
                grid, block = sides_of(binary, launch.grid, launch.block, named)
            else:
                grid, block = as_triple(launch.grid, "grid"), as_triple(launch.block, "block")
            blocks = max(blocks, grid[0] * grid[1] * grid[2])
            size_bytes = max(size_bytes, sum(arg.nbytes for arg in launch.args if isinstance(arg, np.ndarray)))
            registers, shared, cooperative = 32, launch.shared_bytes, False
            if binary is None:
                decided = layout.by_geometry
            else:
                registers, cooperative = binary.image.registers_per_thread, binary.cooperative
                shared += binary.image.shared_bytes + binary.dynamic_shared_bytes
            facts = Launch(
                kernel, tuple(self.gpu.capability), grid, block, registers, shared, local_bytes=0, cubin_sha256="",
                cooperative=cooperative,
            )  # fmt: skip
            fits = occupancy(facts, self.gpu)
            answers = launch_answers(grid, block, registers, shared, fits.blocks_per_sm, fits.limiter, self.gpu)
            for name, labels in answers.items():
                for label in labels:
                    found[layout.columns[name, label]] = True
        return LaunchPrediction(found, decided, (float(blocks), float(size_bytes)), decided is layout.certain)

    def predict(self, kernel: str, shape: Shape) -> Prediction | None:
        """What to expect of a shape; None for one that kernel or machine refuses. Zeros where nothing is known."""
        try:
            from_launch = self.from_launch(kernel, shape)
        except (UsageError, LaunchError):
            return None
        return self.predict_all(kernel, [shape], [from_launch])[0]

    def predict_all(self, kernel: str, shapes: list[Shape], from_launches: list[LaunchPrediction]) -> list[Prediction]:
        """What to expect of shapes of one kernel, with what :meth:`from_launch` says of each."""
        layout = _layout()
        learnt = self._kernels.get(kernel)
        found, decided = (np.array([from_launch[place] for from_launch in from_launches]) for place in (0, 1))
        if learnt is None:
            probability = np.zeros(found.shape)
            novelty, divergence = np.ones((len(shapes), layout.certain_points.size)), np.zeros(len(shapes))
        else:
            rows = [
                learnt.distance.row(shape, from_launch.work)
                for shape, from_launch in zip(shapes, from_launches, strict=True)
            ]
            probability, novelty, divergence = learnt.nearest(np.array(rows))
        probability = np.where(decided, found, probability)
        low, high = layout.adjacent.T
        neighbours = NEIGHBOUR_PROBABILITY * probability
        probability[:, low] = np.maximum(probability[:, low], neighbours[:, high])
        probability[:, high] = np.maximum(probability[:, high], neighbours[:, low])
        cross, one, other = layout.crosses.T
        together = probability[:, one] * probability[:, other]
        probability[:, cross] = np.where(
            layout.certain[cross], together, np.maximum(probability[:, cross], CROSS_PROBABILITY * together)
        )
        if learnt is not None:
            probability /= (1.0 + learnt.false_predictions) ** 2
        novelty[:, layout.certain_points] = 0.0
        return [Prediction(*each) for each in zip(probability, novelty, map(float, divergence), strict=True)]

    def new_bins(self, kernel: str) -> Callable[[Prediction], float]:
        """How many bins that no run has hit a shape of ``kernel`` is expected to hit, from its prediction."""
        missing, learnt = self.missing.astype(float), self._kernels.get(kernel)
        rate = np.zeros(_layout().certain_points.size) if learnt is None else learnt.rate(self.missing)
        return lambda prediction: float(prediction.probability @ missing + prediction.novelty @ rate)


def _compiled_key(launch: Any) -> tuple:
    """What the compiled code of a launch depends on, short of its types' finer points."""
    return launch.kernel, tuple((str(a.dtype), a.ndim) if isinstance(a, np.ndarray) else type(a) for a in launch.args)
