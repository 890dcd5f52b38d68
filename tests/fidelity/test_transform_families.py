"""Do the transforms of a library, that are predicted for validation, leave NumPy's result, in the blocks and tiles that
the library would launch?"""

from __future__ import annotations

import math

import numpy as np
import pytest
from validation.sets import load_sets

import gpusim
from workloads.external import transform_families as families

pytestmark = pytest.mark.usefixtures("without_source_lines")

#: The last block's tile is not full.
_ELEMENTS = 10_000
_SCALAR = 3
_WANTED = {
    "mul": lambda a: a * _SCALAR,
    "add": lambda a, b: a + b,
    "triad": lambda a, b: a + _SCALAR * b,
    "nstream": lambda a, b, c: a + b + _SCALAR * c,
    "relu": lambda a: np.maximum(a, 0),
    "gelu": lambda a: a / 2 * (1 + np.vectorize(math.erf)(a / math.sqrt(2))),
    "tanh": np.tanh,
    "exp": np.exp,
    "ge": lambda a, b: (a >= b).astype(np.float64),
    "fmin": np.minimum,
}


def _row(algorithm: str, operation: str, dtype: str, gpu: str, elements: int = _ELEMENTS) -> dict[str, str]:
    return {
        "gpu": gpu,
        "algorithm": algorithm,
        "operation": operation,
        "dtype": dtype,
        "elements": str(elements),
    }


@pytest.mark.by_day(2)
@pytest.mark.parametrize("operation", families._OPERATIONS)
def test_operations(operation: str) -> None:
    dtype = "F32" if families._OPERATIONS[operation][1] == 3 else "F16"
    timed = families.transforms(_row("bulk-2026", operation, dtype, "b200"))
    out, *rest = args = timed.arguments(None)
    read = [each for each in rest if isinstance(each, np.ndarray)]
    for array in read:
        array[...] = np.random.default_rng(len(array)).normal(size=array.shape)
    wanted = _WANTED[operation](*(each.astype(np.float64) for each in read))
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="b200", shared_bytes=timed.shared_bytes)
    np.testing.assert_allclose(out, wanted, rtol=4e-3, atol=1e-3)


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("algorithm", "operation", "gpu"),
    [("for", "triad", "h200"), ("prefetch", "nstream", "h100_pcie"), ("bulk", "add", "h200"), ("copies", "add", "a100_80gb")],
)  # fmt: skip
def test_algorithms(algorithm: str, operation: str, gpu: str) -> None:
    timed = families.transforms(_row(algorithm, operation, "I8", gpu))
    out, *rest = args = timed.arguments(None)
    read = [each for each in rest if isinstance(each, np.ndarray)]
    for array in read:
        array[...] = np.random.default_rng(1).integers(-20, 20, array.shape)
    wanted = _WANTED[operation](*(each.copy() for each in read))
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu=gpu, shared_bytes=timed.shared_bytes)
    np.testing.assert_array_equal(out, wanted)


def test_wide_integers_and_fills() -> None:
    timed = families.transforms(_row("copies", "mul", "I128", "a100_80gb", 700))
    out, read, *_ = args = timed.arguments(None)
    read["low"], read["high"] = np.uint64(1 << 63), 5
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="a100_80gb", shared_bytes=timed.shared_bytes)
    assert (out["low"] == 1 << 63).all() and (out["high"] == 16).all()
    timed = families.transforms(_row("fill", "fill", "I8", "gh200"))
    args = timed.arguments(None)
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="gh200")
    assert (args[0] == _SCALAR).all()
    timed = families.transforms(_row("fill-vectors", "fill", "I16", "rtx5090", 1 << 14))
    args = timed.arguments(None)
    gpusim.capture(timed.kernel, timed.grid, timed.block, args, gpu="rtx5090")
    assert (args[0] == _SCALAR).all() and timed.grid == (8,)


@pytest.mark.parametrize(
    ("row", "each"),
    [
        (("bulk", "mul", "I8", "h200", 1 << 28), 24),  # 8 blocks of 256 threads, 48 KiB
        (("bulk-2026", "ge", "F32", "b200", 1 << 28), 4),  # 16 blocks of 128 threads, 64 KiB
        (("bulk-2026", "ge", "F32", "b200", 1 << 20), 4),
        (("bulk-2026", "relu", "F16", "b200", 1 << 16), 1),  # spread over all SMs
        (("bulk-2026", "add", "F32", "rtx5090", 1 << 28), 6),  # 12 blocks of 128 threads
        (("bulk-2026", "add", "I128", "rtx5090", 1 << 28), 2),  # of which ten fit in shared memory
        (("prefetch", "mul", "I8", "h100_pcie", 1 << 20), 4),
        (("for", "add", "F64", "h200", 1 << 20), 2),
    ],
)
def test_elements_of_a_thread(row: tuple[str, str, str, str, int], each: int) -> None:
    timed = families.transforms(_row(*row))
    assert timed.block is not None
    assert timed.grid == (-(-row[-1] // (timed.block[0] * each)),)


def test_every_row_has_a_launch() -> None:
    for one in load_sets(
        ["transforms_cold", "transforms_batch", "transforms_cold_rtx5090", "transforms_batch_rtx5090"]
    ):
        for row in one.rows:
            assert families.WAYS[row.values["algorithm"]].threads in (128, 256), row.identity
            assert row.values["operation"] in (*families._OPERATIONS, "fill") and row.values["dtype"] in families._TYPES
