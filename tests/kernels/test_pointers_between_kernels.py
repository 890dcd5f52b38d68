"""Pointers to functions that one kernel of a module takes and another calls: does a pointer name the same function in
all of them?"""

from __future__ import annotations

import ctypes
from pathlib import Path

import numpy as np
import pytest
from driver_api import Api, CallError, keep, parameters

import gpusim
from gpusim.frontend.registry import compile_kernel
from gpusim.isa.binary.cubin import load_kernel
from gpusim.isa.binary.function_pointers import FUNCTIONS_ADDRESS

#: Functions that stand at different places in each kernel's own code; none of the callers names one.
SOURCE = """
typedef int (*Function)(int);
struct Shape { __device__ virtual int area(int) const = 0; int side; };
struct Square : Shape { __device__ int area(int more) const override { return side * side + more; } };
struct Half : Shape { __device__ int area(int more) const override { return side * side / 2 + helped(more); }
                      __device__ __noinline__ int helped(int x) const { return x * side; } };
extern __device__ int other(int x);
__device__ __noinline__ int square(int x) { return x * x; }
__device__ __noinline__ int twice(int x) { return other(x) + x; }
__device__ Function initial = twice, later;
__constant__ Function table[2] = {square, twice};
extern "C" __global__ void take(Function *out) { out[0] = square; later = other; }
extern "C" __global__ void call(Function f, int *x) { x[threadIdx.x] = f(x[threadIdx.x]); }
extern "C" __global__ void call_variables(int *x) {
  int i = threadIdx.x;
  x[i] = 10000 * later(i) + 100 * initial(i) + table[i & 1](i);
}
__device__ long long room[32][2];
extern "C" __global__ void make(Shape **shapes) {
  int i = threadIdx.x;
  if (i & 1) shapes[i] = new (room[i]) Square; else shapes[i] = new (room[i]) Half;
  shapes[i]->side = i;
}
extern "C" __global__ void measure(Shape **shapes, int *x) { x[threadIdx.x] = shapes[threadIdx.x]->area(3); }
"""
WHOLE = "__device__ __noinline__ int other(int x) { return x - 1; }"
OTHER = "extern __device__ int other(int x) { return x - 1; }"


GPUS = [("a100_80gb", (8, 0)), ("h200", (9, 0)), ("b200", (10, 0))]


@pytest.fixture(
    scope="module", params=[pytest.param(gpu, marks=[] if gpu[0] == "h200" else pytest.mark.nightly) for gpu in GPUS]
)
def linked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, bytes]:
    gpu, capability = request.param
    folder: Path = tmp_path_factory.mktemp("linked")
    (folder / "other.cu").write_text(OTHER)
    source = gpusim.cuda_cpp(SOURCE, "call", link=[folder / "other.cu"])
    cubin = compile_kernel(source, (), capability).cubin
    return gpu, cubin


def load(gpu: str, cubin: bytes) -> tuple[Api, int]:
    api = Api(gpu)
    return api, api.word("cuModuleLoadData", ctypes.addressof(keep(ctypes.create_string_buffer(cubin))))


def launch(api: Api, module: int, name: str, threads: int, *values: int) -> None:
    kernel = api.word("cuModuleGetFunction", module, ctypes.c_char_p(name.encode()))
    given = parameters(*(ctypes.c_uint64(value) for value in values))
    api.cuLaunchKernel(kernel, 1, 1, 1, threads, 1, 1, 0, 0, given, 0)


def test_a_pointer_names_one_function_in_all_kernels(linked: tuple[str, bytes]) -> None:
    api, module = load(*linked)
    held, x = api.upload(np.zeros(1, np.uint64)), api.upload(np.arange(32, dtype=np.int32))
    launch(api, module, "take", 1, held)
    taken = int(api.download(held, np.uint64, 1)[0])
    launch(api, module, "call", 32, taken, x)
    i = np.arange(32)
    np.testing.assert_array_equal(api.download(x, np.int32, 32), i * i)
    variable = ctypes.c_uint64()
    api.cuModuleGetGlobal(ctypes.byref(variable), 0, module, b"initial")
    launch(api, module, "call", 32, int(api.download(variable.value, np.uint64, 1)[0]), x)
    np.testing.assert_array_equal(api.download(x, np.int32, 32), 2 * i * i - 1)
    launch(api, module, "call_variables", 32, x)
    expected = 10000 * (i - 1) + 100 * (2 * i - 1) + np.where(i & 1, 2 * i - 1, i * i)
    np.testing.assert_array_equal(api.download(x, np.int32, 32), expected)


def test_an_object_that_one_kernel_makes_has_its_functions_in_another(linked: tuple[str, bytes]) -> None:
    api, module = load(*linked)
    shapes, x = api.word("cuMemAlloc", 32 * 8), api.word("cuMemAlloc", 32 * 4)
    launch(api, module, "make", 32, shapes)
    launch(api, module, "measure", 32, shapes, x)
    i = np.arange(32)
    np.testing.assert_array_equal(api.download(x, np.int32, 32), np.where(i & 1, i * i + 3, i * i // 2 + 3 * i))


def test_what_only_a_pointer_reaches_costs_a_kernel_no_registers(linked: tuple[str, bytes]) -> None:
    _, cubin = linked
    take, call = load_kernel(cubin, "take"), load_kernel(cubin, "call")
    assert not take.pointers and len(call.pointers) >= 5
    assert take.registers_per_thread < call.registers_per_thread


@pytest.mark.parametrize(
    ("held", "said"),
    [
        (0, "is null"),
        (0x80, r"holds 0x80, no function of the kernel's module \(the address that host code has"),
        (FUNCTIONS_ADDRESS - 16 + (1 << 39), "calls from one module into another are not emulated, link the two"),
    ],
)
def test_a_call_of_what_is_no_function_is_told(linked: tuple[str, bytes], held: int, said: str) -> None:
    api, module = load(*linked)
    with pytest.raises(CallError, match=rf"call through a pointer that .*{said}.*CALL.ABS"):
        launch(api, module, "call", 1, held, api.upload(np.zeros(1, np.int32)))
        api.cuCtxSynchronize()


def test_a_null_pointer_of_code_that_is_compiled_as_a_whole_is_told() -> None:
    source = gpusim.cuda_cpp(SOURCE.replace("extern __device__ int other(int x);", WHOLE), "call")
    api, module = load("h200", compile_kernel(source, (), (9, 0)).cubin)
    with pytest.raises(CallError, match="call through a pointer that names no function of the kernel's module"):
        launch(api, module, "call", 1, 0, api.upload(np.zeros(1, np.int32)))
        api.cuCtxSynchronize()
