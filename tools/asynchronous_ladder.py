"""Cycles of each step of Hopper's ladder of a matrix product: plain copies, TMA, producer and consumers, multicast,
persistent, ping-pong.

    python tools/asynchronous_ladder.py                     2048 x 2048 x 2048 on h200
    python tools/asynchronous_ladder.py --gpu h800 --size 4096
    python tools/asynchronous_ladder.py --size 4096 --depth 512 --step cooperative --step ping_pong
    python tools/asynchronous_ladder.py --step ping_pong --size 8192 --columns 256 --stages 3 --format json
    python tools/asynchronous_ladder.py --gpu h100 --size 8192 --power-limit-watts 700

Mental model: each step is the suite's `cpp_wgmma_gemm`, captured by --sample (paths and addresses, without data) and
simulated cold. `cpu_s` is CPU time of making, capturing and simulating, compilation of the kernel included. With a
power limit each step is simulated again at the clock that it leaves (gpusim.report.power).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

import gpusim
from gpusim.cases.run_case import run_case
from gpusim.engine.result import Result
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.power import within_power
from gpusim.report.tables import FORMATS, format_records
from kernels.cuda_cpp.hopper import GEMM_STEPS


@click.command(help=__doc__)
@click.option("--gpu", default="h200", show_default=True)
@click.option("--size", default=2048, show_default=True, help="m = n.")
@click.option("--depth", type=int, help="k; m if not given.")
@click.option("--step", "steps", multiple=True, type=click.Choice(GEMM_STEPS), help="Only this step; may be repeated.")
@click.option("--columns", default=128, show_default=True, help="Of a block's tile.")
@click.option("--stages", default=4, show_default=True)
@click.option("--power-limit-watts", type=click.FloatRange(130, 5000), help="Of the board; none if not given.")
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(
    gpu: str,
    size: int,
    depth: int | None,
    steps: tuple[str, ...],
    columns: int,
    stages: int,
    power_limit_watts: float | None,
    form: str,
) -> None:
    spec, rows = load_gpu(gpu), []
    for step in steps or GEMM_STEPS:
        begun = time.process_time()
        shape = {
            "m": size,
            "n": size,
            "k": depth or size,
            "columns": columns,
            "stages": stages,
            "blocks": spec.sm_count,
        }
        ran = run_case("cpp_wgmma_gemm", shape | {"step": step}, spec, sample=True)
        trace = ran.launches[0].trace

        def simulate(at: GpuSpec, trace: gpusim.Trace = trace) -> Result:
            return gpusim.simulate(trace, at, sample=True)

        if power_limit_watts is None:
            result = simulate(spec)
        else:
            held = within_power(simulate, spec, power_limit_watts)
            result = held.result
            click.echo(held.text, err=True)
        rows.append({
            "step": step, "blocks": trace.launch.blocks, "cycles": round(result.cycles),
            "clock_mhz": round(result.clock_hz / 1e6),
            "tflops": round(ran.work["flops"] / result.time_us / 1e6, 1),
            "warp_instructions": trace.warp_instructions, "cpu_s": round(time.process_time() - begun, 1),
        })  # fmt: skip
    click.echo(format_records(rows, form))


if __name__ == "__main__":
    main()
