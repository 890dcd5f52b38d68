# tests/contributing/delay_part.py
import numpy as np

from gpusim.engine.inbox import Inbox
from gpusim.engine.part import Outgoing
from gpusim.model.messages import PACKET


class DelayPart:
    """Passes every packet on, ``latency_ticks`` later; any number at once."""

    device = None

    def __init__(self, latency_ticks: int, name: str = "delay") -> None:
        self.name, self.last_tick = name, 0
        self.minimum_latency_ticks = latency_ticks
        self._packets = Inbox(PACKET, (("source", 15), ("sequence", 31)))

    def deliver(self, batch: np.ndarray) -> None:
        """Take packets whose times are not before any tick already advanced to."""
        self._packets.add(batch)

    def next_tick(self) -> int:
        """Arrival of the earliest packet that has not been passed on; NEVER if there is none."""
        return self._packets.next_tick()

    def advance(self, until_tick: int) -> Outgoing:
        """Pass on the packets that come strictly before ``until_tick``."""
        if self.next_tick() >= until_tick:
            return []
        packets = self._packets.ordered().copy()
        count = int(np.searchsorted(packets["time"], until_tick))
        self.last_tick = int(packets["time"][count - 1])
        self._packets.drop(count)
        packets["time"] += self.minimum_latency_ticks
        return [packets[:count]]

    def waiting_for(self) -> str:
        """One line: what is under way here; empty if nothing is."""
        return f"{self.name}: {len(self._packets)} packets not yet passed on" if len(self._packets) else ""
