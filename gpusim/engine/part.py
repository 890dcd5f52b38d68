"""What a part of a machine is: the protocol that the engine asks of it.

Mental model: a part owns its state and nothing else. It is told what arrives (``deliver``), says when it next
has work (``next_tick``), runs through a stretch of time alone and hands over what it sent (``advance``). It never
calls another part; the machine's description (:mod:`gpusim.engine.graph`) says where its messages go. Every part
keeps four promises, which ``tests/timing/test_part_contract.py`` asks of each:

- nothing early: a message arrives no sooner than the least latency of its part after the tick of its cause;
- nothing lost: what was delivered is handled, and answered once where it asks for an answer;
- windows and order cannot be seen: neither the ticks at which ``advance`` stops, nor how messages are batched, nor
  the order of rows of equal time changes what is sent;
- quiet means quiet: while ``next_tick`` lies at or behind ``until_tick``, ``advance`` sends and changes nothing, and
  a part that owes nothing and is owed nothing waits for nothing.

Ticks are those of :mod:`gpusim.model.messages`.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np

#: Batches of messages, each of one of the dtypes of :mod:`gpusim.model.messages`, which says what kind it is of.
Outgoing = list[np.ndarray]


class Part(Protocol):
    """A unit of the machine that has a state and a place in time: SMs, L2, DRAM, dispatcher, link."""

    @property
    def name(self) -> str:
        """Its name in the machine, which is unique."""
        ...

    @property
    def device(self) -> int | None:
        """The number of the GPU that it belongs to; None for what lies between GPUs."""
        ...

    @property
    def minimum_latency_ticks(self) -> int:
        """Least time from an event of this part to the arrival of a message that it sends because of it."""
        ...

    @property
    def last_tick(self) -> int:
        """Tick of the latest event that this part has handled."""
        ...

    def deliver(self, batch: np.ndarray) -> None:
        """Take messages of one kind that are not before any tick already advanced to, in any order; nobody changes
        ``batch`` afterwards. Those that are for another part of the same node are ignored."""
        ...

    def next_tick(self) -> int:
        """Earliest tick with work, own or delivered; NEVER if there is none."""
        ...

    def advance(self, until_tick: int) -> Outgoing:
        """Handle everything strictly before ``until_tick``, a whole number of cycles, touching nothing outside the
        part; the messages sent, which nobody has yet seen."""
        ...

    def waiting_for(self) -> str:
        """One line on who waits here for what, empty if nobody does."""
        ...
