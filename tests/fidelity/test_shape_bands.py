"""Do bands of projected operators hold for networks that they were not made from?"""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from operators.shape_bands import LEANING_NETWORKS, band_rows, factor_of, held_without, networks_of

from gpusim.tile.bands import LEVEL_PERCENT, OPERATOR_REGIONS, operator_band


def errors(random: np.random.Generator, networks: int, shapes: int, common: float) -> tuple[np.ndarray, np.ndarray]:
    """Relative errors of shapes that share their network's, and the networks' numbers."""
    numbers = np.repeat(np.arange(networks), shapes)
    return np.exp(random.normal(0, common, networks)[numbers] + random.normal(0, 0.03, len(numbers))) - 1, numbers


def test_a_factor_by_hand() -> None:
    # Ten networks of 0.01 to 0.10, each of two shapes, and as much as four more of the same: 0.8 of 15 networks are 12
    # of 14.
    sizes, numbers = np.repeat(np.arange(1, 11) / 100, 2), np.repeat(np.arange(10), 2)
    assert math.log(factor_of(np.ones(20, bool), np.expm1(sizes), numbers)) == pytest.approx(0.09)
    # Shapes of a network count as one: a hundred of the smallest change nothing.
    many = np.concatenate([sizes, np.full(100, 0.01)]), np.concatenate([numbers, np.zeros(100, int)])
    assert math.log(factor_of(np.ones(120, bool), np.expm1(many[0]), many[1])) == pytest.approx(0.09)


def test_a_region_of_one_network_leans_on_the_others() -> None:
    sizes, numbers = np.array([0.01] * 5 + [0.2] * 45), np.repeat(np.arange(10), 5)
    inside = numbers == 0
    assert math.log(factor_of(inside, np.expm1(sizes), numbers)) == pytest.approx(0.2)
    assert LEANING_NETWORKS > 1


def test_the_next_network_lies_within_as_often_as_the_level_says() -> None:
    random = np.random.default_rng(3)
    shares = []
    for _ in range(300):
        off, numbers = errors(random, 9, 8, 0.1)
        new, _ = errors(random, 1, 8, 0.1)
        shares.append(np.mean(np.abs(np.log1p(new)) <= math.log(factor_of(numbers < 8, off, numbers))))
    plain = LEVEL_PERCENT / 100
    assert plain - 0.04 <= np.mean(shares) <= plain + 0.1


def test_a_network_is_judged_without_its_own_shapes() -> None:
    off, numbers = np.expm1(np.array([0.01] * 20 + [1.0] * 5)), np.repeat(np.arange(5), 5)
    held = held_without(np.ones(25, bool), off, numbers)
    assert held[:20].all() and not held[20:].any()


def test_rows_say_of_how_many_networks_and_leave_small_regions_out() -> None:
    shapes = pd.DataFrame({"n": [1, 1, 2, 2, 3, 3], "k": [7] * 6, "m": range(6)})
    numbers = networks_of(shapes, ("n", "k", "window_size"))
    assert numbers.tolist() == [0, 0, 1, 1, 2, 2]
    first, rest = np.arange(6) < 1, np.arange(6) >= 1
    rows = band_rows([("first", first), ("rest", rest)], np.full(6, 0.1), numbers, least=2)
    assert rows == {"rest": {"factor": 1.1, "shapes": 5, "networks": 3}}


@pytest.mark.parametrize("kind", sorted(OPERATOR_REGIONS))
def test_an_operator_of_a_generation_without_rows_is_no_surer_than_with_anothers_figures(kind: str) -> None:
    unknown = operator_band(kind, "turing", 64)
    assert not unknown.validated and "outside of what was measured" in unknown.reason or "guess" in unknown.reason
    for generation in ("ampere", "hopper", "blackwell"):
        known = operator_band(kind, generation, 64)
        assert not known.validated or unknown.factor >= known.factor
