"""Listens to a launch for hazards and for reads of what nothing has written.

Mental model: the emulator knows nothing of either; both are read off the trace. Chunks are kept until the blocks in
them are whole, and then :mod:`gpusim.sanitizer.racecheck` goes through them block by block.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gpusim.emulator.faults import place_of
from gpusim.emulator.listeners import Listener
from gpusim.sanitizer import racecheck as order
from gpusim.sanitizer.findings import MOST_FINDINGS, Finding, block_index, thread_index
from gpusim.sanitizer.guarded_loads import guarded_loads
from gpusim.trace.parts import WholeBlocks
from gpusim.trace.record import Chunk, Flag, Launch, MemoryKind, PipeClass, Program, Space

#: Bulk copies write shared memory when they are done, in the order of no warp.
_BULK_WRITES = (MemoryKind.BULK_LOAD, MemoryKind.BULK_SHARED_COPY, MemoryKind.BULK_SHARED_REDUCTION)


class _Columns(NamedTuple):
    """A chunk's arrays as the compiled check reads them, all int64 but the masks."""

    path: np.ndarray
    access_start: np.ndarray
    path_start: np.ndarray
    run_first: np.ndarray
    run_count: np.ndarray
    run_mask: np.ndarray
    address: np.ndarray
    stride: np.ndarray
    mask: np.ndarray
    scattered: np.ndarray


def needs_clocks(program: Program, checks: frozenset[str]) -> bool:
    """Whether warps of ``program`` wait for each other by more than the barrier of the whole block, by named barriers
    or mbarriers, so that what ``checks`` ask of shared memory has to be followed by clocks
    (:mod:`gpusim.sanitizer.async_races`). Reads of what nothing has written are not looked for where bulk copies write,
    unless races are."""
    if "race" not in checks and ("memory" not in checks or _others_write(program)):
        return False
    code = program.instructions
    barriers = code["pipe"] == PipeClass.BARRIER
    waits = (code["flags"].astype(np.int64) & int(Flag.BARRIER_WAIT)) != 0
    of_cluster = (code["flags"].astype(np.int64) & int(Flag.CLUSTER_WAIT | Flag.CLUSTER_ARRIVE)) != 0
    odd = barriers & ~of_cluster & ((code["barrier_id"] != 0) | ~waits)
    return bool(odd.any()) or any(_of_object(text) for text in program.texts)


