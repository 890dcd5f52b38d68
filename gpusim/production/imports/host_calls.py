"""What the host was doing when it launched: the innermost range and operator around each launch call.

Mental model: host threads nest ranges (NVTX, annotations) and framework operators. All of them, and the launch calls,
are walked in the order of time with a stack a thread; a launch takes what is on top. A thread without a range of its
own (autograd's) takes the range that began last on another thread of the process and has not ended.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from gpusim.production.imports.sorted_records import SortedRecords

RANGE, OPERATOR, CALL = 0, 1, 2
#: ``what``: the number of a range or an operator, the correlation of a call. ``tie``: at one time, the longer first,
#: calls last.
HOST = np.dtype([("key", "i8"), ("tie", "i8"), ("end", "i8"), ("thread", "i4"), ("kind", "u1"), ("what", "i8")])
#: A launch call: from ``key`` >> 1, its correlation, to when and where it was.
CALLED = np.dtype([("correlation", "i8"), ("begin", "i8"), ("phase", "i4"), ("operator", "i4")])
_COUNTED = re.compile(r"#\d+$")
_COLLECTIVE = ("nccl:", "c10d::", "record_param_comms")


def phase_name(name: str) -> str:
    """A range's name without the count that makes each step its own ("ProfilerStep#17")."""
    return _COUNTED.sub("", name)


def is_phase(name: str) -> bool:
    """Whether a range says in which phase a program is: not those that frameworks put around one collective."""
    return not name.startswith(_COLLECTIVE)


class HostCalls:
    """Collects, then walks. Times in ns; threads by number."""

    def __init__(self) -> None:
        self._records = SortedRecords(HOST)

    def span(self, kind: int, begin_ns: int, end_ns: int, thread: int, number: int) -> None:
        """A RANGE or an OPERATOR."""
        self._records.append((begin_ns, -end_ns, end_ns, thread, kind, number))

    def call(self, begin_ns: int, thread: int, correlation: int) -> None:
        """A launch call."""
        self._records.append((begin_ns, 1 << 62, begin_ns, thread, CALL, correlation))

    def called(self) -> Iterator[np.ndarray]:
        """Launch calls as CALLED, in the order of time; once."""
        stacks: tuple[dict[int, list[tuple[int, int, int]]], ...] = ({}, {})
        for batch in self._records.batches():
            found = []
            for begin, _, end, thread, kind, what in batch.tolist():
                if kind == CALL:
                    phase = _innermost(stacks[RANGE].get(thread), begin)
                    if phase is None:
                        phase = _latest(stacks[RANGE], begin)
                    operator = _innermost(stacks[OPERATOR].get(thread), begin)
                    found.append((what, begin, phase or 0, operator or 0))
                else:
                    stack = stacks[kind].setdefault(thread, [])
                    _innermost(stack, begin)
                    stack.append((end, what, begin))
            yield np.array(found, CALLED)


def _innermost(stack: list[tuple[int, int, int]] | None, now: int) -> int | None:
    """The number on top of what has not ended; what has ended goes."""
    while stack:
        if stack[-1][0] >= now:
            return stack[-1][1]
        stack.pop()
    return None


def _latest(stacks: dict[int, list[tuple[int, int, int]]], now: int) -> int | None:
    last = None
    for stack in stacks.values():
        if _innermost(stack, now) is not None and (last is None or stack[-1][2] > last[0]):
            last = stack[-1][2], stack[-1][1]
    return None if last is None else last[1]
