"""Run one SASS instruction, given as text, on lanes of register values: no kernel, no interpreter.

Mental model: the text is decoded and lowered by the table's rows, then this file does in plain Python
what a MicroOp asks of the emulator of its sources (keep, flip, negate) and has a straight run of this one
instruction executed for one warp, so a row and its body are tested together and nothing else is.

``execute("IADD3 R0, P0, PT, R2, -R3, RZ", {"R2": values, "R3": values})`` takes 32 lane values a
register as Python ints (bit patterns), predicates as lane masks, and answers with ``Outcome.words``
(uint32[words, 32]) and ``Outcome.predicates`` (name to mask).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gpusim.emulator.encode import body_columns
from gpusim.emulator.runs import arithmetic_entry_address, execute_arithmetic
from gpusim.isa import warp as at
from gpusim.isa.binary.decode import parse_instruction
from gpusim.isa.bodies.tensor_rules import tensor_rules
from gpusim.isa.dispatch import entry_addresses, needed
from gpusim.isa.form import Kind, MicroOp, Operand, Source
from gpusim.isa.jit import compiled
from gpusim.isa.table import TABLE

LANES = 32
ALL = 0xFFFFFFFF
_SOURCES, _RESULT = (28, 32, 36), 40  # rows of the register file, behind the ones with a meaning of their own
_READ, _WRITTEN = (0, 1, 2), (4, 5)  # predicate slots


@dataclass
class Outcome:
    """What one instruction computed: register words, predicate masks, and the micro-op itself."""

    words: np.ndarray
    predicates: dict[str, int]
    micro: MicroOp

    @property
    def word(self) -> list[int]:
        """Word 0 of the result as unsigned ints."""
        return [int(v) for v in self.words[0]]

    @property
    def pair(self) -> list[int]:
        """Words 1:0 of the result as unsigned 64-bit ints."""
        return [int(h) << 32 | int(low) for low, h in zip(self.words[0], self.words[1])]


def lower(text: str) -> MicroOp | None:
    """The micro-op of the text, or None if its opcode's declaration does not accept it."""
    guard = ""
    if text.startswith("@"):
        guard, text = text.split(" ", 1)
    opcode, _, operands = text.partition(" ")
    instruction = parse_instruction(0, guard, opcode, operands, 0)
    opcode = TABLE.get(instruction.mnemonic)
    return opcode.lower(instruction) if opcode is not None else None


def execute(text: str, state: dict[str, object], capability: tuple[int, int] = (9, 0)) -> Outcome:
    """Run ``text`` on ``state`` (register name -> 32 patterns, predicate name -> lane mask); ``capability`` matters
    to tensor cores alone."""
    micro = lower(text)
    assert micro is not None, f"no row accepts {text}"
    # a register file filled with leftovers of an earlier instruction, which a body must not read
    registers = np.full((_RESULT + 8, at.ROW), 0x5A5A1234, np.int32)
    registers[at.ZERO_ROW : at.ZERO_ROW + 4] = 0
    for rows, source in zip(_SOURCES, micro.sources):
        if source is not None:
            registers[rows : rows + source.words, :LANES] = _fetch(source, state).view(np.int32)
    masks = [_mask(o, state) for o in micro.predicate_sources] + [0, 0, 0]
    before = registers[_SOURCES[0] : _RESULT].copy()
    written = _run(micro, registers, masks[:3], capability)
    assert (before == registers[_SOURCES[0] : _RESULT]).all(), "a body wrote into its sources"
    predicates = {
        _name(operand): int(value)
        for operand, value in zip(micro.predicate_destinations, written)
        if operand is not None
    }
    words = registers[_RESULT : _RESULT + micro.words, :LANES].view(np.uint32)
    return Outcome(words.copy(), predicates, micro)


def _run(micro: MicroOp, registers: np.ndarray, masks: list[int], capability: tuple[int, int]) -> list[int]:
    """Execute ``micro`` on sources that lie ready in the register file; returns the predicates written."""
    matrix = np.zeros((1, at.COLUMNS), np.int32)
    row = matrix[0]
    writes = any(o is not None and o.index != 7 for o in micro.predicate_destinations)
    row[at.GUARD], row[at.PLAIN] = at.TRUE_PREDICATE, 1
    row[[at.OP, at.VECTOR_BODY]] = body_columns(micro, writes)
    row[[at.A, at.B, at.C]] = np.array(_SOURCES) * at.ROW
    row[at.D_OFFSET], row[at.D_WORDS] = _RESULT * at.ROW, micro.words
    row[[at.P0, at.P1, at.P2]], row[[at.Q0, at.Q1]] = _READ, _WRITTEN
    row[at.PREDICATES_OUT] = 1
    flags = [int(flag) & ALL for flag in micro.flags[:4]]
    row[at.F0 : at.F0 + len(flags)] = np.array(flags, np.uint32).view(np.int32)
    states = np.zeros(1, at.STATE).view(np.recarray)
    state = states[0]
    state.active[0] = state.span[0] = ALL
    slots = state.predicates.reshape(-1, at.PREDICATE_SLOTS, at.GROUP_WARPS)[0, :, 0]
    slots[at.TRUE_PREDICATE] = ALL
    slots[list(_READ)] = masks
    state.rules[:] = tensor_rules(capability)
    state.entries[:] = entry_addresses(needed(matrix[:, at.OP], matrix[:, at.VECTOR_BODY]))
    state.arithmetic_entry, state.state_host = arithmetic_entry_address(), states.ctypes.data
    state.matrix_host, state.registers_host = matrix.ctypes.data, registers.ctypes.data
    with np.errstate(all="ignore"):
        _execute(states, matrix, registers.reshape(-1))
    return [int(value) for value in slots[list(_WRITTEN)]]


@compiled
def _execute(states, matrix, registers):
    execute_arithmetic(states[0], matrix, registers, 0, 1, 0, 0, 0, 1)


def _name(operand: Operand) -> str:
    prefix = {
        Kind.REGISTER: "R",
        Kind.UNIFORM: "UR",
        Kind.PREDICATE: "P",
        Kind.UNIFORM_PREDICATE: "UP",
    }[operand.kind]
    return f"{prefix}{operand.index}"


def _fetch(source: Source, state: dict[str, object]) -> np.ndarray:
    """uint32[words, 32] of a source after keep, flip and negate."""
    operand, words = source.operand, source.words
    values = np.zeros((words, LANES), np.uint64)
    if source.immediate is not None:
        for i in range(words):
            values[i] = source.immediate >> 32 * i & ALL
    elif operand.kind in (Kind.REGISTER, Kind.UNIFORM) and operand.index != 255:
        prefix = "R" if operand.kind == Kind.REGISTER else "UR"
        for i in range(words):
            values[i] = np.array(state[f"{prefix}{operand.index + i}"], np.uint64)
    top = words - 1
    values[top] = (values[top] & np.uint64(source.keep)) ^ np.uint64(source.flip)
    if source.negate:
        carry = 1
        for i in range(words):
            total = [(~int(v) & ALL) + carry_of for v, carry_of in zip(values[i], np.broadcast_to(carry, LANES))]
            values[i] = [t & ALL for t in total]
            carry = np.array([t >> 32 for t in total])
    return values.astype(np.uint32)


def _mask(operand: Operand | None, state: dict[str, object]) -> int:
    if operand is None:
        return ALL
    value = ALL if operand.index == 7 else int(state[_name(operand)])
    return value ^ ALL if operand.inverted else value
