"""What lies between the two readings of a clock that a program takes for a kernel's time.

Mental model: a window opened and closed by events holds the launches that were submitted between them, as far as the
stream of the closing event waits for them. One between two readings of the host's clock holds what the host has waited
for before the second. Launches that the window does not wait for are not in its time.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.claims.finding import ClaimFinding, Weight
from gpusim.claims.program_calls import CLOCK, ELAPSED, HOST_WAITS, LAUNCH, RECORD, STREAM_WAITS, Mark, ProgramCalls


def window_findings(calls: ProgramCalls) -> list[ClaimFinding]:
    """What is wrong with the windows of a program."""
    marks = calls.marks
    by_events = [_event_window(calls, place) for place, mark in enumerate(marks) if mark.what == ELAPSED]
    by_clock = _clock_windows(calls)
    windows = [window for window in (*by_events, *by_clock) if window is not None]
    if not windows:
        launches = sum(mark.what == LAUNCH for mark in marks)
        return [
            ClaimFinding(
                "no-window",
                Weight.SUSPECT,
                f"the program makes {launches} launches and times none of them, by events or by a clock of Python's that it reads itself",
            )
        ]
    found = []
    late = [window for window in windows if window[1]]
    if late:
        count = sum(window[1] for window in late)
        found.append(
            ClaimFinding(
                "not-waited-for", Weight.INVALID,
                f"in {len(late)} of {len(windows)} timed windows {count} launches are made that their end does not wait for: their time is not in it",
            )
        )  # fmt: skip
    empty = [window for window in windows if not window[0]]
    if len(empty) == len(windows):
        found.append(
            ClaimFinding("nothing-timed", Weight.INVALID, f"none of the {len(windows)} timed windows holds a launch")
        )
    elif empty:
        found.append(
            ClaimFinding(
                "empty-windows",
                Weight.SUSPECT,
                f"{len(empty)} of {len(windows)} timed windows hold no launch: results may be kept from call to call",
            )
        )
    return found


def _event_window(calls: ProgramCalls, place: int) -> tuple[int, int] | None:
    """(launches in a window between two events, those of them that its end does not wait for); None where an event was
    not recorded."""
    asked = calls.marks[place]
    first = _last_record(calls.marks, asked.start, place)
    last = _last_record(calls.marks, asked.event, place)
    if first is None or last is None or last < first:
        return None
    stream = calls.marks[last].stream
    assert stream is not None
    launches = [index for index in range(first + 1, last) if calls.marks[index].what == LAUNCH]
    return len(launches), sum(not _is_joined(calls, index, last, stream) for index in launches)


def _last_record(marks: Sequence[Mark], event: int | None, before: int) -> int | None:
    return next((i for i in range(before - 1, -1, -1) if marks[i].what == RECORD and marks[i].event == event), None)


def _is_joined(calls: ProgramCalls, launch: int, end: int, stream: int) -> bool:
    """Whether ``stream`` at mark ``end`` waits for a launch: by its order, by an event, or because the host has
    waited."""
    behind = {calls.marks[launch].stream or 0}  # streams whose later work comes behind the launch
    events: set[int] = set()
    for mark in calls.marks[launch + 1 : end]:
        at = mark.stream or 0
        if mark.what == HOST_WAITS:
            waited = mark.event in events if mark.event is not None else mark.stream is None or at in behind
            if waited:
                return True
        elif any(calls.joins(at, other) for other in behind):
            behind.add(at)
        if mark.what == RECORD and mark.event is not None:
            events.discard(mark.event)
            if at in behind:
                events.add(mark.event)
        elif mark.what == STREAM_WAITS and mark.event in events:
            behind.add(at)
    return any(calls.joins(stream, other) for other in behind)


def _clock_windows(calls: ProgramCalls) -> list[tuple[int, int]]:
    """The same of windows between the first and second, third and fourth ... reading of the host's clock."""
    readings = [place for place, mark in enumerate(calls.marks) if mark.what == CLOCK]
    found = []
    for first, last in zip(readings[::2], readings[1::2]):
        launches = [index for index in range(first + 1, last) if calls.marks[index].what == LAUNCH]
        late = sum(not _host_waited(calls, index, last) for index in launches)
        found.append((len(launches), late))
    return found


def _host_waited(calls: ProgramCalls, launch: int, end: int) -> bool:
    """Whether the host waits for a launch before mark ``end``."""
    return any(
        mark.what == HOST_WAITS and _is_covered(calls, launch, launch + 1 + place, mark)
        for place, mark in enumerate(calls.marks[launch + 1 : end])
    )


def _is_covered(calls: ProgramCalls, launch: int, place: int, mark: Mark) -> bool:
    if mark.event is not None:
        recorded = _last_record(calls.marks, mark.event, place)
        return (
            recorded is not None
            and recorded > launch
            and _is_joined(calls, launch, recorded, calls.marks[recorded].stream or 0)
        )
    return mark.stream is None or _is_joined(calls, launch, place, mark.stream)
