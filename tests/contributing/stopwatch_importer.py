# tests/contributing/stopwatch_importer.py
from pathlib import Path

from gpusim.errors import MeasurementFormatError
from gpusim.silicon.row import Estimate, SiliconRow

description = "our stopwatch: after a line '!stopwatch', a kernel and its microseconds a line"


def recognises(path: Path, head: bytes) -> bool:
    """Whether the file is of this format for certain."""
    return head.startswith(b"!stopwatch")


def read(path: Path) -> list[SiliconRow]:
    """The file's rows; MeasurementFormatError with file and line for a damaged one."""
    rows = []
    for number, line in enumerate(path.read_text("utf-8").splitlines()[1:], 2):
        kernel, _, text = line.partition(" ")
        try:
            us = float(text)
        except ValueError:
            raise MeasurementFormatError(f"{path}, line {number}: {text!r} is no number of microseconds") from None
        rows.append(SiliconRow(kernel=kernel, time_us=Estimate(us, us, us), source=str(path)))
    return rows
