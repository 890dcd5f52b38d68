"""``gpusim suite``: few workloads that keep the coverage of many; the work."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.cases.networks import pinned_suites
from gpusim.cases.suite import shape_text, split_workload
from gpusim.errors import NoDataError
from gpusim.explore.choose import Choice, choose, load_suite, not_covered, read_histogram, save_suite
from gpusim.explore.coverage import Coverage
from gpusim.io.progress import task
from gpusim.report.tables import format_records


def make(coverage: tuple[Path, ...], budget: int, histogram: Path | None, output: Path, form: str) -> None:
    """What :func:`gpusim.commands.suite.make` declares, with its arguments."""
    total = Coverage().merge(*(Coverage.load(path) for path in coverage))
    production = read_histogram(histogram) if histogram else {}
    unknown = not_covered(total, production)
    if unknown:
        share = 100.0 * sum(production[text] for text in unknown) / sum(production.values())
        remedy = f"run them with gpusim cover run '{unknown[0]}' ... -o production.json and give that file too"
        text = f"{len(unknown)} of {len(production)} workloads of {histogram} ({share:.3g} % of its launches) are in no coverage file"
        if len(unknown) == len(production):
            raise NoDataError(f"{text}: {remedy}")
        click.echo(f"{text} and weigh nothing: {remedy}", err=True)
    with task(f"choosing {budget} workloads"):
        choices = choose(total, budget, production)
    kept = sum(choice.new_bins for choice in choices)
    save_suite(output, choices, kept=kept, bins=len(total.hits))
    click.echo(format_records([_record(choice) for choice in choices], form))
    click.echo(f"{len(choices)} workloads keep {kept} of {len(total.hits)} bins", err=True)


def show(name: str, form: str) -> None:
    """What :func:`gpusim.commands.suite.show` declares, with its arguments."""
    if Path(name).is_file():
        records = [_record(choice) for choice in load_suite(Path(name))]
    else:
        records = [{"workload": f"{kernel}:{shape_text(shape)}"} for kernel, shape in pinned_suites()[name]]
    click.echo(format_records(records, form))


def _record(choice: Choice) -> dict:
    kernel, shape, gpu = split_workload(choice.workload)
    return {
        "workload": f"{kernel}:{shape}" if shape else kernel,
        "gpu": gpu,
        "new_bins": choice.new_bins,
        "adds_percent": choice.adds_percent,
    }
