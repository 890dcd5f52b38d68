"""``gpusim compare``: simulated beside measured, point by point, and a verdict on each series."""

from __future__ import annotations

import os

import click

from gpusim.commands.options import HELP, format_option, set_option
from gpusim.compare.error import DEFAULT_TOLERANCE_PERCENT, Summary, Verdict
from gpusim.compare.run import Comparison
from gpusim.compare.run import compare as compare_published
from gpusim.errors import NoDataError
from gpusim.report.tables import format_records

DIVERGENCE, AMBIGUOUS = 1, 4


@click.command(context_settings=HELP)
@click.argument("kernels", nargs=-1, metavar="[KERNEL]...")
@click.option(
    "--gpu", "gpus", multiple=True, default=("h200",), show_default=True, metavar="NAME",
    help="A GPU's name or TOML file; may be repeated.",
)
@click.option(
    "--against",
    type=click.Choice(["published"]),
    default="published",
    show_default=True,
    help="Which measurements to lay beside the simulation.",
)
@set_option()
@click.option("--all-points", is_flag=True, help="Every published point instead of a spread of them.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=DEFAULT_TOLERANCE_PERCENT,
    show_default=True,
    help="Mean absolute error in percent up to which a series counts as SAME.",
)
@click.option("--check", is_flag=True, help="Exit 1 if a series is FASTER or SLOWER than silicon.")
@click.option("--strict", is_flag=True, help="Like --check, and exit 4 if a series is AMBIGUOUS.")
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    default=os.cpu_count() or 1,
    show_default="number of cores",
    help="Worker processes.",
)
@format_option()
def compare(
    kernels: tuple[str, ...],
    gpus: tuple[str, ...],
    against: str,
    settings: tuple[str, ...],
    all_points: bool,
    tolerance: float,
    check: bool,
    strict: bool,
    jobs: int,
    form: str,
) -> int:
    """Simulate published points of KERNELs (all by default) and print the error of each.

    JSON and CSV hold the rows (gpu, series, point, unit, simulated, measured, error_percent);
    table and md add the mean absolute percentage error and the verdict of each series. A GPU's TOML file, or
    one changed by --set, is laid beside the measurements of the built-in GPU that it starts from.

    \b
    Examples:
      gpusim compare --gpu gh200 --against published
      gpusim compare pointer_chase stream_triad --gpu a100_80gb --format json
      gpusim compare l1_stride --gpu h200 --check --tolerance 5
      gpusim compare l2_read --gpu h200 --set l2.hit_latency_ns=60
    """
    comparison = compare_published(
        kernels,
        gpus,
        all_points=all_points,
        settings=settings,
        jobs=jobs,
        tolerance_percent=tolerance,
        progress=lambda line: click.echo(line, err=True),
    )
    if comparison.rows or form in ("table", "md"):
        click.echo(format_records([row.record() for row in comparison.rows], form))
    if form in ("table", "md"):
        click.echo()
        click.echo(format_records([_record(s) for s in comparison.summaries], form))
    return _exit_code(comparison, check or strict, strict)


def _record(summary: Summary) -> dict:
    return {
        "gpu": summary.gpu,
        "series": summary.series,
        "points": summary.points,
        "mape_percent": summary.mape_percent,
        "bias_percent": summary.bias_percent,
        "verdict": str(summary.verdict),
        "reason": summary.reason,
    }


def _exit_code(comparison: Comparison, check: bool, strict: bool) -> int:
    for (gpu, series), (code, message) in comparison.failures.items():
        click.echo(f"error: {gpu} {series}: {' '.join(message.split())}", err=True)
    if comparison.failures:
        return max(code for code, _ in comparison.failures.values())
    if not comparison.rows:
        raise NoDataError("nothing was compared")
    verdicts = {summary.verdict for summary in comparison.summaries}
    if check and verdicts & {Verdict.FASTER, Verdict.SLOWER}:
        return DIVERGENCE
    return AMBIGUOUS if strict and Verdict.AMBIGUOUS in verdicts else 0
