"""How far projected whole models are from published measurements of others.

    python tools/model_error.py                    a row a measurement, and means by source and metric
    python tools/model_error.py --format csv       the rows alone
    python tools/model_error.py --one-clock        the power limit acts on the mean of a step, not on each operator
    python tools/model_error.py --record           and keep the means for the pages (traces/library/model_errors.json), and what widens intervals (gpusim/project/errors.json)

Rows (traces/library/whole_models.csv, models beside it as config.json files) are projected with the attention kernels
of the framework that was measured and set nothing: they are looked at, not fitted to. Throughputs and first-token
latencies are those of TensorRT-LLM's documentation (docs/source/performance.md of 0.5 and 0.6.1: static batches of
requests by gptSessionBenchmark, FP8 weights and cache on Hopper and Ada, FP16 on A100), and of 0.9.0 the first tokens
(the same page: one sequence, in tenths of a millisecond; Mixtral left out, whose FP8 its notes announce with 0.10),
training steps those of Korthikanti et al., Reducing Activation Recomputation in Large Transformer Models (2022), table
5 (A100 80 GB, eight a node; 175B and 530B in three pieces a stage), and those in fp8 of NVIDIA's NeMo 24.07
(NVIDIA/NeMo, docs/source/performance/performance_summary.md, commit 070a0bb1) and Megatron Bridge 25.11 and 26.02
(NVIDIA-NeMo/Megatron-Bridge, docs/performance-summary-archive.md, commit 0a25f911): batch over tokens a second; left
out are rows of sequences shared out (CP), of weights shared out over replicas (FSDP), of experts, and of formats that
training is not projected in. TensorRT-LLM's table of A100 says tokens a second where that of H100 says tokens a second
and GPU; the rows of several GPUs only make sense as the latter, and are taken so. Clocks and versions of drivers are
not published.
"""

from __future__ import annotations

import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.gpus.load import load_gpu
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.project.bands import LEAST_ROWS, factor_of, region_of
from gpusim.project.config_file import decoder_of_file
from gpusim.project.decoder import Decoder
from gpusim.project.host import launched_kernels
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.requests import project_request
from gpusim.project.whole import project_model
from gpusim.report.tables import FORMATS, format_records

ROWS = ROOT / "traces" / "library" / "whole_models.csv"
#: Sources whose kernels read keys that heads share once for each: TensorRT-LLM before its kernels for shared heads (its
#: notes of 2024-01-30). Of 0.9.0 first tokens alone are in the rows, which read no keys; with the others it has
#: products that are not joined (its commands leave --use_fused_mlp out).
EACH_HEAD = ("trtllm-0.5", "trtllm-0.6.1", "trtllm-0.9.0")
#: Sources whose documented commands to build engines do not ask for the framework's own all-reduce
#: (--use_custom_all_reduce), so that NCCL's kernels sum.
NCCL_SUMS = ("trtllm-0.5", "trtllm-0.6.1")
#: Sources whose engines sum attention and the feed-forward block apart, however parallel they are (TensorRT-LLM's
#: models/falcon/model.py at commit 027cd518 of 2023; later once). That 0.6.1 is among them is read off two versions of
#: one table: eight A100s answer 232 and 254 tokens a second (1,024 sequences of 128 and 128 tokens; 0.6.1, 0.9.0),
#: projected 235 with two sums a layer and 257 with one.
SUMS_TWICE = ("trtllm-0.5", "trtllm-0.6.1")
#: Versions whose host is known by figures of its own, where it is not the newest (gpusim/project/frameworks.py).
VERSIONS = {"trtllm-0.9.0": "0.9"}
#: Sources that run engines without CUDA graphs, as their documented commands do (no --enable_cuda_graph of
#: gptSessionBenchmark).
ENGINES = ("trtllm-0.5", "trtllm-0.6.1", "trtllm-0.9.0")
#: Stage of ZeRO of sources that train, where it is not 1: weights shared out too, by PyTorch.
ZERO = {"llm-foundry": 3, "fms-fsdp": 3, "torchtitan": 3}
#: Sources from before FlashAttention, whose scores lie in memory.
BEFORE_FUSED = ("megatron-2205.05198",)
#: Sources whose sums over GPUs run beside products (NVIDIA/NeMo, docs/source/performance: TP communication overlap in
#: its recipes).
BESIDE_PRODUCTS = ("nemo", "megatron-bridge")
MODELS = ROWS.parent / "models"
RECORD = ROWS.parent / "model_errors.json"
BANDS = ROOT / "gpusim" / "project" / "errors.json"
LEVEL = 0.8


