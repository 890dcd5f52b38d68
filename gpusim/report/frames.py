"""Results as pandas data frames, for notebooks: one row a comparison point or launch.

Mental model: the same values that the command line prints, as a table that can be grouped and plotted.
"""

from __future__ import annotations

import pandas as pd

from gpusim.compare.run import Comparison
from gpusim.engine.result import Result


def comparison_frame(comparison: Comparison) -> pd.DataFrame:
    """One row a point: gpu, series, point, unit, simulated, measured, error_percent, fitted."""
    columns = ["gpu", "series", "point", "unit", "simulated", "measured", "error_percent", "fitted"]
    return pd.DataFrame([row.record() for row in comparison.rows], columns=columns)


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
