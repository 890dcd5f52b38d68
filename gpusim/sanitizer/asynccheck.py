"""Hopper's and Blackwell's asynchronous work against the accesses around it: what nothing orders, and mbarriers that
count wrong.

Mental model: bulk copies (TMA), products of warp groups (wgmma) and of tcgen05 read and write shared memory some time
after they were issued; the emulator does it at once, so a missing wait shows in no result. This listener gets each
event in the emulator's order and asks by vector clocks (:mod:`gpusim.sanitizer.async_tables`) what a GPU would be free
to do in another one. Hazards are named as racecheck names them, misuse of mbarriers as synccheck does.

Not seen: ``fence.mbarrier_init``, of which machine code keeps nothing; order between lanes of a warp; blocks that wait
for each other by polling shared memory without atomics; what is in tensor memory.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gpusim.emulator.faults import place_of
from gpusim.emulator.listeners import Listener
from gpusim.isa import event_table as table
from gpusim.isa import tensor_memory_ops as tensor
from gpusim.isa import warp as at
from gpusim.isa.form import Instruction
from gpusim.isa.system_ops import TENSOR_MEMORY
from gpusim.sanitizer import async_tables as t
from gpusim.sanitizer.async_events import check_events
from gpusim.sanitizer.async_words import HAZARD, REGISTERS_SAID, SAID
from gpusim.sanitizer.findings import MOST_FINDINGS, Finding, block_index, thread_index
from gpusim.sanitizer.group_registers import UNFENCED, Touch, touches
from gpusim.sanitizer.guarded_loads import guarded_loads
from gpusim.trace.record import Launch, MemoryKind, Program

_READS = (
    MemoryKind.LOAD, MemoryKind.MATRIX_LOAD, MemoryKind.ATOMIC, MemoryKind.REDUCTION, MemoryKind.BULK_SHARED_REDUCTION,
)  # fmt: skip
_WRITES = (MemoryKind.STORE, MemoryKind.ATOMIC, MemoryKind.REDUCTION)
#: What is found of ordinary accesses alone.
_ORDINARY = (t.RACE_WRITE_WRITE, t.RACE_READ_WRITE, t.READ_UNWRITTEN)
_ROLES = (
    ("FENCE.VIEW.ASYNC.T", t.WAIT_STORED), ("UVIRTCOUNT.DEALLOC", t.RELINQUISH), ("FENCE.VIEW.ASYNC", t.FENCE), ("UTMACMDFLUSH", t.CLOSE_BULK), ("DEPBAR.LE", t.WAIT_BULK),
    ("LDGDEPBAR", t.CLOSE_COPIES), ("ARRIVES.LDGSTSBAR", t.ARRIVE_COPIED),
    ("WARPGROUP.DEPBAR", t.WAIT_PRODUCTS), ("SYNCS.CCTL", t.INVALIDATE), ("SYNCS.EXCH", t.INIT), ("UTCBAR", t.COMMIT),
)  # fmt: skip


def _code_of(program: Program, matrix: np.ndarray) -> np.ndarray:
    """What the check knows of each instruction, int64[n, CODE_COLUMNS]."""
    code = np.zeros((len(program.texts), t.CODE_COLUMNS), np.int64)
    rows = program.instructions
    code[:, t.SIZE] = rows["access_bytes"]
    code[:, t.READS], code[:, t.WRITES] = np.isin(rows["memory_kind"], _READS), np.isin(rows["memory_kind"], _WRITES)
    code[:, t.GUARDED] = guarded_loads(program)
    for index, text in enumerate(program.texts):
        words = text.split()
        name = words[1] if words and words[0].startswith("@") else words[0] if words else ""
        if ".MULTICAST" in name and name.startswith(("UTMALDG", "UBLKCP")):
            code[index, t.TELLS] = t.TELLS_PAIRS if ".2CTA" in name else t.TELLS_EACH
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
    """Collects what is wrong with the asynchronous work of one launch, whose code ``matrix`` has (CODE_TABLE of
    :mod:`gpusim.isa.warp`) and, for what concerns registers, ``instructions``. ``checks``: "async"; with "race"
    ordinary accesses to shared memory are laid beside each other too (:mod:`gpusim.sanitizer.async_races`), with
    "memory" reads of what nothing has written are told."""

    def __init__(
        self,
        program: Program,
        launch: Launch,
        shared_base: int,
        matrix: np.ndarray,
        instructions: Sequence[Instruction] = (),
        checks: frozenset[str] = frozenset({"async"}),
    ):
        self.program, self.launch = program, launch
        self._facts, self._code = t.facts_of(launch, shared_base), _code_of(program, matrix)
        self._facts[t.RACES], self._facts[t.UNWRITTEN_READS] = "race" in checks, "memory" in checks
        self._asynchronous = "async" in checks
        if self._asynchronous and (program.instructions["memory_kind"] == MemoryKind.ASYNC_COPY).any():
            self._facts[t.COPY_WORDS] = -(-launch.shared_bytes // 4)
        columns = tensor.MEMORY_COLUMNS if (matrix[:, at.OP] == TENSOR_MEMORY).any() else 0
        self._tables = t.tables(self._facts, self._code, 1, MOST_FINDINGS, columns)
        threads = np.arange(launch.warps_per_block * at.LANES).reshape(-1, at.LANES) < launch.block_threads
        self._exists = threads.astype(np.int64) @ (np.int64(1) << np.arange(at.LANES))

        self._touches = touches(program, instructions) if instructions and self._asynchronous else []
        self._products: dict[int, tuple[int, int]] = {}  # products that have been executed -> (block, warp), the first

    def events_logged(self, events: np.ndarray) -> None:
        if self._touches:
            of_groups = events[events[:, table.EVENT_KIND] == table.WATCH_PRODUCT]
            for index, first in zip(*np.unique(of_groups[:, table.EVENT_INDEX], return_index=True), strict=True):
                row = of_groups[first]
                self._products.setdefault(int(index), (int(row[table.EVENT_BLOCK]), int(row[table.EVENT_WARP])))
        done = 0
        while (done := check_events(self._tables, events, self._exists, done)) < len(events):
            self._tables = _more_slots(self._tables)

    def findings(self) -> list[Finding]:
        """What has been found so far, in the order of its first occurrence."""
        rows = self._tables.found[: self._tables.counts[0]].tolist()
        found = [self._finding(row) for row in rows if self._asynchronous or row[t.WHAT] in _ORDINARY]
        return found + [each for touch in self._touches if (each := self._touched(touch)) is not None]

    def _touched(self, touch: Touch) -> Finding | None:
        """The finding of a register that is touched at the wrong time; None if the product was never executed."""
        product = touch.index if touch.what == UNFENCED else touch.other
        if product not in self._products:
            return None
        block, warp = self._products[product]
        what, detail = REGISTERS_SAID[touch.what]
        return Finding(
            HAZARD,
            what,
            1,
            block_index(self.launch, block),
            thread_index(self.launch, warp * at.LANES),
            place_of(self.program, touch.index),
            thread_index(self.launch, warp * at.LANES),
            place_of(self.program, touch.other),
            f"R{touch.register}: {detail}",
        )

    def _finding(self, row: list[int]) -> Finding:
        tool, what, detail = SAID[row[t.WHAT]]
        said = detail.format(place=row[t.PLACE], value=row[t.VALUE], extra=row[t.EXTRA])
        other = row[t.OTHER_WARP] >= 0
        if other and row[t.OTHER_BLOCK] != row[t.BLOCK]:
            said += f"; the other is of block {block_index(self.launch, row[t.OTHER_BLOCK])}"
        return Finding(
            tool,
            what.format(value=row[t.VALUE]),
            row[t.TIMES],
            block_index(self.launch, row[t.BLOCK]),
            thread_index(self.launch, row[t.WARP] * at.LANES),
            place_of(self.program, row[t.CODE]),
            thread_index(self.launch, row[t.OTHER_WARP] * at.LANES) if other else None,
            place_of(self.program, row[t.OTHER_CODE]) if row[t.OTHER_CODE] >= 0 else "",
            said,
        )


class WrittenValues(AsyncCheck):
    """Knows which writes to shared memory, of those that nothing orders, have left different values; has no findings of
    its own."""

    def __init__(self, program: Program, launch: Launch, shared_base: int, matrix: np.ndarray):
        super().__init__(program, launch, shared_base, matrix, checks=frozenset({"race"}))

    def findings(self) -> list[Finding]:
        """None."""
        return []

    def differ(self, one: int, other: int) -> bool:
        """Whether writes of two instructions, by their indices, have."""
        rows = self._tables.found[: self._tables.counts[0]]
        rows = rows[rows[:, t.WHAT] == t.RACE_WRITE_WRITE]
        pairs = {(min(pair), max(pair)) for pair in rows[:, (t.CODE, t.OTHER_CODE)].tolist()}
        return (min(one, other), max(one, other)) in pairs or self._tables.counts[1] > 0


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
