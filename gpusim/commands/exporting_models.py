"""What ``gpusim project export`` does."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from gpusim.errors import UsageError
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.io.progress import shown, task
from gpusim.project.decoder import Decoder
from gpusim.project.export import aiconfigurator, vidur
from gpusim.project.export.write import write_tables
from gpusim.project.network import decoder_of
from gpusim.project.prices import Prices

_Tables = Callable[[Decoder, Prices, Sequence[int], int], Iterator[tuple[str, list[dict[str, Any]]]]]
_SIMULATORS: dict[str, _Tables] = {"vidur": vidur.tables, "aiconfigurator": aiconfigurator.tables}


def export(
    simulator: str,
    network: str,
    ways: str,
    most_tokens: int,
    output: Path,
    gpu: str,
    settings: tuple[str, ...],
    power_limit_watts: float | None,
) -> None:
    config = decoder_of(network)
    shared_by = _numbers(ways)
    prices = Prices(override_gpu(load_gpu(gpu), settings), limit_watts=power_limit_watts)
    with shown(), task("projecting", 0, "files") as progress:
        tables = []
        for name, rows in _SIMULATORS[simulator](config, prices, shared_by, most_tokens):
            tables.append((name, rows))
            progress.to(len(tables), name)
        written = write_tables(output, tables)
    for name, rows in written:
        click.echo(f"{output / name}: {rows} rows")


def _numbers(text: str) -> list[int]:
    found = []
    for part in text.split(","):
        if not part.strip().isascii() or not part.strip().isdigit() or not 1 <= int(part[:6]) <= 1024:
            raise UsageError(f"--tp {text!r}: write numbers between 1 and 1024 with commas between them")
        found.append(int(part))
    return sorted(set(found))
