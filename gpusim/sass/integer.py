"""Rows of the integer instructions: adders, multiply-add, shifts, logic, compare and select.

Mental model: each function reads one instruction's roles and modifiers and answers with the micro-op
that computes it, or None if it meets anything that it does not know. Uniform twins (``UIADD3``) are
rows of the same functions. Bodies: :mod:`gpusim.capture.alu_integer`.
"""

from __future__ import annotations

from gpusim.sass import integer_ops as ops
from gpusim.sass.form import Instruction, Kind, MicroOp, Operand, Row, Source, integer_source
from gpusim.sass.integer_rare import RARE_ROWS
from gpusim.sass.lowering import (
    Modifiers,
    bare,
    complemented,
    is_false,
    known_destinations,
    micro,
    plain,
    split,
    twins,
)
from gpusim.trace.record import PipeClass

ALU = PipeClass.ALU
_FALSE = Operand(Kind.PREDICATE, index=7, inverted=True)
_ZERO = Operand(Kind.REGISTER, index=255)


def _zero(operand: Operand) -> bool:
    return operand.kind in (Kind.REGISTER, Kind.UNIFORM) and operand.index == 255


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
            1 << i
            for i, o in enumerate(roles.sources)
            if (o.negated or o.inverted) and o.kind != Kind.IMMEDIATE
        )
        sources = tuple(bare(o, 2) for o in (*roles.sources, _ZERO)[:3])
        flags = (_negatives(roles.sources), inverts)
        if len(roles.predicate_sources) > 1:
            if not is_false(roles.predicate_sources[1]):
                return None
        return micro(
            ops.ADD64,
            ALU,
            instruction,
            roles,
            sources,
            words=2,
            flags=flags,
            predicate_sources=roles.predicate_sources[:1] if extended else (_FALSE,),
        )
    if not carries and not extended:
        op = ops.ADD3
        rest = roles.sources
        if len(rest) == 3 and _zero(rest[2]):
            rest = rest[:2]
        if len(rest) == 2:
            op = ops.ADD
        return micro(op, ALU, instruction, roles, tuple(map(integer_source, rest)))
    predicates = roles.predicate_sources if extended else (_FALSE, _FALSE)
    if len(predicates) == 1:
        predicates = (predicates[0], _FALSE)
    return micro(
        ops.ADD3_CARRY,
        ALU,
        instruction,
        roles,
        tuple(map(complemented, (*roles.sources, _ZERO)[:3])),
        flags=(_negatives(roles.sources),),
        predicate_sources=predicates,
    )


#: VIADD forms that are no 32-bit additions: body, and whether it takes negated operands.
_PACKED_ADDS = {
    ("S32", "ISAT"): (ops.ADD_SATURATE, True),
    ("U8x4",): (ops.ADD_BYTES, True),
    ("S8x4",): (ops.ADD_BYTES, True),
    ("U16x2",): (ops.ADD_HALVES, False),
    ("S16x2",): (ops.ADD_HALVES, False),
    ("16x2",): (ops.ADD_HALVES, False),
}


def _lower_packed_add(instruction: Instruction, roles, op: int, signs: bool) -> MicroOp | None:
    if roles is None or len(roles.sources) != 2 or not plain(roles.sources):
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    written = [o.kind != Kind.IMMEDIATE and o.negated for o in roles.sources]
    if any(o.inverted for o in roles.sources) or (any(written) and not signs):
        return None
    sources = tuple(map(bare, roles.sources))
    return micro(op, ALU, instruction, roles, sources, flags=tuple(map(int, written)))


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
    pipe = PipeClass.IMAD_WIDE
    words = 2 if wide else 1
    carries = any(d is not None for d in known_destinations(roles.predicate_destinations))
    changed = (z.negated or z.inverted) and z.kind != Kind.IMMEDIATE
    if not carries and not extended and not changed:
        op = ops.MAD_WIDE if wide else ops.MAD_HIGH
        return micro(op, pipe, instruction, roles, sources, words=words, flags=(int(not unsigned),))
    op = ops.MAD_WIDE_CARRY if wide else ops.MAD_HIGH_CARRY
    return micro(
        op,
        pipe,
        instruction,
        roles,
        sources,
        words=words,
        flags=(int(not unsigned), int(changed), int(z.negated and changed)),
        predicate_sources=roles.predicate_sources if extended else (_FALSE,),
    )


