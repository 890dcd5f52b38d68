"""``gpusim kernels``: the suite that ships with gpusim."""

from __future__ import annotations

import click

from gpusim.cases.names import kernel_names
from gpusim.cases.suite import find_kernel
from gpusim.commands.options import HELP, format_option
from gpusim.report.tables import format_records


@click.group(context_settings=HELP)
def kernels() -> None:
    """The kernel suite.

    \b
    Examples:
      gpusim kernels list
      gpusim kernels show stream_triad
    """


@kernels.command("list")
@format_option()
def list_(form: str) -> None:
    """List the suite's kernels and what each is there for.

    \b
    Example:
      gpusim kernels list
    """
    entries = [find_kernel(name) for name in kernel_names()]
    click.echo(format_records([{"kernel": e.name, "purpose": e.purpose} for e in entries], form))


@kernels.command("show")
@click.argument("name")
@format_option()
def show(name: str, form: str) -> None:
    """Print the shape axes of the kernel NAME, with their defaults.

    \b
    Example:
      gpusim kernels show stream_triad
    """
    entry = find_kernel(name)
    records = [
        {
            "axis": axis,
            "default": entry.default[axis],
            "small": entry.small[axis],
            "worth_trying": " ".join(map(str, values)),
        }
        for axis, values in entry.axes.items()
    ]
    click.echo(f"{entry.name}: {entry.purpose}", err=True)
    click.echo(format_records(records, form))
