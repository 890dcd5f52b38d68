"""``gpusim trace``: what a trace file holds, and what it costs to keep; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.default_command import DefaultCommand
from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option
from gpusim.errors import UsageError


class _Files(DefaultCommand):
    """What follows ``trace`` and is no command is a file, of which ``info`` is asked."""

    default = "info"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not Path(args[0]).exists():
            raise UsageError(f"there is no trace file {args[0]!r}, and no command of that name: gpusim trace info FILE")
        return super().resolve_command(ctx, args)


@click.group(cls=_Files, context_settings=HELP)
def trace() -> None:
    """Trace files; of a FILE alone print `info`.

    \b
    Example:
      gpusim trace info saxpy.trace
      gpusim trace saxpy.trace
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
