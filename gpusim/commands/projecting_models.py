"""What ``gpusim project MODEL`` does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gpusim.commands.output_file import open_output, page_or_data
from gpusim.commands.planned_models import (
    gpu_and_count,
    machine_of,
    plan_of,
    projected,
    record_of,
    refuse,
    refuse_of_others,
)
from gpusim.commands.sweeping_models import sweep_models
from gpusim.errors import UsageError
from gpusim.execution.chakra_file import GROUPS, written
from gpusim.gpus.describe import evidence_of_gpu
from gpusim.gpus.load import load_gpu, own_claims
from gpusim.gpus.override import override_gpu
from gpusim.io.progress import shown
from gpusim.io.whole_file import write_whole
from gpusim.project.decoder import Decoder
from gpusim.project.execution import step_traces
from gpusim.project.limits import remedies
from gpusim.project.network import decoder_of
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.records import operator_records, run_record
from gpusim.project.settings import links_of, power_of
from gpusim.project.shown import step_of
from gpusim.project.text import lines_of, remedy_lines
from gpusim.report.model_page import render_model
from gpusim.report.tables import format_pairs, format_records


def model(**options: Any) -> None:
    network = decoder_of(options["network"])
    page, data, form = page_or_data(options["output_file"], options["form"])
    options = options | {"page": page, "form": form}
    with open_output(data) as put:
        _project(network, options, put)


def _project(network: Decoder, options: dict[str, Any], put: Callable[[str], None]) -> None:
    """``options`` with ``page``: where a page is to be written; ``put`` takes the data."""
    if options["sweep"]:
        refuse(options, "with --sweep", "helps", "operators", "what_if", "traces")
        sweep_models(network, options, put)
        return
    if options["pareto"] or options["resume"] or options["ttft_ms"] or options["tpot_ms"]:
        raise UsageError("--pareto, --ttft-ms, --tpot-ms and --resume go with --sweep")
    if options["one_clock"] and options["traces"] is not None:
        raise UsageError("--traces writes each operator's own time: leave --one-clock out")
    gpu, count = gpu_and_count(options["gpu"])
    spec = override_gpu(load_gpu(gpu), options["settings"])
    plan = plan_of(options, count)
    refuse_of_others(options)
    limit_watts = options["power_limit_watts"]
    machine = machine_of(options)
    prices = Prices(spec, limit_watts, options["one_clock"], machine=machine)
    with shown():
        found = projected(prices, network, plan, options)
        changed = None
        if options["what_if"]:
            changed = projected(
                Prices(override_gpu(spec, options["what_if"]), limit_watts, options["one_clock"], machine=machine),
                network,
                plan,
                options,
            )
        asked = options["helps"] or options["page"]
        step = step_of(found)
        helping = remedies(prices, network, step.plan, step) if asked else []
        if options["traces"] is not None:
            _write_traces(options["traces"], prices, network, plan)
    conditions = power_of(prices) + links_of(prices)
    if options["page"] is not None:
        evidence = dict(evidence_of_gpu(gpu).most_common())
        page = render_model(found, helping, spec, changed, own_claims(gpu), conditions, network.source, evidence)
        write_whole(options["page"], page.encode())
    if options["operators"]:
        put(format_records(operator_records(step), options["form"]))
    elif options["form"] in ("json", "csv"):
        records = [record_of(each) | run_record(prices) for each in (found, changed) if each is not None]
        put(format_records(records, options["form"]))
    else:
        lines = lines_of(found, conditions) + (remedy_lines(helping) if helping else [])
        put(format_pairs(lines if changed is None else _beside(lines, lines_of(changed, conditions)), options["form"]))


def _write_traces(folder: Path, prices: Prices, network: Decoder, plan: Plan) -> None:
    """A file a rank, and who is in which group."""
    made = step_traces(prices, network, plan)
    folder.mkdir(parents=True, exist_ok=True)
    for trace in made.traces:
        write_whole(folder / f"{network.name}.{trace.rank}.et", b"".join(written(trace.nodes)))
    write_whole(folder / GROUPS, (json.dumps(made.groups) + "\n").encode())


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
