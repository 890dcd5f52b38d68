"""How far projected whole models are from published measurements of others.

    python tools/model_error.py                    a row a measurement, and means by source and metric
    python tools/model_error.py --format csv       the rows alone
    python tools/model_error.py --record           and keep the means for the pages (traces/library/model_errors.json)

Rows (traces/library/whole_models.csv, models beside it as config.json files) set nothing: they are looked at, not fitted to. Throughputs and first-token latencies are those of
TensorRT-LLM's documentation (docs/source/performance.md of 0.5 and 0.6.1: static batches of requests by gptSessionBenchmark, FP8 weights and cache on Hopper and Ada, FP16 on
A100), training steps those of Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models (2022), table 5 (A100 80 GB, eight a node). TensorRT-LLM's
table of A100 says tokens a second where that of H100 says tokens a second and GPU; the rows of several GPUs only make sense as the latter, and are taken so. Clocks and
versions of drivers are not published.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.project.config_file import decoder_of_file
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.requests import project_request
from gpusim.project.whole import project_model
from gpusim.report.tables import FORMATS, format_records

ROWS = ROOT / "traces" / "library" / "whole_models.csv"
#: Sources whose kernels read keys that heads share once for each: TensorRT-LLM before its kernels for shared heads (its notes of 2024-01-30).
EACH_HEAD = ("trtllm-0.5", "trtllm-0.6.1")
MODELS = ROWS.parent / "models"
RECORD = ROWS.parent / "model_errors.json"


def projected(row: Any, prices: Prices) -> tuple[float, float, float]:
    """Of the row's metric: expected, low, high."""
    network = decoder_of_file(MODELS / f"{row.model}.json")
    plan = Plan(
        row.phase, batch=row.batch, sequence=row.sequence, output=row.output, tensor_parallel=row.tp, pipeline_parallel=row.pp, dtype=row.dtype,
        kv_dtype=row.kv_dtype, micro_batches=row.micro_batches, recompute=row.recompute,
        reads="each" if row.source in EACH_HEAD else "shared",
    )  # fmt: skip
    if row.phase == "request":
        seconds = project_request(prices, network, plan).seconds
        tokens = row.batch * row.output / row.gpus
        return tokens / seconds.seconds, tokens / seconds.high_seconds, tokens / seconds.low_seconds
    step = project_model(prices, network, plan).step
    scale = 1e3 if row.metric == "ttft_ms" else 1.0
    return scale * step.seconds, scale * step.low_seconds, scale * step.high_seconds


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with what is projected; ``error_percent``: of the time, so that positive is too slow."""
    machines: dict[str, Prices] = {}
    found = []
    with task("projecting", len(rows), "rows") as progress:
        for number, row in enumerate(rows.itertuples(index=False)):
            prices = machines.setdefault(row.gpu, Prices(load_gpu(row.gpu)))
            middle, low, high = projected(row, prices)
            error = row.measured / middle - 1 if row.phase == "request" else middle / row.measured - 1
            found.append(
                {
                    "projected": float(f"{middle:.4g}"),
                    "error_percent": round(100 * error, 1),
                    "inside": bool(low <= row.measured <= high),
                }
            )
            progress.to(number + 1)
    return pd.concat([rows.reset_index(drop=True), pd.DataFrame(found)], axis=1)


def summary(found: pd.DataFrame) -> list[dict[str, Any]]:
    """By GPU and metric."""
    rows = []
    for (gpu, metric), own in found.groupby(["gpu", "metric"], sort=False):
        error = own.error_percent
        rows.append({
            "gpu": gpu, "metric": metric, "rows": len(own), "mean_error_percent": round(error.abs().mean(), 1), "signed_percent": round(error.mean(), 1),
            "worst_percent": float(error[error.abs().idxmax()]), "inside_interval_percent": round(100 * own.inside.mean()),
        })  # fmt: skip
    return rows


@click.command(help=__doc__)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--record", is_flag=True, help="Keep the means for the pages.")
def main(form: str, record: bool) -> None:
    """Print the rows and the means."""
    with shown():
        found = errors(pd.read_csv(ROWS))
    if record:
        write_whole(RECORD, (json.dumps(summary(found), indent=1) + "\n").encode())
    columns = [
        "source",
        "gpu",
        "gpus",
        "model",
        "phase",
        "batch",
        "sequence",
        "output",
        "recompute",
        "metric",
        "measured",
        "projected",
        "error_percent",
        "inside",
    ]
    click.echo(format_records(found[columns].to_dict("records"), form))
    if form in ("table", "md"):
        click.echo("\n" + format_records(summary(found), form))


if __name__ == "__main__":
    main()
