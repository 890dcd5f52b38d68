"""How far off projections are of a GPU whose libraries are taken to be another generation's, and by which of their
figures.

    python tools/other_figures.py FOLDER                    learning half: the error, and what it is with each single figure put right
    python tools/other_figures.py FOLDER --final --record   the other half: errors by region, kept as the bands of such GPUs

Mental model: in attention and in products each GPU has what its description says with constants that its rows did not
set (gpusim/tile/described.toml, tools/described_figures.py; described_attention.toml, tools/described_attention.py), as
a GPU is that is only described; --borrowed: in attention A100 and B200 another generation's figures, Hopper's, and H100
Ampere's. A figure carries the error by as much as the error falls when that figure alone is the generation's own. So is
each GPU of every other kind of operator that was measured on two generations: latent attention and products of fp8 and
in batches by what is worked out from the description (tools/operators/described_kinds.py), others with the other
generation's figures. FOLDER has gemm.csv.gz, attention_generation.csv.gz, attention_context.csv.gz and those of the
kinds (ai-dynamo/aiconfigurator, commit 095f58a), beside it or within it is power/ with those of the power runs of a
B200; halves and shapes are those of tools/tile_gemm.py and tools/tile_attention.py.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

import tile_attention
import tile_gemm
import tile_operators
from operators import tuned_runs
from operators.described_kinds import DESCRIBED
from operators.kinds import KINDS
from operators.measured import find_file, half_step_us

from gpusim.gpus.load import load_gpu
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.tile.attention import AttentionShape, attention_library_of, one_head_a_block
from gpusim.tile.attention_context import context_library_of
from gpusim.tile.described import constants_of, described_library
from gpusim.tile.described_attention import attention_constants_of, described_attention, described_context
from gpusim.tile.library import library_of

RECORD = ROOT / "gpusim" / "tile" / "other_figures_errors.json"
#: GPU that is held out -> its generation, and whose figures it takes.
HELD_OUT = {"a100_80gb": ("ampere", "hopper"), "h100": ("hopper", "ampere"), "b200": ("blackwell", "hopper")}
#: Operator -> figures of a generation, its file.
OPERATORS: dict[str, tuple[Callable[[str], Any], str]] = {
    "gemm": (library_of, "gemm.csv.gz"),
    "generation": (attention_library_of, "attention_generation.csv.gz"),
    "context": (context_library_of, "attention_context.csv.gz"),
}


def shapes_and_errors(
    operator: str, folder: Path, gpu: str, final: bool, count: int
) -> tuple[pd.DataFrame, Callable[[Any], np.ndarray]]:
    """Measured shapes, and the relative errors of their projections by figures."""
    file = find_file(folder, OPERATORS[operator][1], gpu)
    if operator == "gemm":
        shapes = tile_gemm.measured_shapes(file, gpu, final, count)
        return shapes, partial(tile_gemm.errors, gpu, shapes)
    shapes = tile_attention.measured_shapes(file, gpu, "vllm", final, count, operator)
    return shapes, partial(tile_attention.errors, gpu, shapes)


def other_figures(operator: str, gpu: str, borrowed: bool = False) -> tuple[str, Any]:
    """What stands for the GPU's own figures, and these."""
    generation, other = HELD_OUT[gpu]
    if operator == "gemm":
        return "described", described_library(load_gpu(gpu), constants_of(f"without_{generation}"))
    if borrowed:
        return other, OPERATORS[operator][0](other)
    described = {"generation": described_attention, "context": described_context}[operator]
    figures: Any = described(load_gpu(gpu), attention_constants_of(f"without_{generation}"))
    # What these rows have beside their kernels, which no projection of a GPU without rows has.
    return "described", replace(figures, launch_ns=figures.launch_ns + 1e3 * half_step_us(gpu))


