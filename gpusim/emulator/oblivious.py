"""Whether what a block does, and where, can depend on what lies in memory: found out from the machine code.

Mental model: values flow from registers to registers. Those that come from memory, from an atomic or from the clock are
marked, with everything computed from them, along every way through the code until nothing more gets marked. If no
marked value reaches an address, the condition of a memory access or of a jump, or a barrier, then the path and the
addresses of each block follow from its number and the parameters alone: no other block can change them, whatever it
writes. That is proof, not sampling; where the code is not understood (an indexed branch, a call of the driver), the
answer is that they may depend.

A register's marks are bits of one integer: vector registers, then uniform ones, predicates, convergence barriers, and
one bit each for shared and local memory as a whole. There are several *views* of them in it: what may be marked at all,
and what may be marked where a predicate holds or does not. An instruction under a guard reads the view of its guard,
and what it writes is not marked in that view, whatever was there before; a predicate that is written again has no view
of its own any more.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpusim.isa import system_ops as ops
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand
from gpusim.isa.number_ranges import MEMORY_BASE
from gpusim.trace.record import MemoryKind, Space

_UNIFORM, _PREDICATE, _UNIFORM_PREDICATE, _BARRIER, _SHARED, _LOCAL = 272, 544, 552, 560, 640, 641
_NO_REGISTER, _TRUE = 255, 7
#: Special registers that say something of the machine or the time, not of the launch.
_UNSTEADY = (*ops.CLOCKS, ops.SR_SM)
_JUMPS = (ops.BRANCH, ops.BRANCH_DIVERGENT, ops.BRANCH_INDEXED)
_CONTROL = (
    *_JUMPS, ops.EXIT, ops.BARRIER_WAIT, ops.BARRIER_ARRIVE, ops.CONVERGE_LEAVE, ops.CONVERGE_WAIT, ops.WARP_WAIT, ops.TRAP,
    ops.EXTERNAL, ops.GIVE_WAY, ops.WARPGROUP_WAIT, ops.CLUSTER_ARRIVE, ops.CLUSTER_AWAIT, ops.REGISTERS_GIVE,
    ops.REGISTERS_TAKE,
)  # fmt: skip
#: Operations on an mbarrier. What they answer is when something happens, which the trace leaves to the engine: no mark
#: of theirs.
_PHASES = (
    ops.ARRIVE, ops.PHASE, ops.ARRIVE_AMPERE, ops.DROP, ops.EXPECT, ops.COMPLETE, ops.EXPECT_ARRIVE, ops.EXPECT_DROP,
)  # fmt: skip
#: Bits of a view, and one bit in each: all that may be marked, then for each predicate where it holds and where it does
#: not.
_VIEW, _PREDICATES = 1024, 7
_EVERY_VIEW = sum(1 << _VIEW * view for view in range(1 + 2 * _PREDICATES))
#: An operand whose width nobody says has so many registers at most.
_WIDEST = 8


def what_depends(instructions: Sequence[Instruction], micros: Sequence[MicroOp]) -> str:
    """The first instruction whose address or condition may come from memory, and how, in words; empty if there is
    none."""
    return _Flow(instructions, micros, loads=False).first() or _Flow(instructions, micros, loads=True).first()


class _Flow:
    """Marks values along all ways through the code; ``loads``: those from memory, too, else those of atomics and
    clocks."""

    def __init__(self, instructions: Sequence[Instruction], micros: Sequence[MicroOp], loads: bool) -> None:
        self._code, self._loads = list(zip(instructions, micros, strict=True)), loads
        self._at = {instruction.address: i for i, instruction in enumerate(instructions)}
        self._returns = [i + 1 for i, (instruction, _) in enumerate(self._code) if instruction.mnemonic == "CALL"]
        self._memory = 0  # marks of shared and local memory, wherever they were set

    def first(self) -> str:
        """The first instruction where a mark does harm, in words; empty if there is none."""
        before = -1
        marks: list[int] = []
        while before != self._memory:
            before = self._memory
            marks, refused = self._spread()
            if refused:
                return refused
        for (instruction, micro), mark in zip(self._code, marks, strict=True):
            if mark >= 0 and (_seen(instruction, mark) | self._memory) & self._watched(instruction, micro):
                what = "memory" if self._loads else "an atomic's result or a clock"
                kind = "condition" if micro.op in _CONTROL else "address"
                return f"{kind} of {instruction.text.strip().rstrip(';').strip()} at {instruction.address:#06x} comes from {what}"
        return ""

    def _spread(self) -> tuple[list[int], str]:
        """The marks before each instruction, -1 where no way leads; and what is not understood."""
        marks = [-1] * len(self._code)
        marks[0] = 0
        work = [0]
        while work:
            i = work.pop()
            instruction, micro = self._code[i]
            after = self._after(instruction, micro, marks[i])
            following = self._following(i)
            if following is None:
                return marks, f"{instruction.text.strip()} at {instruction.address:#06x} leads nobody knows where"
            for j in following:
                merged = after if marks[j] < 0 else marks[j] | after
                if merged != marks[j]:
                    marks[j] = merged
                    work.append(j)
        return marks, ""

    def _following(self, i: int) -> list[int] | None:
        """What may come behind instruction ``i``; None: anything."""
        instruction, micro = self._code[i]
        beyond = [i + 1] if i + 1 < len(self._code) else []
        if micro.op == ops.EXIT:
            return beyond if micro.predicate_sources or _guarded(instruction) else []
        if micro.op == ops.TRAP:
            return []
        if micro.op == ops.BRANCH_INDEXED:
            if instruction.mnemonic != "RET":
                return None
            return [j for j in self._returns if j < len(self._code)] + beyond
        if micro.op in (ops.BRANCH, ops.BRANCH_DIVERGENT):
            target = self._at.get(micro.extra["target"])
            if target is None:
                return None
            always = micro.op == ops.BRANCH and not micro.predicate_sources and not _guarded(instruction)
            return [target] if always and instruction.mnemonic != "CALL" else [target, *beyond]
        return beyond

    def _watched(self, instruction: Instruction, micro: MicroOp) -> int:
        """Marks that must not reach an instruction: those of its address and of whether, or how, it is executed."""
        guard = _bits(instruction.guard, 1) if instruction.guard is not None else 0
        if micro.op in _CONTROL:
            return guard | self._read(instruction, micro)
        if micro.op >= MEMORY_BASE and micro.op < ops.SHUFFLE or micro.memory_kind != MemoryKind.NONE:
            if micro.op == ops.TEXTURE:
                return guard | self._read(instruction, micro)
            watched = guard
            for name in ("address", "shared_address"):
                recipe = micro.extra.get(name)
                if recipe:
                    watched |= _range(0, recipe["base"], recipe["base_words"])
                    watched |= _range(_UNIFORM, recipe["uniform"], recipe["uniform_words"])
            if "address" not in micro.extra:
                for operand in instruction.operands:
                    watched |= _bits(operand, 2) if operand.kind in (Kind.MEMORY, Kind.CONSTANT) else 0
            if micro.op == ops.BULK or _is_phase(micro):  # coordinates, bytes, and how many arrive
                watched |= self._read(instruction, micro)
            if micro.op == ops.ASYNC_FILL:
                watched |= _all(micro.predicate_sources)
            return watched
        return 0

    def _read(self, instruction: Instruction, micro: MicroOp) -> int:
        """Marks that its result may take over."""
        words = {source.operand: source.words for source in micro.sources if source is not None}
        read = _all(micro.predicate_sources)
        skipped = micro.destination is None
        for operand in instruction.operands:
            if not skipped and operand == micro.destination:
                skipped = True
                continue
            if operand in micro.predicate_destinations or operand.kind == Kind.MEMORY:
                continue  # an address is watched where it stands
            read |= _bits(operand, words.get(operand, _WIDEST if operand.kind == Kind.REGISTER else 2))
        for source in micro.sources:
            if source is not None:
                read |= _bits(source.operand, source.words)
        if micro.op == ops.WARPGROUP_PRODUCT:
            read |= _bits(micro.destination, micro.words)  # its accumulators
        if micro.op == ops.PACK_PREDICATES:
            read |= 0xFF << _PREDICATE | 0xFF << _UNIFORM_PREDICATE
        if "convergence" in micro.extra:
            read |= 1 << _BARRIER + micro.extra["convergence"]
        if "convergence_from" in micro.extra:
            read |= 1 << _BARRIER + micro.extra["convergence_from"]
        return read

    def _after(self, instruction: Instruction, micro: MicroOp, marks: int) -> int:
        """The marks behind an instruction, given those before it."""
        marked = bool(
            (_seen(instruction, marks) | self._memory) & (self._read(instruction, micro) | _all((instruction.guard,)))
        )
        marked |= self._is_source(micro)
        if micro.memory_kind == MemoryKind.BULK_LOAD and self._loads:
            self._memory |= 1 << _SHARED
        if micro.memory_kind in (MemoryKind.STORE, MemoryKind.REDUCTION, MemoryKind.ATOMIC, MemoryKind.ASYNC_COPY):
            kept = marked or (self._loads and micro.memory_kind == MemoryKind.ASYNC_COPY)
            if (
                kept
                and micro.space in (Space.SHARED, Space.GENERIC, Space.CLUSTER)
                or micro.memory_kind == MemoryKind.ASYNC_COPY
                and kept
            ):
                self._memory |= 1 << _SHARED
            if kept and micro.space in (Space.LOCAL, Space.GENERIC):
                self._memory |= 1 << _LOCAL
        written = _bits(micro.destination, micro.words) if micro.destination is not None else 0
        written |= _all(micro.predicate_destinations)
        sure = not _guarded(instruction)
        if micro.op == ops.WIDE_LOAD:
            written |= _all_of_sources(micro)
        if micro.op in (ops.CONVERGE_WRITE, ops.CONVERGE_COPY, ops.CONVERGE_SET):
            written |= 1 << _BARRIER + micro.extra["convergence"]
        if micro.op == ops.UNPACK_PREDICATES:
            written |= 0xFF << _PREDICATE | 0xFF << _UNIFORM_PREDICATE
            sure = False
        if marked:
            marks |= written * _EVERY_VIEW
        elif sure:
            marks &= ~(written * _EVERY_VIEW)
        elif view := _view(instruction):
            marks &= ~(written << _VIEW * view)
        for index in range(_PREDICATES):
            if written >> _PREDICATE + index & 1:
                marks = _without_views(marks, index)
        return marks

    def _is_source(self, micro: MicroOp) -> bool:
        """Whether the result is marked wherever the operands come from."""
        if micro.op == ops.SPECIAL:
            return bool(micro.flags) and micro.flags[0] in _UNSTEADY
        if micro.op == ops.BARRIER_RESULT:
            return True
        if _is_phase(micro):
            return False
        if micro.op == ops.TENSOR_MEMORY:
            return self._loads
        if micro.memory_kind == MemoryKind.ATOMIC or (micro.op == ops.ATOMIC and micro.destination is not None):
            return True
        if micro.op == ops.TEXTURE:
            return self._loads
        if micro.op == ops.WARPGROUP_PRODUCT:
            return self._loads or bool(self._memory >> _SHARED & 1)
        if micro.memory_kind not in (MemoryKind.LOAD, MemoryKind.MATRIX_LOAD):
            return False
        if micro.space == Space.SHARED:
            return bool(self._memory >> _SHARED & 1)
        if micro.space == Space.LOCAL:
            return bool(self._memory >> _LOCAL & 1)
        return micro.space != Space.CONSTANT and (self._loads or bool(self._memory and micro.space == Space.GENERIC))


def _is_phase(micro: MicroOp) -> bool:
    return micro.op == ops.ATOMIC and micro.flags[0] in _PHASES


def _view(instruction: Instruction) -> int:
    """The view of an instruction's guard; 0, that of all that may be marked, where it has none or a uniform one."""
    guard = instruction.guard
    if guard is None or guard.kind != Kind.PREDICATE or guard.index == _TRUE:
        return 0
    return 1 + 2 * guard.index + guard.inverted


