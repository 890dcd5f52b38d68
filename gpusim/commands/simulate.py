"""``gpusim simulate``: predicted cycles of a kernel of the suite or of trace files, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gpusim import store as store_of_runs
from gpusim.cases.requests import sweep_points
from gpusim.cases.source import NamedTrace, launch_records, open_source, refuse_mistakes
from gpusim.cases.source import least_cycles as bounds_of
from gpusim.commands.cold_start import start_compiling_engine
from gpusim.commands.options import HELP, format_option, set_option
from gpusim.commands.output_file import form_of, open_output, output_option
from gpusim.commands.simulate_sweep import PlotFile, gpus_option, run_sweep
from gpusim.commands.unchecked import tell_unchecked
from gpusim.engine.gpu import simulate as simulate_traces
from gpusim.engine.result import Result
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.regress.rerun import REQUEST, simulation_request
from gpusim.report.attribution import by_instruction, by_line
from gpusim.report.saved import result_document, save_result
from gpusim.report.simulation import simulation_text
from gpusim.report.timeline import write_timeline
from gpusim.store.run import checked_name
from gpusim.trace.record import Trace
from gpusim.why.advice import quick_advice
from gpusim.why.explain import explain, least_cycles

ATTRIBUTIONS = {"instruction": by_instruction, "line": by_line}


@click.command(context_settings=HELP)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@gpus_option()
@set_option()
@click.option(
    "--warm",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Trace file whose effect on the caches precedes the simulation; may be repeated.",
)
@click.option("--small", is_flag=True, help="Start from a kernel's small shape instead of its default.")
@click.option("--bounds", is_flag=True, help="Also print the least cycles that each unit needs (the speed of light).")
@click.option(
    "--by",
    type=click.Choice(list(ATTRIBUTIONS)),
    help="Also print stalls and memory work by SASS instruction or source line (all of them in JSON and CSV).",
)
@click.option(
    "--why",
    is_flag=True,
    help="Name what limits ramp, steady state and tail, and what would help: simulates again with each unit made free and "
    "with each remedy, so it takes ten to thirty times as long.",
)
@click.option(
    "--details",
    is_flag=True,
    help="Also print stalls, how busy each unit was, traffic and all counters (JSON and CSV always hold them).",
)
@click.option(
    "--sample",
    is_flag=True,
    help="Leave out the middle of launches of many blocks once their throughput is steady, and say with what error.",
)
@click.option(
    "--timeline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write blocks, warp states and bandwidth over time as a Chrome trace (ui.perfetto.dev); .gz compresses.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the result as JSON, for `gpusim report`.",
)
@click.option(
    "--save-run",
    metavar="NAME",
    help="Keep the run in the store under NAME, for `gpusim regress` and `gpusim runs`.",
)
@click.option(
    "--plot",
    type=PlotFile(),
    help="Draw a sweep's times and rates over its first axis (.svg, .png or .pdf).",
)
@output_option()
@format_option(None)
def simulate(
    sources: tuple[str, ...],
    gpus: tuple[str, ...],
    settings: tuple[str, ...],
    warm: tuple[Path, ...],
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
    output: Path | None,
    form: str | None,
) -> int:
    """Predict how long SOURCEs take, how near which roof, bound by what, and what would help. A SOURCE is a trace file, a
    kernel of the suite as NAME[:axis=value,...], or a case of your own as FILE.py:FUNCTION[:parameter=value,...] (see
    `gpusim capture --help`).

    A remedy's saving is simulated: the launch once more with the change made. Small runs get theirs at once, large
    ones with --why. JSON and CSV hold every counter, and remedies only with --why.

    Several sources run one after another on the same machine, so later ones find warm caches. The
    preparation launches of a suite kernel warm the caches and are not timed. Several values of an axis, or several GPUs,
    make a sweep: a row a point, each on a machine of its own. A case's own check is run (exit code 6 where it finds the
    result wrong).

    \b
    Examples:
      gpusim simulate saxpy:n=1000000 --gpu h200
      gpusim simulate saxpy:n=1Ki,64Ki,4Mi,block_threads=128,256 --gpu h200 --gpu a100_80gb --plot saxpy.svg
      gpusim simulate first.trace second.trace --gpu a100_80gb --format json
      gpusim simulate saxpy --gpu h200 --set l2.hit_latency_ns=60
      gpusim simulate transpose --by line
      gpusim simulate softmax --details
      gpusim simulate my.py:saxpy_case:n=4096 --gpu h200 --by line
      gpusim simulate saxpy:n=16777216 --sample
      gpusim simulate matmul_tiled --why --save result.json --timeline timeline.json.gz
      gpusim simulate softmax gelu --save-run before && gpusim regress before now
    """
    form = form_of(output, form)
    points = [point for text in sources for point in sweep_points(text)]
    if len(points) > len(sources) or len(gpus) > 1:
        asked = {
            "--timeline": timeline, "--save": save, "--save-run": save_run, "--by": by, "--why": why, "--bounds": bounds,
            "--details": details,
        }  # fmt: skip
        return run_sweep(
            points, gpus, settings, warm=warm, small=small, sample=sample, plot=plot, output=output, form=form,
            of_one_run=[name for name, given in asked.items() if given],
        )  # fmt: skip
    if plot is not None:
        raise UsageError(
            "--plot draws a sweep: give several values of an axis, as in saxpy:n=1Ki,1Mi, or several --gpu"
        )
    gpu = gpus[0]
    for path in (timeline, save):
        if path is not None and not path.parent.is_dir():  # before the work, not after it
            raise UsageError(f"there is no folder {path.parent} to write {path.name} into")
    if sample and (timeline or save or save_run):
        raise UsageError(
            "--sample leaves blocks out: there is no whole run to keep; drop --timeline, --save, --save-run"
        )
    if save_run is not None:
        checked_name(save_run)
        with store_of_runs.open_store() as store:
            store.prepare()
    spec = override_gpu(load_gpu(gpu), settings)
    refuse_mistakes(sources, spec, small=small)
    compiling = start_compiling_engine()
    named: list[NamedTrace] = []
    unchecked: dict[str, str] = {}
    before = [Trace.load(path) for path in warm]
    for text in sources:
        source = open_source(text, spec, small=small)
        named += source.timed
        unchecked |= {text: source.unchecked} if source.unchecked else {}
        before += source.warm
    timed = [launch.trace for launch in named]
    if compiling is not None:
        compiling.wait()
    result = simulate_traces(
        timed, spec, warm=tuple(before), samples=bool(timeline or save or why) and not sample, sample=sample
    )
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
    advice = None if why or sample or form in ("json", "csv") else quick_advice(timed, result, warm=before)
    text = simulation_text(
        result,
        form,
        least=least if bounds or why else {},
        shares=shares,
        explanation=explanation,
        advice=advice,
        details=details,
    )
    with open_output(output) as write:
        write(text)
    tell_unchecked(unchecked)
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
