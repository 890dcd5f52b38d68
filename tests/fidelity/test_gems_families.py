"""Are the library's and the tutorial's Triton kernels of the validation bench right on NumPy's word, and are their
tiles the library's?"""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from workloads.external import gems_families as families

pytest.importorskip("triton")
pytest.importorskip("ml_dtypes")


def ran(timed: families.Timed, *filled: int) -> tuple:
    """The arguments after the launch, those at ``filled`` drawn before; and what these held."""
    args, random = timed.arguments(None), np.random.default_rng(2)
    for place in filled:
        args[place][...] = random.standard_normal(args[place].shape).astype(args[place].dtype)
    before = [args[place].copy() for place in filled]
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="h20")
    return args, before


def test_the_logarithm_of_running_sums() -> None:
    args, (x,) = ran(families.gems_rows({"kernel": "logcumsumexp", "rows": 2, "columns": 200, "dtype": "float32"}), 0)
    np.testing.assert_allclose(args[1], np.log(np.cumsum(np.exp(x.astype(float)), axis=1)), rtol=1e-4, atol=1e-5)


def test_rows_over_their_root_mean_square() -> None:
    row = {"kernel": "fused_rms_norm", "rows": 2, "columns": 200, "dtype": "float32"}
    args, (x, weight) = ran(families.gems_rows(row), 2, 3)
    inverse = 1 / np.sqrt((x.astype(float) ** 2).mean(axis=1) + 1e-5)
    np.testing.assert_allclose(args[1], inverse, rtol=1e-5)
    np.testing.assert_allclose(args[0], x * inverse[:, None] * weight, rtol=1e-4, atol=1e-6)


def test_sums_in_place_by_tiles_and_by_programs_that_take_several(monkeypatch: pytest.MonkeyPatch) -> None:
    row = {"kernel": "add_relu", "rows": 5, "columns": 500, "dtype": "float32"}
    for most, programs in ((families._MOST_PROGRAMS, 5), (2, 2)):
        monkeypatch.setattr(families, "_MOST_PROGRAMS", most)
        timed = families.gems_rows(row)
        assert timed.grid == (programs,)
        args, (x, y) = ran(timed, 0, 1)
        np.testing.assert_array_equal(args[0], np.maximum(x + y, 0))


def test_the_tutorials_sum() -> None:
    timed = families.tutorial_sum({"size": 3000})
    args, (x, y) = ran(timed, 0, 1)
    np.testing.assert_array_equal(args[2], x + y)
    assert timed.grid == (3,)
