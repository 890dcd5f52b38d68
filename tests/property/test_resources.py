"""Is more of any resource never slower? And would the search notice if it were?"""

from __future__ import annotations

import pytest

from gpusim.cases.suite import find_kernel
from gpusim.commands.exploring import DEFAULT_KERNELS
from gpusim.errors import UsageError
from gpusim.explore import resources
from gpusim.explore.property_registry import make_property
from gpusim.gpus import limits
from gpusim.gpus.limits import Better, better
from gpusim.gpus.load import known_keys, load_gpu
from gpusim.gpus.spec import value_of

H200 = load_gpu("h200")
#: Some of each kind: a rate, a latency, a size, a count, an interval.
KEYS = (
    "l2.hit_latency_ns", "dram.peak_bytes_per_ns", "l1.total_bytes", "l1.queue_entries", "instruction_cache.l1_bytes",
    "instruction_cache.stream_entries", "launch.start_cycles", "pipes.alu.interval_cycles",
)  # fmt: skip


def small(kernel: str) -> dict:
    return dict(find_kernel(kernel).small)


@pytest.mark.parametrize("key", known_keys())
def test_every_key_says_which_way_it_is_better(key):
    which = better(key)
    machine = resources.improved(H200, key, 2.0)
    if which is Better.NEITHER:
        assert machine is None
    elif machine is not None:
        before, after = value_of(H200, key), value_of(machine, key)
        assert (after > before) == (which is Better.MORE) and after != before


def test_most_keys_can_be_made_better_alone():
    stuck = {key for key in known_keys() if better(key) and resources.improved(H200, key, 2.0) is None}
    # All others are at their best already, or there is no such unit: an H200 has no tensor memory, so none of its keys
    # can be set.
    assert all(value_of(H200, key) in (0, 1, False) or key.startswith("tensor_memory.") for key in stuck)


def test_better_keys_make_a_small_launch_no_slower():
    outcome = resources.Resources(H200, KEYS).measure("saxpy", small("saxpy"))
    assert outcome.divergence == 0.0 and "none of 8 keys" in outcome.detail
    assert outcome.coverage.launches


def test_a_key_that_makes_it_slower_is_found(monkeypatch):
    # Who believed that a longer way to the L2 were better would be told.
    monkeypatch.setitem(limits._BETTER_BY_KEY, "crossbar.request_latency_ns", Better.MORE)
    prop = make_property("resources", H200, {"key": "launch.start_cycles\ncrossbar.request_latency_ns", "by": 8.0})
    outcome = prop.measure("saxpy", small("saxpy"))
    assert prop.fails(outcome) and "crossbar.request_latency_ns=320.0" in outcome.detail


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"key": "l2.hit_latency"}, "l2.hit_latency_ns"),
        ({"key": "l2.ways"}, "neither more nor less"),
        ({"by": 1.0}, "--by 1"),
        ({"by": float("nan")}, "--by nan"),
    ],
)
def test_mistakes_are_answered(options, words):
    with pytest.raises(UsageError, match=words):
        make_property("resources", H200, options)


@pytest.mark.nightly
@pytest.mark.parametrize("kernel", DEFAULT_KERNELS)
def test_better_keys_make_no_kernel_slower(kernel):
    outcome = resources.Resources(H200).measure(kernel, small(kernel))
    assert outcome.divergence == 0.0, outcome.detail
