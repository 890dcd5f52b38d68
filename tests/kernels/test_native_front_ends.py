"""CUDA C++, PTX and machine code come in by the same door as Numba's kernels: results against NumPy, mistakes in one
line."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.cases.source import open_source
from gpusim.errors import CompileError, UsageError
from gpusim.frontend.native import nvcc
from gpusim.frontend.native.ptx_text import entries, raised
from gpusim.frontend.registry import compile_kernel
from gpusim.isa.binary.cubin import load_kernel

SOURCE = """
extern "C" __global__ void saxpy(int n, float a, const float *x, float *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}

template <typename T, int stride> __global__ void scale(T *x, T factor, int n) {
  for (int i = threadIdx.x; i < n; i += stride) x[i] *= factor;
}

struct Line { float slope; int steps; double offset; };
__global__ void line(Line l, double *out) { out[threadIdx.x] = l.slope * l.steps + l.offset; }

__device__ float twice(float x);
__global__ void doubled(float *x) { x[threadIdx.x] = twice(x[threadIdx.x]); }
"""
DEVICE = "__device__ float twice(float x) { return x + x; }"
BLOCK_SUM = """
#include <cub/block/block_reduce.cuh>
#include "size.h"
__global__ void block_sum(const int *x, int *total) {
  using Reduce = cub::BlockReduce<int, SIZE>;
  __shared__ typename Reduce::TempStorage scratch;
  int sum = Reduce(scratch).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *total = sum;
}
"""


def saxpy_arrays(n: int = 100) -> tuple[np.ndarray, np.ndarray]:
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32)


@pytest.fixture(scope="module")
def saxpy() -> Any:
    return gpusim.cuda_cpp(SOURCE.split("template")[0], "saxpy")


def test_cuda_cpp_source_gives_numpy_s_result_and_its_lines(saxpy: Any) -> None:
    x, y = saxpy_arrays()
    trace = gpusim.capture(saxpy, 1, 128, (100, 2, x, y))
    assert (y == 2 * x + 1).all()
    assert trace.launch.kernel == "saxpy" and "NVRTC" in trace.launch.toolchain
    assert trace.program.files == tuple(name for name in trace.program.files if name.endswith("source.cu"))
    multiplied = next(i for i, text in enumerate(trace.program.texts) if text.startswith("FFMA"))
    assert trace.program.instructions[multiplied]["line"] == 4
    assert gpusim.simulate(trace).cycles > 0


def test_source_lines_leave_the_code_as_it_is(saxpy: Any) -> None:
    """NVRTC compiles them in; Numba's front end, which cannot, builds twice."""
    with_lines, without = (compile_kernel(saxpy, (), (9, 0), lines=lines).image for lines in (True, False))
    assert with_lines.lines and not without.lines and without.code == with_lines.code


def test_lines_are_of_the_file_wherever_gpusim_is_run_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a build that was kept when the file lay, or gpusim ran, elsewhere."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "saxpy.cu").write_text(SOURCE.split("template")[0])
        monkeypatch.chdir(tmp_path)
        for path in (f"{name}/saxpy.cu", tmp_path / name / "saxpy.cu"):
            trace = gpusim.capture(gpusim.cuda_cpp(path, "saxpy"), 1, 128, (100, 2, *saxpy_arrays()))
            assert trace.program.files == (str(tmp_path / name / "saxpy.cu"),)


@pytest.mark.parametrize("how", ["beside", "in headers=", "by -I"])
def test_a_header_that_is_edited_between_two_captures_is_compiled_again(how: str, tmp_path: Path) -> None:
    headers = tmp_path if how == "beside" else tmp_path / "headers"
    (headers / "inner").mkdir(parents=True)
    (tmp_path / "add.cu").write_text('#include "outer.h"\n__global__ void add(float *x) { x[threadIdx.x] += MORE; }\n')
    (headers / "outer.h").write_text('#include "inner/more.h"\n')
    given = {"in headers=": {"headers": [headers]}, "by -I": {"options": [f"-I{headers}"]}}.get(how, {})
    x = np.zeros(32, np.float32)
    for more in (1, 20):
        (headers / "inner" / "more.h").write_text(f"#define MORE {more}\n")
        gpusim.capture(gpusim.cuda_cpp(tmp_path / "add.cu", "add", **given), 1, 32, (x,))
    assert (x == 21).all()


