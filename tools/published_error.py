"""How far projected runs are from published ones of software that nothing was set by.

    python tools/published_error.py                         a row a measurement of the learning half, and means
    python tools/published_error.py --final                 rows of the final half
    python tools/published_error.py --source llm-foundry    of one source

Rows (traces/library/published_runs.csv; where each comes from is in the README beside it) are in halves by a hash of
the row. They set no figure and no interval: what they are for is how far projections are where frameworks, versions or
GPUs are others than those that did. `step_s`: of a training step; `output_tokens_per_s_per_gpu`: tokens that a batch
generates, over all of its time; `prompt_tokens_per_s`: of a prompt until its first token; `first_token_ms`: of a batch
of prompts; `token_ms`: between two tokens of each sequence of a batch, the mean. Rows of phase "serve" are of `batch`
clients that ask again as soon as they are answered: continuous batching, played through. `request_s`: of a batch of
requests, from their prompts to their last tokens.
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path
from typing import Any

import click
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.io.progress import shown, task
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.requests import project_request
from gpusim.project.serving import project_serving
from gpusim.project.whole import project_model
from gpusim.report.tables import FORMATS, format_records
from tools.model_error import network, summary

ROWS = ROOT / "traces" / "library" / "published_runs.csv"
#: Attention's kernels of sources that train, where they are not the GPU's own of today. llm-foundry: Triton's of 2023
#: (scripts/train/benchmarking/submit_benchmarks.py, --attn_impl); PyTorch's scaled_dot_product_attention has
#: FlashAttention-2 (its notes of 2.2), as the other sources' names or texts say. BigScience's is Megatron-LM's of 2022,
#: with scores in memory.
SCORES = {
    "llm-foundry": "flash-triton", "fms-fsdp": "flash-2", "torchtitan": "flash-2", "flash-attention-2": "flash-2", "lambda-flash-attention-2": "flash-2",
    "nanotron": "flash-2", "bigscience": "eager",
}  # fmt: skip

#: Sources that sum over the GPUs of a layer beside its products (NeMo's recipes: ub_tp_comm_overlap).
BESIDE_PRODUCTS = ("dgxc-nemo", "together-b200")
#: Versions of sources, or of a source on a GPU, whose host is known by figures of its own
#: (gpusim/project/frameworks.py). That H100s of LLM-Inference-Bench had vLLM before 0.5.1 is what its learning rows say.
ENGINES = {
    "trtllm-0.9.0-sweep": "0.9", "nim": "0.9", "nim-later": "0.9", "llm-inference-bench-trtllm": "0.9", "llm-inference-bench-vllm": "0.5", "vllm-nightly": "v0",
    "llm-inference-bench-vllm h100": "0.4", "qwen2-docs": "0.4", "fastertransformer": "0.9", "iog": "0.10",
}  # fmt: skip
#: How sources' hosts launch steps that generate, where it is not as the framework's of today: in-flight batching had no
#: CUDA graphs with TensorRT's engines (NVIDIA/TensorRT-LLM, issue 402).
LAUNCHES = {"nim": "eager", "nim-later": "eager", "fastertransformer": "eager"}
#: Tokens of a prompt that a step reads, where a source says its version and that has a limit (SGLang 0.4.6,
#: server_args.py: 8,192 on GPUs of 25 GB and more).
CHUNKS = {"qwen3-docs": 8192}
#: GPUs that a source shares experts out over, by its GPUs and networks.
EXPERTS_OVER = {"megatron-bridge-experts": {"gb300 gpt_oss_120b": 64, "gb200 gpt_oss_120b": 64}}
EXPERTS_OVER_ELSE = {"megatron-bridge-experts": 8}
#: Sources whose loss is one kernel with its gradient (IST-DASLab/llmq, src/kernels/fused_classifier.cu).
WITH_GRADIENT = ("llmq",)
#: Sources whose rows of prompts say in ``batch`` how many tokens of one prompt a step reads.
PIECES = ("llama.cpp-pulls", "llama.cpp-pulls-later")
#: Sources that sum by NCCL (FasterTransformer's guide: tensor parallelism by NCCL).
BY_NCCL = ("fastertransformer",)
#: Networks of sources between nodes, bytes a nanosecond of a GPU, where they say another than the GPU's: BigScience's
#: nodes have four Omni-Path links of 100 Gbit/s for eight GPUs (train/tr11-176B-ml/README.md).
NETWORKS = {"bigscience": 6.25}
#: GPUs that a source ran without the framework's own all-reduce (trtllm-0.9.0-sweep, Enable Custom All Reduce).
OVER_PCIE = ("l40", "l40s", "h100_nvl")
#: Most new tokens of a served step whose prompts are no longer (trtllm-build's default of --max_num_tokens; what NIM's
#: engines have is not said), and requests of each client that are played through.
STEP_TOKENS, ROUNDS = 8192, 3


def learns(row: Any) -> bool:
    """Whether constants may be set by the row."""
    key = f"{row.source} {row.gpu} {row.gpus} {row.model} {row.dtype} {row.batch} {row.sequence} {row.output}"
    return hashlib.sha256(key.encode()).digest()[0] % 2 == 0


def projected(row: Any, prices: Prices) -> tuple[float, float, float]:
    """Seconds of what was measured, low, high."""
    config = network(row.model)
    over = EXPERTS_OVER.get(row.source, {}).get(f"{row.gpu} {row.model}", EXPERTS_OVER_ELSE.get(row.source, 1))
    pieces = row.source in PIECES and row.phase == "prefill"
    plan = Plan(
        row.phase, batch=1 if pieces else row.batch, sequence=row.sequence, output=row.output, tensor_parallel=row.tp, pipeline_parallel=row.pp, data_parallel=row.gpus // (row.tp * row.pp), expert_parallel=over, dtype=row.dtype,
        kv_dtype=row.kv_dtype, micro_batches=row.micro_batches, virtual_stages=row.virtual_stages, recompute=row.recompute, zero=row.zero, reads=row.reads, framework=row.framework,
        engine=ENGINES.get(f"{row.source} {row.gpu}", ENGINES.get(row.source, "")), launch=LAUNCHES.get(row.source, "default"),
        all_reduce="nccl" if row.source in BY_NCCL or (row.source in ENGINES and row.gpu in OVER_PCIE) else "custom",
        chunk=row.batch if pieces else CHUNKS.get(row.source, 0), scores=SCORES.get(row.source, "fused"), loss="fused" if row.source in WITH_GRADIENT else "apart", overlap="products" if row.source in BESIDE_PRODUCTS and row.tp > 1 else "none",
    )  # fmt: skip
    if row.phase == "serve":
        whole = project_serving(prices, config, plan, ROUNDS * row.batch, max(STEP_TOKENS, row.sequence)).per_token
    elif row.phase == "request":
        request = project_request(prices, config, plan)
        whole = request.per_token if row.metric == "token_ms" else request.seconds
    else:
        whole = project_model(prices, config, plan).step
    return whole.seconds, whole.low_seconds, whole.high_seconds


def measured_seconds(row: Any) -> float:
    """Of the same."""
    if row.metric in ("step_s", "request_s"):
        return row.measured
    if row.metric in ("first_token_ms", "token_ms"):
        return row.measured / 1e3
    tokens = row.sequence if row.metric == "prompt_tokens_per_s" else row.batch * row.output / row.gpus
    return tokens / row.measured


def _prices(machines: dict[str, Prices], row: Any) -> Prices:
    """Of the row's GPU, with its source's network; kept in ``machines``."""
    network_rate = NETWORKS.get(row.source)
    key = f"{row.gpu} {network_rate}"
    if key not in machines:
        spec = load_gpu(str(row.gpu))
        machines[key] = Prices(
            spec if network_rate is None else override_gpu(spec, [f"node.network_bytes_per_ns={network_rate}"])
        )
    return machines[key]


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with projected and measured seconds; ``error_percent``: positive is too slow."""
    machines: dict[str, Prices] = {}
    found = []
    with task("projecting", len(rows), "rows") as progress:
        row: Any
        for number, row in enumerate(rows.itertuples(index=False)):
            prices = _prices(machines, row)
            (middle, low, high), measured = projected(row, prices), measured_seconds(row)
            found.append(
                {
                    "measured_s": float(f"{measured:.4g}"),
                    "projected_s": float(f"{middle:.4g}"),
                    "error_percent": round(100 * (middle / measured - 1), 1),
                    "inside": bool(low <= measured <= high),
                }
            )
            progress.to(number + 1)
    return pd.concat([rows.reset_index(drop=True), pd.DataFrame(found)], axis=1)


@click.command(help=__doc__)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
@click.option("--final", is_flag=True, help="Rows of the final half.")
@click.option("--source", "sources", multiple=True, help="Rows of this source; may be repeated.")
def main(form: str, final: bool, sources: tuple[str, ...]) -> None:
    """Print the rows and the means."""
    rows = pd.read_csv(ROWS, keep_default_na=False)
    learning = pd.Series([learns(row) for row in rows.itertuples(index=False)])
    rows = rows.loc[(learning != final) & (rows["source"].isin(sources) | (not sources))]
    if rows.empty:
        raise click.UsageError("no such rows: see traces/library/published_runs.csv for sources")
    with shown():
        found = errors(rows)
    columns = ["source", "gpu", "gpus", "model", "dtype", "batch", "sequence", "output", "recompute", "metric", "measured_s", "projected_s", "error_percent", "inside"]  # fmt: skip
    click.echo(format_records(found.loc[:, columns].to_dict("records"), form))
    if form in ("table", "md"):
        click.echo("\n" + format_records(summary(found, "source", "gpu", "metric", "dtype"), form))


if __name__ == "__main__":
    main()
