"""``gpusim simulate``: predicted cycles of a kernel of the suite or of trace files, and why; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.cases.names import refuse_unknown
from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option, gpu_option, set_option
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu

#: What ``--by`` may say; :data:`gpusim.commands.simulating.ATTRIBUTIONS` has them.
BY = ("instruction", "line")


@click.command(context_settings=HELP)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@gpu_option()
@set_option()
@click.option(
    "--warm",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Trace file whose effect on the caches precedes the simulation; may be repeated.",
)
@click.option("--small", is_flag=True, help="Start from a kernel's small shape instead of its default.")
@click.option("--bounds", is_flag=True, help="Also print the least cycles that each unit needs (the speed of light).")
@click.option(
    "--by",
    type=click.Choice(BY),
    help="Also print stalls and memory work by SASS instruction or source line (all of them in JSON and CSV).",
)
@click.option("--why", is_flag=True, help="Name what limits it, and simulate again with each unit made free.")
@click.option(
    "--sample",
    is_flag=True,
    help="Leave out the middle of launches of many blocks once their throughput is steady, and say with what error.",
)
@click.option(
    "--timeline",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write blocks, warp states and bandwidth over time as a Chrome trace (ui.perfetto.dev); .gz compresses.",
)
@click.option(
    "--save",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the result as JSON, for `gpusim report`.",
)
@click.option(
    "--save-run",
    metavar="NAME",
    help="Keep the run in the store under NAME, for `gpusim regress` and `gpusim runs`.",
)
@format_option()
@done_by("simulating")
def simulate(
    sources: tuple[str, ...],
    gpu: str,
    settings: tuple[str, ...],
    warm: tuple[Path, ...],
    small: bool,
    bounds: bool,
    by: str | None,
    why: bool,
    sample: bool,
    timeline: Path | None,
    save: Path | None,
    save_run: str | None,
    form: str,
) -> None:
    """Predict the cycles of SOURCEs: trace files, kernels of the suite as NAME[:axis=value,...], or a case of your own
    as FILE.py:FUNCTION[:parameter=value,...] (see `gpusim capture --help`).

    Several sources run one after another on the same machine, so later ones find warm caches. The
    preparation launches of a suite kernel warm the caches and are not timed.

    \b
    Examples:
      gpusim simulate saxpy:n=1000000 --gpu h200
      gpusim simulate first.trace second.trace --gpu a100_80gb --format json
      gpusim simulate saxpy --gpu h200 --set l2.hit_latency_ns=60
      gpusim simulate transpose --by line
      gpusim simulate my.py:saxpy_case:n=4096 --gpu h200 --by line
      gpusim simulate saxpy:n=16777216 --sample
      gpusim simulate matmul_tiled --why --save result.json --timeline timeline.json.gz
      gpusim simulate softmax gelu --save-run before && gpusim regress before now
    """
    for path in (timeline, save):
        if path is not None and not path.parent.is_dir():  # before the work, not after it
            raise UsageError(f"there is no folder {path.parent} to write {path.name} into")
    if sample and (timeline or save or save_run):
        raise UsageError(
            "--sample leaves blocks out: there is no whole run to keep; drop --timeline, --save, --save-run"
        )
    override_gpu(load_gpu(gpu), settings)
    refuse_unknown(sources)
