"""What ``gpusim project MODEL`` does."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from gpusim.errors import NoDataError, UsageError
from gpusim.execution.chakra_file import GROUPS, written
from gpusim.gpus.load import load_gpu, own_claims
from gpusim.gpus.override import override_gpu
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.project.decoder import Decoder
from gpusim.project.execution import step_traces
from gpusim.project.limits import remedies
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.records import operator_records, request_record, serving_record, step_record
from gpusim.project.requests import RequestProjection, project_request
from gpusim.project.server import as_many_as_fit
from gpusim.project.serving import ServingProjection, project_serving
from gpusim.project.shown import Projected, step_of
from gpusim.project.sweep import Kept, axes_of, combinations, identity, pareto
from gpusim.project.text import lines_of, remedy_lines
from gpusim.project.whole import project_model
from gpusim.report.model_page import render_model
from gpusim.report.tables import format_pairs, format_records

_MOST_GPUS = 1 << 20


def model(**options: Any) -> None:
    network = decoder_of(options["network"])
    if options["sweep"]:
        _refuse(options, "with --sweep", "helps", "operators", "what_if", "output_file", "traces")
        _sweep(network, options)
        return
    if options["pareto"] or options["resume"]:
        raise UsageError("--pareto and --resume go with --sweep")
    if options["one_clock"] and options["traces"] is not None:
        raise UsageError("--traces writes each operator's own time: leave --one-clock out")
    gpu, count = _gpu_and_count(options["gpu"])
    spec = override_gpu(load_gpu(gpu), options["settings"])
    plan = _plan(options, count)
    _refuse_of_others(options)
    limit_watts = options["power_limit_watts"]
    prices = Prices(spec, limit_watts, options["one_clock"])
    with shown():
        found = _project(prices, network, plan, options)
        changed = None
        if options["what_if"]:
            changed = _project(
                Prices(override_gpu(spec, options["what_if"]), limit_watts, options["one_clock"]),
                network,
                plan,
                options,
            )
        asked = options["helps"] or options["output_file"]
        step = step_of(found)
        helping = remedies(prices, network, step.plan, step) if asked else []
        if options["traces"] is not None:
            _write_traces(options["traces"], prices, network, plan)
    if options["output_file"] is not None:
        write_whole(options["output_file"], render_model(found, helping, spec, changed, own_claims(gpu)).encode())
    if options["operators"]:
        click.echo(format_records(operator_records(step), options["form"]))
    elif options["form"] in ("json", "csv"):
        records = [_record(each) for each in (found, changed) if each is not None]
        click.echo(format_records(records, options["form"]))
    else:
        lines = lines_of(found) + (remedy_lines(helping) if helping else [])
        click.echo(format_pairs(lines if changed is None else _beside(lines, lines_of(changed)), options["form"]))


def _write_traces(folder: Path, prices: Prices, network: Decoder, plan: Plan) -> None:
    """A file a rank, and who is in which group."""
    made = step_traces(prices, network, plan)
    folder.mkdir(parents=True, exist_ok=True)
    for trace in made.traces:
        write_whole(folder / f"{network.name}.{trace.rank}.et", b"".join(written(trace.nodes)))
    write_whole(folder / GROUPS, (json.dumps(made.groups) + "\n").encode())


def _refuse(options: Mapping[str, Any], where: str, *names: str) -> None:
    for name in names:
        if options[name]:
            raise UsageError(f"--{name.replace('_', '-')} {where} has no meaning: leave it out")


def _gpu_and_count(text: str) -> tuple[str, int | None]:
    """A GPU's name or file, and how many of them, None where that is not said."""
    name, colon, count = text.rpartition(":")
    if not colon or Path(text).exists():
        return text, None
    if not count.isascii() or not count.isdigit() or not 1 <= int(count[:9]) <= _MOST_GPUS:
        raise UsageError(f"--gpu {text!r}: after the colon stands a number of GPUs between 1 and {_MOST_GPUS:,}")
    return name, int(count)


def _plan(options: Mapping[str, Any], count: int | None) -> Plan:
    """As the options say; ``count``: of GPUs, which --tp fills where it is not given."""
    others, tensor_parallel, batch = options["pp"] * options["dp"], options["tp"], options["batch"]
    if batch is None:
        batch = as_many_as_fit(options["dp"]) if options["phase"] == "serve" else 1
    if tensor_parallel is None:
        tensor_parallel = 1 if count is None else count // others
    plan = Plan(
        phase=options["phase"], batch=batch, sequence=options["sequence"], output=options["output"] if options["phase"] in ("request", "serve") else 0,
        tensor_parallel=max(1, tensor_parallel), pipeline_parallel=options["pp"], data_parallel=options["dp"], expert_parallel=options["ep"],
        dtype=options["dtype"], kv_dtype=options["kv_dtype"], chunk=options["chunk"], micro_batches=options["micro_batches"],
        recompute=options["recompute"], zero=options["zero"], overlap=options["overlap"], reads=options["reads"], all_reduce=options["all_reduce"],
        experts_dtype=options["experts_dtype"] or "", page_tokens=options["page_tokens"],
        framework=options["framework"] or "", engine=options["engine"] or "", launch=options["launch"],
    )  # fmt: skip
    if count is not None and plan.gpus != count:
        raise UsageError(
            f"--gpu says {count} GPUs, and tensor x pipeline x data parallel, {plan.tensor_parallel} x {plan.pipeline_parallel} x {plan.data_parallel}, "
            f"are {plan.gpus}"
        )
    return plan


