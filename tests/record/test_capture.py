"""Full capture: single launches as a trace, of bounded size, by order, by signal and by a kernel that takes long."""

from __future__ import annotations

import gzip
import json
import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import pytest
from recorded import COMPILER, environment, fake_cupti, stub_folder

from gpusim.collect.ask import asked_to_capture
from gpusim.collect.capture import Captures
from gpusim.collect.once import Collecting
from gpusim.errors import CollectError
from gpusim.record.wire import Event, Hello, Kernel

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="the recorder is built by a C compiler")
HELLO = Hello(b"s" * 16, 7, 3, "")


def event(number: int, duration_ns: int | None = 2500) -> Event:
    kernel = Kernel("alpha", 1, 2, 40, 1024)
    return Event(
        10**18 + number * 1500,
        duration_ns,
        kernel,
        "step",
        (5, 2, 3),
        (64, 1, 1),
        128,
        9,
        number,
        1,
        "40" * 16,
        "launch",
        True,
    )


def written(folder: Path) -> list[dict]:
    return [json.loads(gzip.decompress(path.read_bytes())) for path in sorted((folder / "captures").glob("*.json.gz"))]


def test_a_file_is_a_trace_of_one_process(tmp_path: Path) -> None:
    captures = Captures(tmp_path)
    captures.take(HELLO, 5, [event(1), event(2, None)])
    assert written(tmp_path) == []  # not before it is complete
    captures.end(HELLO, 5)
    (trace,) = written(tmp_path)
    one, other = trace["traceEvents"]
    assert (one["cat"], one["ts"], one["dur"], one["name"]) == ("kernel", 1.5, 2.5, "alpha")
    assert one["args"] == {
        "device": 1, "stream": 9, "correlation": 1, "grid": [5, 2, 3], "block": [64, 1, 1], "registers per thread": 40,
        "shared memory": 1152, "nvtx": "step",
    }  # fmt: skip
    assert (other["cat"], other["ts"], other["args"]["correlation"]) == ("cuda_driver", 3, 2)
    assert trace["distributedInfo"] == {"rank": 3} and trace["baseTimeNanoseconds"] == 10**18
    assert trace["deviceProperties"] == [{"id": 1, "uuid": "40" * 16}]
    (path,) = (tmp_path / "captures").iterdir()
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700


def test_files_and_their_folder_are_bounded(tmp_path: Path) -> None:
    captures = Captures(tmp_path, file_bytes=2000, folder_bytes=2500)
    for number in range(200):
        captures.take(HELLO, 5, [event(number)])
    captures.end_quiet(0)
    found = list((tmp_path / "captures").iterdir())
    assert 1 <= len(found) < 20 and sum(path.stat().st_size for path in found) <= 3500
    assert all(trace["traceEvents"] for trace in written(tmp_path))
    assert not list((tmp_path / "captures").glob("*.part"))


def captured(arguments: list[str], order, seconds: float = 20, **more: str) -> tuple[int, list[dict], int]:
    """(exit code, traces, launches counted) of the program ``spins``, to which ``order`` is given as it runs."""
    folder = Path(tempfile.mkdtemp(prefix="r"))
    path = folder / "s"
    with Collecting(folder, path) as collecting:
        program = subprocess.Popen([stub_folder() / "program", *arguments], env=environment(path, **more))
        try:
            order(path, program, collecting)
            code = program.wait(seconds)
        finally:
            program.kill()
    return code, written(folder), sum(total.launches for total in collecting.totals)


def until_connected(collecting: Collecting) -> None:
    end = time.monotonic() + 10
    while not collecting.connected() and time.monotonic() < end:
        time.sleep(0.01)


@needs_compiler
def test_an_order_captures_what_is_launched_from_then_on() -> None:
    def order(path: Path, program: subprocess.Popen, collecting: Collecting) -> None:
        until_connected(collecting)
        assert asked_to_capture(path, 30) == 1

    code, traces, launches = captured(["spins"], order)
    events = [event for trace in traces for event in trace["traceEvents"]]
    assert code == 0 and 0 < len(events) // 2 <= launches
    assert {(event["cat"], event["args"].get("kernel", event["name"])) for event in events} == {
        ("kernel", "alpha"),
        ("cuda_driver", "alpha"),
    }
    assert all("dur" not in event for event in events if event["cat"] == "kernel")
    now_us = time.time() * 1e6
    first = traces[0]["baseTimeNanoseconds"] / 1000 + traces[0]["traceEvents"][0]["ts"]
    assert now_us - 60e6 < first <= now_us


@needs_compiler
def test_a_signal_captures() -> None:
    def order(path: Path, program: subprocess.Popen, collecting: Collecting) -> None:
        until_connected(collecting)
        os.kill(program.pid, signal.SIGUSR2)

    code, traces, _ = captured(["spins"], order, GPUSIM_RECORD_SIGNAL=str(int(signal.SIGUSR2)))
    assert code == 0 and traces[0]["traceEvents"]


@needs_compiler
@pytest.mark.parametrize(("above_us", "captures"), [("4", True), ("5", False)])
def test_a_long_kernel_captures(above_us: str, captures: bool) -> None:
    more = {"GPUSIM_RECORD_CUPTI": str(fake_cupti()), "GPUSIM_RECORD_ABOVE_US": above_us}
    code, traces, _ = captured(["spins"], lambda *_: None, **more)
    kernels = [event for trace in traces for event in trace["traceEvents"] if event["cat"] == "kernel"]
    assert code == 0 and bool(kernels) == captures
    assert all(event["dur"] == 5 and event["args"]["grid"] == [5, 2, 3] for event in kernels)


def test_nobody_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(CollectError, match="no collector at"):
        asked_to_capture(tmp_path / "s", 1)
