"""Launches that are made again: is what they leave in memory looked up where it is known, and only there?"""

from __future__ import annotations

import numpy as np
import pytest

from gpusim.driver.repeats import SEGMENT_BYTES, Repeats
from gpusim.launch.memory import Allocation

BASE = 0x7F00_0000_0000
SLOW = 10.0  # seconds that a launch takes, so that looking it up is worth while


class Device:
    """Memory with one array, and a launch that adds to it; ``made``: how often it was really made."""

    def __init__(self, size: int = 3 * SEGMENT_BYTES + 5, on_host: bool = False):
        self.data = np.zeros(size, np.uint8)
        base = self.data.ctypes.data if on_host else BASE
        self.allocations = [Allocation(base, size, self.data.ctypes.data, "data")]
        self.repeats, self.made = Repeats(), 0

    def launch(self, key: str = "k", where: int = -1, value: int = 7, add: bool = False, seconds: float = SLOW) -> int:
        executed = self.repeats.begin(key, self.allocations)
        if executed is None:
            self.made += 1
            self.data[where] = self.data[where] + value if add else value
            executed = 100
            self.repeats.end(key, self.allocations, seconds, executed)
        return executed


def test_a_launch_that_changes_nothing_more_is_made_twice() -> None:
    device = Device()
    assert [device.launch() for _ in range(5)] == [100] * 5
    assert device.made == 2 and device.data[-1] == 7


def test_what_a_launch_leaves_is_brought_back_from_where_it_began() -> None:
    device = Device()
    for _ in range(4):
        device.data[:] = 1
        device.launch(add=True)
        assert device.data[-1] == 8 and (device.data[:-1] == 1).all()
    assert device.made == 2


@pytest.mark.parametrize("place", [0, SEGMENT_BYTES, -2])
def test_any_byte_that_differs_makes_it_anew(place) -> None:
    device = Device()
    for _ in range(3):
        device.launch()
    device.data[place] ^= 1
    device.launch()
    assert device.made == 3


def test_other_parameters_and_other_memory_are_another_launch() -> None:
    device = Device()
    for _ in range(3):
        device.launch()
    device.launch("other", value=8)
    assert device.data[-1] == 8
    device.allocations.append(Allocation(BASE + (1 << 30), 8, np.zeros(8, np.uint8).ctypes.data, "more"))
    device.launch()
    assert device.made == 4 and device.data[-1] == 7


def test_memory_that_the_host_may_write_meanwhile_is_never_written() -> None:
    device = Device(on_host=True)
    for _ in range(4):
        device.data[:] = 1
        device.launch(add=True)
    assert device.made == 4
    still = Device(on_host=True)
    for _ in range(4):
        still.launch()  # there is nothing to write
    assert still.made == 2


def test_short_launches_and_large_memories_are_not_looked_up(monkeypatch) -> None:
    short = Device()
    for _ in range(4):
        short.launch(seconds=1e-6)
    assert short.made == 4
    monkeypatch.setattr("gpusim.driver.repeats._MOST_BYTES", SEGMENT_BYTES)
    large = Device()
    for _ in range(4):
        large.launch()
    assert large.made == 4


def test_a_launch_that_never_repeats_is_looked_up_more_and_more_rarely(monkeypatch) -> None:
    device, looked = Device(16), []
    look = device.repeats._look
    monkeypatch.setattr(device.repeats, "_look", lambda allocations: looked.append(device.made) or look(allocations))
    for _ in range(200):
        device.launch(add=True, value=1)
    assert device.made == 200 and device.data[-1] == 200
    assert len(looked) < 30
