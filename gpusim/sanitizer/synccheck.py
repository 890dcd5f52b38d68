"""Barriers that threads use wrongly: what compute-sanitizer's *synccheck* finds, in its words.

Mental model: the emulator logs which lanes come to which barrier, and asks when a block is stuck at one. *Divergent
thread(s) in warp* and *in block*: ``__syncthreads`` (``bar.sync`` without a count, and its reductions) is reached by a
part of a warp or block, or its threads wait at different instructions, of which one is known to be aligned (PTX: with
``.aligned``, as in ``bar.sync``, all threads of the block execute the same instruction; warps may meet at
``barrier.sync`` from where they are, as warp-specialised code does, Triton's for one); a ``__syncwarp`` waits for lanes
that do not come; so does the barrier of a cluster for threads of its blocks (*in cluster*), a grid-wide barrier for
blocks (*in grid*). *Invalid arguments*: a thread that is not in its own ``__syncwarp`` mask, or whose mask names
threads that name another; a named barrier with a number beyond 15, with a count that is not a multiple of 32 or more
than the block has, or with counts that differ among those who meet.

Threads that have exited count as arrived, as the hardware counts them since Volta: an early return is no finding. What
is not seen: a warp split in two that meets at the same instruction (the hardware waits for the rest), barriers in
memory (``cuda::barrier``). Sources: Compute Sanitizer User Manual, "Synccheck Tool" (the names and what they mean); PTX
ISA, ``barrier`` ("waits for all non-exited threads from its warp"; counts in multiples of the warp size; numbers 0 to
15) and ``exit`` ("barriers waiting on all threads are checked"); CUDA C++ Programming Guide, ``__syncthreads`` and
``__syncwarp``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpusim.emulator.faults import place_of
from gpusim.emulator.listeners import Listener
from gpusim.isa import warp as at
from gpusim.sanitizer.findings import Finding, Findings, block_index, thread_index
from gpusim.sanitizer.skipped import SkippedBarriers
from gpusim.trace.parts import WholeBlocks
from gpusim.trace.record import Chunk, Launch, PipeClass, Program

IN_WARP, IN_BLOCK, IN_CLUSTER, IN_GRID = (
    f"Divergent thread(s) in {where}" for where in ("warp", "block", "cluster", "grid")
)
INVALID = "Invalid arguments"
LANES = at.LANES


class SyncCheck(Listener):
    """Collects the wrong uses of barriers in one launch, whose code ``matrix`` has (CODE_TABLE of
    :mod:`gpusim.isa.warp`), and lets blocks end that are stuck at one."""

    def __init__(self, program: Program, launch: Launch, matrix: np.ndarray):
        self.program, self.launch = program, launch
        self._found = Findings()
        self._aligned = _aligned_barriers(program)
        numbers = program.instructions["barrier_id"]
        self._skipped = SkippedBarriers(matrix, _whole_warp_waits(program), numbers, self._aligned)
        self._joined = WholeBlocks()
        self._diverged: set[int] = set()  # blocks of which it is known
        self._carried = np.zeros((0, at.SYNC_TABLE.width), np.int64)

    def syncs_logged(self, first_block: int, syncs: np.ndarray) -> None:
        syncs = syncs.copy()
        syncs[:, at.SYNC_WARP] += first_block * self.launch.warps_per_block
        kind = syncs[:, at.SYNC_KIND]
        at_warp = (kind == at.SYNC_WARP_WAIT) | (kind == at.SYNC_WARP_RELEASE)
        self._warp_barriers(syncs[at_warp])
        self._block_barriers(syncs[~at_warp])

    def block_stuck(self, state: np.record) -> bool:
        block, warps = int(state.linear), int(state.warps)
        fragment = state.fragment[:warps]
        places = [(int(w), int(f)) for w, f in np.argwhere(fragment != at.FREE)]
        kinds = (at.AT_BARRIER, at.AT_WARP_WAIT, at.AT_CLUSTER, at.AT_GRID)
        stuck = [(warp, f) for warp, f in places if int(fragment[warp, f]) in kinds]
        for warp, f in stuck:
            what, detail = self._why_stuck(state, warp, f)
            if not what:
                continue
            self._add(what, int(state.pc[warp, f]), -1, block, warp, int(state.mask[warp, f]), detail=detail)
        if stuck:
            self._diverged.add(block)
        return bool(stuck)

    def chunk_closed(self, chunk: Chunk) -> None:
        ended = chunk.first_block + chunk.blocks - chunk.open_blocks
        self._carried = self._carried[self._carried[:, at.SYNC_WARP] >= ended * self.launch.warps_per_block]
        if not self._skipped:
            return
        for whole in self._joined.add(chunk):
            known = self._diverged  # the compiler puts a warp's barrier before a block's: one defect is told once
            for found in self._skipped.of(whole, self.launch.block_threads):
                if found.block in (self._diverged if found.of_warp else known):
                    continue
                self._diverged = self._diverged | {found.block}
                self._left_out(found.block, found.barrier, found.waited, found.left_out, found.behind)

    def findings(self) -> list[Finding]:
        """What has been found so far, in the order of its first occurrence."""
        return self._found.listed()

    def _warp_barriers(self, syncs: np.ndarray) -> None:
        """Find the rows of ``syncs``, all of barriers of a warp, that are wrong."""
        named, group = syncs[:, at.SYNC_NUMBER], syncs[:, at.SYNC_EXECUTING]
        released = syncs[:, at.SYNC_KIND] == at.SYNC_WARP_RELEASE
        outside = group & ~named
        crossed = syncs[:, at.SYNC_MASK] & named & ~group  # lanes that came along, and wait for others
        for row in syncs[released | (outside != 0) | (crossed != 0)].tolist():
            block, warp = divmod(row[at.SYNC_WARP], self.launch.warps_per_block)
            index, mask, lanes = row[at.SYNC_INDEX], row[at.SYNC_NUMBER], row[at.SYNC_EXECUTING]
            if row[at.SYNC_KIND] == at.SYNC_WARP_RELEASE:
                missing = mask & row[at.SYNC_LIVE] & ~row[at.SYNC_MASK]
                self._add(
                    IN_WARP, index, -1, block, warp, lanes, detail=f"lanes {_hex(missing)} of its mask do not come"
                )
            elif lanes & ~mask:
                self._add(
                    INVALID, index, -1, block, warp, lanes & ~mask, detail=f"the mask {_hex(mask)} lacks the thread"
                )
            elif row[at.SYNC_MASK] & ~lanes & mask & row[at.SYNC_LIVE]:
                detail = f"the mask {_hex(mask)} names lanes that give another mask"
                self._add(INVALID, index, -1, block, warp, lanes, detail=detail)

    def _block_barriers(self, syncs: np.ndarray) -> None:
        """Find what is wrong with ``syncs``, all of barriers of a block; the last of each barrier wait for what comes
        with the next rows."""
        threads, number = syncs[:, at.SYNC_THREADS], syncs[:, at.SYNC_NUMBER]
        most = self.launch.warps_per_block * LANES
        wrong = (number < 0) | (number >= at.BLOCK_BARRIERS) | (threads < 0) | (threads % LANES != 0) | (threads > most)
        for row in syncs[wrong].tolist():
            detail = f"barrier {row[at.SYNC_NUMBER]} with {row[at.SYNC_THREADS]} threads"
            if not 0 <= row[at.SYNC_NUMBER] < at.BLOCK_BARRIERS:
                detail = f"barrier {row[at.SYNC_NUMBER]}, there are 0 to {at.BLOCK_BARRIERS - 1}"
            elif row[at.SYNC_THREADS] % LANES:
                detail += f", which is no multiple of {LANES}"
            else:
                detail += f", the block has {self.launch.block_threads}"
            self._add_row(INVALID, row, -1, row[at.SYNC_EXECUTING], detail)
        for row in syncs[syncs[:, at.SYNC_MASK] != syncs[:, at.SYNC_EXECUTING]].tolist():
            missing = row[at.SYNC_MASK] & ~row[at.SYNC_EXECUTING]
            detail = f"lanes {_hex(missing)} of the warp go past it"
            self._add_row(IN_WARP, row, -1, row[at.SYNC_EXECUTING], detail)
            self._diverged.add(row[at.SYNC_WARP] // self.launch.warps_per_block)
        self._meetings(syncs)

    def _meetings(self, syncs: np.ndarray) -> None:
        """Find those who meet at a barrier in one turn and are not at the same instruction, or not with the same
        count."""
        syncs = np.concatenate([self._carried, syncs])
        keys = np.stack(
            [
                syncs[:, at.SYNC_WARP] // self.launch.warps_per_block,
                syncs[:, at.SYNC_NUMBER] % at.BLOCK_BARRIERS,
                syncs[:, at.SYNC_TURN],
            ],
            axis=1,
        )
        order = np.lexsort(keys.T)  # stable: in a meeting the first to come is first
        syncs, keys = syncs[order], keys[order]
        starts = np.concatenate(([True], (keys[1:] != keys[:-1]).any(axis=1))) if len(syncs) else np.zeros(0, bool)
        first = np.maximum.accumulate(np.where(starts, np.arange(len(syncs)), 0))
        counted = syncs[:, at.SYNC_THREADS] != syncs[first, at.SYNC_THREADS]
        of_all = (syncs[:, at.SYNC_THREADS] == 0) & (syncs[:, at.SYNC_NUMBER] == 0)  # __syncthreads and its reductions
        aligned = self._aligned[syncs[:, at.SYNC_INDEX]] | self._aligned[syncs[first, at.SYNC_INDEX]]
        same_warp = syncs[:, at.SYNC_WARP] == syncs[first, at.SYNC_WARP]
        apart = of_all & (aligned | same_warp) & (syncs[:, at.SYNC_INDEX] != syncs[first, at.SYNC_INDEX])
        for place in np.flatnonzero(counted | apart).tolist():
            self._unlike(syncs[first[place]].tolist(), syncs[place].tolist())
        # The last meeting of a barrier may not be over: only who comes first in it is needed.
        newest = np.ones(len(syncs), bool)
        newest[:-1] = (keys[1:, :2] != keys[:-1, :2]).any(axis=1)
        self._carried = syncs[first[newest]]

    def _unlike(self, one: list[int], other: list[int]) -> None:
        """Two arrivals of one meeting that do not agree, in the order in which they came."""
        lanes = other[at.SYNC_EXECUTING]
        if one[at.SYNC_THREADS] != other[at.SYNC_THREADS]:
            counts = [row[at.SYNC_THREADS] or self.launch.block_threads for row in (other, one)]
            number = other[at.SYNC_NUMBER]
            detail = f"barrier {number} for {counts[0]} threads here, for {counts[1]} there"
            self._add_row(INVALID, other, one, lanes, detail)
            return
        same_warp = one[at.SYNC_WARP] == other[at.SYNC_WARP]
        self._diverged.add(other[at.SYNC_WARP] // self.launch.warps_per_block)
        detail = "other threads wait at another barrier instruction"
        self._add_row(IN_WARP if same_warp else IN_BLOCK, other, one, lanes, detail)

    def _left_out(self, block: int, barrier: int, waited: np.ndarray, left_out: np.ndarray, behind: int) -> None:
        """Threads ``left_out`` of ``block`` are behind a barrier at which others of it have ``waited``."""
        one, other = int(np.argmax(waited)), int(np.argmax(left_out))
        warps = self.launch.warps_per_block
        padded = np.zeros((2, warps * LANES), bool)
        padded[0, : len(waited)], padded[1, : len(left_out)] = waited, left_out
        split = padded.reshape(2, warps, LANES).any(axis=2).all(axis=0).any()

        def finding() -> Finding:
            return Finding(
                "synccheck",
                IN_WARP if split else IN_BLOCK,
                1,
                block_index(self.launch, block),
                thread_index(self.launch, one),
                place_of(self.program, barrier),
                thread_index(self.launch, other),
                place_of(self.program, behind),
                f"{int(left_out.sum())} threads go on without it",
            )

        self._found.add((split, barrier, behind), int(waited.sum()), finding)

    def _why_stuck(self, state: np.record, warp: int, f: int) -> tuple[str, str]:
        """What is wrong where fragment ``f`` of ``warp`` waits for what does not come, and in which way; nothing where
        it waits for a warp that is itself divided by the barrier."""
        kind, wait, live = int(state.fragment[warp, f]), int(state.wait[warp, f]), state.live[: int(state.warps)]
        if kind == at.AT_GRID:
            return IN_GRID, "not all blocks of the grid come to it"
        if kind == at.AT_CLUSTER:
            return IN_CLUSTER, "not all threads of the cluster come to it"
        if kind == at.AT_WARP_WAIT:
            return IN_WARP, f"lanes {_hex(wait & int(live[warp]) & ~int(state.mask[warp, f]))} of its mask do not come"
        arrived = state.arrived[wait, : int(state.warps)]
        missing = live & ~arrived
        expected = int(state.expected[wait])
        if missing[warp]:
            return IN_WARP, f"lanes {_hex(int(missing[warp]))} of the warp do not come"
        if wait >= at.BLOCK_BARRIERS:
            return IN_BLOCK, "not all four warps of its group come to the wait for their products"
        if expected:
            come = sum(int(lanes).bit_count() for lanes in arrived) + int(state.again[wait])  # each arrival counts
            return IN_BLOCK, f"{come} of the {expected} threads come that barrier {wait} waits for"
        threads = sum(int(lanes).bit_count() for lanes in missing[arrived == 0])
        return (IN_BLOCK, f"{threads} threads of the block do not come") if threads else ("", "")

    def _add_row(self, what: str, row: Sequence[int], other: Sequence[int] | int, lanes: int, detail: str) -> None:
        """Add the finding of ``lanes`` at the barrier ``row``; ``other`` as in :meth:`_add`, as a row."""
        block, warp = divmod(row[at.SYNC_WARP], self.launch.warps_per_block)
        self._add(what, row[at.SYNC_INDEX], other, block, warp, lanes, detail)

    def _add(
        self, what: str, index: int, other: Sequence[int] | int, block: int, warp: int, lanes: int, detail: str
    ) -> None:
        """Add a finding of ``lanes`` of a warp at instruction ``index``; ``other``: a barrier's row that it does not go
        with, or -1."""
        beside = None if isinstance(other, int) else other

        def finding() -> Finding:
            other_thread = None
            if beside is not None:
                other_warp = beside[at.SYNC_WARP] % self.launch.warps_per_block
                other_thread = thread_index(self.launch, other_warp * LANES + _first(beside[at.SYNC_EXECUTING]))
            return Finding(
                "synccheck",
                what,
                1,
                block_index(self.launch, block),
                thread_index(self.launch, warp * LANES + _first(lanes)),
                place_of(self.program, index),
                other_thread,
                "" if beside is None else place_of(self.program, beside[at.SYNC_INDEX]),
                detail,
            )

        key = (what, index, -1 if beside is None else beside[at.SYNC_INDEX])
        self._found.add(key, lanes.bit_count(), finding)


def _whole_warp_waits(program: Program) -> list[int]:
    """Instructions at which all lanes of a warp wait for each other, whatever a predicate says."""
    return [index for index, text in enumerate(program.texts) if text in ("WARPSYNC.ALL", "WARPSYNC 0xffffffff")]


def _aligned_barriers(program: Program) -> np.ndarray:
    """Which barriers of a block are known to be aligned ones (``bar.sync``) in code that warps may come to divided,
    bool[instructions]: the compiler lets all lanes of the warp meet directly before such a one (WARPSYNC.ALL), and asks
    whether they are divided before one that is not aligned (``barrier.sync``: BRA.DIV)."""
    found, met = np.zeros(len(program.texts), bool), False
    for index, text in enumerate(program.texts):
        if text.endswith(("WARPSYNC.ALL", "WARPSYNC 0xffffffff")):
            met = True
        elif program.instructions["pipe"][index] == PipeClass.BARRIER:
            found[index], met = met, False
        elif program.instructions["pipe"][index] == PipeClass.BRANCH:
            met = False
    return found


def _first(lanes: int) -> int:
    return (lanes & -lanes).bit_length() - 1


def _hex(lanes: int) -> str:
    return f"0x{lanes:08x}"
