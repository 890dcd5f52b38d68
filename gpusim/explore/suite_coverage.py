"""What the suite's kernels are known to cover: recorded with gpusim, read to name who fills a hole.

Mental model: coverage files that ship beside the recorded traces: ``suite-GPU`` of the whole suite at its small shapes, and
``suite-searched-GPU`` of a search over the kernels that searches begin with. ``tools/record_coverage.py`` records the
first; each bin names workloads that fall into it, ready to be run.
"""

from __future__ import annotations

from pathlib import Path

from gpusim.explore.coverage import Coverage
from gpusim.sibling import traces_folder


def suite_coverage() -> Coverage:
    """The recorded coverage of the suite on all GPUs that it was recorded on."""
    files = sorted(Path(str(traces_folder("coverage"))).glob("suite-*.json"))
    return Coverage().merge(*map(Coverage.load, files))
