"""``gpusim trace``: what a trace file holds, and what it costs to keep; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option


@click.group(context_settings=HELP)
def trace() -> None:
    """Trace files.

    \b
    Example:
      gpusim trace info saxpy.trace
    """


@trace.command("info")
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--check", is_flag=True, help="Also read every chunk and check it, as a simulation would.")
@format_option()
@done_by("trace_facts")
def info(files: tuple[Path, ...], check: bool, form: str) -> None:
    """Print launch facts and sizes of trace FILES.

    \b
    Examples:
      gpusim trace info saxpy.trace
      gpusim trace info a.trace b.trace --format json
    """
