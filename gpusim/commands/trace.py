"""``gpusim trace``: what a trace file holds, and what it costs to keep."""

from __future__ import annotations

from pathlib import Path

import click

from gpusim.commands.options import HELP, format_option
from gpusim.io.progress import task
from gpusim.report.tables import format_records
from gpusim.trace.record import Trace


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
def info(files: tuple[Path, ...], check: bool, form: str) -> None:
    """Print launch facts and sizes of trace FILES.

    \b
    Examples:
      gpusim trace info saxpy.trace
      gpusim trace info a.trace b.trace --format json
    """
    click.echo(format_records([facts(path, check) for path in files], form))


def facts(path: Path, check: bool = False) -> dict[str, object]:
    """Launch facts and sizes of the trace file ``path`` as one record; ``check`` reads it to its end."""
    opened = Trace.load(path)
    launch, instructions, size = opened.launch, opened.warp_instructions, path.stat().st_size
    if check:
        with task(f"checking {path.name}", launch.blocks, "blocks") as shown:
            for chunk in opened.chunk_list:
                shown.to(chunk.first_block + chunk.blocks - chunk.open_blocks)
    return {
        "file": str(path),
        "kernel": launch.kernel,
        "gpu": launch.gpu,
        "capability": "{}.{}".format(*launch.capability),
        "grid": "x".join(map(str, launch.grid)),
        "block": "x".join(map(str, launch.block)),
        "registers_per_thread": launch.registers_per_thread,
        "shared_bytes": launch.shared_bytes,
        "sass_instructions": len(opened.program.texts),
        "chunks": len(opened.chunk_list),
        "warp_instructions": instructions,
        "bytes": size,
        "bytes_per_warp_instruction": size / max(1, instructions),
    }
