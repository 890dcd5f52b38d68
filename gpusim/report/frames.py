"""Results as pandas data frames, for notebooks: one row a comparison point, launch, counter or stall.

Mental model: the same values that the command line prints, as a table that can be grouped and plotted.
"""

from __future__ import annotations

import pandas as pd

from gpusim.compare.measured import MeasuredComparison
from gpusim.compare.run import Comparison
from gpusim.engine.result import Result
from gpusim.report.comparison import entry_record


def comparison_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a point: gpu, series, point, unit, simulated, measured, error_percent, fitted."""
    columns = ["gpu", "series", "point", "unit", "simulated", "measured", "error_percent", "fitted"]
    return pd.DataFrame([row.record() for row in comparison.rows], columns=columns)


def measured_frame(comparison: MeasuredComparison) -> pd.DataFrame:
    """One row a measured launch: what `gpusim compare --against FILE --format csv` prints."""
    return pd.DataFrame([entry_record(entry) for entry in comparison.entries])


def launches_frame(result: Result) -> pd.DataFrame:
    """One row a launch: kernel, cycles, blocks_per_sm, occupancy_limiter, then every counter and, as
    ``stall.<reason>``, every stall reason in warp-cycles."""
    return pd.DataFrame(
        [
            {
                "kernel": launch.kernel,
                "cycles": launch.cycles,
                "blocks_per_sm": launch.blocks_per_sm,
                "occupancy_limiter": launch.occupancy_limiter,
                **launch.counters,
                **{f"stall.{reason}": cycles for reason, cycles in launch.stalls.items()},
            }
            for launch in result.launches
        ]
    )
