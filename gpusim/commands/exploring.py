"""``gpusim explore`` and ``gpusim replay``: search for divergences, and run one again; the work."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from gpusim.cases.names import general_names
from gpusim.cases.run_case import unchecked_kernels
from gpusim.cases.suite import find_kernel, shape_text
from gpusim.cluster import connect
from gpusim.commands.foreign_code import announce_code
from gpusim.commands.property_options import options_given
from gpusim.commands.unchecked import tell_unchecked
from gpusim.errors import GpusimError, NoDataError, UsageError
from gpusim.explore.finding import Finding
from gpusim.explore.network_shapes import shapes_around
from gpusim.explore.property import Property
from gpusim.explore.property_registry import make_property
from gpusim.explore.session import Plan
from gpusim.explore.session import explore as run_search
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.production.columns import named
from gpusim.production.coverage_holes import Standing, standings
from gpusim.production.sources import read_sources
from gpusim.production.weights import time_inside
from gpusim.report.tables import format_cards

DIVERGENCE = 1
#: Kernels that a search without names takes: small ones that compile quickly, and that between them execute every class
#: of instruction and every kind of access, datatype and unit that the suite's kernels do at their small shapes.
DEFAULT_KERNELS = (
    "saxpy", "transpose", "matmul_tiled", "softmax", "layernorm", "histogram", "spmv_csr", "reduce_sum", "stencil3",
    "coalescing", "bank_conflicts", "shared_atomics", "atomic_contention", "divergence", "compaction", "bfs",
    "stream_read", "reduce_last_block", "radix_sort_step", "jacobi_grid_sync", "dequant_int4", "tensor_pipe", "igemm_int8",
    "cpp_attention", "cpp_philox", "cpp_gemm_w4a16",
)  # fmt: skip


def explore(
    context: click.Context,
    kernels: tuple[str, ...],
    name: str,
    gpu: str,
    settings: tuple[str, ...],
    threshold: float | None,
    max_examples: int,
    max_time: float | None,
    seed: int,
    growth: float,
    around: tuple[str, ...],
    no_steer: bool,
    first: bool,
    resume: bool,
    jobs: int,
    dask: str | None,
    production: tuple[Path, ...],
    output: Path,
    form: str,
    **_of_properties: Any,
) -> int:
    """What :func:`gpusim.commands.explore.explore` declares, with its arguments."""
    of_networks = tuple(shapes_around(around, growth))
    chosen = tuple(general_names()) if kernels == ("all",) else kernels or of_networks or DEFAULT_KERNELS
    if around and not set(chosen) & set(of_networks):
        raise UsageError(
            f"none of {', '.join(chosen)} is launched within --growth {growth:g}; there are {', '.join(of_networks)}"
        )
    for kernel in chosen:
        find_kernel(kernel)
    is_chosen_for_us = not kernels or "all" in kernels
    options = options_given(context, name, gpu, settings)
    if threshold is not None:
        options["threshold"] = threshold
    plan = Plan(
        chosen, name, options, gpu, settings, seed, growth, max_examples,
        float("inf") if max_time is None else max_time, not no_steer, first, around,
    )  # fmt: skip
    launched = standings(named(read_sources(production).totals)) if production else []
    prop = make_property(name, plan.spec, options)  # refuses what cannot be, before any work
    plan = replace(plan, kernels=_checkable(prop, chosen, is_chosen_for_us))
    tell_unchecked(unchecked_kernels(plan.kernels, plan.spec))
    with connect(dask) if dask else nullcontext() as cluster:
        search, findings = run_search(plan, output, jobs=jobs, resume=resume, cluster=cluster)
    if not search.tried:
        if search.refusal:
            raise NoDataError(
                f"no workload could be run: {search.refused} shapes were refused, the last since {search.refusal}"
            )
        raise NoDataError("no workload could be run: raise --growth or --max-time")
    click.echo(
        f"{len(search.tried)} workloads, {len(search.coverage.hits)} bins, {len(findings)} findings in {output}",
        err=True,
    )
    if search.coverage.launches:
        click.echo(f"what they did not try: gpusim cover report {output / 'coverage.json'} --holes", err=True)
    if findings:
        click.echo(f"one again: gpusim replay {output / findings[0].name}.finding.json", err=True)
    if findings or form in ("json", "csv"):
        click.echo(format_cards([_record(finding, output, launched) for finding in findings], form))
    else:
        click.echo(f"no finding of {name} in {len(search.tried)} workloads")
    return DIVERGENCE if findings else 0


def _checkable(prop: Property, kernels: Sequence[str], is_chosen_for_us: bool) -> tuple[str, ...]:
    """Those of ``kernels`` on which the property can check something. One that was asked for by name and is not among
    them is a mistake of whoever asked."""
    kept, refusal = [], None
    for kernel in kernels:
        try:
            prop.require(kernel)
            kept.append(kernel)
        except UsageError as error:
            if not is_chosen_for_us:
                raise
            refusal = error
    if refusal is not None and not kept:
        raise refusal
    if refusal is not None:
        click.echo(f"{len(kernels) - len(kept)} of {len(kernels)} kernels are left out: {refusal}", err=True)
    return tuple(kept)


def _record(finding: Finding, folder: Path, launched: Sequence[Standing]) -> dict[str, Any]:
    return {
        "kernel": finding.kernel,
        "region": finding.rule,
        **({"production_time": str(time_inside(finding, launched))} if launched else {}),
        "behaviour": finding.behaviour,
        "explains": finding.explains,
        "worst_percent": 100 * finding.worst.divergence,
        "worst": shape_text(dict(finding.worst.shape)),
        "minimal": shape_text(dict(finding.minimal.shape)),
        "detail": finding.minimal.detail,
        "file": str(folder / f"{finding.name}.finding.json"),
    }


def replay(finding: Path, worst: bool, run_code: bool, form: str) -> int:
    """What :func:`gpusim.commands.explore.replay` declares, with its arguments."""
    kept = Finding.load(finding)
    announce_code(finding, kept, run_code)
    case = kept.worst if worst else kept.minimal
    try:
        spec = override_gpu(load_gpu(kept.gpu), kept.settings)
        prop = make_property(kept.property, spec, kept.options)
        outcome = prop.judge(kept.kernel, case.shape)
    except GpusimError as error:
        raise type(error)(f"{finding} cannot be run again: {error}") from None
    lasts = prop.fails(outcome)
    record = {
        "kernel": kept.kernel,
        "shape": shape_text(dict(case.shape)),
        "divergence_then": case.divergence,
        "divergence_now": outcome.divergence,
        "same_digits": outcome.divergence == case.divergence,
        "lasts": lasts,
        "then": case.detail,
        "now": outcome.detail,
    }
    click.echo(format_cards([record], form))
    return DIVERGENCE if lasts else 0
