"""What `--check` costs on kernels of the asynchronous units: CPU seconds of a capture with a check over those without.

    python tools/check_cost.py                        --check async on each step of Hopper's ladder and on a tcgen05 GEMM
    python tools/check_cost.py --check memory --step cooperative --rounds 5
    python tools/check_cost.py --format markdown

Mental model: both captures are of the same launch in one process, in turns, after one of each that compiles; the least
of the rounds counts.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "kernels"), str(ROOT / "tests" / "support")]

from test_tcgen05_gemm import ROOM, SOURCE

import gpusim
from gpusim.cases.suite import find_kernel
from gpusim.report.tables import FORMATS, format_records
from kernels.cuda_cpp.hopper import GEMM_STEPS

_TENSOR = "tcgen05 128 x 64 x 1024"
Capture = Callable[[tuple[str, ...]], gpusim.Trace]


def _ladder(step: str) -> Capture:
    case = find_kernel("cpp_wgmma_gemm").make(m=512, n=512, k=512, columns=128, stages=4, blocks=8, step=step)
    launch = case.launches[0]

    def run(check: tuple[str, ...]) -> gpusim.Trace:
        return gpusim.capture(
            launch.kernel, launch.grid, launch.block, launch.args, gpu="h200", shared_bytes=launch.shared_bytes,
            cluster=getattr(launch, "cluster", None), check=check,
        )  # fmt: skip

    return run


def _tensor() -> Capture:
    kernel = gpusim.cuda_cpp(SOURCE, "gemm", ["-arch=sm_100a"])
    a, b = np.ones((128, 1024), np.float16), np.ones((64, 1024), np.float16)

    def run(check: tuple[str, ...]) -> gpusim.Trace:
        args = (np.zeros((128, 64), np.float32), a, b, 64, 1024)
        return gpusim.capture(kernel, 1, 128, args, gpu="b200", shared_bytes=ROOM, check=check)

    return run


def _least(run: Capture, check: tuple[str, ...], rounds: int) -> tuple[float, float, int]:
    """(CPU seconds without, with the check, findings)."""
    found = len(run(check).findings)
    run(())
    seconds = {(): float("inf"), check: float("inf")}
    for _ in range(rounds):
        for asked in seconds:
            begun = time.process_time()
            run(asked)
            seconds[asked] = min(seconds[asked], time.process_time() - begun)
    return seconds[()], seconds[check], found


@click.command(help=__doc__)
@click.option("--check", default="async", show_default=True, help="Checks, separated by commas.")
@click.option("--step", "steps", multiple=True, type=click.Choice((*GEMM_STEPS, "tcgen05")), help="Only this; repeats.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(check: str, steps: tuple[str, ...], rounds: int, form: str) -> None:
    rows = []
    for step in steps or (*GEMM_STEPS, "tcgen05"):
        tensor = step == "tcgen05"
        without, with_check, found = _least(_tensor() if tensor else _ladder(step), tuple(check.split(",")), rounds)
        rows.append({
            "kernel": _TENSOR if tensor else f"cpp_wgmma_gemm {step} 512^3", "without_s": round(without, 2),
            f"{check}_s": round(with_check, 2), "times": round(with_check / without, 2), "findings": found,
        })  # fmt: skip
    click.echo(format_records(rows, form))


if __name__ == "__main__":
    main()
