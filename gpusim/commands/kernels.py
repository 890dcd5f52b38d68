"""``gpusim kernels``: the suite that ships with gpusim; how it is called."""

from __future__ import annotations

import click

from gpusim.cases.names import refuse_unknown_kernel
from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option


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
@done_by("kernel_facts")
def list_(form: str) -> None:
    """List the suite's kernels and what each is there for.

    \b
    Example:
      gpusim kernels list
    """


@kernels.command("show")
@click.argument("name")
@format_option()
@done_by("kernel_facts")
def show(name: str, form: str) -> None:
    """Print the shape axes of the kernel NAME, with their defaults.

    \b
    Example:
      gpusim kernels show stream_triad
    """
    refuse_unknown_kernel(name)
