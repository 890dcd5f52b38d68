"""Registers of warp groups' products (wgmma) that code touches while a product may still be under way, or without a
fence before it.

Mental model: forward data flow over the code. A register of D, or of an A that is in registers, belongs to the tensor
core from the product on until a wait leaves fewer groups than have been closed since, itself included; an ordinary
write of a register wants ``wgmma.fence`` (WARPGROUP.ARRIVE) before the next product that has it. Where paths meet, what
any of them says holds. ptxas itself puts waits and fences where a source lacks them (its note of serialised products),
so that this finds what other assemblers, or edits of machine code, leave out.

Source: PTX ISA, wgmma.fence, wgmma.wait_group ("accessing the registers ... is undefined behavior").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gpusim.isa.form import Instruction, Kind
from gpusim.trace.record import Program

READ, WRITTEN, UNFENCED = "read", "written", "unfenced"
_REGISTERS = 256
#: Groups closed since a product, its own included; nothing is under way.
_IDLE = 1 << 14
_ENDS = ("EXIT", "RET", "BRX", "JMX", "BPT")


@dataclass(frozen=True)
class Touch:
    """``what`` is wrong at instruction ``index`` with register ``register``; ``other``: the product that has it, or of
    UNFENCED the write before the product ``index``."""

    what: str
    index: int
    other: int
    register: int


class _State:
    """Of each register: groups closed since the product that has it, that product, whether it is one of A's, and the
    last write that no fence has followed (-1: none)."""

    def __init__(self) -> None:
        self.age = np.full(_REGISTERS, _IDLE, np.int32)
        self.product = np.full(_REGISTERS, -1, np.int32)
        self.of_a = np.zeros(_REGISTERS, bool)
        self.written = np.full(_REGISTERS, -1, np.int32)

    def copy(self) -> _State:
        other = _State()
        for name in ("age", "product", "of_a", "written"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def join(self, other: _State) -> bool:
        """Take in what holds on another path; whether anything has changed."""
        later = other.age < self.age
        fresh = (self.written < 0) & (other.written >= 0)
        for name in ("age", "product", "of_a"):
            getattr(self, name)[later] = getattr(other, name)[later]
        self.written[fresh] = other.written[fresh]
        return bool(later.any() or fresh.any())


def touches(program: Program, instructions: Sequence[Instruction]) -> list[Touch]:
    """What is wrong, in the order of the code; nothing for code without products of warp groups."""
    if not any("gdesc" in text and ".64x" in text for text in program.texts):
        return []
    blocks, successors = _blocks(instructions)
    entry: dict[int, _State] = {0: _State()}
    todo = [0]
    while todo:
        start = todo.pop()
        state = entry[start].copy()
        for index in range(start, blocks[start]):
            _step(state, index, program, instructions[index], None)
        for following in successors[start]:
            if following not in entry:
                entry[following] = state.copy()
                todo.append(following)
            elif entry[following].join(state):
                todo.append(following)
    found: dict[tuple[str, int, int], Touch] = {}
    for start in sorted(entry):
        state = entry[start].copy()
        for index in range(start, blocks[start]):
            _step(state, index, program, instructions[index], found)
    return list(found.values())


def _blocks(instructions: Sequence[Instruction]) -> tuple[dict[int, int], dict[int, list[int]]]:
    """(end of each basic block by its start, the starts that may follow it)."""
    at = {instruction.address: index for index, instruction in enumerate(instructions)}
    targets = {
        index: at[label]
        for index, instruction in enumerate(instructions)
        if instruction.mnemonic == "BRA" and (label := _label(instruction)) in at
    }
    leaders = {0, *targets.values()}
    for index, instruction in enumerate(instructions):
        if instruction.mnemonic == "BRA" or instruction.mnemonic in _ENDS:
            leaders.add(index + 1)
    starts = sorted(leader for leader in leaders if leader < len(instructions))
    ends = dict(zip(starts, [*starts[1:], len(instructions)], strict=True))
    following: dict[int, list[int]] = {}
    for start, end in ends.items():
        last = instructions[end - 1]
        conditional = last.guard is not None or last.modifiers or len(last.operands) > 1
        falls = conditional if last.mnemonic in ("BRA", *_ENDS) else True
        following[start] = [targets[end - 1]] if end - 1 in targets else []
        if falls and end < len(instructions):
            following[start].append(end)
    return ends, following


def _label(instruction: Instruction) -> int:
    return next((operand.value for operand in instruction.operands if operand.kind == Kind.LABEL), -1)


def _span(first: int, count: int) -> slice:
    return slice(first, min(first + count, _REGISTERS - 1))


def _step(
    state: _State,
    index: int,
    program: Program,
    instruction: Instruction,
    found: dict[tuple[str, int, int], Touch] | None,
) -> None:
    """Go past instruction ``index``; what is wrong goes to ``found``, if it is asked for."""
    record, name = program.instructions[index], instruction.mnemonic
    first, count = int(record["destination"]), int(record["destination_count"])
    writes = _span(first, count) if first >= 0 else slice(0, 0)
    if name == "WARPGROUP":
        if "ARRIVE" in instruction.modifiers:
            state.written[:] = -1
        elif "DEPBAR" in instruction.modifiers:
            left = next((operand.value for operand in instruction.operands if operand.kind == Kind.IMMEDIATE), 0)
            state.age[(state.age > left) & (state.age < _IDLE)] = _IDLE
        return
    if instruction.operands and any("gdesc" in operand.text for operand in instruction.operands):
        _product(state, index, instruction, writes, found)
        return
    for place, words in zip(record["sources"].tolist(), record["source_words"].tolist(), strict=True):
        if place >= 0:
            _tell(found, READ, index, state, _span(place, max(words, 1)), ~state.of_a)
    _tell(found, WRITTEN, index, state, writes, np.ones(_REGISTERS, bool))
    state.written[writes] = index


def _product(
    state: _State, index: int, instruction: Instruction, writes: slice, found: dict[tuple[str, int, int], Touch] | None
) -> None:
    second = instruction.operands[1]
    of_a = _span(second.index, 4) if second.kind == Kind.REGISTER else slice(0, 0)
    # Products may follow each other into the same accumulators.
    begins = np.zeros(_REGISTERS, bool)
    begins[writes] = state.of_a[writes] & (state.age[writes] < _IDLE)
    _tell(found, WRITTEN, index, state, writes, begins)
    _tell(found, READ, index, state, of_a, ~state.of_a)
    for touched in (writes, of_a):
        unfenced = np.flatnonzero(state.written[touched] >= 0)
        if found is not None and len(unfenced):
            register = touched.start + int(unfenced[0])
            other = int(state.written[register])
            found.setdefault((UNFENCED, index, other), Touch(UNFENCED, index, other, register))
        state.age[touched], state.product[touched], state.of_a[touched] = 0, index, touched is of_a
        state.written[touched] = -1
    if instruction.operands[-1].text == "gsb0":
        state.age[state.age < _IDLE] += 1


def _tell(
    found: dict[tuple[str, int, int], Touch] | None,
    what: str,
    index: int,
    state: _State,
    registers: slice,
    counts: np.ndarray,
) -> None:
    if found is None:
        return
    under_way = np.flatnonzero((state.age[registers] < _IDLE) & counts[registers])
    if len(under_way):
        register = registers.start + int(under_way[0])
        other = int(state.product[register])
        found.setdefault((what, index, other), Touch(what, index, other, register))
