"""How far projected operators are from published ones of sources and GPUs that set nothing.

    python tools/published_operators.py                        of the learning half, a mean for each source, operator and format
    python tools/published_operators.py --final                of the final half
    python tools/published_operators.py --source azure-h200    a row a measurement of one source

Rows (traces/library/published_operators.csv; where each comes from is in the README beside it) are in halves by a hash
of the row. They set no figure and no interval. Errors are of times: positive is too slow. What L2 holds when a launch
starts, how often a launch is repeated and what a board may draw are the source's (:data:`METHODS`). Experts are chosen
by random numbers, the same for the ten launches of a graph (vllm-project/vllm, benchmarks/kernels/benchmark_moe.py), so
that nine of ten find weights that fit into L2 and one does not.
"""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.collective.links import linked
from gpusim.collective.node import node_of
from gpusim.collective.project import project_collective
from gpusim.collective.shape import Collective
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import shown, task
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.methods import method_named
from gpusim.tile.attention_context import ContextShape, project_context
from gpusim.tile.gemm import GemmShape, project_gemm
from gpusim.tile.library import kernels_of
from gpusim.tile.moe import MoeOp, project_moe
from gpusim.tile.moe_library import moe_library_of
from gpusim.tile.product import GemmOp, project_product
from gpusim.tile.routing import expert_rows

ROWS = ROOT / "traces" / "library" / "published_operators.csv"
#: GPUs that are not described: another of the same chip and what differs, by their data sheets (NVIDIA RTX A5000: 64
#: SMs, 1,695 MHz, 768 GB/s, 230 W; NVIDIA A100 80GB PCIe: 1,935 GB/s, 300 W, of a board that stands as the SXM's
#: otherwise).
LIKE: dict[str, tuple[str, tuple[str, ...]]] = {
    "rtx_a5000": ("rtx_a6000", ("sm_count=64", "clock_hz=1695e6", "dram.peak_bytes_per_ns=768", "board.power_limit_watts=230")),
    "a100_pcie_80gb": ("a100_80gb", ("dram.peak_bytes_per_ns=1935", "board.power_limit_watts=300")),
}  # fmt: skip


@dataclass(frozen=True)
class Method:
    """How a source measured products: ``warm``: the second operand lies in L2 where it fits; ``launches`` of a run (0:
    as the generation's rows); ``watts`` of a board whose limit is not its own; ``measured_by``: a name of
    :mod:`gpusim.silicon.methods` where what measured it is in the times, "" where it is not; ``bridge_gb_per_s`` one
    way of a bridge between two GPUs, None where the GPU's file has the links."""

    warm: bool = True
    launches: int = 0
    watts: float | None = None
    measured_by: str = ""
    bridge_gb_per_s: float | None = None


#: Azure: 10,000 launches before 1,000 that count; bench_nvfp4_gemm.py and torch loops repeat one product; tritonbench
#: and TLX flush L2 (triton.testing.do_bench), and so does PyTorch's compiler when it tunes. Bridges by their
#: datasheets: two links of 25 GB/s one way on an RTX 2080 Ti, 600 GB/s both ways on an H100 PCIe.
METHODS = {
    "azure-gb200": Method(launches=11_000), "azure-h200": Method(launches=11_000), "azure-h100": Method(launches=11_000), "azure-a100": Method(launches=11_000),
    "tlx-740": Method(warm=False), "tlx-854": Method(warm=False, watts=750.0),
    "nccl-tests-44": Method(bridge_gb_per_s=50.0), "nccl-1161": Method(bridge_gb_per_s=300.0),
    "inductor-h100": Method(warm=False, measured_by="events-behind-memset"),
    "inductor-l40s": Method(warm=False, measured_by="events-behind-memset"),
}  # fmt: skip
#: Sources of 2025, whose vLLM is of before 0.17.
EARLIER = ("vllm-19049", "vllm-24700", "vllm-31448")
#: Launches of a layer in one graph with the same choices.
_GRAPH_LAUNCHES = 10
_KINDS = {"fp8_block": ("fp8", True), "fp4": ("fp4", True)}


def learns(row: Any) -> bool:
    """Whether the row is of the half to learn from."""
    key = f"{row.source} {row.operator} {row.gpu} {row.dtype} {row.shape}"
    return hashlib.sha256(key.encode()).digest()[0] % 2 == 0


def gpu_of(name: str) -> GpuSpec:
    """A described GPU, or one of :data:`LIKE`."""
    if name not in LIKE:
        return load_gpu(name)
    like, settings = LIKE[name]
    return override_gpu(load_gpu(like), settings)


def _gemm(spec: GpuSpec, row: Any) -> tuple[float, float]:
    """Seconds, operations."""
    method, (dtype, scaled) = METHODS.get(row.source, Method()), _KINDS.get(row.dtype, (row.dtype, False))
    m, n, k = map(int, row.shape.split())
    op = GemmOp(m, n, k, dtype, block_scaled=scaled, input_dtype=dtype, warm=method.warm, run_launches=method.launches)
    seconds = project_product(spec, op, limit_watts=method.watts).seconds
    if method.measured_by:
        seconds += 1e-6 * method_named(method.measured_by).besides_us(spec.clock_hz, 1, spec.generation)
    return seconds, 2.0 * m * n * k


