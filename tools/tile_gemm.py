"""How far projected matrix products are from measured ones of libraries.

    python tools/tile_gemm.py ROWS                        600 shapes a GPU of the learning half: mean errors by region of shape
    python tools/tile_gemm.py ROWS --final                of the half that set nothing
    python tools/tile_gemm.py ROWS --worst 20 --gpu h100
    python tools/tile_gemm.py ROWS --final --record       and keep their errors as the bands of projections (gpusim/tile/gemm_errors.json)
    python tools/tile_gemm.py ROWS --gpu a100_80gb --figures-of hopper --final   as a GPU that is only described: with another generation's figures
    python tools/tile_gemm.py ROWS --fit hopper           better figures for library.toml, found on the learning half (minutes)

ROWS: a CSV file (also gzipped) with columns gpu, framework, gemm_dtype, m, n, k, latency_ms, suspect, as
ai-dynamo/aiconfigurator's data make it (commit 095f58a; traces/library holds a sample), or of its power runs, which are
one B200's (no gpu, no suspect). Bfloat16 rows count; what several frameworks took for one shape is one point, their
median, and how far they are from it is printed beside the error. Halves by CRC-32 of "m,n,k": even to learn from, odd
looked at when a change is finished. A shape of these rows is a node of a CUDA graph; what L2 holds of its operands
depends on its framework, whose runs go over copies of them (operators/l2_state.py), and is projected so. A B200's rows
are multiples of 2.048 us over a graph of five or six launches: a projection is held against them in such steps.
"""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import replace
from pathlib import Path

import click
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from operators import shape_bands
from operators.l2_state import cold_shares, copies_of
from operators.measured import FITTED_GPUS, GPUS, as_read, read_rows

from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.tile.bands import REGIONS
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.library import Library, library_of

RECORD = ROOT / "gpusim" / "tile" / "gemm_errors.json"
FITTED = (
    "launch_ns", "step_cycles", "dram_share", "split_k_cycles", "block_start_cycles", "epilogue_cycles",
    "epilogue_elements_per_cycle", "fill_bytes_per_cycle", "rate_largest", "rate_large", "rate_medium", "rate_small",
    "shared_loads", "l2_share", "l2_rate_share",
)  # fmt: skip
#: Columns of the weights, which shapes of a network have in common.
NETWORK = ("n", "k")
_BYTES = 2.0  # an element of the operands and of the result
_SHARES = ("rate", "shared_loads", "l2_share", "l2_rate_share", "dram_share")


def measured_shapes(rows: Path, gpu: str, final: bool, count: int | None) -> pd.DataFrame:
    """Columns m, n, k, us (median over frameworks), apart (mean distance of the frameworks from it), frameworks (of
    each row), in an order by hash."""
    table = read_rows(rows)
    names = [name for name, own in GPUS.items() if own == gpu]
    table = table[(table.gemm_dtype == "bfloat16") & (table.suspect == 0) & table.gpu.isin(names)]
    grouped = table.groupby(["m", "n", "k"])
    found = grouped.latency_ms.agg(us="median", apart=lambda ms: (ms / ms.median() - 1).abs().mean())
    found["frameworks"] = grouped.framework.agg(tuple)
    found = found.reset_index()
    found["us"] *= 1e3
    keys = [zlib.crc32(f"{m},{n},{k}".encode()) for m, n, k in zip(found.m, found.n, found.k, strict=True)]
    found["key"] = keys
    return found[found.key % 2 == int(final)].sort_values("key").head(count if count else len(found))


def errors(gpu: str, shapes: pd.DataFrame, library: Library | None = None) -> np.ndarray:
    """Relative errors of the projected times, each a median over the frameworks as the measured one is: of the same
    kernel, with what L2 holds of their copies."""
    spec = load_gpu(gpu)
    projected = [
        projected_us(gpu, spec, int(m), int(n), int(k), frameworks, library)
        for m, n, k, frameworks in zip(shapes.m, shapes.n, shapes.k, shapes.frameworks, strict=True)
    ]
    return np.array(projected) / shapes.us.to_numpy() - 1


def projected_us(
    gpu: str, spec: GpuSpec, m: int, n: int, k: int, frameworks: tuple[str, ...], library: Library | None
) -> float:
    """The median over ``frameworks``, whose runs go over different copies of the operands, of what their rows would
    show."""
    states = [cold_shares(spec, each, *(_BYTES * size for size in (m * k, n * k, m * n))) for each in frameworks]
    us = {
        (a, b): project_gemm(spec, GemmShape(m, n, k, cold_a=a, cold_b=b), library).seconds * 1e6
        for a, b in set(states)
    }
    copies = [copies_of(spec, each, _BYTES * n * k) for each in frameworks]
    return float(np.median([as_read(gpu, us[state], launches) for state, launches in zip(states, copies, strict=True)]))


def region_rows(gpu: str, shapes: pd.DataFrame, found: np.ndarray) -> list[dict[str, object]]:
    """A row a region of m, and one for all."""
    rows = []
    least = 0
    for name, most in (*REGIONS, ("all", 0)):
        inside = ((shapes.m > least) & (shapes.m <= most)).to_numpy() if most else np.ones(len(shapes), bool)
        least = most
        if inside.any():
            off = found[inside]
            rows.append(
                {
                    "gpu": gpu,
                    "m": name,
                    "shapes": int(inside.sum()),
                    "mean_error_percent": round(100 * float(np.abs(off).mean()), 1),
                    "signed_percent": round(100 * float(off.mean()), 1),
                    "within_10_percent": round(100 * float((np.abs(off) <= 0.1).mean())),
                    "frameworks_apart_percent": round(100 * float(shapes.apart[inside].mean()), 1),
                }
            )
    return rows