def _low_multiply_add(instruction: Instruction, roles, extended: bool) -> MicroOp | None:
    x, y, z = roles.sources
    if known_destinations(roles.predicate_destinations) not in ((), (None,)):
        return None
    if extended:
        if any(o.negated and o.kind != Kind.IMMEDIATE for o in roles.sources):
            return None
        sources = tuple(map(integer_source, roles.sources))
        return micro(ops.MAD_CARRY, PipeClass.IMAD, instruction, roles, sources)
    if _zero(x) or _zero(y):
        return micro(ops.MOV, PipeClass.IMAD, instruction, roles, (integer_source(z),))
    if y.kind == Kind.IMMEDIATE and y.value == 1:
        sources = (integer_source(x), integer_source(z))
        return micro(ops.ADD, PipeClass.IMAD, instruction, roles, sources)
    return micro(ops.MAD, PipeClass.IMAD, instruction, roles, tuple(map(integer_source, roles.sources)))


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
    predicates = roles.predicate_sources if extended else (_FALSE,)
    x, y = values[0], values[1]
    if not high:
        if x.inverted:
            return None
        flags = (amount, int(x.negated), _negatives((x, y)))
        sources = (bare(x), complemented(y))
        return micro(ops.LEA, ALU, instruction, roles, sources, flags=flags)
    if x.negated or x.inverted or any(v.negated or v.inverted for v in values[2:]):
        return None
    sources = (bare(x), complemented(y), bare(values[2]) if not signed else None)
    flags = (amount, int(signed), _negatives((y,)))
    return micro(
        ops.LEA_HIGH, ALU, instruction, roles, sources, flags=flags, predicate_sources=predicates
    )


def lower_logic(instruction: Instruction) -> MicroOp | None:
    """LOP3.LUT: any bitwise function of three words, and whether its result is non-zero."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    if not modifiers.take("LUT"):
        return None
    join = ops.JOIN_AND if modifiers.take("PAND") else ops.JOIN_OR
    if modifiers.left or roles is None or len(roles.sources) != 4 or not plain(roles.sources):
        return None
    *values, table = roles.sources
    if table.kind != Kind.IMMEDIATE or len(roles.predicate_sources) > 1:
        return None
    flags = (table.value & 0xFF, join)
    predicates = roles.predicate_sources or (_FALSE,)
    sources = tuple(map(integer_source, values))
    return micro(ops.LOP3, ALU, instruction, roles, sources, flags=flags, predicate_sources=predicates)


def lower_shift(instruction: Instruction) -> MicroOp | None:
    """SHF: the 64-bit value {z:x} shifted by y; its upper word with .HI."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    right = modifiers.choose({"L": 0, "R": 1})
    wrap, high = modifiers.take("W"), modifiers.take("HI")
    kind = modifiers.choose({"U32": 0, "S32": 1, "U64": 2, "S64": 3}, 0)
    if right is None or modifiers.left or roles is None or len(roles.sources) != 3:
        return None
    if not plain(roles.sources) or roles.predicate_sources or roles.predicate_destinations:
        return None
    x, y, z = roles.sources
    signed, wide = kind & 1, kind >> 1
    sources = tuple(map(integer_source, roles.sources))
    if not (wrap and wide):
        if not right and not high and _zero(z):
            return micro(ops.SHIFT_LEFT, ALU, instruction, roles, sources, flags=(int(wrap),))
        if right and high and _zero(x):
            flags = (int(wrap), signed)
            return micro(ops.SHIFT_RIGHT, ALU, instruction, roles, sources, flags=flags)
    modulus = (64 if wide else 32) * (-1 if wrap else 1)
    flags = (right, int(high), signed, modulus)
    return micro(ops.FUNNEL, ALU, instruction, roles, sources, flags=flags)


