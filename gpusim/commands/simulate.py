"""``gpusim simulate``: predicted cycles of a kernel of the suite or of trace files, and why; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.cases.names import refuse_unknown
from gpusim.cases.requests import sweep_points
from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, format_option, instruction_limit_option, set_option
from gpusim.commands.output_file import form_of, output_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.commands.sweep_options import PlotFile, gpus_option
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.silicon.methods import METHODS
from gpusim.store.run_names import checked_name


class PowerLimitWatts(click.ParamType):
    """Watts as a positive float; 0.0 stands for the board's own limit."""

    name = "watts|board"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if value == "board":
            return 0.0
        try:
            watts = float(str(value))
        except ValueError:
            watts = -1.0
        if not 0.0 < watts < 1e6:
            self.fail(f"{value!r} is neither a number of watts nor board", param, ctx)
        return watts


#: What ``--by`` may say; :data:`gpusim.commands.simulating.ATTRIBUTIONS` has them.
BY = ("instruction", "line")


@click.command(context_settings=HELP)
@click.argument("sources", nargs=-1, required=True, metavar="SOURCE...")
@gpus_option()
@set_option()
@click.option(
    "--warm",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Trace file whose effect on the caches precedes the simulation; may be repeated.",
)
@click.option(
    "--measured-by",
    type=click.Choice(tuple(METHODS)),
    help="Also say what a measuring method would report: the launches in the state in which it finds caches and L2, repeated, and what its clock"
    " reads besides them (two CUDA events: about 2 us).",
)
@click.option("--small", is_flag=True, help="Start from a kernel's small shape instead of its default.")
@click.option("--bounds", is_flag=True, help="Also print the least cycles that each unit needs (the speed of light).")
@click.option(
    "--by",
    type=click.Choice(BY),
    help="Also print stalls and memory work by SASS instruction or source line (all of them in JSON and CSV).",
)
@click.option(
    "--why",
    is_flag=True,
    help="Name what limits ramp, steady state and tail, and what would help: simulates again with each unit made free and "
    "with each remedy, so it takes ten to thirty times as long.",
)
@click.option(
    "--details",
    is_flag=True,
    help="Also print stalls, how busy each unit was, traffic and all counters (JSON and CSV always hold them).",
)
@click.option(
    "--sample",
    is_flag=True,
    help="Of large launches run and simulate a part, and say with what error: a few blocks where the others provably follow from"
    " them (the result is then not checked), waves until their throughput is steady, a few iterations of long loops.",
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
@click.option(
    "--plot",
    type=PlotFile(),
    help="Draw a sweep's times and rates over its first axis (.svg, .png or .pdf).",
)
@click.option(
    "--power-limit-watts",
    type=PowerLimitWatts(),
    help="Simulate again at the clock at which the mean power stays within so many watts, or within the board's limit: "
    "two to four times as long. Several SOURCEs share the clock, as launches of one loop do. Most energies are guesses.",
)
@click.option(
    "--power-gap-us",
    type=click.FloatRange(0.0, 1e9),
    default=0.0,
    show_default=True,
    help="With --power-limit-watts: so long the GPU is idle behind each launch, at what it takes at rest.",
)
@click.option(
    "--power-each",
    is_flag=True,
    help="With --power-limit-watts: each launch at a clock of its own, as if it alone were repeated for a tenth of a second.",
)
@instruction_limit_option()
@output_option()
@format_option(None)
@launch_options("sources")
@done_by("simulating")
def simulate(
    sources: tuple[str, ...],
    gpus: tuple[str, ...],
    settings: tuple[str, ...],
    warm: tuple[Path, ...],
    measured_by: str | None,
    small: bool,
    bounds: bool,
    by: str | None,
    why: bool,
    details: bool,
    sample: bool,
    timeline: Path | None,
    save: Path | None,
    save_run: str | None,
    plot: Path | None,
    power_limit_watts: float | None,
    power_gap_us: float,
    power_each: bool,
    instruction_limit: int,
    output: Path | None,
    form: str | None,
) -> None:
    """Predict how long SOURCEs take, how near which roof, bound by what, and what would help. A SOURCE is a trace file, a
    kernel of the suite as NAME[:axis=value,...], or a case of your own as FILE.py:FUNCTION[:parameter=value,...] (see
    `gpusim capture --help`), or a kernel of CUDA C++, PTX or machine code as FILE:KERNEL with its launch.

    A remedy's saving is simulated: the launch once more with the change made. Small runs get theirs at once, large
    ones with --why. JSON and CSV hold every counter, and remedies only with --why.

    Several sources run one after another on the same machine, so later ones find warm caches. The
    preparation launches of a suite kernel warm the caches and are not timed. Several values of an axis, or several GPUs,
    make a sweep: a row a point, each on a machine of its own. A case's own check is run (exit code 6 where it finds the
    result wrong).

    \b
    Examples:
      gpusim simulate saxpy:n=1000000 --gpu h200
      gpusim simulate saxpy:n=1Ki,64Ki,4Mi,block_threads=128,256 --gpu h200 --gpu a100_80gb --plot saxpy.svg
      gpusim simulate first.trace second.trace --gpu a100_80gb --format json
      gpusim simulate saxpy --gpu h200 --set l2.hit_latency_ns=60
      gpusim simulate cpp_wgmma_gemm:m=8192,n=8192,k=8192 --gpu h200 --sample --power-limit-watts board
      gpusim simulate cpp_wgmma_gemm gelu --gpu h200 --power-limit-watts 400 --power-gap-us 5
      gpusim simulate transpose --by line
      gpusim simulate softmax --details
      gpusim simulate my.py:saxpy_case:n=4096 --gpu h200 --by line
      gpusim simulate my.cu:saxpy --grid 4 --block 256 --arg int:1024 --arg float:2 --arg 'float[1024]=1' --arg 'float[1024]'
      gpusim simulate saxpy:n=16777216 --sample
      gpusim simulate saxpy --gpu rtx3090 --measured-by nvbench-cold
      gpusim simulate matmul_tiled --why --save result.json --timeline timeline.json.gz
      gpusim simulate softmax gelu --save-run before && gpusim regress before now
    """
    form_of(output, form)
    points = [point for text in sources for point in sweep_points(text)]
    sweep = len(points) > len(sources) or len(gpus) > 1
    if plot is not None and not sweep:
        raise UsageError(
            "--plot draws a sweep: give several values of an axis, as in saxpy:n=1Ki,1Mi, or several --gpu"
        )
    asked = {
        "--timeline": timeline, "--save": save, "--save-run": save_run, "--by": by, "--why": why, "--bounds": bounds,
        "--details": details, "--measured-by": measured_by,
    }  # fmt: skip
    if sweep and any(asked.values()):
        option = next(name for name, given in asked.items() if given)
        raise UsageError(f"{option} is for one run: give one value an axis and one --gpu")
    elsewhere = {
        "--warm": warm, "--why": why, "--timeline": timeline, "--save": save, "--save-run": save_run, "--bounds": bounds,
        "--power-limit-watts": power_limit_watts,
    }  # fmt: skip
    if measured_by is not None and (
        option := next((name for name, given in elsewhere.items() if given not in (None, False, ())), "")
    ):
        raise UsageError(f"--measured-by brings the caches into the method's state: {option} goes without it")
    refuse_no_place(timeline, save)
    if save_run is not None:
        checked_name(save_run)
    if sample and (timeline or save or save_run):
        raise UsageError(
            "--sample leaves blocks out: there is no whole run to keep; drop --timeline, --save, --save-run"
        )
    for gpu in gpus:
        override_gpu(load_gpu(gpu), settings)
    refuse_unknown([point.text for point in points], sweep=sweep)
