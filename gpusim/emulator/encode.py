"""Micro-ops to the interpreter's code matrix; constants and immediates to rows of the register file.

Mental model: everything that does not change between launches of a kernel is encoded once
(:class:`Encoded`): the matrix, and a list of which constant words the shared rows hold. A launch then
only fills those rows from its parameters.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gpusim.emulator.aligned import aligned_zeros
from gpusim.emulator.clock_loops import time_branches
from gpusim.emulator.clock_waits import clock_columns
from gpusim.emulator.poll_loops import poll_columns
from gpusim.isa import system_ops as ops
from gpusim.isa import warp as at
from gpusim.isa.binary.cubin import INSTRUCTION_BYTES, KernelImage
from gpusim.isa.binary.externals import what_stub_does
from gpusim.isa.bodies.launch import launch_number
from gpusim.isa.body import LANES_AT_ONCE, execution
from gpusim.isa.dispatch import entry_addresses, needed
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.isa.number_ranges import LANES_BASE
from gpusim.isa.tensor_ops import NOT_BESIDE
from gpusim.trace.record import Flag, MemoryKind

NO_REGISTER = 255
#: An mbarrier.
_BARRIER_BYTES = 8
#: Bytes that an atomic unit works on at least, and instructions from a load to the compare-and-swap of its loop, at
#: most.
_WORD_BYTES, _MOST_APART = 4, 32
_RESULT_REGISTER, _RETURN_REGISTER = 4, 20  # see gpusim.isa.binary.externals


@dataclass(frozen=True)
class Encoded:
    """``matrix`` int32[n, COLUMNS]; ``immediates`` (row, value) and ``constants`` (row, bank, byte offset)
    of the shared rows; ``pointers`` as in :class:`gpusim.isa.warp.Machine`; ``shared_rows`` and ``own_rows`` their
    counts; ``barrier_row`` the first row of the
    convergence barriers among a warp's own."""

    matrix: np.ndarray
    index_of: np.ndarray
    pointers: np.ndarray
    address_of: np.ndarray
    immediates: tuple[tuple[int, int], ...]
    constants: tuple[tuple[int, int, int], ...]
    shared_rows: int
    own_rows: int
    barrier_row: int
    polls: np.ndarray
    bank_start: dict[int, int]
    bank_bytes: dict[int, int]

    @cached_property
    def entries(self) -> np.ndarray:
        """Entry points of the bodies that the kernel needs (State.entries)."""
        return entry_addresses(needed(self.matrix[:, at.OP], self.matrix[:, at.VECTOR_BODY]))

    @cached_property
    def reads_clock(self) -> bool:
        """Whether the kernel reads the clock, which counts the instructions executed so far."""
        special = self.matrix[self.matrix[:, at.OP] == ops.SPECIAL, at.F0]
        return bool(np.isin(special, ops.CLOCKS).any())

    @cached_property
    def uses_tensor_memory(self) -> bool:
        """Whether the kernel has instructions on tensor memory."""
        return bool((self.matrix[:, at.OP] == ops.TENSOR_MEMORY).any())

    @cached_property
    def immediate_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows int64[i], their values int32[i, 1])."""
        rows = np.array([row for row, _ in self.immediates], np.int64)
        values = np.array([value for _, value in self.immediates], np.uint32)
        return rows, values.view(np.int32).reshape(-1, 1)

    @cached_property
    def constant_rows(self) -> tuple[np.ndarray, np.ndarray]:
        """(rows int64[c], where their four bytes lie among all banks int64[c, 4]); a row whose constant lies
        outside its bank stays 0."""
        inside = [
            (row, self.bank_start[bank] + offset)
            for row, bank, offset in self.constants
            if offset >= 0 and offset + 4 <= self.bank_bytes.get(bank, 0)
        ]
        places = np.array([place for _, place in inside], np.int64).reshape(-1, 1)
        return np.array([row for row, _ in inside], np.int64), places + np.arange(4)


class _Rows:
    """Gives out shared rows for constants and immediates, each once."""

    def __init__(self) -> None:
        self.next = at.FIRST_POOL_ROW
        self.known: dict[tuple, int] = {}
        self.immediates: list[tuple[int, int]] = []
        self.constants: list[tuple[int, int, int]] = []

    def immediate(self, value: int, words: int) -> int:
        key = ("i", value, words)
        if key not in self.known:
            self.known[key] = self.next
            for word in range(words):
                self.immediates.append((self.next + word, (value >> (32 * word)) & 0xFFFFFFFF))
            self.next += words
        return self.known[key]

    def constant(self, bank: int, offset: int, words: int) -> int:
        key = ("c", bank, offset, words)
        if key not in self.known:
            self.known[key] = self.next
            for word in range(words):
                self.constants.append((self.next + word, bank, offset + 4 * word))
            self.next += words
        return self.known[key]


def encode(image: KernelImage, instructions: tuple[Instruction, ...], micros: tuple[MicroOp, ...]) -> Encoded:
    """Encode ``micros`` (one for each of ``instructions``) for the interpreter."""
    rows = _Rows()
    registers, uniforms = _counts(micros)
    n = len(micros)
    extra = len(image.externals)
    if extra:
        registers = max(registers, _RETURN_REGISTER + 2)
    # Convergence barriers, and behind them what CALL keeps in Rpc.LO and Rpc.HI.
    named = (micro.extra[n] + 1 for micro in micros for n in ("convergence", "convergence_from") if n in micro.extra)
    barriers = max(named, default=0)
    own = registers + uniforms + barriers
    matrix = aligned_zeros((n + extra) * at.COLUMNS, np.dtype(np.int32)).reshape(n + extra, at.COLUMNS)
    address_of = np.zeros(n + extra, np.int32)
    last = max((i.address for i in instructions), default=0)
    last = max([last, *image.externals])
    index_of = np.full(last // INSTRUCTION_BYTES + 1, -1, np.int32)
    for i, instruction in enumerate(instructions):
        address_of[i] = instruction.address
        index_of[instruction.address // INSTRUCTION_BYTES] = i
    for i, address in enumerate(sorted(image.externals)):
        address_of[n + i] = address
        index_of[address // INSTRUCTION_BYTES] = n + i
        matrix[n + i, at.OP] = ops.EXTERNAL
        matrix[n + i, at.GUARD] = at.TRUE_PREDICATE
        matrix[n + i, [at.P0, at.P1, at.P2]] = at.TRUE_PREDICATE
        matrix[n + i, at.F0] = i
        # Calling convention of the driver's functions: arguments from R4 on, result in R4, return to R20:R21.
        matrix[n + i, at.F1] = what = what_stub_does(image.externals[address])
        matrix[n + i, at.ORDERED] = what == ops.CALL_HOST
        matrix[n + i, at.A + at.SOURCE_OFFSET] = _RETURN_REGISTER
        matrix[n + i, at.A + at.SOURCE_OWN] = -1
        matrix[n + i, at.A + at.SOURCE_WORDS] = 2
        matrix[n + i, at.D_OFFSET] = _RESULT_REGISTER
        matrix[n + i, at.D_OWN] = -1
    bank_start, bank_bytes, position = {}, {}, 0
    for bank in sorted(image.constants):
        # Code reads whole words: a last parameter of one or two bytes is read with what lies behind it.
        bank_start[bank], bank_bytes[bank] = position, -(-len(image.constants[bank]) // 4) * 4
        position += -(-len(image.constants[bank]) // 16) * 16
    encoder = _Encoder(rows, registers, uniforms, index_of, bank_start, bank_bytes)
    for i, (instruction, micro) in enumerate(zip(instructions, micros, strict=True)):
        encoder.row(matrix[i], instruction, micro)
    strong = np.zeros(len(matrix), bool)
    strong[:n] = [
        bool(micro.trace_flags & Flag.BYPASS_L1) or "STRONG" in instruction.modifiers
        for instruction, micro in zip(instructions, micros, strict=True)
    ]
    polls = poll_columns(matrix, strong)
    matrix[time_branches(matrix), at.ORDERED] |= at.AWAITS_TIME
    matrix[_whole_words(micros), at.ORDERED] |= at.WHOLE_WORD
    polls = np.concatenate((polls, clock_columns(matrix)))
    shared = rows.next
    own_columns = [at.A + at.SOURCE_OFFSET, at.B + at.SOURCE_OFFSET, at.C + at.SOURCE_OFFSET]
    own_columns += [at.D_OFFSET, at.BASE_OFFSET, at.UNIFORM_OFFSET, at.SECOND, at.SECOND + 4, at.CONVERGENCE]
    matrix[:, own_columns] *= at.ROW
    _arithmetic_runs(matrix)
    return Encoded(
        matrix=matrix,
        index_of=index_of,
        pointers=_pointers(image, index_of),
        address_of=address_of,
        immediates=tuple(rows.immediates),
        constants=tuple(rows.constants),
        shared_rows=shared,
        own_rows=own,
        barrier_row=registers + uniforms,
        polls=polls,
        bank_start=bank_start,
        bank_bytes=bank_bytes,
    )


def _pointers(image: KernelImage, index_of: np.ndarray) -> np.ndarray:
    """Machine.pointers of a kernel."""
    slots = {held: divmod(address, INSTRUCTION_BYTES) for held, address in sorted(image.pointers.items())}
    found = [(held, index_of[slot]) for held, (slot, odd) in slots.items() if not odd and slot < len(index_of)]
    return np.array(found, np.int64).reshape(len(found), 2)


def _counts(micros: tuple[MicroOp, ...]) -> tuple[int, int]:
    """Vector and uniform registers that the code names (a cubin's own count is rounded up)."""
    vector, uniform = 0, 0
    for micro in micros:
        named: list[tuple[Operand | None, int]] = [(micro.destination, micro.words)]
        named += [(source.operand, source.words) for source in micro.sources if source is not None]
        named += [(operand, micro.extra.get("beside_words", 1)) for operand in micro.extra.get("beside", ())]
        for operand, words in named:
            if operand is None or operand.index == NO_REGISTER:
                continue
            if operand.kind == Kind.REGISTER:
                vector = max(vector, operand.index + words)
            elif operand.kind == Kind.UNIFORM:
                uniform = max(uniform, operand.index + words)
        for name in ("address", "shared_address"):
            recipe = micro.extra.get(name)
            if recipe:
                if recipe["base"] != NO_REGISTER:
                    vector = max(vector, recipe["base"] + recipe["base_words"])
                if recipe["uniform"] != NO_REGISTER:
                    uniform = max(uniform, recipe["uniform"] + recipe["uniform_words"])
    return vector, uniform


class _Encoder:
    def __init__(
        self,
        rows: _Rows,
        registers: int,
        uniforms: int,
        index_of: np.ndarray,
        bank_start: dict[int, int],
        bank_bytes: dict[int, int],
    ):
        self.rows, self.registers, self.index_of = rows, registers, index_of
        self.barrier_row = registers + uniforms
        self.bank_start, self.bank_bytes = bank_start, bank_bytes

    def row(self, row: np.ndarray, instruction: Instruction, micro: MicroOp) -> None:
        row[at.GUARD], row[at.GUARD_FLIP] = self._predicate(instruction.guard)
        for column, source in zip((at.A, at.B, at.C), micro.sources, strict=True):
            if source is not None:
                self._source(row, column, source)
        predicates = list(micro.predicate_sources) + [None] * (3 - len(micro.predicate_sources))
        for column, predicate in zip((at.P0, at.P1, at.P2), predicates, strict=True):
            row[column], row[column + 1] = self._predicate(predicate)
        if micro.destination is not None:
            row[at.D_OFFSET], row[at.D_OWN] = self._destination(micro.destination)
            row[at.D_WORDS] = micro.words
        row[[at.Q0, at.Q1]] = at.SINK_PREDICATE
        for column, predicate in zip((at.Q0, at.Q1), micro.predicate_destinations, strict=False):
            if predicate is not None:
                slot, _ = self._predicate(predicate)
                true = slot in (at.TRUE_PREDICATE, at.TRUE_UNIFORM_PREDICATE)
                row[column] = at.SINK_PREDICATE if true else slot
                row[at.PREDICATES_OUT] |= not true
        row[[at.OP, at.VECTOR_BODY]] = body_columns(micro, bool(row[at.PREDICATES_OUT]))
        row[at.APART] = row[at.VECTOR_BODY] == LANES_AT_ONCE and _apart(row)
        row[at.PLAIN] = all(row[column + at.SOURCE_MODE] == at.MODE_PLAIN for column in (at.A, at.B, at.C))
        row[at.ORDERED] = _ordered(micro)
        for i, flag in enumerate(micro.flags):
            row[at.F0 + i] = np.uint32(int(flag) & 0xFFFFFFFF).astype(np.int32)
        for i, operand in enumerate(micro.extra.get("beside", ()), 1):
            row[at.F0 + i] = self._rows_beside(operand, micro.sources[0].operand)
        row[at.SCOPE] = at.UNIFORM if micro.uniform else at.WARP_WIDE if micro.extra.get("warp_wide") else at.LANE_WISE
        row[at.SPACE] = micro.space
        row[at.BYTES] = micro.access_bytes
        row[at.RECORDS] = records_of(micro)
        if "convergence" in micro.extra:
            row[at.CONVERGENCE] = self.barrier_row + micro.extra["convergence"]
        if "convergence_from" in micro.extra:
            row[at.TARGET] = (self.barrier_row + micro.extra["convergence_from"]) * at.ROW
        if micro.op == ops.CONVERGE_READ:
            row[at.F0] = int(micro.extra["clear"])
        if "target" in micro.extra:
            row[at.TARGET] = self._target(micro)
        if "address" in micro.extra:
            recipe = micro.extra["address"]
            row[at.BASE_OFFSET], row[at.BASE_OWN] = self._register(recipe["base"])
            row[at.BASE_WORDS] = recipe["base_words"]
            row[at.BASE_SIGNED] = recipe["base_signed"]
            row[at.BASE_SHIFT] = recipe["shift"]
            row[at.UNIFORM_OFFSET], row[at.UNIFORM_OWN] = self._uniform(recipe["uniform"])
            row[at.UNIFORM_WORDS] = recipe["uniform_words"]
            row[at.ADDRESS_OFFSET] = recipe["offset"]
        if "shared_address" in micro.extra:
            recipe = micro.extra["shared_address"]
            second = row[at.SECOND : at.SECOND + 7]
            second[0], second[1] = self._register(recipe["base"])
            second[2], second[3] = recipe["base_words"], recipe["shift"]
            second[4], second[5] = self._uniform(recipe["uniform"])
            second[6] = recipe["offset"]
        if micro.op in (ops.ASYNC_STORE, ops.NEXT_WORK):
            row[at.BYTES] = _BARRIER_BYTES  # of what its address names
        if micro.op == ops.CONSTANT_LOAD:
            bank = micro.extra["bank"]
            row[at.BYTES], row[at.F2] = micro.flags[0], micro.flags[1]
            row[at.F0] = self.bank_start.get(bank, 0)
            row[at.F1] = self.bank_bytes.get(bank, 0)

    def _target(self, micro: MicroOp) -> int:
        """Instruction index of a direct branch (-1 if there is none there), byte offset of an indexed one."""
        target = micro.extra["target"]
        if micro.op == ops.BRANCH_INDEXED:
            return target
        slot, odd = divmod(target, INSTRUCTION_BYTES)
        return int(self.index_of[slot]) if not odd and 0 <= slot < len(self.index_of) else -1

    def _register(self, index: int) -> tuple[int, int]:
        return (at.ZERO_ROW, 0) if index == NO_REGISTER else (index, -1)

    def _uniform(self, index: int) -> tuple[int, int]:
        return (at.ZERO_ROW, 0) if index == NO_REGISTER else (self.registers + index, -1)

    def _destination(self, operand: Operand) -> tuple[int, int]:
        if operand.index == NO_REGISTER:
            return at.SINK_ROW, 0
        return self._register(operand.index) if operand.kind == Kind.REGISTER else self._uniform(operand.index)

    def _rows_beside(self, operand: Operand, source: Operand) -> int:
        """Rows from those of ``source`` to those of ``operand``, both a warp's own."""
        if operand.index == NO_REGISTER:
            return NOT_BESIDE
        return self._destination(operand)[0] - self._destination(source)[0]

    def _predicate(self, operand: Operand | None) -> tuple[int, int]:
        """(slot, 0 or -1) of a predicate operand; a missing one is true."""
        if operand is None:
            return at.TRUE_PREDICATE, 0
        slot = operand.index + (at.UNIFORM_PREDICATES if operand.kind == Kind.UNIFORM_PREDICATE else 0)
        return slot, -1 if operand.inverted else 0

    def _source(self, row: np.ndarray, column: int, source: Source) -> None:
        operand = source.operand
        if operand.kind == Kind.REGISTER:
            offset, own = self._register(operand.index)
        elif operand.kind == Kind.UNIFORM:
            offset, own = self._uniform(operand.index)
        elif operand.kind == Kind.CONSTANT:
            offset, own = self.rows.constant(operand.bank, operand.value, source.words), 0
        else:
            value = operand.value if source.immediate is None else source.immediate
            offset, own = self.rows.immediate(value & (2**128 - 1), source.words), 0
        row[column + at.SOURCE_OFFSET], row[column + at.SOURCE_OWN] = offset, own
        row[column + at.SOURCE_WORDS] = source.words
        masked = source.keep != 0xFFFFFFFF or source.flip != 0
        row[column + at.SOURCE_MODE] = at.MODE_NEGATE if source.negate else at.MODE_MASK if masked else at.MODE_PLAIN
        row[column + at.SOURCE_KEEP] = np.uint32(source.keep).astype(np.int32)
        row[column + at.SOURCE_FLIP] = np.uint32(source.flip).astype(np.int32)


def body_columns(micro: MicroOp, predicates_out: bool) -> tuple[int, int]:
    """Columns OP and VECTOR_BODY of ``micro``: what executes it."""
    if micro.op == ops.SPECIAL:
        return micro.op, launch_number(micro.op, micro.flags)
    return execution(micro.op, micro.flags, micro.words, predicates_out)


def _arithmetic_runs(matrix: np.ndarray) -> None:
    """Fill the column ARITHMETIC_RUN."""
    behind = 0
    for row in matrix[::-1]:
        behind = behind + 1 if row[at.OP] >= LANES_BASE else 0
        row[at.ARITHMETIC_RUN] = behind


def _apart(row: np.ndarray) -> bool:
    """Whether no row of a source is one of the destination (rows count in whole rows here)."""
    first, own, words = int(row[at.D_OFFSET]), int(row[at.D_OWN]), int(row[at.D_WORDS])
    for column in (at.A, at.B, at.C):
        start, count = int(row[column + at.SOURCE_OFFSET]), int(row[column + at.SOURCE_WORDS])
        same_part = int(row[column + at.SOURCE_OWN]) == own
        if count and same_part and start < first + words and first < start + count:
            return False
    return True


def _whole_words(micros: tuple[MicroOp, ...]) -> list[int]:
    """Atomics on words, and the loads of the loops that an atomic on one or two bytes is compiled to: memory has
    atomics on words alone, so that of the last element of ``__half[5]`` is a loop around a compare-and-swap of the word
    that it lies in, two bytes of which are nobody's."""
    found: list[int] = []
    for index, micro in enumerate(micros):
        if micro.op != ops.ATOMIC or micro.access_bytes != _WORD_BYTES or "address" not in micro.extra:
            continue
        found.append(index)
        if micro.flags[0] in (ops.CAS, ops.CAST):
            found += [
                load
                for load in range(max(0, index - _MOST_APART), index)
                if micros[load].op == ops.LOAD
                and micros[load].access_bytes == _WORD_BYTES
                and micros[load].extra.get("address") == micro.extra["address"]
            ]
    return found


def _ordered(micro: MicroOp) -> bool:
    """Whether the order of warps shows: an atomic whose old value is kept, or that does not commute."""
    if micro.op in (ops.ASYNC_STORE, ops.NEXT_WORK):
        return True
    if micro.op != ops.ATOMIC:
        return False
    operation, kind = micro.flags[:2]
    integer = kind in (ops.U32, ops.S32, ops.U64, ops.S64)
    commutes = operation in (ops.ADD, ops.MIN, ops.MAX, ops.AND, ops.OR, ops.XOR, ops.SAFEADD)
    return micro.memory_kind == MemoryKind.ATOMIC or not (integer and commutes)


def records_of(micro: MicroOp) -> int:
    """ACCESS records that one execution of ``micro`` writes to the trace."""
    if micro.memory_kind == MemoryKind.NONE:
        sleeps_by_register = micro.op == ops.GIVE_WAY and micro.sources[0] is not None
        meets = micro.op in (ops.BARRIER_WAIT, ops.BARRIER_ARRIVE) and micro.access_bytes > 0
        return int(micro.op == ops.CONSTANT_LOAD or sleeps_by_register or meets)
    return 2 if micro.memory_kind == MemoryKind.ASYNC_COPY else 1
