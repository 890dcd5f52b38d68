"""Several devices in simulated time: do their clocks run apart until one waits for another, and what does a launch say
of a peer's memory?"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from driver_api import AXPY, Api, axpy_parameters

from gpusim.driver.timing import SimulatedClock

N = 256


class Simulated(Api):
    """Two devices, of which the program's first is the node's second; ``said`` to the user."""

    def __init__(self) -> None:
        super().__init__("a100_80gb", devices=2, visible="1,0")
        self.ledger.wanted = replace(self.ledger.wanted, simulate=True)
        self.clock = self.ledger._clock = SimulatedClock(self.driver.device, self.ledger.wanted)
        self.driver.tell_simulated(self.clock)
        self.said: list[str] = []
        self.ledger.say = self.said.append

    def launch(self, x: int, y: int) -> float:
        """y += 2 x on the current device; nanoseconds that it took."""
        self.cuLaunchKernel(self.kernel(AXPY, "axpy"), 1, 1, 1, N, 1, 1, 0, 0, axpy_parameters(x, y, 2.0, N), 0)
        return 1e3 * self.ledger.rows[-1].timing.time_us

    def ones(self) -> int:
        return self.upload(np.ones(N, np.float32))


@pytest.fixture
def api() -> Iterator[Simulated]:
    made = Simulated()
    yield made
    made.clock.close()


def test_clocks_run_apart_until_the_program_or_a_device_waits(api: Simulated) -> None:
    took = []
    event = api.word("cuEventCreate", 0)
    for device in (0, 1):
        api.on(device)
        x = api.ones()
        took.append(api.launch(x, x) + api.launch(x, x))
        assert api.clock.now_ns(device) == pytest.approx(took[device])
    api.on(0)
    x = api.ones()  # a copy, for which the program waits
    more = api.launch(x, x)
    first = max(took[0], took[0]) + more
    api.cuEventRecord(event, 0)
    api.on(1)
    own = api.clock.now_ns(1)
    api.cuStreamWaitEvent(0, event, 0)
    assert own < first and api.clock.now_ns(1) == pytest.approx(first, abs=1)
    # The program waits for the second, and so begins nothing earlier on the first either.
    more = api.launch(y := api.ones(), y)
    api.at("cuCtxSynchronize", 12000)()
    api.on(0)
    least = api.launch(x, x)
    assert api.clock.now_ns(0) == pytest.approx(first + more + least, abs=2)


def test_a_peers_memory_is_told_from_the_own_however_devices_are_numbered(api: Simulated) -> None:
    there_context = api.on(1)
    there = api.ones()
    api.on(0)
    here = api.ones()
    api.cuCtxEnablePeerAccess(there_context, 0)
    _, own, peers = (api.launch(x, here) for x in (here, here, there))  # the first brings the code into the caches
    lines = N * 4 // 128
    rows = api.ledger.records()
    assert [row["link_bytes"] for row in rows] == [0, 0, lines * (128 + 2 * 32)]
    assert [row["device"] for row in rows] == [1, 1, 1]
    assert peers > own + 2 * 300 and np.isnan(rows[2]["time_us_low"])
    assert api.said == []


def test_that_mapped_memory_of_a_peer_is_timed_as_the_own_is_said(api: Simulated) -> None:
    size = 2 << 20
    properties = (ctypes.c_uint32 * 8)(1, 0, 1, 1)  # pinned, no handle, on device 1
    memory = api.word("cuMemCreate", size, ctypes.addressof(properties), 0)
    place = api.word("cuMemAddressReserve", size, 0, 0, 0)
    api.cuMemMap(place, size, 0, memory, 0)
    x = api.ones()
    rights = (ctypes.c_int * 3)(1, 0, 3)
    api.cuMemSetAccess(place, size, ctypes.addressof(rights), 1)
    for _ in range(2):
        api.launch(x, place)
    assert [row["link_bytes"] for row in api.ledger.records()] == [0] * len(api.ledger.records())
    assert (
        len(api.said) == 1
        and "mapped memory (cuMemCreate) of another device is timed as memory of the device" in api.said[0]
    )
    number = ctypes.c_int()
    api.cuPointerGetAttribute(ctypes.addressof(number), 9, place)
    assert number.value == 1
