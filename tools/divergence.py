"""What divergence costs the emulator: how many warps run in lockstep, for how long, and how fast that is.

    python tools/divergence.py [--gpu h200] [--repeat 5] [--format table|json|csv|md]
    python tools/divergence.py spmv_csr bitonic_sort:n=4096

Mental model: of warps in lockstep an instruction is fetched once. ``warps_together`` is the mean number of warps that
shared one (never more than a block has, eight at most), ``instructions_between_choices`` how many were fetched until
the warps that run next were chosen anew. Without arguments: the suite's mandelbrot, whose lanes leave their loop one by
one, beside the same launch with one and the same point everywhere, whose lanes all stay to the end. Rates are by CPU
time, the best of ``--repeat`` captures after one that compiles; they depend on the machine, the other columns do not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from bench import machine

import gpusim
from gpusim.cases.suite import capture_case, make_case, parse_request
from gpusim.emulator import emulation
from gpusim.errors import GpusimError
from gpusim.report.tables import FORMATS, format_records

#: (block_x, block_y): eight warps, four, one.
BLOCKS = ((32, 8), (32, 4), (32, 1))
#: A point of the set: every lane makes all its iterations.
INSIDE = (np.float32(0.1), np.float32(0.1))


class Counters:
    """Sums of what the emulator's states have counted, while it is entered."""

    def __enter__(self) -> Counters:
        self.executed = self.dispatched = self.gathered = 0
        self._release = emulation.release
        emulation.release = self._count
        return self

    def __exit__(self, *exc_info) -> None:
        emulation.release = self._release

    def _count(self, prepared, states, raw, registers) -> None:
        state = states[0]
        self.executed += int(state.executed)
        self.dispatched += int(state.dispatched)
        self.gathered += int(state.gathered)
        self._release(prepared, states, raw, registers)


def mandelbrot(block: tuple[int, int], uniform: bool, spec) -> Callable[[], object]:
    """Makes the suite's entry with blocks of ``block`` threads; ``uniform``: its picture is one point."""

    def make():
        case = make_case("mandelbrot", {"block_x": block[0], "block_y": block[1]}, spec)
        if not uniform:
            return case
        launch = case.launches[0]
        counts, _, _, step_x, step_y, limit = launch.args
        return replace(case, launches=(replace(launch, args=(counts, *INSIDE, 0 * step_x, 0 * step_y, limit)),))

    return make


def measure(name: str, make: Callable[[], object], spec, repeat: int) -> dict:
    seconds = []
    for _ in range(repeat + 1):
        case = make()
        with Counters() as counted:
            start = time.process_time()
            capture_case(case, spec)
            seconds.append(time.process_time() - start)
    return {
        "workload": name,
        "warp_instructions": counted.executed,
        "warps_together": counted.executed / max(1, counted.dispatched),
        "instructions_between_choices": counted.dispatched / max(1, counted.gathered),
        "emulated_million_per_s": counted.executed / min(seconds[1:]) / 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "workloads", nargs="*", help="suite entries or FILE.py:FUNCTION, with axes: mandelbrot:limit=64"
    )
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--format", dest="form", choices=FORMATS, default="table")
    options = parser.parse_args()
    print(machine(), file=sys.stderr)
    try:
        spec = gpusim.load_gpu(options.gpu)
        makers = {}
        for text in options.workloads:
            name, shape = parse_request(text)
            makers[text] = lambda name=name, shape=shape: make_case(name, shape, spec)
        for block in BLOCKS if not makers else ():
            warps = block[0] * block[1] // 32
            for kind in ("mandelbrot", "one point"):
                makers[f"{kind}, blocks of {warps}"] = mandelbrot(block, kind == "one point", spec)
        records = []
        for name, make in makers.items():
            records.append(measure(name, make, spec, max(1, options.repeat)))
            print(f"{name}: done", file=sys.stderr)
    except GpusimError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    print(format_records(records, options.form))


if __name__ == "__main__":
    main()
