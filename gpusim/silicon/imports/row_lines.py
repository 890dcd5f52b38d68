"""gpusim's own rows, a JSON object a line, as ``gpusim measure`` writes them, among the formats that can be
imported."""

from __future__ import annotations

from pathlib import Path

from gpusim.io.records import read_json
from gpusim.silicon.row import SiliconRow
from gpusim.silicon.rows import read_rows_file

description = "rows of gpusim measure"


def recognises(path: Path, head: bytes) -> bool:
    """Whether the first line is a JSON object of its own that names a kernel (it may be longer than ``head``)."""
    line = head.lstrip().split(b"\n", 1)[0]
    try:
        value = read_json(line)
    except ValueError:
        return line.startswith(b'{"kernel"')
    return isinstance(value, dict) and "kernel" in value


def read(path: Path) -> list[SiliconRow]:
    """The rows of the file."""
    return read_rows_file(path)
