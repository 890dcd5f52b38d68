"""``gpusim watch``: performance over a history of commits, GPUs and toolchains; how it is called."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.later import done_by
from gpusim.commands.options import HELP, format_option


@click.group(context_settings=HELP)
def watch() -> None:
    """Performance over a history: which commit, toolchain or method changed it, and by how much.

    \b
    Example:
      gpusim watch changes history.csv
    """


@watch.command()
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@format_option()
@done_by("watching")
def changes(file: Path, form: str) -> None:
    """List every change in the simulated histories of FILE, a CSV with a row a point, oldest first.

    Columns: commit and value (empty where a commit gave none); optional series, cubin (hash of the machine code), and the
    method: toolchain, gpu_hash, model, gpusim. A change of method is named as the cause instead of the commit. Changes of one
    cause have one alert's number. Simulated values repeat exactly, so every difference counts; measured times have
    noise, which this does not judge.

    \b
    Examples:
      gpusim watch changes history.csv
      gpusim watch changes history.csv --format json
    """
