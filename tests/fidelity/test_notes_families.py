"""Do the row-wise kernels and the products of a collection of notes, that are predicted for validation, leave NumPy's
result?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from validation.predict import _Runner, machine_of, predict
from validation.sets import load_sets

import gpusim
from workloads.external import notes_families as families

pytestmark = pytest.mark.usefixtures("without_source_lines")

_COLUMNS, _BLOCKS = 512, 2


#: Halves are always taken less the greatest value; the online softmax is written for single floats alone.
_KERNELS = [
    *((operation, held) for operation in ("rms_norm", "layer_norm", "safe_softmax") for held in families._HELD),
    ("softmax", "f32"), ("softmax", "f32x4"), ("online_softmax", "f32"),
]  # fmt: skip


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("operation", "held"), _KERNELS)
def test_rows(operation: str, held: str) -> None:
    is_half = held.startswith("f16")
    sums = "half" if held in ("f16x2", "f16x8") else "float"
    timed = families.notes({"kernel": f"{operation}:{held}:{sums}", "rows": _BLOCKS, "columns": _COLUMNS})
    x, y, *_ = args = timed.arguments(None)
    x[...] = np.random.default_rng(1).normal(size=x.shape)
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="l20")
    wide = x.astype(np.float64)
    powers = np.exp(wide)
    wanted = {
        "rms_norm": wide / np.sqrt((wide**2).mean(axis=1, keepdims=True)),
        "layer_norm": (wide - wide.mean(axis=1, keepdims=True)) / wide.std(axis=1, keepdims=True),
    }.get(operation, powers / powers.sum(axis=1, keepdims=True))
    np.testing.assert_allclose(y, wanted, rtol=2e-2 if is_half else 1e-4, atol=1e-2 if is_half else 1e-6)


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kernel", families._TILED)
def test_a_block_of_a_product(kernel: str) -> None:
    timed = families.notes({"kernel": kernel, "rows": 128, "columns": 256, "depth": 64})
    a, b, c, *_ = args = timed.arguments(32)
    for array in (a, b):
        array[...] = np.random.default_rng(array.size).random(array.shape)
    gpusim.capture(timed.kernel, (1, 1), timed.block, args, gpu="l20")
    high, wide = families._TILED[kernel][1]
    wanted = a[:, :32].astype(np.float64) @ b[:32].astype(np.float64)
    np.testing.assert_allclose(c[:high, :wide], wanted[:high, :wide], rtol=2e-2 if c.dtype == np.float16 else 1e-5)
    assert not c[high:].any() and not c[:, wide:].any()


def test_every_row_has_a_launch() -> None:
    (one,) = load_sets(["notes_l20"])
    for row in one.rows:
        timed = families.notes(row.values)
        assert timed.block is not None and 32 <= math.prod(timed.block) <= 1024, row.identity
        assert math.prod(timed.grid) * math.prod(timed.block) >= 2048 * 32, row.identity


def test_parts_of_a_stream_send_back_what_it_wrote_the_turn_before() -> None:
    spec = machine_of(
        "l20", ["sm_count=8", "l2.slices=8", "l2.total_bytes=1048576", "dram.channels=4", "dram.peak_bytes_per_ns=144"]
    )
    row = {"kernel": "rms_norm:f32x4:float", "rows": "512", "columns": "1024", "depth": ""}
    whole, parts = (predict("notes", row, spec, "kind", budget, None, "warm") for budget in (4e6, 2e4))
    assert whole.scaled == "the whole launch" and parts.scaled.endswith("blocks along an axis")
    assert parts.time_us == pytest.approx(whole.time_us, rel=0.03)


def test_a_product_is_warm_where_its_factors_fit_l2() -> None:
    timed = families.notes({"kernel": "sgemm_tiles", "rows": 4096, "columns": 4096, "depth": 2048})
    assert [_Runner(timed, machine_of(gpu, [])).fits_in_l2() for gpu in ("l20", "rtx4060ti")] == [True, False]
