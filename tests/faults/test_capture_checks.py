"""What ``check=("memory", "race")`` finds, and what it leaves alone, with thread pairs and source lines."""

from __future__ import annotations

import enum
import inspect
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hand_traces import Asm, build
from numba import cuda, int32, types

import gpusim
from gpusim import cli
from gpusim.capturing import capture
from gpusim.errors import AddressError, UsageError
from gpusim.sanitizer.ordercheck import OrderCheck
from gpusim.trace.record import MemoryKind, Space

BOTH = ("memory", "race")


HEAP = cuda.CUSource(
    r"""
extern "C" __device__ int take(long long *block, int bytes) { *block = (long long)malloc(bytes); return 0; }
extern "C" __device__ int give(int *result, long long block) { free((void *)block); *result = 0; return 0; }
""",
    name="heap.cu",
)
take = cuda.declare_device("take", types.int64(types.int32), link=HEAP)
give = cuda.declare_device("give", types.int32(types.int64), link=HEAP)


class Part(enum.IntEnum):
    """What a launch of ``in_shared`` runs: the kernels of these tests are branches of one, compiled and listed once."""

    UNORDERED = 0
    ORDERED = 1
    ONE_BARRIER_SHORT = 2
    SAME_PLACE = 3
    COUNTED = 4
    COUNTED_WITHOUT_START = 5
    HALF_FILLED = 6
    SOME_LEAVE = 7


@cuda.jit
def in_shared(part, out):
    room = cuda.shared.array(128, int32)
    t = cuda.threadIdx.x
    if part == Part.UNORDERED:
        room[t] = t  # +1: written here,
        out[t] = room[63 - t]  # +2: read there, no barrier between
    elif part == Part.ORDERED:
        for k in range(4):
            room[t] = t + k
            cuda.syncthreads()
            out[t] += room[63 - t]
            cuda.syncthreads()
    elif part == Part.ONE_BARRIER_SHORT:
        for k in range(4):
            room[t] = t + k  # +2
            cuda.syncthreads()
            out[t] += room[63 - t]  # +4
    elif part == Part.SAME_PLACE:
        room[0] = t  # +1
        cuda.syncthreads()
        out[t] = room[0]
    elif part == Part.COUNTED:
        if t == 0:
            room[0] = 0
        cuda.syncthreads()
        cuda.atomic.add(room, 0, 1)
        cuda.syncthreads()
        out[t] = room[0]
    elif part == Part.COUNTED_WITHOUT_START:
        cuda.atomic.add(room, 0, 1)
        cuda.syncthreads()
        out[t] = room[0]
    elif part == Part.HALF_FILLED:
        if t < 32:
            room[t] = t
        cuda.syncthreads()
        out[t] = room[63 - t]  # +4
    elif part == Part.SOME_LEAVE:
        if t >= 64:
            return
        room[t] = t
        cuda.syncthreads()
        out[t] = room[63 - t]


@cuda.jit
def overrun(values, out, n):
    i = cuda.grid(1)
    out[i] = values[i + n]


def findings(kernel, *args, block=64, grid=1, gpu="sm_90", check=BOTH):
    return capture(kernel, grid, block, args, gpu=gpu, check=check).findings


def findings_in_shared(part, block=64, gpu="sm_90", check=BOTH, out=None):
    """Of a launch that runs ``part`` alone."""
    return findings(
        in_shared, np.int32(part), np.zeros(block, np.int32) if out is None else out, block=block, gpu=gpu, check=check
    )


def line(kernel, offset: int, part: Part | None = None) -> str:
    """How a place ends that is ``offset`` lines behind the one where ``kernel``, or a part of it, begins."""
    lines, first = inspect.getsourcelines(kernel.py_func)
    begin = next(i for i, text in enumerate(lines) if part is None or text.endswith(f"part == Part.{part.name}:\n"))
    return f"test_capture_checks.py:{first + begin + offset})"


