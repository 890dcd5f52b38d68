"""Does L2 give a line once to SMs of a group that want it at the same time?"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_memory import answer_ns, fresh, request, run

from gpusim.model.address_hash import Layout, slice_of
from gpusim.model.messages import READ, WRITE

#: Four SMs in two groups.
GROUPS = {"crossbar__sms_per_gpc": 2, "crossbar__merges_reads": True}
LAYOUT = Layout(4, partitions=2, piece_shift=1)
#: A line at home in the first partition, to which the first group is wired.
NEAR = next(line for line in range(100) if slice_of(line, LAYOUT) % 2 == 0)
#: Of four sectors: port 4 + hit 10 + response 30.
HIT = 44.0


def test_a_read_is_answered_with_that_of_another_sm_of_its_group():
    parts = fresh(**GROUPS)
    first, second = answer_ns(parts, request(0, NEAR, sm=0, tag=0), request(50, NEAR, sm=1, tag=1))
    assert first == second
    counters = parts[0].counters()
    assert counters["lts__t_sectors_op_read.sum"] == 4 and counters["l2__merged_sectors.sum"] == 4
    hits = answer_ns(parts, *(request(5000, NEAR, sm=sm, tag=sm) for sm in (0, 1)))
    assert hits == pytest.approx([5000 + HIT] * 2)


def test_data_that_have_left_are_asked_for_again():
    parts = fresh(**GROUPS)
    answer_ns(parts, request(0, NEAR, sm=0))
    early, late, later = answer_ns(parts, *(request(5000 + t, NEAR, sm=t > 0, tag=t) for t in (0, 13, 15)))
    assert early == late == pytest.approx(5000 + HIT)  # its data leave after 14 ns
    assert later == pytest.approx(5015 + HIT)


def test_other_groups_and_other_sectors_are_not_merged():
    parts = fresh(**GROUPS)
    run(parts, [request(0, NEAR, sm=sm, tag=sm) for sm in (0, 2)])
    before = parts[0].counters()["l2__merged_sectors.sum"]
    run(parts, [request(5000, NEAR, sm=sm, tag=sm) for sm in (0, 2)])
    run(parts, [request(9000, NEAR, sm=0, sectors=0b0011), request(9000, NEAR, sm=1, sectors=0b0111, tag=1)])
    assert parts[0].counters()["l2__merged_sectors.sum"] == before == 0


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 3), st.integers(1, 15), st.booleans(), st.integers(0, 60)),
        max_size=40,
    )
)
def test_every_request_is_answered_once(accesses):
    """Lines that are evicted while they are under way, writes in between, all sectors: nothing is lost or answered
    twice."""
    time, rows = 0, []
    for tag, (line, sm, sectors, writes, gap) in enumerate(accesses):
        time += gap
        rows.append(request(time, line, kind=WRITE if writes else READ, sm=sm, sectors=sectors, tag=tag))
    parts = fresh(**GROUPS)
    answers = run(parts, rows)
    assert sorted(answers["tag"].tolist()) == list(range(len(rows)))
    asked = {int(row["tag"][0]): int(row["time"][0]) for row in rows}
    assert all(answer["time"] > asked[int(answer["tag"])] for answer in answers)
