"""``gpusim tune``: the fastest configuration of a kernel on a described GPU; the work."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from gpusim.cases.formulas import Formula
from gpusim.cases.native_names import is_native
from gpusim.cases.numbers import parse_integer
from gpusim.cases.requests import split_request
from gpusim.cases.suite import complete_shape
from gpusim.commands.output_file import form_of, open_output
from gpusim.commands.tune import metrics_of
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.tables import format_records
from gpusim.search.found import Tuned
from gpusim.search.tune import tune as search

#: Configurations that a table shows; other forms have all.
MOST_SHOWN = 20


def tune(
    source: str,
    gpu: str,
    settings: tuple[str, ...],
    restrict: tuple[str, ...],
    metrics: tuple[str, ...],
    exact: int | None,
    sample: bool,
    jobs: int,
    keep: Path | None,
    cache: Path | None,
    t4: Path | None,
    output: Path | None,
    form: str | None,
) -> None:
    """What :func:`gpusim.commands.tune.tune` declares, with its arguments."""
    form = form_of(output, form)
    spec = override_gpu(load_gpu(gpu), settings)
    case, space, fixed = case_and_space(source, spec)
    with contextlib.redirect_stdout(sys.stderr):  # what a kernel or a case prints is not the answer
        found = search(
            case, space, gpu=spec, restrict=[Formula(each, fixed) for each in restrict], metrics=metrics_of(metrics, fixed),
            exact=exact, sample=sample, jobs=jobs, keep=keep,
        )  # fmt: skip
    click.echo(str(found), err=form != "table" or output is not None)
    rows = _rows(found)
    with open_output(output) as write:
        write(format_records(rows[:MOST_SHOWN] if form == "table" else rows, form))
    if form == "table" and len(rows) > MOST_SHOWN:
        click.echo(f"{len(rows) - MOST_SHOWN} more: --format csv prints all", err=True)
    for path, written in ((cache, found.write_cache), (t4, found.write_t4)):
        if path is not None:
            written(path)
            click.echo(f"written to {path}", err=True)


def case_and_space(source: str, spec: GpuSpec) -> tuple[str, dict[str, list[Any]], dict[str, Any]]:
    """The request of the axes that stay, the values of the others, and those of the former, each as its kernel takes
    it."""
    name, shape = split_request(source)
    first = {axis: values[0] for axis, values in shape.items()}

    def taken(axis: str, value: Any) -> Any:
        return _number(name, complete_shape(name, {**first, axis: value}, spec)[axis])

    space = {axis: [taken(axis, value) for value in values] for axis, values in shape.items() if len(values) > 1}
    fixed = {axis: values[0] for axis, values in shape.items() if len(values) == 1}
    stays = ",".join(f"{axis}={value}" for axis, value in fixed.items())
    return f"{name}:{stays}" if stays else name, space, {axis: taken(axis, value) for axis, value in fixed.items()}


def _number(name: str, value: Any) -> Any:
    """``value``; of a launch that the command line describes, whose axes are texts, as the number that it writes."""
    if not is_native(name) or not isinstance(value, str):
        return value
    try:
        return parse_integer(value)
    except ValueError:
        return value


def _rows(found: Tuned) -> list[dict[str, Any]]:
    """A row a configuration, all with the same columns, without those in which none has anything."""
    rows = []
    for row in found.rows:
        ends = (row.time_us / row.factor, row.time_us * row.factor) if row.time_us and row.factor else ("", "")
        measures = found.measures(row)
        rows.append(
            {
                **row.parameters,
                "time_us": "" if row.time_us is None else row.time_us,
                "time_us_low": ends[0],
                "time_us_high": ends[1],
                **{name: measures.get(name, "") for name in found.metrics},
                "stage": row.stage if row.time_us is not None else "",
                "left_out": row.why,
            }
        )
    kept = [name for name in rows[0] if any(row[name] != "" for row in rows)]
    return [{name: row[name] for name in kept} for row in rows]
