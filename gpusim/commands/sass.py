"""``gpusim sass``: a kernel's machine code, listed or surveyed."""

from __future__ import annotations

import click

from gpusim.cases.case_forms import launches_ahead
from gpusim.cases.names import is_reference
from gpusim.cases.native_cases import load_native
from gpusim.cases.native_names import is_native, is_native_file
from gpusim.cases.suite import make_case, parse_request
from gpusim.cases.user_kernels import load_object
from gpusim.commands.options import HELP, format_option, gpu_option
from gpusim.commands.sass_survey import signature_option, survey
from gpusim.emulator.prepare import prepare
from gpusim.errors import UsageError
from gpusim.frontend.registry import compile_kernel, front_end_of, is_kernel
from gpusim.gpus.load import load_gpu
from gpusim.gpus.spec import GpuSpec
from gpusim.report.tables import format_records
from gpusim.trace.layout import NO_BARRIER, PipeClass
from gpusim.trace.record import Program


class _ShowByDefault(click.Group):
    """A group in which ``sass saxpy`` means ``sass show saxpy``."""

    def parse_args(self, context: click.Context, arguments: list[str]) -> list[str]:
        if arguments and arguments[0] not in (*self.commands, *context.help_option_names):
            arguments = ["show", *arguments]
        return super().parse_args(context, arguments)


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
def show(kernel: str, gpu: str, signature: str | None, form: str) -> None:
    """Print the machine code of KERNEL[:axis=value,...] as compiled for a GPU ("show" may be left out).

    KERNEL is an entry of `gpusim kernels list`, or FILE.py:FUNCTION: a case (see `gpusim capture --help`), or a kernel,
    such as a @cuda.jit function, whose argument types --signature says; or FILE:KERNEL, a kernel of CUDA C++ (.cu), PTX, or machine
    code in a cubin, fat binary, object, archive, shared library or executable. Nothing is run. Of a case of several launches the last one is shown.
    Columns: stall count, yield, write and read barrier, barriers waited for, pipe class, source line.

    \b
    Examples:
      gpusim sass saxpy --gpu a100_80gb
      gpusim sass my.py:saxpy --signature "float32, float32[:], float32[:]"
      gpusim sass "my.cu:scale<float, 4>" --gpu b200
    """
    program = _program(kernel, signature, load_gpu(gpu))
    records = [
        {
            "address": f"{row['address']:04x}",
            "stall": int(row["stall_cycles"]),
            "yield": int(row["yield_hint"]),
            "write": _barrier(row["write_barrier"]),
            "read": _barrier(row["read_barrier"]),
            "wait": "".join(str(i) for i in range(6) if row["wait_mask"] >> i & 1) or "-",
            "pipe": PipeClass(row["pipe"]).name.lower(),
            "line": int(row["line"]),
            "sass": text,
        }
        for row, text in zip(program.instructions, program.texts, strict=True)
    ]
    click.echo(format_records(records, form))


def _program(kernel: str, signature: str | None, spec: GpuSpec) -> Program:
    name, shape = parse_request(kernel)
    if is_native_file(name):
        raise UsageError(f"{name} is a file of kernels: name one of them, {name}:KERNEL")
    function = load_object(name) if is_reference(name) and not shape else None
    if is_native(name):
        function = load_native(name)
    capability = tuple(spec.capability)
    if function is not None and is_kernel(function):
        return prepare(front_end_of(function).compile_signature(function, signature, capability)).program
    if signature is not None:
        raise UsageError(f"--signature says the argument types of a kernel FILE.py:NAME, and {kernel} is none")
    launch = launches_ahead(make_case(name, shape, spec, small=True))[-1]
    return prepare(compile_kernel(launch.kernel, launch.args, capability)).program


def _barrier(index: int) -> str:
    return "-" if index == NO_BARRIER else str(index)


sass.add_command(survey)
