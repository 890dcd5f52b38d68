"""How far projected operators beside dense 16-bit products and plain attention are from what libraries' kernels were
measured at.

    python tools/tile_operators.py moe_bf16 ROWS                   the learning half: mean errors by region
    python tools/tile_operators.py moe_bf16 ROWS --final           the half that set nothing
    python tools/tile_operators.py moe_bf16 ROWS --final --record  and keep the errors as bands (gpusim/tile/operator_errors.json)
    python tools/tile_operators.py moe_bf16 ROWS --fit hopper      better figures, found on the learning half (minutes)
    python tools/tile_operators.py moe_bf16 ROWS --worst 20        the shapes that are farthest off
    python tools/tile_operators.py moe_bf16 ROWS --bands           how many of the final half's next shapes lie in the recorded bands, which none of them set, and in those that all networks but their own make

Kinds: those of tools/operators/kinds.py. ROWS: a folder with the CSV files (gzipped) of ai-dynamo/aiconfigurator's data
(commit 095f58a), one a kind of operator, or with its power runs of a B200. One framework's kernels are followed where
frameworks differ by more than the aim; how far the others are from it on the same shape is printed beside the error.
Runs of experts whose tiles may be another run's (tools/operators/tuned_runs.py: by what the rows' collector kept) set
no figure and no band; errors are told with them, and without. Which of them had the first tile of the list, as nothing
was tuned, is told by their runs' rows of the learning half. Halves by CRC-32 of the shape's values joined by commas:
even to learn from, odd looked at when a change is finished.
"""

from __future__ import annotations

import dataclasses
import json
import sys
import zlib
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from operators import shape_bands, tuned_runs
from operators.kinds import FILES, KINDS
from operators.measured import FITTED_GPUS, GPUS, read_rows

from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.tile.bands import OPERATOR_REGIONS

RECORD = ROOT / "gpusim" / "tile" / "operator_errors.json"
_SHARES = ("rate", "share", "shared_loads", "rate_largest", "rate_large", "rate_medium", "rate_small")
_LEAST_REGION = 20
#: Columns of the weights or heads, which shapes of a network have in common, by file.
NETWORK = {
    "gemm": ("n", "k"), "mla_bmm": ("op_name", "num_heads"), "moe": ("hidden_size", "inter_size", "topk", "num_experts"), "mla_generation": ("num_heads",),
    "mla_context": ("num_heads",), "attention_encoder": ("num_heads", "head_dim"), "quantize_scale_matrix": ("k",),
    "gated_delta_net": ("num_k_heads", "num_v_heads"), "mamba2": ("nheads", "d_state", "n_groups"),
}  # fmt: skip


def measured_shapes(kind: str, folder: Path, gpu: str, final: bool, count: int | None) -> pd.DataFrame:
    """The kind's columns, us, apart (mean distance of other frameworks) and size, in an order by hash."""
    of, columns = KINDS[kind], list(KINDS[kind].columns)
    name = f"b200_{FILES[kind]}_power" if gpu == "b200" else FILES[kind]
    found = [path for path in (folder / f"{name}.csv.gz", folder / f"{name}.csv") if path.exists()]
    if not found:
        return pd.DataFrame()
    table = read_rows(found[0])
    table = table[table.gpu.map(GPUS) == gpu]
    for column, values in of.select.items():
        table = table[table[column].isin(values)]
    source = of.sources[gpu]
    own = table if not source else table[(table.framework == source) | (table.kernel_source == source)]
    found = own.groupby(columns).agg(us=("latency_ms", "median"), version=("version", "first")).reset_index()
    found["us"] *= 1e3
    each = (
        table.groupby([*columns, "kernel_source", "framework"])
        .latency_ms.median()
        .mul(1e3)
        .rename("other")
        .reset_index()
    )
    if source:
        each = each[(each.framework != source) & (each.kernel_source != source)]
    beside = each.merge(found, on=columns)
    beside["apart"] = np.abs(beside.other / beside.us - 1)
    found = found.merge(beside.groupby(columns).apart.mean().reset_index(), on=columns, how="left")
    found["key"] = [zlib.crc32(",".join(map(str, row)).encode()) for row in found[columns].itertuples(index=False)]
    found["size"] = of.size(found)
    found = found[found.us > of.least_us]
    if "m" in found:  # a product of no rows is none (TensorRT-LLM's of block scales have some)
        found = found[found.m > 0]
    half = found[found.key % 2 == int(final)].sort_values("key").reset_index(drop=True)
    half["untuned"] = tuned_runs.untuned(half, table) if FILES[kind] == "moe" else False
    return half.head(count if count else len(half))


