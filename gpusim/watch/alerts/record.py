"""An alert as it is kept: one cause, the series that it moved, and everything that was done about it.

Mental model: an alert is one row a cause (a commit, a compiler, a GPU description, a model, a host), however many
series moved. It walks from ``open`` over ``triaged`` (somebody said what it is), ``bisected`` (its first bad commit,
version or value is found) and ``fixed`` (somebody says it is mended) to ``verified`` (later runs show the old level).
Whatever changes it is an event, numbered within the alert.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gpusim.watch.change import percent_between

OPEN, TRIAGED, BISECTED, FIXED, VERIFIED = "open", "triaged", "bisected", "fixed", "verified"
STATES = (OPEN, TRIAGED, BISECTED, FIXED, VERIFIED)
REAL, METHOD, HARDWARE, NOISE, ACCEPTED = "real", "method", "hardware", "noise", "accepted"
#: What somebody found an alert to be; empty: nobody has said.
VERDICTS = ("", REAL, METHOD, HARDWARE, NOISE, ACCEPTED)
#: Verdicts after which nobody has anything to do.
SETTLED = (METHOD, HARDWARE, NOISE, ACCEPTED)
SLOWER, FASTER = "slower", "faster"
#: A series of an alert stands at its new level, or later runs showed the old one.
MOVED, BACK = "moved", "back"
#: Kinds of event: opened; state, verdict, owner set; a note; more series moved (grew), a series left it for another
#: alert (shrank), the cause was found to be an earlier one (moved); later runs showed the old level of a series (back);
#: the slowdown returned (reopened).
KINDS = ("opened", "state", "verdict", "owner", "note", "grew", "shrank", "moved", "back", "reopened")
#: Who does what the runs themselves show.
GPUSIM = "gpusim"


@dataclass(frozen=True)
class Alert:
    """``who``: the commit's hash, or "old -> new" of what changed of the method; ``commit``: the first commit at which
    it shows, at ``position`` of the plan's history; ``unseen``: commits just before that gave no value and may be the
    first. ``size_percent``: of the most-moved series, above 0 where it got slower. ``expiry``: the date on which an
    acceptance ends, empty for none. ``attribution``: of the most-moved series, as
    :func:`gpusim.regress.records.document` has it, empty where it has no stored launches. ``found``: what a bisection
    found. ``series``: how many moved; ``revision``: the number of its newest event, of the time ``changed``."""

    number: int
    plan: str
    state: str
    verdict: str
    reason: str
    expiry: str
    owner: str
    cause: str
    who: str
    commit: str
    position: int
    unseen: tuple[str, ...]
    author: str
    subject: str
    direction: str
    opened: str
    changed: str
    revision: int
    size_percent: float
    series: int
    found: str
    sentence: str
    attribution: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def settled(self) -> bool:
        """Whether nobody has anything to do: verified, found to be no fault, or an improvement."""
        found = self.state == TRIAGED and self.verdict in SETTLED
        return found or self.state == VERIFIED or self.direction == FASTER


@dataclass(frozen=True)
class AlertSeries:
    """A series of an alert, in its ``unit`` (cycles or us): from ``before`` at ``before_position`` to ``after`` at
    ``position``, that of ``commit``. ``name``: what a report calls it. The launches are those of the store; None for a
    measurement."""

    alert: int
    series_id: int
    name: str
    kernel: str
    shape: str
    launch: int
    gpu: str
    toolchain: str
    mode: str
    unit: str
    file: str
    commit: str
    position: int
    before_position: int
    before: float
    after: float
    before_launch_id: int | None
    after_launch_id: int | None
    state: str

    @property
    def percent(self) -> float:
        """Its change in percent of the value before; infinite where that is 0."""
        return percent_between(self.before, self.after)


@dataclass(frozen=True)
class AlertEvent:
    """What was done to an alert: its ``sequence`` there counts from 1, ``time`` is the writer's clock; ``before`` and
    ``after`` of what ``kind`` names; ``text`` says why."""

    alert: int
    sequence: int
    time: str
    who: str
    kind: str
    before: str
    after: str
    text: str