def network(name: str) -> Decoder:
    """A config.json beside the rows, or a network that gpusim knows."""
    path = MODELS / f"{name}.json"
    return decoder_of_file(path) if path.exists() else decoder_of(name)


def projected(row: Any, prices: Prices) -> tuple[float, float, float, float]:
    """Of the row's metric: expected, low, high; and, where its GPUs wait for the host, the kernels that this launches
    one by one."""
    config, replicas = network(row.model), row.gpus // (row.tp * row.pp)
    if row.source in SUMS_TWICE:
        config = replace(config, sums_once=False)
    plan = Plan(
        row.phase, batch=row.batch, sequence=row.sequence, output=row.output, tensor_parallel=row.tp, pipeline_parallel=row.pp, data_parallel=replicas, dtype=row.dtype,
        kv_dtype=row.kv_dtype, micro_batches=row.micro_batches, virtual_stages=row.virtual_stages, recompute=row.recompute, zero=ZERO.get(row.source, 1) if row.phase == "train" and replicas > 1 else 0,
        overlap="products" if row.source.startswith(BESIDE_PRODUCTS) and row.tp > 1 else "none", scores="eager" if row.source in BEFORE_FUSED else "fused", reads="each" if row.source in EACH_HEAD else "shared", all_reduce="nccl" if row.source in NCCL_SUMS else "custom",
        launch="eager" if row.source in ENGINES else "default", framework="trtllm" if row.source.startswith("trtllm") else "vllm",
        engine=VERSIONS.get(row.source, ""),
    )  # fmt: skip
    if row.phase == "request":
        seconds = project_request(prices, config, plan).seconds
        tokens = row.batch * row.output / row.gpus
        return tokens / seconds.seconds, tokens / seconds.high_seconds, tokens / seconds.low_seconds, 0.0
    found = project_model(prices, config, plan)
    scale, step = 1e3 if row.metric == "ttft_ms" else 1.0, found.step
    kernels = launched_kernels(found.items) if found.host_seconds else 0.0
    return scale * step.seconds, scale * step.low_seconds, scale * step.high_seconds, kernels


def errors(rows: pd.DataFrame, one_clock: bool = False) -> pd.DataFrame:
    """``rows`` with what is projected, with one clock a step or one an operator; ``error_percent``: of the time, so
    that positive is too slow."""
    machines: dict[str, Prices] = {}
    found = []
    with task("projecting", len(rows), "rows") as progress:
        for number, row in enumerate(rows.itertuples(index=False)):
            prices = machines.setdefault(row.gpu, Prices(load_gpu(row.gpu), one_clock=one_clock))
            middle, low, high, kernels = projected(row, prices)
            error = row.measured / middle - 1 if row.phase == "request" else middle / row.measured - 1
            found.append(
                {
                    "projected": float(f"{middle:.4g}"),
                    "error_percent": round(100 * error, 1),
                    "inside": bool(low <= row.measured <= high),
                    "region": region_of(row.phase, row.batch * row.sequence),
                    "generation": prices.spec.generation,
                    "kernels": kernels,
                }
            )
            progress.to(number + 1)
    return pd.concat([rows.reset_index(drop=True), pd.DataFrame(found)], axis=1)


