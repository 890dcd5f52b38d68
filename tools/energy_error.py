"""How far the energy of library kernels is from measured board power times latency.

    python tools/energy_error.py ROWS...                        the learning half: mean errors by operator and dtype, and what is left out
    python tools/energy_error.py ROWS... --final                the half that set nothing
    python tools/energy_error.py ROWS... --final --record       and keep their errors as bands (gpusim/energy/errors.json)
    python tools/energy_error.py ROWS... --fit                  better figures for gpusim/energy/blackwell.toml, found on the learning half

ROWS: CSV files (also gzipped) of products, attention contexts or attention generations on one B200 with power_w,
latency_ms and est_run_ms, as ai-dynamo/aiconfigurator's data make them (commit 095f58a; traces/library holds a sample).
Halves by CRC-32 of the shape's columns joined by commas: even to learn from, odd looked at when a change is finished.
Each error is printed with the measured latency (the power alone is at stake) and with the projected one. Rows at 950 W
and above are held by the board's limit of 1,000 W: their energy follows from their latency, so they are printed by
themselves. Operands of these rows are random. Rows that NVML's sampling cannot resolve are left out, and counted.
"""

from __future__ import annotations

import json
import math
import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import click
import numpy as np
import pandas as pd
from scipy.optimize import minimize

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from power_readings import LEAST_RUN_MS, attention_rates, contradicted, product_rates, settled

from gpusim.energy.bands import LEVEL_PERCENT, REGIONS, region_of
from gpusim.energy.figures import figures_for
from gpusim.energy.operator import Energy, energy_of
from gpusim.errors import SpecError
from gpusim.gpus.load import load_gpu
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.tile.attention import AttentionShape, project_attention
from gpusim.tile.attention_context import ContextShape, project_context
from gpusim.tile.product import GemmOp, project_product
from gpusim.tile.projection import Projection

RECORD = ROOT / "gpusim" / "energy" / "errors.json"
GPU = "b200"
#: Power above this is the limit's.
CAPPED_WATTS = 950.0
DTYPES = {"bfloat16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4"}


@dataclass(frozen=True)
class Row:
    """A measured operator: ``projection`` with the projected time, ``full_seconds`` the same at the described clock."""

    kind: str
    dtype: str
    framework: str
    capped: bool
    seconds: float
    watts: float
    projection: Projection
    full_seconds: float


def _product(row: pd.Series, limit_watts: float | None = None) -> Projection:
    dtype = DTYPES[row.gemm_dtype]
    op = GemmOp(
        int(row.m), int(row.n), int(row.k), dtype, block_scaled=row.gemm_dtype in ("fp8_block", "nvfp4"),
        framework=row.framework if dtype == "fp8" else "",
    )  # fmt: skip
    return project_product(load_gpu(GPU), op, limit_watts=limit_watts)


def _context(row: pd.Series, limit_watts: float | None = None) -> Projection:
    shape = ContextShape(
        int(row.batch_size), int(row.isl), int(row.num_heads), int(row.num_key_value_heads), int(row.head_dim), DTYPES[row.attn_dtype],
        window=int(row.window_size), kv_dtype=DTYPES[row.kv_cache_dtype], framework=row.framework,
    )  # fmt: skip
    return project_context(load_gpu(GPU), shape, limit_watts=limit_watts)


def _generation(row: pd.Series, limit_watts: float | None = None) -> Projection:
    shape = AttentionShape(
        int(row.batch_size), int(row.step) + 1, int(row.num_heads), int(row.num_key_value_heads), int(row.head_dim),
        DTYPES[row.kv_cache_dtype], window=int(row.window_size), framework=row.framework,
    )  # fmt: skip
    return replace(project_attention(load_gpu(GPU), shape), dtype=DTYPES[row.attn_dtype])


#: Kind -> columns of its shape, how it is projected.
KINDS: dict[str, tuple[tuple[str, ...], Callable[..., Projection]]] = {
    "product": (("m", "n", "k"), _product),
    "context": (("batch_size", "isl", "num_heads", "num_key_value_heads", "head_dim"), _context),
    "generation": (("batch_size", "step", "num_heads", "num_key_value_heads", "head_dim"), _generation),
}


def measured_rows(path: Path, final: bool, count: int) -> tuple[list[Row], list[dict[str, object]]]:
    """At most ``count`` rows a kind of the half by hash, and what of the file was left out and why."""
    table = pd.read_csv(path)
    kinds = sorted(table["kind"].unique()) if "kind" in table else []
    kinds = kinds or [name for name, (columns, _) in KINDS.items() if set(columns) <= set(table)][:1]
    if not kinds or not set(kinds) <= set(KINDS) or not {"latency_ms", "power_w", "est_run_ms"} <= set(table):
        raise click.UsageError(f"{path}: not a file of rows with power: has {', '.join(map(str, table.columns))[:200]}")
    rows, left_out = [], []
    for kind in kinds:
        found, away = _rows_of(kind, table[table["kind"] == kind] if "kind" in table else table, final, count)
        rows, left_out = rows + found, left_out + away
    return rows, left_out


