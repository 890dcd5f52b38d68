"""What a launch reads and writes in global memory, and which of it comes before it has waited for the launch before it.

Mental model: a launch made with programmatic stream serialization may begin while the one before it still runs, from
when all blocks of that one have executed ``griddepcontrol.launch_dependents`` or ended; ``griddepcontrol.wait`` lasts
until that one has completed and its writes are visible. Accesses are *early* until the warp has executed that wait, or
has passed a barrier of its block (or waited at an mbarrier) behind a wait of another warp. Global memory is followed in
words of 4 bytes, bulk copies in sectors of 32.

Source: PTX ISA, griddepcontrol; CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from gpusim.trace.boxes import LINE_BYTES, SECTOR_SHIFT, box_lines, reads, writes
from gpusim.trace.compiled import reading
from gpusim.trace.lanes import lane_address
from gpusim.trace.record import Chunk, Flag, Launch, MemoryKind, Program, Space

READ, WRITTEN = 1, 2
WORD_SHIFT = 2
_LANES = 32
_SECTOR_BYTES = 1 << SECTOR_SHIFT
#: What the walk knows of each instruction, int64[n, columns].
_USE, _WIDTH, _RECORDS, _WAITS, _MEETS, _COLUMNS = range(6)


@dataclass(frozen=True)
class Accesses:
    """Words that were accessed (addresses / 4, sorted, each once), the instruction that did so first, and the thread:
    its block << 32 | its number in the block."""

    words: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    code: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))
    thread: np.ndarray = field(default_factory=lambda: np.zeros(0, np.int64))

    def joined(self, words: np.ndarray, code: np.ndarray, thread: np.ndarray) -> Accesses:
        """These and further ones, which come later."""
        all_words = np.concatenate([self.words, words])
        unique, first = np.unique(all_words, return_index=True)
        return Accesses(unique, np.concatenate([self.code, code])[first], np.concatenate([self.thread, thread])[first])

    def common(self, other: Accesses) -> tuple[np.ndarray, np.ndarray]:
        """Places of the words that both have: in this one, and in the other."""
        at = np.searchsorted(other.words, self.words)
        at[at == len(other.words)] = 0
        mine = np.flatnonzero(other.words[at] == self.words) if len(other.words) else np.zeros(0, np.int64)
        return mine, at[mine]


def dependency_code(program: Program) -> tuple[np.ndarray, np.ndarray]:
    """Which instructions are ``griddepcontrol.wait`` (ACQBULK), and which ``griddepcontrol.launch_dependents``
    (PREEXIT): bool[n] each."""
    names = [next((part for part in text.split() if not part.startswith("@")), "") for text in program.texts]
    return np.array([name == "ACQBULK" for name in names]), np.array([name == "PREEXIT" for name in names])


class GridAccesses:
    """Gathers the accesses of a launch chunk by chunk, whose blocks are whole: ``reads`` and ``writes``, and those of
    them that are early."""

    def __init__(self, program: Program, launch: Launch):
        table, self._launch = program.instructions, launch
        self._code = np.zeros((len(table), _COLUMNS), np.int64)
        kind, there = table["memory_kind"], np.isin(table["space"], (Space.GLOBAL, Space.GENERIC))
        read = np.isin(kind, (MemoryKind.LOAD, MemoryKind.ATOMIC, MemoryKind.REDUCTION, MemoryKind.ASYNC_COPY))
        written = np.isin(kind, (MemoryKind.STORE, MemoryKind.ATOMIC, MemoryKind.REDUCTION))
        self._code[:, _USE] = there * (read * READ + written * WRITTEN)
        self._code[:, _WIDTH] = np.maximum(table["access_bytes"], 1)
        self._code[:, _RECORDS] = table["records"]
        self._code[:, _WAITS] = dependency_code(program)[0]
        flags = table["flags"].astype(np.int64)
        self._code[:, _MEETS] = np.where(
            flags & int(Flag.BARRIER_WAIT), 1, np.where(flags & int(Flag.PHASE_LOOK), 2, 0)
        )
        bases = np.array([base for base, _ in launch.allocations], np.int64)
        self._bases, self._ends = bases, bases + np.array([size for _, size in launch.allocations], np.int64)
        self.reads, self.writes, self.early_reads, self.early_writes = (Accesses() for _ in range(4))

    def add(self, chunk: Chunk, early_only: bool) -> None:
        """Take the accesses of whole blocks; ``early_only``: the others do not count."""
        early, code = np.zeros(len(chunk.accesses), np.bool_), np.zeros(len(chunk.accesses), np.int64)
        thread = np.zeros(len(chunk.accesses), np.int64)
        lanes = _walk(
            chunk.warps, chunk.runs, chunk.path_start, self._code, chunk.first_block, self._launch.warps_per_block,
            early, code, thread,
        )  # fmt: skip
        found = np.zeros((lanes if len(chunk.accesses) else 0, 2), np.int64)
        used = _spread(chunk.accesses, chunk.scattered, self._code, code, early, early_only, found)
        self._take(found[:used, 0], found[:used, 1], code, thread, early)
        boxes = chunk.bulks
        if len(boxes):
            of = boxes["access"].astype(np.int64)
            for use, which in ((READ, reads(boxes)), (WRITTEN, writes(boxes))):
                chosen = np.flatnonzero(which & (early[of] if early_only else True))
                lines, masks, record = box_lines(boxes[chosen])
                for sector in range(LINE_BYTES // _SECTOR_BYTES):
                    there = masks >> sector & 1 != 0
                    first = (lines[there] + sector * _SECTOR_BYTES) >> WORD_SHIFT
                    words = (first[:, None] + np.arange(_SECTOR_BYTES >> WORD_SHIFT)).ravel()
                    places = np.repeat(of[chosen][record[there]], _SECTOR_BYTES >> WORD_SHIFT)
                    self._put(words, places, code, thread, early, use, np.zeros(len(words), np.int64))

    def _take(self, words, packed, code, thread, early) -> None:
        """Accesses of lanes: ``packed`` is the access << 5 | the lane."""
        places = packed >> 5
        use = self._code[code[places], _USE] if len(places) else np.zeros(0, np.int64)
        for bit in (READ, WRITTEN):
            chosen = use & bit != 0
            self._put(words[chosen], places[chosen], code, thread, early, bit, packed[chosen] & _LANES - 1)

    def _put(self, words, places, code, thread, early, use, lane) -> None:
        at = np.searchsorted(self._bases, words << WORD_SHIFT, side="right") - 1
        inside = (at >= 0) & ((words << WORD_SHIFT) < self._ends[np.maximum(at, 0)]) if len(self._bases) else at > 0
        words, places, lane = words[inside], places[inside], lane[inside]
        new = words, code[places], thread[places] + lane
        ahead = early[places]
        first = tuple(each[ahead] for each in new)
        if use == READ:
            self.reads, self.early_reads = self.reads.joined(*new), self.early_reads.joined(*first)
        else:
            self.writes, self.early_writes = self.writes.joined(*new), self.early_writes.joined(*first)


@reading
def _walk(
    warps, runs, path_start, table, first_block, warps_per_block, early, code, thread
):  # pragma: no cover - jitted
    """Fill in of each access whether it is early, its instruction and its warp's first thread; returns how many words
    lanes touch at most."""
    total = 0
    for block in range(warps.shape[0] // warps_per_block):
        behind = np.int64(-1)  # barriers that warps of the block have passed when the first one has waited
        for sweep in range(2):
            for warp in range(warps_per_block):
                w = block * warps_per_block + warp
                at, path = np.int64(warps[w]["access_start"]), warps[w]["path"]
                passed, waited = np.int64(0), False
                for r in range(path_start[path], path_start[path + 1]):
                    first = np.int64(runs[r]["first"])
                    for i in range(first, first + np.int64(runs[r]["count"])):
                        if table[i, _WAITS]:
                            waited = True
                            if sweep == 0:
                                behind = passed if behind < 0 else min(behind, passed)
                        elif table[i, _MEETS] == 1:
                            passed += 1
                            if behind >= 0 and passed > behind:
                                waited = True
                        elif table[i, _MEETS] == 2 and behind >= 0:
                            waited = True
                        for _ in range(table[i, _RECORDS]):
                            if sweep == 1:
                                early[at], code[at] = not waited, i
                                thread[at] = (np.int64(first_block) + block) << 32 | warp * 32
                                total += 32 * (1 + table[i, _WIDTH] // 4) if table[i, _USE] else 0
                            at += 1
    return total


@reading
def _spread(accesses, scattered, table, code, early, early_only, found):  # pragma: no cover - jitted
    """Write each word that a lane accesses, and access << 5 | lane, to ``found``; returns how many."""
    used = 0
    for at in range(accesses.shape[0]):
        i = code[at]
        if table[i, _USE] == 0 or (early_only and not early[at]):
            continue
        access = accesses[at]
        for lane in range(32):
            if not (np.int64(access["mask"]) >> lane) & 1:
                continue
            address = lane_address(access, scattered, lane)
            for word in range(address >> 2, ((address + table[i, _WIDTH] - 1) >> 2) + 1):
                found[used, 0], found[used, 1] = word, np.int64(at) << 5 | lane
                used += 1
    return used
