"""Print how long the disassembler takes for a kernel: started by itself, and cloned where its tables stand.

    python tools/time_listing.py
    python tools/time_listing.py --architecture 90 --times 20

The kernel is an ordinary one of some hundred instructions. Each time is that of one listing; the ratio is of their
medians.
"""

from __future__ import annotations

import argparse
import statistics
import time

import numpy as np
from tabulate import tabulate

from gpusim.cases.suite import find_kernel
from gpusim.frontend.registry import front_end_of
from gpusim.isa.binary import disassembler

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--architecture", type=int, default=90, help="for example 80 (default 90)")
parser.add_argument("--times", type=int, default=10, help="listings of each kind (default 10)")


def main() -> None:
    asked = parser.parse_args()
    (launch,) = find_kernel("softmax").make(rows=4, columns=64, block_threads=32).launches[:1]
    capability = divmod(asked.architecture, 10)
    binary = front_end_of(launch.kernel).compile(launch.kernel, launch.args, capability, lines=False)

    def seconds() -> float:
        begun = time.perf_counter()
        disassembler.raw_rows(binary.image.code, asked.architecture)
        return time.perf_counter() - begun

    started = []
    for _ in range(asked.times):
        disassembler._asked.clear()
        started.append(seconds())
    first = seconds()
    cloned = [seconds() for _ in range(asked.times)]
    rows = [
        ("started", *np.percentile(started, [0, 50, 100])),
        ("stopped, the first time", first, first, first),
        ("cloned", *np.percentile(cloned, [0, 50, 100])),
    ]
    print(tabulate(rows, ("listing", "least_s", "median_s", "most_s"), floatfmt=".3f"))
    print(f"{statistics.median(started) / statistics.median(cloned):.0f} times as fast")


if __name__ == "__main__":
    main()