def _rows_of(kind: str, table: pd.DataFrame, final: bool, count: int) -> tuple[list[Row], list[dict[str, object]]]:
    columns, project = KINDS[kind]
    left_out = []

    def without(away: pd.Series, reason: str) -> None:
        nonlocal table
        left_out.append({"kind": kind, "rows": int(away.sum()), "of": len(away), "left_out": reason})
        table = table[~away]

    steady = settled(table) if kind == "product" else pd.Series(True, table.index)
    without(table.est_run_ms < LEAST_RUN_MS, "runs below 0.9 s: NVML's reading is itself a mean over a second")
    if kind == "product":
        without(
            table.framework == "trtllm",
            "one copy replayed for a second after a pause: the reading rises all through it",
        )
        steady = steady[table.index]
        without(
            ~steady, "no shorter run at the same rate shows that the reading has settled, or one shows that it has not"
        )
    rates = (
        product_rates(table)
        if kind == "product"
        else attention_rates(table, load_gpu(GPU).l2.total_bytes, kind == "generation")
    )
    away = contradicted(table.power_w, *rates)
    without(away, "reads less than launches of the same kernels that compute and move no more each second")
    shapes = table[list(columns)].astype(int).itertuples(index=False)
    table = table.assign(key=[zlib.crc32(",".join(map(str, each)).encode()) for each in shapes])
    table = table[table.key % 2 == int(final)].sort_values("key", kind="stable").head(count)
    rows, impossible = [], 0
    for _, row in table.iterrows():
        found, full = project(row), project(row, math.inf)
        if found.dram_bytes > load_gpu(GPU).dram.peak_bytes_per_ns * 1e6 * row["latency_ms"]:
            impossible += 1
            continue
        dtype = row["gemm_dtype"] if kind == "product" else f"{row['attn_dtype']}, keys {row['kv_cache_dtype']}"
        watts, seconds = row["power_w"], row["latency_ms"] * 1e-3
        rows.append(Row(kind, dtype, row["framework"], watts >= CAPPED_WATTS, seconds, watts, found, full.seconds))
    away = {"kind": kind, "rows": impossible, "of": len(table), "left_out": "faster than DRAM delivers what is read"}
    return rows, [*left_out, away]


def energies(rows: list[Row], projected: bool) -> list[Energy]:
    """Of each row, within the measured time or the projected one."""
    spec = load_gpu(GPU)
    return [
        energy_of(spec, row.projection if projected else replace(row.projection, seconds=row.seconds)) for row in rows
    ]


def errors(rows: list[Row], projected: bool) -> np.ndarray:
    """Relative errors of the energies."""
    measured = np.array([row.watts * row.seconds for row in rows])
    return np.array([each.joules for each in energies(rows, projected)]) / measured - 1


def error_rows(rows: list[Row]) -> list[dict[str, object]]:
    """A row for each operator, dtype and side of the limit, and for all of an operator."""
    given, projected = errors(rows, False), errors(rows, True)
    groups: dict[tuple[str, str, str], list[int]] = {}
    for at, row in enumerate(rows):
        held = "held by the limit" if row.capped else "below the limit"
        for key in ((row.kind, row.dtype, held), (row.kind, "all", held), (row.kind, "all", "all")):
            groups.setdefault(key, []).append(at)
    return [
        {
            "kind": kind, "dtype": dtype, "power": held, "rows": len(at),
            "given_latency_percent": round(100 * float(np.abs(given[at]).mean()), 1),
            "signed_percent": round(100 * float(given[at].mean()), 1),
            "median_percent": round(100 * float(np.median(np.abs(given[at]))), 1),
            "projected_latency_percent": round(100 * float(np.abs(projected[at]).mean()), 1),
        }
        for (kind, dtype, held), at in sorted(groups.items())
    ]  # fmt: skip


def band_rows(rows: list[Row]) -> dict[str, dict[str, float]]:
    """What takes most -> the factor within which LEVEL_PERCENT of the errors with measured latency lie, and of how many
    rows."""
    found = energies(rows, False)
    off = np.abs(np.log1p(errors(rows, False)))
    regions = np.array([region_of(dict(e.by_unit)["tensor cores"], dict(e.by_unit)["DRAM"], e.joules) for e in found])
    kept = {}
    for region in REGIONS:
        if (regions == region).sum() >= 10:
            factor = float(np.exp(np.quantile(off[regions == region], LEVEL_PERCENT / 100)))
            kept[region] = {"factor": round(factor, 3), "rows": int((regions == region).sum())}
    return kept


