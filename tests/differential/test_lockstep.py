"""Warps executed together do what warps executed one by one do: same results, same trace, same errors.

Each case is captured twice, in lockstep and one by one, and everything that capture gives is
compared: the arrays, each warp's path and accesses, and the message of an error.
"""

from __future__ import annotations

import functools

import numpy as np
import pytest
from numba import cuda, float32, int32

from gpusim.capturing import capture
from gpusim.cases.names import general_names
from gpusim.cases.suite import find_kernel
from gpusim.emulator import emulation
from gpusim.errors import GpusimError
from gpusim.launch.memory import DeviceMemory
from gpusim.trace.record import SCATTERED

pytestmark = pytest.mark.usefixtures("without_source_lines")

SHARED = 256
#: Kernels that look at memory while other warps may write it: a compare-and-swap loop begins with a plain
#: load, a breadth-first search marks vertices without asking, union-find follows parents that others change. Their
#: results are right in any order, their paths are not the same.
RACY = ("atomic_contention", "bfs", "cpp_components")
EVERYDAY = ("histogram", "matmul_tiled", "nbody", "reduce_sum", "softmax", "spmv_csr", "transpose")


def _capture(monkeypatch, lockstep, *args, **options):
    with monkeypatch.context() as patch:
        patch.setattr(emulation, "make_state", functools.partial(_make_state, lockstep=lockstep))
        return capture(*args, **options)


_make_state = emulation.make_state


def _warps(trace):
    """For each warp of the trace: its runs, and its accesses with their addresses."""
    warps = []
    for chunk in trace.chunks():
        for warp in chunk.warps:
            path = int(warp["path"])
            runs = chunk.runs[chunk.path_start[path] : chunk.path_start[path + 1]].tolist()
            start, count = int(warp["access_start"]), int(warp["access_count"])
            accesses = []
            for address, stride, mask in chunk.accesses[start : start + count][["address", "stride", "mask"]].tolist():
                lanes = chunk.scattered[address].tolist() if stride == SCATTERED else address
                accesses.append((lanes, stride, mask))
            warps.append((runs, accesses))
    return warps


def _agree(monkeypatch, kernel, grid, block, args, gpu="sm_90", **options):
    """Capture twice on copies of ``args``; results, traces and errors must be equal. Returns the trace."""
    outcomes = []
    for lockstep in (True, False):
        own = tuple(a.copy() if isinstance(a, np.ndarray) else a for a in args)
        try:
            trace = _capture(monkeypatch, lockstep, kernel, grid, block, own, gpu=gpu, **options)
            outcomes.append((trace, [a.tobytes() for a in own if isinstance(a, np.ndarray)], None))
        except GpusimError as error:
            outcomes.append((None, [a.tobytes() for a in own if isinstance(a, np.ndarray)], f"{type(error)}: {error}"))
    (trace, arrays, error), (other_trace, other_arrays, other_error) = outcomes
    assert error == other_error
    assert arrays == other_arrays
    if trace is not None:
        assert _warps(trace) == _warps(other_trace)
    return trace


@pytest.mark.parametrize(
    "name",
    [n if n in EVERYDAY else pytest.param(n, marks=pytest.mark.nightly) for n in general_names() if n not in RACY],
)
def test_every_kernel_of_the_suite(name, monkeypatch):
    case_of = find_kernel(name)
    traces = []
    for lockstep in (True, False):
        memory, case = DeviceMemory(), case_of.make(**case_of.small)
        captured = [
            _capture(
                monkeypatch, lockstep, each.kernel, each.grid, each.block, each.args,
                gpu="sm_90", shared_bytes=each.shared_bytes, memory=memory,
            )
            for each in case.launches
        ]  # fmt: skip
        case.check()
        traces.append([_warps(trace) for trace in captured])
    assert traces[0] == traces[1]


@cuda.jit
def _parting(out, rounds):
    """Branches and loops by warp and by lane."""
    i = cuda.grid(1)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    total = int32(0)
    for r in range(rounds + warp):
        if (r + warp) % 3 == 0:
            total += lane * r
        elif lane < r:
            total ^= r
            if lane % 2 == warp % 2:
                total *= 3
        if total % 7 == 6:
            continue
        k = lane
        while k > warp:
            k -= 1 + r % 2
            total += k
    out[i] = total


@pytest.mark.parametrize("threads", [32, 64, 250, 256, 288, 1024])
def test_warps_that_part_and_meet(threads, monkeypatch):
    _agree(monkeypatch, _parting, 2, threads, (np.zeros(2 * threads, np.int32), 9))


