"""The tensor memory accelerator: when a box is there, what keeps it from being there sooner, and who is told."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hand_traces import Asm, build, run_cycles, small_gpu

import gpusim
from gpusim.engine.gpu import simulate
from gpusim.errors import DeadlockError, UnsupportedOpcodeError
from gpusim.gpus.spec import GpuSpec
from gpusim.trace.record import BULK, POLL, RUN, SIGNAL, Flag, MemoryKind, PipeClass, Space, Trace

GPU = small_gpu(sm_count=1)
BASE = 1 << 30


def box(
    address: int, row_bytes: int, counts: tuple[int, ...] = (1,), strides: tuple[int, ...] = (), mapped: bool = False
):
    """One box: rows of ``row_bytes``, ``counts`` of them ``strides`` bytes apart."""
    return address, row_bytes, counts, strides, mapped


def loads(boxes: list[list[tuple]], waits: int = 1, blocks: int = 1, flags: int = 0) -> Trace:
    """One warp a block that issues a bulk load for each list of boxes, then polls the mbarrier until ``waits`` of them
    are there, by instructions with ``flags``."""
    asm = Asm()
    for _ in boxes:
        asm.op(
            PipeClass.TMA, memory_kind=MemoryKind.BULK_LOAD, space=Space.GLOBAL, access_bytes=16, records=1,
        )  # fmt: skip
        asm.addresses.append((len(asm.rows) - 1, lambda b, w: (BASE, 0), 1))
    first = len(asm.rows)
    for _ in range(2):
        asm.memory(MemoryKind.ATOMIC, Space.SHARED, 8, lambda b, w: (0, 0), mask=1, write_barrier=0, flags=flags)
        asm.op(PipeClass.BRANCH, 5, flags=int(Flag.BRANCH), wait_mask=1)
    asm.exit()
    trace = build(asm, blocks=blocks, shared_bytes=1024)
    chunk = trace.chunk_list[0]
    per_warp = len(boxes) + 2
    bulks, signals = [], []
    for b in range(blocks):
        for i, group in enumerate(boxes):
            for address, row_bytes, counts, strides, mapped in group:
                count = counts + (1,) * (4 - len(counts))
                stride = strides + (0,) * (4 - len(strides))
                bulks.append(
                    (address, BASE if mapped else 0, stride, count, row_bytes, row_bytes, 0, b * per_warp + i, 0,
                     MemoryKind.BULK_LOAD, 0)
                )  # fmt: skip
            signals.append((0, b * per_warp + i, b, i + 1, b, 0, 0))
        for i in range(2):
            signals.append((0, b * per_warp + len(boxes) + i, b, waits, b, 0, 1))
    # The second look is a round that is made again until the mbarrier has seen what it waits for.
    runs = np.array([(0, first + 2, 1), (first + 2, 2, 1), (first + 4, 1, 1)], RUN)
    chunk = replace(
        chunk, runs=runs, path_start=np.array([0, 3]), polls=np.array([(1, 1)], POLL), signals=np.array(signals, SIGNAL),
        bulks=np.array(bulks, BULK),
    )  # fmt: skip
    return Trace(trace.program, trace.launch, [chunk])


def cycles(trace: Trace, gpu: GpuSpec = GPU) -> int:
    return run_cycles(simulate(trace, gpu))


#: From one look at the mbarrier to the next.
ROUND = 45


def test_a_copy_takes_its_set_up_and_one_way_to_memory() -> None:
    quick, slow = (replace(GPU, tma=replace(GPU.tma, setup_cycles=n)) for n in (47, 547))
    one = loads([[box(BASE, 128)]])
    assert cycles(one, slow) - cycles(one, quick) == pytest.approx(500, abs=ROUND)
    asm = Asm().load(lambda b, w: (BASE, 4)).op(PipeClass.ALU, wait_mask=1).exit()
    plain = cycles(build(asm))
    assert 47 - ROUND < cycles(one, quick) - plain < 47 + GPU.tma.completion_cycles + 3 * ROUND


def test_a_tensor_map_costs_its_reading() -> None:
    slow = replace(GPU, tma=replace(GPU.tma, map_cycles=561))
    mapped, plain = loads([[box(BASE, 128, mapped=True)]]), loads([[box(BASE, 128)]])
    assert cycles(mapped, slow) - cycles(plain, slow) == pytest.approx(561, abs=ROUND)


def test_rows_cost_a_request_for_each_line_that_they_touch() -> None:
    """1,024 rows of 16 bytes take 2 cycles each; as many bytes in whole lines an eighth of the requests."""
    gpu = replace(GPU, tma=replace(GPU.tma, request_interval_cycles=8))
    narrow = loads([[box(BASE, 16, (1024,), (64,))]])
    whole = loads([[box(BASE, 16 * 1024)]])
    assert cycles(narrow, gpu) - cycles(whole, gpu) > 8 * (1024 - 128) - 1500
    shifted = loads([[box(BASE + 64, 128, (512,), (256,))]])
    aligned = loads([[box(BASE, 128, (512,), (256,))]])
    assert cycles(shifted, gpu) - cycles(aligned, gpu) == pytest.approx(8 * 512, rel=0.1)


def test_what_one_box_makes_is_counted() -> None:
    trace = loads([[box(BASE + 16, 128, (2, 3), (1024, 65536))]])
    counters = simulate(trace, GPU).counters
    assert counters["lts__t_sectors_op_read.sum"] == 2 * 3 * 5  # 16 bytes on: five sectors of two lines
    assert counters["lts__t_requests.sum"] == 2 * 3 * 2


def test_a_warp_waits_for_as_many_copies_as_it_asks_for() -> None:
    far = [[box(BASE + (i << 20), 16384)] for i in range(4)]
    first, last = (simulate(loads(far, waits=n), GPU).counters["sm__warp_cycles_polling.sum"] for n in (1, 4))
    assert last > first + 2.5 * 16384 // 64  # what comes in takes the port from the crossbar


def test_a_wait_for_a_phase_looks_once_and_is_answered_by_the_write() -> None:
    """As long as the copies take, to a cycle, whatever a round of polling takes; a look that is not one to wait goes
    round."""
    far = [[box(BASE + (i << 20), 16384)] for i in range(4)]
    suspended = loads(far, waits=4, flags=int(Flag.PHASE_LOOK | Flag.PHASE_WAIT))
    looks, rounds = simulate(suspended, GPU).counters, simulate(loads(far, waits=4), GPU).counters
    assert looks["smsp__inst_executed.sum"] == 4 + 2 + 1 < rounds["smsp__inst_executed.sum"]
    assert looks["sm__warp_cycles_polling.sum"] > 3 * 16384 // 64
    slower = replace(GPU, tma=replace(GPU.tma, completion_cycles=GPU.tma.completion_cycles + 7))
    assert cycles(suspended, slower) - cycles(suspended) == 7
    assert 0 <= cycles(loads(far, waits=4)) - cycles(suspended) < 2 * ROUND


def test_who_waits_for_a_phase_that_nobody_ends_is_told_of() -> None:
    """Of two copies one was asked for: the second write of the word never comes."""
    trace = loads([[box(BASE, 128)]], waits=2, flags=int(Flag.PHASE_LOOK | Flag.PHASE_WAIT))
    with pytest.raises(DeadlockError, match=r"block 0 warp 0 waits for 0x0, written 1 of 2 times"):
        simulate(trace, GPU)


def test_an_empty_box_is_there_at_once_and_several_boxes_are_one_copy() -> None:
    empty = loads([[box(BASE, 0, (0,))]])
    assert cycles(empty) < 250 + GPU.tma.setup_cycles
    together, one = loads([[box(BASE, 128), box(BASE + 4096, 128)]]), loads([[box(BASE, 128)]])
    assert abs(cycles(together) - cycles(one)) <= 2 * ROUND
    assert simulate(together, GPU).counters["lts__t_requests.sum"] == 2


def test_a_full_queue_holds_the_next_instruction_back() -> None:
    many = [[box(BASE + (i << 16), 4096)] for i in range(12)]
    deep, shallow = (replace(GPU, tma=replace(GPU.tma, queue_entries=n)) for n in (32, 1))
    assert cycles(loads(many, waits=12), shallow) > 3 * cycles(loads(many, waits=12), deep)


def test_few_requests_in_flight_are_slow() -> None:
    few = replace(GPU, tma=replace(GPU.tma, request_entries=4))
    one = loads([[box(BASE, 16384)]])
    assert cycles(one, few) > 10 * cycles(one, GPU)


def test_what_was_copied_before_lies_in_the_l2() -> None:
    trace = loads([[box(BASE, 128, (40,), (4096,))]])
    warm = simulate(trace, GPU, warm=trace)
    assert warm.counters["lts__t_sectors_lookup_miss.sum"] == 0 < warm.counters["lts__t_sectors_lookup_hit.sum"]
    assert warm.counters["dram__bytes_read.sum"] == 0 < simulate(trace, GPU).counters["dram__bytes_read.sum"]


def stores(groups: int, level: int) -> Trace:
    """Bulk stores, each a group of its own, and a wait until at most ``level`` groups are open."""
    asm = Asm()
    for _ in range(groups):
        asm.op(PipeClass.TMA, memory_kind=MemoryKind.BULK_STORE, space=Space.GLOBAL, access_bytes=16, records=1)
        asm.addresses.append((len(asm.rows) - 1, lambda b, w: (BASE, 0), 1))
        asm.op(PipeClass.TMA, flags=int(Flag.BULK_GROUP), write_barrier=0)
    asm.op(PipeClass.NONE, 4, flags=int(Flag.DEPBAR), depbar_index=0, depbar_level=level)
    for _ in range(200):  # longer than all of the stores take
        asm.op(PipeClass.ALU, 10)
    trace = build(asm.exit())
    bulks = [
        (BASE + (i << 16), 0, (0,) * 4, (1,) * 4, 4096, 4096, 0, i, 0, MemoryKind.BULK_STORE, 0) for i in range(groups)
    ]
    return Trace(trace.program, trace.launch, [replace(trace.chunk_list[0], bulks=np.array(bulks, BULK))])


def test_a_group_is_closed_when_its_stores_are_acknowledged() -> None:
    none, some, all_open = (cycles(stores(3, level)) for level in (0, 2, 3))
    assert none > some > all_open
    counters = simulate(stores(3, 0), GPU).counters
    assert counters["lts__t_sectors_op_write.sum"] == 3 * 128


def test_a_gpu_without_one_refuses_by_name() -> None:
    with pytest.raises(UnsupportedOpcodeError, match="small has no tensor memory accelerator"):
        simulate(loads([[box(BASE, 128)]]), replace(GPU, tma=replace(GPU.tma, queue_entries=0)))


@pytest.mark.parametrize("window", [1, 7])
def test_neither_windows_nor_the_order_of_sms_show(window: int) -> None:
    gpu = small_gpu(sm_count=3)
    trace = loads([[box(BASE + (i << 15), 256, (40,), (640,))] for i in range(6)], waits=6, blocks=7)
    whole = simulate(trace, gpu)
    narrow = simulate(trace, gpu, window_cycles=window)
    assert (whole.cycles, dict(whole.counters)) == (narrow.cycles, dict(narrow.counters))


def test_every_wait_of_a_loop_waits_for_its_copy() -> None:
    """Where the compiler puts the loop of a wait behind the kernel's end, the first look stands alone before a
    branch."""
    kernel = gpusim.cuda_cpp(Path(__file__).parents[2] / "tools" / "asynchronous" / "bulk_copies.cu", "stream")
    times = []
    for loads in (2, 6):
        args = np.zeros(1024 * loads, np.uint8), np.zeros(1, np.float32), 1024, loads
        trace = gpusim.capture(kernel, 1, 1, args, gpu="h200", shared_bytes=1024)
        times.append(simulate(trace, "h200").cycles)
    assert times[1] - times[0] > 4 * 650  # each comes from DRAM
