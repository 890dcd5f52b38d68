"""Do the lines and sectors of bulk copies, laid out shape by shape, come to what byte by byte gives?"""

from __future__ import annotations

from itertools import product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from gpusim.trace.boxes import box_lines, reads, writes
from gpusim.trace.layout import BULK, MemoryKind

SHAPES = st.tuples(
    st.lists(st.sampled_from([0, 16, 96, 128, 1000, 4096, -64]), min_size=4, max_size=4),
    st.lists(st.integers(1, 3), min_size=4, max_size=4),
    st.integers(0, 400),
)
BOXES = st.lists(
    st.tuples(st.integers(1 << 16, 1 << 20), st.sampled_from([MemoryKind.BULK_LOAD, MemoryKind.BULK_STORE]), SHAPES),
    max_size=5,
)


@given(BOXES)
def test_lines_and_sectors_are_those_of_every_byte(boxes: list) -> None:
    bulks = np.zeros(len(boxes), BULK)
    wanted = []
    for i, (address, kind, (stride, count, row_bytes)) in enumerate(boxes):
        bulks[i]["address"], bulks[i]["kind"], bulks[i]["row_bytes"] = address, kind, row_bytes
        bulks[i]["stride"], bulks[i]["count"] = stride, count
        for place in product(*map(range, count)):
            start = address + int(np.dot(place, stride))
            rows: dict[int, int] = {}
            for byte in range(start, start + row_bytes):
                rows[byte & -128] = rows.get(byte & -128, 0) | 1 << (byte & 127) // 32
            wanted += [(i, line, mask) for line, mask in rows.items()]
    lines, masks, record = box_lines(bulks)
    assert sorted(zip(record.tolist(), lines.tolist(), masks.tolist(), strict=True)) == sorted(wanted)
    assert (np.diff(record) >= 0).all()
    assert (reads(bulks) ^ writes(bulks)).all()
