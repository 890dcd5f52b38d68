"""The integer opcodes; here: logic, shifts, compare, select, minimum, moves, predicates.

Mental model: each function reads one instruction's roles and modifiers and answers with the micro-op
that computes it, or None if it meets anything that it does not know. Uniform twins (``UIADD3``) are
lowered by the same functions. Bodies: :mod:`gpusim.isa.bodies.integer`.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.isa import integer_ops as ops
from gpusim.isa.bodies import integer as body
from gpusim.isa.bodies import integer_rare as rare
from gpusim.isa.bodies import loops
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source, integer_source
from gpusim.isa.forms.integer_adders import ADDERS
from gpusim.isa.forms.integer_rare import RARE
from gpusim.isa.lowering import (
    ALWAYS_FALSE,
    TRUE_PREDICATE,
    Modifiers,
    bare,
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
    return micro(body.lop3, instruction, roles, sources, flags=flags, predicate_sources=predicates)


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
            return micro(body.shift_left, instruction, roles, sources, flags=(int(wrap),))
        if right and high and is_zero(x):
            flags = (int(wrap), signed)
            return micro(body.shift_right, instruction, roles, sources, flags=flags)
    modulus = (64 if wide else 32) * (-1 if wrap else 1)
    flags = (right, int(high), signed, modulus)
    return micro(loops.funnel, instruction, roles, sources, flags=flags)


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
    joined = roles.predicate_sources
    if extended and len(joined) == 1:  # a lower comparison that holds is not printed
        roles = replace(roles, predicate_sources=(*joined, Operand(Kind.PREDICATE, index=TRUE_PREDICATE)))
    if not plain(roles.sources) or len(roles.predicate_sources) != 1 + extended:
        return None
    wide = unsigned >> 1
    if wide and extended:
        return None
    words = 2 if wide else 1
    sources = tuple(integer_source(o, words) for o in roles.sources)
    flags = (code & 7, unsigned & 1, join, int(extended))
    op = rare.compare64 if wide else body.compare
    return micro(op, instruction, roles, sources, flags=flags)


def _whole(operand: Operand) -> Source:
    """A 64-bit source whose immediate is the value that stands there."""
    if operand.kind == Kind.IMMEDIATE:
        return Source(operand, 2, immediate=operand.value & 0xFFFFFFFFFFFFFFFF)
    return integer_source(operand, 2)


def lower_select(instruction: Instruction) -> MicroOp | None:
    """SEL: x where the predicate holds, else y."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    wide = modifiers.take("64")
    if modifiers.left or roles is None or len(roles.sources) != 2 or not plain(roles.sources):
        return None
    if len(roles.predicate_sources) != 1 or roles.predicate_destinations:
        return None
    words = 2 if wide else 1
    sources = tuple(_whole(o) if wide else integer_source(o) for o in roles.sources)
    op = rare.select64 if wide else body.select
    return micro(op, instruction, roles, sources, words=words)


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
        "VIMNMX3": (rare.minmax3, None, rare.minmax3_halves),
        "VIADDMNMX": (body.add_minmax, None, rare.add_minmax_halves),
    }
    op = table.get(base, (body.minmax, rare.minmax64, rare.minmax_halves, rare.minmax_bytes))[form]
    words = 2 if form == 1 else 1
    if form >= 2 and any(o.negated or o.inverted for o in roles.sources):
        return None
    sources = tuple(integer_source(o, words) for o in roles.sources)
    predicates = roles.predicate_sources[:1]
    flags = (kind & 1, int(relu))
    return micro(op, instruction, roles, sources, words=words, flags=flags, predicate_sources=predicates)


def lower_move(instruction: Instruction) -> MicroOp | None:
    """MOV and MOV.64; the byte-masked form is accepted with a full mask only. MOV.SPILL is a move that the register
    allocator has put in."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    wide = modifiers.take("64")
    modifiers.take("SPILL")
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
    if wide:
        return micro(loops.copy, instruction, roles, (_whole(roles.sources[0]),), words=2, flags=(2,))
    return micro(body.mov, instruction, roles, (integer_source(roles.sources[0]),))


def lower_permute(instruction: Instruction) -> MicroOp | None:
    """PRMT: four of the eight bytes of {z:x}."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    mode = modifiers.choose(ops.PERMUTE_MODES, 0)
    if modifiers.left or roles is None or len(roles.sources) != 3 or not plain(roles.sources):
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    sources = tuple(map(integer_source, roles.sources))
    return micro(loops.permute, instruction, roles, sources, flags=(mode,))


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
            op=rare.sign_logic.number,
            sources=tuple(map(bare, operands[2:5])),
            predicate_destinations=known_destinations(tuple(operands[:2])),
            flags=(operands[5].value & 0xFF, operands[6].value & 0xFF),
            uniform=uniform,
        )
    if any(o.kind not in kinds for o in operands[2:5]):
        return None
    return MicroOp(
        op=body.predicate_logic.number,
        predicate_sources=tuple(operands[2:5]),
        predicate_destinations=known_destinations(tuple(operands[:2])),
        flags=(operands[5].value & 0xFF, operands[6].value & 0xFF),
        uniform=uniform,
    )


OPCODES = (
    *ADDERS,
    Opcode(
        mnemonic="LOP3", twin=True, summary="bitwise function of three words", lowering=lower_logic,
        bodies=(body.lop3,), pipe=ALU, coverage="logic and shift", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="SHF", twin=True, summary="funnel shift", lowering=lower_shift,
        bodies=(body.shift_left, body.shift_right, loops.funnel), pipe=ALU, coverage="logic and shift", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="ISETP", twin=True, summary="compare integers", lowering=lower_compare,
        bodies=(body.compare, rare.compare64), pipe=ALU_LITE, coverage="integer compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="SEL", twin=True, summary="select by predicate", lowering=lower_select,
        bodies=(body.select, rare.select64), pipe=ALU_LITE, coverage="move and select", flops=NO_FLOPS,
    ),
    *(
        Opcode(
            mnemonic=mnemonic, twin=True, summary="minimum or maximum", lowering=lower_minmax,
            bodies=(body.minmax, rare.minmax64, rare.minmax_halves, rare.minmax_bytes),
            pipe=ALU_LITE, coverage="integer compare", flops=NO_FLOPS,
        )
        for mnemonic in ("IMNMX", "VIMNMX")
    ),
    Opcode(
        mnemonic="VIMNMX3", twin=True, summary="minimum or maximum of three", lowering=lower_minmax,
        bodies=(rare.minmax3, rare.minmax3_halves), pipe=ALU, coverage="integer compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="VIADDMNMX", twin=True, summary="add, then minimum or maximum", lowering=lower_minmax,
        bodies=(body.add_minmax, rare.add_minmax_halves), pipe=ALU, coverage="integer compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="MOV", twin=True, summary="move", lowering=lower_move,
        bodies=(body.mov, loops.copy), pipe=ALU_LITE, coverage="move and select", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="PRMT", twin=True, summary="permute bytes", lowering=lower_permute,
        bodies=(loops.permute,), pipe=ALU, coverage="move and select", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="PLOP3", twin=True, summary="functions of three predicates", lowering=lower_predicate_logic,
        bodies=(body.predicate_logic, rare.sign_logic), pipe=ALU, coverage="predicate logic", flops=NO_FLOPS,
    ),
    *RARE,
)  # fmt: skip
