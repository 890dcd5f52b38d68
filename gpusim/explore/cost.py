"""What running a shape costs, learnt from the runs of its kernel: how its executed instructions grow with each axis.

Mental model: the instructions of a kernel go about as a product of powers of its axes (n^3 of a product of n x n
matrices, whose blocks and bytes go as n^2). The exponents are a ridge regression of logarithms over the runs, from
zero: until runs say otherwise, an axis costs nothing beyond what its launch shows. Instructions and not seconds, so
that the same seed gives the same search on any machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log2
from typing import Any

import numpy as np

#: Runs before anything is said, and how much of a run's weight holds an exponent at zero. Guesses.
LEAST_RUNS, STIFFNESS = 3, 0.05


class MeasuredCost:
    """The cost of a kernel's shapes as a multiple of its shape ``small``."""

    def __init__(self, small: Mapping[str, Any]) -> None:
        self._small = {axis: value for axis, value in small.items() if type(value) is int and value > 0}
        self._rows: list[list[float]] = []
        self._logs: list[float] = []
        self._exponents = np.zeros(len(self._small))

    def learn(self, shape: Mapping[str, Any], instructions: float) -> None:
        """Take up a run of so many executed warp instructions; one of none says nothing."""
        row = self._row(shape)
        if row is None or instructions <= 0:
            return
        self._rows.append(row)
        self._logs.append(log2(instructions))
        if len(self._rows) >= LEAST_RUNS:
            logs = np.array(self._logs)
            weights = 2.0 ** ((logs - logs.max()) / 2)  # what a small run costs is mostly what every run costs
            axes = np.array(self._rows) - np.average(self._rows, axis=0, weights=weights)
            normal = (weights * axes.T) @ axes + STIFFNESS * np.eye(len(row))
            self._exponents = np.linalg.solve(normal, (weights * axes.T) @ (logs - np.average(logs, weights=weights)))

    def of(self, shape: Mapping[str, Any]) -> float:
        """What ``shape`` costs, as a multiple of the small one; 1 where too little is known."""
        row = self._row(shape)
        return 1.0 if row is None else 2.0 ** min(100.0, float(self._exponents @ np.array(row)))

    def _row(self, shape: Mapping[str, Any]) -> list[float] | None:
        values = [shape.get(axis) for axis in self._small]
        if not values or not all(type(value) is int and value > 0 for value in values):
            return None
        return [log2(value / small) for value, small in zip(values, self._small.values(), strict=True)]  # pyright: ignore[reportOperatorIssue]
