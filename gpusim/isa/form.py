"""How an instruction is described on its way to execution: as decoded, and as the micro-op that it is lowered to.

Mental model: nvdisasm gives text; :mod:`gpusim.isa.binary.decode` splits it into an :class:`Instruction`
(mnemonic, dotted modifiers, :class:`Operand` s, guard, control fields); the declaration of its opcode
(:mod:`gpusim.isa.opcode`) says which forms are accepted and lowers them to a :class:`MicroOp`, the
only thing that the emulator executes. A form that no declaration accepts is refused by name before anything
runs; a modifier that a lowering does not know makes the form unknown, so nothing is ever ignored silently.

How the emulator executes a MicroOp (and what a lowering must therefore say):

1. The active mask and the guard give the execution mask.
2. A source ``a, b, c`` of up to four 32-bit words a lane (word 0 is the lowest register) is read where it lies, in
   registers, constants or immediates. Only if it asks for a change of sign is it first copied to scratch, with
   ``(word & keep) ^ flip`` applied to *one* word: word 0 for 32-bit operands, the highest word for wider ones. So FP
   negation is flip=0x80000000, FP absolute value keep=0x7fffffff, bitwise NOT flip=0xffffffff. Integer negation of a
   32-bit source sets ``negate`` (two's complement, applied after keep/flip; for 64-bit over both words).
3. The body ``op`` computes the result words and up to two predicate lane masks from the sources, up to
   three predicate inputs (lane masks) and ``flags`` (small integers that only the body understands).
4. The result is written to ``destination`` (``words`` registers) and the predicates to their destinations,
   under the execution mask. A vector body writes both itself; others leave the result on scratch, from where it is
   copied, or straight in the destination where no lane is off and no source lies there. Uniform-datapath instructions
   are the same bodies with uniform registers as operands (kept as broadcast rows) and every lane on.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum

from gpusim.trace.record import MemoryKind, PipeClass, Space


class Kind(IntEnum):
    """What an operand is."""

    REGISTER = 0  # Rn; RZ has index 255
    UNIFORM = 1  # URn; URZ has index 255
    PREDICATE = 2  # Pn; PT has index 7
    UNIFORM_PREDICATE = 3  # UPn; UPT has index 7
    IMMEDIATE = 4  # ``value`` is the encoded pattern, sign included: 32 bits (FP64: the high word),
    # 16 bits each where two halves are written, 64 bits of MOV.64; ``negated`` is not set
    CONSTANT = 5  # c[bank][offset], possibly indexed by a register
    MEMORY = 6  # [Rn + URm + imm] with optional descriptor
    SPECIAL = 7  # SR_TID.X ...: ``text``
    BARRIER = 8  # Bn: convergence barrier
    LABEL = 9  # branch target: ``value`` is the byte address
    SCOREBOARD = 10  # SBn
    OTHER = 11  # ``text``


@dataclass(frozen=True)
class Operand:
    """One operand as written. ``index`` is the register number; ``negated`` '-', ``inverted`` '~' or
    '!', ``absolute`` '|x|'; ``modifiers`` the dotted suffixes (``('64',)``, ``('H0_H0',)``, ``reuse`` is
    removed and kept in the control fields)."""

    kind: Kind
    index: int = 0
    value: int = 0  # immediate bit pattern, label address, or byte offset (signed) of CONSTANT/MEMORY
    negated: bool = False
    inverted: bool = False
    absolute: bool = False
    modifiers: tuple[str, ...] = ()
    bank: int = 0  # constant bank; for MEMORY/CONSTANT ``index`` is the base register, 255 = none
    uniform_index: int = 255  # uniform register added to the address (or holding a cx[] descriptor)
    descriptor: int = -1  # uniform register of desc[URn], -1 = none
    text: str = ""


@dataclass(frozen=True)
class Control:
    """The compiler's scheduling fields of one instruction (the top bits of its 128-bit word)."""

    stall_cycles: int
    yield_hint: int
    write_barrier: int
    read_barrier: int
    wait_mask: int
    reuse_mask: int


@dataclass(frozen=True)
class Instruction:
    """One decoded SASS instruction of a kernel."""

    address: int  # byte address inside the flattened code
    mnemonic: str  # 'IADD3'
    modifiers: tuple[str, ...]  # ('X',)
    operands: tuple[Operand, ...]
    guard: Operand | None
    control: Control
    text: str  # full SASS text, for messages
    word: int = 0  # the 128-bit encoding
    line: int = 0
    file: int = -1


@dataclass(frozen=True)
class Source:
    """A source operand of a micro-op after lowering; ``words`` 32-bit registers are read from it."""

    operand: Operand
    words: int = 1
    keep: int = 0xFFFFFFFF
    flip: int = 0
    negate: bool = False
    #: of an IMMEDIATE operand: its bits over all ``words`` (word 0 lowest), before keep, flip, negate
    immediate: int | None = None


@dataclass
class MicroOp:
    """What the emulator executes for one instruction; see the module docstring."""

    op: int  # number of a body (gpusim/isa/body.py), or of a micro-op of the interpreter's own (system_ops.py)
    sources: tuple[Source | None, Source | None, Source | None] = (None, None, None)
    destination: Operand | None = None
    words: int = 1  # destination registers
    predicate_sources: tuple[Operand | None, ...] = ()  # at most three; the third reaches q[0]
    predicate_destinations: tuple[Operand | None, ...] = ()  # at most two
    flags: tuple[int, ...] = ()  # at most four small integers for the body
    uniform: bool = False  # uniform datapath: all lanes on
    pipe: PipeClass | None = None  # where it is not the one that the opcode's declaration names
    memory_kind: MemoryKind = MemoryKind.NONE
    space: Space = Space.NONE
    access_bytes: int = 0
    trace_flags: int = 0  # gpusim.trace.record.Flag bits
    extra: dict = field(default_factory=dict)  # memory, control-flow and tensor lowering only


Lower = Callable[[Instruction], "MicroOp | None"]


# ---- helpers that lowerings share -------------------------------------------------------------------


def integer_source(operand: Operand, words: int = 1) -> Source:
    """Source of an integer instruction: '-' negates in two's complement, '~' inverts; a 32-bit
    immediate of a 64-bit source is sign-extended."""
    if operand.kind == Kind.IMMEDIATE:
        sign = 0xFFFFFFFF << 32 if words == 2 and operand.value >> 31 & 1 else 0
        return Source(operand, words, immediate=operand.value & 0xFFFFFFFF | sign)
    return Source(operand, words, flip=0xFFFFFFFF if operand.inverted else 0, negate=operand.negated)


def float_source(operand: Operand, words: int = 1) -> Source:
    """Source of a floating instruction: '|x|' clears, '-' flips the sign bit of the highest word; an
    immediate is the highest word (of FP64: the low word is zero)."""
    if operand.kind == Kind.IMMEDIATE:
        return Source(operand, words, immediate=(operand.value & 0xFFFFFFFF) << 32 * (words - 1))
    keep = 0x7FFFFFFF if operand.absolute else 0xFFFFFFFF
    return Source(operand, words, keep=keep, flip=0x80000000 if operand.negated else 0)
