"""Is the tuned template of a product right on NumPy's word, and do tables of configurations get the order and the
regret that one reckons by hand?"""

from __future__ import annotations

import numpy as np
import pytest
from validation.sets import LEARN, MeasuredRow, load_sets
from validation.tables import tables

import gpusim
from workloads.external import template_families as families


@pytest.mark.parametrize("b", ["k-major", "n-major"])
def test_a_product_whose_tiles_do_not_divide_it(b: str) -> None:
    pytest.importorskip("triton")
    sizes = {"m": 40, "n": 70, "k": 64, "block_m": 32, "block_n": 32, "block_k": 32, "stages": 2, "warps": 4}
    timed = families.template_product({**sizes, "dtype": "float16", "b": b})
    assert timed.grid == (6, 1)
    args, random = timed.arguments(None), np.random.default_rng(3)
    for array in args[:2]:
        array[...] = random.standard_normal(array.shape).astype(np.float16)
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="h100")
    a, b_given, c = args[:3]
    second = b_given.reshape(70, 64).T if b == "k-major" else b_given
    np.testing.assert_allclose(c, a.astype(float) @ second.astype(float), rtol=1e-2, atol=2e-2)


def test_a_depth_that_the_tiles_do_not_divide_is_refused() -> None:
    pytest.importorskip("triton")
    row = {"m": 64, "n": 64, "k": 40, "block_m": 32, "block_n": 32, "block_k": 32, "stages": 2, "warps": 4}
    with pytest.raises(ValueError, match="k 40 is not a multiple of block_k 32"):
        families.template_product({**row, "dtype": "float16", "b": "k-major"})


def test_tables_keep_problems_apart_and_leave_out_those_of_two_rows() -> None:
    (chosen,) = load_sets(["filters_blocks"])
    records, rows = [], {}
    # Per table: blocks with measured and predicted times; the second's best predicted one is not the fastest.
    given = {"row_tiled": {32: (4, 5), 64: (2, 3), 128: (1, 2)}, "row_cached": {32: (3, 1), 64: (2, 2), 128: (1, 3)}}
    given["image_tiled"] = {8: (2, 2), 16: (1, 1)}
    for kernel, table in given.items():
        for block, (measured, predicted) in table.items():
            values = {"board": "A", "kernel": kernel, "size": "1", "mask": "5", "block": str(block)}
            name = f"{kernel} {block}"
            rows[chosen.name, name] = MeasuredRow(name, values, LEARN, "", float(measured), None)
            records.append(
                {"set": chosen.name, "half": LEARN, "row": name, "measured_us": measured, "predicted_us": predicted, "noise_percent": None}
            )  # fmt: skip
    first, second = tables(chosen, records, rows)
    assert first["table"] == "board=A kernel=row_tiled size=1 mask=5"
    assert (first["rank"], first["regret_percent"]) == (pytest.approx(1.0), 0.0)
    assert (second["rank"], second["regret_percent"]) == (pytest.approx(-1.0), pytest.approx(200.0))


def test_a_layers_product_is_the_template_in_half_precision() -> None:
    pytest.importorskip("triton")
    choice = {"block_m": 32, "block_n": 32, "block_k": 32, "stages": 3, "warps": 4}
    timed = families.layer_product({"rows": 288, "columns": 64, "depth": 96, **choice})
    args, random = timed.arguments(None), np.random.default_rng(3)
    for array in args[:2]:
        array[...] = random.integers(-3, 4, array.shape)
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a100_40gb")
    weights = args[1].reshape(64, 96)
    np.testing.assert_array_equal(args[2], args[0].astype(np.float32) @ weights.astype(np.float32).T)
