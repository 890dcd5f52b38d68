"""What projecting whole models costs: CPU seconds of a first and of a second time in one process, and of a sweep.

    python tools/model_speed.py                a decode step of Llama 3 70B on eight H100, a request of DeepSeek V3 on eight H200, a GEMM of each
    python tools/model_speed.py --sweep 1000   and a sweep of so many plans

Figures are CPU seconds of one process: of the first projection, which fills the table of prices, and of the next, which
finds everything in it.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

from gpusim.gpus.load import load_gpu
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.requests import project_request
from gpusim.project.whole import project_model
from gpusim.report.tables import FORMATS, format_records
from gpusim.tile.gemm import GemmShape, project_gemm

CASES = (
    ("llama3_70b", "h100", Plan("decode", batch=32, sequence=4096, tensor_parallel=8)),
    ("llama3_70b", "h100", Plan("prefill", batch=1, sequence=8192, tensor_parallel=8)),
    ("llama3_8b", "h100", Plan("train", batch=8, sequence=4096, data_parallel=8)),
    (
        "deepseek_v3",
        "h200",
        Plan("request", batch=64, sequence=2048, output=256, tensor_parallel=8, expert_parallel=8, dtype="fp8"),
    ),
)


def timed(project: Any, *words: Any) -> float:
    """CPU seconds of a call."""
    begun = time.process_time()
    project(*words)
    return time.process_time() - begun


def rows(sweep: int) -> list[dict[str, Any]]:
    """A record a case."""
    spec = load_gpu("h100")
    project_gemm(spec, GemmShape(64, 64, 64))  # what is compiled is compiled
    found = []
    for shape in (GemmShape(32, 8192, 8192), GemmShape(8192, 7168, 8192)):
        found.append(
            {
                "what": f"product {shape.rows} x {shape.columns} x {shape.depth}",
                "first_s": timed(project_gemm, spec, shape),
                "next_s": None,
            }
        )
    for name, gpu, plan in CASES:
        prices, network = Prices(load_gpu(gpu)), decoder_of(name)
        project = project_request if plan.phase == "request" else project_model
        first = timed(project, prices, network, plan)
        found.append(
            {
                "what": f"{name}, {plan.phase}, {plan.gpus} x {gpu}",
                "first_s": first,
                "next_s": timed(project, prices, network, plan),
            }
        )
    if sweep:
        prices, network, base = (
            Prices(spec),
            decoder_of("llama3_8b"),
            Plan("request", batch=1, sequence=1024, output=256),
        )
        plans = [replace(base, batch=1 + number // 4, sequence=1024 * (1 + number % 4)) for number in range(sweep)]
        seconds = timed(lambda: [project_request(prices, network, plan) for plan in plans])
        found.append(
            {"what": f"sweep of {sweep} requests of llama3_8b, all different", "first_s": seconds, "next_s": None}
        )
    return found


@click.command(help=__doc__)
@click.option("--sweep", type=click.IntRange(min=0), default=0, help="Plans of a sweep.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(sweep: int, form: str) -> None:
    """Print the table."""
    click.echo(
        format_records(
            [{key: "" if value is None else value for key, value in row.items()} for row in rows(sweep)], form
        )
    )


if __name__ == "__main__":
    main()
