"""What a search looks for and reports: counts of the trace, another gpusim, relations, regions that are one, small
cases."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpusim.cases.suite import find_kernel
from gpusim.engine.gpu import simulate
from gpusim.errors import DeadlockError, NoDataError, UsageError
from gpusim.explore import counts, trace_counts
from gpusim.explore.cover import cover
from gpusim.explore.metamorphic import RELATIONS, reversed_blocks
from gpusim.explore.property import Outcome, Property
from gpusim.explore.property_registry import make_property
from gpusim.explore.region import LabelledRun, Region, Statement, join
from gpusim.explore.report_findings import findings_of
from gpusim.explore.session import Plan, explore, new_search
from gpusim.explore.shrink import shrink
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.model import counters as count

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.usefixtures("without_source_lines")
H200 = load_gpu("h200")


def test_two_regions_of_one_fault_are_joined():
    """A rule that both sides obey replaces them; two that no conjunction joins stand side by side."""

    def fails(shape):
        return shape["n"] >= 100 or (shape["n"] >= 50 and shape["rows"] < 4)

    runs = [
        LabelledRun(
            {"n": n, "rows": rows}, 0.4 if fails({"n": n, "rows": rows}) else 0.0, fails({"n": n, "rows": rows})
        )
        for n in (10, 49, 50, 70, 99, 100, 150, 200)
        for rows in (1, 2, 3, 4, 8, 16)
    ]
    wide = Region((Statement("n", ">=", 100),), 0.4, 0.4, 18, 0, 9, (), ())
    narrow = Region((Statement("n", ">=", 50), Statement("rows", "<", 4)), 0.4, 0.4, 18, 0, 9, (), ())
    joined = join(wide, narrow, runs)
    assert joined is not None and (joined.escapes, joined.misses) == (0, 0)
    assert str(joined) == "n >= 100 or n >= 50 and rows < 4: +40 % to +40 %"
    assert all(joined.holds(run.shape) == run.fails for run in runs)
    inner = Region((Statement("n", ">=", 150),), 0.4, 0.4, 12, 0, 15, (), ())
    whole = join(inner, wide, [run for run in runs if run.shape["rows"] >= 4])
    assert whole is not None and str(whole).startswith("n >= 100:")
    for once in (inner, Region((Statement("n", ">=", 150), Statement("rows", "<", 8)), 0.4, 0.4, 8, 0, 19, (), ())):
        again = join(joined, once, runs)
        assert again is not None and again.rules == joined.rules
    ends = [LabelledRun({"n": n}, 0.4, n >= 20 or n in (1, 4, 6, 8)) for n in range(40)]
    ends = [run if run.fails else dataclasses.replace(run, divergence=0.0) for run in ends]
    low, high = (Statement("n", "<", 10),), (Statement("n", ">=", 30),)
    more = Region((Statement("n", ">=", 20),), 0.4, 0.4, 20, 0, 4, (), ())
    both = join(Region(low, 0.4, 0.4, 14, 6, 10, (), (), (high,)), more, ends)
    assert both is not None and set(both.rules) == {low, more.statements}  # not the third, which one of these implies
    apart = Region((Statement("rows", ">=", 16),), 0.4, 0.4, 3, 5, 24, (), ())
    small = Region((Statement("rows", "<", 2),), 0.4, 0.4, 3, 5, 24, (), ())
    assert join(apart, small, runs) is None
    other_sign = dataclasses.replace(narrow, low=-0.4, high=-0.4)
    assert join(wide, other_sign, runs) is None


def test_making_a_case_small_makes_no_more_blocks():
    """A smaller block would need more of them: the case is to stay within a few."""
    shape = {"n": 1000, "block_threads": 256}
    found = shrink(
        shape, lambda each: each["n"] >= 500, {"n": (), "block_threads": (32, 256)}, {"n": 100, "block_threads": 32},
        size=lambda each: -(-each["n"] // each["block_threads"]),
    )  # fmt: skip
    assert found["n"] == 500 and -(-found["n"] // found["block_threads"]) <= 4


class Dies(Property):
    name, threshold = "dies", 0.1

    def measure(self, kernel: str, shape: dict) -> Outcome:
        if shape["n"] > 500:
            raise DeadlockError("warps 0 and 1 wait for each other")
        return Outcome(0.0, "")


def test_a_workload_that_cannot_be_run_to_its_end_is_a_finding(small_pool):
    search = dataclasses.replace(new_search(Plan(("saxpy",), "bounds")), prop=Dies())
    search.run(max_examples=30)
    (finding,) = findings_of(search, options={}, gpu="h200")
    assert finding.minimal.divergence == 10.0 and "DeadlockError" in finding.minimal.detail
    assert 500 < finding.minimal.shape["n"] < 600


def test_a_search_for_the_first_divergence_stops_there(tmp_path, small_pool):
    plan = Plan(("bank_conflicts",), "gpus", {"other_set": "l1.bank_count=16"}, max_examples=50, first=True)
    explore(plan, tmp_path)
    (path,) = tmp_path.glob("runs-*-000-*.jsonl")  # the worker's
    rows = [json.loads(line) for line in path.read_text().splitlines()[1:]]
    assert [abs(row["divergence"]) > 0.05 for row in rows] == [False] * (len(rows) - 1) + [True]


@pytest.mark.by_day(2)
@pytest.mark.parametrize("kernel", ["transpose", "softmax", "coalescing", "histogram", "histogram_privatised"])
def test_counts_agree_with_the_trace_and_notice_one_sector(kernel, monkeypatch):
    prop = make_property("counts", H200, {})
    shape = find_kernel(kernel).small
    outcome = prop.measure(kernel, shape)
    assert outcome.divergence == 0.0, outcome.detail
    as_it_is = counts.count_trace

    def one_more(trace, banks):
        table = as_it_is(trace, banks)
        column = table[count.LOAD_SECTORS]
        column[np.argmax(column)] += 1
        return table

    monkeypatch.setattr(counts, "count_trace", one_more)
    outcome = prop.measure(kernel, shape)
    assert prop.fails(outcome) and "global_op_ld" in outcome.detail


@given(
    st.lists(st.integers(0, 4095), min_size=32, max_size=32),
    st.integers(0, 2**32 - 1),
    st.sampled_from((1, 2, 4, 8, 16)),
    st.sampled_from((0, 1, 2, 3)),
)
def test_counting_by_sorting_agrees_with_counting_by_hand(places, mask, width, alike):
    places = [places[lane & ~alike] for lane in range(32)]
    addresses = np.array([[place * width for place in places]], np.int64)
    lanes = np.array([[bool(mask >> lane & 1) for lane in range(32)]])
    on = [lane for lane in range(32) if lanes[0, lane]]
    assert trace_counts._sectors(addresses, lanes)[0] == len({places[lane] * width // 32 for lane in on})
    for merges in (False, True):
        passes = 0
        together = 32 // max(1, width // 4)
        pairs = [all(places[i] == places[i ^ far] for i in on if i ^ far in on) for far in (1, 2)]
        if merges and width > 4 and any(pairs):
            together *= 2
        for start in range(0, 32, together):
            banks: dict[int, set[int]] = {}
            for lane in on:
                if start <= lane < start + together:
                    for k in range(max(1, width // 4)):
                        word = places[lane] * width // 4 + k
                        banks.setdefault(word % 32, set()).add(word)
            passes += max((len(words) for words in banks.values()), default=0)
        assert trace_counts._wavefronts(addresses, lanes, np.array([width]), 32, merges)[0] == passes
    busy = Counter(places[lane] * width // 4 % 32 for lane in on)
    turns = max(busy.values(), default=0) * max(1, width // 4)
    assert trace_counts._atomic_wavefronts(addresses, lanes, np.array([width]), 32)[0] == turns


def test_another_gpusim_is_asked_and_its_answer_compared(tmp_path):
    """The other one is this one; a setting that only one of them gets is a divergence."""
    shape = find_kernel("histogram").small  # a shape with a decimal point
    same = make_property("versions", H200, {"other_gpusim": str(ROOT), "gpu": "h200"})
    assert same.measure("histogram", shape).divergence == 0.0
    slower = {"other_gpusim": str(ROOT), "gpu": "h200", "settings": "dram.miss_latency_ns=900.0"}
    outcome = make_property("versions", H200, slower).measure("saxpy", find_kernel("saxpy").small)
    assert outcome.divergence < -0.05 and "other gpusim" in outcome.detail
    with pytest.raises(UsageError, match="no other gpusim"):
        make_property("versions", H200, {"other_gpusim": str(tmp_path)})


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("print('error: no such axis', file=sys.stderr); return 2", UsageError),
        ("print('error: internal', file=sys.stderr); return 70", "the other says: error: internal"),
        ("print('no room', file=sys.__stderr__); sys.exit(9)", NoDataError),
    ],
)
def test_another_gpusim_that_refuses_fails_or_dies(body, found, tmp_path):
    package = tmp_path / "gpusim"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "cli.py").write_text(f"import sys\ndef run(arguments): {body}\n")
    prop = make_property("versions", H200, {"other_gpusim": str(tmp_path), "gpu": "h200"})
    shape = find_kernel("saxpy").small
    if isinstance(found, str):
        outcome = prop.measure("saxpy", shape)
        assert prop.fails(outcome) and outcome.detail == found
    else:
        with pytest.raises(found):
            prop.judge("saxpy", shape)


def test_a_better_machine_may_let_warps_drift_apart_but_not_slow_them_down():
    """Nearer DRAM lets the youngest warps of this histogram run ahead, and the oldest end alone: later, although all
    warps together waited less. A machine that is really worse is told."""
    gpu = override_gpu(H200, ["sm_count=2"])
    shape = {"n": 50000, "spread": 1.0, "block_threads": 449, "blocks": 3}
    covered = cover("histogram", shape, gpu)
    nearer = dataclasses.replace(gpu, dram=dataclasses.replace(gpu.dram, miss_latency_ns=gpu.dram.miss_latency_ns / 2))
    drifted = simulate(covered.traces, nearer)
    assert drifted.cycles > 1.03 * covered.result.cycles
    assert sum(drifted.stalls.values()) < sum(covered.result.stalls.values())
    relation = next(relation for relation in RELATIONS if "nearer DRAM" in relation.name)
    assert relation.times(covered, "histogram", shape, gpu) is None
    # As if the far machine were the near one's better: a fault that the relation must see.
    longer, shorter = relation.times(
        dataclasses.replace(covered, result=halved(covered.result)), "histogram", shape, gpu
    )
    assert longer > (1 + relation.slack) * shorter


BY_SIZE = """
import numpy as np
from numba import cuda

