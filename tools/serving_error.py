"""How far projected servers under full load are from published measurements of others.

    python tools/serving_error.py                    a row a measurement, and means by GPU and by network
    python tools/serving_error.py --gpu h200         rows of one GPU
    python tools/serving_error.py --format csv       the rows alone
    python tools/serving_error.py --before           rows of earlier versions, which set nothing
    python tools/serving_error.py --record           and keep the means for the pages (traces/library/serving_errors.json), and what widens intervals (gpusim/project/errors.json)

Rows (traces/library/served_models.csv) are those of TensorRT-LLM's documentation:
docs/source/performance/perf-overview.md of 1.0 (commit 00f37686; dense networks, and Qwen3-30B-A3B) and
docs/source/developer-guide/perf-overview.md of 1.2 (commit 03e27c7d): trtllm-bench's throughput with all requests
queued at once, prompts and answers of one length each, weights quantised by ModelOpt (FP8, NVFP4; DeepSeek-R1 on Hopper
as published, in NVFP4 what makes its queries, keys and values in 16 bits, as the cards of NVIDIA's checkpoints say, v2
of which has the output in 4 bits; GPT-OSS's experts in MXFP4, on Blackwell beside activations in MXFP8), the cache in
FP8 as those settings say (GPT-OSS on Hopper in 16 bits). Its commands give most of the memory that is left to keys and
values ("in many cases" 0.95 of it, "0.90 or lower" where memory does not suffice: taken as 0.95, and as 0.80, which
TensorRT-LLM's guides give such servers, where experts are shared out over replicas; that the latter are of the second
kind was seen on the rows of column "sets_interval"). One figure was set by a half of the rows of pipelines
(pipeline_sequence_seconds of gpusim/project/frameworks.py; which half a hash of the row says, column "learn"), and one,
1.0's host (sequence_seconds), by those rows of experts that set intervals (column "sets_interval"); nothing else was
fitted to any of them. Left out: networks whose layers are not projected (Llama 4), and networks of experts in 1.0 on
several GPUs, where it is not said how experts are shared out. Rows of earlier versions
(traces/library/served_before.csv) are those of 0.14 (see the README beside them), of 0.17 (commit 258c7540: engines of TensorRT under the C++ runtime; one to
eight GPUs a layer on H200, H100, GH200, L40S and A100) and 0.20 (its documentation of that name: PyTorch, whose host is
projected as 1.0's). Clocks, versions of drivers and the host are not published; RTX PRO 6000 is the Server Edition.
"""

from __future__ import annotations

import hashlib
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
from gpusim.project.bands import products_measured, served_factor
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.server import as_many_as_fit
from gpusim.project.serving import project_serving
from gpusim.report.tables import FORMATS, format_records
from tools.model_error import BANDS, network, summary
from tools.served_bands import calibration, cells

ROWS = ROOT / "traces" / "library" / "served_models.csv"
BEFORE = ROWS.parent / "served_before.csv"
RECORD = ROWS.parent / "serving_errors.json"
#: Of sources, where it is not the newest.
ENGINES = {"trtllm-0.20": "1.0", "trtllm-1.0": "1.0"}
#: Descriptions of GPUs that rows call by a product's name.
DESCRIBED = {"rtx_pro_6000": "rtx_pro_6000_server"}
#: Of the memory that weights leave free, for keys and values, as the source says; where experts are shared out over
#: replicas, as TensorRT-LLM's own guides give it for such servers (examples/serve/deepseek_r1_reasoning_parser.sh,
#: kv_cache_config.free_gpu_memory_fraction).
MEMORY_SHARE, SHARED_OUT_SHARE = 0.95, 0.80


def _sets_interval(row: Any) -> bool:
    """Whether the interval of a kind of network may be set by the row; how many the others' hold is what the pages
    say."""
    key = f"{row.gpu} {row.model} {row.gpus} {row.sequence} {row.output}"
    return hashlib.sha256(key.encode()).digest()[1] % 2 == 0


