"""How far projected collectives are from measured ones.

    python tools/collective_error.py FOLDER                   the learning half of nccl_tests.csv and custom_all_reduce.csv in FOLDER, by generation and message size
    python tools/collective_error.py FOLDER --final           the half that set nothing
    python tools/collective_error.py FOLDER --final --record  and keep the errors as bands (gpusim/collective/errors.json)
    python tools/collective_error.py FOLDER --messages        the same of collectives that are simulated as messages on links, not by their formulas
    python tools/collective_error.py FOLDER --fit hopper      better figures for figures.toml, found on the learning half

FOLDER holds the CSV files that ai-dynamo/aiconfigurator's data make (commit 095f58a; traces/library/collectives has a
sample). Half-precision rows of nccl-tests count, of custom all-reduce those in CUDA graphs; repeats and versions of one
shape are one point, their median. Halves by CRC-32 of "collective,gpus,message_bytes": even to learn from.
"""

from __future__ import annotations

import json
import sys
import zlib
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import simpy

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.collective.bands import REGIONS
from gpusim.collective.figures import Figures, figures_of
from gpusim.collective.messages import Exchange
from gpusim.collective.node import Node, node_of
from gpusim.collective.project import time_of
from gpusim.collective.shape import Collective
from gpusim.collective.topology import Topology
from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.tile.bands import LEVEL_PERCENT

RECORD = ROOT / "gpusim" / "collective" / "errors.json"
GPUS = {"A100-SXM4-80GB": "a100_80gb", "H100-SXM5-80GB": "h100"}


def measured(folder: Path, gpu: str, final: bool) -> pd.DataFrame:
    """Columns library, collective, gpus, message_bytes, us."""
    names = [name for name, own in GPUS.items() if own == gpu]
    nccl = pd.read_csv(folder / "nccl_tests.csv")
    nccl = nccl[nccl.gpu.isin(names) & (nccl.dtype == "half")].assign(library="nccl")
    custom = pd.read_csv(folder / "custom_all_reduce.csv")
    custom = custom[
        custom.gpu.isin(names) & custom.kernel_source.str.endswith("graph") & (custom.message_bytes <= 8 << 20)
    ].assign(library="custom", collective="all_reduce")
    # From 8 MiB on vLLM calls NCCL.
    custom = custom[custom.message_bytes < 8 << 20]
    both = pd.concat([nccl, custom])
    found = (
        both.groupby(["library", "collective", "gpus", "message_bytes"]).latency_us.median().rename("us").reset_index()
    )
    keys = [zlib.crc32(f"{row.collective},{row.gpus},{row.message_bytes}".encode()) for row in found.itertuples()]
    return found[np.array(keys) % 2 == int(final)].reset_index(drop=True)


def errors(gpu: str, rows: pd.DataFrame, figures: Figures | None = None, messages: bool = False) -> np.ndarray:
    """Relative errors of the projected times, by formulas or as ``messages`` on links."""
    spec = load_gpu(gpu)
    node, used = node_of(spec), figures or figures_of(spec.generation)
    shapes = [Collective(row.collective, row.gpus, row.message_bytes, "fp16", row.library) for row in rows.itertuples()]
    if messages:
        seconds = [_sent_seconds(node, spec.generation, used, shape) for shape in shapes]
    else:
        seconds = [time_of(node, spec.generation, used, shape).seconds for shape in shapes]
    return np.array(seconds) * 1e6 / rows.us.to_numpy() - 1


def _sent_seconds(node: Node, generation: str, figures: Figures, shape: Collective) -> float:
    environment = simpy.Environment()
    topology = Topology(environment, node, max(node.gpus, shape.gpus))
    environment.run(Exchange(topology, generation, figures, shape, range(shape.gpus)).done)
    return environment.now


