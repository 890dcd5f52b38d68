"""Record what the kernel suite covers into traces/coverage: who can fill which hole, for reports and for the search.

    python tools/record_coverage.py [--gpu h200] [--minutes 30] [--kernels saxpy ...] [-o
    traces/coverage/suite-h200.json] python tools/record_coverage.py --searched FOLDER/coverage.json ... [-o
    traces/coverage/suite-searched-h200.json]

For each kernel: its small shape, its default shape, and its small shape with each listed value of each axis that is no
size, on one GPU. A workload whose trace is longer than ``--most-instructions`` is left out, and so is what kernel or
GPU refuses. The file is written whole after each kernel, so that a run that is stopped has recorded what it got to; it
keeps ``--examples`` workloads a bin, those that hit most bins, and so stays small. ``--searched`` runs nothing: it does
the same with coverage files that `gpusim explore` wrote.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpusim.cases.names import general_names
from gpusim.cases.suite import capture_case, complete_shape, find_kernel, make_case
from gpusim.errors import GpusimError
from gpusim.explore.cover import cover_captured, workload_name
from gpusim.explore.coverage import Coverage, Hits
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec


def shapes_of(name: str, gpu: GpuSpec) -> Iterator[dict[str, Any]]:
    """Complete shapes worth recording, none twice."""
    small = complete_shape(name, {}, gpu, small=True)
    wanted = [small, complete_shape(name, {}, gpu)]
    for axis, values in find_kernel(name).axes.items():
        choice = not isinstance(small[axis], int) or isinstance(small[axis], bool) or axis.startswith("block_")
        wanted += [{**small, axis: value} for value in values if choice]
    seen: list[dict[str, Any]] = []
    for shape in wanted:
        if shape not in seen:
            seen.append(shape)
            yield shape


def trimmed(coverage: Coverage, examples: int) -> Coverage:
    """The same bins with few examples each: of every bin those stay that hit most bins in all."""
    wide: dict[str, int] = {}
    for hits in coverage.hits.values():
        for example in hits.examples:
            wide[example] = wide.get(example, 0) + 1
    kept = {
        each: Hits(hits.count, tuple(sorted(hits.examples, key=lambda e: (-wide[e], e))[:examples]))
        for each, hits in coverage.hits.items()
    }
    return Coverage(kept, coverage.launches)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", default="h200")
    parser.add_argument("--kernels", nargs="+", default=general_names())
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--most-instructions", type=int, default=2_000_000)
    parser.add_argument("--examples", type=int, default=4)
    parser.add_argument("--searched", nargs="+", type=Path, help="coverage files of searches on that GPU")
    parser.add_argument("-o", "--output", type=Path)
    chosen = parser.parse_args()
    gpu, end = load_gpu(chosen.gpu), time.monotonic() + 60 * chosen.minutes
    what = "suite-searched" if chosen.searched else "suite"
    output = chosen.output or Path(__file__).parents[1] / "traces" / "coverage" / f"{what}-{gpu.name}.json"
    total = Coverage().merge(*map(Coverage.load, chosen.searched or ()))
    if chosen.searched:
        trimmed(total, chosen.examples).save(output)
        return
    for name in chosen.kernels:
        for shape in shapes_of(name, gpu):
            if time.monotonic() > end:
                return
            try:
                launches = capture_case(make_case(name, shape, gpu), gpu)
                if sum(launch.trace.warp_instructions for launch in launches) > chosen.most_instructions:
                    continue
                total = total.merge(cover_captured(workload_name(name, shape, gpu), launches, gpu).coverage)
            except GpusimError as error:
                print(f"{name}: {error}", file=sys.stderr)
        trimmed(total, chosen.examples).save(output)
        print(f"{name}: {len(total.hits)} bins, {total.launches} launches", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
