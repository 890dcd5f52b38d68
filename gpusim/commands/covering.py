"""``gpusim cover``: which behaviours of kernels and machine a set of workloads has exercised; the work."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from gpusim.cases.names import general_names
from gpusim.cases.run_case import NO_CHECK
from gpusim.cases.suite import complete_shape, parse_request
from gpusim.commands.unchecked import tell_unchecked
from gpusim.errors import NoDataError
from gpusim.explore.cover import cover as cover_workload
from gpusim.explore.coverage import Coverage
from gpusim.explore.coverage_holes import hole_records, point_records
from gpusim.explore.named_suites import expand_suites
from gpusim.explore.points import CROSS, POINTS
from gpusim.explore.suite_coverage import recorded_coverage
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.io.progress import say, task
from gpusim.report.tables import format_records
from gpusim.store import open_store

#: What a run's coverage is kept as.
DOCUMENT = "coverage"


def run(
    workloads: tuple[str, ...], gpu: str, settings: tuple[str, ...], small: bool, output: Path, save: str, form: str
) -> None:
    """What :func:`gpusim.commands.cover.run` declares, with its arguments."""
    if save:
        with open_store() as store:
            store.prepare()
    spec = override_gpu(load_gpu(gpu), settings)
    requests = [parse_request(text) for text in expand_suites(workloads) or general_names()]
    shapes = [(name, complete_shape(name, shape, spec, small=small)) for name, shape in requests]
    total, unchecked = Coverage(), {}
    with task("covering", len(shapes), "workloads") as shown:
        for index, (name, shape) in enumerate(shapes, start=1):
            covered = cover_workload(name, shape, spec)
            unchecked |= {} if covered.checked else {name: NO_CHECK}
            new = len(total.only_in(covered.coverage))
            total = total.merge(covered.coverage)
            total.save(output)  # what has run is kept, should the next one be refused or the machine be needed
            shown.to(index)
            say(f"[{index:>3}/{len(shapes)}] {covered.workload}: {new} new bins")
    tell_unchecked(unchecked)
    if save:
        _store(total, save)
    click.echo(format_records(point_records(total), form))


def report(files: tuple[Path, ...], holes: bool, crosses: bool, form: str) -> None:
    """What :func:`gpusim.commands.cover.report` declares, with its arguments."""
    total = _load(files)
    if not total.launches:
        raise NoDataError("no launch was covered: " + ", ".join(map(str, files)))
    records = hole_records(total, recorded_coverage(), crosses=crosses) if holes else point_records(total)
    click.echo(format_records([r for r in records if crosses or CROSS not in r["point"]], form))
    if not holes and form in ("table", "md"):
        bins, hit = (sum(record[key] for record in records) for key in ("bins", "hit"))
        click.echo(f"\n{hit} of {bins} bins, {total.launches} launches", err=True)


def merge(files: tuple[Path, ...], output: Path) -> None:
    """What :func:`gpusim.commands.cover.merge` declares, with its arguments."""
    _load(files).save(output)


def diff(before: Path, after: Path, form: str) -> None:
    """What :func:`gpusim.commands.cover.diff` declares, with its arguments."""
    first, second = Coverage.load(before), Coverage.load(after)
    records = [
        {"change": change, "point": each[0], "bin": each[1], "example": next(iter(where.hits[each].examples), "")}
        for change, lacking, where in (("lost", second, first), ("gained", first, second))
        for each in lacking.only_in(where)
    ]
    click.echo(format_records(records, form) if records or form in ("json", "csv") else "no difference")


def points(form: str) -> None:
    """What :func:`gpusim.commands.cover.points` declares, with its arguments."""
    click.echo(
        format_records([{"point": p.name, "asks": p.asks, "bins": ", ".join(p.bins)} for p in POINTS.values()], form)
    )


def _store(total: Coverage, name: str) -> None:
    """Keep what is covered and what is not; pairs of points without their holes, which are thousands."""
    document = {
        "launches": total.launches,
        "points": point_records(total),
        "holes": hole_records(total, recorded_coverage(), crosses=False),
    }
    with open_store() as store, store.new_run(name, command="cover", arguments=sys.argv[1:]) as run:
        run.add_document(DOCUMENT, document)
    click.echo(f"kept as run {name!r}", err=True)


def _load(files: tuple[Path, ...]) -> Coverage:
    return Coverage().merge(*(Coverage.load(path) for path in files))