def region_rows(gpu: str, rows: pd.DataFrame, off: np.ndarray) -> list[dict[str, Any]]:
    """A row a library and region, and one for all."""
    found = []
    for library in ("nccl", "custom"):
        least = 0
        for region, most in (*REGIONS, ("all", 1 << 62)):
            inside = (
                (rows.library == library)
                & (rows.message_bytes >= (0 if region == "all" else least))
                & (rows.message_bytes < most)
            ).to_numpy()
            least = most
            if inside.any():
                some = np.abs(off[inside])
                found.append({
                    "library": library, "gpu": gpu, "region": region, "rows": int(inside.sum()), "mean_error_percent": round(100 * float(some.mean()), 1),
                    "signed_percent": round(100 * float(off[inside].mean()), 1), "worst_percent": round(100 * float(off[inside][some.argmax()]), 1),
                    "within_10_percent": round(100 * float((some <= 0.1).mean())),
                    "factor": round(float(np.exp(np.quantile(np.abs(np.log1p(off[inside])), LEVEL_PERCENT / 100))), 3),
                })  # fmt: skip
    return found


def fit(gpu: str, rows: pd.DataFrame, rounds: int) -> Figures:
    """Figures with a smaller mean of the logarithms' distance, each changed in turn."""
    figures = figures_of(load_gpu(gpu).generation)
    names = [each.name for each in fields(Figures)]
    spread = dict.fromkeys(names, 0.3)

    def loss(tried: Figures) -> float:
        off = np.log1p(errors(gpu, rows, tried))
        return float(np.abs(off).mean() + 0.02 * abs(off.mean()))

    best = loss(figures)
    with task("searching figures", rounds * len(names), "tries") as work:
        for turn in range(rounds):
            for place, name in enumerate(names):
                work.to(turn * len(names) + place, f"mean {best:.4f}")
                found = False
                for factor in (1 + spread[name], 1 / (1 + spread[name])):
                    tried = replace(figures, **{name: float(f"{getattr(figures, name) * factor:.4g}")})
                    now = loss(tried)
                    if now < best - 1e-6:
                        figures, best, found = tried, now, True
                        break
                spread[name] *= 1.2 if found else 0.6
    return figures


def record(rows: list[dict[str, Any]]) -> None:
    """Keep the errors as bands."""
    kept: dict[str, Any] = {"regions": rows}
    for row in rows:
        own = kept.setdefault(row["library"], {}).setdefault(load_gpu(row["gpu"]).generation, {})
        own[row["region"]] = {"gpu": row["gpu"], "rows": row["rows"], "factor": row["factor"]}
    for generations in (kept["nccl"], kept["custom"]):
        for own in generations.values():
            for region, _ in REGIONS:
                own.setdefault(region, own["all"])
    write_whole(RECORD, (json.dumps(kept, indent=1) + "\n").encode())


@click.command(help=__doc__)
@click.argument("folder", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("--final", is_flag=True, help="The half that set nothing.")
@click.option("--record", "recorded", is_flag=True, help="Keep the errors as bands.")
@click.option("--messages", is_flag=True, help="Simulated on links.")
@click.option("--worst", type=click.IntRange(0), default=0, help="Print so many of the worst, too.")
@click.option("--fit", "generation", help="Find better figures of this generation.")
@click.option("--rounds", type=click.IntRange(1), default=30, show_default=True, help="Of the search.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(
    folder: Path,
    final: bool,
    recorded: bool,
    messages: bool,
    worst: int,
    generation: str | None,
    rounds: int,
    form: str,
) -> None:
    """Print errors by region."""
    if recorded and (messages or not final):
        raise click.UsageError("--record goes with --final, and without --messages")
    found = []
    with shown():
        for gpu in GPUS.values():
            rows = measured(folder, gpu, final)
            if generation is not None:
                if load_gpu(gpu).generation == generation:
                    for name, value in vars(fit(gpu, rows, rounds)).items():
                        click.echo(f"{name} = {value}")
                continue
            off = errors(gpu, rows, messages=messages)
            found += region_rows(gpu, rows, off)
            if worst:
                order = np.argsort(-np.abs(np.log1p(off)))[:worst]
                click.echo(rows.iloc[order].assign(error_percent=np.round(100 * off[order], 1)).to_string(index=False))
    if found:
        click.echo(format_records(found, form))
    if recorded:
        record(found)


if __name__ == "__main__":
    main()
