"""Measurements of single kernels (nvbench's JSON, Nsight Compute's CSV), as rows, through the readers of
:mod:`gpusim.silicon.imports`.

Mental model: a measurement has repeats of one launch, in microseconds each or as a median. Each repeat becomes a launch
of the row; of a median alone, one launch of that time stands for its repeats, by weight. Benchmarks are not production:
their launches weigh as often as they were repeated, which the source's note says.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType

from gpusim.errors import MeasurementFormatError, ProductionError
from gpusim.production.file import Production, Source
from gpusim.production.imports.names_seen import cut
from gpusim.production.launches import Launch, LaunchTotal, kept, summed
from gpusim.production.timing.collectives import Collectives
from gpusim.silicon.imports import ncu_csv, nvbench
from gpusim.silicon.imports.importer import in_utf8
from gpusim.silicon.row import SiliconRow

#: Of one file that is read whole.
MOST_BYTES = 1 << 28
_SHARED, _REGISTERS = (
    ("launch__shared_mem_per_block", "Shared Memory Per Block"),
    ("launch__registers_per_thread", "Registers Per Thread"),
)


class Measurements:
    """One of the readers as an importer."""

    def __init__(self, name: str, reader: ModuleType) -> None:
        self.name, self.description = name, str(reader.description)
        self._read: Callable[[Path], list[SiliconRow]] = reader.read
        self._recognises: Callable[[Path, bytes], bool] = reader.recognises

    def recognises(self, path: Path, head: bytes) -> bool:
        """Whether a file is of the format."""
        return self._recognises(path, in_utf8(head))

    def read(self, path: Path, collectives: Collectives | None = None) -> Production:
        """Its rows. Raises ProductionError."""
        if (size := path.stat().st_size) > MOST_BYTES:
            raise ProductionError(f"{path}: larger than {MOST_BYTES} bytes")
        try:
            rows = self._read(path)
        except MeasurementFormatError as error:
            raise ProductionError(str(error)) from None
        totals = summed(_total(row) for row in rows)
        launches = sum(total.launches for total in totals.values())
        source = Source(path.name, self.name, size, len(rows), launches, notes=["measurements: launches are repeats"])
        return Production([source], [], kept(totals), [])


def _total(row: SiliconRow) -> LaunchTotal:
    launch = Launch(
        cut(row.kernel), grid=row.grid, block=row.block, shared_bytes=_counter(row, _SHARED), registers=_counter(row, _REGISTERS) or None,
        gpu=cut(row.device_name or row.gpu), shapes=cut(row.shape), phase=f"{row.cache} cache" if row.cache else "",
    )  # fmt: skip
    total = LaunchTotal(launch)
    if row.samples_us:
        for sample in row.samples_us:
            total.launch(round(sample * 1000) if sample >= 0 else None)
    else:
        total.launch(None if row.time_us is None else round(row.time_us.median * 1000), float(row.n))
    return total


def _counter(row: SiliconRow, names: tuple[str, ...]) -> int | None:
    value = next((row.counters[name] for name in names if name in row.counters), None)
    return None if value is None or not 0 <= value < 1 << 32 else round(value)


IMPORTERS = {"nvbench": Measurements("nvbench", nvbench), "ncu-csv": Measurements("ncu-csv", ncu_csv)}
