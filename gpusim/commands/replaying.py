"""What ``gpusim project replay`` and ``durations`` do."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import click

from gpusim.collective.links import Machine
from gpusim.errors import NoDataError, UsageError
from gpusim.execution.chakra_file import GROUPS, read_groups, read_trace, with_durations
from gpusim.execution.replay import replayed
from gpusim.execution.result import node_records, path_records, rank_records
from gpusim.gpus.load import load_gpu
from gpusim.gpus.override import override_gpu
from gpusim.io.progress import shown
from gpusim.io.whole_file import write_whole
from gpusim.production.node_durations import projected_durations
from gpusim.report.tables import format_records

_RANK = re.compile(r"(?:rank|[._-])(\d{1,6})\.et$")
_SHOWN = {"ranks": rank_records, "path": path_records, "nodes": node_records}


def replay(
    paths: tuple[Path, ...], groups: Path | None, ranks: int | None, library: str, alone: bool, show: str, gpu: str, settings: tuple[str, ...], links: str,
    link_gb_per_s: float | None, gpus_per_node: int | None, network_gb_per_s: float | None, network_latency_us: float | None, form: str,
) -> None:  # fmt: skip
    spec = override_gpu(load_gpu(gpu), settings)
    machine = Machine(links, link_gb_per_s, gpus_per_node, network_gb_per_s, network_latency_us)
    files = _files(paths)
    beside = next((path.parent / GROUPS for path in files.values() if (path.parent / GROUPS).exists()), None)
    table = groups or beside
    with shown():
        traces = [read_trace(path, rank) for rank, path in files.items()]
        members = read_groups(table) if table else {}
        node = machine.node(spec, max(ranks or 0, len(traces)))
        found = replayed(spec, node, traces, members, ranks=ranks or 0, library=library, alone=alone)
    click.echo(format_records(_SHOWN[show](found), form))
    if form == "table":
        times = found.times()
        slowest = max(times, key=lambda each: each.total)
        given = "" if len(times) == found.gpus else f", traces of {len(times)}"
        click.echo(
            f"\n{1e6 * found.seconds:,.1f} us on {found.gpus} x {found.gpu}{given}; of rank {slowest.rank}, the last to end, {1e6 * slowest.exposed:,.1f} us is exposed communication",
        )


def durations(
    paths: tuple[Path, ...], output: Path, gpu: str, settings: tuple[str, ...], power_limit_watts: float | None
) -> None:
    spec = override_gpu(load_gpu(gpu), settings)
    written: list[tuple[Path, bytes]] = []
    ways: Counter[str] = Counter()
    unknown: Counter[str] = Counter()
    with shown():
        for rank, path in _files(paths).items():
            found = projected_durations(spec, read_trace(path, rank), power_limit_watts)
            ways += found.ways
            unknown += found.unknown
            written.append((output / path.name, b"".join(with_durations(path, found.seconds))))
    if not ways:
        raise NoDataError(f"of no node's time anything is known: none has shapes, operations or bytes; the most frequent: {_named(unknown)}")  # fmt: skip
    if len({path for path, _ in written}) < len(written):
        raise UsageError(f"two of the traces are called alike: they cannot both be written into {output}")
    output.mkdir(parents=True, exist_ok=True)
    for path, data in written:
        write_whole(path, data)
        click.echo(path)
    click.echo(f"durations on {spec.name}: " + ", ".join(f"{count} by {way}" for way, count in ways.most_common()), err=True)  # fmt: skip
    if unknown:
        click.echo(f"note: {sum(unknown.values())} nodes keep what they had, nothing is known of: {_named(unknown)}", err=True)  # fmt: skip


def _named(names: Counter[str]) -> str:
    shown_names = [f"{name[:60]!r} ({count})" for name, count in names.most_common(6)]
    return ", ".join(shown_names) + (f" and {len(names) - 6} other names" if len(names) > 6 else "")


def _files(paths: tuple[Path, ...]) -> dict[int, Path]:
    """By rank: the number that a name ends in, else the place in the order."""
    found: list[Path] = []
    for path in paths:
        inside = sorted(path.glob("*.et")) if path.is_dir() else [path]
        if not inside:
            raise NoDataError(f"{path}: no execution trace (*.et) in this folder")
        found += inside
    numbers = [_RANK.search(path.name) for path in found]
    ranks = [int(number[1]) if number else None for number in numbers]
    if None in ranks:
        ranks = list(range(len(found)))
    by_rank = {rank: path for rank, path in zip(ranks, found, strict=True) if rank is not None}
    if len(by_rank) < len(found):
        twice = next(path for rank, path in zip(ranks, found, strict=True) if by_rank[rank or 0] != path)
        raise UsageError(f"{twice}: another trace is of the same rank")
    return dict(sorted(by_rank.items()))
