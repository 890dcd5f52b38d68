"""CUDA C++ files as they are found: kernels beside host code, headers of the host, templates; by NVRTC from the device
part, and by nvcc."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.errors import CompileError
from gpusim.frontend.native import cpp, device_part, nvcc, nvrtc
from gpusim.frontend.native.cpp_pieces import kernels, pieces, without
from gpusim.frontend.native.cpp_unit import CppError, CppUnit
from gpusim.frontend.native.host_headers import _C_NAMES, _CPP, host_header
from gpusim.io.progress import Display, shown

PROGRAM = """\
#include <cmath>
#include <cstdio>
#include <iostream>
#include <map>
#include <vector>
#include "timer.h"
#define CHECK(call) do { cudaError_t e = (call); if (e != cudaSuccess) { fprintf(stderr, "%s", cudaGetErrorString(e)); exit(1); } } while (0)
#define BOTH __host__ __device__
using namespace std;
BOTH inline float twice(float x) { return x + x; }
template <typename T> __global__ void axpy(int n, T a, const T *x, T *y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
namespace ns { __global__ void root(float *x) { x[threadIdx.x] = std::sqrt(twice(x[threadIdx.x])) + abs(-1) + float(M_PI) * 0; } }
template <typename F> __device__ float apply(F f, float x) { return f(x); }
static __global__ void squared(float *x) { x[threadIdx.x] = apply([] __device__(float v) { return v * v; }, x[threadIdx.x]); }
#ifdef ODD
void unbalanced() {
#else
void unbalanced(int) {
#endif
  cudaDeviceSynchronize();
}
std::map<int, float> table;
int *on_host;
class Buffer { float *p; public: Buffer(int n) { cudaMalloc(&p, n); } ~Buffer() { cudaFree(p); } };
int main(int argc, char **argv) {
  std::vector<float> h(32, 1.0f);
  float *x;
  CHECK(cudaMalloc(&x, 128));
  Timer timer;
  axpy<float><<<1, 32>>>(32, 2.0f, x, x);
  std::cout << h[0] << "}" << '{' << timer.seconds() << std::endl;  // }
}
"""
TIMER = "#pragma once\n#include <chrono>\nstruct Timer { std::chrono::steady_clock::time_point t; double seconds() { return 0; } };\n"
FOLDED = "struct Line { int a; Line() : a(3) {} };\ntypedef struct { int x; } Point;\n__global__ void k(Line l) {}\nint f(int a = 3) { return a; }\n"
with_nvcc = pytest.mark.skipif(not nvcc.program(), reason="there is no nvcc here: gpusim[nvcc]")


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "timer.h").write_text(TIMER)
    (tmp_path / "program.cu").write_text(PROGRAM)
    return tmp_path / "program.cu"


def run(program: Path, entry: str, **options: Any) -> tuple[np.ndarray, Any]:
    x = np.arange(32, dtype=np.float32)
    args = (32, 2, x.copy(), x) if "axpy" in entry else (x,)
    trace = gpusim.capture(gpusim.cuda_cpp(program, entry, **options), 1, 32, args, gpu="a100_80gb")
    return x, trace


@pytest.mark.by_day(3)
@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("axpy<float>", 3 * np.arange(32)),
        ("ns::root", np.sqrt(2 * np.arange(32, dtype=np.float32)) + 1),
        ("squared", np.arange(32.0) ** 2),
    ],
)
@pytest.mark.parametrize("compiler", ["auto", pytest.param("nvcc", marks=with_nvcc)])
def test_a_file_with_host_code_runs_its_kernels(program: Path, entry: str, expected: np.ndarray, compiler: str) -> None:
    x, trace = run(program, entry, compiler=compiler)
    assert np.allclose(x, expected, rtol=1e-6)
    assert ("nvcc" in trace.launch.toolchain) == (compiler == "nvcc")


@with_nvcc
def test_both_compilers_make_the_same_machine_code(program: Path) -> None:
    # Of the kernel: NVRTC, which may be told that functions without a mark are the device's, may keep more of those.
    made = {tuple(run(program, "axpy<float>", compiler=each)[1].program.texts) for each in ("auto", "nvcc")}
    assert len(made) == 1


def test_errors_and_source_lines_are_those_of_the_file(program: Path) -> None:
    _, trace = run(program, "axpy<float>")
    multiplied = next(i for i, text in enumerate(trace.program.texts) if text.startswith("FFMA"))
    assert trace.program.instructions[multiplied]["line"] == 1 + PROGRAM[: PROGRAM.index("if (i < n)")].count("\n")
    program.write_text(PROGRAM.replace("a * x[i]", "a * z[i]"))
    with pytest.raises(CompileError, match=r'program\.cu\(13\): error: identifier "z" is undefined'):
        run(program, "axpy<float>")


def test_a_name_that_is_none_is_told_with_those_there_are(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "program", lambda: "")
    for entry, said in (("nope", "axpy<T>, ns::root, squared"), ("root", "ns::root")):
        with pytest.raises(CompileError, match=rf"program\.cu has no kernel {entry}; it has {said}$"):
            run(program, entry)


def test_a_template_without_arguments_and_an_overload_say_how_to_name_one() -> None:
    source = "template <typename T, int N = 4> __global__ void k(T *x) {}\n"
    with pytest.raises(
        CompileError, match=r"no kernel k, but a template k<T, N>: give its arguments, as in k<float, 256>"
    ):
        gpusim.capture(gpusim.cuda_cpp(source, "k"), 1, 1, ())
    source = "__global__ void k(float *x) {}\n__global__ void k(int *x) { *x = 3; }\n"
    with pytest.raises(CompileError, match=r"several kernels k: say which by its parameters, '\(void \(\*\)"):
        gpusim.capture(gpusim.cuda_cpp(source, "k"), 1, 1, ())
    x = np.zeros(1, np.int32)
    gpusim.capture(gpusim.cuda_cpp(source, "(void (*)(int *)) k"), 1, 1, (x,))
    assert x[0] == 3


@with_nvcc
def test_a_template_is_found_by_what_the_host_code_launches(program: Path) -> None:
    x, _ = run(program, "axpy")
    assert (x == 3 * np.arange(32)).all()


def test_without_nvcc_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvcc, "program", lambda: "")
    source = '#include "settings.h"\n__global__ void k() {}\nint main() { k<<<1, 1>>>(); }\n'
    with pytest.raises(CompileError, match=r"settings\.h.*name its folder in headers= .*gpusim\[nvcc\]"):
        gpusim.capture(gpusim.cuda_cpp(source, "k"), 1, 1, ())


def test_a_header_of_a_package_that_is_not_installed_is_told_with_the_package() -> None:
    """What both compilers say of a missing header; not where it is installed."""
    for log in (
        'a.cu(1): catastrophic error: cannot open source file "curand_kernel.h"',
        "a.cu:1:10: fatal error: curand_kernel.h: No such file or directory",
    ):
        assert cpp._where_from(log) == "pip install nvidia-curand"
    assert "--include" in cpp._where_from("a.cu:1:10: fatal error: cute/tensor.hpp: No such file or directory")


def test_a_header_that_nobody_knows_is_not_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it would have defined may change the device code."""
    monkeypatch.setattr(nvcc, "program", lambda: "")
    with pytest.raises(CompileError, match="settings.h"):
        cpp.compile_cpp(CppUnit('#include "settings.h"\n__global__ void k() {}\n', "a.cu"), "k", "sm_80")
    assert host_header("settings.h") is None and host_header("vector") == ""


def test_device_code_of_a_list_of_sources_is_linked(tmp_path: Path) -> None:
    (tmp_path / "main.cu").write_text(
        '#include <cstdio>\n__device__ float twice(float);\n__global__ void k(float *x) { *x = twice(*x); }\nint main() { printf(""); k<<<1, 1>>>(0); }\n'
    )
    (tmp_path / "twice.cu").write_text(
        "#include <vector>\n__device__ float twice(float x) { return x + x; }\nvoid f() { std::vector<int> v; }\n"
    )
    x = np.full(1, 4, np.float32)
    gpusim.capture(gpusim.cuda_cpp([tmp_path / "main.cu", tmp_path / "twice.cu"], "k"), 1, 1, (x,))
    assert x[0] == 8


def test_every_header_that_stands_for_the_host_s_compiles() -> None:
    names = [*_C_NAMES, *_C_NAMES.values(), *_CPP]
    source = (
        "".join(f"#include <{name}>\n" for name in names)
        + "using namespace std;\n__global__ void k(float *x, int n) { *x = abs(n) + min(n, 3) + std::pow(*x, 2.0f) + numeric_limits<float>::max(); }\n"
    )
    headers = tuple((name, host_header(name) or "") for name in names)
    assert nvrtc.compile_cpp(CppUnit(source, "a.cu", headers=headers), "k", "sm_80").cubin


def test_macros_without_a_semicolon_at_a_namespace_s_end_are_a_piece() -> None:
    """So do extensions have their host templates' instances, which are left out with these."""
    source = "namespace a {\n__device__ int x;\nvoid go();\nINSTANCE(1)\nINSTANCE(2)\n}\n__device__ int y;\n"
    found = [(source[piece.start : piece.end].strip(), piece.marked) for piece in pieces(source)]
    assert found == [
        ("__device__ int x;", True),
        ("void go();", False),
        ("INSTANCE(1)\nINSTANCE(2)", False),
        ("__device__ int y;", True),
    ]


def test_pieces_are_told_by_braces_and_marks() -> None:
    found = pieces(PROGRAM)
    texts = [PROGRAM[piece.start : piece.end] for piece in found]
    assert kernels(PROGRAM) == ["axpy<T>", "ns::root", "squared"]
    marked = [text.split("(")[0] for text, piece in zip(texts, found, strict=True) if piece.marked]
    assert marked == ["BOTH inline float twice", "template <typename T> __global__ void axpy", "__global__ void root",
                      "template <typename F> __device__ float apply", "static __global__ void squared"]  # fmt: skip
    assert texts[-1].startswith("int main") and texts[-1].endswith("}") and found[-1].launches
    blank = without(PROGRAM, {found[-1]})
    assert blank.count("\n") == PROGRAM.count("\n") and "main" not in blank
    assert [FOLDED[piece.start : piece.end].strip() for piece in pieces(FOLDED)] == FOLDED.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "}",
        "{",
        "/*",
        '"',
        "#",
        "}}}} {{{{ ((",
        "template <",
        "namespace",
        'R"x(',
        "__global__ void (",
        "#if\n#else\n",
    ],
)
def test_what_is_no_source_has_pieces_too(text: str) -> None:
    found = pieces(text * 50)
    assert all(0 <= piece.start <= piece.end <= 50 * len(text) for piece in found)