def test_templates_structures_and_a_file_s_own_folder(tmp_path: Path) -> None:
    own = SOURCE.split("__device__")[0]
    x = np.ones(50, np.float64)
    gpusim.capture(gpusim.cuda_cpp(own, "scale<double, 32>"), 1, 32, (x, 3, np.int32(50)))
    assert (x == 3).all()

    class Line(ctypes.Structure):
        _fields_ = (("slope", ctypes.c_float), ("steps", ctypes.c_int), ("offset", ctypes.c_double))

    record = np.array((2, 3, 0.5), np.dtype([("slope", "f4"), ("steps", "i4"), ("offset", "f8")]))
    for given in (Line(2, 3, 0.5), record[()], record.tobytes()):
        out = np.zeros(32)
        gpusim.capture(gpusim.cuda_cpp(own, "line"), 1, 32, (given, out))
        assert (out == 6.5).all()

    (tmp_path / "size.h").write_text("#define SIZE 64")
    (tmp_path / "fill.cu").write_text('#include "size.h"\n__global__ void fill(int *x) { *x = SIZE; }')
    size = np.zeros(1, np.int32)
    gpusim.capture(gpusim.cuda_cpp(tmp_path / "fill.cu", "fill"), 1, 1, (size,))
    assert size[0] == 64


def test_an_error_that_the_compiler_dies_of_is_told() -> None:
    """With a template's name among what it is to compile, NVRTC ends its process with a segmentation fault here."""
    source = "template <typenme T>\n__global__ void scale(T *x) { *x = 1; }"
    with pytest.raises(
        CompileError, match=r'scale<float> does not compile for sm_90: source.cu\(1\): error: identifier "typenme"'
    ):
        compile_kernel(gpusim.cuda_cpp(source, "scale<float>"), (), (9, 0))


def test_what_the_assembler_refuses_is_told() -> None:
    """ptxas writes ``error   :``, and at last that it gives up."""
    source = 'extern "C" __global__ void frob(int *x) { asm volatile("frob.b32 %0;" :: "r"(*x)); }'
    with pytest.raises(
        CompileError, match="frob does not compile for sm_90: .*line [0-9]+; error : Not a name of any known"
    ):
        compile_kernel(gpusim.cuda_cpp(source, "frob"), (), (9, 0))


def test_the_library_s_headers_are_found() -> None:
    numbers, total = np.arange(64, dtype=np.int32), np.zeros(1, np.int32)
    kernel = gpusim.cuda_cpp(BLOCK_SUM, "block_sum", headers={"size.h": "#define SIZE 64"})
    gpusim.capture(kernel, 1, 64, (numbers, total))
    assert total[0] == numbers.sum()


def test_128_bit_integers_are_there_as_with_nvcc() -> None:
    source = """extern "C" __global__ void upper(unsigned long long *x) {
      x[threadIdx.x] = (unsigned __int128)x[threadIdx.x] * x[threadIdx.x] >> 64;
    }"""
    x = np.random.default_rng(0).integers(0, 2**64, 32, np.uint64)
    expected = [int(each) ** 2 >> 64 for each in x]
    gpusim.capture(gpusim.cuda_cpp(source, "upper", ["--device-int128"]), 1, 32, (x.copy(),))  # said once more
    gpusim.capture(gpusim.cuda_cpp(source, "upper"), 1, 32, (x,))
    assert x.tolist() == expected


def test_device_code_of_another_file_is_linked(tmp_path: Path) -> None:
    (tmp_path / "twice.cu").write_text(DEVICE)
    x = np.arange(32, dtype=np.float32)
    gpusim.capture(gpusim.cuda_cpp(SOURCE, "doubled", link=[tmp_path / "twice.cu"]), 1, 32, (x,))
    assert (x == 2 * np.arange(32)).all()
    with pytest.raises(CompileError, match="twice"):
        gpusim.capture(gpusim.cuda_cpp(SOURCE, "doubled"), 1, 32, (x,))


