"""Do loads, stores, atomics and constants move the right bytes, in every space, width and lane pattern?"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import cuda, float32, float64, int32, uint8
from shared_launches import for_each

from gpusim.capturing import capture
from gpusim.frontend.native.kernels import cuda_cpp
from gpusim.isa.architectures import GENERATIONS
from gpusim.launch.memory import DeviceMemory
from gpusim.trace.record import SCATTERED, MemoryKind, Space

pytestmark = pytest.mark.usefixtures("without_source_lines")

CONSTANTS = np.arange(64, dtype=np.float32) * 3
THREADS = 64
#: By day two whose machine code differs most.
ARCHITECTURES = [
    pytest.param(row.name, marks=() if row.name in ("sm_75", "sm_90") else pytest.mark.nightly) for row in GENERATIONS
]


@cuda.jit
def gather(source, index, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = source[index[i]]


#: The same instructions move them on both architectures: each width by day on one, signed and unsigned on different
#: ones.
WIDTHS = (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.int64, np.float32, np.float64)
GPUS = ("sm_80", "sm_90")


def both_ways(source, index, gathered, scattered):
    """Gathers into one array, and scatters from the same source into another."""
    i = cuda.grid(1)
    if i < source.size:
        gathered[i] = source[index[i]]
        scattered[index[i]] = source[i]


@cache
def moved(gpu, first):
    """width -> what ``both_ways`` was given and left, of every second width from number ``first`` on."""
    rng = np.random.default_rng(0)
    index = rng.permutation(70)
    cases = {
        kind: (rng.integers(-100, 100, 70).astype(kind), index, *np.zeros((2, 70), kind)) for kind in WIDTHS[first::2]
    }
    capture(for_each(both_ways)(cases), 3, 32, tuple(zip(*cases.values(), strict=True)), gpu=gpu)
    return cases


@pytest.mark.parametrize(
    ("gpu", "kind"),
    [
        pytest.param(gpu, kind, marks=() if i % 2 == j else pytest.mark.nightly)
        for i, kind in enumerate(WIDTHS)
        for j, gpu in enumerate(GPUS)
    ],
)
def test_every_width_is_gathered_and_scattered(kind, gpu):
    source, index, gathered, scattered = moved(gpu, WIDTHS.index(kind) % 2)[kind]
    assert (gathered == source[index]).all()
    assert (scattered[index] == source).all()


@given(st.lists(st.integers(0, 199), min_size=1, max_size=64), st.integers(0, 40))
def test_any_pattern_of_lanes_and_addresses_gathers_as_numpy(index, offset):
    source = np.arange(240, dtype=np.int32) * 7
    index = np.array(index, np.int64)
    out = np.zeros(len(index), np.int32)
    trace = capture(gather, 2, 32, (source[offset:], index, out), gpu="sm_90")
    assert (out == source[offset:][index]).all()
    # The trace names the very addresses: rebuild the gather from it.
    (chunk,) = trace.chunk_list
    bases = {base for base, _ in trace.launch.allocations}
    loads = [i for i, r in enumerate(trace.program.instructions) if r["memory_kind"] == MemoryKind.LOAD]
    assert bases and len(loads) == 2
    seen = []
    for warp in chunk.warps:
        start = int(warp["access_start"])
        mine = chunk.accesses[start : start + int(warp["access_count"])]
        if len(mine) < 2:
            continue
        record = mine[1]  # index load, gather, store
        for lane in range(32):
            if int(record["mask"]) >> lane & 1:
                if record["stride"] == SCATTERED:
                    address = int(chunk.scattered[int(record["address"]), lane])
                else:
                    address = (int(record["address"]) + lane * int(record["stride"])) % 2**64
                seen.append(address)
    first = min(bases)
    assert seen == [first + 4 * int(i) for i in index]


@cuda.jit(device=True)
def through_shared(values, out):
    room = cuda.shared.array((THREADS, 4), float64)
    t = cuda.threadIdx.x
    for k in range(4):
        room[t, k] = values[t] + k
    cuda.syncthreads()
    total = 0.0
    for k in range(4):
        total += room[THREADS - 1 - t, k]
    out[t] = total


@cuda.jit(device=True)
def dynamic_shared(out):
    fixed = cuda.shared.array(16, int32)
    room = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    fixed[t % 16] = t % 16
    room[t] = t
    cuda.syncthreads()
    out[t] = room[THREADS - 1 - t] + fixed[t % 16]


@cuda.jit(device=True)
def stack(values, out):
    room = cuda.local.array(8, float32)
    small = cuda.local.array(16, uint8)
    t = cuda.threadIdx.x
    for k in range(8):
        room[(k * 3 + t) % 8] = float32(values[t]) * k
        small[(k + t) % 16] = k
    out[t] = room[t % 8] + small[(t + 3) % 16]


@cuda.jit(device=True)
def generic(values, out):
    shared = cuda.shared.array(THREADS, float32)
    local = cuda.local.array(THREADS, float32)
    t = cuda.threadIdx.x
    shared[t] = t
    for k in range(THREADS):
        local[k] = 100 * t + k
    cuda.syncthreads()
    view = shared if values[t] > 0 else local
    out[t] = view[THREADS - 1 - t]


@cuda.jit(device=True)
def from_constants(out):
    table = cuda.const.array_like(CONSTANTS)
    t = cuda.threadIdx.x
    out[t] = table[(t * 5) % 64]


@cuda.jit
def every_space(values, fixed_out, dynamic_out, local_out, generic_out, constant_out):
    through_shared(values, fixed_out)
    dynamic_shared(dynamic_out)
    stack(values, local_out)
    generic(values, generic_out)
    from_constants(constant_out)


@cache
def left_in_every_space(gpu):
    """(trace, values, then what each part of ``every_space`` left) of one block."""
    values = np.random.default_rng(1).permutation(np.arange(-31.0, 33.0))
    outs = [np.zeros(THREADS), *np.zeros((4, THREADS), np.float32)]
    return capture(every_space, 1, THREADS, (values, *outs), gpu=gpu, shared_bytes=4 * THREADS), values, *outs


@pytest.mark.parametrize("gpu", ARCHITECTURES)
def test_shared_memory_static_and_dynamic(gpu):
    _, values, static, dynamic, *_ = left_in_every_space(gpu)
    back = values[::-1]
    np.testing.assert_array_equal(static, (back + (back + 1)) + (back + 2) + (back + 3))
    t = np.arange(THREADS)
    np.testing.assert_array_equal(dynamic, THREADS - 1 - t + t % 16)


@pytest.mark.parametrize("gpu", ARCHITECTURES)
def test_local_arrays_belong_to_their_thread(gpu):
    _, values, _, _, out, *_ = left_in_every_space(gpu)
    expected = np.zeros(THREADS, np.float32)
    for t in range(THREADS):
        room = np.zeros(8, np.float32)
        for k in range(8):
            room[(k * 3 + t) % 8] = np.float32(values[t]) * np.float32(k)
        expected[t] = room[t % 8] + 3
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("gpu", ARCHITECTURES)
def test_generic_addresses_find_their_space_lane_by_lane(gpu):
    _, values, *_, out, _ = left_in_every_space(gpu)
    t = np.arange(THREADS)
    np.testing.assert_array_equal(out, np.where(values > 0, THREADS - 1 - t, 100 * t + THREADS - 1 - t))


@pytest.mark.parametrize("gpu", ARCHITECTURES)
def test_constant_arrays(gpu):
    *_, out = left_in_every_space(gpu)
    np.testing.assert_array_equal(out, CONSTANTS[(np.arange(THREADS) * 5) % 64])


def contended(counters, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.add(counters, i % 3, 1)
    cuda.atomic.max(counters, 3, i)
    cuda.atomic.min(counters, 4, -i)
    cuda.atomic.xor(counters, 5, i)


@cache
def under_contention():
    """type -> counters and old values that ``contended`` left."""
    cases = {kind: (np.zeros(6, kind), np.zeros(96, kind)) for kind in (np.int32, np.int64)}
    capture(for_each(contended)(cases), 3, 32, tuple(zip(*cases.values(), strict=True)), gpu="sm_90")
    return cases


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_atomics_under_contention_lose_nothing(kind):
    counters, old = under_contention()[kind]
    i = np.arange(96)
    assert (counters[:3] == 32).all()
    assert counters[3] == 95 and counters[4] == -95
    assert counters[5] == np.bitwise_xor.reduce(i)
    for k in range(3):
        assert sorted(old[i % 3 == k]) == list(range(32))


def test_an_array_keeps_its_device_address_in_shared_memory_objects():
    memory = DeviceMemory()
    values, index = np.arange(8, dtype=np.float32), np.arange(8)
    out = np.zeros(8, np.float32)
    first = memory.address_of(values)
    capture(gather, 1, 32, (values, index, out), gpu="sm_90", memory=memory)
    assert memory.address_of(values) == first
    trace = capture(gather, 1, 32, (values, index, out), gpu="sm_90", memory=memory)
    assert (first, values.nbytes) in trace.launch.allocations


def test_device_addresses_do_not_depend_on_the_host():
    def addresses():
        arrays = tuple(np.zeros(n, np.float32) for n in (100, 70, 300_000))
        trace = capture(gather, 1, 32, (arrays[0], np.zeros(70, np.int64), arrays[1]), gpu="sm_90")
        return trace.launch.allocations

    keep = [np.zeros(12345) for _ in range(3)]
    assert addresses() == addresses() and keep


def test_overlapping_arguments_are_copied_back_in_order():
    @cuda.jit
    def both(first, second):
        i = cuda.grid(1)
        first[i] += 1
        second[i] += 10

    values = np.zeros(32, np.float32)
    capture(both, 1, 32, (values, values), gpu="sm_90")
    # each argument was a device array of its own; the second one came back last
    assert (values == 10).all()


def test_strided_and_reversed_arrays_are_written_in_place():
    base = np.zeros(64, np.float32)
    index = np.arange(32)
    capture(gather, 1, 32, (np.arange(32, dtype=np.float32), index, base[::2]), gpu="sm_90")
    assert (base[::2] == index).all() and (base[1::2] == 0).all()
    capture(gather, 1, 32, (np.arange(32, dtype=np.float32), index, base[::-2]), gpu="sm_90")
    assert (base[::-2] == index).all()


def test_spaces_of_the_trace_are_those_of_the_instructions():
    opcodes = {
        "LDG": Space.GLOBAL, "STG": Space.GLOBAL, "LDS": Space.SHARED, "STS": Space.SHARED,
        "LDL": Space.LOCAL, "STL": Space.LOCAL, "LDC": Space.CONSTANT, "LD": Space.GENERIC,
    }  # fmt: skip
    program = left_in_every_space("sm_90")[0].program
    found = set()
    for text, row in zip(program.texts, program.instructions, strict=True):
        if row["records"]:
            opcode = text.split()[1] if text.startswith("@") else text.split()[0]
            found.add((opcode.rstrip(";").split(".")[0], Space(int(row["space"]))))
    assert found == set(opcodes.items())


REDUCED = """extern "C" __global__ void reduced(unsigned *count, unsigned long long *sum, int *low, long long n) {
  if (threadIdx.x % 32 < 5)  // operands that the warp has in common, of some lanes
    asm volatile("red.async.release.global.gpu.add.u32 [%0], %1;" :: "l"(count), "r"(3) : "memory");
  asm volatile("red.async.release.global.sys.add.u64 [%0], %1;" :: "l"(sum + threadIdx.x % 7), "l"(n + threadIdx.x) : "memory");
  asm volatile("red.async.release.global.gpu.add.s32 [%0], %1;" :: "l"(low), "r"(-(int)threadIdx.x) : "memory");
}"""


def test_a_warp_s_asynchronous_reduction_counts_each_lane_once():
    """UREDGR works once a warp: lanes are elected one after another."""
    count, sums, low = np.zeros(1, np.uint32), np.zeros(7, np.uint64), np.zeros(1, np.int32)
    capture(cuda_cpp(REDUCED, "reduced"), 2, 64, (count, sums, low, np.int64(2**40)), gpu="sm_100")
    thread = np.arange(64)
    assert count[0] == 2 * 2 * 5 * 3 and low[0] == -2 * thread.sum()
    assert sums.tolist() == [2 * sum(2**40 + int(t) for t in thread[thread % 7 == i]) for i in range(7)]
