"""Where reports read from: files of gpusim production, collectors' folders, traces, several of either together."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpusim.errors import NoDataError
from gpusim.production.file import Production, read, together
from gpusim.production.from_collector import from_collector, is_collector
from gpusim.production.imports.importing import imported

_HEAD = b'{"type":"production"'


def is_production(path: Path) -> bool:
    """Whether a file begins as :func:`gpusim.production.file.write` writes one."""
    with path.open("rb") as stream:
        return stream.read(len(_HEAD)) == _HEAD


def read_sources(paths: Iterable[Path]) -> Production:
    """All of ``paths`` as one. Raises ProductionError for what is none of these, NoDataError where nothing was
    launched."""
    every = tuple(paths)
    traces = [path for path in every if not is_collector(path) and (path.is_dir() or not is_production(path))]
    parts = [from_collector(path) if is_collector(path) else read(path) for path in every if path not in traces]
    parts += [imported(traces)] if traces else []
    production = parts[0] if len(parts) == 1 else together(parts)
    if not production.totals:
        raise NoDataError(f"{', '.join(map(str, every))}: no launch")
    return production
