"""The formats of measurements that gpusim reads by itself, and the module that reads each."""

from __future__ import annotations

#: gpusim's own importers, as pyproject.toml declares them.
IMPORTERS = {
    "gpusim": "gpusim.silicon.imports.row_lines",
    "ncu-rep": "gpusim.silicon.imports.ncu_report",
    "ncu-csv": "gpusim.silicon.imports.ncu_csv",
    "nvbench": "gpusim.silicon.imports.nvbench",
    "kernel-tuner": "gpusim.silicon.imports.kernel_tuner",
    "cutlass": "gpusim.silicon.imports.cutlass_profiler",
    "csv": "gpusim.silicon.imports.plain_csv",
}
