"""Which instruction each access record belongs to: the path's memory instructions, in program order.

Mental model: a warp's access records lie in the order in which it executed its memory instructions; walking its path
and counting each instruction's ``records`` names the instruction of every record.
"""

from __future__ import annotations

import numpy as np

from gpusim.trace.compiled import reading
from gpusim.trace.layout import Chunk, Program


def access_owners(chunk: Chunk, program: Program) -> np.ndarray:
    """Index of the instruction of each access record of ``chunk``, int64[accesses]; -1 for one that no warp uses."""
    owner = np.full(chunk.accesses.size, -1, np.int64)
    if owner.size:
        records = program.instructions["records"].astype(np.int64)
        _owners(chunk.warps, chunk.runs, chunk.path_start, records, owner)
    return owner


@reading
def _owners(warps, runs, path_start, records, owner):  # pragma: no cover - jitted
    """Instruction of each access record, into ``owner``."""
    for w in range(warps.shape[0]):
        at = np.int64(warps[w]["access_start"])
        end = at + np.int64(warps[w]["access_count"])
        path = np.int64(warps[w]["path"])
        for r in range(path_start[path], path_start[path + 1]):
            first = np.int64(runs[r]["first"])
            for i in range(first, first + np.int64(runs[r]["count"])):
                for _ in range(records[i]):
                    if at < end:
                        owner[at] = i
                        at += 1