@pytest.mark.by_day(1)
@pytest.mark.parametrize("gpu", ["sm_80", "sm_90", "sm_120"])
def test_a_missing_barrier_is_a_hazard_with_both_lines_and_threads(gpu):
    out = np.zeros(64, np.int32)
    hazard = next(f for f in findings_in_shared(Part.UNORDERED, gpu=gpu, out=out) if f.tool == "racecheck")
    assert hazard.what == "Read-write hazard on __shared__ memory"
    assert hazard.where.endswith(line(in_shared, 2, Part.UNORDERED)) and "LDS" in hazard.where
    assert hazard.other_where.endswith(line(in_shared, 1, Part.UNORDERED)) and "STS" in hazard.other_where
    assert hazard.thread[0] + hazard.other_thread[0] == 63
    assert hazard.thread[0] // 32 != hazard.other_thread[0] // 32
    assert out[63] == 0 and out[0] in (0, 63), "the arrays come out"


def test_a_barrier_that_is_missing_in_a_loop_is_found_without_bad_luck():
    hazards = findings_in_shared(Part.ONE_BARRIER_SHORT)  # one for each copy of the unrolled loop
    assert {h.what for h in hazards} == {"Read-write hazard on __shared__ memory"}
    assert all(h.where.endswith(line(in_shared, 4, Part.ONE_BARRIER_SHORT)) for h in hazards)
    assert all(h.other_where.endswith(line(in_shared, 2, Part.ONE_BARRIER_SHORT)) for h in hazards)


def test_two_writers_of_a_byte_are_a_hazard():
    (hazard,) = findings_in_shared(Part.SAME_PLACE)
    assert hazard.what == "Write-write hazard on __shared__ memory" and hazard.detail.startswith("byte 0")
    assert hazard.where == hazard.other_where and hazard.where.endswith(line(in_shared, 1, Part.SAME_PLACE))


@pytest.mark.parametrize("part", [Part.ORDERED, Part.COUNTED, Part.SOME_LEAVE], ids=lambda part: part.name.lower())
def test_ordered_kernels_have_no_findings(part):
    assert findings_in_shared(part, block=128 if part is Part.SOME_LEAVE else 64) == ()


def test_atomics_are_no_hazard_but_need_a_first_value():
    (finding,) = findings_in_shared(Part.COUNTED_WITHOUT_START)
    assert finding.tool == "initcheck" and "ATOMS" in finding.where


SUMMED = """extern "C" __global__ void summed(const float *x, float *out) {
  __shared__ float sum;
  if (threadIdx.x == 63) sum = 0;
  START;
  atomicAdd(&sum, x[threadIdx.x]);
  __syncthreads();
  if (threadIdx.x == 0) *out = sum;
}"""


@pytest.mark.by_day(2)
@pytest.mark.parametrize("gpu", ["sm_90", "sm_100", "sm_75"])
@pytest.mark.parametrize("start", ["__syncthreads()", 'asm volatile("bar.sync 1, 64;" ::: "memory")', ""])
def test_an_atomic_that_is_a_loop_is_one(gpu, start):
    """Shared memory adds no floats: the compiler loads one and has it replaced if it is still there."""
    out, kernel = np.zeros(1, np.float32), gpusim.cuda_cpp(SUMMED.replace("START", start), "summed")
    found = findings(kernel, np.ones(64, np.float32), out, gpu=gpu)
    assert out[0] == 64 or not start
    assert any(f.tool == "racecheck" for f in found) == (not start)


def test_shared_memory_that_nobody_wrote_is_named_with_its_byte():
    (finding,) = findings_in_shared(Part.HALF_FILLED)
    assert finding.tool == "initcheck" and finding.count == 32
    assert finding.what == "Uninitialized __shared__ memory read of size 4 bytes"
    assert finding.thread == (0, 0, 0) and finding.detail == "byte 252 was never written"
    assert finding.where.endswith(line(in_shared, 4, Part.HALF_FILLED))


