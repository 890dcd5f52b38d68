"""What a collector's database holds, as rows of production.

Mental model: a collector adds up by minute, user and container as well; these go, and what is left is summed under the
kernel's launch. Names that were hashed by a salt stay hashes.

Raises UsageError for a folder that is no collector's, NoDataError where no minute lies in the span.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from gpusim.collect.ledger import NAME, Ledger
from gpusim.collect.totals import OTHER as OTHER_KERNEL
from gpusim.collect.totals import Total
from gpusim.errors import NoDataError, UsageError
from gpusim.production.file import Production, Source
from gpusim.production.launches import OTHER, Kind, Launch, LaunchTotal, kept, summed

#: How a collector calls what was launched, and what a row of production calls it.
_KINDS: dict[str, Kind] = {"graph": "graph", OTHER_KERNEL: "other"}
FOREVER_MINUTE = 1 << 40


def is_collector(path: Path) -> bool:
    """Whether ``path`` is a collector's folder, or the database in it."""
    return (path / NAME).is_file() if path.is_dir() else path.name == NAME and path.is_file()


def from_collector(path: Path, least_minute: int = 0, most_minute: int = FOREVER_MINUTE) -> Production:
    """All rows of the minutes (of Unix time) from ``least_minute`` to ``most_minute``, both included. Totals that stand
    for hours or days count by their first minute."""
    if not is_collector(path):
        raise UsageError(f"{path} is no collector's folder: it has no {NAME}")
    folder = path if path.is_dir() else path.parent
    ledger = Ledger(folder)
    try:
        totals = summed(_rows(ledger.totals(least_minute, most_minute)))
        dropped = ledger.fact("dropped")
    finally:
        ledger.close()
    if not totals:
        raise NoDataError(f"{path} has no launch of these minutes")
    notes = [f"{dropped} launches were dropped by recorders"] if dropped else []
    launches = sum(total.launches for total in totals.values())
    size = (folder / NAME).stat().st_size
    source = Source(folder.name or NAME, "collector", size, len(totals), launches, notes=notes)
    return Production([source], [], kept(totals), [])


def _rows(totals: Iterable[Total]) -> Iterator[LaunchTotal]:
    for total in totals:
        what = total.what
        other = what.kind == OTHER_KERNEL
        kernel = OTHER if other else what.kernel or (f"hash:{what.name_hash}" if what.name_hash else what.kind)
        launch = Launch(
            kernel, _KINDS.get(what.kind, "kernel"), grid=_extent(what.grid), block=_extent(what.block),
            shared_bytes=None if other else what.static_shared_bytes + what.dynamic_shared_bytes,
            registers=what.registers or None, device=what.gpu, rank=max(what.rank, -1), phase=what.nvtx,
        )  # fmt: skip
        yield LaunchTotal(
            launch, max(total.launches, total.timed), total.timed, total.sum_ns, total.least_ns, total.most_ns, dict(total.bins),
            total.weighted_launches, total.weighted_ns,
        )  # fmt: skip


def _extent(extent: tuple[int, int, int]) -> tuple[int, int, int] | None:
    return extent if all(extent) else None
