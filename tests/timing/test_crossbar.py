"""Are lines spread evenly over slices, sets, channels and banks, and SMs over partitions?"""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.gpus import list_gpus, load_gpu
from gpusim.model.address_hash import bank_of, channel_of, fold, row_of, set_of, slice_of
from gpusim.model.crossbar import partition_of_sm, request_latency_ticks, response_latency_ticks


@pytest.mark.parametrize(("slices", "sets"), [(80, 256), (96, 320), (4, 3)])
def test_a_contiguous_buffer_fills_every_set_of_every_slice_alike(slices, sets):
    count = Counter((slice_of(i, slices), set_of(i, slices, sets)) for i in range(slices * sets * 2))
    assert len(count) == slices * sets
    assert set(count.values()) == {2}


@pytest.mark.parametrize("stride", [2**k for k in range(0, 16)] + [80, 96, 80 * 256, 3000])
def test_no_stride_stays_on_few_slices(stride):
    count = Counter(slice_of(i * stride, 80) for i in range(8000))
    assert len(count) >= 76
    assert max(count.values()) <= 3 * 100


@pytest.mark.parametrize(("slices", "channels"), [(80, 80), (96, 192), (80, 40)])
def test_a_slice_and_its_channels_go_together(slices, channels):
    owner = {}
    for line in range(20_000):
        channel, home = channel_of(line, slices, channels), slice_of(line, slices)
        assert 0 <= channel < channels
        if channels >= slices:
            assert owner.setdefault(channel, home) == home
        else:
            assert owner.setdefault(home, channel) == channel
    assert len(owner) == max(channels, slices)


@pytest.mark.parametrize(("slices", "channels"), [(80, 80), (96, 192), (80, 40)])
def test_a_row_holds_row_lines_lines_of_one_channel(slices, channels):
    lines = max(slices, channels) * 8 * 16
    count = Counter(
        (channel_of(i, slices, channels), row_of(i, slices, channels, 8)) for i in range(lines)
    )
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
    assert Counter(partition_of_sm(sm, 2) for sm in range(132)) == {0: 66, 1: 66}
    assert {partition_of_sm(sm, 1) for sm in range(132)} == {0}


@pytest.mark.parametrize("name", list_gpus())
def test_latencies_are_ticks_of_the_sm_clock(name):
    gpu = load_gpu(name)
    expected = gpu.crossbar.request_latency_ns * gpu.clock_hz / 1e9 * 64
    assert abs(request_latency_ticks(gpu) - expected) <= 0.5
    assert response_latency_ticks(gpu) > 16 * 64
