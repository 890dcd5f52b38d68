"""How fast gpusim is here: emulated and simulated warp instructions a second, as a table.

    python tools/bench.py [--gpu h200] [--repeat 3] [--format table|json|csv|md] [--no-simulate]
    python tools/bench.py --numba-simulator [--rounds 5]
    python tools/bench.py --against TREE [--rounds 5] [--workload NAME]

Each workload runs in a process of its own (``peak_mib``: the most memory that it had), once to compile (that time is
the column ``first_s``), then ``--repeat`` times; the best time counts. ``--numba-simulator`` instead compares the
capture of saxpy with Numba's own CUDA simulator running the same kernel over as many threads: in each round one after
the other, so that both meet the same machine, and the ratio is taken within the round. There both are measured in CPU
time of their processes: what else the machine does would otherwise hit the one that runs for seconds more than the one
that runs for a millisecond. ``--against`` compares this tree's simulations with those of another one, a directory that
holds another state of the sources, on one thread: a process of each takes turns in every round, CPU times are compared
within the round, and the cycles must be the same. Nothing here is a test: the figures depend on the machine, which is
printed with them on stderr.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import statistics
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from capture_memory import peak_mib
from numba import cuda

import gpusim
from gpusim.cases.suite import capture_case, make_case
from gpusim.report.tables import FORMATS, format_records

#: A small launch, of which a third is the fixed cost of a launch, and one that is mostly emulation.
SAXPY_THREADS = (65_536, 1_048_576)
#: Threads that Numba's simulator runs in a round; for the larger launch its time is scaled from the most of these,
#: and the others show that its time is proportional to the threads.
SIMULATOR_THREADS = (8_192, 65_536)
#: Captures of a round, of which the median counts.
CAPTURES = {65_536: 25, 1_048_576: 5}
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


def measure(name: str, make: Callable, spec, repeat: int, simulate: bool) -> dict:
    captured, capture_first, capture_s = best(lambda: make(spec), repeat)
    emulated = sum(trace.warp_instructions for trace in captured.launches)
    instructions = sum(trace.warp_instructions for trace in captured.timed)
    record = {
        "workload": name,
        "warp_instructions": instructions,
        "capture_ms": 1e3 * capture_s,
        "emulated_million_per_s": emulated / capture_s / 1e6,
    }
    if not simulate:
        return {**record, "first_s": capture_first}
    result, simulate_first, simulate_s = best(lambda: lambda: gpusim.simulate(list(captured.timed), spec), repeat)
    return {
        **record,
        "simulate_ms": 1e3 * simulate_s,
        "simulated_million_per_s": instructions / simulate_s / 1e6,
        "cycles": int(result.cycles),
        "first_s": capture_first + simulate_first,
    }


class NumbaSimulator:
    """Numba's CUDA simulator in a process of its own (an environment variable switches it on for all of Numba)."""

    SCRIPT = """
        import sys
        import time
        import numpy as np
        from numba import cuda

        @cuda.jit
        def saxpy(a, x, y, out):
            i = cuda.grid(1)
            if i < out.size:
                out[i] = a * x[i] + y[i]

        for line in sys.stdin:
            n = int(line)
            x, y, out = np.ones(n, np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)
            start = time.process_time()
            saxpy[n // 256, 256](np.float32(2.5), x, y, out)
            seconds = time.process_time() - start
            assert (out == 3.5).all()
            print(seconds, flush=True)
    """

    def __enter__(self) -> NumbaSimulator:
        environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(self.SCRIPT)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        return self

    def __exit__(self, *exc_info) -> None:
        self._process.stdin.close()
        self._process.wait()

    def seconds(self, threads: int) -> float:
        """CPU seconds of one saxpy over ``threads`` threads, arrays made beforehand."""
        self._process.stdin.write(f"{threads}\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit("error: Numba's simulator ended without an answer; see its message above")
        return float(answer)


def capture_seconds(threads: int, spec) -> float:
    """Median CPU seconds of a capture of the suite's saxpy, arrays made beforehand."""
    times = []
    for _ in range(CAPTURES[threads]):
        case = make_case("saxpy", {"n": threads}, spec)
        start = time.process_time()
        capture_case(case, spec)
        times.append(time.process_time() - start)
    return statistics.median(times)


def against_numba(spec, rounds: int) -> list[dict]:
    """One record for each size of saxpy: medians over the rounds, and the ratio with its lowest and highest."""
    ours: dict[int, list[float]] = {n: [] for n in SAXPY_THREADS}
    theirs: dict[int, list[float]] = {n: [] for n in SIMULATOR_THREADS}
    for threads in SAXPY_THREADS:
        capture_seconds(threads, spec)  # compiles
    most = max(SIMULATOR_THREADS)
    with NumbaSimulator() as simulator:
        simulator.seconds(256)
        for number in range(rounds):
            for threads in SAXPY_THREADS:
                ours[threads].append(capture_seconds(threads, spec))
            for threads in SIMULATOR_THREADS:
                theirs[threads].append(simulator.seconds(threads))
            print(f"round {number + 1} of {rounds}: done", file=sys.stderr)
    for threads in SIMULATOR_THREADS:
        each_us = 1e6 * statistics.median(theirs[threads]) / threads
        print(f"numba's simulator over {threads} threads: {each_us:.1f} us a thread", file=sys.stderr)
    records = []
    for threads in SAXPY_THREADS:
        scale = max(1.0, threads / most)
        sources = theirs[threads if threads in theirs else most]
        ratios = [scale * theirs_s / ours_s for theirs_s, ours_s in zip(sources, ours[threads], strict=True)]
        records.append(
            {
                "threads": threads,
                "capture_cpu_ms": 1e3 * statistics.median(ours[threads]),
                "numba_simulator_cpu_ms": 1e3 * scale * statistics.median(sources),
                "numba_simulator_is": "measured" if threads in theirs else f"{most} threads, scaled",
                "times_as_fast": statistics.median(ratios),
                "lowest": min(ratios),
                "highest": max(ratios),
            }
        )
    return records


#: What a process of one tree does for ``--against``: captures once, then simulates whenever it is asked to.
TURNS = """
    import sys
    import time
    tree, name, gpu = sys.argv[1:]
    sys.path[:0] = [tree, tree + "/tools"]
    import bench
    import gpusim
    assert gpusim.__file__.startswith(tree), gpusim.__file__
    spec = gpusim.load_gpu(gpu)
    traces = list(bench.WORKLOADS[name](spec)().timed)
    for _ in sys.stdin:
        start = time.process_time()
        result = gpusim.simulate(traces, spec, threads=1)
        print(time.process_time() - start, int(result.cycles), flush=True)
"""


class Turns:
    """A process that simulates a workload of :data:`WORKLOADS` with the sources of ``tree``, once a turn."""

    def __init__(self, tree: str, name: str, gpu: str) -> None:
        command = [sys.executable, "-c", textwrap.dedent(TURNS), os.path.abspath(tree), name, gpu]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def take(self) -> tuple[float, int]:
        """(CPU seconds of one simulation, its cycles)."""
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline().split()
        if not answer:
            raise SystemExit("error: a simulating process ended without an answer; see its message above")
        return float(answer[0]), int(answer[1])

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def against(tree: str, names: list[str], gpu: str, rounds: int) -> list[dict]:
    """One record a workload: median CPU milliseconds with the other tree and with this one, and the ratio with its
    quartiles."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    records = []
    for name in names:
        other, this = Turns(tree, name, gpu), Turns(here, name, gpu)
        if other.take()[1] != this.take()[1]:
            print(f"{name}: the two trees disagree on the cycles", file=sys.stderr)
        pairs = [(other.take()[0], this.take()[0]) for _ in range(rounds)]
        for each in (other, this):
            each.close()
        ratios = statistics.quantiles([before / after for before, after in pairs], n=4, method="inclusive")
        records.append(
            {
                "workload": name,
                "other_cpu_ms": 1e3 * statistics.median(before for before, _ in pairs),
                "cpu_ms": 1e3 * statistics.median(after for _, after in pairs),
                "times_as_fast": ratios[1],
                "lower_quartile": ratios[0],
                "upper_quartile": ratios[2],
            }
        )
        print(f"{name}: done", file=sys.stderr)
    return records


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
    parser.add_argument("--no-simulate", action="store_true", help="captures alone")
    parser.add_argument("--numba-simulator", action="store_true", help="saxpy against Numba's own simulator")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--against", metavar="TREE", help="compare simulations with those of another tree's sources")
    parser.add_argument(
        "--workload", choices=WORKLOADS, action="append", help="with --against: this one alone (repeatable)"
    )
    parser.add_argument("--only", choices=WORKLOADS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not options.only:
        print(machine(), file=sys.stderr)
    spec = gpusim.load_gpu(options.gpu)
    if options.numba_simulator:
        print(format_records(against_numba(spec, max(1, options.rounds)), options.form))
        return
    if options.against:
        records = against(options.against, options.workload or list(WORKLOADS), options.gpu, max(2, options.rounds))
        print(format_records(records, options.form))
        return
    if options.only:
        record = measure(options.only, WORKLOADS[options.only], spec, max(1, options.repeat), not options.no_simulate)
        print(json.dumps(record | {"peak_mib": peak_mib()}))
        return
    records = []
    for name in WORKLOADS:
        command = [sys.executable, __file__, "--only", name, "--gpu", options.gpu, "--repeat", str(options.repeat)]
        command += ["--no-simulate"] * options.no_simulate
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        records.append(json.loads(done.stdout))
        print(f"{name}: done", file=sys.stderr)
    print(format_records(records, options.form))


if __name__ == "__main__":
    main()
