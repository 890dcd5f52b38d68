"""``gpusim regress``: old against new, launch by launch, and where the difference comes from; the work."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import click

from gpusim.compare.error import Verdict
from gpusim.errors import NoDataError
from gpusim.io.whole_file import write_whole
from gpusim.regress import records
from gpusim.regress.explain import sentence, with_steps
from gpusim.regress.judge import judge
from gpusim.regress.open_comparand import GpuRequest, open_comparands
from gpusim.regress.outcome import Outcome
from gpusim.regress.thresholds import Thresholds
from gpusim.regress.units import with_units
from gpusim.report.junit import JunitCase, junit_xml
from gpusim.report.markdown import markdown_comment
from gpusim.report.tables import format_records
from gpusim.store import open_store

REGRESSION, AMBIGUOUS = 1, 4
MOST_ROWS = 8
_DECIDED = (Verdict.FASTER, Verdict.SLOWER, Verdict.AMBIGUOUS)


def regress(
    base: str, head: str, gpu: str | None, base_gpu: str | None, head_gpu: str | None, settings: tuple[str, ...],
    base_set: tuple[str, ...], head_set: tuple[str, ...], small: bool, kernels: tuple[str, ...], tolerance: float,
    tolerance_cycles: int, strict: bool, details: bool, junit: Path | None, markdown: Path | None, form: str,
) -> int:  # fmt: skip
    """What :func:`gpusim.commands.regress.regress` declares, with its arguments."""

    machines = (
        GpuRequest(base_gpu or gpu, _over(settings, base_set)),
        GpuRequest(head_gpu or gpu, _over(settings, head_set)),
    )
    with open_store() as store:
        sides = open_comparands(base, head, machines, store, small=small)
    outcomes = [o for o in judge(*sides, Thresholds(tolerance, tolerance_cycles)) if not kernels or o.kernel in kernels]
    if not outcomes:
        raise NoDataError(
            f"nothing to compare: {base} and {head} have no launch" + (" of that kernel" if kernels else "")
        )
    outcomes = [with_units(with_steps(o)) if details or o.verdict in _DECIDED else o for o in outcomes]
    _print(outcomes, form, details)
    explained = [o for o in outcomes if o.verdict in _DECIDED]
    if junit is not None:
        cases = [
            JunitCase(
                o.name,
                f"{base} to {head}.{o.gpu}",
                str(o.verdict),
                o.reason,
                _text(o),
                seconds=sum(item.seconds for item in o.items or ()),
            )
            for o in outcomes
        ]
        write_whole(junit, junit_xml("gpusim regress", cases))
    if markdown is not None:
        tables = [("Verdicts", records.short_records(outcomes))]
        tables += [(f"{o.name}: {h}", r) for o in explained for h, r in _tables(o)]
        title, said = (
            f"gpusim regress {base} {head}",
            [sentence(o) for o in sorted(explained, key=lambda o: o.verdict != Verdict.SLOWER)],
        )
        write_whole(markdown, markdown_comment(title, _overall(outcomes), tables, said).encode())
    return _exit_code(outcomes, strict)


def _print(outcomes: Sequence[Outcome], form: str, details: bool) -> None:
    if form == "json":
        click.echo(json.dumps(records.document(outcomes), indent=2, allow_nan=False))
        return
    if form == "csv":
        click.echo(format_records(records.headline_records(outcomes), form))
        return
    click.echo(format_records(records.short_records(outcomes), form))
    for outcome in outcomes:
        if details or outcome.verdict in _DECIDED:
            click.echo("\n" + sentence(outcome))
            for _, table in _tables(outcome):
                click.echo("\n" + format_records(table, form))
    click.echo("\n" + _overall(outcomes))


def _tables(outcome: Outcome) -> list[tuple[str, list[dict]]]:
    """(heading, records) of what explains an outcome, without empty ones."""
    tables = [
        ("cycles by figure of the GPU", records.step_table(outcome, MOST_ROWS)),
        ("cycles by stall reason", [r for r in records.stall_records(outcome) if r["cycles"]]),
        ("cycles by source line", records.line_table(outcome, MOST_ROWS)),
        ("cycles by instruction", records.instruction_records(outcome, MOST_ROWS)),
        ("least cycles by unit", records.unit_records(outcome)),
        ("counters", records.counter_records(outcome, records.COUNTER_PERCENT, MOST_ROWS)),
    ]
    return [(heading, table) for heading, table in tables if table]


def _text(outcome: Outcome) -> str:
    parts = [sentence(outcome)] + [format_records(table, "table") for _, table in _tables(outcome)]
    return "\n\n".join(parts)


def _overall(outcomes: Sequence[Outcome]) -> str:
    """How many of each verdict, and the geometric mean of the ratios."""
    counts = {verdict: sum(o.verdict == verdict for o in outcomes) for verdict in Verdict}
    text = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    ratios = [o.head / o.base for o in outcomes if o.base and o.head]
    if not ratios:
        return f"{text}; nothing could be compared."
    mean = math.exp(math.fsum(map(math.log, ratios)) / len(ratios))
    return f"{text}; geometric mean of new over old {mean:.4f}."


def _exit_code(outcomes: Sequence[Outcome], strict: bool) -> int:
    verdicts = {o.verdict for o in outcomes}
    if Verdict.SLOWER in verdicts:
        return REGRESSION
    if any(o.verdict == Verdict.NO_DATA and o.base is not None for o in outcomes) or verdicts == {Verdict.NO_DATA}:
        missing = [o.name for o in outcomes if o.verdict == Verdict.NO_DATA]
        raise NoDataError(f"{len(missing)} of {len(outcomes)} launches could not be compared: {', '.join(missing[:3])}")
    return AMBIGUOUS if strict and Verdict.AMBIGUOUS in verdicts else 0


def _over(both: tuple[str, ...], own: tuple[str, ...]) -> tuple[str, ...]:
    """The settings of both sides, with a side's own in place of those that set the same key."""
    keys = {setting.partition("=")[0].strip() for setting in own}
    return (*(setting for setting in both if setting.partition("=")[0].strip() not in keys), *own)
