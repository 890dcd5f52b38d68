"""Triton's tensor descriptors, made by the kernel or by the host: copies and reductions by the tensor memory
accelerator."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

import gpusim
from gpusim.trace.record import MemoryKind, Trace

pytest.importorskip("triton")
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

BLOCK = (32, 64)


@triton.jit
def made_by_the_kernel(a, b, M, N, BM: tl.constexpr, BN: tl.constexpr):
    source = tl.make_tensor_descriptor(a, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    target = tl.make_tensor_descriptor(b, shape=[M, N], strides=[N, 1], block_shape=[BM, BN])
    row = tl.program_id(0) * BM
    for column in range(0, N, BN):
        target.store([row, column], source.load([row, column]) * 2)


@triton.jit
def made_by_the_host(source, target, N, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM
    for column in range(0, N, BN):
        target.store([row, column], source.load([row, column]) * 2)


@triton.jit
def added(source, target, N, BM: tl.constexpr, BN: tl.constexpr):
    row = tl.program_id(0) * BM
    for column in range(0, N, BN):
        target.atomic_add([row, column], source.load([row, column]))


def aligned(shape: tuple[int, int]) -> np.ndarray:
    """Zeros whose first element lies at a multiple of 16, as Triton asks."""
    raw = np.zeros(shape[0] * shape[1] + 8, np.float16)
    start = -raw.ctypes.data % 16 // 2
    return raw[start : start + shape[0] * shape[1]].reshape(shape)


def descriptor(array: np.ndarray) -> TensorDescriptor:
    base = SimpleNamespace(__array_interface__=array.__array_interface__, dtype=array.dtype, of=array)
    base.data_ptr = lambda: array.ctypes.data
    return TensorDescriptor(base, list(array.shape), [array.shape[1], 1], list(BLOCK))


def moved(trace: Trace) -> list[int]:
    """Kinds of the bulk copies of the first block."""
    return next(trace.chunks()).bulks["kind"].tolist()[:4]


@pytest.mark.parametrize(
    "gpu",
    ["sm_90", pytest.param("sm_100", marks=pytest.mark.nightly), pytest.param("sm_120", marks=pytest.mark.nightly)],
)
def test_blocks_are_copied_by_descriptors(gpu: str) -> None:
    source, target = aligned((60, 80)), aligned((60, 80))  # the last blocks leave it
    source[:] = np.random.default_rng(0).normal(size=source.shape)
    trace = gpusim.capture(made_by_the_kernel, (2,), None, (source, target, 60, 80, *BLOCK), gpu=gpu)
    assert (target == source * 2).all() and set(moved(trace)) == {MemoryKind.BULK_LOAD, MemoryKind.BULK_STORE}
    target[:] = 0
    given = descriptor(source), descriptor(target)
    trace = gpusim.capture(made_by_the_host, (2,), None, (*given, 80, *BLOCK), gpu=gpu)
    assert (target == source * 2).all() and set(moved(trace)) == {MemoryKind.BULK_LOAD, MemoryKind.BULK_STORE}
    trace = gpusim.capture(added, (2,), None, (*given, 80, *BLOCK), gpu=gpu)
    assert (target == source * 2 + source).all()
    assert set(moved(trace)) == {MemoryKind.BULK_LOAD, MemoryKind.BULK_REDUCTION}
