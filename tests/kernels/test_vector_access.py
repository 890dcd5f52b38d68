"""Vector accesses of the suite's kernels compile to one wide instruction, and sums stay in registers."""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32, int8, types

import gpusim
from gpusim.cases.suite import find_kernel
from gpusim.errors import CompileError
from gpusim.isa.architectures import SURVEYED

EVERYDAY = ("sm_80", "sm_90")
FURTHER = tuple(row.name for row in SURVEYED if row.name not in EVERYDAY)
find_kernel("gemv")  # loads the suite's package, which the next line takes a module from
from gpusim.kernels.vector import copy_vector, load_vector, store_vector, vector_width  # noqa: E402 - see above

pytestmark = pytest.mark.usefixtures("without_source_lines")


def doubling(dtype, count):
    @cuda.jit
    def double(x, out):
        values = cuda.local.array(count, dtype)
        start = cuda.grid(1) * count
        if start < x.size:
            load_vector(values, 0, x, start, count)
            for i in range(count):
                values[i] = dtype(float32(values[i]) * float32(2))
            store_vector(out, start, values, 0, count)

    return double


def opcodes(trace, *prefixes):
    return [text for text in trace.program.texts if any(f"{prefix}." in text for prefix in prefixes)]


CASES = [(float32, 4), (types.float16, 8), (int8, 16), (types.float16, 2), (float32, 1), (int8, 2)]


def check_accesses(dtype, count, gpu):
    x = (np.arange(40 * count) % 60).astype(str(dtype))
    out = np.zeros_like(x)
    trace = gpusim.capture(doubling(dtype, count), 2, 32, (x, out), gpu=gpu)
    np.testing.assert_array_equal(out, 2 * x)
    accesses = opcodes(trace, "LDG", "STG", "LDL", "STL")
    width = {16: ".128", 8: ".64"}.get(count * x.itemsize, "")
    assert len(accesses) == 2, f"one load and one store, not {accesses}"
    assert all(width in access for access in accesses)


@pytest.mark.parametrize(("dtype", "count"), CASES[:3], ids=str)
def test_a_vector_is_one_load_and_one_store(dtype, count):
    check_accesses(dtype, count, EVERYDAY[count % 2])


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", EVERYDAY + FURTHER)
@pytest.mark.parametrize(("dtype", "count"), CASES, ids=str)
def test_a_vector_is_one_load_and_one_store_everywhere(dtype, count, gpu):
    check_accesses(dtype, count, gpu)


def test_a_width_that_no_instruction_has_is_refused():
    x = np.zeros(96, np.float32)
    with pytest.raises(CompileError, match="double does not compile.*load_vector") as refused:
        gpusim.capture(doubling(float32, 3), 1, 32, (x, x), gpu="sm_90")
    assert str(refused.value).isprintable()  # Numba's messages have colours


def test_two_dtypes_are_refused():
    @cuda.jit
    def convert(x, out):
        copy_vector(out, 0, x, 0, 2)

    with pytest.raises(CompileError, match="convert does not compile.*copy_vector"):
        gpusim.capture(convert, 1, 1, (np.zeros(2, np.float32), np.zeros(2, np.int32)), gpu="sm_90")


def test_the_width_divides_every_length():
    assert vector_width(np.float32, 64) == 4
    assert vector_width(np.float16, 64, 12) == 4
    assert vector_width(np.int8, 7) == 1
    assert vector_width(np.float64, 6) == 2


@pytest.mark.nightly
@pytest.mark.parametrize("gpu", EVERYDAY + FURTHER)
@pytest.mark.parametrize("name", ["sgemm_register", "flash_attention", "conv2d_implicit_gemm"])
def test_sums_stay_in_registers(name, gpu):
    """Local memory would mean that a loop over a thread's own array was not unrolled."""
    launch = find_kernel(name).make(**find_kernel(name).small).launches[0]
    trace = gpusim.capture(launch.kernel, launch.grid, launch.block, launch.args, gpu=gpu)
    assert not opcodes(trace, "LDL", "STL")