def errors(kind: str, gpu: str, shapes: pd.DataFrame, library: Any = None) -> np.ndarray:
    """Relative errors of the projected times."""
    spec, of = load_gpu(gpu), KINDS[kind]
    seconds = [of.seconds(spec, row, library) for row in shapes.itertuples(index=False)]
    return np.array(seconds) * 1e6 / shapes.us.to_numpy() - 1


def regions_of(kind: str, shapes: pd.DataFrame) -> list[tuple[str, np.ndarray]]:
    """Each region of the kind, and which shapes are inside."""
    found, least = [], 0.0
    for name, most in OPERATOR_REGIONS[kind][1]:
        found.append((name, ((shapes["size"] > least) & (shapes["size"] <= most)).to_numpy()))
        least = most
    return found


def region_rows(kind: str, gpu: str, shapes: pd.DataFrame, off: np.ndarray) -> list[dict[str, object]]:
    """A row a region, one for all, and one for those of tuned runs where some are not."""
    rows = []
    tuned = ~shapes.untuned.to_numpy(bool)
    for name, inside in (
        *regions_of(kind, shapes), ("all", np.ones(len(shapes), bool)), *([] if tuned.all() else [("all of tuned runs", tuned)]),
    ):  # fmt: skip
        if inside.any():
            some, apart = np.abs(off[inside]), shapes.apart[inside].mean()
            rows.append(
                {
                    "kind": kind, "gpu": gpu, "region": name, "shapes": int(inside.sum()),
                    "mean_error_percent": round(100 * float(some.mean()), 1),
                    "median_percent": round(100 * float(np.median(some)), 1),
                    "signed_percent": round(100 * float(off[inside].mean()), 1),
                    "within_10_percent": round(100 * float((some <= 0.1).mean())),
                    "others_apart_percent": None if np.isnan(apart) else round(100 * float(apart), 1),
                }
            )  # fmt: skip
    return rows


def band_rows(kind: str, shapes: pd.DataFrame, off: np.ndarray) -> dict[str, dict[str, float]]:
    """Region -> the factor within which LEVEL_PERCENT of the next network's errors lie, and of how many shapes and
    networks; of regions with enough shapes, of runs with tiles of their own."""
    tuned = ~shapes.untuned.to_numpy(bool) if "untuned" in shapes else np.ones(len(shapes), bool)
    shapes, off = shapes[tuned].reset_index(drop=True), off[tuned]
    networks = shape_bands.networks_of(shapes, NETWORK[FILES[kind]])
    return shape_bands.band_rows(regions_of(kind, shapes), off, networks, _LEAST_REGION)


def changed(library: Any, name: str, factor: float) -> Any:
    """``library`` with one figure times ``factor``; a figure of the products within it too."""
    if not hasattr(library, name):
        return dataclasses.replace(library, product=changed(library.product, name, factor))
    value = getattr(library, name) * factor
    return dataclasses.replace(library, **{name: min(value, 0.995) if name.endswith(_SHARES) else value})


def figure(library: Any, name: str) -> float:
    """A figure of ``library`` or of the products within it."""
    return getattr(library, name) if hasattr(library, name) else getattr(library.product, name)


def fit(kind: str, gpu: str, shapes: pd.DataFrame, rounds: int) -> Any:
    """Figures with a smaller mean of the logarithms' distance, each changed in turn."""
    of = KINDS[kind]
    library = of.library(load_gpu(gpu).generation)
    spread = dict.fromkeys(of.fitted, 0.3)

    def loss(tried: Any) -> float:
        off = np.log1p(errors(kind, gpu, shapes, tried))
        return float(np.abs(off).mean() + 0.02 * abs(off.mean()))

    best = loss(library)
    with task("searching figures", rounds * len(of.fitted), "tries") as work:
        for tries in range(rounds * len(of.fitted)):
            name = of.fitted[tries % len(of.fitted)]
            for factor in (1 + spread[name], 1 / (1 + spread[name])):
                tried = changed(library, name, factor)
                if (now := loss(tried)) < best - 1e-5:
                    best, library = now, tried
                    break
            else:
                spread[name] /= 2
            work.to(tries + 1)
    return library