def test_ptx_and_cubin_run_as_the_source_does(saxpy: Any, tmp_path: Path) -> None:
    binary = compile_kernel(saxpy, (), (8, 0))
    (tmp_path / "saxpy.cubin").write_bytes(binary.cubin)
    text = """
    .version 5.0
    .target sm_30
    .address_size 64
    .visible .entry add_one( .param .u64 p, .param .f32 by )
    {
      .reg .b64 %rd<2>; .reg .f32 %f<3>;
      ld.param.u64 %rd1, [p]; ld.param.f32 %f1, [by];
      ld.global.f32 %f2, [%rd1]; add.f32 %f2, %f2, %f1; st.global.f32 [%rd1], %f2;
      ret;
    }
    """
    x = np.ones(1, np.float32)
    gpusim.capture(gpusim.ptx(text), 1, 1, (x, 1), gpu="a100_80gb")
    assert x[0] == 2
    for source in (tmp_path / "saxpy.cubin", binary.cubin):
        x, y = saxpy_arrays()
        trace = gpusim.capture(gpusim.cubin(source), 1, 128, (np.int32(100), np.float32(2), x, y), gpu="a100_80gb")
        assert (y == 2 * x + 1).all() and trace.launch.cubin_sha256 == binary.image.sha256


def test_what_machine_code_cannot_do_is_refused_by_name(saxpy: Any, tmp_path: Path) -> None:
    binary = compile_kernel(saxpy, (), (8, 0))
    with pytest.raises(UsageError, match="machine code for sm_80, which does not run on sm_90"):
        gpusim.capture(gpusim.cubin(binary.cubin), 1, 32, (), gpu="h200")
    with pytest.raises(CompileError, match="has no kernel daxpy; it has saxpy"):
        gpusim.capture(gpusim.cubin(binary.cubin, "daxpy"), 1, 32, (), gpu="a100_80gb")
    with pytest.raises(UsageError, match=r"nowhere\.cubin"):
        gpusim.cubin(tmp_path / "nowhere.cubin")
    assert load_kernel(binary.cubin, "saxpy").parameters


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((100, 2), r"takes 4 arguments \(u32, f32, u64, u64\), not 2"),
        ((100, "x", "y", "y"), "argument 1 of saxpy is an array"),
        ((100, 2, "x", 1.5), "argument 3 of saxpy is 1.5"),
        ((1 << 40, 2, "x", "y"), "argument 0 of saxpy is 1099511627776"),
        ((np.int64(100), 2, "x", "y"), "argument 0 of saxpy has 8 bytes, the parameter 4 bytes"),
        ((100, np.int32(2), "x", "y"), "argument 1 of saxpy is a int32"),
        ((100, 2, "x", {}), "argument 3 of saxpy: a dict cannot be passed"),
    ],
)
def test_an_argument_that_does_not_fit_is_named(saxpy: Any, args: tuple, said: str) -> None:
    x, y = saxpy_arrays()
    with pytest.raises(UsageError, match=said):
        gpusim.capture(saxpy, 1, 128, tuple({"x": x, "y": y}.get(a, a) if isinstance(a, str) else a for a in args))


@pytest.mark.parametrize(
    ("source", "entry", "said"),
    [
        ("__global__ void k() { int x = ; }\n", "k", r"source\.cu\(1\): error: expected an expression"),
        ("__global__ void k() {}\n", "other", r"source\.cu has no kernel other"),
        ('#include "mine.h"\n', "k", "mine.h.*headers="),
    ],
)
def test_what_does_not_compile_is_one_line_of_the_user_s(source: str, entry: str, said: str) -> None:
    with pytest.raises(CompileError, match=said) as raised_error:
        gpusim.capture(gpusim.cuda_cpp(source, entry), 1, 1, ())
    assert "\n" not in str(raised_error.value)


