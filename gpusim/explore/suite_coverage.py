"""What the suite's kernels are known to cover: recorded with gpusim, read to name who fills a hole.

Mental model: one coverage file that ships beside the recorded traces, made by ``gpusim cover run`` over the suite;
each of its bins names workloads that fall into it, ready to be run.
"""

from __future__ import annotations

from pathlib import Path

from gpusim.explore.coverage import Coverage
from gpusim.sibling import traces_folder

FILE_NAME = "suite-h200.json"


def suite_coverage() -> Coverage:
    """The recorded coverage of the suite on ``h200``."""
    return Coverage.load(Path(str(traces_folder("coverage"))) / FILE_NAME)
