"""What the suite's kernels are known to cover: recorded with gpusim, read to name who fills a hole.

Mental model: one coverage file that ships beside the recorded traces, made by ``gpusim cover run`` over the suite;
each of its bins names workloads that fall into it, ready to be run.
"""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from gpusim.explore.coverage import Coverage

FILE_NAME = "suite-h200.json"


def suite_coverage() -> Coverage:
    """The recorded coverage of the suite on ``h200``."""
    try:
        folder = Path(str(files("gpusim.traces")))
    except ModuleNotFoundError:  # a source tree that is not installed
        folder = Path(__file__).parents[2] / "traces"
    return Coverage.load(folder / "coverage" / FILE_NAME)
