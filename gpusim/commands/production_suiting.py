"""``gpusim production holes``, ``suite`` and ``findings``; the work."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click

from gpusim.errors import GpusimError, UsageError
from gpusim.explore.choose import save_suite
from gpusim.explore.coverage import Coverage
from gpusim.explore.finding import Finding
from gpusim.explore.suite_coverage import recorded_coverage
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.io.progress import say, task
from gpusim.production.columns import named
from gpusim.production.coverage_holes import (
    Reach,
    Standing,
    basis_shares,
    hole_records,
    is_timed,
    point_records,
    standings,
)
from gpusim.production.sources import read_sources
from gpusim.production.suite import choices_of, workloads_of, write_histogram
from gpusim.production.weights import time_inside
from gpusim.report.tables import format_records


def holes(
    files: tuple[Path, ...], points: bool, coverage: tuple[Path, ...], simulate: int, gpu: str, form: str
) -> None:  # fmt: skip
    """What :func:`gpusim.commands.production.holes` declares, with its arguments."""
    if not points and (coverage or simulate):
        raise UsageError("--coverage and --simulate are about bins: give --points too")
    found = _standings(files)
    if points:
        reach = Reach(Coverage().merge(*map(Coverage.load, coverage)) if coverage else recorded_coverage())
        if simulate:
            _simulate(reach, found, simulate, load_gpu(gpu))
        records = point_records(found, reach)
    else:
        records = hole_records(found)
    if records or form in ("json", "csv"):
        click.echo(format_records(records, form))
    else:
        click.echo("no hole: each launch has a case of the suite")
    _tell(found)


def suite(
    files: tuple[Path, ...], budget: int, by_kernel: bool, output: Path, histogram: Path | None, form: str
) -> None:  # fmt: skip
    """What :func:`gpusim.commands.production.suite` declares, with its arguments."""
    found = _standings(files)
    workloads = workloads_of(found, budget, by_kernel=by_kernel)
    save_suite(output, choices_of(workloads), kept=0, bins=0)
    if histogram is not None:
        write_histogram(histogram, workloads)
    records = [
        {
            "workload": each.workload,
            "shape_by": each.basis,
            "launches": round(each.amount.launches),
            "time_ms": each.amount.time_ns / 1e6,
            "share_percent": each.share_percent,
        }
        for each in workloads
    ]
    click.echo(format_records(records, form))
    _tell(found)
    share = sum(each.share_percent for each in workloads)
    click.echo(f"{len(workloads)} workloads in {output} stand for {share:.3g} % of the {_unit(found)}", err=True)


def findings(files: tuple[Path, ...], found: tuple[Path, ...], form: str) -> None:
    """What :func:`gpusim.commands.production.findings` declares, with its arguments."""
    launched = _standings(files)
    records = []
    for path in _finding_files(found):
        finding = Finding.load(path)
        inside = time_inside(finding, launched)
        records.append(
            {
                "kernel": finding.kernel,
                "region": finding.rule,
                "time_percent": inside.least_percent,
                "time_at_most_percent": inside.most_percent,
                "worst_percent": 100 * finding.worst.divergence,
                "file": str(path),
            }
        )
    records.sort(key=lambda each: (-each["time_percent"], -each["time_at_most_percent"], each["file"]))
    click.echo(format_records(records, form))
    _tell(launched)


def _standings(files: tuple[Path, ...]) -> list[Standing]:
    return standings(named(read_sources(files).totals))


def _tell(found: list[Standing]) -> None:
    shares = basis_shares(found)
    click.echo(
        f"of the {_unit(found)}: {shares['operator']:.3g} % have a case of the suite with a shape that the operator tells, "
        f"{shares['grid']:.3g} % with one that the grid tells, {shares['kernel']:.3g} % with the kernel alone, "
        f"{shares['none']:.3g} % have none",
        err=True,
    )


def _unit(found: list[Standing]) -> str:
    return "time" if is_timed(found) else "launches"


def _simulate(reach: Reach, found: list[Standing], most: int, gpu: GpuSpec) -> None:
    with task("simulating", most, "workloads") as shown:
        for index, each in enumerate(workloads_of(found, most), start=1):
            try:
                bins = reach.simulate(each.workload, gpu)
                say(f"{each.workload}: {bins} bins, {each.share_percent:.3g} % of the time")
            except GpusimError as error:
                say(f"{each.workload}: {error}")
            shown.to(index)


def _finding_files(paths: Iterable[Path]) -> list[Path]:
    files = []
    for path in paths:
        inside = sorted(path.glob("*.finding.json")) if path.is_dir() else [path]
        if not inside:
            raise UsageError(f"{path} holds no finding (*.finding.json)")
        files += inside
    return files
