"""Are the model's tables declared once: is every column named, is every array as wide as declared, is the page
written?"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from gpusim.engine.arena import Arena
from gpusim.gpus.load import load_gpu
from gpusim.large_pages import PAGE_BYTES, large_pages
from gpusim.model.residency import PC, WARP_TABLE
from gpusim.model.sm_state import empty_state
from gpusim.state_tables import HOST_LINE_BYTES, Record, Table, line_aligned

sys.path.insert(0, str(Path(__file__).parents[2] / "tools"))

from write_state_reference import declared, main, modules

TABLES = [one for module in modules() for one in declared(module) if isinstance(one, Table)]


def test_the_reference_page_is_what_the_declarations_say():
    assert main(["--check"]) == 0, "run python tools/write_state_reference.py"


def test_the_parts_messages_begin_with_their_time():
    messages = [one for module in modules() for one in declared(module) if one.module == "gpusim.model.messages"]
    assert {one.name for one in messages if isinstance(one, Record)} >= {"REQUEST", "RESPONSE", "START", "EXIT"}
    assert all(one.fields[0].name == "time" and one.fields[0].unit == "tick" for one in messages)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: f"{table.module}.{table.array}")
def test_columns_follow_one_another_and_each_has_one_name(table):
    names = table.names()
    assert [int(column) for column in names] == [int(column) for column in table.columns]
    for column, following in zip(table.columns, table.columns[1:], strict=False):
        assert int(following) == int(column) + column.span


def _arrays(state: NamedTuple, path: str = "") -> dict[str, np.ndarray]:
    """Every array of ``state`` by its name, and by its group's and its own."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in state._asdict().items():
        if isinstance(value, np.ndarray):
            arrays[name] = arrays[path + name] = value
        else:
            arrays |= _arrays(value, name + ".")
    return arrays


def test_every_array_of_an_sm_is_as_wide_as_its_table():
    tables = {name: array for name, array in Arena().tables._asdict().items()}
    arrays = _arrays(empty_state(load_gpu("h200"), 0, 2)) | {f"tables.{name}": array for name, array in tables.items()}
    of_an_sm = {
        table.array: table for table in TABLES if table.array in arrays and table.module.startswith("gpusim.model")
    }
    shared = {"gpusim.model.hbm", "gpusim.model.l2_state"}  # have arrays of the same names
    checked = {name: table for name, table in of_an_sm.items() if table.module not in shared}
    assert {"warps", "slots", "board", "blocks", "sms", "lsu", "queue", "mshr.entries", "tables.runs"} <= set(checked)
    for name, table in checked.items():
        array = arrays[name]
        open_end = table.columns[-1].span == 0
        wide = table.zeros(1).shape[-1]
        assert array.shape[-1] == wide or (open_end and array.shape[-1] > wide), name
        assert array.ctypes.data % HOST_LINE_BYTES == 0, name


def test_a_column_is_a_number_that_says_what_it_is():
    assert (PC + 1, PC.table, PC.unit) == (1, WARP_TABLE, "index")
    lines = -(-WARP_TABLE.width * 8 // HOST_LINE_BYTES)
    assert WARP_TABLE.zeros(3).shape == (3, lines * HOST_LINE_BYTES // 8)


def test_a_table_refuses_what_it_cannot_say():
    table = Table(__name__, "nothing", "a row", "A table of a test.")
    with pytest.raises(ValueError, match="no unit 'furlong'"):
        table.column("furlong", "how far")
    table.column("count", "that no constant names")
    with pytest.raises(ValueError, match="columns without a name"):
        table.names()


@pytest.mark.parametrize("wanted", [False, True])
def test_tables_in_large_pages_are_like_others_and_share_nothing(wanted):
    with large_pages(wanted):
        sizes = (3, 1000, 5 * PAGE_BYTES // 8, 7, 40 * PAGE_BYTES // 8)
        tables = [WARP_TABLE.zeros(1), *(line_aligned((size,), np.dtype(np.int64)) for size in sizes)]
    for number, table in enumerate(tables, 1):
        assert table.ctypes.data % HOST_LINE_BYTES == 0
        assert not table.any()
        table[:] = number
    for number, table in enumerate(tables, 1):
        assert (table == number).all()
