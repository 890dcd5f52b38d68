"""Does the replay of a search say what it missed, and how many configurations it simulated whole?"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from whole_search import convolution, read, searched, space

from gpusim.search.predict import COARSE, EXACT


def written(folder: Path, times: list[tuple[float, float]]) -> Path:
    path = folder / "kept.jsonl"
    rows = [
        {"parameters": {"bx": n}, COARSE: [coarse, COARSE, "", 0.1], EXACT: [exact, EXACT, "", 1.0]}
        for n, (coarse, exact) in enumerate(times)
    ]
    failed = {"parameters": {"bx": -1}, COARSE: [None, COARSE, "no", 0.1], EXACT: [None, EXACT, "no", 0.1]}
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, failed]))
    return path


def test_a_search_over_parts_that_are_right_loses_nothing_and_runs_four_whole(tmp_path: Path) -> None:
    rows = read(written(tmp_path, [(100.0 + 10 * n, 100.0 + 10 * n) for n in range(20)]))
    assert len(rows) == 20  # what cannot run is left out
    found = searched(rows)
    assert (found.rows, found.whole, found.regret) == (20, 4, 0)


def test_a_part_that_hides_the_best_is_a_regret(tmp_path: Path) -> None:
    times = [(100.0 + 10 * n, 100.0 + 10 * n) for n in range(20)]
    times[10] = (200.0, 80.0)
    found = searched(read(written(tmp_path, times)))
    assert (found.whole, found.regret) == (4, pytest.approx(100 / 80 - 1))


def test_parts_that_are_off_by_much_have_more_of_the_space_simulated_whole(tmp_path: Path) -> None:
    near = [(100.0, 100.0), (103.0, 113.3), (104.0, 95.7), (106.0, 106.0)]
    far = [(112.0 + 20 * n, 112.0 + 20 * n) for n in range(16)]
    far[0] = (112.0, 90.0)
    found = searched(read(written(tmp_path, [*near, *far])))
    assert (found.whole, found.regret) == (5, 0)
    assert searched(read(written(tmp_path, [*near, *far])), 1).regret == pytest.approx(100 / 90 - 1)


def test_the_space_is_the_same_whoever_draws_it_and_all_of_it_are_blocks_that_a_gpu_takes() -> None:
    drawn = space()
    assert drawn == space()
    assert len(drawn) == 224
    assert len({tuple(each.values()) for each in drawn}) == 224
    _, grid, block, (output, image) = convolution(**drawn[0])
    bx, by, tx, ty = drawn[0].values()
    assert block == (bx, by)
    assert grid[0] * bx * tx >= output.shape[1] > (grid[0] - 1) * bx * tx
    assert grid[1] * by * ty >= output.shape[0] > (grid[1] - 1) * by * ty
    assert image.shape[0] == output.shape[0] + 14
