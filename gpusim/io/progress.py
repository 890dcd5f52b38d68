"""How far a command is, said on stderr once it takes more than two seconds.

Mental model: whatever takes long opens a task and notes in it how much is done, which costs an assignment. Tasks nest:
the points of a comparison hold the launches of a simulation. A command shows them (:func:`shown`): a thread of its own
reads them now and then and writes what is under way, how much of it is done, since when, and how long the outermost one
that knows its total will yet take. On a terminal that is one line, written over; elsewhere (a log, a pipe) a line at
intervals that double, so that an hour leaves a dozen. A task that was shown ends with a line that says the whole.
Where nobody shows them (gpusim as a library, worker processes) tasks write nothing.
"""

from __future__ import annotations

import contextlib
import os
import queue
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import TextIO

#: How long a command may be silent.
SILENT_SECONDS = 2.0
#: Between two versions of the line on a terminal, and between two looks at what is done.
TERMINAL_SECONDS = READ_SECONDS = 0.5
#: Below this share done, an estimate of what is left would be noise.
_LEAST_SHARE = 0.02
#: Of two readings so much apart, the second alone goes into the rate: kept readings stay few.
_READING_SHARE = 0.005


#: Asked how far a task is: (done, share), the share, 0 to 1, of its work.
Read = Callable[[], tuple[float, float]]


class Task:
    """``done`` of ``total`` ``unit`` of ``what`` (0: the total is not known). Where units are of unequal work, either
    ``weights`` says how much each of them is, in any unit, or ``read`` is asked when a line is due."""

    def __init__(
        self, what: str, total: float = 0, unit: str = "", read: Read | None = None, weights: Sequence[float] = ()
    ) -> None:
        self.what, self.total, self.unit, self._read = what, total, unit, read
        self._ends = [0.0, *accumulate(weights)]
        self.done: float = 0
        self.detail = ""
        self._readings: list[tuple[float, float]] = []
        self.begun = 0.0
        self.is_shown = False

    def to(self, done: float, detail: str = "") -> None:
        """So much is done now, in all; ``detail``: what is to be said of it."""
        self.done, self.detail = done, detail

    def refresh(self, within: float) -> float:
        """Ask how far it is; the share that is done, 0 where that is not known. ``within``: the share of the task
        within it."""
        share = 0.0
        if self._read is not None:
            self.done, share = self._read()
        elif len(self._ends) > 1:
            index = min(int(self.done), len(self._ends) - 1)
            following = min(index + 1, len(self._ends) - 1)
            share = self._ends[index] + within * (self._ends[following] - self._ends[index])
            share /= self._ends[-1] or 1.0
        elif self.total:
            share = (self.done + within) / self.total
        return min(1.0, max(0.0, share))

    def text(self) -> str:
        """What it is, and how much of it is done."""
        text = self.what
        if self.total:
            text += f": {self.done:,.0f} of {self.total:,.0f} {self.unit}".rstrip()
        elif self.unit:
            text += f": {self.done:,.0f} {self.unit}"
        return f"{text} ({self.detail})" if self.detail else text

    def note(self, now: float, share: float) -> None:
        """Keep when it was how far, from when anything is done on: what comes first (compiling) is no measure of the
        rest."""
        if not self._readings or share - self._readings[-1][1] >= _READING_SHARE:
            self._readings.append((now, share))

    def seconds_left(self, now: float) -> float | None:
        """At the pace of the later half of what is done. None while too little is done to say."""
        if not self._readings or now - self.begun < SILENT_SECONDS:
            return None
        last, share = self._readings[-1]
        before, was = [each for each in self._readings if each[1] <= share / 2 or each is self._readings[0]][-1]
        if share - was < _LEAST_SHARE:
            return None
        return max(0.0, (1.0 - share) * (last - before) / (share - was) - (now - last))


