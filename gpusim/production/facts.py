"""What is found about the timing of launches: one record a finding, with the numbers and the launches that show it.

Mental model: a fact says in one line what was seen, about which rank and GPU, holds every number that the line is made
of (under names that end in their unit), and names launches as evidence: what ran, when, for how long. Times of evidence
are those of the source's clock.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

import msgspec

from gpusim.io.records import Finite
from gpusim.production.launches import MOST_COUNT, Name

Whole = Annotated[int, msgspec.Meta(ge=-MOST_COUNT, le=MOST_COUNT)]
#: What a fact is about: time between launches without any, launches that wait, communication beside computation, from
#: call to start, a rank that comes late to collectives, a kernel that is slower on one GPU.
Topic = Literal["idle", "queue", "overlap", "delay", "straggler", "slower"]
TOPICS: tuple[str, ...] = get_args(Topic)
MOST_EVIDENCE = 64


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """A launch, or a span of time: ``begin_ns`` by the source's clock."""

    name: Name
    begin_ns: Whole | None = None
    duration_ns: Whole | None = None
    rank: int = -1
    value: Finite | None = None


class Fact(msgspec.Struct, frozen=True, omit_defaults=True):
    """A finding. ``numbers``: by names that end in their unit; ``about``: a kernel or a collective, "" for all of
    them."""

    topic: Topic
    summary: Name
    rank: int = -1
    device: Name = ""
    about: Name = ""
    numbers: Annotated[dict[Name, Finite], msgspec.Meta(max_length=256)] = {}
    evidence: Annotated[list[Evidence], msgspec.Meta(max_length=MOST_EVIDENCE)] = []
