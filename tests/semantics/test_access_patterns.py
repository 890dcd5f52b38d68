"""Does a warp's access reach the places that its lanes name, and does the trace say so: as a first address and a
stride where they are evenly spaced, address by address where they are not?"""

from __future__ import annotations

import numpy as np
import pytest
from numba import cuda, float32

import gpusim
from gpusim.launch.memory import DeviceMemory
from gpusim.trace.record import SCATTERED, MemoryKind, Space

pytestmark = pytest.mark.usefixtures("without_source_lines")

THREADS, PLACES = 64, 256
LANES = np.arange(32)
#: Index of each lane of a warp, as a pattern of places below PLACES / 2.
PATTERNS = {
    "in order": LANES,
    "backwards": 31 - LANES,
    "every third": 3 * LANES,
    "one place": np.full(32, 7),
    "two rows": LANES % 16 + 40 * (LANES // 16),
    "each twice": LANES // 2,
    "all but one in order": np.where(LANES == 31, 90, LANES),
    "shuffled": (LANES * 13 + 5) % 32,
}


@cuda.jit
def through_global(index, x, out):
    i = cuda.grid(1)
    place = index[i]
    out[place] = x[place] + float32(1)


@cuda.jit
def through_shared(index, x, out):
    tile = cuda.shared.array(PLACES, float32)
    i = cuda.threadIdx.x
    for k in range(i, PLACES, THREADS):
        tile[k] = x[k]
    cuda.syncthreads()
    out[i] = tile[index[i]]


def _accesses(trace, space, kind):
    """(addresses of the lanes, whether as a stride) of each full-mask access of that space and kind, by warp."""
    table, found = trace.program.instructions, []
    for chunk in trace.chunks():
        for warp in chunk.warps:
            at = int(warp["access_start"])
            path = int(warp["path"])
            for first, count, _ in chunk.runs[chunk.path_start[path] : chunk.path_start[path + 1]]:
                for instruction in table[first : first + count]:
                    for _ in range(instruction["records"]):
                        record = chunk.accesses[at]
                        at += 1
                        if instruction["space"] != space or instruction["memory_kind"] != kind:
                            continue
                        address, stride = int(record["address"]), int(record["stride"])
                        if stride == SCATTERED:
                            found.append((chunk.scattered[address].astype(np.int64).tolist(), False))
                        else:
                            found.append(((address + stride * LANES).tolist(), True))
    return found


def _index(pattern: str) -> np.ndarray:
    """The pattern in the first warp, and the same 128 places on in the second."""
    return np.concatenate([PATTERNS[pattern], PATTERNS[pattern] + 128]).astype(np.int64)


def _even(pattern: str) -> bool:
    return len(set(np.diff(PATTERNS[pattern]))) == 1


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.complex128])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_global_places(pattern, kind):
    index, x, out = _index(pattern), np.arange(PLACES).astype(kind), np.zeros(PLACES, kind)
    memory = DeviceMemory()
    trace = gpusim.capture(through_global, 1, THREADS, (index, x, out), gpu="sm_90", memory=memory)
    expected = np.zeros(PLACES, kind)
    expected[index] = x[index] + 1
    assert out.tolist() == expected.tolist()
    loads = _accesses(trace, Space.GLOBAL, MemoryKind.LOAD)
    start, even = memory.address_of(x), _even(pattern)
    for warp in range(2):
        places = (start + index[32 * warp : 32 * warp + 32] * x.itemsize).tolist()
        parts = [step for step in range(0, x.itemsize, 4) if ([p + step for p in places], even) in loads]
        assert 0 in parts, f"no load of {places} among {loads}"


@pytest.mark.parametrize("pattern", PATTERNS)
def test_shared_places(pattern):
    index, x, out = _index(pattern), np.arange(PLACES).astype(np.float32), np.zeros(THREADS, np.float32)
    trace = gpusim.capture(through_shared, 1, THREADS, (index, x, out), gpu="sm_90")
    assert out.tolist() == x[index].tolist()
    loads, even = _accesses(trace, Space.SHARED, MemoryKind.LOAD), _even(pattern)
    assert len(loads) == 2
    for (places, as_stride), wanted in zip(loads, (index[:32], index[32:]), strict=True):
        assert (np.array(places) - places[0]).tolist() == (4 * (wanted - wanted[0])).tolist()
        assert as_stride == even


def test_a_backward_and_a_negative_index_reach_below_the_base_register():
    """Offsets that wrap around 32 bits are addresses like others."""
    index = np.concatenate([-1 - LANES, -32 + LANES]).astype(np.int64)
    x, out = np.arange(PLACES).astype(np.float32), np.zeros(PLACES, np.float32)
    gpusim.capture(through_global, 1, THREADS, (index, x, out), gpu="sm_90")
    expected = np.zeros(PLACES, np.float32)
    expected[index] = x[index] + 1
    assert out.tolist() == expected.tolist()
