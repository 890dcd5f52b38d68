"""How much memory capturing takes, and how many bytes a warp instruction costs in a trace file.

Mental model: each launch runs in a process of its own that streams its trace into a file; the process then says
what it peaked at (``ru_maxrss``: the arrays of the kernel, Python and compiled code included). The figure
before the launch is printed beside it. Shapes are large on purpose: some minutes in all.

    python tools/capture_memory.py
    python tools/capture_memory.py saxpy:n=100000000 --simulate
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from numba import cuda

import gpusim
from gpusim.cases.suite import capture_case, make_case, parse_request
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import format_records
from gpusim.trace.record import Trace

#: A grid that streams, one that tiles through shared memory, one that reads L2 over and over, and two of few
#: warps whose loops are very long: with a stride, and gathered.
LAUNCHES = (
    "stream_triad:n=60000000",
    "matmul_tiled:n=1280",
    "l2_read:blocks=3000",
    "persistent:affine",
    "persistent:gathered",
)
PERSISTENT_TURNS = 1_500_000


@cuda.jit
def persistent_affine(values, out, turns):
    """One block walks through an array again and again."""
    i = cuda.grid(1)
    total = np.float32(0)
    for turn in range(turns):
        total += values[(i + turn * 64) & 0xFFFFF]
    out[i] = total


@cuda.jit
def persistent_gathered(values, out, turns):
    """One block reads where a random number generator points."""
    i = cuda.grid(1)
    total = np.float32(0)
    place = np.uint32(i)
    for _ in range(turns):
        place = np.uint32(place * np.uint32(1664525) + np.uint32(1013904223))
        total += values[place >> np.uint32(12)]
    out[i] = total


def peak_mib() -> float:
    """Most memory that this process has had, in MiB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20


def measure(launch: str, gpu_name: str, simulate: bool) -> dict[str, object]:
    """Capture one launch into a temporary file and say what it took."""
    gpu = load_gpu(gpu_name)
    with tempfile.TemporaryDirectory() as folder:
        small, path = Path(folder) / "small.trace", Path(folder) / "0.trace"
        kernel = persistent_gathered if launch.endswith("gathered") else persistent_affine
        persistent = launch.startswith("persistent:")
        if persistent:
            values, out = np.ones(1 << 20, np.float32), np.zeros(128, np.float32)
            gpusim.capture(kernel, 1, 128, (values, out, 3), gpu=gpu, to=small)
        else:
            name, shape = parse_request(launch)
            case = make_case(name, shape, gpu)
            capture_case(make_case(name, {}, gpu, small=True), gpu)  # everything compiled and loaded
        before, start = peak_mib(), time.perf_counter()
        if persistent:
            gpusim.capture(kernel, 1, 128, (values, out, PERSISTENT_TURNS), gpu=gpu, to=path)
        else:
            capture_case(case, gpu, folder=Path(folder))
            path = Path(folder) / f"{len(case.launches) - 1}.trace"
        seconds = time.perf_counter() - start
        trace = Trace.load(path)
        instructions, size = trace.warp_instructions, path.stat().st_size
        record = {
            "launch": launch,
            "warp_instructions": instructions,
            "chunks": len(trace.chunk_list),
            "seconds": seconds,
            "file_bytes": size,
            "bytes_per_warp_instruction": size / instructions,
            "mib_before": before,
            "peak_mib": peak_mib(),
        }
        if simulate:
            record["cycles"] = int(gpusim.simulate(trace, gpu).cycles)
            record["peak_mib_simulated"] = peak_mib()
        return record


@click.command()
@click.argument("launches", nargs=-1)
@click.option("--gpu", default="h200", show_default=True)
@click.option("--simulate", is_flag=True, help="Also simulate from the file.")
@click.option("--here", is_flag=True, hidden=True)
def main(launches: tuple[str, ...], gpu: str, simulate: bool, here: bool) -> None:
    """Print peak memory and bytes per warp instruction of LAUNCHES (by default the large ones above)."""
    if here:
        print(json.dumps(measure(launches[0], gpu, simulate)))
        return
    records = []
    for launch in launches or LAUNCHES:
        print(f"{launch} ...", file=sys.stderr, flush=True)
        command = [sys.executable, __file__, launch, "--gpu", gpu, "--here", *(["--simulate"] if simulate else [])]
        records.append(json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout))
    click.echo(format_records(records, "table"))


if __name__ == "__main__":
    main()
