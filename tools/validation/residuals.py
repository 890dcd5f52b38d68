"""The stored table of validation errors: one row a measurement that a description predicted, with what limited it.

Mental model: prediction intervals come from this table, and from nothing else. ``kind`` says how the GPU was described:
``fitted`` (its file was set from curves of that very GPU), ``datasheet`` (from a datasheet on a related GPU;
``validation/held_out.py`` for GPUs whose own file is fitted). ``held_out`` is 1 where the row's own series set nothing
of the description; ``half`` is that of an external set, empty for curves. ``series`` is a kernel; a series of one
kernel on one GPU is the unit that counts as one, since its points err alike.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from io import StringIO
from pathlib import Path

from gpusim.errors import UsageError
from gpusim.io.whole_file import write_whole
from gpusim.uncertainty.limiters import Limiter
from gpusim.uncertainty.table import DATASHEET, FITTED

FILE = Path(__file__).parents[2] / "traces" / "residuals" / "residuals.csv"
#: Series that one program measured under several names.
_PROGRAMS = ("stream", "stencil")


@dataclass(frozen=True)
class Residual:
    """``time_ratio``: predicted over measured time; ``source``: ``published`` or an external set; ``cpu_s``: processor
    seconds that the prediction took, 0 where that was not recorded; ``tensor``: formats that it multiplied on tensor
    cores, joined by ``+``, empty where it did not use them."""

    source: str
    kind: str
    gpu: str
    series: str
    point: str
    limiter: str
    held_out: int
    half: str
    time_ratio: float
    cpu_s: float = 0.0
    tensor: str = ""

    @property
    def group(self) -> tuple[str, str]:
        """The series on its GPU, which counts as one."""
        return self.series, self.gpu

    @cached_property
    def measured_by(self) -> str:
        """The program or author that measured it: an external set, or the program of the curve."""
        if self.source != "published":
            return self.source
        return "streams and stencils" if self.series.startswith(_PROGRAMS) else self.series

    @cached_property
    def size(self) -> float:
        """How far off, either way: the absolute logarithm of the ratio."""
        return abs(math.log(self.time_ratio))


def load_residuals(path: Path = FILE) -> list[Residual]:
    """Every row. Raises UsageError for a table that is not there or damaged."""
    try:
        rows = [_row(values) for values in csv.DictReader(StringIO(path.read_text()))]
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error}; make it with tools/record_residuals.py") from None
    except (ValueError, TypeError, KeyError) as error:
        raise UsageError(f"{path} is no table of residuals: {error}") from None
    return rows


def _row(values: dict[str, str]) -> Residual:
    row = Residual(
        **{
            each.name: values[each.name]
            for each in fields(Residual)
            if each.name not in ("held_out", "time_ratio", "cpu_s", "tensor")
        },
        held_out=int(values["held_out"]),
        time_ratio=float(values["time_ratio"]),
        cpu_s=float(values.get("cpu_s") or 0),
        tensor=values.get("tensor") or "",
    )
    if row.kind not in (FITTED, DATASHEET) or row.time_ratio <= 0:
        raise ValueError(f"{values}")
    Limiter(row.limiter)
    return row


def save_residuals(rows: Iterable[Residual], path: Path = FILE) -> None:
    """Write the table in a lasting order."""
    stream = StringIO()
    writer = csv.DictWriter(stream, [each.name for each in fields(Residual)], lineterminator="\n")
    writer.writeheader()
    for row in sorted(rows, key=lambda r: (r.source, r.kind, r.gpu, r.series, r.point)):
        writer.writerow({**asdict(row), "time_ratio": f"{row.time_ratio:.5f}", "cpu_s": f"{row.cpu_s:.1f}"})
    path.parent.mkdir(exist_ok=True)
    write_whole(path, stream.getvalue().encode())
