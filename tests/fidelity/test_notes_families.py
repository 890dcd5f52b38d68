"""Do the row-wise kernels and the products of a collection of notes, that are predicted for validation, leave NumPy's result?"""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from workloads.external import notes_families as families

pytestmark = pytest.mark.usefixtures("without_source_lines")

_COLUMNS, _BLOCKS = 512, 2


@pytest.mark.by_day(3)
@pytest.mark.parametrize("held", families._HELD)
@pytest.mark.parametrize("operation", ["rms_norm", "layer_norm", "safe_softmax", "softmax", "online_softmax"])
def test_rows(operation: str, held: str) -> None:
    if operation == "online_softmax" and held != "f32":
        pytest.skip("written for single floats alone")
    is_half = held.startswith("f16")
    if operation == "softmax" and is_half:
        pytest.skip("halves are always taken less the greatest value")
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


@pytest.mark.by_day(3)
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
