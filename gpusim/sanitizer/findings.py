"""``--check memory,race``: what a launch does that a GPU would not forgive, or not do the same way twice.

Mental model: a checked launch is an ordinary one that goes on where it can. ``memory`` reports accesses outside
every allocation and misaligned ones (compute-sanitizer's *memcheck*; the block that made one is given up, the
others run) and reads of shared or local memory that nothing has written (*initcheck*). ``race`` reports
hazards in shared memory (*racecheck*): two threads of different warps of a block, at least one writing, no
barrier between, not both atomic. Host arrays count as written, and so do the module's globals; memory from
``malloc`` and what blocks do to each other is not checked.

Findings that differ only in block, thread or byte are one, with the number of thread accesses; the first is
described.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gpusim.emulator.faults import place_of
from gpusim.errors import UsageError
from gpusim.sanitizer import racecheck as order
from gpusim.trace.parts import whole_blocks
from gpusim.trace.record import Chunk, Flag, Launch, PipeClass, Program

CHECKS = ("memory", "race")
#: Different findings of one launch that are kept; more would not be read.
MOST_FINDINGS = 256


@dataclass(frozen=True)
class Finding:
    """One defect: ``tool`` in compute-sanitizer's words, ``what`` happened, ``count`` times, first by ``thread``
    of ``block`` at ``where`` (SASS address, text, source line); a hazard's other side in ``other_...``."""

    tool: str
    what: str
    count: int
    block: tuple[int, int, int]
    thread: tuple[int, int, int]
    where: str
    other_thread: tuple[int, int, int] | None = None
    other_where: str = ""
    detail: str = ""

    def as_record(self) -> dict[str, object]:
        """The finding as one row of a table."""
        return {
            "tool": self.tool,
            "what": self.what,
            "count": self.count,
            "block": _triple(self.block),
            "thread": _triple(self.thread),
            "where": self.where,
            "other_thread": _triple(self.other_thread) if self.other_thread else "",
            "other_where": self.other_where,
            "detail": self.detail,
        }


class Columns(NamedTuple):
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


def parse_checks(names: Iterable[str]) -> frozenset[str]:
    """``names`` as a set; raises UsageError for one that does not exist."""
    chosen = frozenset(names)
    for name in sorted(chosen - set(CHECKS)):
        raise UsageError(f"there is no check {name!r}; there are {', '.join(CHECKS)}")
    return chosen


def refuse_named_barriers(program: Program, kernel: str) -> None:
    """Raise UsageError for a program whose barriers are not all of the whole block's one barrier: the race
    check would see hazards where those barriers order warps."""
    code = program.instructions
    barriers = code["pipe"] == PipeClass.BARRIER
    waits = (code["flags"].astype(np.int64) & int(Flag.BARRIER_WAIT)) != 0
    odd = np.flatnonzero(barriers & ((code["barrier_id"] != 0) | ~waits))
    if len(odd):
        raise UsageError(
            f"{kernel}: the race check follows the barrier of the whole block only, and this kernel has"
            f" {place_of(program, int(odd[0]))}: check memory alone"
        )


class OrderCheck:
    """Passes chunks on and collects what is wrong in them."""

    def __init__(self, program: Program, launch: Launch, shared_base: int, checks: frozenset[str]):
        self.program, self.launch = program, launch
        if "race" in checks:
            refuse_named_barriers(program, launch.kernel)
        code = program.instructions
        self._code = np.zeros((len(code), order.CODE_COLUMNS), np.int64)
        fields = (("records", order.RECORDS), ("memory_kind", order.KIND), ("space", order.SPACE))
        for name, column in (*fields, ("access_bytes", order.BYTES)):
            self._code[:, column] = code[name]
        self._code[:, order.WAITS] = (code["flags"].astype(np.int64) & int(Flag.BARRIER_WAIT)) != 0
        local_bytes = -(-launch.local_bytes // 16) * 16
        self._facts = np.zeros(order.FACTS, np.int64)
        self._facts[order.SHARED_BASE] = shared_base
        self._facts[order.SHARED_BYTES] = launch.shared_bytes
        self._facts[order.LOCAL_BYTES] = local_bytes
        self._facts[order.SHARED_WINDOW], self._facts[order.LOCAL_WINDOW] = launch.shared_window, launch.local_window
        self._facts[order.RACES], self._facts[order.READS] = "race" in checks, "memory" in checks
        warps = launch.warps_per_block
        self._shared = np.zeros((max(1, launch.shared_bytes), order.SHADOW_COLUMNS), np.int64)
        self._local = np.zeros((warps * order.LANES, max(1, local_bytes)), np.uint8)
        self._cursor = np.zeros((warps, order.CURSOR_COLUMNS), np.int64)
        self._passed = np.zeros((warps, order.LANES), np.int64)
        self._found = np.zeros((MOST_FINDINGS, order.FOUND_COLUMNS), np.int64)
        self._counts = np.zeros(3, np.int64)

    def watch(self, chunks: Iterable[Chunk]) -> Iterator[Chunk]:
        """The chunks, each checked as soon as its blocks are whole."""
        for chunk in whole_blocks(chunks):
            order.check_blocks(
                _columns(chunk), chunk.first_block, chunk.blocks, self.launch.warps_per_block, self._code, self._facts,
                self._shared, self._local, self._cursor, self._passed, self._found, self._counts,
            )  # fmt: skip
            yield chunk

    def findings(self) -> list[Finding]:
        """What has been found so far."""
        return [self._finding(row) for row in self._found[: self._counts[0]].tolist()]

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


def block_index(launch: Launch, linear: int) -> tuple[int, int, int]:
    """blockIdx of block number ``linear``."""
    x, y, _ = launch.grid
    return linear % x, linear // x % y, linear // (x * y)


def thread_index(launch: Launch, linear: int) -> tuple[int, int, int]:
    """threadIdx of thread number ``linear`` of a block."""
    x, y, _ = launch.block
    return linear % x, linear // x % y, linear // (x * y)


def _columns(chunk: Chunk) -> Columns:
    warps, runs, accesses = chunk.warps, chunk.runs, chunk.accesses
    return Columns(
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


def _triple(index: tuple[int, int, int]) -> str:
    return "({}, {}, {})".format(*index)
