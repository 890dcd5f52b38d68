"""An SGEMM ladder by ``--sample``: how long the answer takes, what error it claims and, with ``--full``, what the error
is.

    python tools/sgemm_ladder.py [--gpu NAME ...] [--size 4096] [--depth K] [--sms N] [--full] [--instructions N] [RUNG
    ...]

Mental model: seven kernels for C = alpha A B + beta C (``tools/ladder/sgemm.cu``), each a step up from the one before,
after the public description of siboehm's ladder. A launch of 4096^3 is 2 to 10 thousand million warp instructions;
captured from a few blocks and simulated in part it is to take less than a minute. ``--full`` simulates all of it, too,
which wants small sizes and, with ``--sms``, a GPU cut down to so many SMs. Seconds are of the processor, over all
threads.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

import gpusim
from gpusim.engine.sampled.plan import SAMPLE_INSTRUCTIONS
from gpusim.report.tables import FORMATS, format_records

SOURCE = Path(__file__).parent / "ladder" / "sgemm.cu"
#: Rung -> rows and columns of C that a block makes, threads of a block.
RUNGS: dict[str, tuple[int, int | tuple[int, int]]] = {
    "naive": (32, (32, 32)),
    "coalesced": (32, 1024),
    "shared_tile": (32, 1024),
    "tile_1d": (64, 512),
    "tile_2d": (128, 256),
    "vectorised": (128, 256),
    "warp_tile": (128, 128),
}


def captured(rung: str, gpu: gpusim.GpuSpec, size: int, depth: int) -> gpusim.Trace:
    """The launch of a rung for C of ``size`` x ``size``."""
    tile, block = RUNGS[rung]
    n, k = np.int32(size), np.int32(depth)
    a, b = np.zeros((size, depth), np.float32), np.zeros((depth, size), np.float32)
    c = np.zeros((size, size), np.float32)
    args = (n, n, k, np.float32(0.5), a, b, np.float32(3), c)
    kernel = gpusim.cuda_cpp(SOURCE.read_text(), rung)
    return gpusim.capture(kernel, (size // tile, size // tile), block, args, gpu=gpu, sample=True)


def measure(rung: str, gpu: gpusim.GpuSpec, size: int, depth: int, full: bool, instructions: int) -> dict[str, object]:
    """One row of the table."""
    begin = time.process_time()
    trace = captured(rung, gpu, size, depth)
    seconds = [time.process_time() - begin]
    result = gpusim.simulate(trace, gpu, sample=True, sample_instructions=instructions)
    seconds.append(time.process_time() - begin - seconds[0])
    sampling = result.launches[0].sampling
    assert sampling is not None
    row: dict[str, object] = {
        "rung": rung,
        "gpu": gpu.name,
        "million_instructions": trace.warp_instructions / 1e6,
        "blocks_run": len(trace.regular.held) if trace.regular else trace.launch.blocks,
        "iterations": f"{sampling.iterations - sampling.skipped_iterations} of {sampling.iterations}"
        if sampling.iterations
        else "all",
        "simulated_percent": result.simulated_percent,
        "time_ms": result.time_us / 1e3,
        "gflop_per_s": 2 * size * size * depth / result.time_us / 1e3,
        "claimed_percent": 100 * sampling.error_cycles / result.cycles,
        "capture_cpu_s": seconds[0],
        "simulate_cpu_s": seconds[1],
    }
    if full:
        whole = gpusim.simulate(trace, gpu)
        row["real_percent"] = 100 * (result.cycles / whole.cycles - 1)
        row["held"] = "yes" if abs(result.cycles - whole.cycles) <= sampling.error_cycles else "no"
        row["full_cpu_s"] = time.process_time() - begin - sum(seconds)
    return row


@click.command()
@click.argument("rungs", nargs=-1, type=click.Choice(list(RUNGS)), metavar="[RUNG]...")
@click.option("--gpu", "gpus", multiple=True, default=("rtx_a6000", "a100_80gb", "h200"), show_default=True)
@click.option("--size", default=4096, show_default=True, help="Rows and columns of C.")
@click.option("--depth", type=int, help="Columns of A; SIZE without it.")
@click.option("--sms", type=int, default=0, help="SMs of the GPU; 0 leaves it whole.")
@click.option("--full", is_flag=True, help="Simulate the whole launch, too.")
@click.option("--instructions", default=SAMPLE_INSTRUCTIONS, show_default=True, help="Warp instructions to simulate.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(
    rungs: Sequence[str],
    gpus: Sequence[str],
    size: int,
    depth: int | None,
    sms: int,
    full: bool,
    instructions: int,
    form: str,
) -> None:
    """Sample RUNGS (all of them by default) on GPUs and print what that took and claims."""
    rows = []
    for name in gpus:
        spec = gpusim.load_gpu(name)
        spec = replace(spec, sm_count=sms) if sms else spec
        for rung in rungs or RUNGS:
            rows.append(measure(rung, spec, size, depth or size, full, instructions))
            print(rows[-1], file=sys.stderr, flush=True)
    click.echo(format_records(rows, form))


if __name__ == "__main__":
    main()
