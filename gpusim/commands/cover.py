"""``gpusim cover``: which behaviours of kernels and machine a set of workloads has exercised."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.cases.names import kernel_names
from gpusim.cases.run_case import NO_CHECK
from gpusim.cases.suite import complete_shape, parse_request
from gpusim.commands.options import HELP, format_option, gpu_option, set_option
from gpusim.commands.unchecked import tell_unchecked
from gpusim.errors import NoDataError, UsageError
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

_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.group(context_settings=HELP)
def cover() -> None:
    """Coverage of workloads: opcodes' units, limiters, coalescing, conflicts, caches, waves, and more.

    A cover point is a question about a launch whose answers fall into bins; a bin that no launch fell into is a
    hole. `cover points` lists them.

    \b
    Examples:
      gpusim cover run saxpy transpose:padding=0 --gpu h200 -o mine.coverage.json
      gpusim cover report mine.coverage.json --holes
      gpusim cover merge monday.json tuesday.json -o week.json
      gpusim cover diff old.json new.json
    """


@cover.command("run")
@click.argument("workloads", nargs=-1, metavar="[KERNEL[:AXIS=VALUE,...]|SUITE]...")
@gpu_option()
@set_option()
@click.option("--small", is_flag=True, help="Start from each kernel's small shape instead of its default.")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Coverage file to write."
)
@format_option()
def run(workloads: tuple[str, ...], gpu: str, settings: tuple[str, ...], small: bool, output: Path, form: str) -> None:
    """Simulate WORKLOADS (all kernels of the suite by default) and keep what they cover.

    A SUITE is a pinned one by its name, or a file of `gpusim suite make`. FILE is written after each workload.

    \b
    Examples:
      gpusim cover run --small -o suite.coverage.json
      gpusim cover run spmv_csr:rows=4096 histogram --gpu a100_80gb -o mine.json
      gpusim cover run ci.suite.json -o ci.coverage.json
    """
    if not output.resolve().parent.is_dir():
        raise UsageError(f"there is no folder {output.parent} to write {output.name} into")
    spec = override_gpu(load_gpu(gpu), settings)
    requests = [parse_request(text) for text in expand_suites(workloads) or kernel_names()]
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
    click.echo(format_records(point_records(total), form))


@cover.command("report")
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@click.option("--holes", is_flag=True, help="One row a hole instead, with the workload most likely to fill it.")
@click.option("--crosses/--no-crosses", default=True, help="Count pairs of points, too.")
@format_option()
def report(files: tuple[Path, ...], holes: bool, crosses: bool, form: str) -> None:
    """Print how much of each cover point the coverage FILEs hit together, or with --holes what they do not.

    \b
    Examples:
      gpusim cover report mine.coverage.json
      gpusim cover report mine.coverage.json --holes --no-crosses --format csv
    """
    total = _load(files)
    if not total.launches:
        raise NoDataError("no launch was covered: " + ", ".join(map(str, files)))
    records = hole_records(total, recorded_coverage(), crosses=crosses) if holes else point_records(total)
    click.echo(format_records([r for r in records if crosses or CROSS not in r["point"]], form))
    if not holes and form in ("table", "md"):
        bins, hit = (sum(record[key] for record in records) for key in ("bins", "hit"))
        click.echo(f"\n{hit} of {bins} bins, {total.launches} launches", err=True)


@cover.command("merge")
@click.argument("files", nargs=-1, required=True, type=_FILE, metavar="FILE...")
@click.option(
    "-o", "--output", required=True, type=click.Path(dir_okay=False, path_type=Path), help="Coverage file to write."
)
def merge(files: tuple[Path, ...], output: Path) -> None:
    """Add up coverage FILEs, of several runs or machines.

    \b
    Example:
      gpusim cover merge monday.json tuesday.json -o week.json
    """
    _load(files).save(output)


@cover.command("diff")
@click.argument("before", type=_FILE)
@click.argument("after", type=_FILE)
@format_option()
def diff(before: Path, after: Path, form: str) -> None:
    """List the bins that only one of two coverage files has.

    \b
    Example:
      gpusim cover diff old.json new.json --format csv
    """
    first, second = Coverage.load(before), Coverage.load(after)
    records = [
        {"change": change, "point": each[0], "bin": each[1], "example": next(iter(where.hits[each].examples), "")}
        for change, lacking, where in (("lost", second, first), ("gained", first, second))
        for each in lacking.only_in(where)
    ]
    click.echo(format_records(records, form) if records or form in ("json", "csv") else "no difference")


@cover.command("points")
@format_option()
def points(form: str) -> None:
    """List the cover points, what each asks and its bins.

    \b
    Example:
      gpusim cover points --format md
    """
    click.echo(
        format_records([{"point": p.name, "asks": p.asks, "bins": ", ".join(p.bins)} for p in POINTS.values()], form)
    )


def _load(files: tuple[Path, ...]) -> Coverage:
    return Coverage().merge(*(Coverage.load(path) for path in files))
