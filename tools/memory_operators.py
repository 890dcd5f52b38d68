"""How far projected norms, rotary embeddings and look-ups are from measured Triton kernels.

    python tools/memory_operators.py ROWS                a row a kernel and range of bytes: mean errors
    python tools/memory_operators.py ROWS --shapes       every shape
    python tools/memory_operators.py ROWS --record       and keep the errors for the pages (gpusim/tile/operator_errors.json)

ROWS: linkedin/Liger-Kernel's benchmark data as CSV (commit ead96b6, benchmark/data/all_benchmark_data.csv): rows of its
own kernels, mode forward, on an A100 SXM 80 GB; they set nothing. Triton's do_bench writes over L2 before each launch,
so that all is read from DRAM and what is read and written displaces dirty lines; the two CUDA events around one launch
add what the exact level has them add (gpusim/silicon/methods.py), which no projection of a model has: what is least
left over besides is printed.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.gpus.load import load_gpu
from gpusim.io.whole_file import write_whole
from gpusim.report.tables import FORMATS, format_records
from gpusim.silicon.methods import METHODS
from gpusim.tile.bands import BYTE_REGIONS
from gpusim.tile.memory import MemoryOp, project_memory

RECORD = ROOT / "gpusim" / "tile" / "operator_errors.json"
GPU, MEASURED_ON = "a100_80gb", "NVIDIA A100-SXM4-80GB"
_BYTES = {"torch.float32": 4, "torch.bfloat16": 2}


def shape_of(kernel: str, axis: str, value: int, config: dict[str, Any]) -> MemoryOp | None:
    """What a row of ``kernel`` reads and writes; None of kernels that multiply too."""
    given = config | {axis: value}
    size = _BYTES.get(str(given.get("dtype")), 0)
    if kernel in ("rms_norm", "layer_norm"):
        elements = float(given["M"]) * value
        return MemoryOp("norm", size * elements, size * elements, int(given["M"]), cold=True, dirty=True)
    if kernel == "rope":
        tokens = int(given.get("T", given.get("seq_len", 0)))
        hidden = int(given.get("H", given.get("hidden_size", 0)))
        heads, kv_heads = given["num_q_heads"], given["num_kv_heads"]
        turned = float(size) * tokens * hidden * (heads + kv_heads) / heads
        return MemoryOp("rotary", turned, turned, tokens, cold=True, dirty=True)
    if kernel == "embedding":
        tokens, width = int(given["B"]) * int(given["T"]), int(given["D"])
        # Of the table the rows that some token, drawn at random, has.
        met = value * -np.expm1(tokens * np.log1p(-1.0 / value))
        return MemoryOp("embedding", size * met * width, float(size) * tokens * width, tokens, cold=True, dirty=True)
    return None


def measured(path: Path) -> pd.DataFrame:
    """Columns kind, kernel, bytes, us, projected_us, error of each row that counts."""
    table = pd.read_csv(path)
    table = table[(table.gpu_name == MEASURED_ON) & (table.kernel_provider == "liger") & (table.metric_name == "speed")]
    spec, found = load_gpu(GPU), []
    for row in pd.DataFrame(table).to_dict(orient="records"):
        op = shape_of(row["kernel_name"], row["x_name"], int(row["x_value"]), json.loads(row["config_json"]))
        if op is None:
            continue
        us, projected_us = (
            1e3 * row["median"],
            1e6 * project_memory(spec, op).seconds + METHODS["do_bench"].besides_us(spec.clock_hz),
        )
        moved = op.read_bytes + op.written_bytes
        found.append(
            {
                "kind": op.kind, "kernel": row["kernel_name"], "bytes": round(moved), "us": round(us, 2),
                "projected_us": round(projected_us, 2), "error_percent": round(100 * (projected_us / us - 1), 1),
            }
        )  # fmt: skip
    if not found:
        raise click.UsageError(f"{path}: no rows of liger's norms, rotary embedding or look-ups on {MEASURED_ON}")
    return pd.DataFrame(found)


def region_rows(found: pd.DataFrame) -> list[dict[str, object]]:
    """A row a kind and range of bytes, and one for all of a kind."""
    rows = []
    for kind, own in found.groupby("kind"):
        least = 0.0
        for name, most in (*BYTE_REGIONS, ("all", np.inf)):
            some = own if name == "all" else own[(own.bytes > least) & (own.bytes <= most)]
            least = most
            if len(some):
                off = some.error_percent
                rows.append(
                    {
                        "kind": kind, "gpu": GPU, "region": name, "shapes": len(some),
                        "mean_error_percent": round(float(off.abs().mean()), 1), "median_percent": round(float(off.abs().median()), 1),
                        "signed_percent": round(float(off.mean()), 1), "within_10_percent": round(100 * float((off.abs() <= 10).mean())),
                        "others_apart_percent": None,
                    }
                )  # fmt: skip
    return rows


@click.command(help=__doc__)
@click.argument("rows", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--shapes", is_flag=True, help="Every shape.")
@click.option("--record", is_flag=True, help="Keep the errors for the pages.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table")
def main(rows: Path, shapes: bool, record: bool, form: str) -> None:
    """Print errors by kind and bytes, or every shape."""
    found = measured(rows)
    regions = region_rows(found)
    if record:
        document = json.loads(RECORD.read_text(encoding="utf-8"))
        for kind in sorted(set(found.kind)):
            own = [row for row in regions if row["kind"] == kind]
            # Too few shapes for a band.
            document[kind] = {"generations": {}, "regions": own}
        write_whole(RECORD, (json.dumps(document, indent=1) + "\n").encode())
    click.echo(format_records(found.to_dict("records") if shapes else regions, form))
    left = (found.us - found.projected_us).min()
    click.echo(f"least left over: {left:.1f} us", err=True)


if __name__ == "__main__":
    main()