def test_ptx_text_tells_parameters_and_is_raised_only_where_it_is_old() -> None:
    text = ".version 8.0\n.target sm_90a\n.visible .entry k(\n .param .align 8 .b8 p[24], // one, two\n .param .f32 f\n)\n{ }"
    assert entries(text) == {"k": ("b8[24]", "f32")}
    assert entries(".entry none\n{ }") == {"none": ()}
    assert raised(text) == text
    assert raised(".version 6.0\n.target sm_35, debug\n") == ".version 6.3\n.target sm_75, debug\n"


def test_a_kernel_of_a_case_may_be_cuda_cpp(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import gpusim, numpy as np\n"
        f"SAXPY = gpusim.cuda_cpp({SOURCE.split('template')[0]!r}, 'saxpy')\n"
        "def case(n=64):\n"
        "    x = np.ones(n, np.float32)\n"
        "    return SAXPY, 1, n, (n, 2, x, x.copy())\n"
    )
    source = open_source(f"{tmp_path}/mine.py:case", gpusim.load_gpu("h200"))
    assert source.timed[0].trace.launch.block == (64, 1, 1)


FILTERED = """
namespace mine { __constant__ float taps[3]; }
__constant__ int unused_but_seen[2] = {7, 8};
__device__ float scale = 1;
__device__ float unset;
extern "C" __global__ void filter(const float *x, float *y) {
  int i = threadIdx.x;
  y[i] = scale * (mine::taps[0] * x[i] + mine::taps[1] * x[i + 1] + mine::taps[2] * x[i + 2]) + unused_but_seen[i & 1] + unset;
}
"""


def test_variables_of_the_module_hold_what_they_are_given():
    x, y = np.arange(34, dtype=np.float32), np.zeros(32, np.float32)
    taps = np.array([1, 2, 4], np.float32)

    def capture(**variables):
        kernel = gpusim.cuda_cpp(FILTERED, "filter", variables=variables)
        return gpusim.capture(kernel, 1, 32, (x, y), gpu="h200")

    first = capture(**{"mine::taps": taps, "scale": np.float32(2), "unused_but_seen": np.array([3], np.int32)})
    want = 2 * (x[:32] + 2 * x[1:33] + 4 * x[2:]) + np.where(np.arange(32) % 2, 8, 3)
    np.testing.assert_array_equal(y, want.astype(np.float32))
    second = capture(taps=taps)
    np.testing.assert_array_equal(y, x[:32] + 2 * x[1:33] + 4 * x[2:] + np.where(np.arange(32) % 2, 8, 7))
    assert first.launch.cubin_sha256 != second.launch.cubin_sha256
    for variables, told in (
        ({"tap": taps}, "uses no __constant__ or __device__ variable tap; did you mean taps"),
        ({"taps": np.zeros(4, np.float32)}, "taps of filter holds 12 bytes, not 16"),
        ({"taps": 1.5}, "taps is a float, whose size is not said"),
        ({"unset": np.float32(1)}, "has no value in the source"),
    ):
        with pytest.raises(UsageError, match=told):
            capture(**variables)


@pytest.mark.parametrize("has_nvcc", [False, True])
def test_a_header_of_cub_that_is_not_for_nvrtc_is_compiled_all_the_same(has_nvcc, monkeypatch):
    if not has_nvcc:
        monkeypatch.setattr(nvcc, "program", lambda: None)
    elif nvcc.program() is None:
        pytest.skip("there is no nvcc")
    check = (
        "#if defined(__CUDACC_RTC__) && !defined(CCCL_DISABLE_NVRTC_COMPATIBILITY_CHECK)\n"
        '#error "Including <whole.cuh> is not supported when compiling with NVRTC."\n#endif\n'
    )
    source = f'#include "whole.cuh"\nextern "C" __global__ void one_{has_nvcc}(int *x) {{ *x = 1; }}\n'
    x = np.zeros(1, np.int32)
    gpusim.capture(gpusim.cuda_cpp(source, f"one_{has_nvcc}", headers={"whole.cuh": check}), 1, 1, (x,), gpu="t4")
    assert x[0] == 1
