"""How far projected attention is from what a library's kernels were measured at: with one query token a sequence, or
(``--phase context``) with many.

    python tools/tile_attention.py ROWS                        the learning half: mean errors by bytes of keys and values
    python tools/tile_attention.py ROWS --final                the half that set nothing
    python tools/tile_attention.py ROWS --final --record       and keep the errors as bands (gpusim/tile/attention_errors.json)
    python tools/tile_attention.py ROWS --framework trtllm     another framework's rows beside projections of its kernels (also with --fit, and with --final --record)
    python tools/tile_attention.py ROWS --phase context        the same of the rows of many query tokens (isl) under a causal mask
    python tools/tile_attention.py ROWS --window               rows with a window that leaves keys out, in either phase; with --final --record as well
    python tools/tile_attention.py ROWS --cache fp8            rows with keys and values of 8 bits, in either phase, also with --window; with --final --record as well
    python tools/tile_attention.py ROWS --phase context --cache fp8 --queries fp8 --framework trtllm    those with queries of 8 bits as well
    python tools/tile_attention.py ROWS --by group             the learning half apart by query heads that share keys, or by another column
    python tools/tile_attention.py ROWS --figures-of hopper    as a GPU that is only described: with another generation's figures
    python tools/tile_attention.py ROWS --fit hopper           better figures for attention.toml, found on the learning half (a minute)

ROWS: a CSV file (also gzipped) with columns gpu, framework, kv_cache_dtype, batch_size, step, num_heads,
num_key_value_heads, head_dim, window_size, latency_ms, suspect, as ai-dynamo/aiconfigurator's data make it (commit
095f58a), or of its power runs, which are one B200's (no gpu, no suspect). Rows count with bfloat16 keys, no window
(unless --window or --cache fp8), and heads of 64 to 256 (a B200's: to 512). Halves by CRC-32 of the shape's numbers
joined by commas: even to learn from, odd looked at when a change is finished. ``step`` keys lie in the cache, one more
is new (isl: as many queries as keys); the same buffers every time, so that keys are found in L2 where they fit.
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
from operators.measured import FITTED_GPUS, GPUS, read_rows

from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.tile.attention import (
    FRAMEWORKS,
    AttentionLibrary,
    AttentionShape,
    attention_library_of,
    cache_rows,
    project_attention,
)
from gpusim.tile.attention_context import ContextLibrary, ContextShape, context_library_of, project_context
from gpusim.tile.bands import KV_REGIONS, QUERY_REGIONS, attention_kind
from gpusim.tile.machine import OPERANDS

RECORD = ROOT / "gpusim" / "tile" / "attention_errors.json"
PHASES = ("generation", "context")
HEADS = ("num_heads", "num_key_value_heads", "head_dim")
SHAPE = {"generation": ("batch_size", "step", *HEADS), "context": ("batch_size", "isl", *HEADS)}
REGIONS: dict[str, tuple[tuple[str, float], ...]] = {"generation": KV_REGIONS, "context": QUERY_REGIONS}
HEAD_DIMS = (64, 128, 192, 256, 512)
#: Widths of heads that figures of a GPU's generation are known for.
_MOST_HEAD_DIM = {"b200": 512}
#: Of keys and values, or of queries -> in the rows.
CACHES = {"bf16": "bfloat16", "fp8": "fp8"}
FITTED = {
    "generation": (
        "launch_ns", "regroup_ns", "regroup_head_cycles", "start_cycles", "step_cycles", "block_bytes_per_cycle",
        "head_cycles", "combine_cycles", "dram_share", "l2_rate_share", "l2_share", "later_start_share", "combine_part_cycles", "combine_rest_cycles", "sequence_ns", "given_sequence_ns",
        "given_head_cycles", "missed_ns", "overlap_power",
    ),
    "context": (
        "launch_ns", "start_cycles", "later_start_share", "rate", "score_cycles", "tail", "combine_cycles", "cache_block_ns", "kv_passes", "head_passes",
    ),
}  # fmt: skip
#: Columns of the heads, which shapes of a network have in common.
NETWORK = (*HEADS, "window_size")
#: What --by goes by: columns, and query heads that share keys.
BY = ("group", "batch_size", "window_size", *HEADS)
_SHARES = ("share", "rate")
#: Of a figure that is a share, the most, where it is not the whole: DRAM's described rate is that of reads and writes,
#: of which reads alone reach more.
_MOST_SHARE, _MOST_SHARES = 0.995, {"dram_share": 1.08}
#: Windows of a framework's contexts that are chunks: 12,288 tokens take what 8,192 and 4,096 do apart, where vLLM and
#: TensorRT-LLM take each token's own window (Llama 4's heads).
CHUNKED = (("sglang", 8192),)
#: Of the rows whose keys take more than twice L2, those faster than DRAM: 0 but for TensorRT-LLM's on an A100 (0.23)
#: and a B200 (0.39, up to 13.4 TB/s).
_MOST_SHARED = 0.1


def measured_shapes(
    rows: Path,
    gpu: str,
    framework: str,
    final: bool,
    count: int | None,
    phase: str = "generation",
    window: bool = False,
    cache: str = "bf16",
    head_dims: tuple[int, ...] = HEAD_DIMS,
    queries: str = "bf16",
) -> pd.DataFrame:
    """Columns of SHAPE, us and size (what the regions of the phase go by), in an order by hash; ``window``: of shapes
    whose window leaves keys out, with window_size; ``cache``, ``queries``: of keys and values, and of a context's
    queries, a key of CACHES."""
    shape = [*SHAPE[phase], *(["window_size"] if window else [])]
    table = read_rows(rows)
    names = [name for name, own in GPUS.items() if own == gpu]
    table = table.loc[
        table.gpu.isin(names) & (table.framework == framework) & (table.suspect == 0)
        & (table.kv_cache_dtype == CACHES[cache]) & table.head_dim.isin(head_dims) & (table.head_dim <= _MOST_HEAD_DIM.get(gpu, 256))
    ]  # fmt: skip
    length = table.isl if phase == "context" else table.step + 1
    table = table.loc[(table.window_size > 0) & (table.window_size < length) if window else table.window_size == 0]
    if phase == "context":
        table = table.loc[table.attn_dtype == CACHES[queries]]
    found = table.groupby(shape).latency_ms.median().mul(1e3).rename("us").reset_index()
    found["key"] = [zlib.crc32(",".join(map(str, row)).encode()) for row in found[shape].itertuples(index=False)]
    if phase == "context":
        found["size"] = found.isl
    else:
        keys = found.window_size if window else found.step + 1
        found["size"] = (
            (2.0 if cache == "fp8" else 4.0) * found.batch_size * found.num_key_value_heads * keys * found.head_dim
        )
        # Faster than DRAM delivers what L2 cannot hold: the sequences must have shared keys. Where many of a
        # framework's rows are, none of those that L2 cannot hold tells anything.
        spec = load_gpu(gpu)
        fast = found["size"] - spec.l2.total_bytes > 1e3 * found.us * spec.dram.peak_bytes_per_ns
        beyond = found["size"] > spec.l2.total_bytes
        far = found["size"] > 2 * spec.l2.total_bytes
        shared = fast[far].mean() > _MOST_SHARED if far.any() else False
        found = found[~(beyond if shared else fast)]
    return found[found.key % 2 == int(final)].sort_values("key").head(count if count else len(found))


def errors(
    gpu: str,
    shapes: pd.DataFrame,
    library: AttentionLibrary | ContextLibrary | None = None,
    framework: str = "vllm",
    cache: str = "bf16",
    queries: str = "bf16",
) -> np.ndarray:
    """Relative errors of the projected times."""
    spec = load_gpu(gpu)
    windows = shapes.window_size.astype(int) if "window_size" in shapes else [0] * len(shapes)
    if "isl" in shapes:
        assert not isinstance(library, AttentionLibrary)
        seconds = [
            project_context(
                spec,
                ContextShape(
                    *row,
                    dtype=queries,
                    window=window,
                    kv_dtype=cache,
                    framework=framework,
                    chunked=window > 0 and (framework, window) in CHUNKED,
                ),
                library,
            ).seconds
            for row, window in zip(
                shapes[list(SHAPE["context"])].astype(int).itertuples(index=False), windows, strict=True
            )
        ]
    else:
        assert not isinstance(library, ContextLibrary)
        seconds = [
            project_attention(
                spec,
                AttentionShape(batch, step + 1, *heads, window=window, kv_dtype=cache, framework=framework),
                library,
            ).seconds
            for (batch, step, *heads), window in zip(
                shapes[list(SHAPE["generation"])].astype(int).itertuples(index=False), windows, strict=True
            )
        ]
    return np.array(seconds) * 1e6 / shapes.us.to_numpy() - 1


def region_rows(gpu: str, phase: str, shapes: pd.DataFrame, off: np.ndarray) -> list[dict[str, object]]:
    """A row a region, and one for all."""
    rows, least = [], 0.0
    for name, most in (*REGIONS[phase], ("all", np.inf)):
        least = 0.0 if name == "all" else least
        inside = ((shapes["size"] > least) & (shapes["size"] <= most)).to_numpy()
        least = most
        if inside.any():
            some = np.abs(off[inside])
            rows.append(
                {
                    "gpu": gpu, "region": name, "shapes": int(inside.sum()),
                    "mean_error_percent": round(100 * float(some.mean()), 1),
                    "median_percent": round(100 * float(np.median(some)), 1),
                    "signed_percent": round(100 * float(off[inside].mean()), 1),
                    "within_10_percent": round(100 * float((some <= 0.1).mean())),
                }
            )  # fmt: skip
    return rows


def apart_rows(gpu: str, by: str, shapes: pd.DataFrame, off: np.ndarray) -> list[dict[str, object]]:
    """A row for each value of a column (of BY)."""
    values = shapes.num_heads // shapes.num_key_value_heads if by == "group" else shapes[by]
    rows: list[dict[str, object]] = []
    for value in sorted(values.unique()):
        some = off[(values == value).to_numpy()]
        mean, signed = 100 * float(np.abs(some).mean()), 100 * float(some.mean())
        rows.append({"gpu": gpu, by: int(value), "shapes": len(some), "mean_error_percent": round(mean, 1), "signed_percent": round(signed, 1)})  # fmt: skip
    return rows


def band_rows(phase: str, shapes: pd.DataFrame, off: np.ndarray) -> dict[str, dict[str, float]]:
    """Region -> the factor within which LEVEL_PERCENT of the next network's errors lie, and of how many shapes and
    networks."""
    return shape_bands.band_rows(regions_of(phase, shapes), off, shape_bands.networks_of(shapes, NETWORK))


def regions_of(phase: str, shapes: pd.DataFrame) -> list[tuple[str, np.ndarray]]:
    """Each region of the phase, and which shapes are inside."""
    size, regions = shapes["size"].to_numpy(), REGIONS[phase]
    least = [0.0, *(most for _, most in regions[:-1])]
    return [(name, (size > low) & (size <= most)) for low, (name, most) in zip(least, regions, strict=True)]


def fit(
    gpu: str,
    phase: str,
    framework: str,
    shapes: pd.DataFrame,
    rounds: int,
    cache: str = "bf16",
    head_dim: int = 128,
    queries: str = "bf16",
) -> AttentionLibrary | ContextLibrary:
    """Figures with a smaller mean of the logarithms' distance, each changed in turn."""
    known = attention_library_of if phase == "generation" else context_library_of
    rows = cache_rows(OPERANDS[cache][0], head_dim, OPERANDS[queries][0])
    library: AttentionLibrary | ContextLibrary = known(load_gpu(gpu).generation, framework=framework, rows=rows)
    names = FITTED[phase]
    spread = dict.fromkeys(names, 0.2)

    def loss(tried: AttentionLibrary | ContextLibrary) -> float:
        off = np.log1p(errors(gpu, shapes, tried, framework, cache, queries))
        return float(np.abs(off).mean() + 0.02 * abs(off.mean()))

    best = loss(library)
    with task("searching figures", rounds * len(names), "tries") as work:
        for tries in range(rounds * len(names)):
            name = names[tries % len(names)]
            for factor in (1 + spread[name], 1 / (1 + spread[name])):
                value = getattr(library, name) * factor
                tried = replace(
                    library,
                    **{name: min(value, _MOST_SHARES.get(name, _MOST_SHARE)) if name.endswith(_SHARES) else value},
                )
                if (now := loss(tried)) < best - 1e-5:
                    best, library = now, tried
                    break
            else:
                spread[name] /= 2
            work.to(tries + 1)
    return library


