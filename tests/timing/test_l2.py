"""Does the L2 answer when it should: near, far, missing, merged, written, evicted, contended?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles_memory import LruSet
from small_memory import NS, answer_ns, fresh, request, run, small_gpu

from gpusim.errors import DeadlockError
from gpusim.model.address_hash import Layout, set_of, slice_of
from gpusim.model.crossbar import slice_ways, sm_ways
from gpusim.model.l2_tags import DIRTY, HELD, STAMP
from gpusim.model.messages import ATOMIC, READ, REDUCTION, WRITE

SLICES, SETS, WAYS = 4, 4, 2
LAYOUT = Layout(SLICES, partitions=2, piece_shift=1)
# Near hit of one sector: port 1 + hit 10 + response 30.
HIT = 41.0
DRAM = 100.0
NS_A_TICK = 1 / NS


def home(line):
    return slice_of(line, LAYOUT) % 2


def lines_of(partition, count, same_set_as=None):
    """Line numbers at home in a partition, optionally all of one slice and set."""
    found = []
    for line in range(10_000):
        if home(line) != partition:
            continue
        if same_set_as is not None and (
            slice_of(line, LAYOUT) != slice_of(same_set_as, LAYOUT)
            or set_of(line, LAYOUT, SETS) != set_of(same_set_as, LAYOUT, SETS)
        ):
            continue
        found.append(line)
        if len(found) == count:
            return found
    raise AssertionError("no such lines")


NEAR = lines_of(0, 1)[0]
FAR = lines_of(1, 1)[0]


ACCESS = st.tuples(
    st.integers(0, 40),  # line
    st.sampled_from([READ, READ, READ, WRITE, ATOMIC, REDUCTION]),
    st.integers(0, 3),  # sm
    st.integers(1, 15),  # sectors
    st.integers(1, 128),  # payload
    st.integers(0, 120),  # ns after the one before
)


def rows_of(accesses):
    time, rows = 0, []
    for tag, (line, kind, sm, sectors, payload, gap) in enumerate(accesses):
        time += gap
        whole = 32 * bin(sectors).count("1")
        rows.append(request(time, line, kind=kind, sm=sm, sectors=sectors, payload=min(payload, whole), tag=tag))
    return rows


def test_a_near_miss_costs_drams_latency_more_than_a_hit():
    parts = fresh()
    (miss,) = answer_ns(parts, request(1000, NEAR, sectors=1))
    (hit,) = answer_ns(parts, request(5000, NEAR, sectors=1))
    assert hit - 5000 == pytest.approx(HIT)
    # The fetch group is two sectors, 2 ns each on the bus, one already inside DRAM's latency.
    assert miss - 1000 == pytest.approx(HIT + DRAM + 2 + 1, abs=1.1)


@pytest.mark.parametrize("link_bytes_per_ns", [32.0, 1024.0])
def test_a_far_hit_costs_the_way_there_and_back_and_leaves_a_copy(link_bytes_per_ns):
    parts = fresh(l2__partition_link_bytes_per_ns=link_bytes_per_ns)
    answer_ns(parts, request(0, FAR, sm=1, sectors=1))  # SM 1 is wired to partition 1
    (far,) = answer_ns(parts, request(5000, FAR, sm=0, sectors=1))
    (near,) = answer_ns(parts, request(9000, FAR, sm=0, sectors=1))
    # The link 1 ns, as much as a slice takes from any, and both slices' ports once more.
    assert far - 5000 == pytest.approx(HIT + 60 + 3)
    assert near - 9000 == pytest.approx(HIT)


def test_a_far_miss_adds_its_own_extra():
    near, far = fresh(), fresh()
    (a,) = answer_ns(near, request(0, NEAR, sectors=1))
    (b,) = answer_ns(far, request(0, FAR, sectors=1))
    assert b - a == pytest.approx(70 + 2)  # the lookup at home, the link


def test_requests_for_sectors_under_way_ask_dram_once():
    parts = fresh()
    answers = answer_ns(parts, *(request(i, NEAR, sectors=3, tag=i) for i in range(5)))
    assert parts[1].counters()["dram__bytes_read.sum"] == 64
    assert answers == sorted(answers)


def test_a_missing_sector_brings_its_fetch_group_and_no_more():
    parts = fresh()
    answer_ns(parts, request(0, NEAR, sectors=0b0100))
    assert parts[1].counters()["dram__bytes_read.sum"] == 64
    later = answer_ns(parts, request(5000, NEAR, sectors=0b1000))
    assert later[0] - 5000 == pytest.approx(HIT)
    answer_ns(parts, request(9000, NEAR, sectors=0b0001))
    assert parts[1].counters()["dram__bytes_read.sum"] == 128


def test_a_port_serves_one_request_after_the_other():
    parts = fresh()
    answer_ns(parts, request(0, NEAR))
    first, second = answer_ns(parts, request(5000, NEAR, tag=0), request(5000, NEAR, tag=1))
    assert second - first == pytest.approx(4.0)  # 128 bytes at 32 B/ns
    again, alone = answer_ns(parts, request(9000, NEAR, tag=0), request(9004, NEAR, tag=1))
    assert alone - again == pytest.approx(4.0)  # arrives just as the port gets free: no wait
    assert alone - 9004 == pytest.approx(4 + 10 + 30)
    _, waits = answer_ns(parts, request(12000, NEAR, tag=0), request(12003, NEAR, tag=1))
    assert waits - 12003 == pytest.approx(1 + 4 + 10 + 30)  # one nanosecond early: waits one


def test_two_slices_serve_at_once():
    parts = fresh()
    other = next(i for i in lines_of(0, 20) if slice_of(i, LAYOUT) != slice_of(NEAR, LAYOUT))
    answer_ns(parts, request(0, NEAR), request(0, other, tag=1))
    a, b = answer_ns(parts, request(5000, NEAR), request(5000, other, tag=1))
    assert a == b


def test_a_whole_sector_written_needs_no_fetch_and_reads_back_as_a_hit():
    parts = fresh()
    (ack,) = answer_ns(parts, request(0, NEAR, kind=WRITE, sectors=0b0011))
    assert ack == pytest.approx(4 + 10 + 30)  # 64 bytes at 16 B/ns
    (read,) = answer_ns(parts, request(1000, NEAR, sectors=0b0011))
    assert read - 1000 == pytest.approx(2 + 10 + 30)
    assert parts[1].counters()["dram__bytes_read.sum"] == 0


def test_partial_writes_merge_to_a_whole_sector():
    parts = fresh()
    rows = [request(i * 100, NEAR, kind=WRITE, sectors=1, payload=16, tag=i) for i in range(2)]
    answer_ns(parts, *rows)
    answer_ns(parts, request(1000, NEAR, sectors=1))
    assert parts[1].counters()["dram__bytes_read.sum"] == 0


def test_reading_a_sector_written_in_part_fetches_the_rest():
    parts = fresh()
    answer_ns(parts, request(0, NEAR, kind=WRITE, sectors=1, payload=16))
    answer_ns(parts, request(1000, NEAR, sectors=1))
    assert parts[1].counters()["dram__bytes_read.sum"] == 64


@pytest.mark.parametrize(("masked", "payload", "read_bytes"), [(False, 16, 128), (True, 16, 0), (False, 128, 0), (True, 128, 0)])  # fmt: skip
def test_what_stores_left_out_of_evicted_sectors_is_read_where_dram_cannot_write_with_a_mask(
    masked, payload, read_bytes
):
    """A store of each eighth float writes four bytes of each sector; one of every float leaves nothing out."""
    parts = fresh(dram__masked_writes=masked)
    stored, *others = lines_of(0, 1 + WAYS, same_set_as=NEAR)
    answer_ns(parts, request(0, stored, kind=WRITE, payload=payload))
    for i, line in enumerate(others):
        answer_ns(parts, request(1000 * (i + 1), line))
    counters = parts[1].counters()
    assert counters["dram__bytes_write.sum"] == 128
    assert counters["dram__bytes_read.sum"] == WAYS * 128 + read_bytes


def test_what_is_read_of_a_sector_written_in_part_comes_from_dram_that_writes_with_a_mask_too():
    parts = fresh(dram__masked_writes=True)
    answer_ns(parts, request(0, NEAR, kind=WRITE, sectors=1, payload=4))
    answer_ns(parts, request(1000, NEAR, sectors=1))
    assert parts[1].counters()["dram__bytes_read.sum"] == 64


def test_the_least_recently_used_line_is_evicted_and_written_back_once():
    parts = fresh()
    a, b, c = lines_of(0, 3, same_set_as=NEAR)
    answer_ns(parts, request(0, a, kind=WRITE))
    answer_ns(parts, request(1000, b))
    answer_ns(parts, request(2000, a, sectors=1))  # now b is the older one
    answer_ns(parts, request(3000, c))
    assert parts[1].counters()["dram__bytes_write.sum"] == 0
    (still,) = answer_ns(parts, request(4000, a, sectors=1))
    assert still - 4000 == pytest.approx(HIT)
    answer_ns(parts, request(5000, b))  # evicts c
    answer_ns(parts, request(6000, c))  # evicts a, which is dirty
    assert parts[1].counters()["dram__bytes_write.sum"] == 128


def test_a_set_holds_no_more_dirty_lines_than_it_may_and_keeps_those_that_it_writes_back():
    parts, every = fresh(l2__dirty_share=0.5), fresh()
    a, b, c = lines_of(0, 3, same_set_as=NEAR)
    for each in (parts, every):
        answer_ns(each, request(0, a, kind=WRITE))
        answer_ns(each, request(500, a, kind=WRITE))
        assert each[1].counters()["dram__bytes_write.sum"] == 0
        answer_ns(each, request(1000, b, kind=WRITE))
    written = [each[1].counters()["dram__bytes_write.sum"] for each in (parts, every)]
    assert written == [128, 0]
    (still,) = answer_ns(parts, request(2000, a, sectors=1))
    assert still - 2000 == pytest.approx(HIT)
    answer_ns(parts, request(3000, c))  # evicts b, which alone is dirty
    answer_ns(parts, request(4000, b))  # evicts a, which is not
    assert parts[1].counters()["dram__bytes_write.sum"] == 256


def test_of_its_dirty_lines_a_set_writes_back_the_least_recently_used():
    parts = fresh(l2__ways=4, l2__total_bytes=SLICES * SETS * 4 * 128, l2__dirty_share=0.5)
    a, b, c = lines_of(0, 3, same_set_as=NEAR)
    answer_ns(parts, request(0, a, kind=WRITE))
    answer_ns(parts, request(1000, b, kind=WRITE))
    answer_ns(parts, request(2000, a, sectors=1))
    answer_ns(parts, request(3000, c, kind=WRITE))
    slots, masks = parts[0].state.tags
    assert set(slots[HELD, masks[:, DIRTY] > 0]) == {a, c}


def test_behind_a_flush_of_writes_half_of_the_lines_are_dirty_the_newest():
    parts = fresh(l2__dirty_share=0.5)
    count = 10 * SLICES * SETS * WAYS
    parts[0].warm(np.arange(count) * 128, np.full(count, 15), np.ones(count), np.arange(count) % 4)
    slots, masks = parts[0].state.tags
    dirty = (masks[:, DIRTY] > 0).reshape(-1, WAYS)
    assert (dirty.sum(axis=1) == 1).all()
    assert (slots[STAMP].reshape(-1, WAYS).argmax(axis=1) == dirty.argmax(axis=1)).all()


def test_a_line_that_only_the_far_half_has_read_is_evicted_before_older_ones_of_the_near_half():
    """The far half keeps a copy of its own."""
    a, b, c, d = lines_of(0, 4, same_set_as=NEAR)
    parts = fresh()
    answer_ns(parts, request(0, a, sm=0, sectors=1))
    answer_ns(parts, request(1000, b, sm=1, sectors=1))  # SM 1 is wired to partition 1
    answer_ns(parts, request(2000, c, sm=0, sectors=1))  # evicts b, not a
    (still,) = answer_ns(parts, request(3000, a, sm=0, sectors=1))
    assert still - 3000 == pytest.approx(HIT)
    # A line that the near half has read too is as any other, whoever read it last.
    parts = fresh()
    answer_ns(parts, request(0, a, sm=0, sectors=1))
    answer_ns(parts, request(1000, b, sm=0, sectors=1))
    answer_ns(parts, request(2000, b, sm=1, sectors=1))
    answer_ns(parts, request(3000, c, sm=0, sectors=1))  # evicts a
    (still,) = answer_ns(parts, request(4000, b, sm=0, sectors=1))
    assert still - 4000 == pytest.approx(HIT)
    # Of two that only the far half has read the older one goes.
    parts = fresh()
    for time, line in ((0, a), (1000, b), (2000, c)):
        answer_ns(parts, request(time, line, sm=1, sectors=1))
    (still,) = answer_ns(parts, request(3000, b, sm=0, sectors=1))
    assert still - 3000 == pytest.approx(HIT)
    # And a whole turn of the cache later it stays before what the near half read then.
    parts = fresh()
    answer_ns(parts, request(0, a, sm=0, sectors=1))
    others = [line for line in lines_of(0, 40) if slice_of(line, LAYOUT) != slice_of(a, LAYOUT)]
    for number in range(SLICES * SETS * WAYS):
        answer_ns(parts, request(1000 * (number + 1), others[number % 2], sm=0, sectors=1))
    answer_ns(parts, request(90_000, b, sm=1, sectors=1))
    answer_ns(parts, request(91_000, d, sm=0, sectors=1))  # evicts a
    (still,) = answer_ns(parts, request(92_000, b, sm=0, sectors=1))
    assert still - 92_000 == pytest.approx(HIT)


def test_evicting_a_sector_written_in_part_reads_and_writes_it():
    parts = fresh()
    a, b, c = lines_of(0, 3, same_set_as=NEAR)
    answer_ns(parts, request(0, a, kind=WRITE, sectors=1, payload=4))
    answer_ns(parts, request(1000, b, kind=WRITE))
    answer_ns(parts, request(2000, c, kind=WRITE))
    counters = parts[1].counters()
    assert (counters["dram__bytes_read.sum"], counters["dram__bytes_write.sum"]) == (32, 32)


def test_a_far_write_goes_home_and_its_ack_comes_back():
    near = answer_ns(fresh(), request(0, NEAR, kind=WRITE, sectors=1))[0]
    far = answer_ns(fresh(), request(0, FAR, kind=WRITE, sectors=1))[0]
    assert far - near == pytest.approx(60 + 2)  # both ways, the near lookup, one sector's time on the link


@pytest.mark.parametrize(("kind", "waits"), [(READ, True), (WRITE, False)])
def test_all_slices_share_the_link_between_the_partitions_each_way(kind, waits):
    """Data of reads from two slices wait for one another; what is written goes the other way."""
    other = next(line for line in lines_of(1, 9) if slice_of(line, LAYOUT) != slice_of(FAR, LAYOUT))
    took = []
    for rate in (32.0, 4.0):
        parts = fresh(l2__partition_link_bytes_per_ns=rate)
        answer_ns(parts, request(0, FAR, sm=1), request(1, other, sm=1))  # home has them
        rows = request(5000, FAR, kind=kind, sm=0, tag=0), request(5000, other, sm=0, tag=1)
        took.append(answer_ns(parts, *rows)[1])
    # Four sectors each: 4 and 32 ns.
    assert took[1] - took[0] == pytest.approx(28.0 * (1 + waits), abs=0.1)


def test_a_write_at_home_makes_the_other_partitions_copy_stale():
    parts = fresh()
    answer_ns(parts, request(0, FAR, sm=0, sectors=1))
    answer_ns(parts, request(2000, FAR, sm=1, kind=WRITE, sectors=1))
    (again,) = answer_ns(parts, request(4000, FAR, sm=0, sectors=1))
    assert again - 4000 == pytest.approx(HIT + 60 + 3)


def test_atomics_on_one_word_are_served_one_after_the_other():
    parts = fresh()
    answer_ns(parts, request(0, NEAR))
    rows = [request(5000, NEAR, kind=ATOMIC, sectors=1, operations=5, tag=i) for i in range(3)]
    answers = np.diff(answer_ns(parts, *rows))
    assert answers == pytest.approx([10.0, 10.0])  # 2 ns a lane


@pytest.mark.parametrize(
    ("sectors", "operations", "want_ns"),
    [(15, 4, 12.0), (15, 6, 16.0), (3, 2, 6.0), (15, 1, 12.0), (1, 1, 2.0), (4, 1, 2.0), (1, 32, 64.0)],
)
def test_an_atomic_unit_takes_a_pass_a_sector_and_one_for_each_lane_that_meets_another_on_a_word(
    sectors, operations, want_ns
):
    """3 ns a sector of several, 2 ns a lane more, and a lane of one sector; the fourth case is what comes with no count
    of passes."""
    parts = fresh()
    answer_ns(parts, request(0, NEAR))
    rows = [request(5000, NEAR, kind=REDUCTION, sectors=sectors, operations=operations, tag=i) for i in range(3)]
    assert np.diff(answer_ns(parts, *rows)) == pytest.approx([want_ns, want_ns])


@pytest.mark.parametrize(("other", "shares"), [(1, True), (4, True), (5, True), (2, False), (3, False), (6, False)])
def test_lines_512_bytes_apart_share_an_atomic_unit_and_lines_256_bytes_apart_do_not(other, shares):
    parts = fresh(l2__partition_piece_bytes=4096, l2__slices=16, l2__total_bytes=16 * SETS * WAYS * 128)
    first = next(line for line in range(0, 256, 32) if slice_of(line, Layout(16, 2, 5)) % 2 == 0)
    lines = first, first + other
    for line in lines:
        answer_ns(parts, request(0, line))
    rows = [request(5000, line, kind=REDUCTION, sectors=1, operations=30, tag=i) for i, line in enumerate(lines)]
    apart = abs(np.diff(answer_ns(parts, *rows))[0])
    assert apart == pytest.approx(61.0 if shares else 0.0, abs=1.0)


def test_a_reduction_is_acknowledged_before_its_data_come_and_an_atomic_after():
    (red,) = answer_ns(fresh(), request(0, NEAR, kind=REDUCTION, sectors=1))
    (atomic,) = answer_ns(fresh(), request(0, NEAR, kind=ATOMIC, sectors=1))
    assert red == pytest.approx(HIT + 2.0)  # one lane
    assert atomic > HIT + DRAM


@pytest.mark.parametrize("known", [True, False])
def test_reductions_on_one_word_are_acknowledged_one_after_the_other(known):
    """Whether or not the line is there: otherwise a launch would end before its additions do."""
    parts = fresh()
    if known:
        answer_ns(parts, request(0, NEAR))
    rows = [request(5000, NEAR, kind=REDUCTION, sectors=1, operations=5, tag=i) for i in range(3)]
    answers = np.diff(answer_ns(parts, *rows))
    assert answers == pytest.approx([10.0, 10.0])  # 2 ns a lane


def test_a_set_whose_lines_all_wait_makes_the_next_line_wait():
    parts = fresh()
    rows = [request(0, x, tag=i) for i, x in enumerate(lines_of(0, 3, same_set_as=NEAR))]
    a, b, c = answer_ns(parts, *rows)
    assert parts[0].counters()["l2__set_stalls.sum"] > 0
    assert c > max(a, b) + DRAM / 2


@pytest.mark.parametrize("dirty_share", [1.0, 0.5])
def test_a_slice_waits_with_evictions_until_drams_queue_has_room(dirty_share):
    """More dirty lines than a channel takes: the writes behind them are acknowledged at DRAM's rate, whether they are
    evicted or written back before."""
    rows = [request(0, x, kind=WRITE, tag=i) for i, x in enumerate(lines_of(0, 80))]
    free, tight = (fresh(dram__write_queue_entries=entries, l2__dirty_share=dirty_share) for entries in (1000, 4))
    unhindered, held = (max(answer_ns(parts, *rows)) for parts in (free, tight))
    assert free[0].counters()["l2__write_stalls.sum"] == 0
    assert tight[0].counters()["l2__write_stalls.sum"] > 0
    assert held > 1.5 * unhindered
    for parts in (free, tight):
        evicted = parts[0].counters()["l2__evicted_dirty_sectors.sum"]
        assert evicted == (80 - 2 * SETS * WAYS * dirty_share) * 4
        assert parts[1].counters()["dram__bytes_write.sum"] == 32 * evicted


def test_warming_leaves_hits_and_costs_nothing():
    parts = fresh()
    lines = np.array([NEAR, FAR]) * 128
    parts[0].warm(lines, np.array([15, 15]), np.array([False, False]), np.array([0, 0]))
    answers = answer_ns(parts, request(0, NEAR, sectors=1), request(100, FAR, sectors=1, tag=1))
    assert answers == pytest.approx([HIT, 100 + HIT])
    assert parts[1].counters()["dram__bytes_read.sum"] == 0


def warmed_with_writes():
    """A machine whose last launch has written far more lines than the L2 holds."""
    parts = fresh()
    lines = np.arange(400) * 128
    count = len(lines)
    parts[0].warm(lines, np.full(count, 15), np.ones(count), np.arange(count) % 4)
    return parts


def test_warming_with_writes_leaves_drams_queues_partly_filled():
    parts = warmed_with_writes()
    assert parts[0].next_tick() == parts[1].next_tick()  # nothing runs of itself
    answer_ns(parts, request(1000, 100_000, sectors=1))
    written = parts[1].counters()["dram__bytes_write.sum"]
    assert 0 < written - 128 <= 128 * SLICES * 4  # the read's own eviction, and up to four a slice
    assert parts[0].waiting_for() == ""


@given(st.lists(ACCESS, min_size=1, max_size=30), st.sampled_from([64, 333, 20 * NS]))
def test_windows_do_not_show_after_warming_either(accesses, window):
    parts, others = warmed_with_writes(), warmed_with_writes()
    rows = rows_of(accesses)
    assert run(parts, rows).tolist() == run(others, rows, window=window).tolist()
    assert parts[1].counters() == others[1].counters()


def test_warming_a_busy_cache_is_refused():
    l2, _ = fresh()
    l2.deliver(request(0, NEAR))
    with pytest.raises(DeadlockError, match="busy"):
        l2.warm(np.array([0]), np.array([1]), np.array([0]), np.array([0]))


@given(st.lists(ACCESS, min_size=1, max_size=60), st.sampled_from([64, 333, 20 * NS]), st.sampled_from([0.5, 1.0]))
def test_neither_window_nor_order_of_delivery_shows(accesses, window, dirty_share):
    rows = rows_of(accesses)
    parts, others = fresh(l2__dirty_share=dirty_share), fresh(l2__dirty_share=dirty_share)
    expected = run(parts, rows)
    actual = run(others, rows[::-1], window=window)
    assert expected.tolist() == actual.tolist()
    for part, other in zip(parts, others, strict=True):
        assert part.counters() == other.counters()
        assert part.last_tick == other.last_tick


@given(st.lists(ACCESS, min_size=1, max_size=60), st.sampled_from([0.5, 1.0]))
def test_every_request_is_answered_once_and_the_bytes_agree(accesses, dirty_share):
    parts = fresh(l2__dirty_share=dirty_share)
    answers = run(parts, rows_of(accesses))
    assert sorted(answers["tag"]) == list(range(len(accesses)))
    for answer in answers:
        _, kind, sm, sectors, _, _ = accesses[answer["tag"]]
        assert (answer["kind"], answer["sm"], answer["sectors"]) == (kind, sm, sectors)
    l2, hbm = (part.counters() for part in parts)
    sent = {kind: 0 for kind in (READ, WRITE, ATOMIC, REDUCTION)}
    for _, kind, _, sectors, _, _ in accesses:
        sent[kind] += bin(sectors).count("1")
    assert l2["lts__t_sectors_op_read.sum"] == sent[READ]
    assert l2["lts__t_sectors_op_write.sum"] == sent[WRITE]
    assert l2["lts__t_sectors_op_atom.sum"] == sent[ATOMIC]
    assert l2["lts__t_sectors_op_red.sum"] == sent[REDUCTION]
    hits = l2["lts__t_sectors_lookup_hit.sum"] + l2["lts__t_sectors_lookup_miss.sum"]
    assert hits == sum(sent.values())
    assert hbm["dram__bytes_write.sum"] == 32 * l2["l2__evicted_dirty_sectors.sum"]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 15)), min_size=1, max_size=80))
def test_hits_are_those_of_an_lru_cache(accesses):
    """One partition, whole-sector fetches, reads far enough apart: an LRU set is the whole story."""
    parts = fresh(l2__partitions=1, l2__fetch_bytes=32)
    sets = {}
    missed = 0
    rows = []
    for tag, (line, sectors) in enumerate(accesses):
        key = (slice_of(line, LAYOUT), set_of(line, LAYOUT, SETS))
        wanted = {i for i in range(4) if sectors >> i & 1}
        missed += len(sets.setdefault(key, LruSet(WAYS)).access(line, wanted)[0])
        rows.append(request(1000 * tag, line, sectors=sectors, tag=tag))
    run(parts, rows)
    assert parts[0].counters()["lts__t_sectors_lookup_miss.sum"] == missed
    assert parts[1].counters()["dram__bytes_read.sum"] == 32 * missed


def test_edges_are_long_enough_for_a_window():
    gpu = small_gpu()
    l2, hbm = fresh()
    assert l2.minimum_latency_ticks == round(gpu.crossbar.response_latency_ns * NS)
    assert hbm.minimum_latency_ticks >= 30 * NS


def test_far_sms_and_slices_are_answered_later_by_their_ways() -> None:
    spread = {"crossbar__sm_spread_ns": 8.0, "crossbar__slice_spread_ns": 4.0}
    near_slices = {slice_of(line, LAYOUT): line for line in lines_of(0, 8)}
    parts, even = fresh(**spread), fresh()
    spec = small_gpu(**spread)
    for line in near_slices.values():
        for each in (parts, even):
            answer_ns(each, request(0, line, sm=0))
    for here, line in near_slices.items():
        at_home = LAYOUT.slices // LAYOUT.partitions * (here % 2) + here // 2  # numbered partition by partition
        for sm in (0, 2):  # both are wired to the first partition
            (hit,) = answer_ns(parts, request(5000 + 100 * sm, line, sm=sm))
            (mean,) = answer_ns(even, request(5000 + 100 * sm, line, sm=sm))
            ways = (sm_ways(spec)[sm] + slice_ways(spec)[at_home]) * NS_A_TICK
            assert hit == pytest.approx(mean - 6.0 + ways, abs=2 * NS_A_TICK)
