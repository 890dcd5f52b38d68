"""What was asked of ``gpusim compare``, and what both of its halves do at the end: baseline, reports, exit code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from gpusim.compare.baseline import Change, Line, against_baseline, kept_lines, lines_document
from gpusim.compare.error import Verdict
from gpusim.errors import NoDataError
from gpusim.io.whole_file import write_whole
from gpusim.report.comparison import change_records
from gpusim.report.junit import JunitCase, junit_xml
from gpusim.report.markdown import markdown_comment
from gpusim.report.tables import format_records
from gpusim.silicon.row import SiliconRow
from gpusim.store import open_store
from gpusim.store.run_names import checked_name

DIVERGENCE, AMBIGUOUS = 1, 4
DOCUMENT = "comparison"


@dataclass(frozen=True)
class CompareOptions:
    """The options, checked and named as on the command line."""

    kernels: tuple[str, ...]
    gpus: tuple[str, ...]
    against: str
    settings: tuple[str, ...]
    tolerance: float
    tolerance_cycles: float
    why: bool
    check: bool
    strict: bool
    save: str
    baseline: str
    junit: Path | None
    markdown: Path | None
    page: Path | None
    form: str


def lasting_names(machines: Sequence[tuple[str, str]]) -> dict[str, str]:
    """What a baseline calls each machine, of (name, built-in GPU that it starts from): the built-in GPU, so that a
    changed description meets the old one's lines; its own name where several start from the same."""
    built_in = [name for _, name in machines]
    return {own: name if built_in.count(name) == 1 else own for own, name in machines}


def read_baseline(chosen: CompareOptions) -> list[Line] | None:
    """The lines of ``--baseline``, None without; a store that ``--save`` could not write to fails here too, before the
    work."""
    if chosen.save:
        checked_name(chosen.save)
        with open_store() as store:
            store.prepare()
    if not chosen.baseline:
        return None
    with open_store() as store:
        kept = store.load_run(chosen.baseline)
    if DOCUMENT not in kept.documents:
        raise NoDataError(
            f"run {chosen.baseline!r} holds no comparison; make one with gpusim compare --save {chosen.baseline}"
        )
    return kept_lines(kept.documents[DOCUMENT], f"run {chosen.baseline!r}")


def baseline_changes(before: Sequence[Line] | None, lines: Sequence[Line]) -> list[Change] | None:
    """Today's lines against those that :func:`read_baseline` gave; None without ``--baseline``."""
    return None if before is None else against_baseline(lines, before)


def store_comparison(
    chosen: CompareOptions, lines: Sequence[Line], rows: Sequence[SiliconRow], document: dict[str, Any]
) -> None:
    """Keep the comparison, and the measurements that it is of, under ``--save``."""
    if not chosen.save:
        return
    with open_store() as store, store.new_run(chosen.save, command="compare", arguments=sys.argv[1:]) as run:
        run.add_measurements(rows)
        run.add_document(DOCUMENT, {"lines": lines_document(lines), **document})
    click.echo(f"kept as run {chosen.save!r}", err=True)


def write_reports(
    chosen: CompareOptions,
    cases: Sequence[JunitCase],
    summary: str,
    tables: Sequence[tuple[str, list[dict[str, Any]]]],
    lines: Sequence[Line],
    changes: Sequence[Change] | None,
) -> None:
    """``--junit`` and ``--markdown``, each whole or not at all. The first ``cases`` are those of ``lines``, in their
    order; with a baseline a case fails only if it is worse than there, as the exit code has it."""
    if changes is not None:
        told = {change.key: change for change in changes}
        of_lines = [_against(case, told[line.key]) for case, line in zip(cases, lines, strict=False)]
        cases = [*of_lines, *cases[len(lines) :]]
        summary += f"; {sum(change.worse for change in changes)} worse than the baseline {chosen.baseline}"
        tables = [(_changes_title(chosen), change_records(changes)), *tables]
    if chosen.junit is not None:
        write_whole(chosen.junit, junit_xml("gpusim compare", cases, fail_on=frozenset({Verdict.FASTER})))
    if chosen.markdown is not None:
        text = markdown_comment(f"gpusim compare: {', '.join(chosen.gpus)} against {chosen.against}", summary, tables)
        write_whole(chosen.markdown, text.encode())


def _against(case: JunitCase, change: Change) -> JunitCase:
    return replace(case, known=not change.worse, message=f"{case.message}; against the baseline: {change.reason}")


def _changes_title(chosen: CompareOptions) -> str:
    return f"Against the baseline {chosen.baseline}"


def print_changes(chosen: CompareOptions, changes: Sequence[Change] | None) -> None:
    """The table of changes, where data is for the eye."""
    if changes and chosen.form in ("table", "md"):
        click.echo(f"\n{titled(_changes_title(chosen), change_records(changes), chosen.form)}")


def titled(title: str, records: list[dict[str, Any]], form: str) -> str:
    """A table (or Markdown) under its title."""
    return f"{'### ' if form == 'md' else ''}{title}\n\n{format_records(records, form)}"


def verdict_code(chosen: CompareOptions, verdicts: Sequence[Verdict], changes: Sequence[Change] | None) -> int:
    """0, 1 or 4, as ``--check``, ``--strict`` and ``--baseline`` say."""
    if changes is not None:
        diverged = any(change.worse for change in changes)
    else:
        diverged = any(verdict in (Verdict.FASTER, Verdict.SLOWER) for verdict in verdicts)
    if chosen.check and diverged:
        return DIVERGENCE
    return AMBIGUOUS if chosen.strict and Verdict.AMBIGUOUS in verdicts else 0
