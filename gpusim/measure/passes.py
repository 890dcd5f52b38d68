"""One timed run through a case, by CUDA events or by the driver's records, from caches in a stated state.

Mental model: everything is enqueued before any of it is timed. First the arrays are put back and the caches brought
to their state, then ``spin`` holds the stream while the host enqueues the launches with an event before and after each
timed one; so the GPU never waits for the host between an event and its kernel. Whether that was so is checked: if the
first event has passed before the last launch was enqueued, the run does not count, and the next one waits longer.
Records of kernels (CUPTI activity) hold nothing of the host, so that with them no run is repeated; which record is
whose is known by their order, and checked by grid and block.

- cold: L2 holds clean lines of another buffer, and so does nothing of the case. Then all launches in order, preparation
  too: what preparation leaves in the caches, the timed launches find, as in ``gpusim simulate``.
- warm: the whole case runs twice, and the second run is timed. Arrays are put back before each, by copies on the
  device.
"""

from __future__ import annotations

from dataclasses import dataclass

from gpusim.errors import SiliconError
from gpusim.measure.driver import Driver
from gpusim.measure.helpers import Helpers
from gpusim.measure.workload import BoundLaunch, DeviceWorkload

COLD, WARM = "cold", "warm"
EVENTS, CUPTI = "events", "cupti"
#: First guess of what enqueuing one thing costs the host, doubled as long as it is too little.
ENQUEUE_NS = 12_000
LONGEST_SPIN_NS = 1 << 25
#: A GPU that never waits, however often the spin is doubled, does its work within the calls: an emulated one.
MOST_TRIES = 4


@dataclass(frozen=True)
class Timed:
    """``times_us``: one a timed launch of the case; ``gap``: the host was too slow, so a gap of its may be in them."""

    times_us: tuple[float, ...]
    gap: bool


class Stopwatch:
    """Times runs of workloads on one GPU; keeps what it learned about the host's speed."""

    def __init__(self, driver: Driver, helpers: Helpers, method: str = EVENTS):
        self._driver, self._helpers, self._method = driver, helpers, method
        self._events: list[int] = []
        self._enqueue_ns = ENQUEUE_NS
        self._tries, self._has_waited = MOST_TRIES, False

    def case(self, workload: DeviceWorkload, cache: str) -> Timed:
        """Time every timed launch of ``workload`` once, from caches in the state ``cache``."""

        def prepare() -> None:
            workload.restore()
            if cache == COLD:
                self._helpers.sweep()
            else:
                workload.run(lambda launch: self._driver.launch(launch.bound))
                workload.restore()

        if self._method == CUPTI:
            return self._trace(prepare, workload.launches)
        return self._time(prepare, workload.launches)

    def _trace(self, prepare, launches: list[BoundLaunch]) -> Timed:
        prepare()
        self._driver.traced(0)  # of what prepared the run
        for launch in launches:
            self._driver.launch(launch.bound)
        found = self._driver.traced(len(launches))
        expected = [[*launch.launch.grid, *launch.launch.block] for launch in launches]
        if [record[2:] for record in found] != expected:
            raise SiliconError(
                f"CUPTI's records of {len(found)} kernels are not those of the {len(expected)} that were launched: give --method events"
            )
        times = [(r[1] - r[0]) / 1e3 for r, launch in zip(found, launches, strict=True) if launch.index is not None]
        return Timed(tuple(times), False)

    def empty(self) -> float:
        """Microseconds between the events around a launch that does nothing."""
        nothing = BoundLaunch(0, 0, None)
        return self._time(lambda: None, [nothing]).times_us[0]

    def _time(self, prepare, launches: list[BoundLaunch]) -> Timed:
        timed = sum(launch.index is not None for launch in launches)
        steps = len(launches) + 2 * timed
        while len(self._events) < 2 * timed:
            self._events.append(self._driver.event())
        for attempt in range(self._tries):
            self._driver.synchronize()
            prepare()
            self._helpers.spin(min(LONGEST_SPIN_NS, self._enqueue_ns * steps))
            at = 0
            for launch in launches:
                if launch.index is None:
                    self._driver.launch(launch.bound)
                    continue
                self._driver.record(self._events[at])
                if launch.bound:
                    self._driver.launch(launch.bound)
                else:
                    self._helpers.empty()
                self._driver.record(self._events[at + 1])
                at += 2
            gap = self._driver.has_passed(self._events[0])
            self._driver.synchronize()
            if not gap:
                self._has_waited = True
                break
            if attempt + 1 < self._tries and self._enqueue_ns * steps < LONGEST_SPIN_NS:
                self._enqueue_ns *= 2
        if gap and not self._has_waited:
            self._enqueue_ns, self._tries = ENQUEUE_NS, 1
        times = [self._driver.elapsed_us(self._events[i], self._events[i + 1]) for i in range(0, 2 * timed, 2)]
        return Timed(tuple(times), gap)
