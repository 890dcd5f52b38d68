"""What a collector adds up: launches by kernel, shape, GPU and minute, and who launched them.

Mental model: a total is a key and counts that merge by addition, minimum, maximum and sketch, in any order and
grouping. Streams of a process mean nothing outside of it, so that they are merged here. It travels between collectors,
and lies in their database, as MessagePack checked against these types.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable
from typing import Annotated

import msgspec

from gpusim.record.sketch import merged
from gpusim.record.wire import ProcessRow

#: Counts, times and minutes from elsewhere: what SQLite can hold, and add to.
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 61)]
Bin = Annotated[int, msgspec.Meta(ge=0, le=1 << 15)]
#: Texts from elsewhere; a recorder cuts names at 2048 bytes and ranges at 256. A row always fits into a message.
Text = Annotated[str, msgspec.Meta(max_length=4096)]
Short = Annotated[str, msgspec.Meta(max_length=128)]
#: Of the row that stands for all that was too small to be kept.
OTHER = "other"


class What(msgspec.Struct, frozen=True, array_like=True):
    """A key. ``minute``: of Unix time, the first of ``minutes`` that it stands for. Hashes are hexadecimal, "" where
    unknown."""

    minute: Annotated[int, msgspec.Meta(ge=0, le=1 << 40)]
    minutes: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)]
    user: Count
    container: Short
    rank: int
    gpu: Short
    kernel: Text
    name_hash: Short
    code_hash: Short
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    registers: int
    static_shared_bytes: int
    dynamic_shared_bytes: int
    kind: Short
    nvtx: Text

    def digest(self) -> bytes:
        """16 bytes that stand for it."""
        return hashlib.blake2b(msgspec.msgpack.encode(self), digest_size=16).digest()


class Total(msgspec.Struct, array_like=True):
    """Counts of a key; times in ns, of the ``timed`` launches. A recorded launch may stand for several:
    ``weighted_launches`` sums the weights, ``weighted_ns`` weight times time. They are sums of their own, as a mean of
    weights says nothing of a sum of products. A total without ``weighted_ns`` tells in ``weighted_launches`` the weight
    of each of its launches instead, as files once did."""

    what: What
    launches: Count = 0
    timed: Count = 0
    sum_ns: Count = 0
    least_ns: Count = 0
    most_ns: Count = 0
    bins: dict[Bin, Count] = {}
    weighted_launches: float = 1.0
    weighted_ns: float = -1.0

    def __post_init__(self) -> None:
        if self.weighted_ns < 0:
            weight = self.weighted_launches
            self.weighted_launches, self.weighted_ns = weight * self.launches, weight * self.sum_ns

    def is_sound(self) -> bool:
        """Whether the counts agree with each other, as those from elsewhere must."""
        weights = (self.weighted_launches, self.weighted_ns)
        return sum(self.bins.values()) == self.timed and all(math.isfinite(each) and each >= 0 for each in weights)

    def add(self, other: Total) -> None:
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


def of_process(row: ProcessRow, user: int, container: str, rank: int, latest_minute: int = 1 << 40) -> Total:
    """A process's row, as the collector keeps it; ``user`` is the one that the kernel has told of the socket. No minute
    is later than
    ``latest_minute``: what never grows old would never be rolled up."""
    kernel = row.kernel
    what = What(
        min(row.minute, latest_minute), 1, user, container, rank, row.gpu, OTHER if row.kind == OTHER else kernel.name,
        f"{kernel.name_hash:016x}" if kernel.name_hash else "", f"{kernel.code_hash:016x}" if kernel.code_hash else "",
        row.grid, row.block, kernel.registers, kernel.static_shared_bytes, row.dynamic_shared_bytes, row.kind, row.nvtx,
    )  # fmt: skip
    return Total(what, row.launches, row.timed, row.sum_ns, row.least_ns, row.most_ns, dict(row.bins))


def summed(totals: Iterable[Total]) -> dict[bytes, Total]:
    """By the digest of their key; what is given is not changed."""
    by_key: dict[bytes, Total] = {}
    for total in totals:
        key = total.what.digest()
        there = by_key.get(key)
        if there is None:
            by_key[key] = msgspec.structs.replace(total, bins=dict(total.bins))
        else:
            there.add(total)
    return by_key


def as_other(what: What) -> What:
    """The key under which a small total is put together with others of its minute, GPU, user, container and rank."""
    return What(
        what.minute, what.minutes, what.user, what.container, what.rank, what.gpu, OTHER, "", "", (0, 0, 0), (0, 0, 0), 0, 0, 0,
        OTHER, "",
    )  # fmt: skip


def anywhere(total: Total) -> Total:
    """A total of what was launched, not where: GPU, rank and container are those of nobody."""
    return msgspec.structs.replace(total, what=msgspec.structs.replace(total.what, gpu="", rank=-1, container=""))
