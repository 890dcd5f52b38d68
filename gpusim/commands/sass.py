"""``gpusim sass``: a kernel's machine code, listed or surveyed; how it is called."""

from __future__ import annotations

import click

from gpusim.cases.names import refuse_unknown_request
from gpusim.cases.native_names import is_native_file
from gpusim.cases.requests import parse_request
from gpusim.commands.later import done_by
from gpusim.commands.launch_options import compile_options
from gpusim.commands.options import HELP, format_option, gpu_option
from gpusim.commands.sass_survey import signature_option, survey
from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu


class _ShowByDefault(click.Group):
    """A group in which ``sass saxpy`` means ``sass show saxpy``."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0] not in (*self.commands, *ctx.help_option_names):
            args = ["show", *args]
        return super().parse_args(ctx, args)


@click.group(cls=_ShowByDefault, context_settings=HELP)
def sass() -> None:
    """A kernel's machine code: listed with its control fields, or surveyed form by form.

    \b
    Examples:
      gpusim sass saxpy --gpu a100_80gb
      gpusim sass survey saxpy --arch all
      gpusim sass my.cu:saxpy --gpu b200
      gpusim sass survey libfoo.so
    """


@sass.command(context_settings=HELP)
@click.argument("kernel")
@gpu_option()
@signature_option()
@format_option()
@compile_options("kernel")
@done_by("sass_listing")
def show(kernel: str, gpu: str, signature: str | None, form: str) -> None:
    """Print the machine code of KERNEL[:axis=value,...] as compiled for a GPU ("show" may be left out).

    KERNEL is an entry of `gpusim kernels list`, or FILE.py:FUNCTION: a case (see `gpusim capture --help`), or a kernel,
    such as a @cuda.jit function, whose argument types --signature says; or FILE:KERNEL, a kernel of CUDA C++ (.cu), PTX, or machine
    code in a cubin, fat binary, object, archive, shared library or executable. Nothing is run. Of a case of several launches the last one is shown.
    Columns: stall count, yield, write and read barrier, barriers waited for, pipe class, source line; where an instruction is not emulated
    also which ones are (and why not, on stderr).

    \b
    Examples:
      gpusim sass saxpy --gpu a100_80gb
      gpusim sass my.py:saxpy --signature "float32, float32[:], float32[:]"
      gpusim sass "my.cu:scale<float, 4>" --gpu b200
      gpusim sass my.cu:gemm --include cutlass/include --option=-DTILE=64 --std c++20
    """
    load_gpu(gpu)
    name = parse_request(kernel)[0]
    if is_native_file(name):
        raise UsageError(f"{name} is a file of kernels: name one of them, {name}:KERNEL")
    refuse_unknown_request(kernel)


sass.add_command(survey)