def test_local_memory_that_a_thread_did_not_write_is_named():
    """By hand: Numba clears the local arrays of its kernels when it makes them."""
    asm = Asm()
    asm.memory(MemoryKind.STORE, Space.LOCAL, 8, lambda block, warp: (16, 0), mask=0x0000FFFF)
    asm.memory(MemoryKind.LOAD, Space.LOCAL, 4, lambda block, warp: (20, 0))
    asm.memory(MemoryKind.LOAD, Space.LOCAL, 4, lambda block, warp: (24, 0), mask=1)
    trace = build(asm.exit(), blocks=2, threads=64)
    check = OrderCheck(trace.program, replace(trace.launch, local_bytes=32), 0, frozenset(["memory"]))
    (chunk,) = trace.chunk_list
    check.chunk_closed(chunk)
    half, beyond = check.findings()
    assert half.what == beyond.what == "Uninitialized __local__ memory read of size 4 bytes"
    assert (half.count, half.thread, half.detail) == (2 * 2 * 16, (16, 0, 0), "byte 20 was never written")
    assert (beyond.count, beyond.thread, beyond.detail) == (2 * 2, (0, 0, 0), "byte 24 was never written")


def test_invalid_accesses_are_counted_over_blocks_and_the_rest_runs():
    values, out = np.arange(256, dtype=np.float32), np.zeros(256, np.float32)
    (finding,) = findings(overrun, values, out, 70, grid=4, block=64)
    assert finding.tool == "memcheck" and finding.what == "Invalid __global__ read of size 4 bytes"
    assert (finding.block, finding.thread) == ((2, 0, 0), (58, 0, 0)) and finding.count == 6 + 64
    assert "0 bytes behind the end of argument 0" in finding.detail and finding.where.endswith(line(overrun, 3))
    assert (out[:186] == np.arange(70, 256)).all() and (out[186:] == 0).all(), "the other threads of the block run on"


def test_every_thread_of_every_warp_is_counted():
    (finding,) = findings(overrun, np.zeros(1, np.float32), np.zeros(64, np.float32), 1 << 20, block=33)
    assert finding.count == 33 and finding.thread == (0, 0, 0)
    again = findings(overrun, np.zeros(1, np.float32), np.zeros(64, np.float32), 1 << 20, block=33)
    assert again == (finding,)


@cuda.jit
def two_bad_places(values, out, n):
    t = cuda.threadIdx.x
    if t < 40:
        out[t] = values[t + n]
    cuda.syncthreads()
    if t >= 50:
        out[t + n] = 1
    out[t] = 2


def test_other_threads_go_on_to_further_defects_and_barriers_do_not_wait_for_those_that_ended():
    values, out = np.zeros(1, np.float32), np.zeros(64, np.float32)
    read, write = findings(two_bad_places, values, out, 1 << 20)
    assert (read.count, write.count) == (40, 14) and "read" in read.what and "write" in write.what
    assert read.where.endswith(line(two_bad_places, 4)) and write.where.endswith(line(two_bad_places, 7))
    assert (out[40:50] == 2).all() and not out[:40].any() and not out[50:].any()


@cuda.jit
def keeps(out, freed):
    t = cuda.threadIdx.x
    block = take(24)
    out[t] = block
    if t < freed:
        give(block)
    if freed == 63 and t == 5:
        give(block)


def test_what_is_left_of_the_heap_is_a_leak_with_its_place():
    (left,) = findings(keeps, np.zeros(64, np.uint64), 60, check=("leak",))
    assert (left.tool, left.what, left.count) == ("memcheck", "Leaked 96 bytes of the device heap", 4)
    assert left.thread == (60, 0, 0) and "CALL" in left.where and "the first: 24 bytes at 0x" in left.detail
    assert findings(keeps, np.zeros(64, np.uint64), 64, check=("leak",)) == ()


def test_memory_that_is_freed_twice_is_found():
    with pytest.raises(AddressError, match="of what is not allocated"):
        findings(keeps, np.zeros(64, np.uint64), 63, check=("race",))
    (twice,) = findings(keeps, np.zeros(64, np.uint64), 63, check=("memory",))
    assert twice.what == "Invalid pointer to free" and (twice.count, twice.thread) == (1, (5, 0, 0))
    assert "CALL" in twice.where and "not any more" in twice.detail