def band_rows(shapes: pd.DataFrame, found: np.ndarray) -> dict[str, dict[str, float]]:
    """Region -> the factor within which LEVEL_PERCENT of the next network's errors lie, and of how many shapes and
    networks."""
    return shape_bands.band_rows(regions_of(shapes), found, shape_bands.networks_of(shapes, NETWORK))


def regions_of(shapes: pd.DataFrame) -> list[tuple[str, np.ndarray]]:
    """Each region of m, and which shapes are inside."""
    least = [0, *(most for _, most in REGIONS[:-1])]
    return [(name, ((shapes.m > low) & (shapes.m <= most)).to_numpy()) for low, (name, most) in zip(least, REGIONS, strict=True)]  # fmt: skip


def fit(gpu: str, shapes: pd.DataFrame, rounds: int) -> Library:
    """Figures with a smaller mean of the logarithms' distance, each changed in turn."""
    library = library_of(load_gpu(gpu).generation)
    spread = dict.fromkeys(FITTED, 0.2)

    def loss(tried: Library) -> float:
        off = np.log1p(errors(gpu, shapes, tried))
        return float(np.abs(off).mean() + 0.02 * abs(off.mean()))

    best = loss(library)
    with task("searching figures", rounds * len(FITTED), "tries") as work:
        tries = 0
        for _ in range(rounds):
            for name in FITTED:
                for factor in (1 + spread[name], 1 / (1 + spread[name])):
                    value = getattr(library, name) * factor
                    tried = replace(library, **{name: min(value, 0.995) if name.startswith(_SHARES) else value})
                    if (now := loss(tried)) < best - 1e-5:
                        best, library = now, tried
                        break
                else:
                    spread[name] /= 2
                tries += 1
                work.to(tries)
    return library


@click.command(help=__doc__)
@click.argument("rows", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--gpu", "gpus", multiple=True, type=click.Choice(sorted(GPUS.values())), help="Only this GPU.")
@click.option("--final", is_flag=True, help="The half that is looked at when a change is finished.")
@click.option("--shapes", "count", type=click.IntRange(1), default=600, help="So many shapes of the half, by hash.")
@click.option("--record", is_flag=True, help="Keep the final half's errors, with --final.")
@click.option("--worst", type=click.IntRange(0), default=0, help="Print the shapes with the largest errors too.")
@click.option("--fit", "fitted", type=click.Choice(sorted(FITTED_GPUS)), help="Search better figures of a generation.")
@click.option("--figures-of", type=click.Choice(sorted(FITTED_GPUS)), help="Another generation's figures.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table")
def main(
    rows: Path, gpus: tuple[str, ...], final: bool, count: int, record: bool, worst: int, fitted: str | None,
    figures_of: str | None, form: str,
) -> None:  # fmt: skip
    if fitted:
        gpu = FITTED_GPUS[fitted]
        with shown(sys.stderr):
            found = fit(gpu, measured_shapes(rows, gpu, False, count), 3)
        click.echo("\n".join(f"{name} = {getattr(found, name):.4g}" for name in FITTED))
        return
    if record and figures_of:
        raise click.UsageError("--record keeps errors of a GPU's own figures: leave out --figures-of")
    if record and not final:
        raise click.UsageError("--record keeps the errors of the final half: give --final too")
    printed, largest, kept = [], [], {}
    for gpu in gpus or GPUS.values():
        shapes = measured_shapes(rows, gpu, final, count)
        if not len(shapes):
            continue
        off = errors(gpu, shapes, library_of(figures_of) if figures_of else None)
        printed += region_rows(gpu, shapes, off)
        kept[load_gpu(gpu).generation] = {"gpu": gpu, **band_rows(shapes, off)}
        for index in np.argsort(-np.abs(off))[:worst]:
            row = shapes.iloc[index]
            one = project_gemm(load_gpu(gpu), GemmShape(int(row.m), int(row.n), int(row.k)))
            largest.append(
                {
                    "gpu": gpu, "m": int(row.m), "n": int(row.n), "k": int(row.k), "us": round(row.us, 2),
                    "error_percent": round(100 * float(off[index]), 1), "splits": one.splits, "limiter": one.limiter,
                    "tile": f"{one.tile.rows} x {one.tile.columns}",
                }
            )  # fmt: skip
    if record:
        # Of GPUs that these rows do not have, what was recorded stays.
        recorded = json.loads(RECORD.read_text(encoding="utf-8"))
        others = [row for row in recorded["regions"] if row["gpu"] not in {row["gpu"] for row in printed}]
        document = {
            "about": "Written by tools/tile_gemm.py --final --record.",
            "generations": recorded["generations"] | kept,
            "regions": others + printed,
        }
        write_whole(RECORD, (json.dumps(document, indent=1) + "\n").encode())
    click.echo(format_records(largest or printed, form))


if __name__ == "__main__":
    main()
