"""Kernels of the CuTe DSL: compiled by its own compiler, launched as its own host code says, results against NumPy."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

import numpy as np
import pytest

import gpusim
from gpusim.errors import CompileError, ToolchainError, UsageError

HAS_DSL = importlib.util.find_spec("cutlass") is not None
with_dsl = pytest.mark.skipif(not HAS_DSL, reason="gpusim[cute] is not installed")
GPUS = ("a100_80gb", "h200", "b200", "rtx_5090")


@pytest.fixture(scope="module")
def kernels() -> Any:
    return importlib.import_module("cute_kernels")


@with_dsl
@pytest.mark.parametrize("gpu", GPUS)
def test_a_launch_is_what_the_host_function_says(kernels: Any, gpu: str) -> None:
    x, z = np.arange(300, dtype=np.float32), np.zeros(300, np.float32)
    trace = gpusim.capture(gpusim.cute(kernels.add), None, None, (x, x.copy(), z, 290), gpu=gpu)
    assert (z[:290] == 2 * x[:290]).all() and (z[290:] == 0).all()
    assert trace.launch.grid == (3, 1, 1) and trace.launch.block == (128, 1, 1) and trace.launch.kernel == "add"
    assert any(file.endswith("cute_kernels.py") for file in trace.program.files)
    assert gpusim.simulate(trace, gpu=gpu).cycles > 0


@with_dsl
def test_tensors_of_the_dsl_with_dynamic_shapes_share_a_build(kernels: Any) -> None:
    from_dlpack = importlib.import_module("cutlass.cute.runtime").from_dlpack
    hashes = set()
    for n in (100, 200):
        x, z = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        tensors = [from_dlpack(each).mark_layout_dynamic() for each in (x, x.copy(), z)]
        trace = gpusim.capture(gpusim.cute(kernels.add), None, None, (*tensors, n), gpu="a100_80gb")
        assert (z == 2 * x).all() and trace.launch.grid == (-(-n // 128), 1, 1)
        hashes.add(trace.launch.cubin_sha256)
    assert len(hashes) == 1


@with_dsl
def test_constants_of_the_code_stand_among_the_arguments(kernels: Any) -> None:
    for function in (kernels.add_times, kernels.AddTimes()):
        for times in (2, 3):
            a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
            gpusim.capture(gpusim.cute(function), None, None, (a, b, times, 48), gpu="h200")
            assert (b[:48] == times * a[:48]).all() and not b[48:].any()


@with_dsl
def test_pointers_point_into_arrays_that_are_named(kernels: Any) -> None:
    cutlass, runtime = importlib.import_module("cutlass"), importlib.import_module("cutlass.cute.runtime")
    a, b = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
    space = importlib.import_module("cutlass.cute").AddressSpace.gmem
    pointers = [runtime.make_ptr(cutlass.Float32, each.ctypes.data + 64, space, assumed_align=4) for each in (a, b)]
    gpusim.capture(gpusim.cute(kernels.add_one, memory=[a, b]), None, None, tuple(pointers), gpu="h200")
    assert (b[16:48] == a[16:48] + 1).all() and not b[:16].any() and not b[48:].any()
    with pytest.raises(UsageError, match=r"lies in no array: name the array, gpusim.cute\(..., memory=\[array\]\)"):
        gpusim.capture(gpusim.cute(kernels.add_one, memory=[a]), None, None, tuple(pointers), gpu="h200")


@with_dsl
def test_a_tile_goes_through_shared_memory(kernels: Any) -> None:
    a, b = np.random.default_rng(1).random((64, 96), np.float32), np.zeros((96, 64), np.float32)
    trace = gpusim.capture(gpusim.cute(kernels.transpose), None, None, (a, b), gpu="a100_80gb")
    assert (b == a.T).all() and trace.launch.grid == (3, 2, 1) and trace.launch.shared_bytes > 4096


@with_dsl
@pytest.mark.parametrize("gpu", ("a100_80gb", "h200"))
def test_a_product_by_tensor_cores(kernels: Any, gpu: str) -> None:
    random = np.random.default_rng(2)
    a, b = (random.integers(-4, 5, (rows, 48)).astype(np.float16) for rows in (128, 64))
    c = np.zeros((128, 64), np.float32)
    trace = gpusim.capture(gpusim.cute(kernels.gemm), None, None, (a, b, c), gpu=gpu)
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
    assert any("HMMA.16816" in text for text in trace.program.texts)


@with_dsl
def test_a_product_by_bulk_copies_and_tensor_memory() -> None:
    kernels = importlib.import_module("cute_tensor_kernels")
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 5, (rows, 192)).astype(np.float16) for rows in (128, 64))
    c = np.zeros((128, 64), np.float32)
    trace = gpusim.capture(gpusim.cute(kernels.product), None, None, (a, b, c), gpu="b200")
    assert (c == a.astype(np.float32) @ b.astype(np.float32).T).all()
    assert any("UTCHMMA" in text for text in trace.program.texts)


@with_dsl
def test_arrays_lie_in_global_memory_as_a_gpu_s_do(kernels: Any) -> None:
    from_dlpack = importlib.import_module("cutlass.cute.runtime").from_dlpack
    for wrap in (lambda array: array, from_dlpack):
        a, b = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
        trace = gpusim.capture(gpusim.cute(kernels.stage), None, None, (wrap(a), wrap(b)), gpu="a100_80gb")
        assert (b == a[::-1]).all() and any("LDGSTS" in text for text in trace.program.texts)


@with_dsl
def test_blocks_in_clusters_know_their_rank(kernels: Any) -> None:
    a, b = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    trace = gpusim.capture(gpusim.cute(kernels.add_ranks), None, None, (a, b), gpu="h200")
    assert (b - a).reshape(2, 4, 32).transpose(1, 0, 2).reshape(4, -1).tolist() == [[rank] * 64 for rank in range(4)]
    assert trace.launch.cluster == (4, 1, 1)


@with_dsl
def test_several_launches_want_one_named(kernels: Any) -> None:
    x = np.ones(64, np.float32)
    z = np.zeros(64, np.float32)
    with pytest.raises(UsageError, match="makes 2 launches .* name one, launch=0"):
        gpusim.capture(gpusim.cute(kernels.twice), None, None, (x, x.copy(), z, 64), gpu="a100_80gb")
    y = x.copy()
    trace = gpusim.capture(gpusim.cute(kernels.twice, launch=1), None, None, (x, y, z, 64), gpu="a100_80gb")
    assert trace.launch.block == (64, 1, 1) and (y == 1).all() and (z == 0).all()


@with_dsl
def test_mistakes_are_one_line(kernels: Any) -> None:
    x = np.ones(64, np.float32)
    with pytest.raises((CompileError, UsageError)) as caught:
        gpusim.capture(gpusim.cute(kernels.add), None, None, (x, x), gpu="a100_80gb")
    assert "\n" not in str(caught.value)
    with pytest.raises(UsageError, match="takes the @cute.jit function"):
        gpusim.cute(3)  # pyright: ignore[reportArgumentType]


@pytest.mark.skipif(HAS_DSL, reason="gpusim[cute] is installed")
def test_without_the_extra_its_name_is_told() -> None:
    with pytest.raises(ToolchainError, match=r"gpusim\[cute\]"):
        gpusim.capture(gpusim.cute(lambda a: None), None, None, (np.ones(1),))
