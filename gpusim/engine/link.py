"""A link between devices as a part of the engine.

Mental model: packets wait in an inbox in their one total order; the jitted :func:`gpusim.model.link.carry` sends those
that have come before a tick, each on the lane from its source to its device.
"""

from __future__ import annotations

import numpy as np

from gpusim.engine.inbox import Inbox
from gpusim.engine.part import Outgoing
from gpusim.errors import SpecError
from gpusim.model.link import LinkSpec, carry
from gpusim.model.messages import PACKET


class LinkPart:
    """Lanes between ``devices`` devices. Takes PACKET, sends it on to its device. ``device`` is None: it belongs to
    none."""

    device = None

    def __init__(self, spec: LinkSpec, devices: int, name: str = "link") -> None:
        self.name = name
        self.last_tick = 0
        self._latency, self._cost = spec.latency_ticks, spec.cost_ticks
        self._free = np.zeros((devices, devices), np.int64)
        self._packets = Inbox(PACKET, (("source", 15), ("sequence", 31)))

    @property
    def minimum_latency_ticks(self) -> int:
        """Least latency of any message that this part sends."""
        return self._latency

    def deliver(self, batch: np.ndarray) -> None:
        """Take packets whose times are not before any tick already advanced to. Raises SpecError for a packet from or
        to a device that the link does not join."""
        for end in ("source", "device"):
            strangers = set(batch[end].tolist()) - set(range(len(self._free)))
            if strangers:
                raise SpecError(f"{self.name} joins devices 0 to {len(self._free) - 1}, not device {min(strangers)}")
        self._packets.add(batch)

    def next_tick(self) -> int:
        """Arrival of the earliest packet that has not been sent on; NEVER if there is none."""
        return self._packets.next_tick()

    def advance(self, until_tick: int) -> Outgoing:
        """Send on the packets that come strictly before ``until_tick``."""
        if self._packets.next_tick() >= until_tick:
            return []
        packets = self._packets.ordered(until_tick).copy()
        last_tick = int(packets["time"][-1])
        count = carry(packets, self._free, self._latency, self._cost, until_tick)
        self.last_tick = last_tick
        self._packets.drop(count)
        return [packets[:count]]

    def waiting_for(self) -> str:
        """One line: what is under way here; empty if nothing is."""
        return f"{self.name}: {len(self._packets)} packets not yet sent on" if len(self._packets) else ""
