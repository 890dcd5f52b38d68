"""Rows of the integer instructions; here: logic, shifts, compare, select, minimum, moves, predicates.

Mental model: each function reads one instruction's roles and modifiers and answers with the micro-op
that computes it, or None if it meets anything that it does not know. Uniform twins (``UIADD3``) are
rows of the same functions. Bodies: :mod:`gpusim.isa.bodies.integer`.
"""

from __future__ import annotations

from gpusim.isa import integer_ops as ops
from gpusim.isa.form import Instruction, Kind, MicroOp, Row, Source, integer_source
from gpusim.isa.forms.integer_adders import ADDER_ROWS
from gpusim.isa.forms.integer_rare import RARE_ROWS
from gpusim.isa.lowering import (
    ALWAYS_FALSE,
    Modifiers,
    bare,
    is_false,
    is_zero,
    known_destinations,
    micro,
    plain,
    split,
    twins,
)
from gpusim.trace.record import PipeClass

ALU = PipeClass.ALU


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
    predicates = roles.predicate_sources or (ALWAYS_FALSE,)
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
    x, _y, z = roles.sources
    signed, wide = kind & 1, kind >> 1
    sources = tuple(map(integer_source, roles.sources))
    if not (wrap and wide):
        if not right and not high and is_zero(z):
            return micro(ops.SHIFT_LEFT, ALU, instruction, roles, sources, flags=(int(wrap),))
        if right and high and is_zero(x):
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
        # Which source the low and the high result are: known of two halves (DPX, since Hopper).
        if count != 2 or kind >> 1 != 2 or len(roles.predicate_destinations) != 2 or relu:
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
    return micro(op, ALU, instruction, roles, sources, words=words, flags=flags, predicate_sources=predicates)


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
    *ADDER_ROWS,
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