class OrderCheck(Listener):
    """Goes through each block's trace once the block has ended, and collects what is wrong in it. ``checks``: "race"
    for hazards, "memory" for reads before writes; without ``shared`` of local memory alone. ``differ``: whether writes
    of two instructions that nothing orders have left different values, which alone are a hazard."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        shared_base: int,
        checks: frozenset[str],
        shared: bool = True,
        differ: Callable[[int, int], bool] = lambda one, other: True,
    ):
        self.program, self.launch, self._differ = program, launch, differ
        self._joined = WholeBlocks()
        code = program.instructions
        self._code = np.zeros((len(code), order.CODE_COLUMNS), np.int64)
        fields = (("records", order.RECORDS), ("memory_kind", order.KIND), ("space", order.SPACE))
        for name, column in (*fields, ("access_bytes", order.BYTES)):
            self._code[:, column] = code[name]
        self._code[[_initialises(text) for text in program.texts], order.KIND] = MemoryKind.STORE
        self._code[guarded_loads(program), order.KIND] = order.GUARDED_LOAD
        waits = int(Flag.BARRIER_WAIT | Flag.CLUSTER_WAIT)  # who waits for the cluster waits for the block
        self._code[:, order.WAITS] = (code["flags"].astype(np.int64) & waits) != 0
        local_bytes = -(-launch.local_bytes // 16) * 16
        self._facts = np.zeros(order.FACTS, np.int64)
        self._facts[order.SHARED_BASE] = shared_base
        self._facts[order.SHARED_BYTES] = launch.shared_bytes
        self._facts[order.LOCAL_BYTES] = local_bytes
        self._facts[order.SHARED_WINDOW], self._facts[order.LOCAL_WINDOW] = launch.shared_window, launch.local_window
        self._facts[order.RACES], self._facts[order.READS] = shared and "race" in checks, "memory" in checks
        self._facts[order.GRID : order.GRID + 3] = launch.grid
        self._facts[order.CLUSTER : order.CLUSTER + 3] = launch.cluster
        elsewhere = launch.cluster_blocks > 1 and _writes_elsewhere(program)
        self._facts[order.WRITTEN_BY_OTHERS] = elsewhere or not shared or _others_write(program)
        warps = launch.warps_per_block
        self._shared = np.zeros((max(1, launch.shared_bytes), order.SHADOW_COLUMNS), np.int64)
        self._local = np.zeros((warps * order.LANES, max(1, local_bytes)), np.uint8)
        self._cursor = np.zeros((warps, order.CURSOR_COLUMNS), np.int64)
        self._passed = np.zeros((warps, order.LANES), np.int64)
        self._found = np.zeros((MOST_FINDINGS, order.FOUND_COLUMNS), np.int64)
        self._counts = np.zeros(3, np.int64)

    def chunk_closed(self, chunk: Chunk) -> None:
        for whole in self._joined.add(chunk):
            order.check_blocks(
                _columns(whole), whole.first_block, whole.blocks, self.launch.warps_per_block, self._code, self._facts,
                self._shared, self._local, self._cursor, self._passed, self._found, self._counts,
            )  # fmt: skip

    def findings(self) -> list[Finding]:
        """What has been found so far."""
        rows = self._found[: self._counts[0]].tolist()
        return [
            self._finding(row)
            for row in rows
            if row[order.WHAT] != order.WRITE_WRITE or self._differ(row[order.CODE], row[order.OTHER_CODE])
        ]

    def _finding(self, row: list[int]) -> Finding:
        what, pc, other, place = row[order.WHAT], row[order.CODE], row[order.OTHER_CODE], row[order.PLACE]
        size = int(self.program.instructions["access_bytes"][pc])
        common = {
            "count": row[order.COUNT],
            "block": block_index(self.launch, row[order.BLOCK]),
            "thread": thread_index(self.launch, row[order.THREAD]),
            "where": place_of(self.program, pc),
        }
        if what in (order.SHARED_UNWRITTEN, order.LOCAL_UNWRITTEN):
            space = "__shared__" if what == order.SHARED_UNWRITTEN else "__local__"
            text = f"Uninitialized {space} memory read of size {size} bytes"
            return Finding("initcheck", text, **common, detail=f"byte {place} was never written")
        text = "Write-write hazard" if what == order.WRITE_WRITE else "Read-write hazard"
        return Finding(
            "racecheck",
            f"{text} on __shared__ memory",
            **common,
            other_thread=thread_index(self.launch, row[order.OTHER_THREAD]),
            other_where=place_of(self.program, other),
            detail=f"byte {place}, no barrier between",
        )


def _others_write(program: Program) -> bool:
    """Whether bulk copies, or the answer to a request for the next block's work, are written into shared memory."""
    bulk = np.isin(program.instructions["memory_kind"], _BULK_WRITES).any()
    return bool(bulk) or any("UGETNEXTWORKID" in text for text in program.texts)


def _of_object(text: str) -> bool:
    """Whether an instruction is one of mbarriers."""
    return "SYNCS." in text or "ARRIVES." in text


def _initialises(text: str) -> bool:
    """Whether an instruction is mbarrier.init, which compiled code does by an exchange: what was there does not
    count."""
    return "SYNCS.EXCH" in text


def _writes_elsewhere(program: Program) -> bool:
    """Whether a block of a cluster may write the shared memory of others."""
    code = program.instructions
    writes = np.isin(code["memory_kind"], (MemoryKind.STORE, MemoryKind.ATOMIC, MemoryKind.REDUCTION))
    return bool((writes & np.isin(code["space"], (Space.GENERIC, Space.CLUSTER))).any())


def _columns(chunk: Chunk) -> _Columns:
    warps, runs, accesses = chunk.warps, chunk.runs, chunk.accesses
    return _Columns(
        warps["path"].astype(np.int64),
        warps["access_start"].astype(np.int64),
        chunk.path_start,
        runs["first"].astype(np.int64),
        runs["count"].astype(np.int64),
        runs["mask"].astype(np.int64),
        accesses["address"].astype(np.int64),
        accesses["stride"].astype(np.int64),
        accesses["mask"].astype(np.int64),
        np.ascontiguousarray(chunk.scattered).view(np.int64),
    )
