"""``gpusim sass``: a kernel's machine code, listed or surveyed."""

from __future__ import annotations

import click

from gpusim.commands.options import HELP, format_option, gpu_option
from gpusim.commands.sass_survey import survey
from gpusim.gpus.load import load_gpu
from gpusim.report.tables import format_records
from gpusim.suite import capture_case, make_case, parse_request
from gpusim.trace.layout import NO_BARRIER, PipeClass


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
      gpusim sass survey kernel.cubin
    """


@sass.command(context_settings=HELP)
@click.argument("kernel")
@gpu_option()
@format_option()
def show(kernel: str, gpu: str, form: str) -> None:
    """Print the machine code of KERNEL[:axis=value,...] as compiled for a GPU ("show" may be left out).

    Of a kernel of several launches the last one is shown. Columns: stall count, yield, write and
    read barrier, barriers waited for, pipe class, source line.

    \b
    Example:
      gpusim sass saxpy --gpu a100_80gb
    """
    name, shape = parse_request(kernel)
    spec = load_gpu(gpu)
    program = capture_case(make_case(name, shape, spec, small=True), spec)[-1].trace.program
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


def _barrier(index: int) -> str:
    return "-" if index == NO_BARRIER else str(index)


sass.add_command(survey)
