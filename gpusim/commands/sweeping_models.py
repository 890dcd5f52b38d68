"""What ``gpusim project MODEL --sweep`` does.

Mental model: every combination is a plan; its record is kept as it comes, printed with the others, and on request put
on a page, for which a few plans are projected again.
"""

from __future__ import annotations

import hashlib
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from gpusim.commands.output_place import refuse_no_place
from gpusim.commands.planned_models import gpu_and_count, machine_of, plan_of, projected, record_of, refuse_of_others
from gpusim.errors import NoDataError, UsageError
from gpusim.gpus.load import load_gpu, own_claims
from gpusim.gpus.override import override_gpu
from gpusim.io.progress import shown, task
from gpusim.io.whole_file import write_whole
from gpusim.project.decoder import Decoder
from gpusim.project.limits import remedies
from gpusim.project.plan import Plan
from gpusim.project.prices import Prices
from gpusim.project.records import run_record
from gpusim.project.server import as_many_as_fit
from gpusim.project.shown import step_of
from gpusim.project.sweep import AXES, Kept, axes_of, combinations, identity, pareto
from gpusim.report.tables import format_pairs, format_records

#: Notes of servers that hold fewer sequences than were asked for.
_MOST_NOTES = 5
#: Modules that only a page needs: matplotlib draws, so they are loaded where one is asked for.
_PAGE, _POINTS = "gpusim.report.sweep_page", "gpusim.report.sweep_points"


#: Axes that share out a number of GPUs: their product is that number.
_SHARES = ("tp", "pp", "dp")
#: Option -> how it is written, the phases whose rows have a column of its name, and the phase whose step it is.
_LIMITS = {"ttft_ms": ("--ttft-ms", ("request",), "prefill"), "tpot_ms": ("--tpot-ms", ("request", "serve"), "decode")}