def held_rows(kind: str, gpu: str, shapes: pd.DataFrame, off: np.ndarray) -> list[dict[str, object]]:
    """A row a region of the recorded bands: the shares of ``shapes`` that lie within its factor, and within the one
    that all networks but their own make."""
    known = json.loads(RECORD.read_text(encoding="utf-8"))[kind]["generations"].get(load_gpu(gpu).generation, {})
    networks, sizes = shape_bands.networks_of(shapes, NETWORK[FILES[kind]]), np.abs(np.log1p(off))
    rows: list[dict[str, object]] = []
    held: list[np.ndarray] = []
    for name, inside in regions_of(kind, shapes):
        if name in known and inside.any():
            pair = np.array(
                [sizes[inside] <= np.log(known[name]["factor"]), shape_bands.held_without(inside, off, networks)]
            )
            held.append(pair)
            rows.append(_held_row(kind, gpu, name, pair, known[name]["factor"]))
    return [*rows, _held_row(kind, gpu, "all", np.concatenate(held, axis=1), None)] if held else []


def _held_row(kind: str, gpu: str, region: str, held: np.ndarray, factor: float | None) -> dict[str, object]:
    by_record, without = (round(100 * float(share)) for share in held.mean(axis=1))
    return {"kind": kind, "gpu": gpu, "region": region, "shapes": held.shape[1], "factor": factor, "held_percent": by_record, "held_without_network_percent": without}  # fmt: skip


@click.command(help=__doc__)
@click.argument("kind", type=click.Choice(sorted(KINDS)))
@click.argument("rows", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--gpu", "gpus", multiple=True, type=click.Choice(sorted(GPUS.values())), help="Only this GPU.")
@click.option("--final", is_flag=True, help="The half that is looked at when a change is finished.")
@click.option("--shapes", "count", type=click.IntRange(1), default=600, show_default=True, help="So many, by hash.")
@click.option("--record", is_flag=True, help="Keep the final half's errors, with --final.")
@click.option("--fit", "fitted", type=click.Choice(sorted(FITTED_GPUS)), help="Search better figures of a generation.")
@click.option("--rounds", type=click.IntRange(1, 50), default=5, show_default=True, help="Of the search.")
@click.option("--worst", type=click.IntRange(1), help="Print so many shapes that are farthest off.")
@click.option(
    "--bands", is_flag=True, help="Hold the final half's shapes behind the recorded ones against the recorded bands."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table")
def main(
    kind: str, rows: Path, gpus: tuple[str, ...], final: bool, count: int, record: bool, fitted: str | None, rounds: int,
    worst: int | None, bands: bool, form: str,
) -> None:  # fmt: skip
    if fitted:
        gpu = FITTED_GPUS[fitted]
        with shown(sys.stderr):
            shapes = measured_shapes(kind, rows, gpu, False, count)
            found = fit(kind, gpu, tuned_runs.with_own_tiles(shapes), rounds)
        click.echo("\n".join(f"{name} = {figure(found, name):.4g}" for name in KINDS[kind].fitted))
        return
    if record and not final:
        raise click.UsageError("--record keeps the errors of the final half: give --final too")
    printed: list[dict[str, object]] = []
    kept = {}
    for gpu in gpus or KINDS[kind].sources:
        if bands:
            shapes = measured_shapes(kind, rows, gpu, True, 2 * count).iloc[count:]
            shapes = tuned_runs.with_own_tiles(shapes)
            printed += held_rows(kind, gpu, shapes, errors(kind, gpu, shapes)) if len(shapes) else []
            continue
        shapes = measured_shapes(kind, rows, gpu, final, count)
        if not len(shapes):
            continue
        if shapes.untuned.any():
            learning = measured_shapes(kind, rows, gpu, False, None)
            learning = learning[~learning.key.isin(shapes.key)]
            shapes = tuned_runs.with_first_tile(shapes, learning, partial(errors, kind, gpu))
        off = errors(kind, gpu, shapes)
        if worst:
            order = np.argsort(-np.abs(np.log1p(off)))[:worst]
            printed += (
                shapes.iloc[order].drop(columns=["key", "size"]).assign(gpu=gpu, off_percent=np.round(100 * off[order])).to_dict("records")
            )  # fmt: skip
            continue
        printed += region_rows(kind, gpu, shapes, off)
        kept[load_gpu(gpu).generation] = {"gpu": gpu, **band_rows(kind, shapes, off)}
    if record and kept:
        document = json.loads(RECORD.read_text(encoding="utf-8"))
        # Of GPUs that the folder has no rows of, what was recorded stays.
        recorded = document.setdefault(kind, {"generations": {}, "regions": []})
        others = [row for row in recorded["regions"] if row["gpu"] not in {row["gpu"] for row in printed}]
        document[kind] = {"generations": recorded["generations"] | kept, "regions": others + printed}
        write_whole(RECORD, (json.dumps(document, indent=1) + "\n").encode())
    click.echo(format_records(printed, form))


if __name__ == "__main__":
    main()
