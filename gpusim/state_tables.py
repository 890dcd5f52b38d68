"""State tables: arrays of numbers whose columns are declared once, and records that cross between parts.

Mental model: a jitted function reads ``warps[warp, PC]``. Which column that is, its unit and its meaning are said in
one line of the module that the table belongs to::

    WARP_TABLE = Table(__name__, "warps", "one row a warp slot", "Where a warp stands in its path.")
    PC = WARP_TABLE.column("index", "the next instruction")

``PC`` is an ``int``, which Numba compiles as the constant that it is. The arrays are made by :meth:`Table.zeros`; names
of counters and docs/reference/state.md derive from the declarations.
"""

from __future__ import annotations

import math
import sys
from dataclasses import dataclass

import numpy as np

from gpusim.large_pages import zero_bytes

#: The unit of a column and what a number of it is.
UNITS = {
    "cycle": "a point of time, in SM cycles from the machine's start",
    "cycles": "a length of time, in SM cycles",
    "tick": "a point of time, in ticks (64 to an SM cycle)",
    "ticks": "a length of time, in ticks",
    "tick part": "a point of time, in 64ths of a tick",
    "tick parts": "a length of time, in 64ths of a tick",
    "count": "how many",
    "index": "a row of another table, or the number of a thing",
    "link": "a row of the same kind, as a list's next one",
    "address": "a byte address",
    "bytes": "bytes",
    "sectors": "32-byte sectors",
    "mask": "one bit a lane, sector or counter",
    "flag": "0 or 1",
    "code": "one of a few named values",
    "packed": "several fields, see the module",
    "warp cycles": "cycles, added over warps",
    "log2": "the exponent of a power of two",
    "instructions": "warp instructions",
    "words": "32-bit words, of the register file where nothing else is said",
    "host address": "an address in this process",
    "hash": "a number that differs where what it was made of differs",
}


#: A cache line of the host: x86-64, and most ARM processors.
HOST_LINE_BYTES = 64


def line_aligned(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array of zeros that begins with a cache line of the host; NumPy's begin 16 bytes behind one. In large pages
    where :func:`gpusim.large_pages.large_pages` asks for them."""
    size = math.prod(shape) * dtype.itemsize
    room = zero_bytes(size + HOST_LINE_BYTES)
    start = -room.ctypes.data % HOST_LINE_BYTES
    return room[start : start + size].view(dtype).reshape(shape)


class Column(int):
    """The number of a column, with what it means; ``span`` columns from it on hold the same, one a thing counted
    elsewhere (0: as many as the machine has). ``counter`` is Nsight Compute's name where the column is a counter or a
    reason."""

    table: Table
    unit: str
    meaning: str
    span: int
    counter: str


class Table:
    """The declaration of one array of the state: ``array`` is its name where functions take it, ``rows`` what a row is
    (empty: a vector), ``columns_first`` whether columns are the array's first axis; ``whole_lines``: a row takes whole
    cache lines of the host. ``module`` is ``__name__``."""

    def __init__(
        self,
        module: str,
        array: str,
        rows: str,
        meaning: str,
        dtype: type = np.int64,
        columns_first: bool = False,
        whole_lines: bool = False,
    ) -> None:
        self.module, self.array, self.rows, self.meaning = module, array, rows, meaning
        self.dtype, self.columns_first = np.dtype(dtype), columns_first
        self._columns_of_a_line = HOST_LINE_BYTES // self.dtype.itemsize if whole_lines else 1
        self.columns: list[Column] = []

    @property
    def width(self) -> int:
        """Columns so far."""
        return int(self.columns[-1]) + self.columns[-1].span if self.columns else 0

    @property
    def row_width(self) -> int:
        """Columns of the arrays that :meth:`zeros` makes, those included that fill up the host's cache lines."""
        return self._padded(self.width)

    def _padded(self, columns: int) -> int:
        return columns + -columns % self._columns_of_a_line

    def column(self, unit: str, meaning: str, span: int = 1, counter: str = "") -> Column:
        """The next column; raises ValueError for a unit that is not one of ``UNITS``."""
        if unit not in UNITS:
            raise ValueError(f"{self.module}: {self.array}: no unit {unit!r}; one of {', '.join(UNITS)}")
        column = Column(self.width)
        column.table, column.unit, column.meaning, column.span, column.counter = self, unit, meaning, span, counter
        self.columns.append(column)
        return column

    def zeros(self, *rows: int, more: int = 0) -> np.ndarray:
        """The array for so many rows, all zero; ``more`` columns for one whose span the machine says."""
        width = self._padded(self.width + more)
        return line_aligned((width, *rows) if self.columns_first else (*rows, width), self.dtype)

    def counters(self) -> tuple[str, ...]:
        """The counter of each column, in order."""
        return tuple(column.counter for column in self.columns)

    def names(self) -> dict[Column, str]:
        """Each column's name, that of its constant in ``module``; raises ValueError where it has none, or two."""
        names: dict[Column, str] = {}
        for name, value in vars(sys.modules[self.module]).items():
            if isinstance(value, Column) and value.table is self:
                if value in names:
                    raise ValueError(f"{self.module}: {names[value]} and {name} are one column of {self.array}")
                names[value] = name
        if len(names) < len(self.columns):
            nameless = [column.meaning for column in self.columns if column not in names]
            raise ValueError(f"{self.module}: {self.array}: columns without a name: {nameless}")
        return names


@dataclass(frozen=True)
class Field:
    """A field of a record: its name, NumPy type, unit (one of ``UNITS``) and meaning."""

    name: str
    type: str
    unit: str
    meaning: str


class Record:
    """The declaration of a structured dtype; ``module`` is ``__name__``. Raises ValueError for an unknown unit."""

    def __init__(self, module: str, name: str, meaning: str, *fields: Field) -> None:
        for field in fields:
            if field.unit not in UNITS:
                raise ValueError(f"{module}: {name}: no unit {field.unit!r}; one of {', '.join(UNITS)}")
        self.module, self.name, self.meaning, self.fields = module, name, meaning, fields
        self.dtype = np.dtype([(field.name, field.type) for field in fields])
