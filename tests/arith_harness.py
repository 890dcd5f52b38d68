"""Run one SASS instruction, given as text, on lanes of register values: no kernel, no interpreter.

Mental model: the text is decoded and lowered by the table's rows, then this file does in plain Python
what a MicroOp asks of the emulator (fetch sources with keep, flip, negate; call the family's body;
return results), so a row and its body are tested together and nothing else is.

``execute("IADD3 R0, P0, PT, R2, -R3, RZ", {"R2": values, "R3": values})`` takes 32 lane values a
register as Python ints (bit patterns), predicates as lane masks, and answers with ``Outcome.words``
(uint32[words, 32]) and ``Outcome.predicates`` (name to mask).
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass

import numpy as np
from numba import config

from gpusim.capture.encode import body_for_all
from gpusim.capture.families import FAMILY_ENDS, MASKS, WIDE_FAMILY, call_family, entry_addresses
from gpusim.capture.layout import ROW
from gpusim.capture.tensor_rules import tensor_rules
from gpusim.sass import double, floating, half, integer, tensor
from gpusim.sass.decode import parse_instruction
from gpusim.sass.form import Kind, MicroOp, Operand, Source

LANES = 32
ALL = 0xFFFFFFFF
_ENTRY = ctypes.CFUNCTYPE(None, *[ctypes.c_int32] * 5, *[ctypes.c_int64] * 6)
ROWS: dict[str, list] = {}
for _row in [*integer.ROWS, *floating.ROWS, *double.ROWS, *half.ROWS, *tensor.ROWS]:
    ROWS.setdefault(_row.mnemonic, []).append(_row)


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
    """The micro-op of the one row that accepts the text, or None if none does."""
    guard = ""
    if text.startswith("@"):
        guard, text = text.split(" ", 1)
    opcode, _, operands = text.partition(" ")
    instruction = parse_instruction(0, guard, opcode, operands, 0)
    accepted = [m for row in ROWS.get(instruction.mnemonic, []) if (m := row.lower(instruction))]
    assert len(accepted) <= 1, f"several rows accept {text}"
    return accepted[0] if accepted else None


def execute(text: str, state: dict[str, object], capability: tuple[int, int] = (9, 0)) -> Outcome:
    """Run ``text`` on ``state`` (register name -> 32 patterns, predicate name -> lane mask); ``capability`` matters
    to tensor cores alone."""
    micro = lower(text)
    assert micro is not None, f"no row accepts {text}"
    # three source areas and one result area of four rows each, filled with leftovers of an earlier
    # instruction, which a body must not read
    areas = np.full((4, 4, ROW), 0x5A5A1234, np.int32)
    for rows, source in zip(areas, micro.sources):
        if source is not None:
            rows[: source.words, :LANES] = _fetch(source, state).view(np.int32)
    read = [_mask(o, state) for o in micro.predicate_sources] + [0, 0, 0]
    masks = np.full(1, 0x5A5A1234, np.uint32).repeat(MASKS.itemsize // 4).view(MASKS)
    masks["p0"][0, 0], masks["p1"][0, 0], masks["q"][0, 0, 0] = read[:3]
    masks["rules"][0] = tensor_rules(capability)
    before = areas[:3].copy()
    flags = (tuple(int(f) for f in micro.flags) + (0, 0, 0, 0))[:4]
    writes = any(o is not None and o.index != 7 for o in micro.predicate_destinations)
    _call(micro.op, body_for_all(micro.op, micro.flags, writes), flags, areas, masks)
    assert (before == areas[:3]).all(), "a body wrote into its sources"
    predicates = {
        _name(operand): int(value)
        for operand, value in zip(micro.predicate_destinations, masks["q"][0, 0])
        if operand is not None
    }
    return Outcome(areas[3].view(np.uint32)[: micro.words, :LANES].copy(), predicates, micro)


def _call(op: int, wide: int, flags, areas: np.ndarray, masks: np.ndarray) -> None:
    """Run body ``op``, or its wide one, through its family's entry point, as the interpreter does."""
    family = WIDE_FAMILY if wide else [op < end for end in FAMILY_ENDS].index(True)
    arguments = (wide or op, *flags, *(area.ctypes.data for area in areas), masks.ctypes.data, 1)
    address = entry_addresses(np.array([op]))[family]
    if config.DISABLE_JIT:
        with np.errstate(all="ignore"):
            call_family(address, *arguments)
    else:
        _ENTRY(address)(*arguments)


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
