"""How differently two shapes of a kernel behave, learnt from its runs: a distance for each cover point (metric
learning).

Mental model: for each cover point the difference between two runs' answers (the share of bins that only one of them
hit) is about a weighted sum of the differences between their shapes: in size, in alignment (the power of two that
divides a number), in choices, in blocks and in bytes of arguments. The weights are a ridge regression over all pairs of
runs, none negative, which starts at the same weight for every axis; so an axis that moves nothing stops counting as
new, and one that alone decides a point decides who its neighbours are.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from math import log2
from typing import Any

import numpy as np

from gpusim.explore.points import all_bins

#: What a whole difference of any axis counts before runs say otherwise, and how many pairs of runs outweigh that.
#: guess (chosen over searches of seeds that no benchmark reports)
FIRST_WEIGHT, STIFFNESS = 0.3, 4.0
#: Powers of two between sizes, and of alignment, beyond which two values are no more distances.
FARTHEST_OCTAVES, FARTHEST_ALIGNMENT = 8.0, 5
#: Steps of projected gradient descent for each new run; the weights of the run before are the start.
STEPS = 60
#: Last runs that a shape is compared with, so that long searches do not slow down.
MOST_RUNS = 400
Shape = Mapping[str, Any]


@cache
def bin_points() -> tuple[tuple[str, ...], np.ndarray]:
    """Names of points and crosses in order of definition; float[bins, points], 1 where a bin belongs to a point."""
    names = tuple(dict.fromkeys(name for name, _ in all_bins()))
    places = {name: place for place, name in enumerate(names)}
    belongs = np.zeros((len(all_bins()), len(names)))
    for column, (name, _) in enumerate(all_bins()):
        belongs[column, places[name]] = 1.0
    return names, belongs


class ShapeDistance:
    """The runs of one kernel and the distances that they teach: ``hits`` float[runs, bins] and ``divergences``
    float[runs] of the last of them. ``work``: sizes beside the axes (blocks, bytes)."""

    def __init__(self, shape: Shape) -> None:
        self._numbers = [axis for axis, value in shape.items() if is_number(value)]
        self._choices = [axis for axis in shape if axis not in self._numbers]
        self._codes: dict[Any, int] = {}
        points = bin_points()[1].shape[1]
        self._rows = np.zeros((0, 0))
        self.hits = np.zeros((0, 0))
        self.divergences = np.zeros(0)
        self._normal = self._right = np.zeros((0, 0))
        self._weights = np.zeros((0, points))

    def row(self, shape: Shape, work: tuple[float, ...]) -> np.ndarray:
        """A shape as numbers: value, logarithm and alignment of each number, code of each choice, logarithms of
        work."""
        numbers = [shape[axis] for axis in self._numbers]
        codes = [self._codes.setdefault((axis, str(shape.get(axis))), len(self._codes)) for axis in self._choices]
        return np.array(
            [*numbers, *codes, *map(_octave, numbers), *map(_octave, work), *map(_alignment, numbers)], float
        )

    def learn(self, row: np.ndarray, hit: np.ndarray, divergence: float) -> None:
        """Take up a run: bool[bins] of what it hit."""
        belongs = bin_points()[1]
        if self.divergences.size:
            others = self.hits > 0.0
            differ = ((others != hit) @ belongs) / np.maximum((others | hit) @ belongs, 1.0)
            distances = self._differences(row[None])[0]
            if not self._normal.size:
                self._normal = STIFFNESS * np.eye(distances.shape[1])
                self._weights = np.full((distances.shape[1], belongs.shape[1]), FIRST_WEIGHT)
                self._right = STIFFNESS * self._weights
            self._normal = self._normal + distances.T @ distances
            self._right = self._right + distances.T @ differ
            step = 1.0 / np.linalg.norm(self._normal, 2)
            weights = self._weights
            for _ in range(STEPS):
                weights = np.maximum(0.0, weights - step * (self._normal @ weights - self._right))
            self._weights = weights
        self._rows = _appended(self._rows, row)
        self.hits = _appended(self.hits, hit.astype(float))
        self.divergences = np.append(self.divergences, divergence)[-MOST_RUNS:]

    def to_runs(self, rows: np.ndarray) -> np.ndarray:
        """float[points, rows, runs] from 0, alike, to 1."""
        differences = self._differences(rows)
        weights = self._weights
        if not weights.size:
            weights = np.full((differences.shape[2], bin_points()[1].shape[1]), FIRST_WEIGHT)
        return np.minimum(1.0, np.ascontiguousarray(np.moveaxis(differences @ weights, 2, 0)))

    def _differences(self, rows: np.ndarray) -> np.ndarray:
        """float[rows, runs, features], each from 0 to 1."""
        plain, aligned = len(self._numbers) + len(self._choices), len(self._numbers)
        distances = np.abs(rows[:, None, :] - self._rows[None, :, :])
        distances[:, :, :plain] = distances[:, :, :plain] > 0.0
        logs = slice(plain, distances.shape[2] - aligned)
        distances[:, :, logs] = np.minimum(distances[:, :, logs] / FARTHEST_OCTAVES, 1.0)
        distances[:, :, logs.stop :] /= FARTHEST_ALIGNMENT
        return distances


def _appended(rows: np.ndarray, row: np.ndarray) -> np.ndarray:
    return np.vstack([rows[-MOST_RUNS + 1 :], row]) if rows.size else row[None]


def is_number(value: Any) -> bool:
    """Whether a value of an axis has a size."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _octave(value: float) -> float:
    return log2(max(value, 2.0**-10))


def _alignment(value: float) -> int:
    whole = int(value)
    return min(FARTHEST_ALIGNMENT, (whole & -whole).bit_length() - 1) if whole == value and whole > 0 else 0
