"""Where reports read from: files of gpusim production, collectors' folders, several of either together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpusim.errors import NoDataError
from gpusim.production.file import Production, read, together
from gpusim.production.from_collector import from_collector, is_collector


def read_sources(paths: Iterable[Path]) -> Production:
    """All of ``paths`` as one. Raises ProductionError for what is none of these, NoDataError where nothing was launched."""
    every = tuple(paths)
    parts = [from_collector(path) if is_collector(path) else read(path) for path in every]
    production = parts[0] if len(parts) == 1 else together(parts)
    if not production.totals:
        raise NoDataError(f"{', '.join(map(str, every))}: no launch")
    return production
