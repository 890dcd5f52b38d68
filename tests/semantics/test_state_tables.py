"""Are the interpreter's tables declared once: every column named, every unit known, nothing left over?"""

from __future__ import annotations

import numpy as np
import pytest

from gpusim.emulator.aligned import LINE_BYTES, aligned_zeros
from gpusim.emulator.chunks import new_log
from gpusim.isa import warp as at
from gpusim.state_tables import Field, Record, Table


@pytest.mark.parametrize(
    "table", [at.CODE_TABLE, at.SOURCE_TABLE, at.RUN_TABLE, at.ACCESS_TABLE], ids=lambda t: t.array
)
def test_every_column_has_a_name_and_a_meaning(table: Table) -> None:
    names = table.names()
    assert len(names) == len(table.columns) and all(column.meaning for column in names)
    assert [int(column) for column in table.columns] == sorted(int(column) for column in table.columns)


def test_the_widths_are_those_of_the_arrays() -> None:
    runs, accesses, _ = new_log(1, 1, 1)
    assert (runs.shape[1], accesses.shape[1]) == (at.RUN_TABLE.width, at.ACCESS_TABLE.width)
    assert at.CODE_TABLE.width == at.COLUMNS
    assert at.A.span == at.B.span == at.C.span == at.SOURCE_TABLE.width


def test_the_record_of_a_block_is_what_its_declaration_says() -> None:
    assert [field.name for field in at.STATE_RECORD.fields] == list(at.STATE.names)
    assert all(field.meaning for field in at.STATE_RECORD.fields)
    with pytest.raises(ValueError, match="no unit 'furlong'"):
        Record(__name__, "odd", "", Field("length", "<i8", "furlong", "how far"))


def test_what_every_instruction_looks_at_lies_in_whole_cache_lines() -> None:
    """A row or an array that begins a few bytes later takes two lines for one: 5 to 8 % of an emulation."""
    assert at.COLUMNS * 4 % LINE_BYTES == 0
    for name in ("active", "span", "executing", "condition", "p0", "q", "predicates", "quantum_left", "held_pc"):
        assert at.STATE.fields[name][1] % LINE_BYTES == 0, name
    for count in (1, 3, 1000):
        zeros = aligned_zeros(count, np.dtype(np.int32))
        assert zeros.shape == (count,) and not zeros.any() and zeros.ctypes.data % LINE_BYTES == 0
