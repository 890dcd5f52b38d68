"""A result as a pandas data frame, for notebooks and scripts: one row a launch.

Mental model: the same values that ``gpusim simulate --format json`` prints, as a table that can be grouped and plotted.
"""

from __future__ import annotations

import pandas as pd

from gpusim.engine.result import Result


def frame(result: Result) -> pd.DataFrame:
    """``result`` as a pandas ``DataFrame``, one row a launch: kernel, device, cycles, time_us with its prediction
    interval (time_us_low, time_us_high; none in a result made by hand), blocks_per_sm, occupancy_limiter, then every
    counter by its name and, as ``stall.REASON``, every stall reason in warp-cycles."""
    rows = []
    for launch in result.launches:
        interval = launch.interval
        rows.append(
            {
                "kernel": launch.kernel,
                "device": launch.device,
                "cycles": launch.cycles,
                "time_us": launch.time_us,
                "time_us_low": None if interval is None else interval.low_us,
                "time_us_high": None if interval is None else interval.high_us,
                "blocks_per_sm": launch.blocks_per_sm,
                "occupancy_limiter": launch.occupancy_limiter,
                **launch.counters,
                **{f"stall.{reason}": cycles for reason, cycles in launch.stalls.items()},
            }
        )
    return pd.DataFrame(rows)
