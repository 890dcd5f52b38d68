"""What a program sees of launches that depend on each other programmatically (programmatic dependent launch) in simulated time."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from dependent_kernels import KERNELS, launch, without
from driver_api import Api, parameters

from gpusim.driver.ledger import simulated_ns
from gpusim.driver.timing import SimulatedClock


@pytest.fixture
def api() -> Iterator[Api]:
    made = Api("h200")
    made.ledger.wanted = replace(made.ledger.wanted, simulate=True)
    clock = SimulatedClock(made.driver.device, made.ledger.wanted)
    made.ledger._clock = clock
    made.driver.streams.now_ns = lambda: simulated_ns(made.ledger, clock)
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
