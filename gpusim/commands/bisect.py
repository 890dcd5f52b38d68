"""``gpusim bisect``: which commit, compiler version or figure of a GPU changed what a case costs; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, Figure, format_option
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu

_FOLDER = click.Path(file_okay=False, path_type=Path)


@click.command(context_settings=HELP)
@click.argument("case", required=False, default="")
@click.option("--good", metavar="REV", help="A commit (or version) with the old cost.")
@click.option(
    "--bad", metavar="REV", help="One with the new cost; older than GOOD where the commit that mended it is looked for."
)
@click.option(
    "--repo",
    default=Path(),
    type=_FOLDER,
    metavar="DIR",
    help="The repository whose commits are run.  [default: this folder]",
)
@click.option(
    "--build",
    default="",
    metavar="COMMAND",
    help="Run this in each checkout first; where it fails, the commit has no value.",
)
@click.option(
    "--python",
    default="",
    metavar="FILE",
    help="The interpreter that runs the commits, with gpusim installed.  [default: this one]",
)
@click.option(
    "--python-path",
    multiple=True,
    metavar="DIR",
    help="A folder of the checkout from which cases import; may be repeated.",
)
@click.option("--toolchain", metavar="TOOL=VERSIONS", help="In place of commits: versions of ptxas, nvrtc, a package that compiles (triton), or python=OLD,NEW "
              "(interpreters); as FIRST..LAST or a list.")  # fmt: skip
@click.option("--toolchains", multiple=True, type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR",
              help="A folder with installed versions, one or several; may be repeated.")  # fmt: skip
@click.option(
    "--install",
    is_flag=True,
    help="Also take the versions that pip finds; those that are needed are installed into the cache folder.",
)
@click.option(
    "--compile-only", is_flag=True, help="Of --toolchain ptxas or nvrtc: look at the machine code, run nothing."
)
@click.option(
    "--gpu-file",
    nargs=2,
    metavar="GOOD BAD",
    help="In place of commits: two GPUs, names or files. Finds the fewest figures that make the difference.",
)
@click.option(
    "--gpu",
    default="h200",
    show_default=True,
    metavar="NAME",
    help="The GPU that commits and versions are simulated on.",
)
@click.option("--small", is_flag=True, help="Start from a kernel's small shape instead of its default.")
@click.option("--metric", metavar="NAME", help="cycles, us, registers; with --compile-only local_store_bytes, local_load_bytes, stack_bytes, registers, "
              "shared_bytes, instructions, code.  [default: cycles; with --compile-only the first of these that differs]")  # fmt: skip
@click.option(
    "--threshold",
    type=Figure(min=0),
    metavar="PERCENT",
    help="A value is bad that is this much beyond GOOD's.  [default: half way to BAD's]",
)
@click.option(
    "--limit", type=Figure(), metavar="VALUE", help="A value is bad that is beyond this one, seen from GOOD's."
)
@click.option("--exact", is_flag=True, help="A value is bad that is not GOOD's very value.")
@click.option("--all", "all_steps", is_flag=True, help="Find each step between points that differ, not one.")
@click.option("--every", is_flag=True, help="Run every point, so that changes which cancel out are seen, too.")
@click.option("--most-runs", type=click.IntRange(min=2), metavar="N", help="Read no more points than this.")
@click.option(
    "--timeout",
    type=Figure(min=0, min_open=True),
    default=3600.0,
    show_default=True,
    metavar="SECONDS",
    help="What a build or a point may take.",
)
@click.option(
    "--measured",
    nargs=2,
    metavar="BEFORE AFTER",
    help="Rows of `gpusim measure` on both sides of the step: files or stored runs.",
)
@click.option(
    "--cubins",
    type=_FOLDER,
    metavar="DIR",
    help="Of --toolchain ptxas or nvrtc: write both sides' machine code there, for `gpusim measure`.",
)
@click.option(
    "--alert",
    type=click.IntRange(min=1),
    metavar="N",
    help="Take CASE, the commits and the GPU from this alert, and write the result there.",
)
@format_option()
@launch_options("case")
@done_by("bisecting")
def bisect(
    case: str, good: str | None, bad: str | None, repo: Path, build: str, python: str, python_path: tuple[str, ...],
    toolchain: str | None, toolchains: tuple[Path, ...], install: bool, compile_only: bool, gpu_file: tuple[str, str] | None,
    gpu: str, small: bool, metric: str | None, threshold: float | None, limit: float | None, exact: bool, all_steps: bool,
    every: bool, most_runs: int | None, timeout: float, measured: tuple[str, str] | None, cubins: Path | None,
    alert: int | None, form: str,
) -> None:  # fmt: skip
    """Find which commit, compiler version or figure of a GPU changed what CASE costs, by simulation, in logarithmic runs.

    CASE is a kernel of the suite, or a case in a file as `gpusim simulate` takes it; with commits the file is that of each checkout. Commits
    are those of the first-parent line between GOOD and BAD. What does not build has no value and is passed over; where nothing but
    that lies at the step, the commits that cannot be told apart are named. Readings are kept in the store, so that a
    bisection that was ended goes on where it stood.

    A search by halves finds one step. That the value changed elsewhere, too, is said where it shows; --all finds each.

    Behind the step come its attribution as `gpusim regress` gives it, and the two commands that measure both sides of it on silicon; once their
    rows are in the store, or given by --measured, the measured verdict stands beside the simulated one.

    Exit codes: 0 no difference; 1 found; 4 found, but not at which one of several points; 3 GOOD or BAD has no value.

    \b
    Examples:
      gpusim bisect kernels/softmax.py:case --good v1.2 --bad HEAD
      gpusim bisect softmax:rows=64 --good HEAD~100 --bad HEAD --threshold 2 --all
      gpusim bisect my.cu:scale:grid=4,block=256,arg0=float[1024] --toolchain ptxas=12.9..13.1 --install
      gpusim bisect attention.ptx:forward --toolchain ptxas=12.9.86,13.0.88 --toolchains ~/cuda --compile-only
      gpusim bisect attention.py:case --toolchain triton=3.7..3.9 --install
      gpusim bisect transpose --gpu-file h200 slower.toml
    """
    chosen = [bool(toolchain), bool(gpu_file), bool(alert)]
    if sum(chosen) > 1:
        raise UsageError("--toolchain, --gpu-file and --alert each say what to bisect: give one")
    if not case and alert is None:
        raise UsageError("name the CASE to bisect, such as softmax or kernels/my.py:case")
    if not any(chosen) and not (good and bad):
        raise UsageError("give --good REV and --bad REV, or --toolchain, --gpu-file or --alert in place of commits")
    if gpu_file and (good or bad):
        raise UsageError("--gpu-file names both GPUs: leave out --good and --bad")
    if compile_only and not toolchain:
        raise UsageError("--compile-only looks at what compilers make: give --toolchain ptxas=... or nvrtc=...")
    for name in gpu_file or (gpu,):
        load_gpu(name)