def lower_compare(instruction: Instruction) -> MicroOp | None:
    """ISETP: x against y, joined with a predicate; .EX continues a comparison of the lower words."""
    modifiers = Modifiers(instruction)
    roles = split(instruction, writes_register=False)
    code = modifiers.choose({k: v for k, v in ops.COMPARISONS.items() if v < 7 or k == "T"})
    join = modifiers.choose(ops.JOINS, ops.JOIN_AND)
    unsigned = modifiers.choose({"U32": 1, "S32": 0, "U64": 3, "S64": 2}, 0)
    extended = modifiers.take("EX")
    if code is None or modifiers.left or roles is None or len(roles.sources) != 2:
        return None
    if not plain(roles.sources) or len(roles.predicate_sources) != 1 + extended:
        return None
    wide = unsigned >> 1
    if wide and extended:
        return None
    words = 2 if wide else 1
    sources = tuple(integer_source(o, words) for o in roles.sources)
    flags = (code & 7, unsigned & 1, join, int(extended))
    op = ops.COMPARE64 if wide else ops.COMPARE
    return micro(op, ALU, instruction, roles, sources, flags=flags)


def lower_select(instruction: Instruction) -> MicroOp | None:
    """SEL: x where the predicate holds, else y."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    wide = modifiers.take("64")
    if modifiers.left or roles is None or len(roles.sources) != 2 or not plain(roles.sources):
        return None
    if len(roles.predicate_sources) != 1 or roles.predicate_destinations:
        return None
    words = 2 if wide else 1
    sources = tuple(integer_source(o, words) for o in roles.sources)
    op = ops.SELECT64 if wide else ops.SELECT
    return micro(op, ALU, instruction, roles, sources, words=words)


def lower_minmax(instruction: Instruction) -> MicroOp | None:
    """IMNMX, VIMNMX, VIMNMX3 and VIADDMNMX: minimum where the predicate holds, else maximum."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    base = instruction.mnemonic.removeprefix("U")
    types = {"S32": 0, "U32": 1, "S64": 2, "U64": 3, "S16x2": 4, "U16x2": 5, "S8x4": 6, "U8x4": 7}
    kind = modifiers.choose(types, 0)
    relu = modifiers.take("RELU")
    if modifiers.left or roles is None or not plain(roles.sources):
        return None
    count = 3 if base in ("VIMNMX3", "VIADDMNMX") else 2
    if len(roles.sources) != count or not roles.predicate_sources:
        return None
    if any(d is not None for d in known_destinations(roles.predicate_destinations)):
        return None
    if not all(is_false(p) for p in roles.predicate_sources[1:]):
        return None
    form = kind >> 1
    if form in (1, 3) and count == 3:
        return None
    table = {
        "VIMNMX3": (ops.MINMAX3, None, ops.MINMAX3_HALVES),
        "VIADDMNMX": (ops.ADD_MINMAX, None, ops.ADD_MINMAX_HALVES),
    }
    op = table.get(base, (ops.MINMAX, ops.MINMAX64, ops.MINMAX_HALVES, ops.MINMAX_BYTES))[form]
    words = 2 if form == 1 else 1
    if form >= 2 and any(o.negated or o.inverted for o in roles.sources):
        return None
    sources = tuple(integer_source(o, words) for o in roles.sources)
    predicates = roles.predicate_sources[:1]
    flags = (kind & 1, int(relu))
    return micro(
        op, ALU, instruction, roles, sources, words=words, flags=flags, predicate_sources=predicates
    )


