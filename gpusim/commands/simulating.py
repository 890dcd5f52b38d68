"""``gpusim simulate``: predicted cycles of a kernel of the suite or of trace files, and why; the work."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from gpusim import store as store_of_runs
from gpusim.cases.source import NamedTrace, launch_records, open_source, refuse_mistakes
from gpusim.cases.source import least_cycles as bounds_of
from gpusim.commands.cold_start import start_compiling_engine
from gpusim.commands.progress import CaptureProgress
from gpusim.engine.gpu import simulate as simulate_traces
from gpusim.engine.result import Result
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.regress.rerun import REQUEST, simulation_request
from gpusim.report import summary
from gpusim.report.attribution import Share, by_instruction, by_line
from gpusim.report.saved import result_document, save_result
from gpusim.report.tables import format_records
from gpusim.report.timeline import write_timeline
from gpusim.store.run import checked_name
from gpusim.trace.record import Trace
from gpusim.why.explain import Explanation, explain, least_cycles

TOP_STALLS = 6
TOP_SHARES = 16
ATTRIBUTIONS = {"instruction": by_instruction, "line": by_line}


def simulate(
    sources: tuple[str, ...],
    gpu: str,
    settings: tuple[str, ...],
    warm: tuple[Path, ...],
    small: bool,
    bounds: bool,
    by: str | None,
    why: bool,
    sample: bool,
    timeline: Path | None,
    save: Path | None,
    save_run: str | None,
    form: str,
) -> None:
    """What :func:`gpusim.commands.simulate.simulate` declares, with its arguments."""
    if save_run is not None:
        checked_name(save_run)
        with store_of_runs.open_store() as store:
            store.prepare()
    spec = override_gpu(load_gpu(gpu), settings)
    refuse_mistakes(sources, spec, small=small)
    compiling = start_compiling_engine()
    named: list[NamedTrace] = []
    before = [Trace.load(path) for path in warm]
    for text in sources:
        with CaptureProgress() as progress:
            source = open_source(text, spec, small=small, progress=progress)
        named += source.timed
        before += source.warm
    timed = [launch.trace for launch in named]
    if compiling is not None:
        compiling.wait()
    result = simulate_traces(timed, spec, warm=tuple(before), samples=bool(timeline or save), sample=sample)
    shares = ATTRIBUTIONS[by](result.launches) if by else []
    explanation = None
    if why:
        explanation = explain(
            timed, spec, result, warm=before, sample=sample, progress=lambda line: click.echo(line, err=True)
        )
        least = explanation.least_cycles
    else:
        least = least_cycles(timed, spec, cold=not before) if bounds or save else {}
    if timeline is not None:
        write_timeline(result, timeline)
    if save is not None:
        save_result(result_document(result, least, explanation), save)
    _print(result, least if bounds or why else {}, shares, explanation, form)
    if save_run is not None:
        _keep(save_run, result, named, bool(before), simulation_request(sources, gpu, settings, warm, small))


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


def _print(
    result: Result, least: dict[str, float], shares: list[Share], explanation: Explanation | None, form: str
) -> None:
    document = summary.summary_document(result, least=least, shares=shares, explanation=explanation)
    if form == "json":
        click.echo(json.dumps(document, indent=2))
        return
    if form == "csv":
        # One table: the attribution if it was asked for, else every value by its name.
        records = [summary.share_document(share) for share in shares] or _flat(document)
        click.echo(format_records(records, form))
        return
    click.echo(format_records([summary.headline(result)], form))
    if len(result.launches) > 1:
        click.echo("\n" + format_records(summary.launch_records(result), form))
    if explanation:
        click.echo("\n" + explanation.sentence)
    tables = [
        summary.stall_records(result, TOP_STALLS),
        summary.share_records(shares, TOP_SHARES),
        summary.finding_records(explanation) if explanation else [],
        summary.bound_records(result, least),
        summary.unit_records(result),
        summary.traffic_records(result),
        summary.counter_records(result),
    ]
    for records in tables:
        if records:
            click.echo("\n" + format_records(records, form))


def _flat(document: dict[str, Any]) -> list[dict[str, Any]]:
    """The document's values by dotted name."""
    records = []
    for name, value in document.items():
        if name == "units":
            records += [{"name": unit["metric"], "value": unit["busy_percent"]} for unit in value]
        elif name == "launches":
            records += [{"name": f"launch.{launch['launch']}.cycles", "value": launch["cycles"]} for launch in value]
        elif name == "why":
            records += [{"name": f"why.{f['made_free']}", "value": f["cycles"]} for f in value["made_free"]]
        elif isinstance(value, dict):
            prefix = {"stalls": "stall.", "least_cycles": "least_cycles."}.get(name, "")
            records += [{"name": prefix + key, "value": part} for key, part in value.items()]
        else:
            records.append({"name": name, "value": value})
    return records
