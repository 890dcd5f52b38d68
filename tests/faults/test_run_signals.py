"""``gpusim run``: does Ctrl-C or a SIGTERM end a program at once, whatever it is doing, with its launches so far?

Each program tells on stdout when it stands where the signal is to meet it; the kernels tell through memory that the
host sees.
"""

from __future__ import annotations

import json
import os
import signal
import textwrap
import threading
from collections.abc import Callable, Iterator

import pytest
from forked_commands import Command

HEAD = """
import signal, threading, time, warnings
import numpy as np
from numba import cuda
warnings.simplefilter("ignore")

@cuda.jit
def quick(flags):
    flags[2] += 1

@cuda.jit
def wait(flags):  # it counts, so that it never looks as if it went in circles
    flags[0] = 1
    while flags[1] == 0:
        flags[2] += 1
        cuda.threadfence()  # or the compiler reads the flag once

flags = cuda.mapped_array(3, np.int64)
flags[:] = 0
quick[1, 1](flags)

def tell():
    while flags[0] == 0:
        time.sleep(0.01)
    print("here", flush=True)

threading.Thread(target=tell, daemon=True).start()
"""
BESIDE = """
    beside = threading.Thread(target=lambda: wait[1, 1](flags))
    beside.start()
    beside.join()
"""
# A C call in NVVM's place that nothing ends: a lock that is taken twice.
COMPILING = """
    import ctypes
    from numba.cuda.cudadrv import nvvm
    lock = ctypes.create_string_buffer(64)
    take = ctypes.CDLL(None).pthread_mutex_lock
    class Stuck:
        def __getattr__(self, name):
            return getattr(real, name)
        def compile_program(self, *arguments):
            take(lock)
            print("here", flush=True)
            take(lock)
    real, nvvm._nvvm = nvvm._nvvm, Stuck()
    wait[1, 1](flags)
"""
IDLE = """
    print("here", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def start(tmp_path) -> Iterator[Callable[..., Command]]:
    """``start(text, *options)``: a program under ``gpusim run`` that has told that it is where it is to be."""
    started: list[Command] = []

    def call(text: str, *options: str) -> Command:
        (tmp_path / "script.py").write_text(HEAD + textwrap.dedent(text))
        started.append(Command(("run", *options, "script.py"), tmp_path))
        guard = threading.Timer(120, os.killpg, (started[0].pid, signal.SIGKILL))  # it may hang before it is there
        guard.start()
        said = started[0].out_line()
        guard.cancel()
        assert said == "here\n", started[0].finish(60)
        return started[0]

    yield call
    for command in started:
        command.kill()


@pytest.mark.by_day(2)
@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("wait[1, 1](flags)", signal.SIGINT),
        ("wait[1, 1](flags)", signal.SIGTERM),
        (BESIDE, signal.SIGINT),
        (COMPILING, signal.SIGINT),
        (IDLE, signal.SIGTERM),
    ],
    ids=["launch-int", "launch-term", "thread-int", "compiler-int", "idle-term"],
)
def test_a_signal_ends_the_program_with_its_launches_so_far(start, tmp_path, text, number) -> None:
    process = start(text, "-o", "launches.json", "--format", "json")
    os.kill(process.pid, number)
    ended = process.finish(40)
    out, said = ended.stdout, ended.stderr
    assert ended.returncode == 128 + number, said
    assert not out and "Traceback" not in said and "internal error" not in said and "no kernel" not in said
    lines = said.splitlines()
    assert ("error: interrupted" if number == signal.SIGINT else "error: terminated") in lines
    in_launch = "wait[" in text and text is not COMPILING
    assert any(line.startswith("gpusim: launch 2 wait: 0 of 1 blocks") for line in lines) == in_launch
    assert [row["kernel"] for row in json.loads((tmp_path / "launches.json").read_text())] == ["quick"]


def test_a_program_that_catches_ctrl_c_goes_on_and_so_does_the_launch(start) -> None:
    process = start("""
        try:
            wait[1, 1](flags)
        except KeyboardInterrupt:
            print("caught", flush=True)
        flags[1] = 1  # the kernel sees it, as on a GPU
        cuda.synchronize()
        quick[1, 1](flags)
        print(flags[2] > 2)
    """)
    os.kill(process.pid, signal.SIGINT)
    ended = process.finish(40)
    out, said = ended.stdout, ended.stderr
    assert (ended.returncode, out) == (0, "caught\nTrue\n"), said
    assert [line.split()[1] for line in said.splitlines()[-3:]] == ["quick", "wait", "quick"]


def test_a_handler_of_the_program_runs_outside_the_driver(start) -> None:
    process = start("""
        def handle(number, frame):
            flags[1] = 1
            raise RuntimeError("mine")
        assert signal.signal(signal.SIGTERM, handle) is signal.SIG_DFL and signal.getsignal(signal.SIGTERM) is handle
        try:
            wait[1, 1](flags)
        except RuntimeError as error:
            print(error)
    """)
    os.kill(process.pid, signal.SIGTERM)
    ended = process.finish(40)
    out, said = ended.stdout, ended.stderr
    assert (ended.returncode, out) == (0, "mine\n") and "Exception ignored" not in said, said
