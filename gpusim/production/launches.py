"""A row of production: launches of one kernel with one shape, on one GPU and rank, in one phase.

Mental model: a row is a key (:class:`Launch`) and counts (:class:`LaunchTotal`) that merge by addition, minimum,
maximum and sketch, in any order and grouping. A recorded launch may stand for several (a sampled recording): its weight
goes into sums of its own, ``weighted_launches`` and ``weighted_ns``, and is never averaged. What a source does not tell
is None, -1 or "", never 0.

Times are in ns. Bounds are those of values that come from files.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Annotated, Literal, get_args

import msgspec

from gpusim.record.sketch import bin_of, merged

#: Bounds of what a file may hold. Names of templates reach 10,000 characters; importers cut what is longer.
MOST_NAME_CHARACTERS = 16_384
MOST_COUNT = 1 << 61
#: Rows of one file: a fleet's distinct launches; above it the smallest are put together as OTHER.
MOST_ROWS = 1_000_000

Name = Annotated[str, msgspec.Meta(max_length=MOST_NAME_CHARACTERS)]
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_COUNT)]
Weight = Annotated[float, msgspec.Meta(ge=0, le=1e300)]
Bin = Annotated[int, msgspec.Meta(ge=0, le=1 << 15)]
Extent = Annotated[int, msgspec.Meta(ge=0, le=1 << 32)]
Dim3 = tuple[Extent, Extent, Extent]
#: "operator": a framework's operator whose kernels the source does not tell.
Kind = Literal["kernel", "memcpy", "memset", "graph", "operator", "other"]
#: The stream: CUDA's default one, another, or not told.
StreamKind = Literal["default", "other", ""]
#: Name of the rows that stand for all that was too small to be kept.
OTHER = "other"
KINDS: tuple[str, ...] = get_args(Kind)


class Collective(msgspec.Struct, frozen=True, order=True, omit_defaults=True):
    """What a communication kernel does, as its annotation tells: ``elements`` of ``dtype`` that one rank puts in, and
    the group."""

    name: Name
    dtype: Name = ""
    elements: Count | None = None
    group_size: Count | None = None
    group: Name = ""


class Launch(msgspec.Struct, frozen=True, omit_defaults=True):
    """A key. ``shared_bytes``: static and dynamic, a block. ``gpu``: the model ("NVIDIA H200"); ``device``: which one
    of its host.
    ``phase``: the innermost range (NVTX, annotation) around the launch. ``operator``, ``shapes``, ``dtypes``: of the
    framework's operator around it, as its trace writes them."""

    kernel: Name
    kind: Kind = "kernel"
    grid: Dim3 | None = None
    block: Dim3 | None = None
    shared_bytes: Count | None = None
    registers: Count | None = None
    gpu: Name = ""
    device: Name = ""
    rank: Annotated[int, msgspec.Meta(ge=-1, le=1 << 31)] = -1
    stream_kind: StreamKind = ""
    phase: Name = ""
    operator: Name = ""
    shapes: Name = ""
    dtypes: Name = ""
    collective: Collective | None = None


class LaunchTotal(msgspec.Struct, omit_defaults=True):
    """Counts of a key. ``sum_ns``, ``least_ns``, ``most_ns`` and ``bins`` (:mod:`gpusim.record.sketch`) are of the
    ``timed`` launches, each counted once; ``weighted_ns`` sums their times by weight, ``weighted_launches`` the weights
    of all. ``moved_bytes``: of copies and collectives that tell it."""

    what: Launch
    launches: Count = 0
    timed: Count = 0
    sum_ns: Count = 0
    least_ns: Count = 0
    most_ns: Count = 0
    bins: dict[Bin, Count] = {}
    weighted_launches: Weight = 0.0
    weighted_ns: Weight = 0.0
    moved_bytes: Count = 0

    def is_sound(self) -> bool:
        """Whether the counts agree with each other, as those from a file must."""
        timed = self.timed <= self.launches and sum(self.bins.values()) == self.timed
        between = (
            self.least_ns <= self.most_ns and self.least_ns * self.timed <= self.sum_ns <= self.most_ns * self.timed
        )
        return timed and between and math.isfinite(self.weighted_launches) and math.isfinite(self.weighted_ns)

    @property
    def mean_ns(self) -> float | None:
        """Of the timed launches."""
        return self.sum_ns / self.timed if self.timed else None

    def launch(self, duration_ns: int | None, weight: float = 1.0, moved_bytes: int = 0) -> None:
        """Count one launch; None: its time is not known."""
        self.launches += 1
        self.weighted_launches += weight
        self.moved_bytes += moved_bytes
        if duration_ns is not None:
            self.least_ns = min(self.least_ns, duration_ns) if self.timed else duration_ns
            self.most_ns = max(self.most_ns, duration_ns)
            self.timed += 1
            self.sum_ns += duration_ns
            self.weighted_ns += weight * duration_ns
            at = bin_of(duration_ns)
            self.bins[at] = self.bins.get(at, 0) + 1

    def add(self, other: LaunchTotal) -> None:
        """Merge counts of the same key."""
        if other.timed:
            self.least_ns = min(self.least_ns, other.least_ns) if self.timed else other.least_ns
            self.most_ns = max(self.most_ns, other.most_ns)
            self.bins = merged(self.bins, other.bins)
        self.launches += other.launches
        self.timed += other.timed
        self.sum_ns += other.sum_ns
        self.weighted_launches += other.weighted_launches
        self.weighted_ns += other.weighted_ns
        self.moved_bytes += other.moved_bytes


def summed(totals: Iterable[LaunchTotal]) -> dict[Launch, LaunchTotal]:
    """By key; what is given is not changed."""
    by_key: dict[Launch, LaunchTotal] = {}
    for total in totals:
        there = by_key.get(total.what)
        if there is None:
            by_key[total.what] = msgspec.structs.replace(total, bins=dict(total.bins))
        else:
            there.add(total)
    return by_key


def as_other(what: Launch) -> Launch:
    """The key under which small rows of a rank, GPU and kind are put together."""
    return Launch(OTHER, what.kind, gpu=what.gpu, device=what.device, rank=what.rank)


def kept(by_key: dict[Launch, LaunchTotal], most: int = MOST_ROWS) -> list[LaunchTotal]:
    """At most ``most`` rows and those of OTHER: all but the smallest by time, then by launches; the sums stay what they
    were."""
    order = sorted(by_key.values(), key=lambda t: (-t.weighted_ns, -t.weighted_launches, msgspec.json.encode(t.what)))
    small = (msgspec.structs.replace(total, what=as_other(total.what)) for total in order[most:])
    return [*order[:most], *summed(small).values()]
