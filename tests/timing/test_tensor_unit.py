"""Products into tensor memory: how often one can begin, what operands in shared memory add, and when a commit tells of
it."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hand_traces import Asm, build, run_cycles, small_gpu

import gpusim
from gpusim.engine.gpu import simulate
from gpusim.errors import UnsupportedOpcodeError
from gpusim.gpus.load import load_gpu
from gpusim.trace.record import BULK, POLL, RUN, SIGNAL, Flag, MemoryKind, PipeClass, Space, Trace

B200 = load_gpu("b200")
GPU = replace(small_gpu(sm_count=1), tensor_memory=B200.tensor_memory)


def products(count: int, rows: int, columns: int, *, in_shared: bool = True, pair: bool = False) -> Trace:
    """A warp that issues ``count`` products, commits them, and polls the mbarrier until they are done."""
    asm = Asm()
    for _ in range(count):
        asm.op(PipeClass.TENSOR_MEMORY, memory_kind=MemoryKind.TENSOR_PRODUCT, records=1)
        asm.addresses.append((len(asm.rows) - 1, lambda b, w: (0, 0), 1))
    asm.memory(MemoryKind.REDUCTION, Space.SHARED, 8, lambda b, w: (0, 0), mask=1, flags=int(Flag.COMMIT))
    first = len(asm.rows)
    for _ in range(2):
        asm.memory(MemoryKind.ATOMIC, Space.SHARED, 8, lambda b, w: (0, 0), mask=1, write_barrier=0)
        asm.op(PipeClass.BRANCH, 5, flags=int(Flag.BRANCH), wait_mask=1)
    asm.exit()
    trace = build(asm, shared_bytes=1024)
    read = 32 * (columns + rows * in_shared)
    bulks = [
        (0, 0, (0,) * 4, (rows, columns, 16, 1), 32, read, 0, i, 3 * pair, MemoryKind.TENSOR_PRODUCT, 0)
        for i in range(count)
    ]
    signals = [(0, count, 0, 1, 0, 0, 0), (0, count + 1, 0, 1, 0, 0, 1), (0, count + 2, 0, 1, 0, 0, 1)]
    runs = np.array([(0, first + 2, 1), (first + 2, 2, 1), (first + 4, 1, 1)], RUN)
    chunk = replace(
        trace.chunk_list[0], runs=runs, path_start=np.array([0, 3]), polls=np.array([(1, 1)], POLL),
        signals=np.array(signals, SIGNAL), bulks=np.array(bulks, BULK),
    )  # fmt: skip
    return Trace(trace.program, trace.launch, [chunk])


def interval(rows: int, columns: int, **how) -> float:
    """Cycles from one product to the next."""
    few, many = (run_cycles(simulate(products(n, rows, columns, **how), GPU)) for n in (10, 110))
    return (many - few) / 100


#: Rows (of both blocks), columns, A in shared memory, a pair of blocks, cycles: lookup1980/microbench-blackwell, B200,
#: BF16.
MEASURED = [
    (128, 64, True, False, 48.0),
    (128, 96, True, False, 56.0),
    (128, 256, True, False, 128.0),
    (128, 64, False, False, 32.0),
    (64, 80, True, False, 40.0),
    (64, 64, False, False, 32.0),
    (256, 64, True, True, 43.0),
    (256, 256, True, True, 128.0),
    (128, 80, True, True, 27.0),
    (128, 96, False, True, 24.0),
]


@pytest.mark.parametrize(("rows", "columns", "in_shared", "pair", "cycles"), MEASURED)
def test_products_follow_each_other_as_on_a_b200(
    rows: int, columns: int, in_shared: bool, pair: bool, cycles: float
) -> None:
    assert interval(rows, columns, in_shared=in_shared, pair=pair) == pytest.approx(cycles, rel=0.08, abs=0.6)


def test_a_commit_tells_of_what_came_before_it() -> None:
    one, four = (run_cycles(simulate(products(n, 128, 256), GPU)) for n in (1, 4))
    assert four - one == pytest.approx(3 * 128, abs=60)  # a round of polling more or less
    assert one > 128 + GPU.tensor_memory.latency_cycles


PROBE = Path(__file__).parents[2] / "tools" / "asynchronous" / "tensor_products.cu"


@cache
def round_cycles(columns: int, *, in_memory: bool = False, pair: bool = False) -> float:
    """Cycles of a round of one product, its commit and the wait of the warp that asked for both, of 128 or a pair's 256
    rows."""
    rows, group = (256, 2) if pair else (128, 1)
    idesc = 1 << 4 | 1 << 7 | 1 << 10 | columns >> 3 << 17 | rows >> 4 << 24
    options = [
        "-arch=sm_100a",
        "-DDEPTH=1",
        f"-DGROUP={group}",
        '-DKIND="f16"',
        f"-DROWS={rows}",
        f"-DCOLUMNS={columns}",
        f"-DIDESC={idesc}",
    ]
    kernel, cycles = gpusim.cuda_cpp(PROBE, "multiply_rounds", options + ["-DA_IN_MEMORY"] * in_memory), []
    for rounds in (2, 6):
        args = np.zeros(1, np.uint64), np.int32(rounds)
        trace = gpusim.capture(kernel, group, 128, args, gpu="b200", shared_bytes=32 * (128 + columns))
        cycles.append(simulate(trace, replace(B200, sm_count=2)).cycles)
    return (cycles[1] - cycles[0]) / 4


#: Columns, A in tensor memory, a pair of blocks, cycles: the same source, the latency and what a round of its loop
#: takes beyond it.
ROUNDS = [(64, False, False, 180), (256, False, False, 276), (128, True, False, 180), (256, False, True, 310)]


@pytest.mark.by_day(2)
@pytest.mark.parametrize(("columns", "in_memory", "pair", "cycles"), ROUNDS)
def test_a_round_of_one_product_takes_what_it_takes_on_a_b200(
    columns: int, in_memory: bool, pair: bool, cycles: float
) -> None:
    assert round_cycles(columns, in_memory=in_memory, pair=pair) == pytest.approx(cycles, rel=0.06)


def test_who_commits_waits_for_its_own_products() -> None:
    """128 columns more take 64 cycles more, though the emulator has long done them when the warp looks."""
    assert round_cycles(256) - round_cycles(64) == pytest.approx(96, abs=2)


def test_who_issues_far_ahead_waits() -> None:
    """More work than the queue holds: the port of the sub-core closes."""
    stalls = simulate(products(40, 128, 256), GPU).stalls
    assert stalls["math_pipe_throttle"] > 40 * 128 - 1024 - 400
    assert simulate(products(4, 128, 256), GPU).stalls["math_pipe_throttle"] < 100


COMMIT_ALONE = """
typedef unsigned long long u64;
__device__ unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }
extern "C" __global__ void __cluster_dims__(2) commit_alone(int* out, int late_ns) {
  __shared__ u64 bar;
  unsigned rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  if (threadIdx.x == 0) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1; fence.mbarrier_init.release.cluster;" :: "r"(shared_address(&bar)));
  }
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
  if (rank == 0 && threadIdx.x == 0) {
    __nanosleep(late_ns);
    asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;"
                 :: "r"(shared_address(&bar)), "h"((unsigned short)3) : "memory");
  }
  asm volatile("{ .reg .pred p; AGAIN: mbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0; @!p bra AGAIN; }"
               :: "r"(shared_address(&bar)) : "memory");
  out[blockIdx.x] = 1;
  asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory");
}
"""


def test_a_commit_with_nothing_under_way_wakes_who_waits_in_the_other_block() -> None:
    kernel = gpusim.cuda_cpp(COMMIT_ALONE, "commit_alone", ["-arch=sm_100a"])
    took = []
    for late_ns in (1000, 3000):
        out = np.zeros(2, np.int32)
        trace = gpusim.capture(kernel, 2, 32, (out, np.int32(late_ns)), gpu="b200")
        assert out.all()
        took.append(simulate(trace, replace(B200, sm_count=2)).cycles)
    assert took[1] - took[0] == pytest.approx(B200.cycles(2000), rel=0.05)


def test_a_gpu_without_tensor_memory_refuses_by_name() -> None:
    with pytest.raises(UnsupportedOpcodeError, match="small has no tensor memory"):
        simulate(products(1, 128, 64), small_gpu(sm_count=1))