def factors(found: pd.DataFrame) -> dict[str, Any]:
    """Region -> the factor that holds four of five rows, of all and of each generation with rows enough."""
    regions: dict[str, Any] = {}
    for region, own in found.groupby("region", sort=False):
        generations = {name: factor(of) for name, of in own.groupby("generation") if len(of) >= LEAST_ROWS}
        regions[str(region)] = factor(own) | {"generations": generations}
    return regions


def factor(rows: pd.DataFrame) -> dict[str, Any]:
    """``factor`` and ``rows``: of one more row like these (conformal prediction): the ceil((n + 1) x level)-th smallest
    of n distances, the largest where there are too few."""
    off = np.sort(np.log1p(rows.error_percent / 100).abs())
    return {
        "factor": round(float(np.exp(off[min(len(off), math.ceil((len(off) + 1) * LEVEL)) - 1])), 3),
        "rows": len(rows),
    }


def held_out_percent(found: pd.DataFrame) -> pd.DataFrame:
    """By region, rows within the factor that the rows of all other networks give."""
    rows = []
    for region, own in found.groupby("region", sort=False):
        inside = [
            abs(np.log1p(row.error_percent / 100)) <= np.log(factor(own[own.model != row.model])["factor"])
            for row in own.itertuples(index=False)
        ]
        rows.append(
            {
                "region": region,
                "rows": len(own),
                "factor": factor(own)["factor"],
                "held_out_inside_percent": round(100 * float(np.mean(inside))),
            }
        )
    return pd.DataFrame(rows)


def left_out_launches(found: pd.DataFrame) -> list[dict[str, Any]]:
    """Of first tokens that wait for the host: what a kernel's launch takes by this row, and how far off the row is by
    the mean of the other networks'."""
    waiting = found[found.kernels > 0]
    each = 1e3 * waiting.measured / waiting.kernels
    rows = []
    for index, row in waiting.iterrows():
        others = each[waiting.model != row.model].mean()
        rows.append({
            "gpu": row.gpu, "model": row.model, "kernels": int(row.kernels), "launch_us": round(float(each[index]), 1), "others_launch_us": round(float(others), 1),
            "error_by_others_percent": round(100 * (others / each[index] - 1), 1),
        })  # fmt: skip
    return rows


def summary(found: pd.DataFrame, *by: str) -> list[dict[str, Any]]:
    """Means by columns."""
    rows = []
    for names, own in found.groupby(list(by), sort=False):
        error = own.error_percent
        rows.append({
            **dict(zip(by, names, strict=True)), "rows": len(own), "mean_error_percent": round(error.abs().mean(), 1), "signed_percent": round(error.mean(), 1),
            "worst_percent": float(error[error.abs().idxmax()]), "inside_interval_percent": round(100 * own.inside.mean()),
        })  # fmt: skip
    return rows


@click.command(help=__doc__)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--record", is_flag=True, help="Keep the means for the pages.")
@click.option("--one-clock", is_flag=True, help="The power limit acts on the mean of a step.")
def main(form: str, record: bool, one_clock: bool) -> None:
    """Print the rows and the means."""
    if record and one_clock:
        raise click.UsageError("--record keeps what projections say by default: leave --one-clock out")
    with shown():
        found = errors(pd.read_csv(ROWS), one_clock)
    if record:
        # Regions of other tools (tools/serving_error.py) stay.
        document = json.loads(BANDS.read_text(encoding="utf-8"))
        document["regions"] |= factors(found)
        write_whole(BANDS, (json.dumps(document, indent=1) + "\n").encode())
        factor_of.cache_clear()
        with shown():
            found = errors(pd.read_csv(ROWS))
        write_whole(RECORD, (json.dumps(summary(found, "gpu", "metric"), indent=1) + "\n").encode())
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
        click.echo("\n" + format_records(summary(found, "gpu", "metric"), form))
        click.echo("\n" + format_records(left_out_launches(found), form))
        click.echo("\n" + format_records(held_out_percent(found).to_dict("records"), form))


if __name__ == "__main__":
    main()
