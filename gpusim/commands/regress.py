"""``gpusim regress``: old against new, launch by launch, and where the difference comes from; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, Figure, format_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.gpus.load import load_gpu
from gpusim.regress.side_names import refuse_unknown_sides
from gpusim.regress.thresholds import DEFAULT_GPU, Thresholds


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
@launch_options("base", "head")
@done_by("regressing")
def regress(
    base: str, head: str, gpu: str | None, base_gpu: str | None, head_gpu: str | None, settings: tuple[str, ...],
    base_set: tuple[str, ...], head_set: tuple[str, ...], small: bool, kernels: tuple[str, ...], tolerance: float,
    tolerance_cycles: int, strict: bool, details: bool, junit: Path | None, markdown: Path | None, form: str,
) -> None:  # fmt: skip
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
    refuse_no_place(junit, markdown)
    for machine in (gpu, base_gpu, head_gpu):
        if machine is not None:
            load_gpu(machine)
    refuse_unknown_sides((base, head))
