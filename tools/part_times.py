"""Where a simulation's time goes: shares of its CPU time by compiled function, as Linux's perf samples them.

    python tools/part_times.py [--workload "stream_triad, 50 MB"] [--gpu h200] [--rounds 4]

Mental model: perf notes, some thousand times a second, at which address the process is; each compiled function's
machine code lies behind its entry, so the nearest entry below an address says whose it is. ``advance_group`` is the
SMs, ``l2.handle_until`` the L2, ``hbm.handle_until`` the DRAM, ``run_windows`` what they send each other (sorted and
copied). What lies outside compiled code is Python, NumPy and the kernel, which clears the machine's memory. One thread;
shares do not add up over machines, and the caches that other processes take move them. Raises SystemExit where there is
no perf.
"""

from __future__ import annotations

import argparse
import bisect
import collections
import gc
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench import WORKLOADS
from numba.core.dispatcher import Dispatcher

import gpusim

#: More than any compiled function's machine code takes.
_MOST_CODE_BYTES = 1 << 18
#: Samples a second.
_SAMPLES_PER_S = 5000


def entries() -> list[tuple[int, str]]:
    """Where each compiled function's machine code begins, and its name, by address."""
    found = []
    for function in [each for each in gc.get_objects() if isinstance(each, Dispatcher)]:
        for version in function.overloads.values():
            address = version.library.get_pointer_to_function(version.fndesc.llvm_func_name)
            if address:
                module = function.__module__.rpartition(".")[2]
                found.append((address, f"{module}.{function.__name__}"))
    return sorted(found)


def sampled(action: Callable[[], None], path: str) -> float:
    """CPU seconds of ``action()``, whose samples perf writes to ``path``."""
    command = ["perf", "record", "-q", "-e", "cpu-clock", "-F", str(_SAMPLES_PER_S), "-p", str(os.getpid()), "-o", path]
    recording = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    time.sleep(1.0)  # until it has begun
    start = time.process_time()
    action()
    seconds = time.process_time() - start
    recording.send_signal(2)
    recording.wait()
    return seconds


def addresses(path: str) -> list[int]:
    """The samples' addresses."""
    text = subprocess.run(["perf", "script", "-i", path, "-F", "ip"], capture_output=True, text=True, check=True).stdout
    return [int(line, 16) for line in text.split()]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workload", default="stream_triad, 50 MB", choices=list(WORKLOADS))
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--rounds", type=int, default=4)
    options = parser.parse_args()
    if shutil.which("perf") is None:
        sys.exit("error: perf is not installed; on Debian it is in the package linux-perf")
    spec = gpusim.load_gpu(options.gpu)
    traces = list(WORKLOADS[options.workload](spec)().timed)
    instructions = options.rounds * sum(trace.warp_instructions for trace in traces)

    def simulate() -> None:
        for _ in range(options.rounds):
            gpusim.simulate(traces, spec, threads=1)

    simulate()  # compiles
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "perf.data")
        seconds = sampled(simulate, path)
        samples = addresses(path)
    if not samples:
        sys.exit("error: perf has taken no samples; /proc/sys/kernel/perf_event_paranoid may forbid it")
    known = entries()
    starts = [address for address, _ in known]
    counts: collections.Counter[str] = collections.Counter()
    for address in samples:
        place = bisect.bisect(starts, address) - 1
        near = place >= 0 and address - starts[place] < _MOST_CODE_BYTES
        counts[known[place][1] if near else "not compiled"] += 1
    print(f"{1e9 * seconds / instructions:.0f} ns a warp instruction, CPU time of one thread")
    for name, count in counts.most_common(12):
        share = count / len(samples)
        print(f"{name:32} {100 * share:5.1f} %  {1e9 * seconds * share / instructions:6.1f} ns")


if __name__ == "__main__":
    main()
