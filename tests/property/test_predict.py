"""What a search predicts of a shape: exact where the launch decides, less after it did not come, newer for what is
new."""

from __future__ import annotations

import numpy as np
import pytest

from gpusim.cases.suite import complete_shape
from gpusim.explore.cover import cover
from gpusim.explore.coverage import Coverage
from gpusim.explore.launch_points import LAUNCH_POINTS
from gpusim.explore.points import CROSS, all_bins
from gpusim.explore.predict import Predictor
from gpusim.explore.shape_distance import bin_points
from gpusim.gpus.load import load_gpu

H200 = load_gpu("h200")
BINS = all_bins()
SURE = {each for each in BINS if set(each[0].split(CROSS)) <= set(LAUNCH_POINTS)}


@pytest.mark.parametrize(
    ("kernel", "run", "predicted"),
    [
        ("saxpy", {"block_threads": 128}, {"n": 132 * 1024 * 2, "block_threads": 1024}),
        ("matmul_tiled", {"tile": 16}, {"m": 70, "tile": 16}),
        ("bfs", {}, {"vertices": 300}),
    ],
)
def test_what_the_launch_decides_is_predicted_exactly(kernel: str, run: dict, predicted: dict) -> None:
    predictor = Predictor(H200)
    run, predicted = (complete_shape(kernel, shape, H200, small=True) for shape in (run, predicted))
    predictor.learn(kernel, run, cover(kernel, run, H200).coverage, 0.0)
    predictor.remember_resources(kernel, run)
    probability = predictor.predict(kernel, predicted).probability
    sure = {each for each, likely in zip(BINS, probability, strict=True) if likely == 1.0 and each in SURE}
    possible = {each for each, likely in zip(BINS, probability, strict=True) if likely > 0.0 and each in SURE}
    came = SURE & cover(kernel, predicted, H200).coverage.hits.keys()
    assert sure == possible
    if kernel != "bfs":  # how many levels there are, and so how large their launches, depends on the run
        assert sure == came


def _learnt(shapes: list[dict], label: str = "one L1") -> Predictor:
    predictor = Predictor(H200)
    for shape in shapes:
        predictor.learn("saxpy", shape, Coverage.of([("footprint", label), ("sectors_per_load", "1")], "saxpy"), 0.5)
    return predictor


def _probability(predictor: Predictor, shape: dict, each: tuple[str, str]) -> float:
    return float(predictor.predict("saxpy", shape).probability[BINS.index(each)])


FARTHER = 1_000_000, 1024
NEAR, FAR = {"n": 1000, "block_threads": 128}, {"n": 100_000, "block_threads": 512}


def test_runs_near_by_say_what_to_expect_and_neighbours_of_it_are_possible() -> None:
    predictor = _learnt([NEAR])
    assert _probability(predictor, FAR, ("footprint", "one L1")) == 1.0
    assert 0.0 < _probability(predictor, FAR, ("footprint", "half L2")) < 0.5
    assert _probability(predictor, FAR, ("footprint x sectors_per_load", "one L1 x 1")) > 0.0
    assert _probability(predictor, FAR, ("footprint", "beyond L2")) == 0.0
    assert predictor.predict("saxpy", FAR).divergence == 0.5
    assert predictor.predict("saxpy", {"n": -1, "block_threads": 128}) is None


def test_what_did_not_come_is_predicted_less() -> None:
    predictor = _learnt([NEAR])
    hole = ("footprint", "half L2")
    before = _probability(predictor, FAR, hole)
    for _ in range(3):
        found = predictor.predict("saxpy", FAR)
        predictor.learn("saxpy", NEAR, Coverage.of([("footprint", "one L1")], "saxpy"), 0.0, np.full(len(BINS), 1.0))
        assert found is not None
    assert _probability(predictor, FAR, hole) == pytest.approx(before / 4**2)


def _novelty(predictor: Predictor, shape: dict, point: str) -> float:
    return float(predictor.predict("saxpy", shape).novelty[bin_points()[0].index(point)])


def test_a_shape_is_the_newer_the_farther_it_is_from_what_ran() -> None:
    predictor = _learnt([NEAR])
    novelty = [
        _novelty(predictor, {"n": n, "block_threads": b}, "stall") for n, b in ((1000, 128), (2000, 128), FARTHER)
    ]
    assert novelty[0] == 0.0 and novelty == sorted(novelty) and len(set(novelty)) == 3


def test_an_axis_that_moves_nothing_stops_counting_as_new() -> None:
    predictor = Predictor(H200)
    for n in (1000, 1_000_000):
        for block in (32, 64, 256, 512):
            label = "one L1" if n == 1000 else "L2"
            predictor.learn(
                "saxpy", {"n": n, "block_threads": block}, Coverage.of([("footprint", label)], "saxpy"), 0.0
            )
    assert _novelty(predictor, {"n": 1000, "block_threads": 1024}, "footprint") < 0.1
    assert _novelty(predictor, {"n": 30_000, "block_threads": 64}, "footprint") > 0.2
    # The nearest by block has another n: who asks of the footprint is answered by n.
    assert _probability(predictor, {"n": 1001, "block_threads": 1024}, ("footprint", "one L1")) > 0.8


def test_what_brought_nothing_new_is_hoped_of_less() -> None:
    predictor = _learnt([NEAR])
    prediction = predictor.predict("saxpy", FAR)
    before = predictor.new_bins("saxpy")(prediction)
    for n in (2000, 5000, 20_000):
        predictor.learn("saxpy", {**NEAR, "n": n}, Coverage.of([("footprint", "one L1")], "saxpy"), 0.0)
    assert predictor.new_bins("saxpy")(prediction) < before


def test_blocks_are_predicted_of_a_kernel_that_has_not_run() -> None:
    probability = Predictor(H200).predict("saxpy", {"n": 1000, "block_threads": 128}).probability
    assert {BINS[column] for column in np.flatnonzero(probability)} == {
        ("block_threads", "128"), ("block_tail", "full"), ("grid_blocks", "2-31"), ("dimensions", "1"),
    }  # fmt: skip
