"""CUDA C++ of PyTorch extensions and of libraries with headers of their own: kernels that share files with host code of
which nothing is there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.frontend.native import cpp, device_part, nvcc, nvrtc
from gpusim.frontend.native.cpp_unit import CppError, CppUnit, refusal

EXTENSION = """\
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include "../checks.h"
template <typename scalar_t>
__global__ void scaled(torch::PackedTensorAccessor32<scalar_t, 2, torch::RestrictPtrTraits> x, scalar_t *sum, float a) {
  int row = blockIdx.x, column = threadIdx.x;
  if (column < x.size(1)) {
    x[row][column] = x[row][column] * a + scalar_t(1);
    gpuAtomicAdd(sum, x[row][column]);
  }
}
torch::Tensor scaled_cuda(torch::Tensor x, double a) {
  CHECK_CUDA(x);
  auto sum = torch::zeros({1}, x.options());
  AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "scaled", [&] {
    scaled<scalar_t><<<x.size(0), 32, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.packed_accessor32<scalar_t, 2, torch::RestrictPtrTraits>(), sum.data_ptr<scalar_t>(), a);
  });
  return sum;
}
namespace instances {
template <int N> torch::Tensor scaled_by(torch::Tensor x) { return scaled_cuda(x, N); }
#define SCALED_BY(N) template torch::Tensor scaled_by<N>(torch::Tensor x);
SCALED_BY(1)
SCALED_BY(2)
#undef SCALED_BY
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scaled", &scaled_cuda, "scaled"); }
"""
WITH_CUB = """\
#include <c10/util/Half.h>
#include <cub/cub.cuh>
template <typename T> __global__ void summed(const T *x, at::opmath_type<T> *out) {
  using Reduce = cub::BlockReduce<at::opmath_type<T>, 64>;
  __shared__ typename Reduce::TempStorage space;
  auto sum = Reduce(space).Sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *out = std::is_same<T, c10::Half>::value ? sum : -sum;
}
"""
CHECKS = """\
#pragma once
#include <torch/torch.h>
#include <mutex>
#include <deque>
static std::deque<std::once_flag> flags;
#define CHECK_CUDA(x) TORCH_CHECK(x.is_cuda(), #x)
inline void no_mark(torch::Tensor x) { CHECK_CUDA(x); }
"""


@pytest.fixture
def extension(tmp_path: Path) -> Path:
    (tmp_path / "cuda").mkdir()
    (tmp_path / "checks.h").write_text(CHECKS)
    path = tmp_path / "cuda" / "scaled.cu"
    path.write_text(EXTENSION)
    return path


@pytest.mark.parametrize(("name", "dtype"), [("float", np.float32), ("at::Half", np.float16)])
def test_kernels_of_a_pytorch_extension_run_without_pytorch(extension: Path, name: str, dtype: Any) -> None:
    x = (np.arange(64) / 8).astype(dtype).reshape(2, 32)
    expected, total = x * 2 + 1, np.zeros(1, dtype)
    accessor = (x, *(np.int32(each) for each in (2, 32, 32, 1)))
    gpusim.capture(gpusim.cuda_cpp(extension, f"scaled<{name}>"), 2, 32, (accessor, total, np.float32(2)), gpu="sm_80")
    assert (x == expected).all() and total[0] == expected.sum()


def test_cub_s_block_algorithms_stand_for_all_of_cub() -> None:
    x, out = np.arange(64).astype(np.float16), np.zeros(1, np.float32)
    gpusim.capture(gpusim.cuda_cpp(WITH_CUB, "summed<c10::Half>"), 1, 64, (x, out), gpu="sm_80")
    assert out[0] == x.sum()


def test_half_of_pytorch_computes_by_float_and_mixes_with_numbers() -> None:
    source = """#include <c10/util/BFloat16.h>
    __global__ void k(c10::BFloat16 *x, float *y, at::Float8_e4m3fn *z) {
      c10::BFloat16 a = x[0], b = 3.0f;
      x[1] = a + b; x[2] = a * 2; a /= b; x[3] = -a; y[0] = b * 0.3f; y[1] = a < b; z[0] = at::Float8_e4m3fn(1.1f); y[2] = z[0];
      y[3] = __ldg(x);
    }"""
    x, y, z = np.array([0x3FC0, 0, 0, 0], np.uint16), np.zeros(4, np.float32), np.zeros(1, np.uint8)
    gpusim.capture(gpusim.cuda_cpp(source, "k"), 1, 1, (x, y, z), gpu="sm_90")
    assert list((x.astype(np.uint32) << 16).view(np.float32)) == [1.5, 4.5, 3.0, -0.5]
    assert np.allclose(y, [0.9, 1, 1.125, 1.5]) and z[0] == 0x39


def test_complex_numbers_of_pytorch_are_those_of_numpy() -> None:
    source = """#include <c10/util/complex.h>
    __global__ void k(c10::complex<float> *x, float *y) {
      auto a = x[0], b = x[1];
      x[2] = 2.0f * a * b - a / b; x[3] = -std::conj(a) + 1.0f; y[0] = std::abs(a); y[1] = a == b; y[2] = std::norm(b);
    }"""
    x, y = np.array([3 + 4j, -1 + 2j, 0, 0], np.complex64), np.zeros(3, np.float32)
    gpusim.capture(gpusim.cuda_cpp(source, "k"), 1, 1, (x, y), gpu="sm_90")
    assert np.allclose(x[2:], [2 * x[0] * x[1] - x[0] / x[1], 1 - np.conj(x[0])]) and np.allclose(y, [5, 0, 5])


def test_types_and_constants_that_kernels_share_with_host_code_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    """constexpr functions without a mark, as --expt-relaxed-constexpr takes them, and a type of which only the host's
    members are left out, by their mark or by what they call."""
    monkeypatch.setattr(nvcc, "program", lambda: "")
    source = """#include <vector>
    constexpr int twice(int n) { return 2 * n; }
    struct Traits { static constexpr int width = twice(4); };
    struct Shape {
      int rows, columns;
      constexpr __host__ __device__ Shape(int r, int c) : rows(r), columns(c) {}
      __host__ int on_host() const { return rows; }
      void check() const {
        cudaDeviceSynchronize();
      }
      __device__ int size() const { return rows * columns; }
    };
    template <typename T> __global__ void k(int *x, Shape shape) { x[0] = T::width + shape.size(); }
    int main() { std::vector<int> x; Shape(1, 2).check(); k<Traits><<<1, 1>>>(x.data(), Shape(1, 2)); }
    """
    x = np.zeros(1, np.int32)
    gpusim.capture(gpusim.cuda_cpp(source, "k<Traits>"), 1, 1, (x, (np.int32(3), np.int32(5))))
    assert x[0] == 8 + 15


def test_what_nvrtc_finds_is_told_where_nvcc_lacks_a_header(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "program", lambda: "nvcc")

    def refuses(*_args: Any, **_how: Any) -> None:
        log = "a.cu:1:10: fatal error: cublas_v2.h: No such file or directory"
        raise refusal(f"k does not compile for sm_90: {log}", log)

    monkeypatch.setattr(nvcc, "compile_cpp", refuses)
    unit = CppUnit("#include <cublas_v2.h>\n__global__ void k() { unknown(); }\nint main() { k<<<1, 1>>>(); }", "a.cu")
    with pytest.raises(CppError, match=r'"unknown" is undefined; nvcc does not come so far: .*cublas_v2.h.*--include'):
        cpp.compile_cpp(unit, "k", "sm_90")


def test_of_two_missing_headers_the_one_that_device_code_needs_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "program", lambda: "nvcc")

    def refuses(*_args: Any, **_how: Any) -> None:
        raise refusal("k: a.cu:1:10: fatal error: cublas_v2.h: No such file or directory", "cublas_v2.h: No such file")

    monkeypatch.setattr(nvcc, "compile_cpp", refuses)
    source = '#include <cublas_v2.h>\n#include "own.h"\n__global__ void k() {}\nint main() { k<<<1, 1>>>(); }'
    with pytest.raises(CppError, match=r'source file "own.h"; name its folder'):
        cpp.compile_cpp(CppUnit(source, "a.cu"), "k", "sm_90")


def test_what_pytorch_alone_has_is_told_with_where_it_comes_from() -> None:
    assert "include_paths()" in cpp._where_from(
        "a.cu:1:10: fatal error: ATen/native/Loops.cuh: No such file or directory"
    )


def test_cuda_h_behind_headers_of_the_host_needs_no_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuda.h's functions carry no mark, which NVRTC says when it has found the headers before them."""
    monkeypatch.setattr(nvcc, "program", lambda: "")
    source = "#include <cuda.h>\n#include <iostream>\n#include <cstdint>\n__global__ void k(uint32_t *x) { *x = 7; }\n"
    x = np.zeros(1, np.uint32)
    gpusim.capture(gpusim.cuda_cpp(source, "k"), 1, 1, (x,))
    assert x[0] == 7


def test_a_library_s_folder_is_cleared_of_host_code_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Headers in a folder that the user names: declarations with FILE, functions without a mark, what <algorithm>
    brings besides, gcc's __extension__, an include next to a header that is given changed."""
    monkeypatch.setattr(nvcc, "program", lambda: "")
    library = tmp_path / "library" / "inner"
    library.mkdir(parents=True)
    (library / "block.h").write_text(
        "#pragma once\ntypedef struct { __extension__ union { struct { float a, b; } p; float c[2]; }; } block;\n"
    )
    (library / "all.h").write_text(
        '#pragma once\n#include <stdbool.h>\n#include <stdio.h>\n#include <algorithm>\n#include <vector>\n#include "block.h"\n'
        "void print_to(FILE *file, std::vector<int> values);\nint counted();\nstatic std::mutex lock;\n"
        "template <typename T> constexpr bool is_float = std::is_same_v<T, float>;\n"
    )
    source = '#include "inner/all.h"\n__global__ void k(block *x) { x->c[1] = is_float<float> ? x->p.a : 0; }\n'
    x = np.array([5, 0], np.float32)
    gpusim.capture(gpusim.cuda_cpp(source, "k", headers=[str(tmp_path / "library")]), 1, 1, (x,))
    assert x[1] == 5


def test_what_is_left_out_is_found_once_for_all_targets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_part, "_found", {})
    asked: list[str] = []
    compiled = nvrtc.compile_cpp

    def counted(unit: CppUnit, entry: str | None, target: str, **how: Any) -> Any:
        asked.append(target)
        return compiled(unit, entry, target, **how)

    monkeypatch.setattr(nvrtc, "compile_cpp", counted)
    header = "#include <vector>\ninline int host(int n) { return system(nullptr) + n; }\n"
    (tmp_path / "host.h").write_text(header)
    (tmp_path / "scaled.cu").write_text(
        '#include "host.h"\n__global__ void scaled(float *x) { *x *= 3; }\nint main() { return host(unknown()); }\n'
    )
    unit = gpusim.cuda_cpp(tmp_path / "scaled.cu", "scaled").unit
    for target in ("sm_80", "sm_90"):
        device_part.compile_cpp(unit, "scaled", target, relocatable=False, lines=True)
    assert asked.count("sm_80") > 1 and asked.count("sm_90") == 1
    (tmp_path / "host.h").write_text(header + "#define NEW\n")
    device_part.compile_cpp(unit, "scaled", "sm_90", relocatable=False, lines=True)
    assert asked.count("sm_90") > 2