def _seen(instruction: Instruction, marks: int) -> int:
    """The marks where an instruction is executed."""
    return marks >> _VIEW * _view(instruction) & ((1 << _VIEW) - 1)


def _without_views(marks: int, predicate: int) -> int:
    """Marks whose views of a predicate are those of all that may be marked."""
    everything = marks & ((1 << _VIEW) - 1)
    for view in (1 + 2 * predicate, 2 + 2 * predicate):
        marks = marks & ~(((1 << _VIEW) - 1) << _VIEW * view) | everything << _VIEW * view
    return marks


def _guarded(instruction: Instruction) -> bool:
    guard = instruction.guard
    return guard is not None and not (guard.index == _TRUE and not guard.inverted)


def _range(base: int, first: int, words: int) -> int:
    return 0 if first == _NO_REGISTER or not words else ((1 << words) - 1) << base + first


def _bits(operand: Operand | None, words: int) -> int:
    """The bits of an operand's registers."""
    if operand is None:
        return 0
    if operand.kind == Kind.REGISTER:
        return _range(0, operand.index, words)
    if operand.kind == Kind.UNIFORM:
        return _range(_UNIFORM, operand.index, words)
    if operand.kind in (Kind.MEMORY, Kind.CONSTANT):
        base = _range(0, operand.index, 2) if operand.kind == Kind.MEMORY or operand.index != _NO_REGISTER else 0
        uniform = _range(_UNIFORM, operand.uniform_index, 2)
        return base | uniform | (_range(_UNIFORM, operand.descriptor, 2) if operand.descriptor >= 0 else 0)
    if operand.kind in (Kind.PREDICATE, Kind.UNIFORM_PREDICATE):
        first = _PREDICATE if operand.kind == Kind.PREDICATE else _UNIFORM_PREDICATE
        return 0 if operand.index == _TRUE else 1 << first + operand.index
    if operand.kind == Kind.BARRIER:
        return 1 << _BARRIER + operand.index
    return 0


def _all(operands: Sequence[Operand | None]) -> int:
    found = 0
    for operand in operands:
        found |= _bits(operand, 1)
    return found


def _all_of_sources(micro: MicroOp) -> int:
    found = 0
    for source in micro.sources:
        if source is not None:
            found |= _bits(source.operand, source.words)
    return found
