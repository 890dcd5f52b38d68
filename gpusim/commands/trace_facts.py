"""``gpusim trace``: what a trace file holds, and what it costs to keep; the work."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

import click
import numpy as np

from gpusim.io.progress import task
from gpusim.report.tables import format_records
from gpusim.trace.record import BULK_KINDS, Chunk, Trace


def info(files: tuple[Path, ...], check: bool, form: str) -> None:
    """What :func:`gpusim.commands.trace.info` declares, with its arguments."""
    click.echo(format_records([facts(path, check) for path in files], form))


def facts(path: Path, check: bool = False) -> dict[str, object]:
    """Launch facts and sizes of the trace file ``path`` as one record; ``check`` reads it to its end."""
    opened = Trace.load(path)
    chunks = cast("Sequence[Chunk]", opened.chunk_list)  # of a file: each read when it is asked for
    launch, instructions, size = opened.launch, opened.warp_instructions, path.stat().st_size
    if check and opened.regular is None:  # one of a few blocks has been checked whole
        with task(f"checking {path.name}", launch.blocks, "blocks") as shown:
            for chunk in chunks:
                shown.to(chunk.first_block + chunk.blocks - chunk.open_blocks)
    return {
        "file": str(path),
        "kernel": launch.kernel,
        "gpu": launch.gpu,
        "capability": "{}.{}".format(*launch.capability),
        "grid": "x".join(map(str, launch.grid)),
        "block": "x".join(map(str, launch.block)),
        **({"cluster": "x".join(map(str, launch.cluster))} if launch.cluster_blocks > 1 else {}),
        "registers_per_thread": launch.registers_per_thread,
        "shared_bytes": launch.shared_bytes,
        "sass_instructions": len(opened.program.texts),
        "bulk_instructions": int(np.isin(opened.program.instructions["memory_kind"], BULK_KINDS).sum()),
        "chunks": len(chunks),
        "warp_instructions": instructions,
        "bytes": size,
        "bytes_per_warp_instruction": size / max(1, instructions),
    }
