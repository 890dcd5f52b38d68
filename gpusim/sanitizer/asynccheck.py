"""Hopper's and Blackwell's asynchronous work against the accesses around it: what nothing orders, and mbarriers that count wrong.

Mental model: bulk copies (TMA), products of warp groups (wgmma) and of tcgen05 read and write shared memory some time after they were issued; the
emulator does it at once, so a missing wait shows in no result. This listener gets each event in the emulator's order and asks by vector
clocks (:mod:`gpusim.sanitizer.async_tables`) what a GPU would be free to do in another one. Hazards are named as racecheck names
them, misuse of mbarriers as synccheck does.

Not seen: ``fence.mbarrier_init``, of which machine code keeps nothing; order between lanes of a warp; ``cp.async`` without bulk; blocks that wait
for each other by polling shared memory without atomics; what is in tensor memory.
"""

from __future__ import annotations

import numpy as np

from gpusim.emulator.faults import place_of
from gpusim.emulator.listeners import Listener
from gpusim.isa import warp as at
from gpusim.sanitizer import async_tables as t
from gpusim.sanitizer.async_events import check_events
from gpusim.sanitizer.findings import MOST_FINDINGS, Finding, block_index, thread_index
from gpusim.trace.record import Launch, MemoryKind, Program

_HAZARD, _OBJECT = "racecheck", "synccheck"
_WAIT = "let it wait for the mbarrier's phase first"
#: What is found: tool, title, detail ({place}: shared address in bytes, {value}, {extra}) with the remedy.
_SAID = {
    t.READ_UNFILLED: (_HAZARD, "Shared memory read before the bulk load into it is complete", f"byte {{place}}: {_WAIT}"),
    t.WRITE_UNFILLED: (_HAZARD, "Shared memory written while a bulk load fills it", f"byte {{place}}: {_WAIT}"),
    t.LOAD_OVER_LOAD: (_HAZARD, "Two bulk loads fill the same shared memory", f"byte {{place}}: {_WAIT}"),
    t.LOAD_OVER_READ: (
        _HAZARD, "Bulk load overwrites shared memory that a warp may still read",
        "byte {place}: the reader has to arrive at a barrier for which the issuing thread waits",
    ),
    t.LOAD_OVER_WRITE: (
        _HAZARD, "Bulk load and store into the same shared memory", "byte {place}: no barrier between the writer and the issuing thread",
    ),
    t.OVER_COPY: (
        _HAZARD, "Shared memory overwritten while a bulk store reads it",
        "byte {place}: the issuing thread needs cp.async.bulk.wait_group.read, and a barrier after it",
    ),
    t.OVER_PRODUCT: (
        _HAZARD, "Shared memory overwritten while the tensor core reads it",
        "byte {place}: wgmma.wait_group of the reading warp group, and a barrier after it, have to come first",
    ),
    t.OVER_TENSOR: (
        _HAZARD, "Shared memory overwritten while the tensor core reads it",
        "byte {place}: tcgen05.commit to an mbarrier, and a wait for its phase, have to come first",
    ),
    t.UNORDERED: (
        _HAZARD, "Asynchronous read of shared memory that a warp may still write",
        "byte {place}: no barrier between the writer and the issuing thread",
    ),
    t.UNFENCED: (
        _HAZARD, "Missing fence between proxies",
        "byte {place} was written by an ordinary store: fence.proxy.async has to follow it, before the barrier",
    ),
    t.NO_OBJECT: (_OBJECT, "mbarrier used that is not initialised", "at byte {place}: mbarrier.init has to come first"),
    t.OBJECT_UNSEEN: (
        _OBJECT, "mbarrier used before its initialisation is visible",
        "at byte {place}: no barrier between mbarrier.init and this use",
    ),
    t.OBJECT_AGAIN: (
        _OBJECT, "mbarrier initialised again", "at byte {place}, in phase {value}: mbarrier.inval has to come first",
    ),
    t.OBJECT_OVERWRITTEN: (_OBJECT, "mbarrier overwritten by a store", "at byte {place}: mbarrier.inval has to come first"),
    t.TOO_MANY: (
        _OBJECT, "More arrivals than the mbarrier expects", "at byte {place}, phase {extra}: initialised for {value}",
    ),
    t.BYTES_TOO_MANY: (
        _OBJECT, "More bytes arrive at the mbarrier than are expected",
        "at byte {place}, phase {extra}: {value} bytes too many; raise the count of expect_tx",
    ),
    t.BYTES_TOO_FEW: (
        _OBJECT, "Fewer bytes arrive at the mbarrier than are expected",
        "at byte {place}, phase {extra}: {value} bytes have not come when the block ends; lower the count of expect_tx",
    ),
    t.BYTES_RANGE: (
        _OBJECT, "Transaction count of the mbarrier out of range", "at byte {place}: {value}, beyond 2^20 - 1",
    ),
}  # fmt: skip
_READS = (
    MemoryKind.LOAD, MemoryKind.MATRIX_LOAD, MemoryKind.ATOMIC, MemoryKind.REDUCTION, MemoryKind.BULK_SHARED_REDUCTION,
)  # fmt: skip
_WRITES = (MemoryKind.STORE, MemoryKind.ATOMIC, MemoryKind.REDUCTION)
_ROLES = (
    ("FENCE.VIEW.ASYNC", t.FENCE), ("UTMACMDFLUSH", t.CLOSE_BULK), ("DEPBAR.LE", t.WAIT_BULK),
    ("WARPGROUP.DEPBAR", t.WAIT_PRODUCTS), ("SYNCS.CCTL", t.INVALIDATE), ("SYNCS.EXCH", t.INIT), ("UTCBAR", t.COMMIT),
)  # fmt: skip


