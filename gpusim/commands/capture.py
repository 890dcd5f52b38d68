"""``gpusim capture``: run a kernel of the suite, or of the user's own, on the CPU and keep its trace; how it is
called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.cases.names import refuse_unknown_launch
from gpusim.commands.later import done_by
from gpusim.commands.launch_options import launch_options
from gpusim.commands.options import HELP, format_option, gpu_option, instruction_limit_option
from gpusim.commands.output_place import refuse_no_place
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.sanitizer.checks import checks_of


@click.command(context_settings=HELP)
@click.argument("kernel")
@gpu_option()
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Trace file to write; needed without --check.",
)
@click.option("--small", is_flag=True, help="Start from the kernel's small shape instead of its default.")
@click.option(
    "--check",
    "checks",
    metavar="CHECKS",
    help="Look for invalid, misaligned and uninitialised accesses (memory), hazards in shared memory (race), barriers"
    " that threads use wrongly (sync) and memory that kernels leave allocated (leak); several separated by commas.",
)
@click.option(
    "--sample",
    is_flag=True,
    help="Run only a few blocks where the others provably follow from them; the result is then not checked.",
)
@instruction_limit_option()
@format_option()
@launch_options("kernel")
@done_by("capturing")
def capture(
    kernel: str,
    gpu: str,
    output: Path | None,
    small: bool,
    checks: str | None,
    sample: bool,
    instruction_limit: int,
    form: str,
) -> None:
    """Capture KERNEL[:axis=value,...] for a GPU, check its result against NumPy, write its trace.

    KERNEL is an entry of `gpusim kernels list`, or FILE.py:FUNCTION for a function of your own that returns
    (kernel, grid, block, arguments, check), a list or generator of such, or an object with launches and check; its
    parameters are the axes; or FILE:KERNEL for a kernel of CUDA C++ (.cu), PTX, or machine code in a cubin, fat binary, object, archive,
    shared library or executable, launched as --grid, --block and --arg say. A kernel of several launches writes one file each: OUT.0.trace, OUT.1.trace and so on. With --check the
    findings are printed, and no trace is written if there are any (exit code 1) or the result is wrong (exit code 6).

    \b
    Examples:
      gpusim capture saxpy:n=65536 --gpu h200 -o saxpy.trace
      gpusim capture pointer_chase --small -o chase.trace
      gpusim capture reduce_sum --small --check memory,race,sync,leak,async
      gpusim capture my.py:saxpy_case:n=4096 -o saxpy.trace
      gpusim capture matmul_tiled:m=4096,n=4096,k=4096 --sample -o matmul.trace
      gpusim capture my.cu:saxpy --grid 1 --block 64 --arg int:64 --arg float:2 --arg 'float[64]=arange' --arg 'float[64]' -o my.trace
    """
    if output is None and checks is None:
        raise UsageError("give --output FILE to write the trace to, or --check")
    if sample and checks_of(checks):
        raise UsageError("a check looks at every block: capture with --sample or with --check, not with both")
    refuse_no_place(output)
    checks_of(checks)
    load_gpu(gpu)
    refuse_unknown_launch(kernel)