class Display:
    """Writes the tasks that are under way to ``stream``; ``clock`` gives seconds."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._clock = stream, clock
        self._terminal = stream.isatty() and os.environ.get("TERM") != "dumb"
        self._begun = clock()
        self._next = self._begun + SILENT_SECONDS
        self._open = False  # whether a line stands on the terminal that the next one overwrites
        self._lock = threading.RLock()
        # Filled by single calls into C: a signal that came within a threading.Event's own Python would leave its lock
        # taken, and the command waiting for it at its end.
        self._changed: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended = False
        self._thread: threading.Thread | None = None
        self.tasks: list[Task] = []

    def begin(self, task: Task) -> None:
        """A task within those that are under way."""
        with self._lock:
            task.begun = self._clock()
            self.tasks.append(task)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
                self._thread.start()
            elif len(self.tasks) == 1:  # it looks by itself while there are any
                self._changed.put(None)

    def end(self, task: Task, well: bool) -> None:
        """The innermost task has ended, ``well`` or not."""
        with self._lock:
            self.tasks.remove(task)
            if self.tasks:
                return
            self._clear()
            if well and task.is_shown and (passed := self._clock() - task.begun) >= SILENT_SECONDS:
                task.refresh(0.0)
                self._write(f"{task.text()} in {_duration(passed)}\n")

    def say(self, line: str) -> None:
        """A line that stays, above that of what is under way."""
        with self._lock:
            self._clear()
            self._write(line + "\n")

    def draw(self) -> None:
        """Look how far all is, and write it if it is time to."""
        with self._lock:
            if not self.tasks:
                return
            now = self._clock()
            line = self._line(now)
            if now < self._next:
                return
            self._next = now + (TERMINAL_SECONDS if self._terminal else max(SILENT_SECONDS, now - self._begun))
            for each in self.tasks:
                each.is_shown = True
            if self._terminal:
                self._write(f"\r{line[: shutil.get_terminal_size().columns - 1]}\x1b[K")
                self._open = True
            else:
                self._write(line + "\n")

    def _line(self, now: float) -> str:
        """``comparing: 3 of 19 points; simulating sgemm: 120 of 512 blocks, 17 %, 35 s, about 3 min left``: percents
        and the rest are of the outermost task of which they are known."""
        share, known, percent = 0.0, self.tasks[0], 0.0
        for each in reversed(self.tasks):  # a task's share grows with that of the task within it
            share = each.refresh(share)
            if share:
                known, percent = each, 100 * share
                each.note(now, share)
        words = ["; ".join(each.text() for each in self.tasks)]
        if percent:
            words.append(f"{percent:.0f} %")
        words.append(_duration(now - self.tasks[0].begun))
        if (left := known.seconds_left(now)) is not None:
            words.append(f"about {_duration(left)} left")
        return ", ".join(words)

    def close(self) -> None:
        """Leave the stream as it was, and the thread behind."""
        with self._lock:
            self._clear()
            self._ended = True
        self._changed.put(None)
        if self._thread is not None and self._thread.is_alive():  # a signal may have come as it was to start
            self._thread.join()

    def _clear(self) -> None:
        if self._open:
            self._write("\r\x1b[K")
            self._open = False

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError, ValueError):  # a full disk or a closed stream under the log stops no work
            self._stream.write(text)
            self._stream.flush()

    def _run(self) -> None:
        while not self._ended:
            self.draw()
            with contextlib.suppress(queue.Empty):
                self._changed.get(timeout=READ_SECONDS if self.tasks else None)


#: The display of the command that runs in this process, innermost last.
_displays: list[Display] = []


@contextlib.contextmanager
def shown(stream: TextIO | None = None) -> Iterator[Display]:
    """Show the tasks that are opened within, on ``stream`` (stderr)."""
    display = Display(sys.stderr if stream is None else stream)
    _displays.append(display)
    try:
        yield display
    finally:
        _displays.remove(display)
        display.close()


@contextlib.contextmanager
def task(
    what: str, total: float = 0, unit: str = "", read: Read | None = None, weights: Sequence[float] = ()
) -> Iterator[Task]:
    """Work that may take long, while the block runs; see :class:`Task` for the arguments, and :meth:`Task.to`. One of a
    single weighted unit leaves the word to the task within it."""
    opened = Task(what, total, unit, read, weights)
    if not _displays or len(weights) == 1:
        yield opened
        return
    display, well = _displays[-1], False
    display.begin(opened)
    try:
        yield opened
        well = True
    finally:
        display.end(opened, well)


def say(line: str) -> None:
    """Write a line to stderr, above that of what is under way."""
    if _displays:
        _displays[-1].say(line)
    else:
        print(line, file=sys.stderr, flush=True)


def _duration(seconds: float) -> str:
    """``35 s``, ``4 min 20 s``, ``2 h 5 min``; as exactly as somebody who waits wants to know."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        seconds = round(seconds / 10) * 10 if seconds > 300 else round(seconds)
        minutes, rest = divmod(int(seconds), 60)
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
