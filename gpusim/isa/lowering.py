"""What arithmetic lowerings share: splitting operands by role, consuming modifiers, building micro-ops.

Mental model: SASS writes ``DEST, [predicate dests], sources..., [predicate sources]``, so an operand's
role follows from its kind and place. A lowering asks :func:`split` for the roles, takes every modifier it
knows from a :class:`Modifiers` bag, and accepts the form only if the bag is empty afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpusim.isa.body import Body
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.trace.record import PipeClass

PREDICATES = (Kind.PREDICATE, Kind.UNIFORM_PREDICATE)
REGISTERS = (Kind.REGISTER, Kind.UNIFORM)
VALUES = (Kind.REGISTER, Kind.UNIFORM, Kind.IMMEDIATE, Kind.CONSTANT)
TRUE_PREDICATE = 7
ZERO_REGISTER = 255
#: !PT and RZ, for inputs that a form does not write.
ALWAYS_FALSE = Operand(Kind.PREDICATE, index=TRUE_PREDICATE, inverted=True)
ZERO = Operand(Kind.REGISTER, index=ZERO_REGISTER)


@dataclass(frozen=True)
class Roles:
    """An instruction's operands by role; ``destination`` is None for predicate-only instructions."""

    destination: Operand | None
    predicate_destinations: tuple[Operand, ...]
    sources: tuple[Operand, ...]
    predicate_sources: tuple[Operand, ...]


def split(instruction: Instruction, *, writes_register: bool = True) -> Roles | None:
    """Roles of the operands, or None if the written order is not the usual one.

    Predicate destinations stand before (LOP3, IMNMX.S64) or behind (IADD3) the register one."""
    rest = list(instruction.operands)
    predicates = []
    while rest and rest[0].kind in PREDICATES:
        predicates.append(rest.pop(0))
    destination = None
    if writes_register:
        if not rest or rest[0].kind not in REGISTERS or rest[0].modifiers:
            return None
        destination = rest.pop(0)
        while rest and rest[0].kind in PREDICATES:
            predicates.append(rest.pop(0))
    sources = []
    while rest and rest[0].kind in VALUES:
        sources.append(rest.pop(0))
    if any(operand.kind not in PREDICATES for operand in rest):
        return None
    if len(predicates) > 2 or any(p.inverted for p in predicates):
        return None
    return Roles(destination, tuple(predicates), tuple(sources), tuple(rest))


class Modifiers:
    """The dotted modifiers of an instruction, consumed one by one; what is left is not understood."""

    def __init__(self, instruction: Instruction) -> None:
        self.left = list(instruction.modifiers)

    def take(self, name: str) -> bool:
        """True if ``name`` was written; it is then consumed."""
        if name in self.left:
            self.left.remove(name)
            return True
        return False

    def choose(self, table: Mapping[str, int], default: int | None = None) -> int | None:
        """The value of the first written modifier that ``table`` knows, else ``default``."""
        for name in self.left:
            if name in table:
                self.left.remove(name)
                return table[name]
        return default


def is_zero(operand: Operand) -> bool:
    """RZ or URZ."""
    return operand.kind in REGISTERS and operand.index == ZERO_REGISTER


def is_false(operand: Operand) -> bool:
    """!PT or !UPT: always false."""
    return operand.index == TRUE_PREDICATE and operand.inverted


def plain(operands: tuple[Operand, ...]) -> bool:
    """True if no operand bears a dotted suffix (byte or half selectors, 64-bit views)."""
    return not any(operand.modifiers for operand in operands)


def known_destinations(predicates: tuple[Operand, ...]) -> tuple[Operand | None, ...]:
    """Predicate destinations with PT (written nowhere) as None."""
    return tuple(None if p.index == TRUE_PREDICATE else p for p in predicates)


def complemented(operand: Operand, words: int = 1) -> Source:
    """Source whose '-' *and* '~' both complement the bits: the body adds the missing ones (carries)."""
    if operand.kind == Kind.IMMEDIATE:
        sign = 0xFFFFFFFF << 32 if words == 2 and operand.value >> 31 & 1 else 0
        return Source(operand, words, immediate=operand.value & 0xFFFFFFFF | sign)
    return Source(operand, words, flip=0xFFFFFFFF if operand.negated or operand.inverted else 0)


def bare(operand: Operand, words: int = 1) -> Source:
    """Source read as it stands: the lowering handles '-' and '~' by flags of the body."""
    return complemented(replace(operand, negated=False, inverted=False), words)


def with_signs(operands: tuple[Operand, ...], sign_bits: int) -> tuple[Operand, ...] | None:
    """The two operands of a minimum with .XORSIGN with their signs, which the result takes while ``|x|`` and ``|y|``
    are compared (PTX ISA, min.xorsign.abs); None where a number that may be negative has no bars. ``sign_bits``: of a
    word."""
    if len(operands) != 2 or any(operand.negated for operand in operands):
        return None
    if not all(o.absolute or is_zero(o) or o.kind == Kind.IMMEDIATE and not o.value & sign_bits for o in operands):
        return None
    return tuple(replace(operand, absolute=False) for operand in operands)


def micro(
    body: Body,
    instruction: Instruction,
    roles: Roles,
    sources: tuple[Source | None, ...],
    *,
    words: int = 1,
    flags: tuple[int, ...] = (),
    predicate_sources: tuple[Operand | None, ...] | None = None,
    pipe: PipeClass | None = None,
) -> MicroOp:
    """The micro-op of an arithmetic instruction; a mnemonic of the uniform datapath is marked so."""
    slots = (*sources, None, None, None)[:3]
    return MicroOp(
        op=body.number,
        sources=slots,
        destination=roles.destination,
        words=words,
        predicate_sources=roles.predicate_sources if predicate_sources is None else predicate_sources,
        predicate_destinations=known_destinations(roles.predicate_destinations),
        flags=flags,
        uniform=instruction.mnemonic.startswith("U"),
        pipe=pipe,
    )
