"""Does the arithmetic of rising intensity that is predicted for validation compute what its description says?"""

from __future__ import annotations

import numpy as np
import pytest

import gpusim
from workloads.external.intensity_families import mixed_intensity

pytestmark = pytest.mark.usefixtures("without_source_lines")

_THREADS, _EACH, _TURNS = 256, 8, 4
#: Element -> the type in which NumPy counts, and -1 as the kernel's seed.
_KINDS = {
    "float": (np.float32, np.float32(-1)),
    "double": (np.float64, np.float64(-1)),
    "half2": (np.float16, np.uint32(0xBC00BC00)),
    "int": (np.int32, np.int32(-1)),
}


@pytest.mark.parametrize("element", list(_KINDS))
@pytest.mark.parametrize("steps", [0, 1, 5])
def test_only_a_sum_of_minus_one_is_written_where_its_first_element_lies(element: str, steps: int) -> None:
    kind, seed = _KINDS[element]
    lanes = 2 if element == "half2" else 1
    random = np.random.default_rng(steps)
    values = random.integers(-1, 3, (_TURNS, _EACH, _THREADS))
    # Squares less one: 0 goes to -1, 1 and -1 to 0, 2 to 3. Half of the threads find what sums to -1, by steps of 1.
    values[:, :, ::2] = np.array([0, 2, 0, 0, 0, 0, 1, 1])[None, :, None]
    held = values.copy()
    for _ in range(steps):
        held = np.clip(held * held - 1, -1000, 1000)
    # Larger numbers are no -1 in any type, however they are rounded; leave those that overflow out of the comparison.
    sums = (held[:, ::2] * held[:, 1::2]).sum(1)
    sure = np.abs(held).max(1) < 16
    wanted = values.copy()
    wanted[:, 0] = np.where(sums == -1, -1, values[:, 0])
    assert steps != 1 or (sums[:, ::2] == -1).all()

    given = np.ascontiguousarray(np.repeat(values.reshape(-1, 1), lanes, 1).astype(kind))
    timed = mixed_intensity({"element": element, "steps": str(steps)})
    gpusim.capture(timed.kernel, (1,), timed.block, (seed, given.view(np.uint32) if lanes == 2 else given), gpu="a10")
    found = given[:, 0].astype(int).reshape(values.shape)
    np.testing.assert_array_equal(found[:, 1:], values[:, 1:])
    np.testing.assert_array_equal(found[:, 0][sure], wanted[:, 0][sure])
    if lanes == 2:
        np.testing.assert_array_equal(given[:, 0], given[:, 1])


def test_a_launch_reads_32_mi_elements_once() -> None:
    timed = mixed_intensity({"element": "double", "steps": "8"})
    assert timed.grid[0] * _THREADS * _EACH * _TURNS == 32 << 20 == timed.arguments(None)[1].size