def _row(operator: str, gpu: str, figures: str, off: np.ndarray) -> dict[str, object]:
    return {
        "operator": operator, "gpu": gpu, "figures": figures, "shapes": len(off),
        "mean_error_percent": round(100 * float(np.abs(off).mean()), 1),
        "signed_percent": round(100 * float(off.mean()), 1),
    }  # fmt: skip


def by_figure(operator: str, folder: Path, gpu: str, count: int, borrowed: bool) -> list[dict[str, object]]:
    """A row for the other generation's figures, one for each figure put right, one for all of them; those that help
    most come first."""
    generation = HELD_OUT[gpu][0]
    own = OPERATORS[operator][0](generation)
    other, wrong = other_figures(operator, gpu, borrowed)
    _, errors = shapes_and_errors(operator, folder, gpu, False, count)
    single = []
    for name in (each.name for each in fields(own)):
        right = getattr(own, name)
        if name not in ("generation", "clock_mhz") and right != getattr(wrong, name):
            both = {name: right} | ({"clock_mhz": own.clock_mhz} if name == "start_cycles" else {})
            off = errors(replace(wrong, **both))
            single.append((float(np.abs(off).mean()), _row(operator, gpu, f"{other}, own {name}", off)))
    single.sort(key=lambda each: each[0])
    ends = [
        _row(operator, gpu, who, errors(figures)) for who, figures in ((other, wrong), (f"own ({generation})", own))
    ]
    return [ends[0], *(row for _, row in single), ends[1]]


def framework_rows(folder: Path, gpu: str, final: bool, count: int) -> list[dict[str, object]]:
    """Of TensorRT-LLM's two kinds of generation kernels, which follow rules of their source: a row for the other
    generation's figures of each."""
    generation, other = HELD_OUT[gpu]
    file, spec, rows = folder / OPERATORS["generation"][1], load_gpu(gpu), []
    shapes = tile_attention.measured_shapes(file, gpu, "trtllm", final, count)
    known = attention_library_of(generation, "trtllm")
    alone = np.array([
        one_head_a_block(spec, AttentionShape(batch, step + 1, *heads, framework="trtllm"), known)
        for batch, step, *heads in shapes[list(tile_attention.SHAPE["generation"])].astype(int).itertuples(index=False)
    ])  # fmt: skip
    for kind, inside, of in (("shared heads", ~alone, ()), ("one head a block", alone, ("each_head",))):
        off = tile_attention.errors(gpu, shapes[inside], attention_library_of(other, "trtllm", of), "trtllm")
        rows.append(_row(f"generation, trtllm, {kind}", gpu, other, off))
    return rows


def bands(
    operators: tuple[str, ...], folder: Path, final: bool, count: int, borrowed: bool = False
) -> tuple[dict[str, dict[str, dict[str, float]]], list[dict[str, object]]]:
    """Operator -> region -> the widest factor of the GPUs within which LEVEL_PERCENT of the errors lie; and a row an
    operator and GPU."""
    kept: dict[str, dict[str, dict[str, float]]] = {}
    printed = []
    for operator in operators:
        kept[operator] = {}
        if operator in DESCRIBED:
            for kind, gpu, figures in DESCRIBED[operator]:
                shapes = _of_kind(kind, folder, gpu, final, count)
                off = tile_operators.errors(kind, gpu, shapes, figures(load_gpu(gpu)))
                printed.append(_row(operator, gpu, "described", off))
                _widen(kept[operator], tile_operators.band_rows(kind, shapes, off))
            continue
        if operator in KINDS:
            for gpu in KINDS[operator].sources:
                for other, figures in _others(operator, gpu):
                    shapes = _of_kind(operator, folder, gpu, final, count)
                    off = tile_operators.errors(operator, gpu, shapes, figures)
                    printed.append(_row(operator, gpu, other, off))
                    _widen(kept[operator], tile_operators.band_rows(operator, shapes, off))
            continue
        for gpu in HELD_OUT:
            shapes, errors = shapes_and_errors(operator, folder, gpu, final, count)
            other, figures = other_figures(operator, gpu, borrowed)
            off = errors(figures)
            printed.append(_row(operator, gpu, other, off))
            is_gemm = operator == "gemm"
            found = tile_gemm.band_rows(shapes, off) if is_gemm else tile_attention.band_rows(operator, shapes, off)
            _widen(kept[operator], found)
    if "generation" in operators:
        for gpu in ("a100_80gb", "h100"):
            printed += framework_rows(folder, gpu, final, count)
    return {operator: regions for operator, regions in kept.items() if regions}, printed