def errors(rows: pd.DataFrame, machines: dict[str, Prices]) -> pd.DataFrame:
    """``rows`` with what is projected on ``machines``, which are added to; ``error_percent``: of the time, so that
    positive is too slow."""
    found = []
    with task("projecting", len(rows), "rows") as progress:
        for number, row in enumerate(rows.itertuples(index=False)):
            prices = machines.setdefault(row.gpu, Prices(load_gpu(DESCRIBED.get(row.gpu, row.gpu))))
            plan = Plan(
                "serve", batch=as_many_as_fit(row.dp), sequence=row.sequence, output=row.output, tensor_parallel=row.tp, pipeline_parallel=row.pp,
                data_parallel=row.dp, expert_parallel=row.ep, dtype=row.dtype, experts_dtype=row.experts_dtype, attention_dtype=row.attention_dtype, kv_dtype=row.kv_dtype, framework="trtllm", engine=ENGINES.get(row.source, ""),
            )  # fmt: skip
            served = project_serving(
                prices,
                network(row.model),
                plan,
                row.requests,
                memory_share=SHARED_OUT_SHARE if row.ep > row.tp else MEMORY_SHARE,
            )
            rate, seconds = served.output_tokens_per_second / row.gpus, served.seconds
            measured_seconds = seconds.seconds * rate / row.tokens_per_s_per_gpu
            key = f"{row.gpu} {row.model} {row.pp} {row.sequence} {row.output}"
            found.append(
                {
                    "learn": row.pp > 1 and hashlib.sha256(key.encode()).digest()[0] % 2 == 0,
                    "projected": float(f"{rate:.4g}"),
                    "error_percent": round(100 * (row.tokens_per_s_per_gpu / rate - 1), 1),
                    "inside": bool(seconds.low_seconds <= measured_seconds <= seconds.high_seconds),
                    "at_once": served.server.sequences,
                    "mean_batch": round(served.batch, 1),
                    "step_ms": float(f"{1e3 * seconds.seconds / served.steps:.4g}"),
                    "prompt_percent": round(100 * served.prompt_share),
                    "sets_interval": _sets_interval(row),
                    "framework": "trtllm",
                    "experts": network(row.model).experts is not None,
                    "generation": prices.spec.generation,
                    "known": products_measured(prices.spec.generation),
                }
            )
            progress.to(number + 1)
    return pd.concat([rows.reset_index(drop=True), pd.DataFrame(found)], axis=1)


@click.command(help=__doc__)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--gpu", "gpus", multiple=True, help="Rows of this GPU; may be repeated.")
@click.option("--model", "models", multiple=True, help="Rows of this network; may be repeated.")
@click.option("--before", is_flag=True, help="Rows of versions before 1.0.")
@click.option("--record", is_flag=True, help="Keep the means for the pages, and what widens intervals.")
def main(form: str, gpus: tuple[str, ...], models: tuple[str, ...], before: bool, record: bool) -> None:
    """Print the rows and the means."""
    rows = pd.read_csv(BEFORE if before else ROWS, keep_default_na=False)
    if record and (gpus or models or before):
        raise click.UsageError(
            "--record keeps all rows that others set figures by: leave --gpu, --model and --before out"
        )
    rows = rows[(rows.gpu.isin(gpus) | (not gpus)) & (rows.model.isin(models) | (not models))].reset_index(drop=True)
    if rows.empty:
        raise click.UsageError("no such rows: see traces/library/served_models.csv for GPUs and networks")
    machines: dict[str, Prices] = {}
    with shown():
        found = errors(rows, machines)
    if record:
        document = json.loads(BANDS.read_text(encoding="utf-8"))
        bands = cells(found[~found.learn & found.sets_interval], ["trtllm"])
        document.setdefault("served", {}).update(bands)
        write_whole(BANDS, (json.dumps(document, indent=1) + "\n").encode())
        served_factor.cache_clear()
        with shown():
            found = errors(rows, machines)
        final = found[~found.learn]
        kept = {
            "by_gpu": summary(final, "gpu"),
            "by_network": summary(final, "gpu", "model", "dtype"),
            "calibration": calibration(final[~final.sets_interval], bands),
        }
        write_whole(RECORD, (json.dumps(kept, indent=1) + "\n").encode())
    click.echo(
        format_records(found.drop(columns=["framework", "experts", "generation", "known"]).to_dict("records"), form)
    )
    if form in ("table", "md"):
        click.echo("\n" + format_records(summary(found, "source", "gpu", "model", "tp", "dtype"), form))
        click.echo("\n" + format_records(summary(found, "gpu"), form))


if __name__ == "__main__":
    main()
