"""The constants of products on a GPU that is only described (gpusim/tile/described.toml), found on the learning half of
measured products.

    python tools/described_figures.py FOLDER                          from all measured GPUs
    python tools/described_figures.py FOLDER --without hopper         from the others: what tools/other_figures.py judges
    python tools/described_figures.py FOLDER --rounds 0               the errors of the constants as they are

FOLDER: as tools/other_figures.py takes it. Each constant is changed in turn, by less and less, and kept where the mean
distance of the logarithms, of all GPUs alike, becomes less. ``warps_epilogue_elements_per_cycle`` is not searched: it
comes from the exact level (tools/tile_beside_exact.py --only cpp_hgemm).
"""

from __future__ import annotations

import sys
from dataclasses import asdict, replace
from pathlib import Path

import click
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import tile_gemm
from operators.measured import FITTED_GPUS, gemm_file

from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.report.tables import format_records
from gpusim.tile.described import Constants, constants_of, described_library

_SEARCHED = (
    "launch_ns", "tensor_memory_launch_ns", "dram_share", "l2_rate_share", "l2_share", "block_start_ns", "epilogue_ns", "split_k_ns", "fill_share",
    "rate", "step_cycles", "epilogue_elements_per_cycle", "shared_loads",
    "warps_l2_rate_share", "warps_dram_share",
)  # fmt: skip
_SHARES = (
    "dram_share", "l2_rate_share", "l2_share", "rate", "shared_loads", "warps_l2_rate_share", "warps_dram_share",
)  # fmt: skip
_FIRST_CHANGE, _LEAST_CHANGE, _MOST_SHARE = 0.3, 0.02, 0.995


def errors(measured: dict[str, pd.DataFrame], constants: Constants) -> dict[str, np.ndarray]:
    """Relative errors of each GPU's projected times."""
    return {
        gpu: tile_gemm.errors(gpu, shapes, described_library(load_gpu(gpu), constants))
        for gpu, shapes in measured.items()
    }


def loss(measured: dict[str, pd.DataFrame], constants: Constants) -> float:
    """Mean distance of the logarithms, and a little of each GPU's mean."""
    off = [np.log1p(each) for each in errors(measured, constants).values()]
    return float(np.mean([np.abs(each).mean() + 0.05 * abs(each.mean()) for each in off]))


def fit(measured: dict[str, pd.DataFrame], constants: Constants, rounds: int) -> Constants:
    """Constants with a smaller loss."""
    change = dict.fromkeys(_SEARCHED, _FIRST_CHANGE)
    best = loss(measured, constants)
    with task("searching constants", rounds * len(_SEARCHED), "tries") as work:
        for tries in range(rounds * len(_SEARCHED)):
            name = _SEARCHED[tries % len(_SEARCHED)]
            for factor in (1 + change[name], 1 / (1 + change[name])):
                if change[name] < _LEAST_CHANGE:
                    break
                value = getattr(constants, name) * factor
                tried = replace(constants, **{name: min(value, _MOST_SHARE) if name in _SHARES else value})
                if (now := loss(measured, tried)) < best - 1e-5:
                    best, constants = now, tried
                    break
            else:
                change[name] /= 2
            work.to(tries + 1)
    return constants


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--without", type=click.Choice(sorted(FITTED_GPUS)), help="Leave this generation's rows out.")
@click.option("--shapes", "count", type=click.IntRange(1), default=60, show_default=True, help="Of each GPU, by hash.")
@click.option("--rounds", type=click.IntRange(0, 50), default=3, show_default=True, help="Of the search.")
def main(folder: Path, without: str | None, count: int, rounds: int) -> None:
    measured = {
        gpu: tile_gemm.measured_shapes(gemm_file(folder, gpu), gpu, False, count)
        for generation, gpu in FITTED_GPUS.items()
        if generation != without
    }
    with shown(sys.stderr):
        found = fit(measured, constants_of(), rounds)
    click.echo("\n".join(f"{name} = {value:.3g}" for name, value in asdict(found).items()))
    rows = [
        {
            "gpu": gpu,
            "mean_error_percent": round(100 * float(np.abs(off).mean()), 1),
            "signed_percent": round(100 * float(off.mean()), 1),
        }
        for gpu, off in errors(measured, found).items()
    ]
    click.echo("\n" + format_records(rows, "table"))


if __name__ == "__main__":
    main()
