"""What a program sees of launches that depend on each other programmatically (programmatic dependent launch) in
simulated time."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dependent_kernels import KERNELS, launch, without
from driver_api import Api, parameters

from gpusim.driver.ledger import simulated_ns
from gpusim.driver.timing import SimulatedClock
from gpusim.driver.work import PROGRAMMATIC_EDGE
from gpusim.engine.gpu import simulate
from gpusim.trace.record import Trace


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api("h200")
    made.ledger.wanted = replace(made.ledger.wanted, simulate=True)
    clock = SimulatedClock(made.driver.device, made.ledger.wanted)
    made.ledger._clock = clock
    made.driver.streams.now_ns = lambda device: simulated_ns(made.ledger, clock)
    yield made
    clock.close()


def run(api: Api, sources: list[str], programmatic: int) -> list[dict]:
    """The account of ``first`` and as many launches of ``second`` as there are further sources."""
    data, out, own = (api.upload(np.full(128, value, np.int32)) for value in (7, 0, 1))
    words = [ctypes.c_uint64(each) for each in (data, out, own)]
    launch(api, api.kernel(sources[0], "first"), parameters(words[0]), 0)
    for source in sources[1:]:
        launch(api, api.kernel(source, "second"), parameters(*words), programmatic)
    np.testing.assert_array_equal(api.download(out, np.int32, 128), np.arange(128) + 1)
    api.ledger.settle()
    return api.ledger.records()


def cycles(records: list[dict]) -> int:
    return sum(record["cycles"] * record["launches"] for record in records)


def test_a_dependent_launch_begins_earlier_only_if_the_one_before_lets_it(api: Api) -> None:
    start = api.driver.device.spec.launch.start_cycles
    for sources, saves in (([KERNELS, KERNELS], True), ([without("trigger"), KERNELS], False)):
        run(api, sources, programmatic=0)  # code and data are in the caches from now on
        api.ledger.rows.clear()
        alone = run(api, sources, programmatic=0)
        assert not any("overlap_cycles" in record for record in alone)
        api.ledger.rows.clear()
        both = run(api, sources, programmatic=1)
        api.ledger.rows.clear()
        assert [record["kernel"] for record in both] == ["first", "second"]
        assert all("overlap_cycles" in record for record in both) == saves
        saved = cycles(alone) - cycles(both)
        assert 0 < saved <= start if saves else saved == 0
        assert all(record["time_us_low"] < record["time_us"] < record["time_us_high"] for record in both)
        if saves:  # how far launches overlap was not measured: not at all lies within as well
            second = both[1]
            assert second["time_us_high"] > second["time_us"] * (1 + second["overlap_cycles"] / second["cycles"])


def told_of(api: Api) -> list[str]:
    kernels: list[str] = []
    api.ledger.told = lambda kind, record: kernels.append(record["kernel"]) if kind == "launch" else None
    return kernels


def test_a_launch_that_the_program_has_waited_for_is_told_of_and_overlapped_by_nothing(api: Api) -> None:
    """So nothing of it is lost if the program then leaves by ``_exit``."""
    told = told_of(api)
    out, own = (api.upload(np.zeros(128, np.int32)) for _ in range(2))
    words = [ctypes.c_uint64(each) for each in (out, out, own)]
    first, second = api.kernel(KERNELS, "first"), api.kernel(KERNELS, "second")
    launch(api, first, parameters(words[0]), 0)
    assert not told  # another launch may still overlap with it
    api.cuStreamSynchronize(0)
    assert told == ["first"]
    launch(api, second, parameters(*words), 1)
    api.cuCtxSynchronize(0)
    assert told == ["first", "second"]
    assert not any(record.get("overlap_cycles") for record in api.ledger.records())


def test_a_copy_behind_a_launch_decides_that_none_depends_on_it(api: Api) -> None:
    told = told_of(api)
    data = api.upload(np.zeros(128, np.int32))
    launch(api, api.kernel(KERNELS, "first"), parameters(ctypes.c_uint64(data)), 0)
    api.download(data, np.int32, 128)
    assert told == ["first"]


def test_a_long_chain_is_cut_and_says_so(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpusim.driver.ledger.MOST_GRIDS", 3)
    said: list[str] = []
    api.ledger.say = said.append
    data = api.upload(np.zeros(128, np.int32))
    kernel = api.kernel(KERNELS, "first")
    for _ in range(8):
        launch(api, kernel, parameters(ctypes.c_uint64(data)), 1)
    api.ledger.settle()
    (sentence,) = said
    assert sentence.startswith("no more than 3 launches") and "launch 3, first, begins when that has ended" in sentence
    assert sum(record["launches"] for record in api.ledger.records() if record.get("overlap_cycles")) == 5


def test_sampled_launches_overlap_where_no_block_would_be_left_out() -> None:
    made = Api("h200")
    made.ledger.wanted = replace(made.ledger.wanted, simulate=True, sample=True)
    made.ledger._clock = SimulatedClock(made.driver.device, made.ledger.wanted)
    records = run(made, [KERNELS, KERNELS], programmatic=1)
    assert records[1]["overlap_cycles"] > 0
    made.ledger._clock.close()


def test_an_edge_of_a_graph_lets_the_dependent_begin_early(api: Api) -> None:
    """Captured from a stream with the attribute; the edge says it (CUgraphEdgeData)."""
    data, out, own = (api.upload(np.full(128, value, np.int32)) for value in (7, 0, 1))
    words = [ctypes.c_uint64(each) for each in (data, out, own)]
    stream, graph, executable = (ctypes.c_uint64() for _ in range(3))
    api.cuStreamCreate(ctypes.addressof(stream), 1)
    api.cuStreamBeginCapture(stream, 0)
    launch(api, api.kernel(KERNELS, "first"), parameters(words[0]), 0, stream.value)
    launch(api, api.kernel(KERNELS, "second"), parameters(*words), 1, stream.value)
    api.cuStreamEndCapture(stream, ctypes.addressof(graph))
    edges, count = (ctypes.c_ubyte * 8)(), ctypes.c_size_t(1)
    nodes = (ctypes.c_uint64 * 2)()
    api.cuGraphGetEdges_v2(
        graph, ctypes.addressof(nodes), ctypes.addressof(nodes) + 8, ctypes.addressof(edges), ctypes.addressof(count)
    )
    assert bytes(edges) == PROGRAMMATIC_EDGE
    api.cuGraphInstantiateWithFlags(ctypes.addressof(executable), graph, 0)
    api.cuGraphLaunch(executable, stream)
    api.cuStreamSynchronize(stream)
    np.testing.assert_array_equal(api.download(out, np.int32, 128), np.arange(128) + 1)
    assert [record.get("overlap_cycles", 0) > 0 for record in api.ledger.records()] == [False, True]


def test_a_recorded_chain_keeps_who_depends_and_overlaps_in_gpusim_simulate(tmp_path: Path) -> None:
    made = Api("h200", folder=tmp_path)
    data, out, own = (made.upload(np.full(128, value, np.int32)) for value in (7, 0, 1))
    words = [ctypes.c_uint64(each) for each in (data, out, own)]
    launch(made, made.kernel(KERNELS, "first"), parameters(words[0]), 0)
    launch(made, made.kernel(KERNELS, "second"), parameters(*words), 1)
    traces = [Trace.load(path) for path in sorted(tmp_path.glob("*.trace"))]
    assert [trace.launch.dependent for trace in traces] == [False, True]
    assert [bool(one.overlap_cycles) for one in simulate(traces, "h200").launches] == [False, True]
