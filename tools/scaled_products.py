"""Products of E4M3 with block scales beside what an H800 was measured at: microseconds of the suite's `cpp_fp8_gemm` by
shape.

    python tools/scaled_products.py                     the twelve shapes of 64 and 128 rows (three CPU minutes)
    python tools/scaled_products.py --rows 4096         the six large ones, sampled (a quarter of an hour of CPU)
    python tools/scaled_products.py --rows 4096 --clock-mhz 1830
    python tools/scaled_products.py --rows 4096 --n 2112 --power-limit-watts 700
    python tools/scaled_products.py --rows 4096 --n 2112 --loop        the limit on the whole loop that was measured
    python tools/scaled_products.py --cold              no data in L2

Mental model: each shape with the tile that the measured library's rules choose, captured without data, its machine code
in the instruction caches, and in L2 what the cast of B from single precision leaves there: the measured program makes
new tensors for each repetition, and that cast is the last large launch in front of the product (tests/test_core.py of
the library, construct() and per_block_cast_to_fp8()). Measured: deepseek-ai/DeepGEMM, commit a6d97a1, README, dense
shapes on an H800. At which clock is not said: the description's 1,980 MHz is the boost clock, the datasheet's 1,979
TFLOP/s are 1,830 MHz on all SMs. With a power limit each shape is simulated again at the clock that it leaves the
product if that alone is repeated, with --loop the whole repetition of the measured program
(workloads/external/fp8_loop.py) at the board's limit or that one (gpusim.report.power; its energies were fitted to
times of BF16 products on an H100, that of FP8 is a guess).
"""

from __future__ import annotations

import csv
import sys
import time
from dataclasses import replace
from pathlib import Path

import click
import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tools")]

from validation.suite_launch import captured_before, work_around

import gpusim
from gpusim.cases.suite import capture_case, make_case
from gpusim.engine.result import Result
from gpusim.gpus.clock import at_clock
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.launch.memory import DeviceMemory
from gpusim.report.power import within_power
from gpusim.report.tables import FORMATS, format_records
from kernels.cuda_cpp.hopper_fp8 import choose_tiles
from workloads.external.fp8_loop import operators_around
from workloads.external.product_families import cast_of_b

MEASURED = Path(__file__).parent / "asynchronous" / "scaled_products.csv"
GPU = "h800"


def captured(m: int, n: int, k: int, tiles: dict[str, int], spec: GpuSpec) -> tuple[gpusim.Trace, gpusim.Trace]:
    """The cast of B and the product, on one device's memory."""
    case, memory = (
        make_case("cpp_fp8_gemm", {"m": m, "n": n, "k": k, "blocks": spec.sm_count} | tiles, spec),
        DeviceMemory(),
    )
    return captured_before(cast_of_b(case), spec, memory), capture_case(case, spec, memory, sample=True)[0].trace


@click.command(help=__doc__)
@click.option("--rows", "wanted", multiple=True, type=int, default=(64, 128), show_default=True, help="Of C.")
@click.option("--clock-mhz", type=click.FloatRange(100, 5000), help="SM clock; the description's if not given.")
@click.option("--n", "columns", multiple=True, type=int, help="Only shapes with so many columns of C.")
@click.option("--cold", is_flag=True, help="No data in L2, in place of what the cast of B leaves there.")
@click.option("--power-limit-watts", type=click.FloatRange(130, 5000), help="Of the board; none if not given.")
@click.option(
    "--loop", is_flag=True, help="The clock at which the mean power of the whole repetition stays within the limit."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="table", show_default=True)
def main(
    wanted: tuple[int, ...],
    clock_mhz: float | None,
    columns: tuple[int, ...],
    cold: bool,
    power_limit_watts: float | None,
    loop: bool,
    form: str,
) -> None:
    spec = load_gpu(GPU)
    if clock_mhz is not None:
        spec = at_clock(spec, clock_mhz * 1e6)
    with open(MEASURED, newline="") as file:
        measured = [row for row in csv.DictReader(file) if int(row["m"]) in wanted]
        measured = [row for row in measured if not columns or int(row["n"]) in columns]
    records = []
    for row in measured:
        begun = time.process_time()
        m, n, k = (int(row[name]) for name in "mnk")
        tiles = choose_tiles(m, n, k, spec.sm_count)
        cast, product = captured(m, n, k, tiles, spec)
        known = float(row["time_us"])

        def simulate(at: GpuSpec, before: tuple = () if cold else (cast,), product: gpusim.Trace = product) -> Result:
            both = gpusim.simulate([*before, product], at, code=product, sample=True)
            return replace(both, cycles=both.launches[-1].cycles, launches=both.launches[-1:])

        if power_limit_watts is None and not loop:
            result = simulate(spec)
        else:
            held = within_power(
                simulate, spec, power_limit_watts, beside=work_around(spec, operators_around(m, n, k)) if loop else ()
            )
            result = held.result
            click.echo(held.text, err=True)
        simulated = result.time_us
        records.append({
            "m": m, "n": n, "k": k, "tile": "{rows} x {columns}, {stages} buffers, {cluster} blocks".format(**tiles),
            "measured_us": known, "simulated_us": round(simulated, 2), "clock_mhz": round(result.clock_hz / 1e6),
            "error_percent": round(100 * (simulated / known - 1), 1), "cpu_s": round(time.process_time() - begun, 1),
        })  # fmt: skip
    click.echo(format_records(records, form))
    if records:
        mean = float(np.mean([abs(record["error_percent"]) for record in records]))
        click.echo(f"mean absolute error {mean:.1f} % of {len(records)} shapes", err=True)


if __name__ == "__main__":
    main()
