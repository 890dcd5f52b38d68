"""Launches that are made again: what one of them leaves in memory is known if all that it can read is as it was.

Mental model: the emulator is a function of a launch and of the device's memory, so that a launch that begins in a state
of memory that it has begun in before ends as it ended then. Programs that measure themselves make the same launch a
hundred times, and after the first it finds its own results in memory and leaves them there. So the contents of all
allocations are kept in segments, a copy of each different one, and a state of memory is the numbers of its segments. A
launch that is made for the second time notes its state before and after; from then on it is looked up. Nothing is
guessed: contents are compared byte by byte, and a launch that prints, allocates or fails is always made.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from gpusim.io.memory_limit import machine_bytes
from gpusim.launch.memory import Allocation

#: Contents are compared and kept in pieces of this size.
SEGMENT_BYTES = 256 << 10
#: Different contents of a segment that are kept: now, and before the launches of a short cycle.
_VERSIONS = 4
#: States of memory in which a launch is known.
_STATES = 2
#: Launches that are known at one time.
_LAUNCHES = 512
#: Device memory beyond which nothing is kept, as a share of the machine's and in bytes: it may be kept
#: :data:`_VERSIONS` times.
_MEMORY_SHARE, _MOST_BYTES = 1 / 32, 512 << 20
#: Bytes that are compared and copied in a second, about, and the share of a launch's time that this may take.
_BYTES_PER_SECOND, _TIME_SHARE = 2e9, 0.1
#: So often a launch may begin in a new state before it is looked up more and more rarely.
_PATIENCE = 3
#: The longest interval at which a launch is looked up: 2 to the power of this.
_LONGEST_INTERVAL = 8

_compare = ctypes.CDLL(None).memcmp
_compare.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]


@dataclass(frozen=True, eq=False)
class _Version:
    """One content of a segment."""

    number: int
    content: bytes


@dataclass
class _State:
    """Memory ``before`` a launch, the segments that it ``changed`` with what it left there, and what it executed."""

    before: tuple
    changed: list[tuple[int, int, _Version]]
    warp_instructions: int


@dataclass
class _Known:
    """What is known of a launch: how long it took, in which states it has begun, and whether it is worth looking it
    up."""

    seconds: float = 0.0
    states: list[_State] = field(default_factory=list)
    misses: int = 0
    wait: int = 0


class Repeats:
    """The launches of a device that were made before."""

    def __init__(self) -> None:
        self._known: dict[Hashable, _Known] = {}
        self._kept: dict[
            tuple[int, int], list[list[_Version]]
        ] = {}  # by address and size: of each segment, the newest first
        self._number = 0
        self._before: tuple | None = None
        self._most_bytes = min(_MOST_BYTES, int(machine_bytes() * _MEMORY_SHARE))

    def begin(self, launch: Hashable, allocations: Sequence[Allocation]) -> int | None:
        """Bring ``allocations`` to where ``launch`` leaves them, if that is known, and return the warp instructions
        that it takes; None if it has to be made, and :meth:`end` then told."""
        self._before = None
        known = self._known.pop(launch, None)
        if known is None:
            known = _Known(wait=1)  # once is no repetition
            while len(self._known) >= _LAUNCHES:
                del self._known[next(iter(self._known))]
        self._known[launch] = known
        if known.wait:
            known.wait -= 1
            return None
        size = sum(allocation.size for allocation in allocations)
        if size > self._most_bytes or size / _BYTES_PER_SECOND > _TIME_SHARE * known.seconds:
            return None
        before = self._look(allocations)
        for state in known.states:
            if state.before == before:
                known.misses = 0
                self._bring(state, allocations)
                return state.warp_instructions
        self._before = before
        if known.states:
            known.misses += 1
        return None

    def end(self, launch: Hashable, allocations: Sequence[Allocation], seconds: float, warp_instructions: int) -> None:
        """``launch``, which was not known, has been made, in so much time."""
        known, before = self._known[launch], self._before
        self._before, known.seconds = None, seconds
        if before is None:
            return
        if known.misses >= _PATIENCE:
            known.states.clear()
            known.wait = 1 << min(known.misses, _LONGEST_INTERVAL)
            return
        after = self._look(allocations)
        changed = []
        for allocation, (*place, old), (*_, new) in zip(allocations, before, after, strict=True):
            different = [segment for segment, pair in enumerate(zip(old, new, strict=True)) if pair[0] != pair[1]]
            if different and allocation.base == allocation.host:
                return  # the host may have written there meanwhile
            versions = self._kept[place[0], place[1]]
            changed += [(allocation.base, segment, versions[segment][0]) for segment in different]
        known.states = [_State(before, changed, warp_instructions), *known.states[: _STATES - 1]]

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._kept.clear()

    def _look(self, allocations: Sequence[Allocation]) -> tuple:
        """The state of memory: of each allocation its address, size and the numbers of its segments' contents."""
        found = []
        kept: dict[tuple[int, int], list[list[_Version]]] = {}
        for allocation in allocations:
            place = allocation.base, allocation.size
            versions = self._kept.get(place)
            if versions is None:
                versions = [[] for _ in range(0, allocation.size, SEGMENT_BYTES)]
            kept[place] = versions
            numbers = tuple(
                self._version(known, allocation.host + start, min(SEGMENT_BYTES, allocation.size - start))
                for known, start in zip(versions, range(0, allocation.size, SEGMENT_BYTES), strict=True)
            )
            found.append((*place, numbers))
        self._kept = kept  # without what has been freed
        return tuple(found)

    def _version(self, known: list[_Version], host: int, size: int) -> int:
        """The number of the content of ``size`` bytes at ``host``, which becomes the newest of ``known``."""
        for i, version in enumerate(known):
            if not _compare(version.content, host, size):
                if i:
                    known.insert(0, known.pop(i))
                return version.number
        self._number += 1
        known.insert(0, _Version(self._number, ctypes.string_at(host, size)))
        del known[_VERSIONS:]
        return self._number

    @staticmethod
    def _bring(state: _State, allocations: Sequence[Allocation]) -> None:
        """Write what the launch has changed."""
        hosts = {allocation.base: allocation.host for allocation in allocations}
        for base, segment, version in state.changed:
            ctypes.memmove(hosts[base] + segment * SEGMENT_BYTES, version.content, len(version.content))
