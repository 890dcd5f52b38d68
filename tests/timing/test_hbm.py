"""Does a DRAM channel keep its timing rules, and does it pick as it promises?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles_memory import channel_schedule
from small_memory import NS, fresh, small_gpu

from gpusim.model.address_hash import Layout, bank_of, channel_of, row_of
from gpusim.model.hbm import BUSY, PATIENCE, WINDOW
from gpusim.model.messages import DRAM_REQUEST, NEVER, READ, WRITE

SLICES, CHANNELS, BANKS, ROW_LINES = 4, 4, 2, 2
LAYOUT = Layout(SLICES, partitions=2, piece_shift=1)
BURST, ROW_CHANGE, ROW_CYCLE, TURNAROUND = 2 * NS, 15 * NS, 50 * NS, 8 * NS


def line_at(bank, row, channel=0):
    """A line of channel 0 in this bank and the ``row``-th row of that bank."""
    seen = []
    for line in range(20_000):
        if channel_of(line, LAYOUT, CHANNELS) != channel:
            continue
        where = row_of(line, LAYOUT, CHANNELS, ROW_LINES)
        if bank_of(where, BANKS) == bank and where not in seen:
            seen.append(where)
            if len(seen) > row:
                return line
    raise AssertionError("no such line")


LINES = {(bank, row): line_at(bank, row) for bank in range(2) for row in range(3)}


def ask(time, bank=0, row=0, *, kind=READ, sectors=0b11, sequence=0, channel=0):
    request = np.zeros(1, DRAM_REQUEST)
    line = LINES[bank, row] if channel == 0 else line_at(bank, row, channel)
    request["time"], request["line"] = time, line * 128
    request["kind"], request["sectors"], request["channel"] = kind, sectors, channel
    request["sequence"] = request["handle"] = sequence
    return request


def bursts(*requests, window=NS * 10, **changes):
    """Begin of each burst in ticks, by handle; and the part."""
    part = fresh(**changes)[1]
    for request in requests:
        part.deliver(request)
    answer = part.minimum_latency_ticks - BURST
    begins = {}
    while (tick := part.next_tick()) < NEVER:
        for batch in part.advance((tick // window + 1) * window):
            for row in batch:
                length = bin(int(row["sectors"])).count("1") * BURST
                begins[int(row["handle"])] = int(row["time"]) - answer - length
    return begins, part


def test_the_first_access_opens_its_row_and_the_next_finds_it_open():
    begins, part = bursts(ask(1000), ask(9000, sequence=1))
    assert begins == {0: 1000 + ROW_CHANGE, 1: 9000}
    assert part.counters()["dram__row_hits.sum"] == part.counters()["dram__row_misses.sum"] == 1


def test_whoever_opens_a_row_moves_its_error_codes_once_to_read_and_twice_to_write():
    def ends(kind, share, **changes):
        part = bursts(ask(0, kind=kind), ask(1, kind=kind, sequence=1), dram__codes_share=share, **changes)[1]
        return int(part.state.channels[0, BUSY])

    assert ends(READ, 0.0) == ends(WRITE, 0.0) == 4 * BURST
    coded = 2 * BURST  # of a bus that codes leave half of
    assert ends(READ, 0.5) == (4 + 1) * coded  # one of the two finds the row open
    assert ends(WRITE, 0.5) == (4 + 2) * coded
    assert ends(WRITE, 0.5, dram__streams_with_codes=False) == 4 * BURST


def test_a_bank_opens_rows_no_faster_than_its_row_cycle():
    soon, _ = bursts(ask(0), ask(0, row=1, sequence=1))
    assert soon[1] == ROW_CYCLE + ROW_CHANGE
    before, _ = bursts(ask(0), ask(ROW_CYCLE - 1, row=1, sequence=1))
    assert before[1] == ROW_CYCLE + ROW_CHANGE  # one tick early: waits one
    after, _ = bursts(ask(0), ask(ROW_CYCLE, row=1, sequence=1))
    assert after[1] == ROW_CYCLE + ROW_CHANGE  # ready at it


def test_who_comes_while_a_bank_is_refreshed_waits_for_the_end_of_it():
    interval, busy = 100, 12  # in ns
    waits = []
    for bank in range(2):
        begins = [
            bursts(ask(NS * at, bank), dram__refresh_interval_ns=float(interval), dram__refresh_ns=float(busy))[0][0]
            - ROW_CHANGE
            for at in range(2 * interval)
        ]
        waits.append([begin - NS * at for at, begin in enumerate(begins)])
        assert waits[bank][:interval] == waits[bank][interval:]  # once an interval
        first = next(at for at in range(1, 2 * interval) if waits[bank][at] and not waits[bank][at - 1])
        held = waits[bank][first : first + busy]
        assert (busy - 1) * NS < held[0] <= busy * NS
        assert held == [held[0] - NS * after for after in range(busy)]
        assert sum(wait > 0 for wait in waits[bank]) == 2 * busy
    assert waits[0] != waits[1]


def test_another_bank_opens_its_row_meanwhile():
    begins, _ = bursts(ask(0), ask(0, bank=1, sequence=1))
    assert begins == {0: ROW_CHANGE, 1: ROW_CHANGE + 2 * BURST}  # only the bus is shared


def test_channels_do_not_share_a_bus():
    begins, _ = bursts(ask(0), ask(0, channel=1, sequence=1))
    assert begins[0] == begins[1] == ROW_CHANGE


def test_the_bus_carries_one_burst_at_a_time():
    begins, _ = bursts(ask(0), ask(500, sequence=1, sectors=0b1111), ask(500, sequence=2))
    assert begins[1] == ROW_CHANGE + 2 * BURST
    assert begins[2] == begins[1] + 4 * BURST


def test_an_open_row_goes_before_an_older_request_for_another():
    begins, _ = bursts(ask(0, sectors=15), ask(1, row=1, sequence=1), ask(2, sequence=2), ask(3, sequence=3))
    assert begins[0] < begins[2] < begins[3] < begins[1]


def test_nobody_is_passed_over_for_ever():
    hits = [ask(10 + i, sequence=2 + i) for i in range(3 * PATIENCE)]
    begins, _ = bursts(ask(0), ask(5, row=1, sequence=1), *hits)
    assert sum(begins[2 + i] < begins[1] for i in range(3 * PATIENCE)) == PATIENCE


def test_reads_go_before_writes_until_enough_writes_wait():
    few = [ask(0, kind=WRITE, sequence=10 + i) for i in range(3)]
    reads = [ask(0, sequence=i) for i in range(4)]
    begins, part = bursts(*reads, *few)
    assert begins[3] == ROW_CHANGE + 3 * 2 * BURST
    many = [ask(0, kind=WRITE, sequence=10 + i) for i in range(4)]
    begins, part = bursts(*reads, *many)
    # Four writes drain to one before the first read; the first turnaround hides in the row change.
    assert begins[0] == ROW_CHANGE + 3 * 2 * BURST + TURNAROUND
    assert part.counters()["dram__turnarounds.sum"] == 3  # to writes, to reads, the last write


def test_a_write_goes_alone_when_it_is_old_and_no_read_waits():
    begin = 40 * NS
    begins, _ = bursts(ask(0, kind=WRITE), ask(begin, sequence=1))
    assert begins[1] < begins[0]
    begins, _ = bursts(ask(0, kind=WRITE), ask(begin + 1, sequence=1))
    assert begins[0] == begin < begins[1]


def test_the_part_comes_to_rest_with_all_writes_done():
    _, part = bursts(ask(0, kind=WRITE), ask(50, kind=WRITE, sequence=1))
    assert part.counters()["dram__bytes_write.sum"] == 128
    assert part.next_tick() == NEVER and part.waiting_for() == ""


def test_efficiency_stretches_the_bus():
    begins, _ = bursts(ask(0), ask(0, sequence=1))
    slow, _ = bursts(ask(0), ask(0, sequence=1), dram__efficiency=0.5)
    assert slow[1] - slow[0] == pytest.approx(2 * (begins[1] - begins[0]), abs=2 * BURST)


REQUESTS = st.lists(
    st.tuples(
        st.integers(0, 40 * NS),  # ticks after the one before
        st.booleans(),
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(1, 15),
    ),
    min_size=1,
    max_size=24,
)


@given(REQUESTS, st.sampled_from([1, 7 * NS, 10**6]), st.sampled_from([0, 2, 5]))
def test_the_schedule_is_that_of_a_channel_walked_tick_by_tick(drawn, window, turn):
    time, plain, rows = 0, [], []
    for index, (gap, is_write, bank, row, sectors) in enumerate(drawn):
        time += gap // 16
        plain.append((time, is_write, bank, row, bin(sectors).count("1")))
        kind = WRITE if is_write else READ
        rows.append(ask(time, bank, row, kind=kind, sectors=sectors, sequence=index))
    expected = channel_schedule(
        plain,
        burst=BURST,
        row_change=ROW_CHANGE,
        row_cycle=ROW_CYCLE,
        turnaround=TURNAROUND,
        write_high=4,
        write_low=1,
        write_hold=40 * NS,
        turn=turn,
        window=WINDOW,
        patience=PATIENCE,
    )
    begins, _ = bursts(*rows, window=max(window, 50), dram__turn_entries=turn)
    assert begins == dict(expected)


def test_writes_that_keep_coming_end_with_their_turn_while_reads_wait():
    writes = [ask(0, kind=WRITE, sequence=i) for i in range(12)]
    reads = [ask(0, bank=1, sequence=100 + i) for i in range(12)]

    def order(turn: int) -> str:
        begins, _ = bursts(*writes, *reads, dram__turn_entries=turn)
        return "".join("w" if each < 100 else "r" for each in sorted(begins, key=begins.__getitem__))

    assert order(0).startswith("w" * 11 + "r")  # down to the low mark of one
    assert order(3).startswith("rrrwww" * 3)


def test_a_saturated_channel_reaches_its_rate():
    gpu = small_gpu()
    count = 400
    sequential = [ask(0, bank=i // 20 % 2, row=i // 40 % 3, sectors=15, sequence=i) for i in range(count)]
    begins, part = bursts(*sequential)
    span_ns = (max(begins.values()) + 4 * BURST) / NS
    rate = count * 128 / span_ns
    assert rate > 0.85 * gpu.dram.peak_bytes_per_ns / gpu.dram.channels
    assert part.counters()["dram__busy_ticks.sum"] == count * 4 * BURST
