"""The adders: IADD3, IADD, VIADD, IMAD, LEA, with their carries.

Mental model: an addend that is negated where a carry leaves is *complemented* by its source, and the body
adds the missing one: so the carry is that of the adder and not of a number negated beforehand. Bodies:
:mod:`gpusim.isa.bodies.integer`.
"""

from __future__ import annotations

from gpusim.isa.bodies import integer as body
from gpusim.isa.bodies import integer_rare as rare
from gpusim.isa.body import Body
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, integer_source
from gpusim.isa.lowering import (
    ALWAYS_FALSE,
    ZERO,
    Modifiers,
    Roles,
    bare,
    complemented,
    is_false,
    is_zero,
    known_destinations,
    micro,
    plain,
    split,
)
from gpusim.isa.opcode import NO_FLOPS, Opcode
from gpusim.trace.record import PipeClass

ALU, ALU_LITE = PipeClass.ALU, PipeClass.ALU_LITE


def _negatives(operands: tuple[Operand, ...]) -> int:
    """How many addends are negated, so complemented by the source and completed by the body."""
    return sum(o.negated and o.kind != Kind.IMMEDIATE for o in operands)


def lower_add(instruction: Instruction) -> MicroOp | None:
    """IADD3, IADD, VIADD, UIADD3 and their .X and .64 forms."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    extended, wide = modifiers.take("X"), modifiers.take("64")
    packed = _PACKED_ADDS.get(tuple(modifiers.left))
    if packed is not None:
        return _lower_packed_add(instruction, roles, *packed)
    if modifiers.left or roles is None or len(roles.sources) not in (2, 3):
        return None
    if not plain(roles.sources) or bool(roles.predicate_sources) != extended:
        return None
    carries = any(d is not None for d in known_destinations(roles.predicate_destinations))
    if wide:
        inverts = sum(
            1 << i for i, o in enumerate(roles.sources) if (o.negated or o.inverted) and o.kind != Kind.IMMEDIATE
        )
        sources = tuple(bare(o, 2) for o in (*roles.sources, ZERO)[:3])
        flags = (_negatives(roles.sources), inverts)
        if len(roles.predicate_sources) > 1:
            if not is_false(roles.predicate_sources[1]):
                return None
        return micro(
            rare.add64,
            instruction,
            roles,
            sources,
            words=2,
            flags=flags,
            predicate_sources=roles.predicate_sources[:1] if extended else (ALWAYS_FALSE,),
        )
    if not carries and not extended:
        op = body.add3
        rest = roles.sources
        if len(rest) == 3 and is_zero(rest[2]):
            rest = rest[:2]
        if len(rest) == 2:
            op = body.add
        return micro(op, instruction, roles, tuple(map(integer_source, rest)))
    predicates = roles.predicate_sources if extended else (ALWAYS_FALSE, ALWAYS_FALSE)
    if len(predicates) == 1:
        predicates = (predicates[0], ALWAYS_FALSE)
    return micro(
        body.add3_carry,
        instruction,
        roles,
        tuple(map(complemented, (*roles.sources, ZERO)[:3])),
        flags=(_negatives(roles.sources),),
        predicate_sources=predicates,
    )


#: VIADD forms that are no 32-bit additions: body, and whether it takes negated operands.
_PACKED_ADDS = {
    ("S32", "ISAT"): (rare.add_saturate, True),
    ("U8x4",): (rare.add_bytes, True),
    ("S8x4",): (rare.add_bytes, True),
    ("U16x2",): (rare.add_halves, False),
    ("S16x2",): (rare.add_halves, False),
    ("16x2",): (rare.add_halves, False),
}


def _lower_packed_add(instruction: Instruction, roles: Roles | None, op: Body, signs: bool) -> MicroOp | None:
    if roles is None or len(roles.sources) != 2 or not plain(roles.sources):
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    written = [o.kind != Kind.IMMEDIATE and o.negated for o in roles.sources]
    if any(o.inverted for o in roles.sources) or (any(written) and not signs):
        return None
    sources = tuple(map(bare, roles.sources))
    return micro(op, instruction, roles, sources, flags=tuple(map(int, written)))


def lower_multiply_add(instruction: Instruction) -> MicroOp | None:
    """IMAD in all its forms: low, .WIDE, .HI, with carries, and the moves and shifts it stands in for."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    extended = modifiers.take("X")
    unsigned = modifiers.take("U32")
    wide, high = modifiers.take("WIDE"), modifiers.take("HI")
    for alias in ("MOV", "IADD", "SHL"):
        modifiers.take(alias)
    if modifiers.left or roles is None or len(roles.sources) != 3 or not plain(roles.sources):
        return None
    if bool(roles.predicate_sources) != extended or len(roles.predicate_sources) > 1:
        return None
    x, y, z = roles.sources
    if not (wide or high):
        return _low_multiply_add(instruction, roles, extended)
    if any((o.negated or o.inverted) and o.kind != Kind.IMMEDIATE for o in (x, y)):
        return None
    sources = (integer_source(x), integer_source(y), bare(z, 2))
    words = 2 if wide else 1
    carries = any(d is not None for d in known_destinations(roles.predicate_destinations))
    changed = (z.negated or z.inverted) and z.kind != Kind.IMMEDIATE
    if not carries and not extended and not changed:
        op = body.mad_wide if wide else body.mad_high
        flags = (int(not unsigned),)
        return micro(op, instruction, roles, sources, words=words, flags=flags, pipe=PipeClass.IMAD_WIDE)
    op = body.mad_wide_carry if wide else body.mad_high_carry
    return micro(
        op,
        instruction,
        roles,
        sources,
        words=words,
        flags=(int(not unsigned), int(changed), int(z.negated and changed)),
        predicate_sources=roles.predicate_sources if extended else (ALWAYS_FALSE,),
        pipe=PipeClass.IMAD_WIDE,
    )