def test_the_device_part_says_what_it_cannot_do() -> None:
    with pytest.raises(CompileError, match=r"a\.cu\(1\): error"):
        device_part.compile_cpp(
            CppUnit("__global__ void k() { std::vector<int> v; }", "a.cu"), "k", "sm_80", relocatable=False, lines=True
        )


@with_nvcc
def test_a_library_s_host_functions_are_nvcc_s(tmp_path) -> None:
    """As in CUTLASS's headers: host functions behind headers of the host's, which NVRTC meets one after the other."""
    folder = tmp_path / "library"
    folder.mkdir()
    (tmp_path / "own").mkdir()
    (folder / "library.h").write_text(
        "#pragma once\n#include <stdint.h>\n#include <stdbool.h>\nint where();\ntypedef int count;\n"
    )
    source = '#include "library.h"\nextern "C" __global__ void k(count *out) { out[0] = 7; }\n'
    out = np.zeros(1, np.int32)
    gpusim.capture(
        gpusim.cuda_cpp(source, "k", headers=[str(tmp_path / "own"), str(folder)]), 1, 1, (out,), gpu="sm_90"
    )
    assert out[0] == 7


def test_a_source_that_no_compiler_takes_is_under_way_with_each_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    under_way: list[str] = []
    monkeypatch.setattr(Display, "begin", lambda self, task: under_way.append(task.what))
    monkeypatch.setattr(Display, "end", lambda self, task, well: None)
    monkeypatch.setattr(nvcc, "program", lambda: "nvcc")

    def refuses(*_args: Any, **_how: Any) -> None:
        raise CppError("k does not compile: none takes it")

    monkeypatch.setattr(nvcc, "compile_cpp", refuses)
    unit = CppUnit("__global__ void k() { unknown(); } int main() { k<<<1, 1>>>(); }", "bad.cu")
    with shown(io.StringIO()), pytest.raises(CompileError, match="none takes it"):
        cpp.compile_cpp(unit, "k", "sm_90")
    assert under_way == ["compiling bad.cu for sm_90", "by nvcc"]
