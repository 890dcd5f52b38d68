"""Is SIGINT or SIGTERM obeyed wherever a command spends its time, and does nothing of it outlive it?

Each command is sent the signal once it says that it is at work, and would be at work for hours: what does not look for
signals there fails by the patience. Its standard output is read to its end, which comes when all workers have gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from forked_commands import Command
from hand_traces import FULL, Asm, build

from gpusim.engine.graph import gpu_graph
from gpusim.engine.machine import Machine
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.trace.record import Chunk, PipeClass

PATIENCE_SECONDS = 60.0
BOTH = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
CODES = {signal.SIGINT: (130, "error: interrupted"), signal.SIGTERM: (143, "error: terminated")}
#: A machine whose parts are so far apart that a window without an upper limit lasts as long as the launch.
FAR_APART = [
    *(f"crossbar.{way}_latency_ns=1e5" for way in ("request", "response")),
    *(f"l2.{key}=1e5" for key in ("hit_latency_ns", "far_hit_extra_ns", "far_miss_extra_ns")),
    *(f"l1.cluster_{way}_latency_cycles=65536" for way in ("shared", "barrier")),
    "dram.miss_latency_ns=1e5", "launch.block_turnaround_cycles=1048576", "clock_hz=1e11",
]  # fmt: skip
KERNELS = """
import sys
import numpy as np
from numba import cuda

@cuda.jit
def count(x, n):
    total = x[0]
    for i in range(n):
        total = total * 3 + cuda.threadIdx.x
    x[1] = total

@cuda.jit
def spin(x):
    while cuda.atomic.add(x, 1, 1) >= 0:
        pass

def case(kernel, blocks, *more):
    return kernel, blocks, 32, (np.zeros(2, np.int64), *more)

def many_blocks():
    return case(count, 1 << 30, 100_000)

def one_block():
    return case(spin, 1)
"""


def interrupted(arguments: list[str], sign: str, number: signal.Signals, folder: Path) -> None:
    """Run a command, send it ``number`` once ``sign`` stands in what it says, and see it end as it should."""
    command = Command(arguments, folder, silent_seconds=0.1)
    try:
        while sign not in (line := command.err_line()):
            assert line, "it has ended by itself"
        os.kill(command.pid, number)
        ended = command.finish(PATIENCE_SECONDS)
        assert (ended.returncode, ended.stderr.splitlines()[-1]) == CODES[number]
    finally:
        command.kill()


def save_endless_trace(path: Path) -> None:
    """A launch of ten thousand million warp instructions in a file of a few kilobytes."""
    asm = Asm()
    for _ in range(1000):
        asm.op(PipeClass.NONE, 1, file=-1)
    trace = build(asm, blocks=132, threads=256, blocks_per_chunk=132)
    chunk = trace.chunk_list[0]
    runs = np.array([(0, 1000, FULL)] * 10_000, chunk.runs.dtype)
    trace.chunk_list[0] = Chunk(
        0, chunk.blocks, chunk.warps, runs, np.array([0, len(runs)]), chunk.accesses, chunk.scattered
    )
    trace.save(path)


@BOTH
def test_a_simulation_on_a_slow_machine_obeys(number, tmp_path):
    save_endless_trace(tmp_path / "endless.trace")
    settings = [f"--set={text}" for text in FAR_APART]
    interrupted(["simulate", "endless.trace", *settings], "simulating", number, tmp_path)


@pytest.mark.parametrize("threads", [1, 2])
def test_windows_hold_a_bounded_amount_of_work(threads):
    slow, quick = override_gpu(load_gpu("h200"), FAR_APART), load_gpu("h200")
    with Machine(gpu_graph(slow), threads) as machine:
        longest = gpu_graph(slow).window_limit_cycles * 132 // threads
        assert machine.window_ticks // 64 * 132 // threads <= 1 << 18 < longest
    with Machine(gpu_graph(quick), threads) as machine:
        assert machine.window_ticks // 64 == gpu_graph(quick).window_limit_cycles


@pytest.mark.by_day(1)
@pytest.mark.parametrize(("case", "number"), [("many_blocks", signal.SIGINT), ("one_block", signal.SIGTERM)])
def test_a_kernel_without_end_obeys(case, number, tmp_path):
    (tmp_path / "endless.py").write_text(KERNELS)
    interrupted(["capture", f"endless.py:{case}", "-o", "x.trace"], "capturing", number, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".trace") == []


@pytest.mark.nightly
@BOTH
@pytest.mark.parametrize(
    ("arguments", "sign"),
    [
        (["cover", "run", "-o", "c.json"], "[  2/"),
        (["compare", "--jobs", "1"], "[   2/"),
        (["compare", "--jobs", "2"], "[   2/"),
        (["explore", "--jobs", "1", "--max-examples", "100000"], "exploring"),
        (["explore", "--jobs", "2", "--max-examples", "100000"], "exploring in 2 processes: "),
    ],
    ids=lambda value: "-".join(value[:3]) if isinstance(value, list) else "",
)
def test_every_long_command_obeys(arguments, sign, number, tmp_path):
    interrupted(arguments, sign, number, tmp_path)


DROPPED = """
import ctypes, signal, sys
from gpusim import cli
from gpusim.io.signalled import listen

signal.signal(signal.SIGINT, signal.default_int_handler)
listen(interrupts=True)
number = int(sys.argv[1])

@ctypes.CFUNCTYPE(None)
def called_from_c():
    signal.raise_signal(number)

def a_command(**_):
    try:
        called_from_c()
        [None for _ in range(10)]  # what waits for Python is done here, if not before
    finally:
        raise ValueError("what a library makes of it")

cli.gpusim.main = a_command
sys.exit(cli.run([]))
"""


@BOTH
def test_a_signal_arrives_through_what_drops_or_changes_exceptions(number):
    done = subprocess.run([sys.executable, "-c", DROPPED, str(number)], capture_output=True, text=True)
    assert (done.returncode, done.stderr.splitlines()) == (CODES[number][0], [CODES[number][1]])
