"""Projected products beside each other: one row, one column or one product more takes no leap, on GPUs without rows of
their own too."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpusim.gpus.load import load_gpu
from gpusim.tile.product import GemmOp, project_product

GPUS = ("l40s", "h20", "a10", "rtx4090", "rtx5090", "gb300", "a100_80gb")


@settings(deadline=None, max_examples=40)
@given(
    gpu=st.sampled_from(GPUS), rows=st.sampled_from([1, 16, 63, 127, 128, 255, 511]),
    columns=st.sampled_from([64, 1000, 4096, 14336]),
    depth=st.sampled_from([128, 513, 4096]), batch=st.sampled_from([1, 8, 24]),
)  # fmt: skip
def test_a_row_a_column_or_a_step_more_takes_no_leap(gpu: str, rows: int, columns: int, depth: int, batch: int) -> None:
    spec, op = load_gpu(gpu), GemmOp(rows, columns, depth, batch=batch)
    once = project_product(spec, op).seconds
    read_bytes = 2.0 * batch * columns * depth
    assert once > read_bytes / (spec.dram.peak_bytes_per_ns * 1e9)
    for more in (replace(op, columns=columns + 1), replace(op, depth=depth + 1), replace(op, rows=rows + 1)):
        # A row of tiles more is twice the work where there was one.
        assert 0.85 * once < project_product(spec, more).seconds < 1.7 * once, more
    if batch > 1:
        # Nor does L2, which holds one less, or a last wave more cost as much as all of them.
        assert 0.9 * once < project_product(spec, replace(op, batch=batch + 1)).seconds < 1.7 * once


@pytest.mark.parametrize("rows", [257, 65])
def test_many_products_of_a_second_row_of_tiles_read_their_weights_once(rows: int) -> None:
    # With few choices looked at, an L40S had a tile that reads them twice: 60 GB and 82 ms, where 400 rows took 48.
    spec, columns, depth = load_gpu("l40s"), 28672 if rows > 100 else 768, 13824 if rows > 100 else 53248
    op = GemmOp(rows, columns, depth, "fp16", batch=33)
    found = project_product(spec, op)
    assert found.dram_bytes < 1.3 * 2.0 * op.batch * columns * depth
    assert found.seconds < 1.25 * project_product(spec, replace(op, rows=rows - 1)).seconds


def test_a_rule_of_tiles_goes_by_the_rows_of_one_product_of_a_batch() -> None:
    spec = load_gpu("h100")
    op = GemmOp(17, 4096, 16384, "int8_wo", framework="sglang")
    one, eight = (project_product(spec, replace(op, batch=batch, input_dtype="int8_wo")) for batch in (1, 8))
    assert eight.l2_bytes < 8.5 * one.l2_bytes, "tiles of 64 rows, as for one"
