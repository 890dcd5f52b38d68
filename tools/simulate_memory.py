"""How much memory simulating takes: peaks of the workloads of ``tools/bench.py`` and of launches that are large in one
way.

Mental model: each workload runs in a process of its own that captures and simulates; the process then says what it
peaked at (``ru_maxrss``: the arrays of the kernel, Python and compiled code included) before the launch, after
the capture, and after the simulation. ``compare`` is the peak of its largest process. Some minutes in all.

    python tools/simulate_memory.py
    python tools/simulate_memory.py million_blocks stream_triad:n=60000000
    python tools/simulate_memory.py --gpu a100_80gb compare:pointer_chase
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import click
import numpy as np
from bench import multiply_add
from capture_memory import peak_mib, persistent_affine, persistent_gathered
from numba import cuda

import gpusim
from gpusim.cases.suite import capture_case, make_case, parse_request
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import FORMATS, format_records
from gpusim.trace.record import Trace

#: The target that `over` is held against.
LIMIT_MIB = 2048
#: Turns of the loops that make one block of four warps issue about a hundred million warp instructions.
AFFINE_TURNS, GATHERED_TURNS, ARITHMETIC_ROUNDS = 2_800_000, 2_000_000, 2_500_000


@cuda.jit
def one_each(out):
    """A block of one warp that stores its number."""
    out[cuda.grid(1) & 0xFFFF] = cuda.blockIdx.x


def _own(name: str):
    """(kernel, grid, block, arguments, arguments of a small launch) of a workload of this file."""
    values, out = np.ones(1 << 20, np.float32), np.zeros(1024 * 256, np.float32)
    half = np.float32(0.5)
    return {
        "alu_bound": (multiply_add, 1024, 256, (out, half, 32), (out, half, 1)),
        "million_blocks": (one_each, 1_000_000, 32, (np.zeros(1 << 16, np.int32),), None),
        "long_block:affine": (persistent_affine, 1, 128, (values, out, AFFINE_TURNS), (values, out, 3)),
        "long_block:gathered": (persistent_gathered, 1, 128, (values, out, GATHERED_TURNS), (values, out, 3)),
        "long_block:arithmetic": (multiply_add, 1, 128, (out, half, ARITHMETIC_ROUNDS), (out, half, 1)),
    }[name]


OWN = ("alu_bound", "million_blocks", "long_block:arithmetic", "long_block:affine", "long_block:gathered")
WORKLOADS = (
    "alu_bound",
    "stream_triad:n=1562500,block_threads=256",
    "pointer_chase:buffer_kib=131072,loads=200",
    *OWN[1:],
    "compare",
)


def measure(workload: str, gpu_name: str, through_file: bool) -> dict[str, object]:
    """Capture and simulate one workload and say what it took."""
    gpu = load_gpu(gpu_name)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "0.trace" if through_file else None
        if workload in OWN:
            kernel, grid, block, arguments, small = _own(workload)
            warm_up = gpusim.capture(kernel, 1, block, small or arguments, gpu=gpu)
            gpusim.simulate(warm_up, gpu)  # everything compiled and loaded
            before, start = peak_mib(), time.perf_counter()
            traces = [gpusim.capture(kernel, grid, block, arguments, gpu=gpu, to=path)]
            traces = [Trace.load(path)] if path else traces
        else:
            name, shape = parse_request(workload)
            warm_up = capture_case(make_case(name, {}, gpu, small=True), gpu)
            gpusim.simulate([launch.trace for launch in warm_up], gpu)
            before, start = peak_mib(), time.perf_counter()
            launches = capture_case(make_case(name, shape, gpu), gpu, folder=Path(folder) if path else None)
            traces = [launch.trace for launch in launches if launch.timed]
        captured, middle = peak_mib(), time.perf_counter()
        result = gpusim.simulate(traces, gpu)
        seconds = time.perf_counter() - middle
        return {
            "workload": workload,
            "warp_instructions": sum(trace.warp_instructions for trace in traces),
            "cycles": int(result.cycles),
            "capture_s": middle - start,
            "simulate_s": seconds,
            "mib_before": before,
            "mib_captured": captured,
            "peak_mib": peak_mib(),
        }


def measure_compare(arguments: list[str], gpu: str) -> dict[str, object]:
    """Run ``gpusim compare`` and say what its largest process peaked at."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "gpusim.cli", "compare", *arguments, "--gpu", gpu, "--against", "published"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    unit = 1 if sys.platform == "darwin" else 1024
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * unit / 2**20
    name = ":".join(("compare", *arguments))
    return {"workload": name, "simulate_s": time.perf_counter() - start, "peak_mib": peak}


@click.command()
@click.argument("workloads", nargs=-1)
@click.option("--gpu", default="h200", show_default=True)
@click.option("--through-file", is_flag=True, help="Stream each trace into a file, and simulate from it.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--here", is_flag=True, hidden=True)
def main(workloads: tuple[str, ...], gpu: str, through_file: bool, form: str, here: bool) -> None:
    """Print the peak memory of WORKLOADS: names of this file, KERNEL:axis=value,..., or compare[:ARGUMENT...] (by
    default the list above)."""
    if here:
        name, *arguments = workloads[0].split(":")
        if name == "compare":
            record = measure_compare(arguments, gpu)
        else:
            record = measure(workloads[0], gpu, through_file)
        print(json.dumps(record))
        return
    records = []
    for workload in workloads or WORKLOADS:
        print(f"{workload} ...", file=sys.stderr, flush=True)
        command = [sys.executable, __file__, workload, "--gpu", gpu, "--here"]
        command += ["--through-file"] * through_file
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ)
        records.append(json.loads(done.stdout))
        records[-1]["over"] = "yes" if records[-1]["peak_mib"] > LIMIT_MIB else "no"
    click.echo(format_records(records, form))


if __name__ == "__main__":
    main()
