"""A link between devices: one packet behind another in each direction, then on their way together.

Mental model: a link has a lane from every device to every other. A packet waits until its lane is free, is put
on it byte by byte at the lane's rate, and arrives with its last byte, one latency after that byte was sent.
Lanes do not hinder one another.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.model.compiled import compiled
from gpusim.model.messages import TICKS_PER_CYCLE

#: Lanes' rates are held as ticks for so many bytes, so that they are whole numbers.
BYTES_OF_COST = 1 << 20


@dataclass(frozen=True)
class LinkSpec:
    """What a link is built from: its ``latency_ns``, the rate ``bytes_per_ns`` of each lane, and ``clock_hz``, the SM
    clock of the devices that it joins, which ticks are counted in."""

    latency_ns: float
    bytes_per_ns: float
    clock_hz: float

    @property
    def latency_ticks(self) -> int:
        """From a byte's sending to its arrival, to the nearest tick."""
        return round(self.latency_ns * self.clock_hz / 1e9 * TICKS_PER_CYCLE)

    @property
    def cost_ticks(self) -> int:
        """Ticks that :data:`BYTES_OF_COST` bytes take on a lane, to the nearest, at least 1."""
        return max(1, round(BYTES_OF_COST / self.bytes_per_ns * self.clock_hz / 1e9 * TICKS_PER_CYCLE))


@compiled
def carry(packets: np.ndarray, free: np.ndarray, latency: int, cost: int, until: int) -> int:
    """Send the packets that came before tick ``until``; how many these were. Their ``time`` becomes that of their
    arrival.

    ``packets`` PACKET[n] sorted by (time, source, sequence); ``free`` int64[devices, devices], the tick at which the
    lane from one device to another is free.
    """
    count = 0
    while count < packets.shape[0] and packets[count]["time"] < until:
        source, target = packets[count]["source"], packets[count]["device"]
        begin = max(packets[count]["time"], free[source, target])
        end = begin + (packets[count]["bytes"] * cost + BYTES_OF_COST - 1) // BYTES_OF_COST
        free[source, target] = end
        packets[count]["time"] = end + latency
        count += 1
    return count
