"""How fast gpusim is here: emulated and simulated warp instructions a second, as a table.

    python tools/bench.py [--gpu h200] [--repeat 3] [--format table|json|csv|md] [--numba-simulator]

Each workload runs once to compile (that time is the column ``first_s``), then ``--repeat`` times; the
best time counts. ``--numba-simulator`` adds Numba's own CUDA simulator on saxpy, measured on few
threads and scaled, since it needs minutes for a million. Nothing here is a test: the figures depend
on the machine, which is printed with them on stderr.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import cuda

import gpusim
from gpusim.report.tables import FORMATS, format_records
from gpusim.suite import capture_case, make_case

#: A small launch, of which a third is the fixed cost of a launch, and one that is mostly emulation.
SAXPY_THREADS = (65_536, 1_048_576)
SIMULATOR_THREADS = 2048
PACKAGES = ("numpy", "numba", "numba-cuda", "simpy", "nvidia-nvjitlink", "nvidia-cuda-nvdisasm")


@cuda.jit
def multiply_add(out, scale, rounds):
    """Eight independent FMA chains a thread: nothing but arithmetic."""
    a = b = c = d = e = f = g = h = scale
    for _ in range(rounds):
        a = a * scale + a
        b = b * scale + b
        c = c * scale + c
        d = d * scale + d
        e = e * scale + e
        f = f * scale + f
        g = g * scale + g
        h = h * scale + h
    out[cuda.grid(1)] = a + b + c + d + e + f + g + h


@dataclass(frozen=True)
class Captured:
    """What one capture of a workload gave: the traces to simulate, and those of all its launches."""

    timed: tuple
    launches: tuple


def alu(spec) -> Callable[[], Captured]:
    out = np.zeros(1024 * 256, np.float32)

    def run() -> Captured:
        trace = gpusim.capture(multiply_add, 1024, 256, (out, np.float32(0.5), 32), gpu=spec)
        return Captured((trace,), (trace,))

    return run


def from_suite(name: str, **shape) -> Callable:
    """Capture of a suite kernel; its preparation launches are captured and, as the caches are to be
    cold here, not simulated. Making the arrays is not part of it."""

    def prepare(spec) -> Callable[[], Captured]:
        case = make_case(name, shape, spec)

        def run() -> Captured:
            launches = capture_case(case, spec)
            return Captured(
                tuple(launch.trace for launch in launches if launch.timed),
                tuple(launch.trace for launch in launches),
            )

        return run

    return prepare


#: Workload -> what prepares its capture. The first three are the ones of the design's table.
WORKLOADS = {
    "ALU-bound, 1024 blocks x 8 warps": alu,
    "stream_triad, 50 MB": from_suite("stream_triad", n=50_000_000 // 32, block_threads=256),
    "one warp, 200 dependent DRAM loads": from_suite("pointer_chase", buffer_kib=131072, loads=200),
    **{f"saxpy, {threads} threads": from_suite("saxpy", n=threads) for threads in SAXPY_THREADS},
    "matmul_tiled": from_suite("matmul_tiled"),
}


def best(prepare: Callable[[], Callable[[], object]], repeat: int) -> tuple[object, float, float]:
    """(last result, seconds of the first run, best seconds of ``repeat`` further runs); ``prepare`` makes a run
    and is not timed."""
    times = []
    for _ in range(repeat + 1):
        action = prepare()
        start = time.perf_counter()
        result = action()
        times.append(time.perf_counter() - start)
    return result, times[0], min(times[1:])


def measure(name: str, make: Callable, spec, repeat: int) -> dict:
    captured, capture_first, capture_s = best(lambda: make(spec), repeat)
    emulated = sum(trace.warp_instructions for trace in captured.launches)
    instructions = sum(trace.warp_instructions for trace in captured.timed)
    result, simulate_first, simulate_s = best(
        lambda: lambda: gpusim.simulate(list(captured.timed), spec), repeat
    )
    return {
        "workload": name,
        "warp_instructions": instructions,
        "capture_ms": 1e3 * capture_s,
        "emulated_million_per_s": emulated / capture_s / 1e6,
        "simulate_ms": 1e3 * simulate_s,
        "simulated_million_per_s": instructions / simulate_s / 1e6,
        "cycles": int(result.cycles),
        "first_s": capture_first + simulate_first,
    }


def numba_simulator_seconds() -> float:
    """Seconds that Numba's own CUDA simulator needs for one thread of saxpy, measured over SIMULATOR_THREADS."""
    script = f"""
        import time
        import numpy as np
        from numba import cuda

        @cuda.jit
        def saxpy(n, a, x, y):
            i = cuda.grid(1)
            if i < n:
                y[i] = a * x[i] + y[i]

        x = y = np.ones({SIMULATOR_THREADS}, np.float32)
        start = time.perf_counter()
        saxpy[{SIMULATOR_THREADS // 256}, 256]({SIMULATOR_THREADS}, np.float32(2), x, y)
        print(time.perf_counter() - start)
    """
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], env=environment, capture_output=True, text=True, check=True
    )
    return float(run.stdout) / SIMULATOR_THREADS


def machine() -> str:
    """This machine and the versions that matter, in one line."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            model = next((line.split(":")[1].strip() for line in lines if "model name" in line), model)
    versions = []
    for package in PACKAGES:
        try:
            versions.append(f"{package} {importlib.metadata.version(package)}")
        except importlib.metadata.PackageNotFoundError:
            versions.append(f"no {package}")
    python = platform.python_version()
    return f"{model}, {os.cpu_count()} cores, Python {python}, gpusim {gpusim.__version__}, " + ", ".join(versions)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--format", dest="form", choices=FORMATS, default="table")
    parser.add_argument("--numba-simulator", action="store_true")
    options = parser.parse_args()
    print(machine(), file=sys.stderr)
    spec = gpusim.load_gpu(options.gpu)
    records = []
    for name, make in WORKLOADS.items():
        records.append(measure(name, make, spec, max(1, options.repeat)))
        print(f"{name}: done", file=sys.stderr)
    print(format_records(records, options.form))
    if options.numba_simulator:
        seconds_per_thread = numba_simulator_seconds()
        for threads in SAXPY_THREADS:
            ours_ms = next(r["capture_ms"] for r in records if r["workload"] == f"saxpy, {threads} threads")
            seconds = seconds_per_thread * threads
            print(
                f"numba's CUDA simulator: {seconds:.1f} s for saxpy over {threads} threads (scaled from "
                f"{SIMULATOR_THREADS}), {1e3 * seconds / ours_ms:,.0f} times gpusim's capture",
                file=sys.stderr,
            )


if __name__ == "__main__":
    main()
