"""What a kernel of CUDA C++ takes as arguments: structures, vectors, lists of arrays, small floats, arrays of other
libraries."""

from __future__ import annotations

import array
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gpusim
from gpusim.cases.native_arguments import parse_kernel_argument
from gpusim.errors import UsageError
from gpusim.frontend.native import foreign_arrays

SOURCE = """
#include <cuda_bf16.h>
#include <cuda_fp8.h>
struct Line { float *x; int n; double offset; };
extern "C" __global__ void doubled(float **rows, int n) { float *x = rows[blockIdx.x]; if (x && threadIdx.x < n) x[threadIdx.x] *= 2; }
extern "C" __global__ void small(__nv_bfloat16 *x, __nv_bfloat16 s, const __nv_fp8_e4m3 *y) {
  x[threadIdx.x] = __hfma(x[threadIdx.x], s, __float2bfloat16(float(y[threadIdx.x])));
}
extern "C" __global__ void line(Line l, float4 v) { if (threadIdx.x < l.n) l.x[threadIdx.x] = l.offset + v.z; }
"""


def run(entry: str, args: tuple, grid: int = 1) -> Any:
    return gpusim.capture(gpusim.cuda_cpp(SOURCE, entry), grid, 32, args, gpu="a100_80gb")


class DeviceArray:
    """As a library's array on a GPU: it gives a copy and takes one back."""

    def __init__(self, values: np.ndarray) -> None:
        self.values, self.__cuda_array_interface__ = values, {}

    def copy_to_host(self) -> np.ndarray:
        return self.values.copy()

    def copy_to_device(self, values: np.ndarray) -> None:
        self.values[...] = values


class Bfloat16Tensor:
    """As a framework's tensor on the host, of a type that NumPy has not."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    def __dlpack__(self, **_options: Any) -> Any:
        capsule = self.values.__dlpack__()
        foreign_arrays._Tensor.from_address(foreign_arrays._pointer_of(capsule, b"dltensor")).code = 4
        return capsule


def test_a_list_of_arrays_is_an_array_of_pointers() -> None:
    rows = [np.full(32, i, np.float32) for i in range(3)]
    buffer, device = array.array("f", [5.0] * 32), DeviceArray(np.full(32, 7, np.float32))
    run("doubled", ([*rows, None, buffer, device], 32), grid=6)
    assert [row[0] for row in rows] == [0, 2, 4] and buffer[31] == 10 and (device.values == 14).all()
    with pytest.raises(UsageError, match=r"argument 0\[1\] of doubled: a list holds arrays, or None, not a int"):
        run("doubled", ([rows[0], 3], 32))


@pytest.mark.parametrize("wrapped", [False, True])
def test_small_floats(wrapped: bool) -> None:
    x, y = (np.arange(32).astype(kind) for kind in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn))
    expected = 2 * np.arange(32) + y.astype(np.float32)
    run("small", (Bfloat16Tensor(x.view(np.uint16)) if wrapped else x, 2.0, y))
    assert np.allclose(x.astype(np.float32), expected, rtol=0.01)


@pytest.mark.parametrize("form", ["tuple", "record"])
def test_a_structure_by_value_may_hold_arrays(form: str) -> None:
    x = np.zeros(32, np.float32)
    layout = np.dtype([("x", "O"), ("n", "i4"), ("offset", "f8")], align=True)
    given = (x, np.int32(20), np.float64(1.5)) if form == "tuple" else np.array((x, 20, 1.5), layout)[()]
    run("line", (given, np.arange(4, dtype=np.float32)))
    assert (x[:20] == 3.5).all() and (x[20:] == 0).all()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((np.zeros(32, np.float32), 20, np.float64(1)), r"a member of a structure says its size: give np.int32\(20\)"),
        ((np.zeros(32, np.float32), np.int32(20)), "argument 0 of line has 16 bytes, the parameter 24 bytes"),
        (np.zeros(4, np.float64), "argument 0 of line is an array, but the parameter is 24 bytes, not a pointer"),
    ],
)
def test_a_structure_that_does_not_fit_is_named(given: Any, said: str) -> None:
    with pytest.raises(UsageError, match=said):
        run("line", (given, np.zeros(4, np.float32)))


def test_a_number_that_is_no_float_is_refused_and_infinity_is_not() -> None:
    kernel = gpusim.cuda_cpp('extern "C" __global__ void put(float *x, float a) { *x = a; }', "put")
    x = np.zeros(1, np.float32)
    with pytest.raises(UsageError, match=r"argument 1 of put is 1e\+300, which 4 bytes \(f32\) cannot hold"):
        gpusim.capture(kernel, 1, 1, (x, 1e300), gpu="h200")
    trace = gpusim.capture(kernel, 1, 1, (x, float("-inf")), gpu="h200")
    assert x[0] == -np.inf
    assert repr(trace).startswith("<Trace of put: grid 1x1x1, block 1x1x1, for h200, ")


def test_a_command_line_writes_them_too() -> None:
    pointers = parse_kernel_argument("float*[3,n]=random:7", {"n": 8})
    assert len(pointers) == 3 and all(each.shape == (8,) for each in pointers) and (pointers[0] != pointers[1]).any()
    made = parse_kernel_argument("{char:1,double:2.5}")
    assert made.dtype.itemsize == 16 and made["m1"] == 2.5
    assert parse_kernel_argument("float4[n]", {"n": 2}).shape == (2, 4) and parse_kernel_argument("bf16:2") == 2


def test_what_nobody_may_write_is_not_written(tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.ones(32, np.float32))
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    immutable = np.frombuffer(bytes(256), np.float32)[::2]
    protected, other = np.ones(32, np.float32), np.ones(32, np.float32)
    protected.flags.writeable = False
    kernel = gpusim.cuda_cpp(SOURCE, "doubled")
    for read_only in (mapped, protected, immutable):
        before = np.array(read_only)
        if before[0]:
            with pytest.raises(
                UsageError, match=r"argument 0\[1\] of doubled is a read-only array, and the kernel writes to it"
            ):
                run("doubled", ([other, read_only], 32), grid=2)
        gpusim.capture(kernel, 1, 32, ([read_only], 0), gpu="a100_80gb")  # reading it is no fault
        np.testing.assert_array_equal(read_only, before)
        assert (other == 1).all()
    memory = gpusim.DeviceMemory()
    for _ in range(2):  # of a memory that outlives its launches, too
        with pytest.raises(UsageError, match=r"argument 0\[0\] of doubled is a read-only array"):
            gpusim.capture(kernel, 1, 32, ([mapped], 32), gpu="a100_80gb", memory=memory)
    with pytest.raises(UsageError, match=r"argument 0\[0\] of doubled holds Python objects \(dtype object\)"):
        run("doubled", ([np.ones(32, object)], 32))
