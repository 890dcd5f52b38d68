"""Wrong tokens, counted by where they come from, so that nobody guesses for long.

Mental model: a window of time that slides; so many failures within it, and the address waits until the oldest of them
is out. How many addresses are remembered is bounded: the ones that failed longest ago are forgotten first. Each process
of a server counts its own.
"""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

MOST_FAILURES = 10
WINDOW_SECONDS = 60.0
MOST_ADDRESSES = 10_000


class Failures:
    """``clock``: seconds that never jump back."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._times: OrderedDict[str, deque[float]] = OrderedDict()
        self._lock = threading.Lock()

    def add(self, address: str) -> None:
        """Count a failure of ``address``."""
        with self._lock:
            times = self._times.setdefault(address, deque(maxlen=MOST_FAILURES))
            times.append(self._clock())
            self._times.move_to_end(address)
            if len(self._times) > MOST_ADDRESSES:
                self._times.popitem(last=False)

    def wait_seconds(self, address: str) -> int:
        """How long ``address`` has to wait, 0 for not at all."""
        with self._lock:
            times = self._times.get(address)
            if times is None or len(times) < MOST_FAILURES:
                return 0
            return max(0, math.ceil(times[0] + WINDOW_SECONDS - self._clock()))