#: Figure -> what literature and the board's peak rates say, and the standard deviation of its logarithm that is allowed
#: beside it.
PRIORS = {
    "busy_watts": (150.0, 0.7), "tensor_bf16_flop_pj": (0.4, 0.4), "tensor_fp8_flop_pj": (0.2, 0.4), "tensor_fp4_flop_pj": (0.13, 0.4),
    "vector_flop_pj": (12.0, 0.5), "l2_byte_pj": (5.0, 0.6), "dram_byte_pj": (38.0, 0.3), "block_start_nj": (1500.0, 0.7),
}  # fmt: skip
_PRIOR_WEIGHT, _CAPPED_WEIGHT, _CLOCK_WEIGHT, _HELD_WATTS = 0.006, 0.5, 0.3, 985.0


def fit(rows: list[Row]) -> dict[str, float]:
    """Figures with the least mean distance of the logarithm of power given the latency, each operator counting alike,
    near to :data:`PRIORS`. Of rows that the limit holds, the power is the limit's; of products the share of the clock
    that is left (projected over measured time) tells the power at the described clock."""
    figures = figures_for(load_gpu(GPU))
    names = list(PRIORS)
    rates = np.zeros((len(rows), len(names)))
    rates[:, 0] = 1.0
    for at, row in enumerate(rows):
        one = row.projection
        rates[at, names.index(f"tensor_{one.dtype}_flop_pj")] = max(one.flops, one.executed_flops)
        rates[at, 4:] = one.vector_flops, one.l2_bytes, one.dram_bytes, 1e3 * one.started_blocks
        rates[at, 1:] *= 1e-12 / row.seconds
    watts, held = np.array([row.watts for row in rows]), np.array([row.capped for row in rows])
    kinds = np.array([row.kind for row in rows])
    weights = np.array([1.0 / (kinds == kind).sum() for kind in kinds])
    weights /= weights.sum()
    clock = np.clip([row.full_seconds / row.seconds for row in rows], 0.5, 1.0) ** (figures.clock_exponent - 1.0)
    slowed = held & (kinds == "product")
    static = figures.constant_watts + figures.leakage_watts
    middles, spreads = np.log([middle for middle, _ in PRIORS.values()]), np.array([sd for _, sd in PRIORS.values()])

    def loss(logs: np.ndarray) -> float:
        dynamic = rates @ np.exp(logs)
        off = np.abs(np.log(np.minimum(static + dynamic, _HELD_WATTS) / watts)) * np.where(held, _CAPPED_WEIGHT, 1.0)
        off += slowed * _CLOCK_WEIGHT * np.abs(np.log((static + dynamic * clock) / _HELD_WATTS))
        return float(off @ weights + _PRIOR_WEIGHT * (((logs - middles) / spreads) ** 2).sum())

    options = {"maxiter": 9000, "maxfev": 9000, "adaptive": True}
    tries = (minimize(loss, middles + shift, method="Nelder-Mead", options=options) for shift in (0.0, -0.4, 0.4))
    best = min(tries, key=lambda each: each.fun)
    return dict(zip(names, np.exp(best.x), strict=True))


@click.command(help=__doc__)
@click.argument(
    "files", metavar="ROWS...", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path)
)
@click.option("--final", is_flag=True, help="The half that is looked at when a change is finished.")
@click.option("--count", type=click.IntRange(1), default=600, show_default=True, help="Rows of a file, by hash.")
@click.option("--record", is_flag=True, help="Keep the final half's errors, with --final.")
@click.option("--fit", "fitted", is_flag=True, help="Search better figures on the learning half.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table")
def main(files: tuple[Path, ...], final: bool, count: int, record: bool, fitted: bool, form: str) -> None:
    if record and not final or fitted and final:
        raise click.UsageError("--record keeps the errors of the final half (--final), --fit learns from the other")
    rows, left_out = [], []
    try:
        for path in files:
            found, away = measured_rows(path, final, count)
            rows, left_out = rows + found, left_out + away
    except SpecError as wrong:
        raise click.ClickException(str(wrong)) from wrong
    if fitted:
        click.echo("\n".join(f"{name} = {value:.4g}" for name, value in fit(rows).items()))
        return
    printed = error_rows(rows)
    if record:
        generation = load_gpu(GPU).generation
        document = {
            "about": "Written by tools/energy_error.py --final --record.",
            "generations": {generation: {"gpu": GPU, **band_rows(rows)}}, "regions": printed, "left_out": left_out,
        }  # fmt: skip
        write_whole(RECORD, (json.dumps(document, indent=1) + "\n").encode())
    click.echo(format_records(printed, form))
    if form == "table":
        click.echo("\n" + format_records(left_out, form))


if __name__ == "__main__":
    main()
