"""Is what a command says of its progress true: in time, of the whole, and written where it harms nothing?"""

from __future__ import annotations

import contextlib
import io
import opcode
import re
import sys
import threading
import time

import pytest

from gpusim.io import progress
from gpusim.io.progress import Display, Task


@pytest.fixture(autouse=True)
def as_commands_do(monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 2.0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def display(request, monkeypatch):
    """A display on ``request.param`` (a stream) and its clock; the test calls ``draw`` in the place of the thread."""
    monkeypatch.setattr(Display, "_run", lambda self: None)
    stream, clock = request.param(), Clock()
    shown = Display(stream, clock)
    yield shown, stream, clock
    shown.close()


def drawn(display: Display, clock: Clock, seconds: float) -> None:
    """As the thread would, every tenth of a second."""
    for _ in range(round(10 * seconds)):
        clock.now += 0.1
        display.draw()


@pytest.mark.parametrize("display", [io.StringIO], indirect=True)
def test_a_quick_command_says_nothing(display):
    shown, stream, clock = display
    work = Task("simulating saxpy", 100, "blocks")
    shown.begin(work)
    drawn(shown, clock, 1.8)
    work.to(100)
    shown.end(work, well=True)
    assert stream.getvalue() == ""


@pytest.mark.parametrize("display", [io.StringIO], indirect=True)
def test_a_log_gets_few_lines_with_an_estimate_that_is_true_and_a_last_one_of_the_whole(display):
    shown, stream, clock = display
    work = Task("simulating saxpy", 1000, "blocks")
    shown.begin(work)
    for second in range(1, 101):
        drawn(shown, clock, 1)
        work.to(10 * second)
    shown.end(work, well=True)
    *lines, last = stream.getvalue().splitlines()
    assert 5 <= len(lines) <= 8
    assert lines[2].startswith("simulating saxpy: 80 of 1,000 blocks, 8 %, 8 s, about ")
    minutes, seconds = re.findall(r"about (\d+) min (\d+) s left", lines[2])[0]
    assert 60 * int(minutes) + int(seconds) == pytest.approx(92, rel=0.1)
    assert last == "simulating saxpy: 1,000 of 1,000 blocks in 1 min 40 s"


@pytest.mark.parametrize("display", [io.StringIO], indirect=True)
def test_what_was_slow_once_does_not_spoil_the_estimate(display):
    shown, _, clock = display
    work = Task("comparing", 100, "points")
    shown.begin(work)
    drawn(shown, clock, 60)  # compiling
    for done in range(1, 51):
        drawn(shown, clock, 1)
        work.to(done)
    assert work.seconds_left(clock.now) == pytest.approx(50, rel=0.1)


@pytest.mark.parametrize("display", [io.StringIO], indirect=True)
def test_tasks_within_tasks_share_a_line_and_the_outermost_says_what_is_left(display):
    shown, stream, clock = display
    outer, inner = Task("comparing", 4, "points"), Task("simulating", 200, "blocks", lambda: (100, 0.5))
    shown.begin(outer)
    outer.to(1)
    shown.begin(inner)
    drawn(shown, clock, 10)
    assert "comparing: 1 of 4 points; simulating: 100 of 200 blocks, 38 %, " in stream.getvalue()
    shown.end(inner, well=True)
    shown.end(outer, well=False)
    assert " in " not in stream.getvalue()  # it did not end well: there is no whole to tell of


@pytest.mark.parametrize("display", [Terminal], indirect=True)
def test_a_terminal_has_one_line_that_lasting_ones_and_the_end_remove(display):
    shown, stream, clock = display
    work = Task("simulating", 10, "blocks")
    shown.begin(work)
    drawn(shown, clock, 5)
    assert "\n" not in stream.getvalue() and stream.getvalue().count("\r") > 3
    shown.say("found one")
    assert stream.getvalue().endswith("\r\x1b[Kfound one\n")
    drawn(shown, clock, 5)
    shown.end(work, well=False)
    assert stream.getvalue().endswith("\r\x1b[K")


def test_tasks_that_nobody_shows_write_nothing(capfd, monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    with progress.task("simulating", 10, "blocks") as work:
        work.to(5)
    assert capfd.readouterr() == ("", "")


def test_the_thread_of_a_command_writes_while_the_work_goes_on_and_ends_with_it(monkeypatch):
    monkeypatch.setattr(progress, "SILENT_SECONDS", 0.0)
    stream = io.StringIO()
    with progress.shown(stream), progress.task("simulating", 10, "blocks") as work:
        work.to(3)
        deadline = time.monotonic() + 60
        while "simulating: 3 of 10 blocks" not in stream.getvalue():
            assert time.monotonic() < deadline
            time.sleep(0.01)
    written = stream.getvalue()
    with progress.task("simulating", 10, "blocks"):
        pass
    assert stream.getvalue() == written


def test_a_signal_at_any_moment_of_a_task_s_begin_leaves_the_display_able_to_close():
    """Python looks for signals when a call has come back or a function begins: one arrives at each of these in turn."""
    moment, stuck = 1, []
    while True:
        display, seen = Display(io.StringIO()), _Raising(moment)
        sys.settrace(seen)
        try:
            with contextlib.suppress(KeyboardInterrupt, RuntimeError):
                display.begin(Task("capturing saxpy"))
        finally:
            sys.settrace(None)
        closing = threading.Thread(target=display.close, daemon=True)
        closing.start()
        closing.join(5.0)
        if closing.is_alive():
            stuck.append(seen.place)
        if seen.place is None:
            break
        moment += 1
    assert moment > 20  # from the start of the thread to the end
    assert stuck == []


class _Raising:
    """As a trace function: KeyboardInterrupt at the ``moment``-th time that Python looks for signals; ``place``: where
    that was."""

    def __init__(self, moment: int):
        self._left, self._before, self.place = moment, {}, None

    def __call__(self, frame, event, argument):
        frame.f_trace_opcodes = True
        if event == "opcode":
            before = self._before.get(frame, "")
            self._before[frame] = opcode.opname[frame.f_code.co_code[frame.f_lasti]]
            self._left -= before.startswith(("CALL", "RESUME"))
            if not self._left and self.place is None:
                self.place = frame.f_code.co_name, frame.f_lineno
                raise KeyboardInterrupt
        return self