def _refuse_of_others(options: Mapping[str, Any]) -> None:
    """Options of a server with another phase, and those of a step with a server."""
    serving = options["phase"] == "serve"
    if not serving:
        _refuse(options, f"with --phase {options['phase']}", "requests", "step_tokens", "memory_share")
        return
    if options["overlap"] != "none" or options["traces"] is not None or options["chunk"]:
        raise UsageError("--overlap, --traces and --chunk are of one step: leave them out with --phase serve")


def _project(prices: Prices, network: Decoder, plan: Plan, options: Mapping[str, Any]) -> Projected:
    if plan.phase == "serve":
        return project_serving(
            prices, network, plan, options["requests"], options["step_tokens"], options["memory_share"]
        )
    return project_request(prices, network, plan) if plan.phase == "request" else project_model(prices, network, plan)


def _record(found: Projected) -> dict[str, Any]:
    if isinstance(found, ServingProjection):
        return serving_record(found)
    return request_record(found) if isinstance(found, RequestProjection) else step_record(found)


def _beside(lines: list[tuple[str, str]], changed: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Two projections' lines under each other; lines that are the same once."""
    found = []
    others = dict(changed)
    for name, text in lines:
        found.append((name, text))
        other = others.get(name)
        if other is not None and other != text:
            found.append(("  what if", other))
    return found


def _sweep(network: Decoder, options: Mapping[str, Any]) -> None:
    axes = axes_of(options["sweep"])
    shared_out = {"tp", "pp", "dp"} & set(axes)
    _, count = _gpu_and_count(options["gpu"])
    _refuse_of_others(options)
    whole = None if options["batch"] is None else options["batch"] * options["dp"]
    base = _plan(dict(options) | {"batch": whole}, None if shared_out else count)
    kept, rows, refused, limit_watts = Kept(options["resume"]), [], [], options["power_limit_watts"]
    machines: dict[str, tuple[Prices, str]] = {}
    plans = list(combinations(base, options["gpu"], axes))
    with shown(), task("projecting", len(plans), "plans") as progress:
        for number, (text, plan) in enumerate(plans):
            progress.to(number)
            if isinstance(plan, str):
                refused.append(plan)
                continue
            name, count = _gpu_and_count(text)
            if count is not None and plan.gpus != count:
                continue  # another way to share out another number of GPUs
            if name not in machines:
                spec = override_gpu(load_gpu(name), options["settings"])
                # Rows that were kept before there was a power limit to say have no word of one.
                described = f"{spec!r} {network!r}" + (f" {limit_watts!r}" if limit_watts else "")
                described += " one clock" if options["one_clock"] else ""
                server = tuple(options[name] for name in ("requests", "step_tokens", "memory_share"))
                described += f" {server!r}" if any(server) else ""
                machines[name] = (
                    Prices(spec, limit_watts, options["one_clock"]),
                    hashlib.sha256(described.encode()).hexdigest(),
                )
            prices, described = machines[name]
            key = identity(network.name, name, described, plan)
            row = kept.get(key)
            if row is None:
                try:
                    row = _record(_project(prices, network, plan, options))
                except (UsageError, NoDataError) as error:
                    refused.append(str(error))
                    continue
                kept.add(key, row)
            rows.append(row)
    if not rows:
        why = refused[0] if refused else "none of them takes as many GPUs as --gpu says"
        raise NoDataError(f"no plan of the sweep can be: {why}")
    if refused:
        click.echo(f"note: {len(refused)} of {len(plans)} plans cannot be, the first: {refused[0]}", err=True)
    if options["pareto"]:
        least = "tpot_ms" if "tpot_ms" in rows[0] else "step_ms"
        rows = pareto(rows, least, "tokens_per_s_per_gpu", lambda row: bool(row["fits"]))
        if not rows:
            raise NoDataError("no plan of the sweep fits into its GPUs' memory")
    click.echo(_swept(rows, options["form"]))


def _swept(rows: Sequence[dict[str, Any]], form: str) -> str:
    """A table of what differs between plans below what does not, so that lines stay short; of one plan, and for programs, all in one."""
    alike = [name for name in rows[0] if all(row[name] == rows[0][name] for row in rows)] if len(rows) > 1 else []
    if form not in ("table", "md") or not alike or len(alike) == len(rows[0]):
        return format_records(rows, form)
    same = format_pairs([(name, _text(rows[0][name])) for name in alike], form)
    return f"{same}\n\n{format_records([{name: row[name] for name in row if name not in alike} for row in rows], form)}"


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