def lower_move(instruction: Instruction) -> MicroOp | None:
    """MOV and MOV.64; the byte-masked form is accepted with a full mask only."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    wide = modifiers.take("64")
    if modifiers.left or roles is None or not plain(roles.sources):
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    if len(roles.sources) == 2:
        mask = roles.sources[1]
        if mask.kind != Kind.IMMEDIATE or mask.value != 0xF:
            return None
    elif len(roles.sources) != 1:
        return None
    source = integer_source(roles.sources[0], 2 if wide else 1)
    if wide:
        if source.immediate is not None:
            value = roles.sources[0].value & 0xFFFFFFFFFFFFFFFF
            source = Source(roles.sources[0], 2, immediate=value)
        return micro(ops.MOV64, ALU, instruction, roles, (source,), words=2)
    return micro(ops.MOV, ALU, instruction, roles, (source,))


def lower_permute(instruction: Instruction) -> MicroOp | None:
    """PRMT: four of the eight bytes of {z:x}."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    mode = modifiers.choose(ops.PERMUTE_MODES, 0)
    if modifiers.left or roles is None or len(roles.sources) != 3 or not plain(roles.sources):
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    sources = tuple(map(integer_source, roles.sources))
    return micro(ops.PERMUTE, ALU, instruction, roles, sources, flags=(mode,))


def lower_predicate_logic(instruction: Instruction) -> MicroOp | None:
    """PLOP3.LUT: two functions of three predicates, or of the signs of three words, by truth tables."""
    modifiers = Modifiers(instruction)
    operands = instruction.operands
    kinds = (Kind.PREDICATE, Kind.UNIFORM_PREDICATE)
    if not modifiers.take("LUT") or modifiers.left or len(operands) != 7:
        return None
    if any(o.kind not in kinds or o.inverted for o in operands[:2]):
        return None
    if any(o.kind != Kind.IMMEDIATE for o in operands[5:]):
        return None
    uniform = instruction.mnemonic.startswith("U")
    if all(o.modifiers == ("SIGN",) and not (o.negated or o.inverted) for o in operands[2:5]):
        return MicroOp(
            op=ops.SIGN_LOGIC,
            pipe=PipeClass.UNIFORM if uniform else ALU,
            sources=tuple(map(bare, operands[2:5])),
            predicate_destinations=known_destinations(tuple(operands[:2])),
            flags=(operands[5].value & 0xFF, operands[6].value & 0xFF),
            uniform=uniform,
        )
    if any(o.kind not in kinds for o in operands[2:5]):
        return None
    return MicroOp(
        op=ops.PREDICATE_LOGIC,
        pipe=PipeClass.UNIFORM if uniform else ALU,
        predicate_sources=tuple(operands[2:5]),
        predicate_destinations=known_destinations(tuple(operands[:2])),
        flags=(operands[5].value & 0xFF, operands[6].value & 0xFF),
        uniform=uniform,
    )


ROWS: list[Row] = [
    *twins("IADD3", lower_add, "add three words, with carries"),
    *twins("IADD", lower_add, "add two words, with carries"),
    *twins("VIADD", lower_add, "add two words"),
    *twins("IMAD", lower_multiply_add, "multiply and add"),
    *twins("LEA", lower_lea, "shift and add"),
    *twins("LOP3", lower_logic, "bitwise function of three words"),
    *twins("SHF", lower_shift, "funnel shift"),
    *twins("ISETP", lower_compare, "compare integers"),
    *twins("SEL", lower_select, "select by predicate"),
    *twins("IMNMX", lower_minmax, "minimum or maximum"),
    *twins("VIMNMX", lower_minmax, "minimum or maximum"),
    *twins("VIMNMX3", lower_minmax, "minimum or maximum of three"),
    *twins("VIADDMNMX", lower_minmax, "add, then minimum or maximum"),
    *twins("MOV", lower_move, "move"),
    *twins("PRMT", lower_permute, "permute bytes"),
    *twins("PLOP3", lower_predicate_logic, "functions of three predicates"),
    *RARE_ROWS,
]
