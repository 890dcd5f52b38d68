"""A shape that does not fit in memory is an error in one line, not a process that the system kills."""

from __future__ import annotations

import resource

import numpy as np
import pytest

from gpusim.cases import suite
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.io import memory_limit

MIB = 1 << 20
#: More than the C library can have kept of what other tests gave back; what is not written to takes no memory.
LARGE = 6000 * MIB
pytestmark = pytest.mark.skipif(memory_limit.free_bytes() is None, reason="this system does not say what is free")


def test_what_is_free_is_less_than_all() -> None:
    assert 0 < memory_limit.free_bytes() <= memory_limit.machine_bytes()


def test_more_than_is_free_cannot_be_taken_and_afterwards_it_can(monkeypatch) -> None:
    monkeypatch.setattr(memory_limit, "free_bytes", lambda: 200 * MIB)
    with memory_limit.limited_memory():
        np.zeros(20 * MIB, np.uint8)
        with pytest.raises(MemoryError):
            np.zeros(LARGE, np.uint8)
    np.zeros(LARGE, np.uint8)


def test_blocks_that_overlap_leave_the_limit_that_was() -> None:
    before = resource.getrlimit(resource.RLIMIT_DATA)
    first, second = memory_limit.limited_memory(), memory_limit.limited_memory()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # as when two threads capture
    assert resource.getrlimit(resource.RLIMIT_DATA) != before
    second.__exit__(None, None, None)
    assert resource.getrlimit(resource.RLIMIT_DATA) == before


def test_a_shape_that_is_too_large_is_refused_by_name(monkeypatch) -> None:
    gpu = load_gpu("h200")
    small = suite.make_case("saxpy", {"n": 1_000_000}, gpu)
    monkeypatch.setattr(memory_limit, "free_bytes", lambda: 300 * MIB)
    with pytest.raises(UsageError, match="kernel saxpy: .* do not fit in the memory"):
        suite.make_case("saxpy", {"n": 2_000_000_000}, gpu)
    assert suite.capture_case(small, gpu)
    monkeypatch.setattr(suite, "capture", lambda *args, **options: np.zeros(LARGE, np.uint8))
    with pytest.raises(UsageError, match="saxpy: .* do not fit in the memory"):
        suite.capture_case(small, gpu)
