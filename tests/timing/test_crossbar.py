"""Are lines spread evenly over slices, sets, channels and banks, and SMs over partitions?"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_memory import small_gpu

from gpusim.errors import SpecError
from gpusim.gpus import list_gpus, load_gpu
from gpusim.model.address_hash import (
    Layout,
    bank_of,
    channel_of,
    fold,
    layout_of,
    local_slice_of,
    partition_of,
    row_of,
    set_of,
    slice_of,
)
from gpusim.model.crossbar import (
    gpc_of_sm,
    nearest_hit_ticks,
    partition_of_sm,
    request_latency_ticks,
    response_latency_ticks,
    service_order,
    slice_ways,
    sm_ways,
    ticks,
)

A100 = layout_of(load_gpu("a100_80gb").l2, load_gpu("a100_80gb").dram)


@pytest.mark.parametrize(
    ("layout", "sets"),
    [
        (Layout(80, 2, 5), 256),
        (Layout(96, 2, 5), 320),
        (Layout(4, 1, 5), 3),
        (Layout(96, 2, 1), 10),
    ],
)
def test_a_contiguous_buffer_fills_every_set_of_every_slice_alike(layout, sets):
    lines = layout.slices * sets * 2
    count = Counter((slice_of(i, layout), set_of(i, layout, sets)) for i in range(lines))
    assert len(count) == layout.slices * sets
    assert set(count.values()) == {2}
    # A partition that keeps copies of the other's lines fills as evenly.
    copies = Counter((local_slice_of(i, layout), set_of(i, layout, sets)) for i in range(lines))
    assert set(copies.values()) == {2 * layout.partitions}


@pytest.mark.parametrize("stride", [2**k for k in range(0, 16)] + [80, 96, 80 * 256, 3000])
def test_no_stride_stays_on_few_slices(stride):
    count = Counter(slice_of(i * stride, A100) for i in range(8000))
    assert len(count) >= 76
    assert max(count.values()) <= 3 * 100


@pytest.mark.parametrize("piece_shift", [1, 5, 14])
def test_neighbours_share_their_partition_as_far_as_the_piece_reaches(piece_shift):
    layout, lines = Layout(80, 2, piece_shift), 1 << piece_shift
    step = max(1, lines // 256) | 1  # odd: of long pieces lines with every low bit, and the last one
    starts = range(0, 64 * lines, lines)
    pieces = [{partition_of(i, layout) for i in (*range(at, at + lines, step), at + lines - 1)} for at in starts]
    assert all(len(piece) == 1 for piece in pieces)
    # Each pair of pieces has one in each partition.
    assert all(pieces[n] != pieces[n + 1] for n in range(0, 64, 2))
    assert {pieces[n] == pieces[n + 1] for n in range(1, 63, 2)} == {True, False}


@pytest.mark.parametrize(("slices", "channels", "rounds"), [(80, 80, 4), (96, 192, 8), (80, 40, 2)])
def test_scattered_rows_change_places_among_themselves_alone(slices, channels, rounds):
    """Lines keep their half, slice and set, no two meet in one place, lines of a row stay together, and a few rows that
    neighbour one another no longer load the channels alike."""
    plain, scattered = Layout(slices, 2, 5, rounds), Layout(slices, 2, 5, rounds, scatter_shift=6)
    lines = range(8 * slices * 64 * max(1, channels // slices))  # a whole number of groups in each half
    for i in lines[:20_000]:
        assert slice_of(i, plain) == slice_of(i, scattered) and set_of(i, plain, 64) == set_of(i, scattered, 64)

    def place(line: int, layout: Layout) -> tuple[int, int]:
        return channel_of(line, layout, channels), row_of(line, layout, channels, 8)

    rows: dict[tuple[int, int], set[tuple[int, int]]] = {}
    for i in lines:
        rows.setdefault(place(i, plain), set()).add(place(i, scattered))
    assert all(len(moved) == 1 for moved in rows.values())
    assert {where for moved in rows.values() for where in moved} == set(rows)
    wider, few = Layout(slices, 2, 5, rounds, scatter_shift=10), lines[: 8 * max(slices, channels) * 4]
    plain_load, load = (Counter(channel_of(i, layout, channels) for i in few) for layout in (plain, wider))
    assert max(plain_load.values()) == len(few) / channels < max(load.values()) / 1.4


@pytest.mark.parametrize(("slices", "channels"), [(80, 80), (96, 192), (80, 40)])
def test_a_slice_and_its_channels_go_together(slices, channels):
    layout = Layout(slices, 2, 5)
    owner = {}
    for line in range(40_000):
        channel, home = channel_of(line, layout, channels), slice_of(line, layout)
        assert home % 2 == partition_of(line, layout)
        assert 0 <= channel < channels
        if channels >= slices:
            assert owner.setdefault(channel, home) == home
        else:
            assert owner.setdefault(home, channel) == channel
    assert len(owner) == max(channels, slices)


@pytest.mark.parametrize(("slices", "channels"), [(80, 80), (96, 192), (80, 40)])
def test_a_row_holds_row_lines_lines_of_one_channel(slices, channels):
    lines, layout = max(slices, channels) * 8 * 16, Layout(slices, 2, 5)
    count = Counter((channel_of(i, layout, channels), row_of(i, layout, channels, 8)) for i in range(lines))
    assert set(count.values()) == {8}


def test_neighbouring_rows_lie_in_different_banks():
    for start in range(0, 4096, 16):
        assert len({bank_of(row, 16) for row in range(start, start + 16)}) == 16


@given(st.integers(0, 2**50))
def test_fold_stays_in_range(number):
    assert 0 <= fold(number) < 2**16


def test_fold_spreads_neighbours():
    values = np.array([fold(i) for i in range(4096)])
    assert len(np.unique(values)) > 3500
    assert abs(values.mean() / 2**15 - 1) < 0.05


def test_half_of_the_sms_are_wired_to_each_partition():
    """Of eight groups the first four, of which the first two have a TPC more."""
    for gpcs, halves in ((0, {0: 66, 1: 66}), (8, {0: 68, 1: 64})):
        assert Counter(partition_of_sm(sm, 2, gpcs) for sm in range(132)) == halves
        assert {partition_of_sm(sm, 1, gpcs) for sm in range(132)} == {0}


def test_most_neighbouring_blocks_share_a_half_and_few_blocks_use_both():
    order = service_order(load_gpu("h200"), 1)
    halves = [partition_of_sm(int(sm), 2, 8) for sm in order]
    assert set(halves[:8]) == {0, 1}
    assert sum(one == other for one, other in itertools.pairwise(halves)) > 0.7 * len(halves)


def test_a_cluster_lies_in_one_group_of_sms_and_leaves_those_out_that_are_too_few():
    """148 SMs in eight groups of 18 and 20 hold 34 clusters of four, not 37."""
    spec = replace(load_gpu("h200"), sm_count=148, crossbar=replace(load_gpu("h200").crossbar, sms_per_gpc=20))
    for size, clusters in ((1, 148), (2, 74), (4, 34), (16, 8)):
        order = service_order(spec, size).reshape(-1, size)
        groups = np.array([[gpc_of_sm(sm, 8) for sm in cluster] for cluster in order])
        assert len(order) == clusters and len(set(order.ravel())) == clusters * size
        assert (groups == groups[:, :1]).all()
        assert len(set(groups[:8, 0])) == 8  # one cluster a group, before any has two


@pytest.mark.parametrize("name", list_gpus())
def test_latencies_are_ticks_of_the_sm_clock(name):
    gpu = load_gpu(name)
    expected = gpu.crossbar.request_latency_ns * gpu.clock_hz / 1e9 * 64
    assert abs(request_latency_ticks(gpu) - expected) <= 0.5
    assert response_latency_ticks(gpu) > 16 * 64


def test_spreads_are_about_the_mean_and_must_leave_time() -> None:
    base = load_gpu("h100_pcie")
    spec = replace(base, crossbar=replace(base.crossbar, sm_spread_ns=60.0, slice_spread_ns=34.0))
    assert sm_ways(spec).mean() == pytest.approx(ticks(spec, spec.crossbar.sm_spread_ns / 2), rel=0.1)
    assert sm_ways(spec)[0] == pytest.approx(ticks(spec, spec.crossbar.sm_spread_ns / 2), abs=1)
    assert slice_ways(spec).max() == ticks(spec, spec.crossbar.slice_spread_ns)
    with pytest.raises(SpecError, match="more than twice"):
        nearest_hit_ticks(small_gpu(crossbar__sm_spread_ns=21.0))