@cuda.jit
def _leaving(out, limits, factor):
    i = cuda.grid(1)
    value, k = float32(i), int32(0)
    while k < limits[i] and value < float32(1e30):
        value = value * factor + float32(1)
        k += 1
    out[i] = value


def test_lanes_that_leave_a_loop_one_by_one_do_not_part_warps(monkeypatch):
    """Their turn comes every 256 instructions, in some warps and not in others: those must not fall behind."""
    states = []

    def release(prepared, slot_states, raw, registers):
        states.append(slot_states[0].copy())

    limits = np.random.default_rng(3).integers(20, 200, 256).astype(np.int32)
    limits[::32] = 200  # every warp stays as long
    monkeypatch.setattr(emulation, "release", release)
    capture(_leaving, 1, 256, (np.zeros(256, np.float32), limits, float32(0.5)), gpu="sm_90")
    (state,) = states
    assert state.executed > 7 * state.dispatched, "fewer than seven of eight warps run together in the mean"


@cuda.jit
def _barriers(out):
    shared = cuda.shared.array(SHARED, float32)
    t = cuda.threadIdx.x
    shared[t] = t
    cuda.syncthreads()
    step = SHARED // 2
    while step > 0:
        if t < step:
            shared[t] += shared[t + step]
        cuda.syncthreads()
        step //= 2
    even = cuda.syncthreads_count(int32(t % 2 == 0))
    if t == 0:
        out[cuda.blockIdx.x] = shared[0] + even


def test_a_tree_of_barriers(monkeypatch):
    out = np.zeros(3, np.float32)
    assert _agree(monkeypatch, _barriers, 3, SHARED, (out,)) is not None, "it compiles, and ends"


@cuda.jit
def _ordered(values, total, order, places):
    """Float sums and tickets: both show who came first."""
    i = cuda.grid(1)
    cuda.atomic.add(total, 0, values[i])
    if cuda.threadIdx.x % 32 == 5:
        ticket = cuda.atomic.add(places, 0, 1)
        order[ticket] = i
    cuda.syncthreads()
    cuda.atomic.add(total, 1, values[i] * float32(0.3))


@pytest.mark.parametrize("threads", [256, 1024])
def test_atomics_whose_order_shows(threads, monkeypatch):
    values = np.random.default_rng(0).random(4 * threads, np.float32)
    args = (values, np.zeros(2, np.float32), np.full(threads // 8, -1, np.int32), np.zeros(1, np.int32))
    _agree(monkeypatch, _ordered, 4, threads, args)


@cuda.jit
def _commuting(out, keys):
    counts = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    if t < 64:
        counts[t] = 0
    cuda.syncthreads()
    for k in range(4):
        cuda.atomic.add(counts, keys[cuda.grid(1) * 4 + k], 1)
    cuda.syncthreads()
    if t < 64:
        cuda.atomic.max(out, t, counts[t])


def test_atomics_whose_order_does_not_show(monkeypatch):
    keys = np.random.default_rng(1).integers(0, 64, 4 * 512).astype(np.int32)
    _agree(monkeypatch, _commuting, 2, 256, (np.zeros(64, np.int32), keys))


@cuda.jit
def _reaches_out(out, limits):
    i = cuda.grid(1)
    for k in range(limits[cuda.threadIdx.x // 32]):
        out[i + k * 256] = k


@pytest.mark.parametrize(
    "limits", [(1, 1, 1, 9, 1, 1, 7, 1), (1, 1, 1, 6, 1, 1, 9, 1), (9,) * 8, (1, 5, 4, 7, 1, 1, 1, 1)]
)
def test_the_same_access_is_out_of_bounds(limits, monkeypatch):
    trace = _agree(monkeypatch, _reaches_out, 1, 256, (np.zeros(1000, np.int32), np.array(limits, np.int32)))
    assert trace is None


@cuda.jit
def _uniform_and_lanes(out, table):
    """Shuffles, votes, uniform registers and a predicate by warp."""
    i = cuda.grid(1)
    warp = cuda.threadIdx.x // 32
    value = table[warp] + cuda.shfl_xor_sync(0xFFFFFFFF, i, 5)
    if warp % 2 == 1:
        value += cuda.ballot_sync(0xFFFFFFFF, i % 3 == 0)
    out[i] = value + cuda.activemask()


def test_instructions_across_lanes(monkeypatch):
    _agree(monkeypatch, _uniform_and_lanes, 2, 320, (np.zeros(640, np.int64), np.arange(10, dtype=np.int64)))
