"""Traces of several ranks as one production: rows are added, facts that compare ranks are found over all of them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from gpusim.errors import NoDataError
from gpusim.io.progress import task
from gpusim.production.file import Production
from gpusim.production.imports.formats import readers
from gpusim.production.launches import Launch, LaunchTotal, kept
from gpusim.production.timing.collectives import Collectives
from gpusim.production.timing.slower import slower_facts
from gpusim.production.timing.stragglers import straggler_facts


def imported(paths: Iterable[Path], form: str | None = None) -> Production:
    """All of ``paths``, files or folders. Raises UsageError and ProductionError for what cannot be read, NoDataError
    where nothing was launched."""
    files = list(readers(paths, form))
    collectives = Collectives()
    found = Production([], [], [], [])
    totals: dict[Launch, LaunchTotal] = {}
    with task("importing", len(files), "files") as progress:
        for done, (path, importer) in enumerate(files):
            progress.to(done)
            one = importer.read(path, collectives)
            found.sources += one.sources
            found.devices += one.devices
            found.facts += one.facts
            for total in one.totals:
                if (there := totals.get(total.what)) is None:
                    totals[total.what] = total
                else:
                    there.add(total)
    found.totals = kept(totals)
    if not found.totals:
        raise NoDataError(f"{', '.join(str(path) for path, _ in files)}: no launch and no operator")
    found.facts += straggler_facts(collectives)
    found.facts += slower_facts(found.totals)
    return found