def _of_kind(kind: str, folder: Path, gpu: str, final: bool, count: int) -> pd.DataFrame:
    """Measured shapes of a kind on a GPU, wherever they lie; of experts those of runs with tiles of their own."""
    found = (tile_operators.measured_shapes(kind, each, gpu, final, None) for each in (folder, folder / "power", folder.parent / "power"))  # fmt: skip
    return tuned_runs.with_own_tiles(next(shapes for shapes in found if len(shapes))).head(count)


def _others(kind: str, gpu: str) -> list[tuple[str, Any]]:
    """Of a kind that was measured on GPUs of several generations: whose figures stand for the GPU's own, and these."""
    of, own = KINDS[kind], load_gpu(gpu).generation
    generations = sorted({load_gpu(each).generation for each in of.sources} - {own})
    if of.without and generations:
        return [(f"shared, without {own}", of.without(own))]
    return [(other, of.library(other)) for other in generations]


def _widen(regions: dict[str, dict[str, float]], found: dict[str, dict[str, float]]) -> None:
    """Keep of each region the wider factor."""
    for region, row in found.items():
        if row["factor"] > regions.get(region, {"factor": 0.0})["factor"]:
            regions[region] = row


@click.command(help=(__doc__ or "").replace("\n    python", "\n\n\b\n    python"))
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option(
    "--operator", "operators", multiple=True, type=click.Choice([*OPERATORS, *KINDS]), help="Only this operator."
)
@click.option(
    "--final", is_flag=True, help="The half that is looked at when a change is finished, without single figures."
)
@click.option("--record", is_flag=True, help="Keep the bands, with --final.")
@click.option("--borrowed", is_flag=True, help="In attention, another generation's figures in place of described ones.")
@click.option("--shapes", "count", type=click.IntRange(1), default=100, show_default=True, help="Of the half, by hash.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table")
def main(
    folder: Path, operators: tuple[str, ...], final: bool, record: bool, borrowed: bool, count: int, form: str
) -> None:
    if record and not final:
        raise click.UsageError("--record keeps the errors of the final half: give --final too")
    if record and borrowed:
        raise click.UsageError("--record keeps errors of what a GPU without rows takes: leave out --borrowed")
    if final:
        kept, printed = bands(operators or (*OPERATORS, *KINDS), folder, True, count, borrowed)
        if record:
            # Of operators that were not asked for, what was recorded stays; one may print rows of several names.
            recorded = json.loads(RECORD.read_text(encoding="utf-8"))
            names = {row["operator"] for row in printed}
            others = [row for row in recorded["errors"] if row["operator"] not in names]
            document = {
                "about": "Written by tools/other_figures.py --final --record.",
                "operators": recorded["operators"] | kept,
                "errors": printed + others,
            }
            write_whole(RECORD, (json.dumps(document, indent=1) + "\n").encode())
    else:
        asked = operators or tuple(OPERATORS)
        if kinds := set(asked) & set(KINDS):
            raise click.UsageError(f"single figures of {', '.join(sorted(kinds))} are not put right: give --final")
        printed = [
            row for operator in asked for gpu in HELD_OUT for row in by_figure(operator, folder, gpu, count, borrowed)
        ]
    click.echo(format_records(printed, form))


if __name__ == "__main__":
    main()
