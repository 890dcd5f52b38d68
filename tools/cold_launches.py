"""What measuring methods add to a launch, beside times that NVBench's authors published of small kernels on an RTX
5090.

    python tools/cold_launches.py                small ones (a minute of processor time)
    python tools/cold_launches.py --large        those of 16 MiB too (some minutes)

Mental model: a row is a kernel of some bytes that NVBench timed cold (L2 overwritten, two events) and in a batch (one
launch behind another). It is predicted alone (swept caches, nothing added), and as the method reports it
(gpusim/silicon/methods.py); beside that, with every line of L2 overwritten, as do_bench's buffer does it. Events count
whole microseconds on that GPU: of rows below 5 us only the mean over many repeats says more. The library's kernels are
not ours to the instruction. Sources: NVIDIA/nvbench issue 270 (fill, signed bytes), NVIDIA/cccl pull request 7391 (add,
FP16).
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

import gpusim
from gpusim.compare.as_measured import simulate_as
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.methods import METHODS
from workloads.external.launches import HERE, CudaKernel

GPU, THREADS, PACK_BYTES = "rtx5090", 256, 16
#: Larger rows are run with --large.
SMALL_BYTES = 4 << 20


@dataclass(frozen=True)
class Row:
    """``bytes_each`` of each of ``arrays``; microseconds that NVBench printed."""

    kernel: str
    arrays: int
    bytes_each: int
    cold_us: float
    batch_us: float


ROWS = (
    Row("fill", 1, 1 << 16, 2.836, 2.169),
    Row("fill", 1, 1 << 20, 2.683, 2.124),
    Row("fill", 1, 1 << 24, 8.182, 4.961),
    Row("add", 3, 1 << 17, 4.096, 2.318),
    Row("add", 3, 1 << 21, 7.047, 2.275),
)


def predicted(row: Row) -> dict[str, object]:
    """A row as it is printed."""
    spec, packs = load_gpu(GPU), row.bytes_each // PACK_BYTES
    arrays = [np.zeros((packs, PACK_BYTES // 4), np.uint32) for _ in range(row.arrays)]
    kernel = CudaKernel(HERE / "nvbench_rows.cu", row.kernel)
    trace = gpusim.capture(kernel, (packs // THREADS,), (THREADS,), (*arrays, np.int32(packs)), gpu=spec, sample=True)
    alone_us = gpusim.simulate(trace, spec, code=trace, sample=True).time_us
    cold, every, batch = (
        simulate_as(METHODS[name], [trace], spec, sample=True).time_us
        for name in ("nvbench-cold", "do_bench", "nvbench-batch")
    )
    return {
        "kernel": f"{row.kernel} {row.bytes_each // 1024} KiB",
        "cold_us": row.cold_us,
        "alone_us": round(alone_us, 2),
        "nvbench_cold_us": round(cold, 2),
        "error_percent": round(100 * (cold / row.cold_us - 1), 1),
        "all_overwritten_percent": round(100 * (every / row.cold_us - 1), 1),
        "batch_us": row.batch_us,
        "nvbench_batch_us": round(batch, 2),
        "batch_error_percent": round(100 * (batch / row.batch_us - 1), 1),
    }


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.option("--large", is_flag=True, help="The rows of 16 MiB too.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(large: bool, form: str) -> None:
    rows = [row for row in ROWS if large or row.arrays * row.bytes_each <= 2 * SMALL_BYTES]
    click.echo(format_records([predicted(row) for row in rows], form))


if __name__ == "__main__":
    main()
