"""Collectives of all ranks, joined by their place in the sequence, and who came last to them.

Mental model: ranks of a group run the same collectives in the same order, so that the n-th of one name, size and group
on one rank is the n-th on the others. It ends on all at about the same time, when the last has come: a rank's kernel is
longer by how much earlier it came. So the difference of durations tells the difference of arrivals, without a common
clock; the shortest belongs to the last. What is sent from point to point (SendRecv) is no such thing and is left out.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict

import numpy as np

from gpusim.production.imports.device_work import COMMUNICATION, NONE
from gpusim.production.imports.sorted_records import SortedRecords
from gpusim.production.launches import Launch

_COLLECTIVE = np.dtype([("key", "i8"), ("tie", "i4"), ("begin", "i8"), ("duration", "i8")])
MOST_KINDS = 1 << 20


class Collectives:
    """Gathers over ranks. ``names``: of kinds of collectives, by number."""

    def __init__(self) -> None:
        self.names: dict[int, str] = {}
        self._numbers: dict[Launch, int] = {}
        self._next: dict[int, Counter[int]] = defaultdict(Counter)
        self.records = SortedRecords(_COLLECTIVE)

    def add(self, rank: int, work: np.ndarray, rows: list[Launch]) -> None:
        """WORK of one GPU of a rank in the order of starts."""
        part = work[(work["class"] == COMMUNICATION) & (work["end"] != NONE)]
        if rank < 0 or not len(part):
            return
        row_numbers, at = np.unique(part["row"], return_inverse=True)
        numbers = np.array([self._number(rows[row]) for row in row_numbers.tolist()])[at]
        for number in sorted(set(numbers[numbers >= 0].tolist())):
            every = part[numbers == number]
            first = self._next[rank][number]
            self._next[rank][number] += len(every)
            made = np.zeros(len(every), _COLLECTIVE)
            made["key"] = (number << 32) + first + np.arange(len(every))
            made["tie"], made["begin"] = rank, every["begin"]
            made["duration"] = every["end"] - every["begin"]
            self.records.extend(made)

    def _number(self, launch: Launch) -> int:
        if launch not in self._numbers:
            self._numbers[launch] = -1
            if (name := collective_name(launch)) and len(self.names) < MOST_KINDS:
                number = int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest()) >> 1
                self.names[number] = name
                self._numbers[launch] = number
        return self._numbers[launch]


def collective_name(launch: Launch) -> str:
    """What ranks have in common of a collective: name, size, type and group; "" for none."""
    kernel = launch.kernel.split("(")[0]
    if launch.collective is not None:
        told = launch.collective
        if told.name.lower() in ("send", "recv", "sendrecv"):
            return ""
        return f"{told.name} of {told.elements} {told.dtype} in group {told.group or '?'} of {told.group_size}"
    return "" if "SendRecv" in kernel else kernel
