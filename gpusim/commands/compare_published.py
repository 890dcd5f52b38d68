"""``gpusim compare --against published``: curves that others measured, replayed point by point."""

from __future__ import annotations

import math

import click

from gpusim.commands.compare_options import (
    CompareOptions,
    baseline_changes,
    lasting_names,
    print_changes,
    read_baseline,
    store_comparison,
    verdict_code,
    write_reports,
)
from gpusim.compare.baseline import Line
from gpusim.compare.error import Evidence, Summary, by_evidence
from gpusim.compare.run import Comparison
from gpusim.compare.run import compare as compare_published
from gpusim.errors import NoDataError
from gpusim.gpus.load import built_in_of, load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.io.progress import say
from gpusim.report.junit import JunitCase
from gpusim.report.tables import format_records

#: What a series is to the GPU's description: set from it, or never looked at when it was set.
EVIDENCE = {True: "fitted", False: "held out"}


def run(chosen: CompareOptions, all_points: bool, jobs: int) -> int:
    """Compare, print, store_comparison; the exit code."""
    before = read_baseline(chosen)
    comparison = compare_published(
        chosen.kernels,
        chosen.gpus,
        all_points=all_points,
        settings=chosen.settings,
        jobs=jobs,
        tolerance_percent=chosen.tolerance,
        progress=say,
    )
    points, series = [row.record() for row in comparison.rows], [_record(s) for s in comparison.summaries]
    machines = [(override_gpu(load_gpu(gpu), chosen.settings).name, built_in_of(gpu)) for gpu in chosen.gpus]
    names = lasting_names(machines)
    lines = [Line(f"{names[s.gpu]} {s.series}", s.verdict, s.mape_percent) for s in comparison.summaries]
    changes = baseline_changes(before, lines)
    if comparison.rows or chosen.form in ("table", "md"):
        click.echo(format_records(points, chosen.form))
    if chosen.form in ("table", "md"):
        click.echo("\n" + format_records(series, chosen.form))
        click.echo("\n" + format_records([_evidence(part) for part in by_evidence(comparison.rows)], chosen.form))
    print_changes(chosen, changes)
    write_reports(
        chosen,
        [
            JunitCase(
                s.series,
                f"gpusim.compare.{s.gpu}",
                s.verdict,
                s.reason,
                seconds=sum(row.seconds for row in comparison.rows if (row.gpu, row.series) == (s.gpu, s.series)),
            )
            for s in comparison.summaries
        ],
        f"{len(points)} points in {len(series)} series",
        [("Series", series), ("Points", points)],
        lines,
        changes,
    )
    code = _failure_code(comparison)
    if code:
        return code
    store_comparison(chosen, lines, (), {"points": points})
    return verdict_code(chosen, [s.verdict for s in comparison.summaries], changes)


def _record(summary: Summary) -> dict:
    return {
        "gpu": summary.gpu,
        "series": summary.series,
        "points": summary.points,
        "mape_percent": summary.mape_percent,
        "bias_percent": summary.bias_percent,
        "evidence": EVIDENCE[summary.fitted],
        "verdict": str(summary.verdict),
        "reason": summary.reason,
    }


def _evidence(part: Evidence) -> dict:
    return {
        "evidence": EVIDENCE[part.fitted],
        "series": part.series,
        "points": part.points,
        "mape_percent": part.mape_percent,
        **(
            {}
            if math.isnan(part.within_interval_percent)
            else {"within_interval_percent": part.within_interval_percent}
        ),
    }


def _failure_code(comparison: Comparison) -> int:
    """The exit code of what could not be simulated, 0 where all was; NoDataError for an empty comparison."""
    for (gpu, series), (_, message) in comparison.failures.items():
        click.echo(f"error: {gpu} {series}: {' '.join(message.split())}", err=True)
    if comparison.failures:
        return max(code for code, _ in comparison.failures.values())
    if not comparison.rows:
        raise NoDataError("nothing was compared")
    return 0
