"""``gpusim tune``: the fastest configuration of a kernel on a described GPU; how it is called."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from gpusim.cases.formulas import Formula
from gpusim.cases.names import refuse_unknown
from gpusim.cases.numbers import NO_RANGE, is_range
from gpusim.cases.requests import split_request
from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, format_option, gpu_option, set_option
from gpusim.commands.output_file import form_of, output_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu


def metrics_of(texts: tuple[str, ...], fixed: Mapping[str, Any] | None = None) -> dict[str, Formula]:
    """Formulas of ``NAME=FORMULA`` by their names; ``fixed``: the axes that stay. Raises UsageError."""
    found = {}
    for text in texts:
        name, equals, formula = text.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--metric {text!r}: write NAME=FORMULA, as in 'gflops=2*n**3/time/1e6'")
        found[name.strip()] = Formula(formula, fixed)
    return found


@click.command(context_settings=HELP)
@click.argument("source", metavar="SOURCE")
@gpu_option(instead=": tune for one after the other")
@set_option()
@click.option(
    "--restrict",
    multiple=True,
    metavar="FORMULA",
    help="Which combinations count: 'block_x * block_y <= 1024'; several must all hold.",
)
@click.option(
    "--metric",
    "metrics",
    multiple=True,
    metavar="NAME=FORMULA",
    help="A figure of each configuration, of its axes and time, in milliseconds: 'gflops=2*4096**3/time/1e6'.",
)
@click.option(
    "--exact",
    type=click.IntRange(min=0),
    metavar="N",
    help="Simulate so many of those predicted best whole, 0: rank by parts alone.  [default: those that may be the fastest]",
)
@click.option(
    "--sample",
    is_flag=True,
    help="Of launches that provably repeat themselves run and simulate a part: for sizes too large to run whole. Results are"
    " then not checked.",
)
@click.option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Worker processes.")
@click.option(
    "--keep",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep predictions in this file as they are made, and go on from those that it holds.",
)
@click.option(
    "--cache", type=click.Path(dir_okay=False, path_type=Path), help="Also write a cache file of Kernel Tuner."
)
@click.option("--t4", type=click.Path(dir_okay=False, path_type=Path), help="Also write results in the T4 format.")
@output_option()
@format_option(None)
@launch_options("source")
@done_by("tuning")
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
    """Find the configuration of SOURCE that takes least time on a described GPU. SOURCE is a case of your own,
    FILE.py:FUNCTION:axis=value,value,..., a kernel of CUDA C++ with its launch, FILE.cu:KERNEL:axis=value,value,..., or a
    kernel of the suite. Axes with several values are searched, all combinations of them; the others stay.

    Every configuration is predicted from a part of its grid, those near the best are simulated whole. What the GPU
    refuses, or a case's own check finds wrong, is left out with its reason.

    \b
    Examples:
      gpusim tune my.py:conv_case:n=4096,block_x=16,32,64,block_y=2,4,8,tile=1,2,4 --gpu a100_80gb --restrict 'block_x*block_y>=64'
      gpusim tune "my.cu:copy:n=1Mi,block=64,128,256,each=1,2,4" --grid "cdiv(n,block*each)" --option=-DEACH={each} --arg "float[n]" --arg "float[n]" --arg int:n
      gpusim tune my.py:conv_case:n=16384,block_x=16,32 --sample --keep search.jsonl --cache a100.json --jobs 2
    """
    form_of(output, form)
    refuse_no_place(keep, cache, t4)
    for each in restrict:
        Formula(each)
    metrics_of(metrics)
    override_gpu(load_gpu(gpu), settings)
    name, shape = split_request(source)
    first = ",".join(f"{axis}={values[0]}" for axis, values in shape.items())
    refuse_unknown([f"{name}:{first}" if first else name], sweep=True)
    if ranges := [f"{axis}={value}" for axis, values in shape.items() for value in values if is_range(value)]:
        raise UsageError(f"{name}: {ranges[0]} {NO_RANGE}")
    if all(len(values) < 2 for values in shape.values()):
        raise UsageError(f"{source} has nothing to search: give an axis several values, {name}:block=64,128,256")
