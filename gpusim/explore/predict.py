"""What a shape is likely to cover, told from the runs so far without running it.

Mental model: a guess a bin, from sure to vague. A launch's grid and block are known before it runs, and with the
registers and shared memory that the same compiled kernel had in an earlier run so are all points of
:mod:`gpusim.explore.launch_points`. For the rest the nearest runs of the same kernel answer; a cross is as likely as its
halves together, and a bin of an ordered point a little likely beside one that is near. What was foretold of a kernel
and did not come counts against its being foretold again. Beside the guesses stands how new a shape is, as combinatorial
testing counts it: which of its axes' values, and pairs of them, no run of the kernel has had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from itertools import combinations
from math import log2
from typing import Any, NamedTuple

import numpy as np

from gpusim.capture.prepare import prepare
from gpusim.capture.target import shape as three_sides
from gpusim.errors import LaunchError, UsageError
from gpusim.explore.coverage import Coverage
from gpusim.explore.launch_points import LAUNCH_POINTS, launch_answers
from gpusim.explore.points import CROSS, CROSSES, POINTS, all_bins, cross_name
from gpusim.gpus.spec import GpuSpec
from gpusim.model.dispatch import occupancy
from gpusim.suite import make_case
from gpusim.trace.record import Launch

#: Runs that a shape is compared with.
NEAREST = 4
#: Chance of a bin beside one that is as good as sure, and of a cross whose halves are: both are mere hints.
BESIDE, TOGETHER = 0.15, 0.5
#: Factors of two between sizes beyond which two runs are no more apart.
FARTHEST = 4.0
#: What a value that no run has had counts for, where a pair of values counts for one.
SINGLE = 2.0
Shape = Mapping[str, Any]


class Guess(NamedTuple):
    """``chance`` of each bin, float[bins] in the order of :func:`gpusim.explore.points.all_bins`; ``novelty``: the share
    of the shape's values and pairs of values that no run of the kernel has had, from 0 to 1; ``divergence``: the size
    of it that is expected."""

    chance: np.ndarray
    novelty: float
    divergence: float


@cache
def _layout() -> tuple[dict, np.ndarray, np.ndarray, np.ndarray]:
    """Bin -> column; int64[pairs, 3] (cross, half, half); int64[pairs, 2] (bin, its neighbour); bool[bins] of those
    that follow from the launch alone."""
    columns = {each: column for column, each in enumerate(all_bins())}
    crosses, beside = [], []
    for pair in CROSSES:
        for first in POINTS[pair[0]].bins:
            for second in POINTS[pair[1]].bins:
                cross = cross_name(pair), CROSS.join((first, second))
                if cross in columns:
                    crosses.append((columns[cross], columns[pair[0], first], columns[pair[1], second]))
    for point in POINTS.values():
        if point.ordered and point.name not in LAUNCH_POINTS:
            for low, high in zip(point.bins, point.bins[1:], strict=False):
                one, other = columns[point.name, low], columns[point.name, high]
                beside += [(one, other), (other, one)]
    sure = np.array([set(name.split(CROSS)) <= set(LAUNCH_POINTS) for name, _ in columns])
    return columns, np.array(crosses), np.array(beside), sure


class Predictor:
    """Guesses for shapes on ``gpu``, learnt run by run."""

    def __init__(self, gpu: GpuSpec) -> None:
        self.gpu = gpu
        self._runs: dict[str, list[tuple[Shape, np.ndarray, float]]] = {}
        self._tables: dict[str, _Table] = {}
        self._resources: dict[tuple, tuple[int, int, bool]] = {}
        self._vain: dict[str, np.ndarray] = {}

    def learn(
        self, kernel: str, shape: Shape, coverage: Coverage, divergence: float, chance: np.ndarray | None = None
    ) -> None:
        """Take up what a run covered and by how much it diverged; ``chance``: what had been foretold of it."""
        columns = _layout()[0]
        hit = np.zeros(len(columns))
        for each in coverage.hits:
            if each in columns:
                hit[columns[each]] = 1.0
        self._runs.setdefault(kernel, []).append((dict(shape), hit, abs(divergence)))
        self._tables.pop(kernel, None)
        if chance is not None:
            vain = self._vain.setdefault(kernel, np.zeros(len(columns)))
            vain += chance * (1.0 - hit)

    def remember_resources(self, kernel: str, shape: Shape) -> None:
        """Note registers and shared memory of the kernels that this process has just compiled and run."""
        for launch in make_case(kernel, dict(shape), self.gpu).launches:
            key = _compiled_key(launch)
            if launch.timed and key not in self._resources:
                prepared = prepare(launch.kernel, launch.args, tuple(self.gpu.capability))
                image = prepared.image
                self._resources[key] = image.registers_per_thread, image.shared_bytes, bool(prepared.built.cooperative)

    def knows(self, kernel: str) -> bool:
        """Whether a run of ``kernel`` has been learnt."""
        return kernel in self._runs

    def guess(self, kernel: str, shape: Shape) -> Guess | None:
        """What to expect of a shape; None for one that kernel or machine refuses. Zeros where nothing is known."""
        _, crosses, beside, sure = _layout()
        try:
            known = self._known(kernel, shape)
        except (UsageError, LaunchError):
            return None
        if kernel not in self._runs:
            near = Guess(np.zeros(sure.size), 1.0, 0.0)
        else:
            near = self._nearest(kernel, shape)
        chance = near.chance
        if known is not None:
            chance[sure] = known[sure]
        np.maximum.at(chance, beside[:, 0], BESIDE * chance[beside[:, 1]])
        together = chance[crosses[:, 1]] * chance[crosses[:, 2]]
        both_sure = sure[crosses[:, 0]]
        chance[crosses[:, 0]] = np.where(
            both_sure, together, np.maximum(chance[crosses[:, 0]], TOGETHER * together)
        )
        vain = self._vain.get(kernel)
        return near if vain is None else near._replace(chance=chance / (1.0 + vain))

    def _known(self, kernel: str, shape: Shape) -> np.ndarray | None:
        """Bins of the launches of a case; None where their resources are not known yet."""
        columns, *_ = _layout()
        found = np.zeros(len(columns))
        for launch in make_case(kernel, dict(shape), self.gpu).launches:
            if not launch.timed:
                continue
            grid, block = three_sides(launch.grid, "grid"), three_sides(launch.block, "block")
            resources = self._resources.get(_compiled_key(launch))
            if resources is None:
                return None
            registers, shared, cooperative = resources
            shared += launch.shared_bytes
            facts = Launch(
                kernel, tuple(self.gpu.capability), grid, block, registers, shared, local_bytes=0, cubin_sha256="",
                cooperative=cooperative,
            )  # fmt: skip
            fits = occupancy(facts, self.gpu)
            answers = launch_answers(grid, block, registers, shared, fits.blocks_per_sm, fits.limiter, self.gpu)
            for name, labels in answers.items():
                for label in labels:
                    found[columns[name, label]] = 1.0
        return found

    def _nearest(self, kernel: str, shape: Shape) -> Guess:
        table = self._tables.get(kernel)
        if table is None:
            table = self._tables[kernel] = _Table(self._runs[kernel])
        return table.nearest(shape)


class _Table:
    """Runs of one kernel as arrays: sizes as powers of two, whether they are whole warps, choices as numbers."""

    def __init__(self, runs: list[tuple[Shape, np.ndarray, float]]) -> None:
        first = runs[0][0]
        self.sizes = [axis for axis, value in first.items() if _is_number(value)]
        self.choices = [axis for axis in first if axis not in self.sizes]
        self.codes: dict[tuple[str, Any], int] = {}
        rows = [self._row(shape) for shape, *_ in runs]
        self.logs, self.whole, self.chosen = (np.array(column) for column in zip(*rows, strict=True))
        self.hit = np.array([hit for _, hit, _ in runs])
        self.divergence = np.array([divergence for *_, divergence in runs])
        self.had = Counter(each for shape, *_ in runs for kind in _values(shape) for each in kind)

    def nearest(self, shape: Shape) -> Guess:
        """The mean of the nearest runs, nearer ones more."""
        logs, whole, chosen = (np.array(each) for each in self._row(shape))
        apart = np.abs(self.logs - logs)
        distance = np.minimum(apart, FARTHEST).sum(1) + 0.1 * (apart > 0).sum(1)
        distance += 0.25 * (self.whole != whole).sum(1) + (self.chosen != chosen).sum(1)
        order = np.argsort(distance, kind="stable")[:NEAREST]
        weights = 1.0 / (0.2 + distance[order])
        weights /= weights.sum()
        return Guess(weights @ self.hit[order], self._novelty(shape), float(weights @ self.divergence[order]))

    def _novelty(self, shape: Shape) -> float:
        singles, pairs = _values(shape)
        new = SINGLE * sum(_rare(self.had[each]) for each in singles) + sum(_rare(self.had[each]) for each in pairs)
        return new / (SINGLE * len(singles) + len(pairs))

    def _row(self, shape: Shape) -> tuple[list[float], list[bool], list[int]]:
        sizes = [shape[axis] for axis in self.sizes]
        return (
            [log2(max(size, 0.25)) for size in sizes],
            [size % 32 == 0 for size in sizes],
            [self.codes.setdefault((axis, shape[axis]), len(self.codes)) for axis in self.choices],
        )


def _values(shape: Shape) -> tuple[list[tuple], list[tuple]]:
    """A shape's values and their pairs, as combinatorial testing counts them: sizes by power of two and whole warps."""
    singles = [
        (axis, int(log2(value)) if value >= 1 else -1, value % 32 == 0) if _is_number(value) else (axis, value)
        for axis, value in shape.items()
    ]
    return singles, list(combinations(singles, 2))


def _rare(times: int) -> float:
    """What a value is worth that was had so often."""
    return 1.0 / (1 + times) ** 2


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _compiled_key(launch: Any) -> tuple:
    """What the compiled code of a launch depends on, short of its types' finer points."""
    return launch.kernel, tuple((str(a.dtype), a.ndim) if isinstance(a, np.ndarray) else type(a) for a in launch.args)
