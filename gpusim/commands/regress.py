"""``gpusim regress``: old against new, launch by launch, and where the difference comes from."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import click

from gpusim.commands.options import HELP, Figure, format_option
from gpusim.compare.error import Verdict
from gpusim.errors import NoDataError, UsageError
from gpusim.io.whole_file import write_whole
from gpusim.regress import records
from gpusim.regress.explain import sentence, with_steps
from gpusim.regress.judge import judge
from gpusim.regress.open_comparand import DEFAULT_GPU, GpuRequest, open_comparands
from gpusim.regress.outcome import Outcome, Thresholds
from gpusim.regress.units import with_units
from gpusim.report.junit import JunitCase, junit_xml
from gpusim.report.markdown import markdown_comment
from gpusim.report.tables import format_records
from gpusim.store import open_store

REGRESSION, AMBIGUOUS = 1, 4
MOST_ROWS = 8
_DECIDED = (Verdict.FASTER, Verdict.SLOWER, Verdict.AMBIGUOUS)


@click.command(context_settings=HELP)
@click.argument("base")
@click.argument("head")
@click.option("--gpu", metavar="NAME", help=f"GPU of both sides: a name or TOML file.  [default: {DEFAULT_GPU}]")
@click.option("--base-gpu", metavar="NAME", help="GPU of BASE, instead of --gpu.")
@click.option("--head-gpu", metavar="NAME", help="GPU of HEAD, instead of --gpu.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Change a value of both sides' GPU.")
@click.option("--base-set", multiple=True, metavar="KEY=VALUE", help="Change a value of BASE's GPU.")
@click.option("--head-set", multiple=True, metavar="KEY=VALUE", help="Change a value of HEAD's GPU.")
@click.option("--small", is_flag=True, help="Start from a kernel's small shape instead of its default.")
@click.option("--kernel", "kernels", multiple=True, metavar="NAME", help="Compare only launches of this kernel.")
@click.option(
    "--tolerance",
    type=Figure(min=0),
    default=Thresholds.percent,
    show_default=True,
    metavar="PERCENT",
    help="Share of BASE up to which a difference is none.",
)
@click.option(
    "--tolerance-cycles",
    type=click.IntRange(min=0),
    default=Thresholds.cycles,
    show_default=True,
    metavar="CYCLES",
    help="Difference that is none, however large in percent.",
)
@click.option("--strict", is_flag=True, help="Exit 4 if a launch is AMBIGUOUS.")
@click.option("--details", is_flag=True, help="Explain launches that are SAME, too.")
@click.option("--junit", type=click.Path(dir_okay=False, path_type=Path), help="Also write the verdicts as JUnit XML.")
@click.option(
    "--markdown", type=click.Path(dir_okay=False, path_type=Path), help="Also write a comment for a pull request."
)
@format_option()
def regress(
    base: str, head: str, gpu: str | None, base_gpu: str | None, head_gpu: str | None, settings: tuple[str, ...],
    base_set: tuple[str, ...], head_set: tuple[str, ...], small: bool, kernels: tuple[str, ...], tolerance: float,
    tolerance_cycles: int, strict: bool, details: bool, junit: Path | None, markdown: Path | None, form: str,
) -> int:  # fmt: skip
    """Compare HEAD with BASE and say where the difference comes from.

    Each is a run kept with --save-run (its name or number), a result file of simulate --save, a trace, a
    folder of traces, a kernel of the suite as NAME[:axis=value,...], or a case in a file of your own as
    FILE.py:FUNCTION[:parameter=value,...]; `now` simulates the other side's run again. So an old kernel build is laid
    beside a new one, an old GPU description beside a new one, and an older gpusim beside this one.

    Cycles of the difference are split over stall reasons, source lines and instructions (aligned between the
    two builds) and, where the GPU changed, over its figures; each split adds up to the difference.

    Exit codes: 0 nothing is slower; 1 a launch is SLOWER; 3 a launch is missing on one side of what BASE has,
    or nothing was compared; 4 AMBIGUOUS under --strict.

    \b
    Examples:
      gpusim simulate softmax gelu --save-run before
      gpusim regress before now
      gpusim regress old.trace new.trace --gpu a100_80gb
      gpusim regress old/kernel.py:case new/kernel.py:case
      gpusim regress traces/main traces/branch --junit regress.xml --markdown comment.md
      gpusim regress saxpy saxpy --gpu h200 --head-set l2.hit_latency_ns=200
      gpusim regress transpose transpose --base-gpu a100_80gb --head-gpu h200
    """
    for path in (junit, markdown):
        if path is not None and not path.resolve().parent.is_dir():
            raise UsageError(f"there is no folder {path.parent} to write {path.name} into")

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
        write_whole(markdown, markdown_comment(f"gpusim regress {base} {head}", _overall(outcomes), tables).encode())
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
