"""Register-file banks of a sub-core, their read ports, and the reuse cache that the compiler controls.

Mental model: a register lies in bank ``number % 2``; a bank reads ``reads_per_bank`` registers a cycle. A fixed-latency
instruction passes two stages between issue and reading: it waits in the second one (Allocate) until all its operands
can be read within the next ``WINDOW_CYCLES`` cycles, and whatever is behind it waits too: the sub-core issues one
instruction more, into the first stage, and then none until there is room again. An operand whose reuse bit is set stays
in the reuse cache, one entry an operand slot and bank, until the next instruction of the sub-core that reads that slot
in that bank; if that is the same register of the same warp, it is not read again. Source: Huerta et al., MICRO 2025,
sections 5.1 and 5.3.

Cycles are counted as those of issue; the constant distance to the stages themselves cancels out.

``operands`` int64[instructions, columns] says what each instruction reads; ``registers`` is int64[sub-cores, columns].
"""

from __future__ import annotations

import numpy as np

from gpusim.gpus.spec import RegisterFileSpec
from gpusim.model.bit_sets import population
from gpusim.model.compiled import inlined
from gpusim.model.messages import TICKS_PER_CYCLE
from gpusim.state_tables import Table
from gpusim.trace.record import NO_BARRIER, Flag, PipeClass, Program

BANKS = 2
SLOTS = 3
#: Cycles in which an instruction reads its operands, however many they are.
WINDOW_CYCLES = 3
OPERAND_TABLE = Table(
    __name__, "operands", "an instruction of the program", "What it reads from the register file.", whole_lines=True
)
PORTS = OPERAND_TABLE.column("count", "read ports of a bank; 0: its operands are read elsewhere")
SLOTS_0 = OPERAND_TABLE.column("mask", "bit 16 s: operand slot s reads in bank 0")
NUMBERS_0 = OPERAND_TABLE.column("packed", "16 bits a slot: the register there")
KEEP_0 = OPERAND_TABLE.column("mask", "bit 16 s: the reuse cache keeps slot s")
SLOTS_1 = OPERAND_TABLE.column("mask", "bit 16 s: operand slot s reads in bank 1")
NUMBERS_1 = OPERAND_TABLE.column("packed", "16 bits a slot: the register there")
KEEP_1 = OPERAND_TABLE.column("mask", "bit 16 s: the reuse cache keeps slot s")
#: From a column of bank 0 to the same of bank 1.
BANK_COLUMNS = SLOTS_1 - SLOTS_0

REGISTER_TABLE = Table(__name__, "registers", "a sub-core", "Its register file's ports and reuse cache.")
FREE_0 = REGISTER_TABLE.column("cycle", "from which the port of bank 0 is free")
FREE_1 = REGISTER_TABLE.column("cycle", "the same of bank 1")
CACHE_0 = REGISTER_TABLE.column("packed", "reuse cache of bank 0: 16 bits an operand slot, warp and register")
CACHE_1 = REGISTER_TABLE.column("packed", "the same of bank 1")
ALLOCATE_FREE = REGISTER_TABLE.column("cycle", "from which Allocate is free")

_SLOT_BITS = 16
_SLOT_MASK = (1 << _SLOT_BITS) - 1
#: Of a slot's 16 bits the low ones are the register's number, the others 1 + the warp's place in its sub-core.
_WARP_SHIFT = 8
#: Classes whose operands are read elsewhere: by the LSU, or over many cycles in which the unit takes nothing
#: else (tensor cores).
_ELSEWHERE = (PipeClass.LSU, PipeClass.SHUFFLE, PipeClass.CONSTANT, PipeClass.TENSOR, PipeClass.BARRIER)

#: Classes whose results do not come with their issue: the LSU writes them when they are there, and the tensor core
#: writes its own.
_WRITTEN_LATER = (PipeClass.LSU, PipeClass.SHUFFLE, PipeClass.TENSOR, PipeClass.TENSOR_MEMORY, PipeClass.TMA)