def _experts(spec: GpuSpec, row: Any) -> float:
    """Seconds of a layer, nine of ten of them after one with the same choices."""
    dtype, scaled = _KINDS.get(row.dtype, (row.dtype, False))
    op = MoeOp(
        *map(int, row.shape.split()), dtype, distribution="uniform", block_scaled=scaled, framework="vllm",
        earlier=row.source in EARLIER,
    )  # fmt: skip
    cold, warm = project_moe(spec, op).seconds, project_moe(spec, replace(op, warm=True)).seconds
    return warm + (cold - warm) / _GRAPH_LAUNCHES


def _grouped(spec: GpuSpec, row: Any) -> float:
    """Seconds of the first product of a layer without a gate."""
    tokens, hidden, inner, experts, top_k = map(int, row.shape.split())
    groups = expert_rows(tokens, experts, top_k, 1, "uniform")
    library = moe_library_of(kernels_of(spec), row.dtype, "vllm").on(spec)
    kernels = library.product_for(spec, tokens, experts, inner, top_k)
    return project_gemm(spec, GemmShape(sum(groups), inner, hidden, row.dtype, group_rows=groups), kernels).seconds


def _context(spec: GpuSpec, row: Any) -> tuple[float, float]:
    """Seconds, operations."""
    *sizes, mask = row.shape.split()
    batch, queries, heads, width = map(int, sizes)
    causal = mask == "causal"
    shape = ContextShape(batch, queries, heads, heads, width, row.dtype, causal=causal, cached=False)
    return project_context(spec, shape).seconds, 4.0 * batch * heads * queries**2 * width / (1 + causal)


def projected(row: Any) -> float:
    """What the row's source would print."""
    spec = gpu_of(row.gpu)
    if row.operator == "all_reduce":
        gpus, size = map(int, row.shape.split())
        bridge = METHODS.get(row.source, Method()).bridge_gb_per_s
        node = linked(node_of(spec), "bridge", bridge) if bridge else None
        seconds = project_collective(spec, Collective("all_reduce", gpus, size, row.dtype), node).seconds
        return 2e-9 * (gpus - 1) / gpus * size / seconds
    if row.metric == "us":
        return 1e6 * (_grouped if row.operator == "grouped" else _experts)(spec, row)
    seconds, operations = (_gemm if row.operator == "gemm" else _context)(spec, row)
    return 1e-12 * operations / seconds


def errors(rows: pd.DataFrame) -> pd.DataFrame:
    """``rows`` with what is projected; ``error_percent`` of the time."""
    found = []
    with task("projecting", len(rows), "rows") as progress:
        row: Any
        for number, row in enumerate(rows.itertuples(index=False)):
            value = projected(row)
            ratio = value / row.measured if row.metric == "us" else row.measured / value
            found.append({"projected": float(f"{value:.4g}"), "error_percent": round(100 * (ratio - 1), 1)})
            progress.to(number + 1)
    return pd.concat([rows.reset_index(drop=True), pd.DataFrame(found)], axis=1)


def summary(found: pd.DataFrame) -> list[dict[str, Any]]:
    """A record for each source, operator, GPU and format, one for each operator and one for all."""
    grouped = [*found.groupby(["source", "operator", "gpu", "dtype"], sort=False)]
    grouped += [(("all", name, "", ""), each) for name, each in found.groupby("operator", sort=False)]
    grouped += [(("all", "", "", ""), found)]
    return [
        dict(zip(("source", "operator", "gpu", "dtype"), key, strict=True))
        | {
            "rows": len(each),
            "mean_error_percent": round(float(np.abs(each.error_percent).mean()), 1),
            "signed_percent": round(float(each.error_percent.mean()), 1),
            "worst_percent": float(each.error_percent.iloc[int(np.abs(each.error_percent).to_numpy().argmax())]),
        }
        for key, each in grouped
    ]


@click.command(help=__doc__)
@click.option("--final", is_flag=True, help="The final half.")
@click.option("--source", "sources", multiple=True, help="Each row of this source; may be repeated.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(final: bool, sources: tuple[str, ...], form: str) -> None:
    """Print the rows or the means."""
    rows = pd.read_csv(ROWS, keep_default_na=False)
    learning = pd.Series([learns(row) for row in rows.itertuples(index=False)])
    rows = rows.loc[(learning != final) & (rows["left_out"] == "") & (rows["source"].isin(sources) | (not sources))]
    if rows.empty:
        raise click.UsageError("no such rows: see traces/library/published_operators.csv for sources")
    with shown(sys.stderr):
        found = errors(rows)
    if sources:
        click.echo(format_records(found.drop(columns="left_out").to_dict("records"), form))
    click.echo(format_records(summary(found), form))


if __name__ == "__main__":
    main()
