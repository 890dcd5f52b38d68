"""Print what building Numba kernels takes with and without the PTX that nobody reads
(gpusim.frontend.numba.helper_names).

    python tools/build_time.py [KERNEL ...] [--gpu sm_90] [--rounds 3]

Mental model: the same kernels of the suite (small shapes, first launch) are built in this process, without source lines
and without what earlier processes kept, alternately in both ways; of each the smallest processor time of the rounds
counts.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import gpusim.frontend.numba.build as numba_build
from gpusim.cases.suite import find_kernel
from gpusim.gpus.names import capability_of
from gpusim.isa.binary.cubin import load_kernel
from gpusim.report.tables import FORMATS, format_records

KERNELS = ("saxpy", "transpose", "softmax", "layernorm", "histogram", "matmul_tiled", "spmv_csr", "nbody", "stencil3")
WAYS = {"with_ptx_s": contextlib.nullcontext, "without_ptx_s": numba_build.without_unread_ptx}


def build_seconds(launch, capability: tuple[int, int]) -> tuple[float, bytes]:
    """Processor time of one build from nothing, and its machine code."""
    again = type(launch.kernel)(launch.kernel.py_func, dict(launch.kernel.targetoptions))
    types = numba_build.argument_types(again, tuple(launch.args))
    begun = time.process_time()
    built = numba_build._compile(again, types, capability, dict(again.targetoptions), False)
    return time.process_time() - begun, load_kernel(built.cubin).code


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", nargs="*", default=KERNELS, metavar="KERNEL")
    parser.add_argument("--gpu", default="sm_90", help="architecture (default sm_90)")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--format", choices=FORMATS, default="table")
    given = parser.parse_args()
    capability = capability_of(given.gpu)
    if capability is None:
        sys.exit(f"error: {given.gpu} is no architecture")
    records: list[dict] = []
    for name in given.kernels:
        entry = find_kernel(name)
        launch = next(iter(entry.make(**entry.small).launches))
        build_seconds(launch, capability)  # what the first build of a process sets up
        least, codes = dict.fromkeys(WAYS, float("inf")), set()
        for _ in range(given.rounds):
            for way, context in WAYS.items():
                numba_build.without_unread_ptx = context
                seconds, code = build_seconds(launch, capability)
                least[way] = min(least[way], seconds)
                codes.add(bytes(code))
        same = {"same_code": len(codes) == 1}
        records.append({"kernel": name, **least, "ratio": least["without_ptx_s"] / least["with_ptx_s"], **same})
    total = {way: sum(record[way] for record in records) for way in WAYS}
    everywhere = all(record["same_code"] for record in records)
    ratio = total["without_ptx_s"] / total["with_ptx_s"]
    records.append({"kernel": "all", **total, "ratio": ratio, "same_code": everywhere})
    print(
        format_records(
            [{key: round(v, 3) if isinstance(v, float) else v for key, v in r.items()} for r in records], given.format
        )
    )


if __name__ == "__main__":
    main()
