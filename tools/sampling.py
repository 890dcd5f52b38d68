"""What ``--sample`` gets right: predicted against full simulation, claimed against real error, as a table.

    python tools/sampling.py [--gpu t4] [--sms 8] [--behind] [--few] [--instructions N] [--format table|json|csv|md]
    [KERNEL:axis=value,... ...]

Mental model: a launch is sampled and then simulated in full on the same machine. ``--sms`` cuts the GPU down to so many
SMs, so that a launch of some thousand blocks has many waves. ``held`` says whether the full result lies within the
claimed error. Sampling is worth its name where ``simulated_percent`` is small. ``--few``: launches are captured from a
few blocks where the others follow, and iterations of loops left out where simulating takes more than ``--instructions``
warp instructions.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace

import click

import gpusim
from gpusim.cases.suite import capture_case, make_case, parse_request
from gpusim.engine.sampled.plan import SAMPLE_INSTRUCTIONS
from gpusim.report.tables import FORMATS, format_records

#: Streams, tiles, irregular rows and gathers, atomics, divergence, tails.
CASES = (
    "saxpy:n=1048576",
    "saxpy:n=1000000,block_threads=64",
    "stream_triad:n=1048578,block_threads=256",
    "transpose:rows=1024,columns=1024,padding=0",
    "matmul_tiled:m=512,n=512,k=64",
    "matmul_naive:m=256,n=256,k=64",
    "softmax:rows=4096,columns=500,block_threads=128",
    "layernorm:rows=4096,columns=500,block_threads=128",
    "spmv_csr:rows=131072,mean_row_length=4",
    "spmv_csr:rows=131072,mean_row_length=16,skew=0.5",
    "spmv_csr_vector:rows=16384,mean_row_length=16",
    "spmv_ell:rows=131072,mean_row_length=4,skew=0.5",
    "histogram:n=1048576,blocks=528",
    "bfs:vertices=131072,mean_degree=8",
    "compaction:n=1048576",
    "embedding_gather:tokens=4096,columns=256",
    "scatter_add:tokens=4096,columns=256,dtype=float32",
    "mandelbrot:rows=512,columns=512,limit=128",
    "gelu:n=1048576,blocks=1048576",
    "conv2d_direct:batch=4,channels=3,height=112,width=112,filters=32",
    "maxpool2d",
    "sgemm_batched:batch=384,m=50,n=50,k=50,tile=32",
    "reduce_sum:n=1048576,blocks=1056",
    "stencil2d",
)


def measure(
    request: str, gpu: gpusim.GpuSpec, sms: int | None, behind: bool, few: bool, instructions: int
) -> dict[str, object]:
    """One row of the table; ``behind``: of the same launches once more, behind the sampled ones."""
    name, shape = parse_request(request)
    launches = capture_case(make_case(name, shape, gpu), gpu, sample=few)
    timed = [launch.trace for launch in launches if launch.timed]
    before = [launch.trace for launch in launches if not launch.timed]
    timed *= 2 if behind else 1
    machine = gpu if sms is None else replace(gpu, sm_count=sms)
    seconds = [time.process_time()]
    sampled = gpusim.simulate(timed, machine, warm=before, sample=True, sample_instructions=instructions)
    seconds.append(time.process_time())
    full = gpusim.simulate(timed, machine, warm=before)
    seconds.append(time.process_time())
    if behind:
        sampled, full = sampled.launches[-1], full.launches[-1]
    said = sampled.sampling if behind else sampled
    error_cycles, simulated_percent = said.error_cycles, said.simulated_percent
    off = [abs(sampled.counters[key] / value - 1) for key, value in full.counters.items() if value > 1000]
    ran: dict[str, object] = {}
    if few:
        regular, last = timed[-1].regular, sampled.launches[-1].sampling
        ran["blocks_run"] = f"{len(regular.held) if regular else timed[-1].launch.blocks} of {timed[-1].launch.blocks}"
        ran["iterations"] = (
            f"{last.iterations - last.skipped_iterations} of {last.iterations}" if last and last.iterations else "all"
        )
    return {
        "launch": request,
        **ran,
        "cycles": full.cycles,
        "predicted": sampled.cycles,
        "real_percent": 100.0 * (sampled.cycles - full.cycles) / full.cycles,
        "claimed_percent": 100.0 * error_cycles / sampled.cycles,
        "held": "yes" if abs(sampled.cycles - full.cycles) <= error_cycles else "no",
        "simulated_percent": simulated_percent,
        "worst_counter_percent": 100.0 * max(off),
        "times_faster": (seconds[2] - seconds[1]) / (seconds[1] - seconds[0]),
    }


@click.command()
@click.argument("requests", nargs=-1, metavar="[KERNEL[:axis=value,...]]...")
@click.option("--gpu", default="t4", show_default=True)
@click.option("--sms", type=int, default=8, show_default=True, help="SMs of the cut-down GPU; 0 leaves it whole.")
@click.option(
    "--behind", is_flag=True, help="Of each launch's second run, on the caches that the sampled first one left."
)
@click.option("--few", is_flag=True, help="Capture a few blocks where the others follow.")
@click.option(
    "--instructions", default=SAMPLE_INSTRUCTIONS, show_default=True, help="Beyond them iterations are left out."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(requests: Sequence[str], gpu: str, sms: int, behind: bool, few: bool, instructions: int, form: str) -> None:
    """Sample REQUESTS (by default a list of regular and irregular ones) and compare with full simulation."""
    spec = gpusim.load_gpu(gpu)
    records = []
    for request in requests or CASES:
        records.append(measure(request, spec, sms or None, behind, few, instructions))
        print(
            f"{request}: {records[-1]['real_percent']:.2f} % ({records[-1]['claimed_percent']:.2f} %)", file=sys.stderr
        )
    click.echo(format_records(records, form))


if __name__ == "__main__":
    main()
