"""Records in the order of their key, however many: sorted runs on the disk, merged as they are read.

Mental model: traces come in the order in which buffers were flushed, what is asked of them needs the order of time, or
of launches. Records gather in memory up to ``most``; then they are sorted and written as a run to a temporary file
without a name. Reading takes from all runs, block by block, what lies below the least of the blocks' last keys: memory
is that of a run, not of the trace.

A record has a field ``key``; records of the same key come in the order of ``tie``, where there is such a field and they
were in one run. Raises OSError when the disk of temporary files is full.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator

import numpy as np

MOST_IN_MEMORY = 1 << 19
#: Rows that wait as Python tuples: they are ten times as large as records.
_TUPLES = 1 << 14
#: Of a run that are read at once, at least.
LEAST_BLOCK_ROWS = 1024


class SortedRecords:
    """Records of ``dtype``."""

    def __init__(self, dtype: np.dtype, most: int = MOST_IN_MEMORY) -> None:
        self.dtype, self.most = dtype, most
        self.count = 0
        self.rows: list[tuple] = []
        self._blocks: list[np.ndarray] = []
        self._held = 0
        self._file = None
        self._runs: list[tuple[int, int]] = []
        self._order = ("key", "tie") if "tie" in (dtype.names or ()) else ("key",)

    def append(self, row: tuple) -> None:
        """One more, its values in the order of the fields."""
        self.rows.append(row)
        if len(self.rows) >= _TUPLES:
            self._gather()

    def extend(self, records: np.ndarray) -> None:
        """More of ``dtype``."""
        self._blocks.append(records)
        self._held += len(records)
        self.count += len(records)
        if self._held >= self.most:
            self._spill()

    def batches(self) -> Iterator[np.ndarray]:
        """All of them in order, in arrays of any length; once."""
        self._gather()
        if self._file is None:
            if self._held:
                yield self._sorted(self._blocks)
            self._blocks = []
            return
        if self._held:
            self._spill()
        yield from self._merged()
        self._file.close()

    def _gather(self) -> None:
        if self.rows:
            rows, self.rows = self.rows, []
            self.extend(np.array(rows, self.dtype))

    def _sorted(self, blocks: list[np.ndarray]) -> np.ndarray:
        records = np.concatenate(blocks) if len(blocks) > 1 else blocks[0]
        return records[np.lexsort([records[name] for name in reversed(self._order)])]

    def _spill(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="gpusim-")  # noqa: SIM115 - it is closed when it has been read
        self._runs.append((self._file.seek(0, 2), self._held))
        self._file.write(self._sorted(self._blocks).tobytes())
        self._blocks, self._held = [], 0

    def _merged(self) -> Iterator[np.ndarray]:
        rows_a_block = max(LEAST_BLOCK_ROWS, self.most // len(self._runs))
        places = list(self._runs)
        blocks = [np.empty(0, self.dtype) for _ in places]
        while True:
            for i, (offset, left) in enumerate(places):
                if not len(blocks[i]) and left:
                    take = min(left, rows_a_block)
                    blocks[i] = self._read(offset, take)
                    places[i] = offset + take * self.dtype.itemsize, left - take
            cuts = [block["key"][-1] for block, (_, left) in zip(blocks, places) if left]
            if not cuts:
                if rest := [block for block in blocks if len(block)]:
                    yield self._sorted(rest)
                return
            ends = [int(np.searchsorted(block["key"], min(cuts), side="right")) for block in blocks]
            yield self._sorted([block[:end] for block, end in zip(blocks, ends)])
            blocks = [block[end:] for block, end in zip(blocks, ends)]

    def _read(self, offset: int, rows: int) -> np.ndarray:
        assert self._file is not None
        self._file.seek(offset)
        return np.frombuffer(self._file.read(rows * self.dtype.itemsize), self.dtype)
