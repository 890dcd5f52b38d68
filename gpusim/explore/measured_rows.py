"""The property ``silicon``: simulated time against measured rows, over the shapes that were measured.

Mental model: what was measured cannot be drawn freely, so the search walks over the rows' own shapes; the divergence
of a shape is that of all its launches together, as :mod:`gpusim.compare.measured` joins and simulates them (same
clock, same cache state).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gpusim.cases.suite import complete_shape, parse_request
from gpusim.compare.measured import compare_rows, rows_of_gpu
from gpusim.errors import NoDataError, UsageError
from gpusim.explore.cover import cover
from gpusim.explore.own_properties import ROWS, SILICON
from gpusim.explore.property import Outcome, Property
from gpusim.gpus.load import built_in_of
from gpusim.gpus.spec import GpuSpec
from gpusim.silicon.imports import read_rows
from gpusim.silicon.recorded import load_recorded
from gpusim.silicon.row import SiliconRow


class Silicon(Property):
    """Simulated cycles above or below the measured ones, beyond the threshold (a share)."""

    name = "silicon"
    asks = SILICON.asks
    threshold = 0.25
    options = SILICON.options

    def __init__(self, gpu: GpuSpec, measured_as: str, rows: Sequence[SiliconRow]) -> None:
        self.gpu, self.measured_as = gpu, measured_as
        self.rows, others = rows_of_gpu(rows, (gpu.name, measured_as))
        if not self.rows:
            raise NoDataError(
                f"no measured row is of {measured_as} ({others} are of other GPUs): give --rows FILE, which gpusim measure writes"
            )

    @classmethod
    def make(cls, gpu: GpuSpec, options: Mapping[str, Any]) -> Silicon:
        """As the base's, of the rows of ``measured_as``, the GPU on which they were measured."""
        files = ROWS.texts(options)
        rows = [row for file in files for row in read_rows(Path(file))] if files else load_recorded()
        return cls(gpu, str(options.get("measured_as", gpu.name)), rows)

    @classmethod
    def complete(cls, options: Mapping[str, Any], gpu: str, settings: Sequence[str]) -> dict[str, Any]:
        return {**options, "measured_as": built_in_of(gpu)}

    def shapes(self, kernel: str) -> list[dict[str, Any]]:
        """The complete shapes of ``kernel`` that rows measured; shapes that the suite refuses are left out."""
        found: dict[str, dict[str, Any]] = {}
        for row in self.rows:
            if row.kernel == kernel and row.shape:
                try:
                    shape = parse_request(f"{kernel}:{row.shape}")[1]
                    found.setdefault(row.shape, complete_shape(kernel, shape, self.gpu))
                except UsageError:
                    continue
        return list(found.values())

    def lacks(self, kernel: str) -> str:
        if self.shapes(kernel):
            return ""
        return (
            f"no row of {self.measured_as} measured it; name a kernel that was, or give --rows FILE, which gpusim measure"
            " writes"
        )

    def measure(self, kernel: str, shape: Mapping[str, Any]) -> Outcome:
        if dict(shape) not in self.shapes(kernel):
            raise UsageError(f"{kernel}: no row measured this shape")
        compared = compare_rows([(kernel, dict(shape))], self.rows, self.gpu, measured_as=self.measured_as)
        judged = compared.judged
        if not judged:
            raise UsageError(f"{kernel}: no row of this shape has a time that can be compared")
        simulated = sum(entry.simulated_cycles for entry in judged)
        measured = sum(entry.measured.median for entry in judged)
        detail = f"{simulated:.0f} cycles simulated, {measured:.0f} measured in {len(judged)} rows"
        return Outcome(simulated / measured - 1.0, detail, cover(kernel, shape, self.gpu).coverage)
