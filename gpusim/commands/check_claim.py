"""``gpusim check-claim``: whether a claimed time is possible and what was timed did its work; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, Figure, format_option, gpu_option, instruction_limit_option, set_option
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu


@click.command("check-claim", context_settings=HELP)
@click.argument("kernel")
@click.argument("program_arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- PROGRAM'S ARGUMENTS]")
@click.option(
    "--time-us",
    type=Figure(min=0, min_open=True),
    required=True,
    metavar="T",
    help="The claimed time, microseconds: of all timed launches of a case, of one launch of a program's kernel.",
)
@gpu_option()
@set_option()
@click.option("--small", is_flag=True, help="Start from a kernel's small shape instead of its default.")
@click.option(
    "--cache",
    type=click.Choice(["warm", "cold"]),
    default="warm",
    show_default=True,
    help="State of L2 when the time was taken: as an earlier call left it, or swept.",
)
@click.option(
    "--reference",
    default="",
    metavar="FILE.py:FUNCTION",
    help="Hold results against this function of the launch's arguments (copies of arrays): it returns the outputs, or writes them in place.",
)
@click.option(
    "--against",
    default="",
    metavar="KERNEL",
    help="Hold results against those of this kernel or case, given the same data.",
)
@click.option(
    "--tolerance",
    type=Figure(min=0),
    metavar="RELATIVE",
    help="Relative error that is right.  [default: 1e-4 for float, 1e-12 for double, 5e-3 for half, none for integers]",
)
@click.option(
    "--program",
    is_flag=True,
    help="KERNEL is a Python program that launches and times the kernel itself; it is run as by `gpusim run`.",
)
@click.option(
    "--kernel-name",
    default="",
    metavar="REGEX",
    help="Of a program: which of its kernels is claimed.  [default: the only one]",
)
@click.option("--pageable-memory", is_flag=True, help="Of a program: let kernels reach the host's memory.")
@click.option("--seed", default=0, show_default=True, help="Of the other contents that inputs are given.")
@click.option("--strict", is_flag=True, help="Exit 4 where something is suspect or the time is implausible.")
@instruction_limit_option()
@format_option()
@launch_options("kernel")
@done_by("checking_claim")
def check_claim(
    kernel: str, program_arguments: tuple[str, ...], time_us: float, gpu: str, settings: tuple[str, ...], small: bool, cache: str, reference: str,
    against: str, tolerance: float | None, program: bool, kernel_name: str, pageable_memory: bool, seed: int, strict: bool,
    instruction_limit: int, form: str,
) -> None:  # fmt: skip
    """Say whether KERNEL can take the claimed time on a GPU, and whether what was timed does all of its work, each time.

    KERNEL is a kernel of the suite, a case in a file as `gpusim simulate` takes it, a trace or a folder of traces of `gpusim run --record`, or
    with --program a Python program. A time below what a unit needs is IMPOSSIBLE, and the arithmetic says why.
    Results are held against the case's own check, and --reference or --against, on data that the kernel has not seen.

    The emulator's memory accesses say whether outputs are written, all of them, by this launch and from its inputs: the case is called again at once, and with
    other contents in its inputs, on the device that it was called on before and on a fresh one.

    Exit codes: 0 PLAUSIBLE (IMPLAUSIBLE too without --strict); 1 IMPOSSIBLE, or INVALID: work is left out; 4 under --strict IMPLAUSIBLE, or something is suspect;
    6 a WRONG result.

    \b
    Examples:
      gpusim check-claim saxpy:n=1048576 --time-us 1.2 --gpu h200
      gpusim check-claim entry.py:matmul --time-us 35 --reference entry.py:expected --tolerance 1e-5
      gpusim check-claim entry.py:softmax --time-us 8 --against softmax --strict --format json
      gpusim check-claim --program bench.py --time-us 12 --gpu a100_80gb
      gpusim check-claim traces --time-us 40 --cache cold
    """
    if program and (reference or against or small):
        raise UsageError("--program runs as it is: --reference, --against and --small are for cases")
    if program_arguments and not program:
        raise UsageError(f"{program_arguments[0]!r}: arguments are for a program, --program FILE.py -- ARGUMENTS")
    if program and not Path(kernel).is_file():
        raise UsageError(f"there is no program {kernel}")
    if program and settings:
        raise UsageError("--program runs on a described GPU as it is: put settings into a file for --gpu")
    load_gpu(gpu)