def test_a_refusal_is_kept_and_a_changed_source_is_not_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUSIM_CACHE_DIR", str(tmp_path / "cache"))
    unit = CppUnit("__global__ void k() { unknown(); }\n", "a.cu")
    with pytest.raises(CppError) as first:
        nvrtc.compile_cpp(unit, "k", "sm_80")
    monkeypatch.setattr(nvrtc, "compile_here", lambda request: pytest.fail("compiled again"))
    with pytest.raises(CppError) as second:
        nvrtc.compile_cpp(unit, "k", "sm_80")
    assert str(first.value) == str(second.value) and first.value.log == second.value.log
    monkeypatch.undo()
    assert nvrtc.compile_cpp(CppUnit("__global__ void k() {}\n", "a.cu"), "k", "sm_80").cubin


def test_calls_of_dependent_launches_need_no_header() -> None:
    """NVRTC has no declaration of them."""
    source = """#include <vector>
    template <typename T> __global__ void k(T *x) { cudaGridDependencySynchronize(); *x = 3; cudaTriggerProgrammaticLaunchCompletion(); }
    int main() { std::vector<int> v; k<int><<<1, 1>>>(nullptr); }"""
    x = np.zeros(1, np.int32)
    gpusim.capture(gpusim.cuda_cpp(source, "k<int>", compiler="auto"), 1, 1, (x,), gpu="sm_90")
    assert x[0] == 3
