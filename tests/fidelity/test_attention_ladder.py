"""Do the rungs of attention that are predicted for validation leave NumPy's result, of all keys and of some?"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import gpusim
from workloads.external import product_families as families

pytestmark = pytest.mark.usefixtures("without_source_lines")


@pytest.mark.by_day(1)
@pytest.mark.parametrize("rung", families._ATTENTION_RUNGS)
def test_a_block_of_attention(rung: str) -> None:
    timed = families.attention_ladder({"rung": rung, "heads": "2", "queries": "128", "keys": "192"})
    q, k, v, out, *numbers = timed.arguments(128)
    q, k, v, out = (array.view(ml_dtypes.bfloat16) for array in (q, k, v, out))
    for seed, array in enumerate((q, k, v)):
        array[...] = np.random.default_rng(seed).standard_normal(array.shape) + 0.5
    gpusim.capture(
        timed.kernel, timed.grid, timed.block, (q, k, v, out, *numbers), gpu="rtx5090", shared_bytes=timed.shared_bytes
    )  # fmt: skip
    q, k, v = (array.astype(np.float64) for array in (q, k[:, :128], v[:, :128]))
    shares = np.exp(q @ k.transpose(0, 2, 1) / np.sqrt(128))
    np.testing.assert_allclose(
        out.astype(np.float64), shares / shares.sum(axis=2, keepdims=True) @ v, rtol=0.02, atol=0.01
    )
