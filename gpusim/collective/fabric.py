"""Links as parts of a machine, and messages that share them, as SimPy runs them.

Mental model: a link is a queue that serves the packets of all its messages in turn, at one rate; a message goes over
the links of its path at once, packet behind packet. With packets that are small beside messages that is a flow: each
message gets an equal share of its narrowest link, and what it cannot use there others have (max-min fairness). Rates
change only where a message begins or ends, so that nothing is simulated in between. A message arrives one latency after
its last byte was sent.

All is in bytes on the wire and seconds. The same messages in the same order give the same times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import simpy

from gpusim.io.jit_cache import kept

#: Links that one message may pass: channels of its sender, the ports of both ends, and what lies between.
MOST_LINKS = 8
#: Of a message what may be left for it to count as sent: rounding.
_LEFT = 1e-9
_SOON = 1e-15


@kept
def fair_rates(links, loads, capacity):
    """Rates of messages, in bytes a second: float64[messages].

    ``links``: int64[messages, MOST_LINKS], of each message the links that it passes, -1 where there are no more;
    ``loads``: float64 of the same shape, bytes on that link for each byte of the message; ``capacity``: float64[links],
    bytes a second. The rates of all messages are raised alike until a link is full; those of its messages stay, and the
    others go on (progressive filling; Bertsekas and Gallager, Data Networks, 6.5.2)."""
    messages, hops = links.shape
    # Links that carry something, numbered anew: a cluster has many that do not.
    place = np.full(len(capacity), -1, np.int64)
    used = 0
    path = np.full((messages, hops), -1, np.int64)
    for message in range(messages):
        for hop in range(hops):
            link = links[message, hop]
            if link >= 0:
                if place[link] < 0:
                    place[link] = used
                    used += 1
                path[message, hop] = place[link]
    whole = np.zeros(used)
    for link in range(len(capacity)):
        if place[link] >= 0:
            whole[place[link]] = capacity[link]
    left = whole.copy()
    rates = np.zeros(messages)
    going = np.ones(messages, np.bool_)
    level = 0.0
    waiting = messages
    while waiting > 0:
        wanted = np.zeros(used)
        for message in range(messages):
            if going[message]:
                for hop in range(hops):
                    if path[message, hop] >= 0:
                        wanted[path[message, hop]] += loads[message, hop]
        step = np.inf
        for link in range(used):
            if wanted[link] > 0.0:
                step = min(step, max(0.0, left[link]) / wanted[link])
        level += step
        for link in range(used):
            left[link] -= step * wanted[link]
        for message in range(messages):
            if not going[message]:
                continue
            full = False
            for hop in range(hops):
                link = path[message, hop]
                if link >= 0 and left[link] <= 1e-9 * whole[link]:
                    full = True
            if full:
                going[message] = False
                rates[message] = level
                waiting -= 1
    return rates


class Fabric:
    """Links, and the messages on them now. ``environment``: of SimPy; its time is in seconds."""

    def __init__(self, environment: simpy.Environment) -> None:
        self.environment = environment
        self.names: list[str] = []
        self._capacity = np.zeros(0)
        self._carried = np.zeros(0)
        self._spare: list[int] = []
        self._links = np.full((0, MOST_LINKS), -1, np.int64)
        self._loads = np.zeros((0, MOST_LINKS))
        self._left = np.zeros(0)
        self._total = np.zeros(0)
        self._rates = np.zeros(0)
        self._arrivals: list[tuple[simpy.Event, float]] = []
        self._coming: list[tuple[Sequence[int], Sequence[float], float, float, simpy.Event]] = []
        self._since = environment.now
        self._turn = 0
        self._changing = False

    def link(self, name: str, bytes_per_second: float) -> int:
        """A new link's number. Raises ValueError for a rate that is none."""
        if not 0.0 < bytes_per_second < np.inf:
            raise ValueError(f"{name}: a link of {bytes_per_second} bytes a second")
        if self._spare:
            link = self._spare.pop()
            self.names[link], self._capacity[link], self._carried[link] = name, bytes_per_second, 0.0
            return link
        self.names.append(name)
        self._capacity = np.append(self._capacity, bytes_per_second)
        self._carried = np.append(self._carried, 0.0)
        return len(self.names) - 1

    def release(self, link: int) -> None:
        """A link that carries nothing any more: its number may be another's."""
        self._spare.append(link)

    def set_rate(self, link: int, bytes_per_second: float) -> None:
        """From now on; messages under way go on at what is fair then."""
        if bytes_per_second != self._capacity[link]:
            self._capacity[link] = bytes_per_second
            self._change()

    def send(
        self, links: Sequence[int], message_bytes: float, latency_seconds: float = 0.0, loads: Sequence[float] = ()
    ) -> simpy.Event:
        """The event of the arrival of a message that is sent from now on. ``loads``: bytes on each link for one of the
        message, 1 where not given. Raises ValueError for a path of no links, or of more than MOST_LINKS."""
        if not 1 <= len(links) <= MOST_LINKS:
            raise ValueError(f"a message over {len(links)} links, not 1 to {MOST_LINKS}")
        arrival = self.environment.event()
        if message_bytes <= 0.0:
            return self.environment.timeout(latency_seconds)
        self._coming.append(
            (tuple(links), tuple(loads) or (1.0,) * len(links), message_bytes, latency_seconds, arrival)
        )
        self._change()
        return arrival

    def carried_bytes(self) -> dict[str, float]:
        """By link, of what was sent so far."""
        self._advance()
        return dict(zip(self.names, self._carried.tolist(), strict=True))

    def _change(self) -> None:
        """Rates are settled once for all that happens at this time."""
        if not self._changing:
            self._changing = True
            self.environment.timeout(0.0).callbacks.append(self._settle)  # type: ignore[union-attr]

    def _settle(self, _event: simpy.Event) -> None:
        self._changing = False
        self._advance()
        self._take()
        self._serve()

    def _take(self) -> None:
        """Messages that wait to begin."""
        if not self._coming:
            return
        count = len(self._coming)
        links, loads = np.full((count, MOST_LINKS), -1, np.int64), np.zeros((count, MOST_LINKS))
        for row, (path, each, *_) in enumerate(self._coming):
            links[row, : len(path)], loads[row, : len(path)] = path, each
        sizes = np.array([each[2] for each in self._coming])
        self._links, self._loads = np.concatenate([self._links, links]), np.concatenate([self._loads, loads])
        self._left, self._total = np.concatenate([self._left, sizes]), np.concatenate([self._total, sizes])
        self._arrivals += [(arrival, latency) for *_, latency, arrival in self._coming]
        self._coming = []

    def _serve(self) -> None:
        """New rates, and a wake-up when the first message has been sent."""
        self._turn += 1
        if not len(self._left):
            self._rates = np.zeros(0)
            return
        self._rates = fair_rates(self._links, self._loads, self._capacity)
        first = float((self._left / self._rates).min())
        turn = self._turn
        self.environment.timeout(first).callbacks.append(lambda _event: self._wake(turn))  # type: ignore[union-attr]

    def _wake(self, turn: int) -> None:
        if turn != self._turn:
            return  # rates have changed since
        self._advance()
        self._take()
        self._serve()

    def _advance(self) -> None:
        """What was sent since the last change; messages that have been sent whole are on their way."""
        now = self.environment.now
        elapsed, self._since = now - self._since, now
        if not len(self._left):
            return
        sent = np.minimum(self._left, elapsed * self._rates)
        np.maximum(self._left - sent, 0.0, out=self._left)
        used = self._links >= 0
        np.add.at(self._carried, self._links[used], (sent[:, None] * self._loads)[used])
        # What would be sent within what times are rounded to has been sent.
        soon = self._rates * (_SOON + 4e-16 * now)
        ended = self._left <= np.maximum(_LEFT * self._total, soon)
        if not ended.any():
            return
        for place in np.flatnonzero(ended).tolist():
            arrival, latency = self._arrivals[place]
            if latency > 0.0:
                self.environment.timeout(latency).callbacks.append(_arriving(arrival))  # type: ignore[union-attr]
            else:
                arrival.succeed()
        stay = ~ended
        self._links, self._loads = self._links[stay], self._loads[stay]
        self._left, self._total, self._rates = self._left[stay], self._total[stay], self._rates[stay]
        self._arrivals = [each for each, keep in zip(self._arrivals, stay.tolist(), strict=True) if keep]


def _arriving(arrival: simpy.Event) -> Callable[[simpy.Event], object]:
    return lambda _event: arrival.succeed()
