"""How fast threads add to words that they share: simulated beside what others measured.

    python tools/atomic_units.py [GPU ...] [--format table|json|csv|md]

Mental model: each thread adds to one word again and again, N words lie D bytes apart, and threads take them in turn;
the rate is that of the additions beyond the first few, so that starting and ending do not count. One word tells what a
lane costs, the words of a line what its sectors do, and words of several lines how many atomic units those have
(:mod:`gpusim.model.l2_atomics`). Rates of many lines are left out: there the SMs limit.
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

KERNEL = CudaKernel(HERE / "atomic_units.cu", "add_to_own_word")
THREADS, FEW, MANY = 256, 2, 6
#: GPU -> (blocks, Gop/s by words and bytes between them). h100 and rtx5090 (an sm_120 GPU of unknown name and clock):
#: revollllt/flash-vla at b035cba, hardware-unit-test probes, unit gmem_atomic. b300: ademeure/QuickRunCUDA,
#: ULTRA_DENSE_B300_PIPE_CATALOG.md, section 34.6, whose additions to one word were combined by the compiler and are
#: left out.
MEASURED: dict[str, tuple[int, dict[tuple[int, int], float]]] = {
    "h100": (
        132,
        {(1, 4): 1.36, (4, 4): 5.4, (4, 128): 2.3, (32, 4): 12.6, (32, 128): 10.5, (256, 4): 27.2, (2048, 4): 165.4},
    ),
    "b300": (148, {(2, 4): 3.15, (4, 4): 6.3, (8, 4): 15.8, (32, 4): 15.8, (256, 4): 31.0, (1024, 4): 122.0}),
    "rtx5090": (132, {(1, 4): 2.42, (4, 4): 9.7, (32, 4): 15.53, (256, 4): 31.05, (2048, 4): 240.0}),
}


def simulated_gops(gpu: str, blocks: int, words: int, apart_bytes: int) -> float:
    """Additions a nanosecond of ``blocks`` blocks on ``words`` words."""
    spec = load_gpu(gpu)
    base = np.zeros(max(words * apart_bytes, 1024), np.uint8)
    times = []
    for repeats in (FEW, MANY):
        args = (base, np.uint32(words), np.uint32(apart_bytes), np.int32(repeats))
        times.append(gpusim.simulate(gpusim.capture(KERNEL, (blocks,), (THREADS,), args, gpu=spec), gpu=spec).time_us)
    return blocks * THREADS * (MANY - FEW) / (1e3 * (times[1] - times[0]))


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("gpus", nargs=-1, metavar="[GPU ...]")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(gpus: tuple[str, ...], form: str) -> None:
    """Print the simulated and the measured rates of additions that meet, of all GPUs that were measured or of those
    named.

    Example:
      python tools/atomic_units.py h100 --format md
    """
    for gpu in gpus:
        if gpu not in MEASURED:
            raise click.UsageError(f"{gpu!r} was not measured; one of {', '.join(MEASURED)}")
    records = []
    for gpu in gpus or MEASURED:
        blocks, rates = MEASURED[gpu]
        for (words, apart_bytes), measured in rates.items():
            found = simulated_gops(gpu, blocks, words, apart_bytes)
            records.append(
                {
                    "gpu": gpu,
                    "words": words,
                    "apart_bytes": apart_bytes,
                    "measured_gops": measured,
                    "simulated_gops": round(found, 2),
                    "error_percent": round(100 * (found / measured - 1), 1),
                }
            )
    click.echo(format_records(records, form))


if __name__ == "__main__":
    main()