@click.command(help=__doc__)
@click.argument("rows", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--gpu", "gpus", multiple=True, type=click.Choice(sorted(GPUS.values())), help="Only this GPU.")
@click.option("--phase", type=click.Choice(PHASES), default=PHASES[0], show_default=True)
@click.option("--window", is_flag=True, help="Shapes whose window leaves keys out.")
@click.option(
    "--cache", type=click.Choice(sorted(CACHES)), default="bf16", show_default=True, help="Of keys and values."
)
@click.option(
    "--queries", type=click.Choice(sorted(CACHES)), default="bf16", show_default=True, help="Of a context's queries."
)
@click.option(
    "--head-dim",
    "head_dims",
    multiple=True,
    type=click.Choice([str(each) for each in HEAD_DIMS]),
    help="Only heads of so many elements; may be repeated.",
)
@click.option("--framework", type=click.Choice(FRAMEWORKS), default=FRAMEWORKS[0], show_default=True)
@click.option("--final", is_flag=True, help="The half that is looked at when a change is finished.")
@click.option("--shapes", "count", type=click.IntRange(1), default=None, help="So many shapes of the half, by hash.")
@click.option("--record", is_flag=True, help="Keep the final half's errors, with --final.")
@click.option("--fit", "fitted", type=click.Choice(sorted(FITTED_GPUS)), help="Search better figures of a generation.")
@click.option("--figures-of", type=click.Choice(sorted(FITTED_GPUS)), help="Another generation's figures.")
@click.option("--by", type=click.Choice(BY), help="The learning half apart by this.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table")
def main(
    rows: Path, gpus: tuple[str, ...], phase: str, window: bool, cache: str, queries: str, head_dims: tuple[str, ...], framework: str, final: bool, count: int | None, record: bool,
    fitted: str | None, figures_of: str | None, by: str | None, form: str,
) -> None:  # fmt: skip
    dims = tuple(map(int, head_dims)) or HEAD_DIMS
    if record and head_dims:
        raise click.UsageError("--record keeps the errors of all heads: leave out --head-dim")
    if queries != "bf16" and (phase != "context" or cache == "bf16"):
        raise click.UsageError("--queries fp8 is of contexts with a cache of 8 bits: give --phase context --cache fp8")
    if fitted:
        gpu = FITTED_GPUS[fitted]
        with shown(sys.stderr):
            shapes = measured_shapes(rows, gpu, framework, False, count or 1500, phase, False, cache, dims, queries)
            found = fit(gpu, phase, framework, shapes, 5, cache, max(dims) if head_dims else 128, queries)
        click.echo("\n".join(f"{name} = {getattr(found, name):.4g}" for name in FITTED[phase]))
        return
    if record and figures_of:
        raise click.UsageError("--record keeps errors of a GPU's own figures: leave out --figures-of")
    if by and (final or (by == "window_size" and not window)):
        raise click.UsageError("--by is of the learning half, and window_size of rows with --window")
    known = attention_library_of if phase == "generation" else context_library_of
    if record and not final:
        raise click.UsageError("--record keeps the errors of the final half: give --final too")
    printed, kept = [], {}
    for gpu in gpus or GPUS.values():
        shapes = measured_shapes(rows, gpu, framework, final, count, phase, window, cache, dims, queries)
        if not len(shapes):
            continue
        other = known(figures_of, framework=framework) if figures_of else None
        off = errors(gpu, shapes, other, framework, cache, queries)
        printed += apart_rows(gpu, by, shapes, off) if by else region_rows(gpu, phase, shapes, off)
        kept[load_gpu(gpu).generation] = {"gpu": gpu, **band_rows(phase, shapes, off)}
    if record:
        document = json.loads(RECORD.read_text(encoding="utf-8"))
        # Of GPUs that these rows do not have, what was recorded stays.
        kind = attention_kind(phase, window, framework, cache, queries)
        recorded = document.setdefault(kind, {"generations": {}, "regions": []})
        others = [row for row in recorded["regions"] if row["gpu"] not in {row["gpu"] for row in printed}]
        recorded["generations"] |= kept
        recorded["regions"] = others + printed
        write_whole(RECORD, (json.dumps(document, indent=1) + "\n").encode())
    click.echo(format_records(printed, form))


if __name__ == "__main__":
    main()
