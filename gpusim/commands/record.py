"""``gpusim record``: run a program and count what it launches; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option


@click.command(context_settings={**HELP, "ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@click.option("--socket", type=click.Path(path_type=Path), help="Send to the collector there, and print nothing.")
@click.option("--salt", metavar="TEXT", help="Hide names of kernels, code and ranges behind this salt.")
@click.option("--no-cupti", is_flag=True, help="Count only: no durations.")
@click.option("--library-path", is_flag=True, help="Print the recorder's library, built if need be, and end.")
@format_option()
@done_by("recording")
def record(
    command: tuple[str, ...], socket: Path | None, salt: str | None, no_cupti: bool, library_path: bool, form: str
) -> None:
    """Run COMMAND and list on stdout what it and its children launched: kernel, shape, GPU, launches, time.

    A small library is loaded into the program; it adds launches up there and never makes one wait. Times need CUPTI on the machine;
    counts do not. GPUSIM_RECORD=0 in a process's environment turns it off there. The program's own output is its own;
    its exit code is this command's.

    \b
    Examples:
      gpusim record -- ./my_program --steps 10
      gpusim record --socket /run/gpusim/collect.sock -- torchrun train.py
      gpusim record --library-path
    """
