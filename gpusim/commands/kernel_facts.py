"""``gpusim kernels``: the suite that ships with gpusim; the work."""

from __future__ import annotations

import click

from gpusim.cases.names import kernel_names
from gpusim.cases.suite import find_kernel
from gpusim.report.tables import format_records


def list_(form: str) -> None:
    """What :func:`gpusim.commands.kernels.list_` declares, with its arguments."""
    entries = [find_kernel(name) for name in kernel_names()]
    click.echo(format_records([{"kernel": e.name, "purpose": e.purpose} for e in entries], form))


def show(name: str, form: str) -> None:
    """What :func:`gpusim.commands.kernels.show` declares, with its arguments."""
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
