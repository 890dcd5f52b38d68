"""What the suite's kernels are known to cover: recorded with gpusim, read to name who fills a hole.

Mental model: coverage files that ship beside the recorded traces: ``suite-GPU`` of the whole suite at its small shapes,
and ``suite-searched-GPU`` of a search over the kernels that searches begin with, ``large-GPU`` of launches that are too
long for a search. ``tools/record_coverage.py`` records them; each bin names workloads that fall into it, ready to be
run.
"""

from __future__ import annotations

from pathlib import Path

from gpusim.explore.coverage import Coverage
from gpusim.io.sibling import traces_folder


def suite_coverage() -> Coverage:
    """What a search may expect to cover: the recorded coverage of the suite on all GPUs that it was recorded on."""
    return _recorded("suite-*.json")


def recorded_coverage() -> Coverage:
    """All that was recorded: who can fill a hole, however long it takes."""
    return _recorded("*.json")


def _recorded(files: str) -> Coverage:
    return Coverage().merge(*map(Coverage.load, sorted(Path(str(traces_folder("coverage"))).glob(files))))
