"""``gpusim sass survey``: which instruction forms a kernel has on each architecture, and what is supported; how it is
called."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from gpusim.cases.names import is_reference, refuse_unknown_request
from gpusim.cases.native_names import ALL_KERNELS, is_native_file, split_native
from gpusim.cases.requests import parse_request
from gpusim.commands.later import done_by
from gpusim.commands.launch_options import compile_options
from gpusim.commands.options import HELP, format_option
from gpusim.errors import UsageError

ALL = "all"


def signature_option() -> Callable:
    """``--signature TYPES``: what a kernel of the user's own is compiled for."""
    return click.option(
        "--signature",
        metavar="TYPES",
        help='Argument types of a kernel of your own, as Numba writes them: "float32, float32[:]".',
    )


@click.command(context_settings=HELP)
@click.argument("kernels", nargs=-1, required=True, metavar="KERNEL...")
@click.option(
    "--gpu", "gpus", multiple=True, metavar="NAME", help="Survey for this GPU's architecture; may be repeated."
)
@click.option(
    "--arch",
    "architectures",
    multiple=True,
    metavar="SM",
    help="Survey for this architecture (sm_90), or for all; may be repeated. Without --gpu and --arch: all.",
)
@signature_option()
@format_option()
@compile_options("kernels")
@done_by("surveying")
def survey(
    kernels: tuple[str, ...], gpus: tuple[str, ...], architectures: tuple[str, ...], signature: str | None, form: str
) -> None:
    """Count the instruction forms of KERNELs and say which are supported.

    KERNEL is a kernel of the suite as NAME[:axis=value,...], "all" for the whole suite, the path of a cubin, fat binary, object,
    archive, shared library or executable (without --gpu and --arch: for all architectures that it has machine code for), of
    CUDA C++ (.cu; of templates those that its host code instantiates, where nvcc is installed) or PTX, a kernel of such a file as FILE:KERNEL, or FILE.py:FUNCTION: a kernel, such as a @cuda.jit function, whose argument
    types --signature says, or a case (see `gpusim capture --help`). Counts are static: how often a form stands in the code. The exit
    code is 5 if any form is unsupported.

    \b
    Examples:
      gpusim sass survey saxpy --gpu a100_80gb
      gpusim sass survey matmul_tiled softmax --arch sm_75 --arch sm_120
      gpusim sass survey all --format csv
      gpusim sass survey libfoo.so
      gpusim sass survey my.cu --gpu b200
      gpusim sass survey my.py:saxpy --signature "float32, float32[:], float32[:]" --arch all
    """
    for kernel in kernels:
        if is_file(kernel):
            path = (split_native(kernel) or (kernel,))[0]
            if not Path(path).exists():
                raise UsageError(f"there is no file {path}")
        elif kernel != ALL:
            refuse_unknown_request(kernel)


def is_file(kernel: str) -> bool:
    """Whether ``kernel`` names a file of machine code or source as a whole."""
    native = split_native(kernel)
    if native is not None and native[1] == ALL_KERNELS:
        return True
    if native is not None or is_reference(parse_request(kernel)[0]):
        return False
    path = Path(kernel)
    return path.is_file() or is_native_file(kernel) or path.parent != Path(".")
