"""Bulk copies beside what an H800 was measured at: cycles a copy by size and blocks an SM, and what one costs beyond a
load.

    python tools/bulk_copies.py [--format {table,json,csv,md}]

Mental model: each block keeps one copy in flight; a copy takes what a longer launch takes more, over its copies.
Measured: HPMLL/ NVIDIA-Hopper-Benchmark, commit ded6f57, an H800 PCIe (114 SMs, 1,755 MHz, HBM2e), which is
``h100_pcie`` here; the chase's difference is in L2.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
from asynchronous.rounds import cycles_a_round, per_round

import gpusim
from gpusim.report.tables import FORMATS, format_records

SOURCE = Path(__file__).parent / "asynchronous" / "bulk_copies.cu"
GPU, SMS = "h100_pcie", 114
#: (bytes of a copy, blocks an SM) -> cycles a copy.
MEASURED = {
    (1024, 1): 857, (4096, 1): 1005, (8192, 1): 1242, (16384, 1): 1788, (8192, 2): 1766, (1024, 4): 919, (4096, 4): 1746,
    (16384, 4): 6687,
}  # fmt: skip
#: Cycles by which a hop by a bulk copy of 16 bytes takes longer than one by a load.
CHASE_CYCLES = 104.6
_LOADS, _HOPS, _LINES = (6, 18), (64, 128), 512


def copy_cycles(size_bytes: int, blocks_per_sm: int) -> float:
    """Simulated cycles a copy."""
    blocks = SMS * blocks_per_sm

    def args(loads: int) -> tuple:
        return np.zeros(size_bytes * blocks * loads, np.uint8), np.zeros(blocks, np.float32), size_bytes, loads

    return cycles_a_round(
        gpusim.cuda_cpp(SOURCE, "stream"), blocks, 1, _LOADS, GPU, args, gpu=GPU, shared_bytes=size_bytes
    )


def hop_cycles(entry: str) -> float:
    """Simulated cycles a hop of a pointer chase through lines that lie in the L2."""
    order = np.random.default_rng(1).permutation(_LINES)
    chain = np.zeros(_LINES * 16, np.uint64)
    chain[order * 16] = np.roll(order, -1) * 16

    def cycles(hops: int) -> int:
        args = chain, np.zeros(1, np.uint64), hops, np.uint64(order[0] * 16)
        trace = gpusim.capture(gpusim.cuda_cpp(SOURCE, entry), 1, 32, args, gpu=GPU)
        return gpusim.simulate(trace, GPU, warm=trace).cycles

    return per_round(cycles, _HOPS)


def _row(what: str, measured: float, simulated: float) -> dict[str, object]:
    return {
        "what": what, "measured_cycles": measured, "simulated_cycles": round(simulated, 1),
        "error_percent": round(100 * (simulated / measured - 1), 1),
    }  # fmt: skip


@click.command(help=__doc__)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(form: str) -> None:
    rows = [
        _row(f"{size} bytes, {blocks} an SM", cycles, copy_cycles(size, blocks))
        for (size, blocks), cycles in MEASURED.items()
    ]
    rows.append(_row("a hop beyond a load's", CHASE_CYCLES, hop_cycles("chase_bulk") - hop_cycles("chase_load")))
    click.echo(format_records(rows, form))
    mean = float(np.mean([abs(row["error_percent"]) for row in rows[:-1]]))  # type: ignore[arg-type]
    click.echo(f"mean absolute error of the copies: {mean:.1f} %", err=True)


if __name__ == "__main__":
    main()
