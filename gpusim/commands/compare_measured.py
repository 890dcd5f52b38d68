"""``gpusim compare --against recorded|silicon|FILE|RUN``: rows of measured launches, simulated one by one."""

from __future__ import annotations

import importlib
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from gpusim.cases.names import is_reference
from gpusim.cases.native_names import is_native
from gpusim.cases.run_case import unchecked_kernels
from gpusim.cases.suite import find_kernel
from gpusim.commands.compare import refuse_no_measurements
from gpusim.commands.compare_options import (
    CompareOptions,
    baseline_changes,
    lasting_names,
    print_changes,
    read_baseline,
    store_comparison,
    titled,
    verdict_code,
    write_reports,
)
from gpusim.commands.unchecked import tell_unchecked
from gpusim.compare.baseline import Change, Line
from gpusim.compare.error import Verdict
from gpusim.compare.judge import Tolerance
from gpusim.compare.known_error import known_errors
from gpusim.compare.measured import MeasuredComparison, Request, compare_rows, parse_requests
from gpusim.errors import NoDataError, ToolchainError, UsageError, WrongResultError
from gpusim.explore.named_suites import expand_suites
from gpusim.gpus.load import built_in_of, load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.io.progress import say, task
from gpusim.io.whole_file import write_whole
from gpusim.report import comparison as report
from gpusim.report.junit import JunitCase
from gpusim.report.tables import format_records
from gpusim.silicon.imports import read_rows
from gpusim.silicon.recorded import load_recorded
from gpusim.silicon.row import SiliconRow
from gpusim.store import open_store

try:
    from gpusim.measure.cuda_driver import CudaDriver
    from gpusim.measure.run import MeasureOptions, MeasureRequest, measure_cases
except ImportError:  # no CUDA packages (macOS): traces and recorded rows are compared all the same
    CudaDriver = None

#: Time to measure each launch in, cold and warm.
MEASURE_SECONDS_EACH = 5.0


def run(chosen: CompareOptions) -> int:
    """Compare, print, store_comparison; the exit code."""
    requests = parse_requests(expand_suites(chosen.kernels), {})
    for kernel, _ in requests:
        if not is_reference(kernel) and not is_native(kernel):
            find_kernel(kernel)  # a slip of the pen is found before anything runs
    specs = [(override_gpu(load_gpu(gpu), chosen.settings), built_in_of(gpu)) for gpu in chosen.gpus]
    rows = measured_rows(chosen, requests, [name for _, name in specs])
    before = read_baseline(chosen)
    comparisons = []
    for spec, name in specs:
        comparisons.append(
            compare_rows(
                requests,
                rows,
                spec,
                measured_as=name,
                keeps_clock=spec.clock_hz == load_gpu(name).clock_hz,
                tolerance=Tolerance(chosen.tolerance, chosen.tolerance_cycles),
                known_error=known_errors(name),
                why=chosen.why,
                progress=say,
            )
        )
    tell_unchecked(unchecked_kernels(dict.fromkeys(kernel for kernel, _ in requests), specs[0][0]))
    names = lasting_names([(spec.name, name) for spec, name in specs])
    lines = [line for c in comparisons for line in report.comparison_lines(c, names[c.gpu])]
    changes = baseline_changes(before, lines)
    _print(chosen, comparisons, changes)
    print_changes(chosen, changes)
    _write(chosen, comparisons, lines, changes)
    _write_page(chosen, comparisons)
    for comparison in comparisons:
        for missing in comparison.uncompared:
            if missing.exit_code:
                click.echo(f"error: {missing.gpu} {missing.name}: {missing.reason}", err=True)
    if not any(comparison.judged for comparison in comparisons):
        codes = {missing.exit_code for comparison in comparisons for missing in comparison.uncompared}
        is_wrong = WrongResultError.exit_code in codes
        raise (WrongResultError if is_wrong else NoDataError)(_nothing(comparisons))
    store_comparison(chosen, lines, rows, {"comparisons": [report.comparison_document(c) for c in comparisons]})
    failed = max((m.exit_code for c in comparisons for m in c.uncompared), default=0)
    verdicts = [e.verdict for c in comparisons for e in c.entries]
    return failed or verdict_code(chosen, verdicts, changes)


def measured_rows(chosen: CompareOptions, requests: Sequence[Request], gpus: Sequence[str]) -> list[SiliconRow]:
    """The rows that ``--against`` names. Raises NoDataError where there are none."""
    if chosen.against == "recorded":
        rows = load_recorded()
        if not rows:
            raise NoDataError(
                "no rows of real GPUs have been recorded yet: record some with tools/record_silicon.py on one"
            )
        return rows
    if chosen.against == "silicon":
        return _measure(requests, gpus)
    refuse_no_measurements(chosen.against)
    path = Path(chosen.against)
    if path.is_file():
        rows = read_rows(path)
    else:
        with open_store() as store:
            rows = list(store.load_run(chosen.against).measurements)
    if not rows:
        raise NoDataError(f"{chosen.against} holds no measured row")
    return rows


