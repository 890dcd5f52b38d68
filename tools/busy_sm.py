"""How fast the engine runs busy SMs: simulated cycles of one SM a CPU second, on the suite's warp-specialised products.

    python tools/busy_sm.py                     cpp_wgmma_gemm on h200, a pair of blocks and all SMs
    python tools/busy_sm.py --blocks 2 --rounds 5

Mental model: a launch whose blocks are all resident keeps each of its SMs busy from its start to its end, so cycles x
blocks over the CPU seconds of its simulation are cycles of a busy SM a second. The first simulation, which compiles,
does not count; the median of the others does, on one thread.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path

import click

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT)]

import gpusim
from gpusim.cases.run_case import run_case
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import FORMATS, format_records

#: Tiles of a block, one after another, and steps of 64 along k in each.
TILES, STEPS = 4, 128


@click.command(help=__doc__)
@click.option("--gpu", default="h200", show_default=True)
@click.option("--step", default="cooperative", show_default=True, help="Of cpp_wgmma_gemm.")
@click.option("--blocks", "wanted", multiple=True, type=int, default=(2, 132), show_default=True, help="An SM each.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(gpu: str, step: str, wanted: tuple[int, ...], rounds: int, form: str) -> None:
    spec, records = load_gpu(gpu), []
    for blocks in wanted:
        shape = {"m": 128 * blocks, "n": 128 * TILES, "k": 64 * STEPS, "step": step, "blocks": blocks}
        trace = run_case("cpp_wgmma_gemm", shape, spec, sample=True).launches[0].trace
        seconds = []
        for _ in range(rounds + 1):
            begun = time.process_time()
            result = gpusim.simulate(trace, spec, threads=1)
            seconds.append(time.process_time() - begun)
        cpu_s = statistics.median(seconds[1:])
        executed = result.counters["smsp__inst_executed.sum"]
        records.append({
            "blocks": blocks, "cycles": result.cycles, "warp_instructions": int(executed), "cpu_s": round(cpu_s, 3),
            "million_sm_cycles_a_cpu_s": round(result.cycles * blocks / cpu_s / 1e6, 2),
        })  # fmt: skip
    click.echo(format_records(records, form))


if __name__ == "__main__":
    main()
