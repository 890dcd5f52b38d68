#!/usr/bin/env python3
"""Many recorded processes on one machine and one collector: ``tools/record_load.py --processes 64 --rate 100000
--seconds 12``.

The processes launch on a libcuda that does nothing, --rate launches a second together, recorded and unrecorded in
alternation. Prints what was asked for, what the collector has, what was dropped, and the CPU time that recording adds
in all processes together and that the collector takes, as shares of one core. What the recorder's own threads take is
measured by itself; what is added to the launching threads is a difference of runs, which on a busy machine is noise of
some percent of a core. Exit code 1 where a launch is missing.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from record_stub import ROOT, build, environment, load

from gpusim.collect.ledger import Ledger


def processes(program: Path, count: int, launches: int, rate: int, settings: dict[str, str]) -> list[list[int]]:
    """What each of ``count`` processes at once tells (see record_launches.c)."""
    arguments = [str(program), "rate", str(launches), str(rate)]
    running = [subprocess.Popen(arguments, env=settings, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    told = [process.communicate()[0] for process in running]
    if any(process.returncode for process in running):
        raise SystemExit("a program did not end well")
    return [[int(word) for word in line.split()] for line in told]


def collector(folder: Path) -> subprocess.Popen:
    """A daemon that listens."""
    path = folder / "collect.sock"
    command = [
        sys.executable,
        "-c",
        "from gpusim.cli import main; main()",
        "collect",
        "serve",
        "--data",
        str(folder / "data"),
    ]
    process = subprocess.Popen([*command, "--socket", str(path)], cwd=ROOT, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 30
    while not path.exists() and time.monotonic() < end:
        time.sleep(0.05)
    return process


def cpu_seconds(pid: int) -> float:
    """That a process has used so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, default=64)
    parser.add_argument("--rate", type=int, default=100_000, help="launches a second of all processes together")
    parser.add_argument("--seconds", type=int, default=12)
    parser.add_argument("--pairs", type=int, default=3)
    options = parser.parse_args()
    each = options.rate // options.processes
    launches, asked = each * options.seconds, 0
    added, took, own = [], [], []
    print(load())
    with tempfile.TemporaryDirectory(prefix="l") as name:
        folder = Path(name)
        program = build(folder)
        daemon = collector(folder)
        try:
            for _ in range(options.pairs):
                without = processes(program, options.processes, launches, each, environment(folder, recorded=False))
                before = cpu_seconds(daemon.pid)
                with_it = processes(program, options.processes, launches, each, environment(folder))
                took.append((cpu_seconds(daemon.pid) - before) / options.seconds)
                cpu = [sum(told[0] for told in all_of) for all_of in (without, with_it)]
                added.append((cpu[1] - cpu[0]) / (options.seconds * 1e9))
                own.append(sum(told[0] - told[1] for told in with_it) / (options.seconds * 1e9))
                asked += (launches + 1) * options.processes  # each launches once before it counts
                print(f"  CPU of all processes: {cpu[0] / 1e9:.2f} s unrecorded, {cpu[1] / 1e9:.2f} s recorded")
        finally:
            daemon.send_signal(signal.SIGTERM)
            daemon.wait(30)
        ledger = Ledger(folder / "data")
        collected, dropped = sum(total.launches for total in ledger.totals()), ledger.fact("dropped")
        ledger.close()
    print(
        f"{options.processes} processes, {each * options.processes} launches a second, {options.pairs} runs of {options.seconds} s:"
        f" {asked} asked, {collected} collected, {dropped} dropped;"
        f" recording adds {statistics.median(added):.2%} of a core in all processes ({min(added):.2%} to {max(added):.2%}),"
        f" of which the recorder's threads {statistics.median(own):.2%}, {statistics.median(own) / options.processes:.3%} a process;"
        f" the collector takes {statistics.median(took):.2%}"
    )
    return 0 if collected == asked and not dropped else 1


if __name__ == "__main__":
    sys.exit(main())