def _low_multiply_add(instruction: Instruction, roles: Roles, extended: bool) -> MicroOp | None:
    x, y, z = roles.sources
    if known_destinations(roles.predicate_destinations) not in ((), (None,)):
        return None
    if extended:
        if any(o.negated and o.kind != Kind.IMMEDIATE for o in roles.sources):
            return None
        sources = tuple(map(integer_source, roles.sources))
        return micro(body.mad_carry, instruction, roles, sources)
    if is_zero(x) or is_zero(y):
        return micro(body.mov, instruction, roles, (integer_source(z),))
    if y.kind == Kind.IMMEDIATE and y.value == 1:
        sources = (integer_source(x), integer_source(z))
        return micro(body.add, instruction, roles, sources)
    return micro(body.mad, instruction, roles, tuple(map(integer_source, roles.sources)))


def lower_lea(instruction: Instruction) -> MicroOp | None:
    """LEA: (x << s) + y, or with .HI the upper word of ({z:x} << s) plus y; .X adds a carry."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    high, extended, signed = modifiers.take("HI"), modifiers.take("X"), modifiers.take("SX32")
    if modifiers.left or roles is None or not plain(roles.sources):
        return None
    count = 4 if high and not signed else 3
    if len(roles.sources) != count or (signed and not high) or (extended and not high):
        return None
    if bool(roles.predicate_sources) != extended or len(roles.predicate_sources) > 1:
        return None
    *values, shift = roles.sources
    if shift.kind != Kind.IMMEDIATE:
        return None
    amount = shift.value & 31
    predicates = roles.predicate_sources if extended else (ALWAYS_FALSE,)
    x, y = values[0], values[1]
    if not high:
        if x.inverted:
            return None
        flags = (amount, int(x.negated), _negatives((x, y)))
        sources = (bare(x), complemented(y))
        return micro(body.lea, instruction, roles, sources, flags=flags)
    if x.negated or x.inverted or any(v.negated or v.inverted for v in values[2:]):
        return None
    sources = (bare(x), complemented(y), bare(values[2]) if not signed else None)
    flags = (amount, int(signed), _negatives((y,)))
    return micro(body.lea_high, instruction, roles, sources, flags=flags, predicate_sources=predicates)


_ADDS = (
    body.add, body.add3, body.add3_carry, rare.add64, rare.add_saturate, rare.add_bytes, rare.add_halves,
)  # fmt: skip

ADDERS = (
    *(
        Opcode(
            mnemonic=mnemonic, twin=True, summary=summary, lowering=lower_add,
            bodies=_ADDS, pipe=pipe, coverage="integer add", flops=NO_FLOPS,
        )
        for mnemonic, pipe, summary in (
            ("IADD3", ALU, "add three words, with carries"),
            ("IADD", ALU_LITE, "add two words, with carries"),
            ("VIADD", PipeClass.VIADD, "add two words, or packed ones"),
        )
    ),
    Opcode(
        mnemonic="IMAD", twin=True, summary="multiply and add", lowering=lower_multiply_add,
        bodies=(
            body.mad, body.mad_carry, body.mad_wide, body.mad_wide_carry, body.mad_high, body.mad_high_carry,
            body.mov, body.add,
        ),
        pipe=PipeClass.IMAD, other_pipes=(PipeClass.IMAD_WIDE,), coverage="integer multiply", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="LEA", twin=True, summary="shift and add", lowering=lower_lea,
        bodies=(body.lea, body.lea_high), pipe=ALU, coverage="integer add", flops=NO_FLOPS,
    ),
)  # fmt: skip
