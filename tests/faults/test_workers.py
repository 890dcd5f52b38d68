"""Do workers end with the command that started them, however it ends?

A worker holds the standard output of its parent: it reads to its end only when all of them have gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.context import SpawnProcess
from pathlib import Path

import pytest

from gpusim.errors import ExecutionError, UsageError
from gpusim.workers import worker_pool

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 60.0
#: Longer than any patience: who waits for it fails.
WORK_SECONDS = 10 * PATIENCE_SECONDS
PARENT = f"""
import os, signal, time
from gpusim.workers import worker_pool
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored below a shell that runs the tests behind it
with worker_pool(2) as pool:
    for _ in range(2):
        pool.submit(os.getpid).result()
    waiting = [pool.submit(time.sleep, {WORK_SECONDS}) for _ in range(5)]
    print("begun", flush=True)
    waiting[0].result()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_workers_end_with_a_parent_that_is_killed(number: signal.Signals) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        start_new_session=True,
    )
    try:
        assert parent.stdout.readline() == b"begun\n"
        os.kill(parent.pid, number)
        assert parent.communicate(timeout=PATIENCE_SECONDS)[0] == b""
        assert parent.returncode != 0
    finally:
        if parent.poll() is None:
            os.killpg(parent.pid, signal.SIGKILL)


def test_a_signal_that_comes_while_a_worker_is_started_waits_until_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the worker finds half of what it is to be told, and shows a traceback behind the parent's one line."""
    steps = []

    def start(self: SpawnProcess) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.01)
        steps.append("told")

    monkeypatch.setattr(SpawnProcess, "start", start)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), worker_pool(1) as pool:
            pool.submit(os.getpid)
        assert steps == ["told"] and signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_error_of_the_parent_does_not_wait_for_the_work() -> None:
    start = time.monotonic()
    with pytest.raises(UsageError), worker_pool(1) as pool:
        pool.submit(os.getpid).result()
        pool.submit(time.sleep, WORK_SECONDS)
        raise UsageError("no")
    assert time.monotonic() - start < WORK_SECONDS


def test_a_worker_that_dies_is_an_error_of_its_own() -> None:
    with pytest.raises(ExecutionError, match="worker process died"), worker_pool(1) as pool:
        pool.submit(os._exit, 9).result()


def test_what_was_submitted_is_done_when_the_block_ends_well() -> None:
    with worker_pool(2) as pool:
        futures = [pool.submit(pow, 2, n) for n in range(20)]
    assert [future.result() for future in futures] == [2**n for n in range(20)]


def test_there_is_no_other_way_to_start_workers() -> None:
    users = [path for path in (ROOT / "gpusim").rglob("*.py") if "ProcessPoolExecutor(" in path.read_text()]
    assert [path.name for path in users] == ["workers.py"]
