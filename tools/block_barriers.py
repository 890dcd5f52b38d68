"""What a block's barrier takes, by the warps that meet: simulated beside what others measured.

    python tools/block_barriers.py [GPU ...] [--format table|json|csv|md]

Mental model: one block meets again and again; cycles a barrier are the difference between many and few of them. How
they grow with the warps says how fast arrivals are taken (one each two cycles of an SM, ``pipes.barrier``), what is
left what opening takes (``l1.barrier_latency_cycles``), with what the loop does beside it.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

import gpusim
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import FORMATS, format_records
from workloads.external.launches import HERE, CudaKernel

SOURCE = HERE / "block_barriers.cu"
LANES, FEW, MANY = 32, 64, 192
#: GPU -> (kernel, cycles by warps of the block). v100, h100: hotneutron/amora at 5582fad, probe
#: synchronization/barrier_latency.cu, its reports of a V100-SXM2-32GB and an H100 80GB HBM3. b300:
#: ademeure/QuickRunCUDA, V9_SYNCTHREADS_COST.md, nothing but barriers in the loop.
MEASURED: dict[str, tuple[str, dict[int, float]]] = {
    "v100": ("add_and_meet", {2: 57.0, 4: 61.0, 8: 69.0, 16: 85.9, 32: 119.5}),
    "h100": ("add_and_meet", {2: 45.3, 4: 49.3, 8: 57.3, 16: 74.3, 32: 106.4}),
    "b300": ("meet", {1: 24.0, 2: 26.0, 4: 30.0, 8: 38.0, 16: 54.0, 32: 86.0}),
}


def simulated_cycles(gpu: str, kernel: str, warps: int) -> float:
    """Cycles a barrier of a block of so many warps."""
    spec = load_gpu(gpu)
    cycles = []
    for times in (FEW, MANY):
        args = (np.int32(times), np.zeros(1, np.int32))
        trace = gpusim.capture(CudaKernel(SOURCE, kernel), (1,), (LANES * warps,), args, gpu=spec)
        # The second launch finds its code in the caches.
        cycles.append(gpusim.simulate([trace, trace], gpu=spec).launches[-1].cycles)
    return (cycles[1] - cycles[0]) / (MANY - FEW)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("gpus", nargs=-1, metavar="[GPU ...]")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(gpus: tuple[str, ...], form: str) -> None:
    """Print the simulated and the measured cycles of a barrier, of all GPUs that were measured or of those named.

    Example:
      python tools/block_barriers.py h100 --format md
    """
    for gpu in gpus:
        if gpu not in MEASURED:
            raise click.UsageError(f"{gpu!r} was not measured; one of {', '.join(MEASURED)}")
    records = []
    for gpu in gpus or MEASURED:
        kernel, cycles = MEASURED[gpu]
        for warps, measured in cycles.items():
            found = simulated_cycles(gpu, kernel, warps)
            records.append(
                {
                    "gpu": gpu,
                    "warps": warps,
                    "measured_cycles": measured,
                    "simulated_cycles": round(found, 1),
                    "error_percent": round(100 * (found / measured - 1), 1),
                }
            )
    click.echo(format_records(records, form))


if __name__ == "__main__":
    main()
