"""The memory path: latencies to the cycle, coalescing and conflicts against brute force, traffic."""

from __future__ import annotations

import numpy as np
import pytest
from hand_traces import FULL, Asm, build, run_cycles, small_gpu
from hypothesis import given
from hypothesis import strategies as st
from oracles_sm import LruSets, atomic_passes, bank_passes, lines_and_sectors

from gpusim.engine.gpu import simulate
from gpusim.gpus.load import load_gpu
from gpusim.model import cache, coalescer
from gpusim.model.coalescer import (
    ADDRESS,
    LANE_BYTES,
    OPERATIONS,
    SECTORS,
    bits,
    coalesce_lanes,
    coalesce_span,
    count_operations,
    tag_wavefronts,
)
from gpusim.model.lane_patterns import find_patterns
from gpusim.model.shared_memory import data_wavefronts
from gpusim.model.trace_tables import ACCESS_TABLE, SCATTER_TABLE
from gpusim.trace.record import SCATTERED, Flag, MemoryKind, PipeClass, Space

GPU = small_gpu(sm_count=1)
BASE = 1 << 30

widths = st.sampled_from([1, 2, 4, 8, 16])
masks = st.one_of(st.just(FULL), st.integers(1, FULL))


@st.composite
def lane_addresses(draw):
    """(width, 32 aligned addresses): strided, scattered over little, scattered over much."""
    width = draw(widths)
    base = draw(st.integers(0, 1 << 20)) * width
    shape = draw(st.sampled_from(["stride", "near", "far"]))
    if shape == "stride":
        stride = draw(st.integers(0, 40)) * width
        lanes = [base + lane * stride for lane in range(32)]
    else:
        reach = 64 if shape == "near" else 1 << 16
        lanes = [base + width * draw(st.integers(0, reach)) for _ in range(32)]
    return width, lanes


