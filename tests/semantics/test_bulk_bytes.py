"""Bulk copies and reductions of bytes, held against NumPy."""

from __future__ import annotations

import numpy as np
import pytest
from bulk_kernels import BYTE_REDUCTIONS, ROWS_SOURCE, SOURCE, bulk_kernel

import gpusim
from gpusim.trace.record import MemoryKind, Trace

_TYPES = {
    "b32": "<u4",
    "b64": "<u8",
    "u32": "<u4",
    "s32": "<i4",
    "u64": "<u8",
    "s64": "<i8",
    "f16": "<f2",
    "f32": "<f4",
    "f64": "<f8",
}


def launch(name: str, *args: object, source: str = SOURCE, gpu: tuple[int, int] = (9, 0)) -> Trace:
    return gpusim.capture(bulk_kernel(source, name, gpu), 1, 32, args, gpu=gpu, shared_bytes=16384)


@pytest.mark.parametrize("size", [0, 16, 1040])
def test_bytes_go_through_shared_memory_and_back(size: int) -> None:
    given = np.random.default_rng(size).integers(0, 256, size + 32).astype(np.uint8)
    to, at = np.zeros(size + 32, np.uint8), -given.ctypes.data % 16
    start = -to.ctypes.data % 16
    trace = launch("bytes_there_and_back", to[start:], given[at:], size, 0)
    assert (to[start : start + size] == given[at : at + size]).all() and not to[start + size :].any()
    bulks = np.concatenate([chunk.bulks for chunk in trace.chunks()])
    kinds = [MemoryKind.BULK_LOAD, MemoryKind.BULK_SHARED_COPY, MemoryKind.BULK_PREFETCH, MemoryKind.BULK_STORE]
    assert bulks["kind"].tolist() == kinds and bulks["bytes"].tolist() == [size, size, 0, size]
    assert (bulks["row_bytes"] == size).all() and (bulks["count"] == (size > 0)).all()


def _combined(operation: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    if operation == "inc":
        return np.where(old >= new, 0, old + 1).astype(old.dtype)
    if operation == "dec":
        return np.where((old == 0) | (old > new), new, old - 1).astype(old.dtype)
    made = {
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor, "add": np.add, "min": np.minimum, "max": np.maximum,
    }[operation]  # fmt: skip
    return made(old, new)


@pytest.mark.parametrize("name", BYTE_REDUCTIONS)
def test_bytes_are_reduced_into_global_memory(name: str) -> None:
    operation, kind, rng = name.split(".")[0], name.split(".")[-1], np.random.default_rng(len(name))
    if kind == "bf16":
        floats = rng.normal(size=(2, 16)).astype(np.float32)
        old, new = ((each.view(np.uint32) >> 16).astype(np.uint16) for each in floats)
        wide = _combined(operation, *((each.astype(np.uint32) << 16).view(np.float32) for each in (old, new)))
        bits = wide.view(np.uint32)
        wanted = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)
    else:
        dtype = np.dtype(_TYPES[kind])
        count = 32 // dtype.itemsize
        if dtype.kind == "f":
            old, new = rng.normal(size=(2, count)).astype(dtype)
        else:
            old, new = rng.integers(0, 256, (2, 32)).astype(np.uint8).view(dtype)
        if operation in ("inc", "dec"):
            old[:4], new[:4] = (0, 5, 7, 9), (3, 5, 2, 20)
        wanted = _combined(operation, old.copy(), new)
    to = np.zeros(old.nbytes + 16, np.uint8)
    place = to[-to.ctypes.data % 16 :][: old.nbytes].view(old.dtype)
    place[:] = old
    launch(f"bytes_{name.replace('.', '_')}", place, new.view(np.uint8), 32)
    assert place.tobytes() == wanted.tobytes()


def test_float32_sums_flush_subnormal_numbers() -> None:
    to, new = np.zeros(8, np.float32), np.array([1e-40, 1, -1e-40, 0], np.float32)
    place = to[(-to.ctypes.data % 16) // 4 :][:4]
    place[:] = (1e-40, 1e-40, 0, 3)
    launch("bytes_add_f32", place, new.view(np.uint8), 16)
    assert place.tolist() == [0, 1, 0, 3]


def test_bytes_are_reduced_in_shared_memory() -> None:
    given, out = np.arange(-16, 16, dtype=np.int32), np.zeros(16, np.int32)
    launch("reduce_in_shared", out, given.view(np.uint8), 64)
    assert (out == np.maximum(given[:16], given[16:])).all()


def test_a_mask_says_which_bytes_of_each_sixteen_are_stored() -> None:
    given, to = np.arange(1, 65, dtype=np.uint8), np.zeros(80, np.uint8)
    place = to[-to.ctypes.data % 16 :][:64]
    launch("masked", place, given, 64, 0b1000000000000101, source=ROWS_SOURCE, gpu=(10, 0))
    wanted = np.where(np.isin(np.arange(64) % 16, (0, 2, 15)), given, 0)
    assert (place == wanted).all()