def _code_of(program: Program, matrix: np.ndarray) -> np.ndarray:
    """What the check knows of each instruction, int64[n, CODE_COLUMNS]."""
    code = np.zeros((len(program.texts), t.CODE_COLUMNS), np.int64)
    rows = program.instructions
    code[:, t.SIZE] = rows["access_bytes"]
    code[:, t.READS], code[:, t.WRITES] = np.isin(rows["memory_kind"], _READS), np.isin(rows["memory_kind"], _WRITES)
    for index, text in enumerate(program.texts):
        words = text.split()
        name = words[1] if words and words[0].startswith("@") else words[0] if words else ""
        code[index, t.ROLE] = next((role for start, role in _ROLES if name.startswith(start)), t.NO_ROLE)
        if code[index, t.ROLE] in (t.WAIT_BULK, t.WAIT_PRODUCTS):
            last = words[-1]
            code[index, t.LEVEL] = int(last, 16) if last.startswith("0x") else 0
        if ".64x" in name and "gdesc" in text:
            shape, bits = (int(matrix[index, column]) for column in (at.F1, at.F0))
            bits = bits >> 20 & 0xFFF
            elements, columns = shape >> 16, shape & 0xFFFF
            size = 4 if bits == 1 else bits >> 3
            code[index, t.ROWS], code[index, t.COLUMNS] = 64, columns
            code[index, t.ELEMENT_BYTES], code[index, t.DEPTH_BYTES] = size, elements * size
            turned_a, turned_b, sparse = ".tnspA" in text, ".tnspB" in text, ".SP." in name
            code[index, t.FORM] = (
                (t.A_IN_SHARED if _a_in_shared(text) else 0) | (t.A_TURNED if turned_a else 0)
                | (t.B_TURNED if turned_b else 0) | (t.CLOSES if "gsb0" in text else 0) | (16 if sparse else 0)
            )  # fmt: skip
    return code


def _a_in_shared(text: str) -> bool:
    """Whether a product's A is named by its descriptor: D is followed by it, not by registers."""
    return text.split(",")[1].strip().startswith("gdesc")


class AsyncCheck(Listener):
    """Collects what is wrong with the asynchronous work of one launch, whose code ``matrix`` has (CODE_TABLE of :mod:`gpusim.isa.warp`)."""

    def __init__(self, program: Program, launch: Launch, shared_base: int, matrix: np.ndarray):
        self.program, self.launch = program, launch
        self._facts, self._code = t.facts_of(launch, shared_base), _code_of(program, matrix)
        self._tables = t.tables(self._facts, self._code, 1, MOST_FINDINGS)
        threads = np.arange(launch.warps_per_block * at.LANES).reshape(-1, at.LANES) < launch.block_threads
        self._exists = threads.astype(np.int64) @ (np.int64(1) << np.arange(at.LANES))

    def events_logged(self, events: np.ndarray) -> None:
        done = 0
        while (done := check_events(self._tables, events, self._exists, done)) < len(events):
            self._tables = _more_slots(self._tables)

    def findings(self) -> list[Finding]:
        """What has been found so far, in the order of its first occurrence."""
        return [self._finding(row) for row in self._tables.found[: self._tables.counts[0]].tolist()]

    def _finding(self, row: list[int]) -> Finding:
        tool, what, detail = _SAID[row[t.WHAT]]
        said = detail.format(place=row[t.PLACE], value=row[t.VALUE], extra=row[t.EXTRA])
        other = row[t.OTHER_WARP] >= 0
        if other and row[t.OTHER_BLOCK] != row[t.BLOCK]:
            said += f"; the other is of block {block_index(self.launch, row[t.OTHER_BLOCK])}"
        return Finding(
            tool,
            what,
            row[t.TIMES],
            block_index(self.launch, row[t.BLOCK]),
            thread_index(self.launch, row[t.WARP] * at.LANES),
            place_of(self.program, row[t.CODE]),
            thread_index(self.launch, row[t.OTHER_WARP] * at.LANES) if other else None,
            place_of(self.program, row[t.OTHER_CODE]) if row[t.OTHER_CODE] >= 0 else "",
            said,
        )


def _more_slots(tables: t.Tables) -> t.Tables:
    """The same with room for twice as many clusters at a time."""
    slots = len(tables.clusters)
    grown = {}
    for name, old in tables._asdict().items():
        if name in ("facts", "code", "found", "counts"):
            continue
        new = np.full((2 * slots, *old.shape[1:]), -1 if name == "clusters" else 0, old.dtype)
        new[:slots] = old
        grown[name] = new
    return tables._replace(**grown)
