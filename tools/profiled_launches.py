"""What Nsight Compute and Nsight Systems count besides a launch, beside reports of very small ones that were published.

    python tools/profiled_launches.py        (half a minute of processor time)

Mental model: of a launch of few blocks Nsight Compute prints cycles of the whole GPU and, as a mean over all SMs,
cycles in which an SM has work. Times SMs by blocks that is what one SM was busy; what is left lies outside the SMs,
whatever the kernel is. The model's is split in the same way: in its SMs it should take what theirs took, and what is
missing outside is the profiler's (gpusim/silicon/methods.py). Two counts of one launch come from two of its repeats.
Nsight Systems prints nothing of the SMs, so only an empty launch tells. Sources: notes on an A40 by three tools (2,526
cycles: the mean of ten launches), and reports in notes on CUDA: A100 by a university's cluster (four blocks), a
laboratory's (one), and of NVIDIA's sample of 50,000 elements (github.com/ForceInjection/AI-fundamentals,
06_nsight_compute_cli.md), RTX 3090 and RTX 3060 by learners, found as stored texts without their addresses; Nsight
Systems on an A100: github.com/ayush-os/nsight-systems-deep-dive at 0e3f06f, 1,010 launches.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

import gpusim
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.methods import CUPTI_US, NCU_CYCLES
from gpusim.trace.record import Trace
from workloads.external.launches import HERE, CudaKernel


@dataclass(frozen=True)
class Row:
    """A launch that Nsight Compute counted at ``clock_mhz``: ``cycles`` of the GPU, more than one where it printed more
    than one; ``busy`` ones of an SM, the mean over all SMs."""

    gpu: str
    clock_mhz: float
    kernel: str
    blocks: int
    threads: int
    elements: int
    cycles: tuple[int, ...]
    busy: float


NSIGHT_COMPUTE = (
    Row("a40", 1270, "nothing", 1, 1, 0, (2526,), 4.37),
    Row("a100_80gb", 756.09, "sum", 4, 256, 1024, (3726,), 55.69),
    Row("a100_80gb", 739.66, "indices", 1, 1024, 1024, (3078,), 8.52),
    Row("a100_80gb", 748.83, "indices", 1, 1024, 1024, (3119,), 8.56),
    Row("a100_80gb", 1120, "bounded_sum", 196, 256, 50000, (4183, 4309), 1783.23),
    Row("rtx3090", 1370, "bounded_sum", 1, 256, 4096, (3597, 4396), 19.65),
    Row("rtx3060", 1290, "sum", 4, 256, 1024, (3047, 3069), 191.54),
    Row("rtx3060", 1310, "sum", 4, 256, 1024, (3054,), 187.61),
)
#: Of Nsight Systems: GPU, kernel, threads, elements, microseconds.
NSIGHT_SYSTEMS = (("a40", "nothing", 1, 0, 0.896), ("a100_80gb", "bounded_sum", 256, 10, 1.813))

_ARGUMENTS: dict[str, Callable[[int], tuple]] = {
    "nothing": lambda n: (),
    "sum": lambda n: tuple(np.zeros(n, np.float32) for _ in range(3)),
    "bounded_sum": lambda n: (*(np.zeros(n, np.float32) for _ in range(3)), np.int32(n)),
    "indices": lambda n: (np.zeros(n, np.int32), np.int32(n)),
}


def captured(kernel: str, blocks: int, threads: int, elements: int, spec: GpuSpec) -> Trace:
    """The launch."""
    made = CudaKernel(HERE / "profiled.cu", kernel)
    return gpusim.capture(made, (blocks,), (threads,), _ARGUMENTS[kernel](elements), gpu=spec)


def counted(row: Row) -> dict[str, object]:
    """A row of Nsight Compute's as it is printed, in cycles."""
    spec = override_gpu(load_gpu(row.gpu), [f"clock_hz={row.clock_mhz * 1e6:.0f}"])
    cycles = gpusim.simulate(captured(row.kernel, row.blocks, row.threads, row.elements, spec), spec).cycles
    outside = spec.launch.start_cycles + spec.launch.end_cycles
    busy = row.busy * spec.sm_count / min(row.blocks, spec.sm_count)
    return {
        "gpu": row.gpu,
        "clock_mhz": row.clock_mhz,
        "kernel": f"{row.kernel} {row.blocks}x{row.threads}",
        "counted_cycles": " ".join(str(each) for each in row.cycles),
        "busy_cycles": round(busy),
        "outside_cycles": " ".join(str(round(each - busy)) for each in row.cycles),
        "model_busy_cycles": cycles - outside,
        "model_outside_cycles": outside,
        "missing_cycles": " ".join(str(each - cycles) for each in row.cycles),
        "with_ncu_percent": round(100 * ((cycles + NCU_CYCLES) / np.mean(row.cycles) - 1), 1),
    }


def recorded(gpu: str, kernel: str, threads: int, elements: int, measured_us: float) -> dict[str, object]:
    """One of Nsight Systems', in microseconds."""
    spec = load_gpu(gpu)
    trace = captured(kernel, 1, threads, elements, spec)
    time_us = 1e6 * gpusim.simulate([trace, trace], spec).launches[1].cycles / spec.clock_hz
    return {
        "gpu": gpu,
        "kernel": f"{kernel} 1x{threads}",
        "recorded_us": measured_us,
        "model_us": round(time_us, 3),
        "missing_us": round(measured_us - time_us, 3),
        "with_nsys_percent": round(100 * ((time_us + CUPTI_US) / measured_us - 1), 1),
    }


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(form: str) -> None:
    click.echo(format_records([counted(row) for row in NSIGHT_COMPUTE], form))
    click.echo(format_records([recorded(*each) for each in NSIGHT_SYSTEMS], form))


if __name__ == "__main__":
    main()