def test_misaligned_accesses_are_found():
    @cuda.jit
    def second(values, out):
        out[cuda.grid(1)] = values[1]

    buffer = np.zeros(64, np.uint8)
    odd = np.ndarray((2,), np.float64, buffer.data, strides=(12,))
    (finding,) = findings(second, odd, np.zeros(4), block=4)
    assert finding.what.startswith("Misaligned") and finding.what.endswith("read of size 8 bytes")
    assert finding.count == 4 and "is not a multiple of 8" in finding.detail


def test_one_check_does_not_do_the_others_work():
    assert {f.tool for f in findings_in_shared(Part.UNORDERED, check=("race",))} == {"racecheck"}
    assert {f.tool for f in findings_in_shared(Part.UNORDERED, check=("memory",))} == {"initcheck"}
    assert findings_in_shared(Part.UNORDERED, check=()) == ()


def test_an_unknown_check_is_refused():
    with pytest.raises(UsageError, match="no check 'racy'; there are memory, race, sync, leak"):
        findings_in_shared(Part.ORDERED, check=("racy",))


def test_the_command_prints_findings_and_exits_with_1_or_0(capsys, tmp_path, monkeypatch):
    assert cli.run(["capture", "reduce_sum", "--small", "--check", "memory,race", "--format", "json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out) == [] and "no findings" in err
    case = type("Case", (), {"check": lambda self: None})()
    trace = capture(in_shared, 1, 64, (np.int32(Part.HALF_FILLED), np.zeros(64, np.int32)), gpu="h200", check=BOTH)
    launch = type("Launch", (), {"trace": trace, "timed": True})()
    monkeypatch.setattr("gpusim.commands.capturing.make_case", lambda *_, **__: case)
    monkeypatch.setattr("gpusim.commands.capturing.capture_case", lambda *_, **__: [launch])
    target = tmp_path / "x.trace"
    assert cli.run(["capture", "reduce_sum", "--check", "memory", "--format", "json", "-o", str(target)]) == 1
    (row,) = json.loads(capsys.readouterr().out)
    assert row["tool"] == "initcheck" and row["thread"] == "(0, 0, 0)" and not list(tmp_path.iterdir())
    assert cli.run(["capture", "reduce_sum"]) == 2


MATRICES = """
extern "C" __global__ void matrices(unsigned *out, unsigned stride) {
  __shared__ alignas(16) unsigned tile[256];
  for (int i = threadIdx.x; i < 256; i += 64) tile[i] = i;
  __syncthreads();
  unsigned a = (unsigned)__cvta_generic_to_shared(tile) + 16 * (threadIdx.x % 32) + threadIdx.x / 32 * stride, d[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(a));
  for (int i = 0; i < 4; i++) out[4 * threadIdx.x + i] = d[i];
}
"""


def test_a_warp_keeps_what_it_has_loaded_when_the_next_one_reads_elsewhere():
    pytest.importorskip("cuda.bindings.nvrtc")
    right, wrong = np.zeros((2, 256), np.uint32)
    assert findings(gpusim.cuda_cpp(MATRICES, "matrices"), right, np.uint32(512), check=("memory",)) == ()
    (found,) = findings(gpusim.cuda_cpp(MATRICES, "matrices"), wrong, np.uint32(100_000), check=("memory",))
    assert found.thread == (32, 0, 0) and "LDSM" in found.where
    assert wrong[:128].tolist() == right[:128].tolist() and right[:128].any()


def test_a_wrong_result_does_not_hide_that_the_checks_found_nothing(capsys, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(
        "import numpy as np\nfrom numba import cuda\n\n\n@cuda.jit\ndef fill(x):\n    x[cuda.grid(1)] = 1\n\n\n"
        "def case():\n    x = np.zeros(32, np.int32)\n    return fill, 1, 32, (x,), lambda: bool((x == 2).all())\n"
    )
    assert cli.run(["capture", f"{tmp_path}/wrong.py:case", "--check", "memory"]) == 6
    assert "no findings" in capsys.readouterr().err
