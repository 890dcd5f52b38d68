"""Which registers an instruction reads, by operand slot, and what it reads from constant memory.

Mental model: the 128-bit word has three register fields, slots a, b and c, and the reuse bits belong to the fields.
The text lists the registers in order, but not which field each stands in (an immediate may take the place of any of
them); so each register named is looked for in the fields, its reuse mark telling equal ones apart. Field positions:
Jia et al., "Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking" (2018); unchanged through Blackwell.
"""

from __future__ import annotations

from gpusim.isa.form import Instruction, Kind, MicroOp, Operand

NO_REGISTER = 255
SLOTS = 3
SLOT_SHIFTS = (24, 32, 64)


def register_slots(instruction: Instruction, micro: MicroOp) -> list[tuple[int, int]]:
    """(first register, registers) of each slot; (-1, 0) for a slot that reads none."""
    words = {source.operand: source.words for source in micro.sources if source is not None}
    fields = [(instruction.word >> shift) & 0xFF for shift in SLOT_SHIFTS]
    slots = [(-1, 0)] * SLOTS
    for operand in _registers_read(instruction, micro):
        free = [slot for slot in range(SLOTS) if slots[slot][0] < 0]
        if not free:
            break
        reused = ".reuse" in operand.text
        fitting = [slot for slot in free if fields[slot] == operand.index]
        marked = [slot for slot in fitting if ((instruction.control.reuse_mask >> slot) & 1) == reused]
        slots[(marked or fitting or free)[0]] = operand.index, words.get(operand, 1)
    return slots


def _registers_read(instruction: Instruction, micro: MicroOp) -> list[Operand]:
    operands = list(instruction.operands)
    if micro.destination is not None and operands and operands[0] == micro.destination:
        del operands[0]
    return [o for o in operands if o.kind == Kind.REGISTER and o.index != NO_REGISTER]


def fixed_constant(instruction: Instruction, micro: MicroOp) -> tuple[int, int, int]:
    """(bytes, bank, offset) of the operand read from constant memory at a fixed place. Bytes 0: there is none; the bank
    is that of an indexed load, then."""
    words = {source.operand: source.words for source in micro.sources if source is not None}
    for operand in instruction.operands:
        if operand.kind != Kind.CONSTANT or operand.descriptor != -1:
            continue
        if operand.index == NO_REGISTER and operand.uniform_index == NO_REGISTER and operand.value >= 0:
            return 4 * words.get(operand, 1), operand.bank, operand.value
    return 0, micro.extra.get("bank", 0), 0
