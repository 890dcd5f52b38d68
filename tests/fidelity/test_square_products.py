"""Are square products of libraries projected on GPUs that nothing was fitted to?"""

from __future__ import annotations

from statistics import fmean

import pytest
import square_products
from square_products import DTYPES, Row

from gpusim.gpus import list_gpus
from gpusim.gpus.load import load_gpu
from gpusim.tile.bands import gemm_band
from gpusim.tile.library import named_kernels

#: One size of every board, that lasts long enough for any clock.
ROWS = [row for row in square_products.read() if row.size == 4096 and not row.left_out and not row.sets]


@pytest.fixture(scope="module")
def errors() -> dict[Row, float]:
    return {row: row.error() for row in ROWS}


@pytest.mark.parametrize("dtype", DTYPES)
def test_products_on_gpus_without_rows_are_within_twelve_percent(errors: dict[Row, float], dtype: str) -> None:
    of_kind = [error for row, error in errors.items() if row.dtype == dtype]
    assert len(of_kind) > 20
    assert fmean(map(abs, of_kind)) < 0.12
    assert abs(fmean(of_kind)) < 0.08


def test_a_gpu_with_a_seventh_of_the_tensor_cores_is_projected_as_it_is(errors: dict[Row, float]) -> None:
    of_h20 = [error for row, error in errors.items() if row.gpu == "h20"]
    assert len(of_h20) == 3 and all(abs(error) < 0.2 for error in of_h20)


@pytest.mark.parametrize("dtype", square_products.RECORDED)
def test_bands_hold_gpus_that_were_left_out_when_they_were_made(errors: dict[Row, float], dtype: str) -> None:
    found = square_products.bands(errors, dtype)["regions"]
    assert set(found) == {"above"} and found["above"]["networks"] > 15
    assert 75 <= found["above"]["held_percent"] <= 95
    # What is recorded, of all sizes, holds four of five of this one.
    held = [1 / (1 + error) for row, error in errors.items() if row.dtype == dtype]
    factors = [gemm_band(named_kernels(load_gpu(row.gpu)), dtype, 4096).factor for row in errors if row.dtype == dtype]
    inside = [1 / factor <= value <= factor for value, factor in zip(held, factors, strict=True)]
    assert 0.75 <= fmean(inside) <= 0.95


def test_rows_that_set_a_rate_and_the_best_of_all_sizes_make_no_band(errors: dict[Row, float]) -> None:
    setting = [row for row in square_products.read() if row.sets]
    assert setting and not square_products.errors_of(setting)
    best = {row: 9.0 for row in square_products.read() if not row.size}
    assert best and square_products.bands(errors | best, "fp32") == square_products.bands(errors, "fp32")


def test_rows_name_gpus_that_are_described_and_say_why_they_are_left_out() -> None:
    rows = square_products.read()
    assert {row.gpu for row in rows} <= set(list_gpus())
    assert {row.left_out for row in rows} == {"", "first", "host", "unsteady"}
    assert {row.dtype for row in rows} == set(DTYPES)
    for row in rows:
        if row.size and row.left_out in ("", "host"):
            assert (2e-6 * row.size**3 / row.tflops < 20) == (row.left_out == "host"), row