@given(lane_addresses(), masks)
def test_coalescer_finds_the_lines_and_sectors_that_brute_force_finds(case, mask):
    width, lanes = case
    on = [lane for i, lane in enumerate(lanes) if mask >> i & 1]
    want = lines_and_sectors(on, width)
    lines = np.zeros((1, 40, 4), np.int64)
    n = coalesce_lanes(np.array(lanes, np.int64), mask, width, lines, 0, 0)
    got = {int(lines[0, i, ADDRESS]): int(lines[0, i, SECTORS]) for i in range(n)}
    assert got == want and n == len(want)
    assert all(lines[0, i, LANE_BYTES] <= 128 for i in range(n))
    count_operations(np.array(lanes, np.int64), mask, lines, 0, n, 0)
    if width == 4:
        passes = {line: atomic_passes([a for a in on if a // 128 == line // 128]) for line in got}
        assert {int(lines[0, i, ADDRESS]): int(lines[0, i, OPERATIONS]) for i in range(n)} == passes


@given(widths, st.integers(0, 1 << 20))
def test_contiguous_lanes_take_the_short_cut_to_the_same_lines(width, element):
    start = element * width
    fast, slow = np.zeros((1, 40, 4), np.int64), np.zeros((1, 40, 4), np.int64)
    n = coalesce_span(start, start + 32 * width, fast, 0)
    addresses = start + width * np.arange(32)
    assert n == coalesce_lanes(addresses, FULL, width, slow, 0, 0)
    np.testing.assert_array_equal(fast[0, :n], slow[0, :n])


@given(lane_addresses(), masks)
def test_bank_passes_agree_with_brute_force(case, mask):
    width, lanes = case
    scratch = np.zeros((3, 160), np.int64)
    got = data_wavefronts(np.array(lanes, np.int64), mask, width, 0, 32, *scratch)
    assert got == bank_passes([lane if mask >> i & 1 else None for i, lane in enumerate(lanes)], width)


@given(lane_addresses(), masks, st.sampled_from((0, 1, 2)))
def test_passes_of_pairs_agree_with_brute_force(case, mask, distance):
    width, lanes = case
    lanes = [lanes[i & ~distance] for i in range(32)]
    scratch = np.zeros((3, 160), np.int64)
    got = data_wavefronts(np.array(lanes, np.int64), mask, width, 1, 32, *scratch)
    assert got == bank_passes([lane if mask >> i & 1 else None for i, lane in enumerate(lanes)], width, merges=True)


@pytest.mark.parametrize(
    ("offset_of_lane", "width", "wavefronts"),
    [
        # Nsight Compute on an A10 and an H100: forums.developer.nvidia.com/t/373160
        (lambda lane: 32 * (lane % 16), 16, 8),
        (lambda lane: 32 * (lane // 16), 16, 2),
        # On capability 7.5: forums.developer.nvidia.com/t/77228
        (lambda lane: 16 * (lane % 4), 16, 4),
        (lambda lane: 0, 16, 2),
        (lambda lane: 0, 8, 1),
        (lambda lane: 16 * lane, 16, 4),
    ],
)
def test_pairs_of_equal_lanes_share_what_a_pass_returns(offset_of_lane, width, wavefronts):
    lanes = np.array([offset_of_lane(lane) for lane in range(32)], np.int64)
    assert data_wavefronts(lanes, FULL, width, 1, 32, *np.zeros((3, 160), np.int64)) == wavefronts


@given(lane_addresses(), masks, st.integers(0, 1 << 30))
def test_moving_all_lanes_by_whole_words_takes_as_many_passes(case, mask, words):
    width, lanes = case
    scratch = np.zeros((3, 160), np.int64)
    for merges in (0, 1):
        there = data_wavefronts(np.array(lanes, np.int64), mask, width, merges, 32, *scratch)
        moved = np.array(lanes, np.int64) + 4 * words
        assert data_wavefronts(moved, mask, width, merges, 32, *scratch) == there


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 1 << 46), masks), max_size=20), st.data())
def test_scattered_accesses_are_bases_and_few_patterns(wanted, data):
    shapes = [data.draw(st.lists(st.integers(0, 1 << 20), min_size=32, max_size=32)) for _ in range(4)]
    rows = np.array([[base + offset for offset in shapes[shape]] for shape, base, _ in wanted], np.int64).reshape(
        -1, 32
    )
    accesses = ACCESS_TABLE.zeros(len(wanted) + 1)
    for i, (_, _, mask) in enumerate(wanted):
        accesses[i, :3] = i, SCATTERED, mask
    accesses[-1, :3] = BASE, 4, FULL
    patterns = np.zeros((len(wanted) + 1, SCATTER_TABLE.width), np.int64)
    table = np.zeros(1 << (2 * len(wanted) + 1).bit_length(), np.int64)
    found = find_patterns(accesses, rows, table, patterns, SCATTERED - 1)
    assert found <= len({(shape, mask) for shape, _, mask in wanted})
    assert len({tuple(row) for row in patterns[:found, :32].tolist()}) == found == len(set(patterns[:found, 32]))
    out = np.zeros(32, np.int64)
    for i, (_, _, mask) in enumerate(wanted):
        assert coalescer.lane_addresses(accesses, i, patterns, FULL, out) == mask
        assert all(out[lane] == rows[i, lane] for lane in range(32) if mask >> lane & 1)
    assert accesses[-1, :3].tolist() == [BASE, 4, FULL]


def test_an_access_that_names_no_row_is_found():
    accesses = ACCESS_TABLE.zeros(1)
    accesses[0, :3] = 1, SCATTERED, FULL
    patterns, table = np.zeros((2, SCATTER_TABLE.width), np.int64), np.zeros(4, np.int64)
    assert find_patterns(accesses, np.zeros((1, 32), np.int64), table, patterns, SCATTERED - 1) == -1


@given(st.integers(0, FULL))
def test_bits_counts_bits(mask):
    assert bits(mask) == bin(mask).count("1")


@pytest.mark.parametrize(("lines", "cycles"), [(1, 1), (2, 1), (4, 1), (8, 2), (16, 4)])
def test_aligned_consecutive_lines_spread_over_the_tag_banks(lines, cycles):
    table = np.zeros((1, 40, 4), np.int64)
    n = coalesce_lanes(BASE + np.arange(32) * 4 * lines, FULL, 4, table, 0, 0)
    assert n == lines
    assert tag_wavefronts(table, 0, n, 4, np.zeros(8, np.int64)) == cycles


@given(st.lists(st.integers(0, 60), min_size=1, max_size=300), st.sampled_from([(4, 2), (5, 4), (1, 4)]))
def test_cache_is_least_recently_used_in_each_set(numbers, shape):
    sets, ways = shape
    lines = np.zeros((1, sets, 2 * ways), np.int64)
    oracle = LruSets(sets, ways)
    for now, number in enumerate(numbers, 1):
        address = number * 128
        index = int(cache.set_of(address, sets))
        found = cache.look_up(lines, 0, address, sets, ways, now)
        assert (found == 15) == oracle.touch(index, number)
        cache.fill(lines, 0, address, 15, sets, ways, now)


@pytest.mark.parametrize("base_line", [0, 1 << 20, 12_345_678])
def test_a_lap_that_outgrows_l1_loses_three_lines_for_each_that_it_has_too_many(base_line):
    """The knee of the published chases: none lost up to the capacity, all from half as much again on."""
    sets, ways = 50, 4
    lines = np.zeros((1, sets, 2 * ways), np.int64)

    def lost_in_a_lap(count: int) -> int:
        order = np.random.default_rng(1).permutation(count)
        lines[:] = 0
        for now in range(3 * count):
            address = int(base_line + order[now % count]) * 128
            if now == 2 * count:
                missed = 0
            if not cache.look_up(lines, 0, address, sets, ways, now + 1):
                missed = missed + 1 if now >= 2 * count else 0
                cache.fill(lines, 0, address, 15, sets, ways, now + 1)
        return missed

    slack = 12  # a lap across a rotation of the sets, or with half a pair, finds a set or two fuller than the rest
    assert lost_in_a_lap(196) <= slack
    for extra in (20, 50, 80):
        assert lost_in_a_lap(200 + extra) == pytest.approx(3 * extra, abs=slack)
    assert lost_in_a_lap(304) >= 304 - slack


def test_lines_of_l1_are_what_the_carve_out_and_the_reserve_leave_but_half_at_least():
    l1 = load_gpu("h200").l1
    assert cache.sets_in(l1, 248 * 1024) == (248 * 1024 - l1.reserved_bytes) // 512
    assert cache.sets_in(l1, 20 * 1024) == 20


def chase_cycles(repeats: int, gpu=GPU, bypass: bool = False) -> int:
    asm = Asm()
    for _ in range(repeats):
        flags = int(Flag.BYPASS_L1) if bypass else 0
        asm.load(lambda b, w: (BASE, 0), width=8, barrier=0, wait_mask=1, stall=2, flags=flags)
    asm.op(PipeClass.FMA, 1, wait_mask=1)
    return run_cycles(simulate(build(asm, mask=1), gpu))


@pytest.mark.parametrize("latency", [20, 33])
def test_dependent_l1_hits_cost_exactly_the_hit_latency(latency):
    gpu = small_gpu(sm_count=1, l1__hit_latency_cycles=latency)
    assert chase_cycles(101, gpu) - chase_cycles(1, gpu) == 100 * latency


def test_volatile_loads_go_to_l2_each_time():
    near = chase_cycles(11) - chase_cycles(1)
    bypassing = chase_cycles(11, bypass=True) - chase_cycles(1, bypass=True)
    assert bypassing > 5 * near


def test_dependent_shared_loads_cost_exactly_the_shared_latency():
    def cost(repeats: int) -> int:
        asm = Asm()
        for _ in range(repeats):
            asm.memory(MemoryKind.LOAD, Space.SHARED, 4, lambda b, w: (0, 4), write_barrier=0, wait_mask=1, stall=2)
        asm.op(PipeClass.FMA, 1, wait_mask=1)
        return run_cycles(simulate(build(asm, shared_bytes=1024), GPU))

    assert cost(21) - cost(1) == 20 * GPU.l1.shared_latency_cycles


@pytest.mark.parametrize(
    ("stride", "width", "cycles"), [(4, 4, 1), (8, 4, 2), (16, 4, 4), (32, 4, 8), (8, 8, 2), (32, 8, 8)]
)
def test_l1_hits_flow_at_the_slower_of_tag_and_data_stage(stride, width, cycles):
    loads = 60

    def program(n: int) -> Asm:
        asm = Asm().load(lambda b, w: (BASE, stride), width=width, barrier=0).op(PipeClass.FMA, 1, wait_mask=1)
        asm.op(PipeClass.BARRIER, 5, flags=int(Flag.BARRIER_WAIT))
        for _ in range(n):
            asm.load(lambda b, w: (BASE, stride), width=width, barrier=1)
        return asm.op(PipeClass.FMA, 1, wait_mask=2)

    long = run_cycles(simulate(build(program(2 * loads), threads=1024), GPU))
    short = run_cycles(simulate(build(program(loads), threads=1024), GPU))
    assert (long - short) / (32 * loads) == pytest.approx(cycles, rel=0.02)


def test_two_warps_that_miss_on_one_line_cause_one_request():
    asm = Asm().load(lambda b, w: (BASE, 4)).op(PipeClass.FMA, 1, wait_mask=1)
    one = simulate(build(asm.exit(), threads=32), GPU).counters
    many = simulate(build(asm, threads=1024), GPU).counters
    assert one["lts__t_sectors_op_read.sum"] == many["lts__t_sectors_op_read.sum"] == 4
    assert many["l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"] == 32 * 4


def test_a_second_access_asks_only_for_sectors_that_nobody_asked_for():
    asm = Asm().load(lambda b, w: (BASE, 4), mask=0xFF, barrier=0).load(lambda b, w: (BASE, 4), barrier=1)
    asm.op(PipeClass.FMA, 1, wait_mask=3)
    counters = simulate(build(asm.exit()), GPU).counters
    assert counters["lts__t_sectors_op_read.sum"] == 4
    assert counters["lts__t_requests.sum"] == 2


def test_a_load_waits_for_sectors_that_an_earlier_load_has_on_the_way():
    def cost(second: int) -> int:
        asm = Asm().load(lambda b, w: (BASE, 4), barrier=0)
        asm.load(lambda b, w: (BASE + second, 4), barrier=1).op(PipeClass.FMA, 1, wait_mask=2)
        return run_cycles(simulate(build(asm.exit()), GPU))

    assert abs(cost(0) - cost(1 << 20)) < 60
    assert cost(0) > 200


@pytest.mark.parametrize("limit", [8, 64])
def test_outstanding_misses_limit_bandwidth(limit):
    gpu = small_gpu(sm_count=1, l1__miss_entries=limit)
    asm = Asm()
    for i in range(20):
        asm.load(lambda b, w, i=i: (BASE + (w * 20 + i) * 128, 4), barrier=0)
    asm.op(PipeClass.FMA, 1, wait_mask=1)
    cycles = run_cycles(simulate(build(asm.exit(), threads=512), gpu))
    trips = 16 * 20 / limit
    latency = run_cycles(simulate(build(Asm().load(lambda b, w: (BASE, 4)).op(PipeClass.FMA, 1, wait_mask=1)), gpu))
    assert cycles > 0.4 * trips * latency
    assert cycles < 1.5 * trips * latency + 500


def test_stores_of_single_sectors_have_as_many_of_them_in_flight_as_stores_of_whole_lines():
    """512 sectors, as 128 lines or as 512: ``store_entries`` of 16 lines are 64 sectors of either."""

    def cycles(stride: int, stores: int, entries: int) -> int:
        asm = Asm()
        for i in range(stores):
            asm.store(lambda b, w, i=i: (BASE + (w * stores + i) * 32 * stride, stride))
        gpu = small_gpu(sm_count=1, l1__store_entries=entries, l1__store_slot_bytes=32)  # the port is not what limits
        return run_cycles(simulate(build(asm.exit(), threads=256), gpu))

    assert cycles(128, 2, 16) == pytest.approx(cycles(4, 16, 16), rel=0.2)
    assert cycles(128, 2, 4) > 1.5 * cycles(128, 2, 16)


def test_stores_are_acknowledged_before_the_launch_ends_and_counted():
    asm = Asm().store(lambda b, w: (BASE + (b * 4 + w) * 256, 8), width=8)
    result = simulate(build(asm.exit(), blocks=10, threads=128), GPU)
    assert result.counters["lts__t_sectors_op_write.sum"] == 10 * 4 * 8
    assert result.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"] == 10 * 4 * 8
    assert run_cycles(result) > 100


def test_atomics_return_and_reductions_do_not():
    def cost(kind: MemoryKind, **fields: int) -> int:
        asm = Asm().memory(kind, Space.GLOBAL, 4, lambda b, w: (BASE, 4), **fields)
        asm.op(PipeClass.FMA, 1, wait_mask=1)
        result = simulate(build(asm.exit()), GPU)
        return result.stalls["long_scoreboard"]

    assert cost(MemoryKind.ATOMIC, write_barrier=0) > 100
    assert cost(MemoryKind.REDUCTION) == 0


def test_contended_atomics_are_slower_than_spread_ones():
    def cost(stride: int) -> int:
        asm = Asm()
        for _ in range(10):
            asm.memory(MemoryKind.ATOMIC, Space.GLOBAL, 4, lambda b, w: (BASE, stride), write_barrier=0, wait_mask=1)
        return run_cycles(simulate(build(asm.exit(wait_mask=1)), GPU))

    assert cost(0) > cost(4)


def test_same_offset_of_all_lanes_is_one_line_of_local_memory():
    asm = Asm()
    asm.memory(MemoryKind.STORE, Space.LOCAL, 4, lambda b, w: (16, 0))
    asm.memory(MemoryKind.LOAD, Space.LOCAL, 4, lambda b, w: (16, 0), write_barrier=0)
    result = simulate(build(asm.op(PipeClass.FMA, 1, wait_mask=1).exit()), GPU)
    assert result.counters["l1tex__t_sectors_pipe_lsu_mem_local_op_st.sum"] == 4
    assert result.counters["l1tex__t_sectors_pipe_lsu_mem_local_op_ld.sum"] == 4
    assert result.counters["lts__t_sectors_op_read.sum"] == 0  # the store left it in L1


def test_copy_group_is_done_with_its_last_copy():
    def wait(level: int) -> int:
        asm = Asm()
        for group in range(2):
            asm.addresses.append((len(asm.rows), lambda b, w, g=group: (BASE + g * 65536, 16), FULL))
            asm.addresses.append((len(asm.rows), lambda b, w, g=group: (g * 512, 16), FULL))
            asm.op(PipeClass.LSU, 2, memory_kind=MemoryKind.ASYNC_COPY, space=Space.GLOBAL, access_bytes=16, records=2)
            asm.op(PipeClass.NONE, 2, flags=int(Flag.COPY_GROUP))
            for _ in range(60 if group == 0 else 0):
                asm.op(PipeClass.FMA, 10)
        asm.op(PipeClass.NONE, 2, flags=int(Flag.DEPBAR), depbar_index=0, depbar_level=level)
        return simulate(build(asm.op(PipeClass.FMA, 1).exit(), shared_bytes=4096), GPU).stalls["long_scoreboard"]

    assert wait(2) == 0
    assert wait(0) > wait(1) + 200


def test_instruction_with_all_lanes_off_touches_nothing():
    asm = Asm().load(lambda b, w: (BASE, 4), mask=0, barrier=0).op(PipeClass.FMA, 1, wait_mask=1)
    result = simulate(build(asm.exit()), GPU)
    assert result.counters["lts__t_requests.sum"] == 0
    assert run_cycles(result) < 60


def test_l1_is_empty_at_a_launch_and_l2_is_not():
    asm = Asm()
    for i in range(8):
        asm.load(lambda b, w, i=i: (BASE + i * 4096, 4), barrier=0, wait_mask=1, stall=2)
    trace = build(asm.exit(wait_mask=1))
    first, second = simulate([trace, trace], GPU).launches
    assert second.cycles < first.cycles
    assert second.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] == 0
    assert second.counters["dram__bytes_read.sum"] == 0
    warm = simulate(trace, GPU, warm=trace)
    assert warm.counters["l1tex__t_sectors_pipe_lsu_mem_global_op_ld_lookup_hit.sum"] == 32
    assert warm.cycles < second.cycles


def test_l1_shrinks_by_what_shared_memory_takes():
    lines = 1200  # 150 KiB

    def sectors(shared: int) -> int:
        asm = Asm()
        for _ in range(2):
            for i in range(0, lines, 32):
                asm.load(lambda b, w, i=i: (BASE + i * 128, 128), barrier=0, wait_mask=1, stall=2)
        return simulate(build(asm.exit(wait_mask=1), shared_bytes=shared), GPU).counters["lts__t_sectors_op_read.sum"]

    assert sectors(0) < 1.2 * lines
    assert sectors(200 * 1024) > 1.9 * lines