def _measure(requests: Sequence[Request], gpus: Sequence[str]) -> list[SiliconRow]:
    """Time the launches on the GPU of this machine, now."""
    if CudaDriver is None:
        raise ToolchainError("measuring a GPU needs Numba's CUDA target: pip install 'numba-cuda[cu13]' (Linux)")
    if len(gpus) > 1:
        raise UsageError(f"--against silicon measures one GPU, the one here: give one --gpu, not {len(gpus)}")
    if not requests:
        raise UsageError("--against silicon needs to know what to measure: name suites or kernels")
    work = [MeasureRequest(kernel, dict(shape or {})) for kernel, shape in requests]
    options = MeasureOptions(budget_seconds=MEASURE_SECONDS_EACH * len(work), gpu=gpus[0])
    with CudaDriver() as driver:
        rows = list(measure_cases(driver, work, options, say))
    if not rows:
        raise NoDataError(
            "nothing could be measured within its time; measure with `gpusim measure --budget` and compare the file"
        )
    return rows


def _print(chosen: CompareOptions, comparisons: Sequence[MeasuredComparison], changes: Sequence[Change] | None) -> None:
    if chosen.form == "json":
        document: dict[str, Any] = {
            "against": chosen.against,
            "comparisons": [report.comparison_document(c) for c in comparisons],
        }
        if changes is not None:
            document.update(baseline=chosen.baseline, changes=report.change_documents(changes))
        click.echo(json.dumps(document, indent=2, allow_nan=False))
        return
    if chosen.form == "csv":
        click.echo(format_records([report.entry_record(e) for c in comparisons for e in c.entries], "csv"))
        return
    shown = [titled(title, records, chosen.form) for title, records in _tables(comparisons) if records]
    sentences = [c.gap.sentence for c in comparisons if c.gap is not None]
    click.echo("\n\n".join([*shown, *sentences]))


def _tables(comparisons: Sequence[MeasuredComparison]) -> list[tuple[str, list[dict]]]:
    tables = [("Overall", report.overall_records(comparisons))]
    for c in comparisons:
        tables += [
            (f"Launches on {c.gpu}", report.launch_records(c)),
            (f"Furthest off on {c.gpu}", report.worst_records(c)),
            (f"Where the cycles of {c.gpu} go astray", report.term_records(c)),
            (f"Gaps on {c.gpu} by what warps wait for", report.stall_gap_records(c)),
            (f"Counters that differ on {c.gpu}", report.counter_records(c)),
            (f"Findings on {c.gpu}", report.finding_records(c)),
            (f"Not compared on {c.gpu}", report.uncompared_records(c)),
        ]
    return tables


def _write(
    chosen: CompareOptions,
    comparisons: Sequence[MeasuredComparison],
    lines: Sequence[Line],
    changes: Sequence[Change] | None,
) -> None:
    cases = [
        JunitCase(
            f"{e.name} ({e.cache}, {e.method})",
            f"gpusim.compare.{e.gpu}",
            e.verdict,
            e.judgement.reason,
            "\n".join(filter(None, (e.finding, e.note))),
            seconds=e.seconds,
        )
        for c in comparisons
        for e in c.entries
    ]
    cases += [
        JunitCase(u.name, f"gpusim.compare.{u.gpu}", u.verdict, u.reason, "") for c in comparisons for u in c.uncompared
    ]
    summary = "; ".join(
        f"{c.gpu}: {report.verdict_counts(c)}"
        + (f"; mean error {c.overall.mape_percent:.1f} %" if c.judged else "")
        + (f", rank correlation {c.overall.spearman:.3f}" if math.isfinite(c.overall.spearman) else "")
        + (f". {c.gap.sentence}" if c.gap is not None else "")
        for c in comparisons
    )
    write_reports(chosen, cases, summary, [table for table in _tables(comparisons) if table[1]], lines, changes)


def _write_page(chosen: CompareOptions, comparisons: Sequence[MeasuredComparison]) -> None:
    if chosen.page is not None:
        # Imported by name: drawing needs an extra, and Matplotlib takes half a second, both only of who asks for a
        # page.
        page = importlib.import_module("gpusim.report.comparison_page")
        documents = [report.comparison_document(c) for c in comparisons]
        with task(f"drawing {chosen.page.name}"):
            write_whole(chosen.page, page.render_comparison(documents, chosen.against).encode())


def _nothing(comparisons: Sequence[MeasuredComparison]) -> str:
    reasons = [f"{u.name}: {u.reason}" for c in comparisons for u in c.uncompared]
    reasons += [
        f"{e.name}: {e.judgement.reason}" for c in comparisons for e in c.entries if e.verdict == Verdict.NO_DATA
    ]
    return "nothing could be compared: " + ("; ".join(reasons[:3]) or "no row was asked for")
