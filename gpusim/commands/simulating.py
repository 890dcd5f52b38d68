"""``gpusim simulate``: predicted cycles of a kernel of the suite or of trace files, and why; the work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpusim import store as store_of_runs
from gpusim.cases.requests import sweep_points
from gpusim.cases.source import NamedTrace, launch_records, open_source, refuse_mistakes
from gpusim.cases.source import least_cycles as bounds_of
from gpusim.commands.cold_start import start_compiling_engine
from gpusim.commands.output_file import form_of, open_output
from gpusim.commands.simulate_sweep import run_sweep
from gpusim.commands.unchecked import tell_unchecked, tell_whole
from gpusim.compare.as_measured import simulate_as
from gpusim.engine.gpu import simulate as simulate_traces
from gpusim.engine.result import Result
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.regress.rerun import REQUEST, simulation_request
from gpusim.report.attribution import by_instruction, by_line
from gpusim.report.power import each_within_power, over_the_boards_limit, within_power
from gpusim.report.saved import result_document, save_result
from gpusim.report.simulation import simulation_text
from gpusim.report.timeline import write_timeline
from gpusim.silicon.methods import METHODS
from gpusim.trace.record import Trace
from gpusim.why.advice import quick_advice
from gpusim.why.explain import explain, least_cycles

ATTRIBUTIONS = {"instruction": by_instruction, "line": by_line}


def simulate(
    sources: tuple[str, ...],
    gpus: tuple[str, ...],
    settings: tuple[str, ...],
    warm: tuple[Path, ...],
    measured_by: str | None,
    small: bool,
    bounds: bool,
    by: str | None,
    why: bool,
    details: bool,
    sample: bool,
    timeline: Path | None,
    save: Path | None,
    save_run: str | None,
    plot: Path | None,
    power_limit_watts: float | None,
    power_gap_us: float,
    power_each: bool,
    instruction_limit: int,
    output: Path | None,
    form: str | None,
) -> int:
    """What :func:`gpusim.commands.simulate.simulate` declares, with its arguments."""
    form = form_of(output, form)
    points = [point for text in sources for point in sweep_points(text)]
    if power_limit_watts is not None and (len(points) > len(sources) or len(gpus) > 1 or save_run):
        raise UsageError("--power-limit-watts is for one shape on one GPU, and not for a run that is kept in the store")
    if len(points) > len(sources) or len(gpus) > 1:
        return run_sweep(
            points, gpus, settings, warm=warm, small=small, sample=sample, plot=plot, output=output, form=form,
            instruction_limit=instruction_limit,
        )  # fmt: skip
    if (power_gap_us or power_each) and power_limit_watts is None:
        raise UsageError("--power-gap-us and --power-each say how a limit acts: add --power-limit-watts")
    if power_each and (power_gap_us or form != "table" or why or bounds or save or timeline):
        raise UsageError(
            "--power-each gives each launch its own clock: its tables go without --power-gap-us, --why, --bounds, --save, --timeline and other formats"
        )
    gpu = next(iter(gpus))
    if save_run is not None:
        with store_of_runs.open_store() as store:
            store.prepare()
    spec = override_gpu(load_gpu(gpu), settings)
    refuse_mistakes(sources, spec, small=small)
    compiling = start_compiling_engine()
    named: list[NamedTrace] = []
    unchecked: dict[str, str] = {}
    before = [Trace.load(path) for path in warm]
    for text in sources:
        # What explains or bounds a launch reads the whole trace, often.
        few = sample and not why and not bounds
        source = open_source(text, spec, small=small, instruction_limit=instruction_limit, sample=few)
        named += source.timed
        unchecked |= {text: source.unchecked} if source.unchecked else {}
        before += source.warm
    timed = [launch.trace for launch in named]
    if compiling is not None:
        compiling.wait()

    def simulated(at: GpuSpec) -> Result:
        return simulate_traces(
            timed,
            at,
            warm=tuple(before),
            samples=bool(timeline or save or why) and not sample,
            sample=sample,
            say=lambda line: click.echo(f"gpusim: {line}", err=True),
        )

    if power_each:
        apart = each_within_power(simulated, spec, power_limit_watts or None)
        with open_output(output) as write:
            for held in apart:
                click.echo(f"{held.result.kernel}, {held.text}", err=True)
                shares = ATTRIBUTIONS[by](held.result.launches) if by else []
                write(simulation_text(held.result, form, shares=shares, details=details))
        tell_unchecked(unchecked)
        tell_whole(timed)
        return 0
    reported = None
    if measured_by is not None:
        as_measured = simulate_as(
            METHODS[measured_by], timed, spec, before=before, sample=sample, say=lambda line: click.echo(f"gpusim: {line}", err=True)
        )  # fmt: skip
        result, reported = as_measured.result, (as_measured.text, as_measured.document)
    elif power_limit_watts is None:
        result = simulated(spec)
    else:
        held = within_power(simulated, spec, power_limit_watts or None, 1e-6 * power_gap_us)
        result, spec = held.result, held.result.spec
        click.echo(held.text, err=True)
    shares = ATTRIBUTIONS[by](result.launches) if by else []
    explanation = None
    if why:
        explanation = explain(timed, spec, result, warm=before, sample=sample)
        least = explanation.least_cycles
    else:
        least = least_cycles(timed, spec, cold=not before) if bounds or save else {}
    if timeline is not None:
        write_timeline(result, timeline)
    if save is not None:
        save_result(result_document(result, least, explanation), save)
    read = form not in ("json", "csv")
    advice = quick_advice(timed, result, warm=before) if read and not why and not sample and not measured_by else None
    text = simulation_text(
        result,
        form,
        least=least if bounds or why else {},
        shares=shares,
        explanation=explanation,
        advice=advice,
        details=details,
        power=over_the_boards_limit(result) if read and power_limit_watts is None else "",
        reported=reported,
    )
    with open_output(output) as write:
        write(text)
    tell_unchecked(unchecked)
    tell_whole(timed)
    if save_run is not None:
        _keep(save_run, result, named, bool(before), simulation_request(sources, gpu, settings, warm, small))
    return 0


def _keep(name: str, result: Result, timed: list[NamedTrace], warmed: bool, request: dict[str, Any]) -> None:
    """Keep the run in the store, with what it takes to simulate it again."""
    arguments = [*request["sources"], "--gpu", request["gpu"], *(f"--set={text}" for text in request["settings"])]
    traces = [launch.trace for launch in timed]
    bounds = [bounds_of(traces, index, result.spec, warmed=warmed) for index in range(len(traces))]
    with store_of_runs.open_store() as store, store.new_run(name, command="simulate", arguments=arguments) as run:
        run.add_gpu(result.spec)
        run.add_launches(launch_records(result, timed, bounds))
        run.add_document(REQUEST, request)
    click.echo(f"kept as run {run.id}, {name}, in {store.name}", err=True)
