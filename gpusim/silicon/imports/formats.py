"""Which format a file of measurements has, and its rows.

Mental model: the first bytes tell: a row file and nvbench's report are JSON, a table has a header line (Nsight Compute's
has a column "Kernel Name", a plain one a column "kernel"), everything that is no text may be a ``.ncu-rep``.

Files are untrusted: sizes are bounded, nothing in them is executed, and what is wrong is said with file and line.
"""

from __future__ import annotations

import json
from pathlib import Path

from gpusim.errors import MeasurementFormatError
from gpusim.silicon.imports import ncu_csv, ncu_report, nvbench, plain_csv
from gpusim.silicon.row import SiliconRow
from gpusim.silicon.rows import read_rows_file

MAX_FILE_BYTES = 512 << 20
_HEAD_BYTES = 1 << 16


def read_rows(path: Path) -> list[SiliconRow]:
    """Rows of a file of any format that is known; never none. Raises MeasurementFormatError, and OSError where the file
    cannot be read."""
    path = Path(path)
    size = path.stat().st_size
    if size > MAX_FILE_BYTES:
        raise MeasurementFormatError(f"{path}: {size} bytes, more than {MAX_FILE_BYTES} are refused")
    with path.open("rb") as stream:
        head = stream.read(_HEAD_BYTES)
    if path.suffix in (".ncu-rep", ".ncu-repz") or b"\0" in head:
        rows = ncu_report.read(path)
    elif head.lstrip().startswith(b"{"):
        rows = read_rows_file(path) if _is_row(head) else nvbench.read(path)
    else:
        text = _text(path)
        rows = ncu_csv.parse(text, str(path)) if ncu_csv.looks_like(text) else plain_csv.parse(text, str(path))
    if not rows:
        raise MeasurementFormatError(f"{path}: holds no measurement")
    return rows


def _is_row(head: bytes) -> bool:
    """Whether the first line is a JSON object of its own that names a kernel (it may be longer than ``head``)."""
    line = head.lstrip().split(b"\n", 1)[0]
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return line.startswith(b'{"kernel"')
    return "kernel" in value


def _text(path: Path) -> str:
    data = path.read_bytes()
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise MeasurementFormatError(
            f"{path}: no text (byte {error.start}), and no .ncu-rep: known are rows of gpusim measure, Nsight Compute's"
            f" --csv and .ncu-rep, nvbench's JSON, and CSV with a column 'kernel'"
        ) from None