@dataclass
class _Swept:
    """Rows with the plans that they are of: the GPU's name as it was given, and the plan; ``refused``: why others
    cannot be; ``machines``: GPU's name -> prices, digest of what was described."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    plans: list[tuple[str, Plan]] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    machines: dict[str, tuple[Prices, str]] = field(default_factory=dict)


def sweep_models(network: Decoder, options: Mapping[str, Any], put: Callable[[str], None]) -> None:
    """All combinations of the options' axes, as text for ``put``. Raises UsageError before any work, NoDataError where
    no plan can be."""
    axes = axes_of(options["sweep"])
    refuse_of_others(options)
    limits = _limits(options)
    if options["page"] is not None:
        importlib.import_module(_PAGE)  # what it lacks is said before the work
    swept = _swept(network, options, axes)
    if not swept.rows:
        why = swept.refused[0] if swept.refused else "none of them takes as many GPUs as --gpu says"
        raise NoDataError(f"no plan of the sweep can be: {why}")
    if swept.refused:
        whole = len(swept.rows) + len(swept.refused)
        click.echo(f"note: {len(swept.refused)} of {whole} plans cannot be, the first: {swept.refused[0]}", err=True)
    for note in (*_elsewhere(swept, axes), *_capped(swept)):
        click.echo(note, err=True)
    rows, least = swept.rows, "tpot_ms" if "tpot_ms" in swept.rows[0] else "step_ms"
    within = {id(row) for row in rows if row["fits"] and all(row[name] <= most for name, most in limits.values())}
    front = pareto(rows, least, "tokens_per_s_per_gpu", lambda row: id(row) in within) if _wants_front(options) else []
    if limits and not within:
        raise NoDataError(_nearest(rows, limits))
    if options["page"] is not None:
        _write_page(options["page"], network, options, axes, swept, front)
    if options["pareto"]:
        if not front:
            raise NoDataError("no plan of the sweep fits into its GPUs' memory")
        rows = front
    elif limits:
        kept = [row for row in rows if id(row) in within]
        rows = sorted(kept, key=lambda row: -row["tokens_per_s_per_gpu"])
    put(_printed(rows, options["form"]))


def _elsewhere(swept: _Swept, axes: Mapping[str, Sequence[Any]]) -> list[str]:
    """A note for each way to share out GPUs whose values stand in no row, as those plans take another number of GPUs
    than was said."""
    notes = []
    for name in _SHARES:
        missing = [value for value in axes.get(name, ()) if all(row[name] != value for row in swept.rows)]
        others = [f"--sweep {other}=..." for other in _SHARES if other not in axes]
        if missing and others and not swept.refused:
            notes.append(
                f"note: no plan with {name} {', '.join(map(str, missing))} takes as many GPUs as --gpu says; add {' or '.join(others)}"
            )
    return notes


def _capped(swept: _Swept) -> list[str]:
    """A note for each batch that servers have in place of larger ones that were asked for, as memory holds no more."""
    asked: dict[tuple[str, str, int], set[int]] = {}
    for row, (name, plan) in zip(swept.rows, swept.plans, strict=True):
        if row["phase"] == "serve" and row["batch"] == row["memory_batch"] < plan.batch < as_many_as_fit(
            plan.data_parallel
        ):
            asked.setdefault((name, plan.dtype, row["batch"]), set()).add(plan.batch)
    notes = [
        f"note: batch {', '.join(map(str, sorted(batches)))} in {dtype} on {name}: memory holds {held} sequences at once, which is the batch of the row"
        for (name, dtype, held), batches in asked.items()
    ]
    return [
        *notes[:_MOST_NOTES],
        *([f"note: and {len(notes) - _MOST_NOTES} more such"] if len(notes) > _MOST_NOTES else []),
    ]


def _limits(options: Mapping[str, Any]) -> dict[str, tuple[str, float]]:
    """Option -> the column that it limits, and the most that it may be. Raises UsageError for a phase without such a
    time."""
    found = {}
    for option, (name, phases, alone) in _LIMITS.items():
        most = options[option]
        if most is None:
            continue
        if options["phase"] not in (*phases, alone):
            raise UsageError(f"{name} is of --phase {', '.join((*phases, alone))}, not of {options['phase']}")
        found[name] = ("step_ms" if options["phase"] == alone else option, most)
    return found


def _nearest(rows: Sequence[Mapping[str, Any]], limits: Mapping[str, tuple[str, float]]) -> str:
    """Why no plan is left: what the best that fits has of each time."""
    fitting = [row for row in rows if row["fits"]]
    if not fitting:
        return "no plan of the sweep fits into its GPUs' memory"
    said = (
        f"{name} {most:g}: the least is {min(row[column] for row in fitting):.4g}"
        for name, (column, most) in limits.items()
    )
    return f"no plan that fits keeps all limits ({'; '.join(said)})"


def _wants_front(options: Mapping[str, Any]) -> bool:
    return options["pareto"] or options["page"] is not None


def _swept(network: Decoder, options: Mapping[str, Any], axes: Mapping[str, Sequence[Any]]) -> _Swept:
    shared_out = set(_SHARES) & set(axes)
    _, count = gpu_and_count(options["gpu"])
    whole = None if options["batch"] is None else options["batch"] * options["dp"]
    base = plan_of(dict(options) | {"batch": whole}, None if shared_out else count)
    refuse_no_place(options["resume"])
    kept, swept = Kept(options["resume"]), _Swept()
    plans = list(combinations(base, options["gpu"], axes))
    with shown(), task("projecting", len(plans), "plans") as progress:
        for number, (text, plan) in enumerate(plans):
            progress.to(number)
            if isinstance(plan, str):
                swept.refused.append(plan)
                continue
            name, count = gpu_and_count(text)
            if count is not None and plan.gpus != count:
                continue  # another way to share out another number of GPUs
            if name not in swept.machines:
                swept.machines[name] = _machine(name, network, options)
            prices, described = swept.machines[name]
            key = identity(network.name, name, described, plan)
            row = kept.get(key)
            if row is None:
                try:
                    row = record_of(projected(prices, network, plan, options)) | run_record(prices)
                except (UsageError, NoDataError) as error:
                    swept.refused.append(str(error))
                    continue
                kept.add(key, row)
            swept.rows.append(row)
            swept.plans.append((name, plan))
        progress.to(len(plans))
    if kept.outdated:
        rows = "1 row is" if kept.outdated == 1 else f"{kept.outdated} rows are"
        click.echo(
            f"note: {options['resume']}: {rows} of another version of gpusim or of its figures; projected again",
            err=True,
        )
    return swept


def _machine(name: str, network: Decoder, options: Mapping[str, Any]) -> tuple[Prices, str]:
    spec, limit_watts = override_gpu(load_gpu(name), options["settings"]), options["power_limit_watts"]
    # Rows that were kept before there was a power limit to say have no word of one.
    described = f"{spec!r} {network!r}" + (f" {limit_watts!r}" if limit_watts else "")
    described += " one clock" if options["one_clock"] else ""
    server = tuple(options[name] for name in ("requests", "step_tokens", "memory_share"))
    described += f" {server!r}" if any(server) else ""
    machine = machine_of(options)
    described += f" {machine.said()!r}" if machine.said() else ""
    prices = Prices(spec, limit_watts, options["one_clock"], machine=machine)
    return prices, hashlib.sha256(described.encode()).hexdigest()


def _write_page(
    path: Path, network: Decoder, options: Mapping[str, Any], axes: Mapping[str, Sequence[Any]], swept: _Swept, front: Sequence[dict[str, Any]],
) -> None:  # fmt: skip
    """The page of ``swept``, for which the fastest plan of the ``front``, the one that gives most and the one between
    are projected again."""
    page, reading = importlib.import_module(_PAGE), importlib.import_module(_POINTS)
    choices = [
        {axis: gpu if axis == "gpu" else getattr(plan, AXES[axis]) for axis in axes} for gpu, plan in swept.plans
    ]
    points = reading.points_of(swept.rows, choices)
    places = {id(row): index for index, row in enumerate(swept.rows)}
    best = [points[places[id(row)]] for row in front]
    chosen: list[Any] = []
    wanted = (
        {"Fastest": best[0], "Most for its latency": reading.balanced(best), "Gives most": best[-1]} if best else {}
    )
    with shown(), task("looking closer", len(wanted), "plans") as progress:
        for number, (why, point) in enumerate(wanted.items()):
            progress.to(number)
            if point.index in {each.point.index for each in chosen}:
                continue
            name, plan = swept.plans[point.index]
            prices = swept.machines[name][0]
            found = projected(prices, network, plan, options)
            step = step_of(found)
            chosen.append(page.Chosen(point, why, found, remedies(prices, network, step.plan, step)))
        progress.to(len(wanted))
    specs = {name: prices.spec for name, (prices, _) in swept.machines.items()}
    text = page.render_sweep(
        axes, points, best, chosen, swept.refused, {spec.name: spec.title for spec in specs.values()},
        {spec.name: own_claims(name) for name, spec in specs.items()}, _facts(swept.rows), [f"{name} {most:g}" for name, (_, most) in _limits(options).items()],
    )  # fmt: skip
    write_whole(path, text.encode())


#: What a page says of all plans where they have it alike.
_ALIKE = ("model", "phase", "gpus", "batch", "sequence", "output", "tp", "pp", "dp", "ep", "dtype", "experts_dtype", "attention_dtype", "kv_dtype", "chunk", "micro_batches", "virtual_stages", "overlap", "recompute", "zero", "scores", "loss", "framework", "launch", "power_limit_watts", "one_clock", "links", "link_gb_per_s", "gpus_per_node", "network_gb_per_s", "network_latency_us")  # fmt: skip


def _facts(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    alike = [name for name in _ALIKE if name in rows[0] and all(row.get(name) == rows[0][name] for row in rows)]
    return [(name, str(rows[0][name])) for name in alike]


def _printed(rows: Sequence[dict[str, Any]], form: str) -> str:
    """A table of what differs between plans below what does not, so that lines stay short; of one plan, and for
    programs, all in one."""
    if form in ("table", "md"):
        # Plans that come to the same, as servers that hold no more sequences however many may come, are one row to
        # read.
        rows = list({tuple(row.values()): row for row in rows}.values())
    # Rows that were kept by an older version may lack what newer ones say.
    names = list(dict.fromkeys(name for row in rows for name in row))
    rows = [{name: row.get(name, "") for name in names} for row in rows]
    alike = [name for name in rows[0] if all(row[name] == rows[0][name] for row in rows)] if len(rows) > 1 else []
    if form not in ("table", "md") or not alike or len(alike) == len(rows[0]):
        return format_records(rows, form)
    same = format_pairs([(name, _text(rows[0][name])) for name in alike], form)
    return f"{same}\n\n{format_records([{name: row[name] for name in row if name not in alike} for row in rows], form)}"


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
