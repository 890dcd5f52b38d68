"""``gpusim simulate``: predicted cycles of a kernel of the suite or of trace files."""

from __future__ import annotations

import json
from pathlib import Path

import click

from gpusim.commands.cold_start import start_compiling_engine
from gpusim.commands.options import HELP, format_option, gpu_option, set_option
from gpusim.engine.gpu import simulate as simulate_traces
from gpusim.engine.result import Result
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.tables import format_records
from gpusim.suite import capture_case, make_case, parse_request
from gpusim.theory.bounds import lower_bounds
from gpusim.trace.record import Trace

TOP_STALLS = 6


@click.command(context_settings=HELP)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@gpu_option()
@set_option()
@click.option(
    "--warm",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Trace file whose effect on the caches precedes the simulation; may be repeated.",
)
@click.option("--small", is_flag=True, help="Start from a kernel's small shape instead of its default.")
@click.option(
    "--bounds", is_flag=True, help="Also print the least cycles that each unit needs (the speed of light)."
)
@format_option()
def simulate(
    sources: tuple[str, ...],
    gpu: str,
    settings: tuple[str, ...],
    warm: tuple[Path, ...],
    small: bool,
    bounds: bool,
    form: str,
) -> None:
    """Predict the cycles of SOURCEs: trace files, or kernels of the suite as NAME[:axis=value,...].

    Several sources run one after another on the same machine, so later ones find warm caches. The
    preparation launches of a suite kernel warm the caches and are not timed.

    \b
    Examples:
      gpusim simulate saxpy:n=1000000 --gpu h200
      gpusim simulate first.trace second.trace --gpu a100_80gb --format json
      gpusim simulate matmul_tiled --bounds
      gpusim simulate saxpy --gpu h200 --set l2.hit_latency_ns=60
    """
    spec = override_gpu(load_gpu(gpu), settings)
    compiling = start_compiling_engine()
    timed, before = [], [Trace.load(path) for path in warm]
    for source in sources:
        traces, preparation = _traces(source, spec, small)
        timed += traces
        before += preparation
    if compiling is not None:
        compiling.wait()
    result = simulate_traces(timed, spec, warm=tuple(before))
    least = _least_cycles(timed, spec, cold=not before) if bounds else {}
    _print(result, timed, least, form)


def _least_cycles(timed: list[Trace], spec: GpuSpec, cold: bool) -> dict[str, float]:
    """Lower bounds by unit, added up over the launches; only a first cold launch must read DRAM."""
    least: dict[str, float] = {}
    for index, trace in enumerate(timed):
        for unit, cycles in lower_bounds(trace, spec, cold=cold and index == 0).cycles.items():
            least[unit] = least.get(unit, 0.0) + cycles
    return dict(sorted(least.items(), key=lambda item: -item[1]))


def _traces(source: str, spec: GpuSpec, small: bool) -> tuple[list[Trace], list[Trace]]:
    """(timed traces, warming traces) of a trace file or a suite kernel."""
    path = Path(source)
    if path.is_file():
        return [Trace.load(path)], []
    if path.suffix or path.parent != Path("."):
        raise UsageError(f"there is no trace file {source}")
    name, shape = parse_request(source)
    launches = capture_case(make_case(name, shape, spec, small=small), spec)
    return (
        [launch.trace for launch in launches if launch.timed],
        [launch.trace for launch in launches if not launch.timed],
    )


def _print(result: Result, timed: list[Trace], least: dict[str, float], form: str) -> None:
    instructions = sum(trace.warp_instructions for trace in timed)
    headline = {
        "gpu": result.gpu,
        "kernel": result.kernel,
        "cycles": int(result.cycles),
        "time_us": float(result.time_us),
        "warp_instructions": instructions,
    }
    if form == "json":
        stalls = {reason: int(count) for reason, count in result.stalls.items()}
        counters = {name: _number(value) for name, value in result.counters.items()}
        extra = {"least_cycles": least} if least else {}
        click.echo(json.dumps({**headline, "stalls": stalls, "counters": counters, **extra}, indent=2))
        return
    if form == "csv":
        records = [{"name": name, "value": value} for name, value in headline.items()]
        records += [{"name": f"stall.{name}", "value": int(value)} for name, value in result.stalls.items()]
        records += [{"name": name, "value": _number(value)} for name, value in result.counters.items()]
        records += [{"name": f"least_cycles.{unit}", "value": cycles} for unit, cycles in least.items()]
        click.echo(format_records(records, form))
        return
    total = sum(result.stalls.values()) or 1
    top = sorted(result.stalls.items(), key=lambda item: -item[1])[:TOP_STALLS]
    stalls = [
        {"stall": name, "warp_cycles": int(count), "percent": 100.0 * float(count) / total}
        for name, count in top
        if count
    ]
    counters = [{"counter": name, "value": _number(value)} for name, value in result.counters.items()]
    limits = [
        {"unit": unit, "least_cycles": cycles, "percent_of_simulated": 100.0 * cycles / result.cycles}
        for unit, cycles in least.items()
    ]
    for index, records in enumerate(([headline], stalls, limits, counters)):
        if records:
            click.echo(("\n" if index else "") + format_records(records, form))


def _number(value: object) -> int | float:
    """A NumPy or Python number as a plain one that JSON can hold."""
    number = float(value)
    return int(number) if number.is_integer() else number