@cuda.jit
def narrow(x):
    x[cuda.grid(1)] += 1

@cuda.jit
def wide(x):
    x[cuda.grid(1)] += 2

def case(n=64):
    return narrow if n < 64 else wide, n // 32, 32, (np.zeros(n, np.float32),)
"""


def test_twice_the_work_is_that_of_the_same_kernel(tmp_path: Path):
    """A library takes wider loads where the size allows them: another machine code, of which nothing is known."""
    relation = next(relation for relation in RELATIONS if "twice" in relation.name)
    (tmp_path / "by_size.py").write_text(BY_SIZE)
    kernel = f"{tmp_path / 'by_size.py'}:case"
    for n, told in ((32, False), (64, True)):
        times = relation.times(cover(kernel, {"n": n}, H200), kernel, {"n": n}, H200)
        assert (times is not None) == told


def halved(result):
    """The result of a machine on which everything took half as long."""
    stalls = {name: cycles // 2 for name, cycles in result.stalls.items()}
    return dataclasses.replace(result, cycles=result.cycles // 2, stalls=stalls)


def test_the_order_of_blocks_may_not_matter_where_all_fit(monkeypatch):
    relation = next(relation for relation in RELATIONS if "order" in relation.name)
    shape = find_kernel("transpose").small
    covered = cover("transpose", shape, H200)
    longer, shorter = relation.times(covered, "transpose", shape, H200)
    assert longer <= (1 + relation.slack) * shorter and longer == max(longer, covered.result.cycles)
    turned = reversed_blocks(covered.traces[0])
    assert turned.warp_instructions == covered.traces[0].warp_instructions
    first, last = next(covered.traces[0].chunks()).warps[0], next(turned.chunks()).warps[-8]
    assert first["access_start"] == last["access_start"]
    many = {**find_kernel("stencil3").small, "n": 5000}
    small = override_gpu(H200, ["sm_count=2"])
    assert relation.times(cover("stencil3", many, small), "stencil3", many, small) is None