def write_ticks(code: np.ndarray, spec: RegisterFileSpec) -> np.ndarray:
    """int64[instructions]: ticks of a tensor core's write-back that each instruction's own writes take
    (:mod:`gpusim.model.write_back`), a cycle at most; all zero in a program without products of warp groups."""
    each = spec.product_write_cycles if spec.bank_conflicts else 0.0
    if not each or not (code["flags"] & int(Flag.PRODUCT)).any():
        return np.zeros(len(code), np.int64)
    words = np.where(code["destination"] >= 0, np.maximum(code["destination_count"].astype(np.int64), 1), 0)
    words[np.isin(code["pipe"], [int(pipe) for pipe in _WRITTEN_LATER])] = 0
    return np.minimum(np.round(words * each * TICKS_PER_CYCLE).astype(np.int64), TICKS_PER_CYCLE)


def operand_table(program: Program, spec: RegisterFileSpec) -> np.ndarray:
    """int64[instructions, columns]; all zero where ports never conflict (``bank_conflicts`` is false)."""
    code = program.instructions
    table = OPERAND_TABLE.zeros(len(code))
    if not spec.bank_conflicts:
        return table
    # What raises a counter has no fixed latency, and waits for its operands in a queue of its own.
    reads_here = ~np.isin(code["pipe"], [int(p) for p in _ELSEWHERE]) & (code["write_barrier"] == NO_BARRIER)
    for slot in range(SLOTS):
        register = code["sources"][:, slot].astype(np.int64)
        words = np.maximum(code["source_words"][:, slot].astype(np.int64), 1)
        kept = (code["reuse_mask"].astype(np.int64) >> slot) & 1
        for bank in range(BANKS):
            first = register + (register & 1 != bank)  # the operand's first register in this bank
            used = (reads_here & (register >= 0) & (first < register + words)).astype(np.int64)
            column = SLOTS_0 + bank * BANK_COLUMNS
            table[:, column] |= used << (_SLOT_BITS * slot)
            table[:, column + 1] |= (used * first) << (_SLOT_BITS * slot)
            table[:, column + 2] |= (used * kept) << (_SLOT_BITS * slot)
    table[:, PORTS] = reads_here * spec.reads_per_bank
    return table


@inlined
def _reads(registers, operands, sub, place, pc, bank):
    """Cycles for which the instruction keeps the bank's port; the reuse cache takes note of it."""
    column = SLOTS_0 + bank * BANK_COLUMNS
    slots = operands[pc, column]
    reads = population(slots)
    ports = operands[pc, PORTS]
    cached = registers[sub, CACHE_0 + bank]
    keep = operands[pc, column + 2]
    mask = slots * _SLOT_MASK
    if cached & mask == 0 and keep == 0:
        return (reads + ports - 1) // ports if ports > 1 else reads
    wanted = operands[pc, column + 1] | slots * ((place + 1) << _WARP_SHIFT)
    for slot in range(SLOTS):
        field = _SLOT_MASK << (_SLOT_BITS * slot)
        reads -= int(mask & field != 0 and (cached ^ wanted) & field == 0)
    registers[sub, CACHE_0 + bank] = cached & ~mask | wanted & (keep * _SLOT_MASK)
    return (reads + ports - 1) // ports if ports > 1 else reads


@inlined
def allocate(registers, operands, sub, place, pc, now):
    """Book the operand reads of an instruction of the sub-core's warp ``place`` that issues in cycle ``now``.

    Returns the first cycle at which the sub-core can issue again, as far as the stages behind issue go.
    """
    enters = max(now, registers[sub, ALLOCATE_FREE])
    latest = enters
    for bank in range(BANKS):
        if operands[pc, SLOTS_0 + bank * BANK_COLUMNS]:
            cycles = _reads(registers, operands, sub, place, pc, bank)
            free = max(enters, registers[sub, FREE_0 + bank]) + cycles
            registers[sub, FREE_0 + bank] = free
            latest = max(latest, free)
    registers[sub, ALLOCATE_FREE] = enters + 1 + max(0, latest - enters - WINDOW_CYCLES)
    return enters + 1
