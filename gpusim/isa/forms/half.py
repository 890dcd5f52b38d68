"""The packed 16-bit float opcodes: HADD2, HMUL2, HFMA2, HSETP2, HSET2, HMNMX2.

Mental model as in :mod:`gpusim.isa.forms.integer`: format and options become the flag ``how``, the half
selectors (``.H0_H0``) two bits a source. Bodies: :mod:`gpusim.isa.bodies.half`.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.isa import float_ops, integer_ops
from gpusim.isa import half_ops as ops
from gpusim.isa.bodies import half as body
from gpusim.isa.bodies import integer as integer_body
from gpusim.isa.body import Body
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source, float_source
from gpusim.isa.lowering import Modifiers, Roles, known_destinations, micro, split, with_signs
from gpusim.isa.opcode import NO_FLOPS, Opcode, fp16, fp32
from gpusim.trace.record import PipeClass

ALU, FMA, HALF, BFLOAT = PipeClass.ALU, PipeClass.FMA, PipeClass.HALF, PipeClass.BFLOAT
HALF_MMA, HALF_SINGLE = PipeClass.HALF_MMA, PipeClass.HALF_SINGLE
_ARITHMETIC = {
    "HADD2": (body.add_halves_float, body.add_to_single, 2),
    "HMUL2": (body.multiply_halves, body.multiply_to_single, 2),
    "HFMA2": (body.fused_halves, body.fused_to_single, 3),
}


def _style(modifiers: Modifiers) -> int:
    """Format and options that all opcodes share."""
    style = modifiers.choose({"BF16_V2": float_ops.BF16, "BF16": float_ops.BF16})
    if style is None:
        style = float_ops.F16
        modifiers.take("F16_V2")
    how = style | (ops.FLUSH if modifiers.take("FTZ") else 0)
    how |= ops.SATURATE if modifiers.take("SAT") else 0
    return how | (ops.RELU if modifiers.take("RELU") else 0)


def _source(operand: Operand) -> Source:
    """Both halves of a word, with the sign changes on each."""
    if operand.kind == Kind.IMMEDIATE:
        return Source(operand, immediate=operand.value & 0xFFFFFFFF)
    keep = 0x7FFF7FFF if operand.absolute else 0xFFFFFFFF
    flip = (0x80008000 if operand.negated else 0) ^ ops.SWIZZLE_SIGNS.get(operand.modifiers, 0)
    return Source(operand, keep=keep, flip=flip)


def _split(instruction: Instruction, *, writes_register: bool = True) -> Roles | None:
    """The roles, with an immediate that is written as two numbers (high half first) made one word."""
    roles = split(instruction, writes_register=writes_register)
    if roles is None:
        return None
    sources: list[Operand] = []
    for operand in roles.sources:
        if operand.kind == Kind.IMMEDIATE and sources and sources[-1].kind == Kind.IMMEDIATE:
            value = (sources[-1].value & 0xFFFF) << 16 | operand.value & 0xFFFF
            sources[-1] = replace(sources[-1], value=value)
        else:
            sources.append(operand)
    return replace(roles, sources=tuple(sources))


def _swizzles(operands: tuple[Operand, ...]) -> int | None:
    """The half selectors of up to three sources, two bits each."""
    packed = 0
    for i, operand in enumerate(operands):
        if operand.modifiers not in ops.SWIZZLES or operand.inverted:
            return None
        packed |= ops.SWIZZLES[operand.modifiers] << 2 * i
    return packed


def _constant(roles: Roles, how: int) -> int | None:
    """What ``-0 * 0 + immediate`` writes: how the compiler moves a constant through the half pipe."""
    x, y, z = roles.sources
    registers = (Kind.REGISTER, Kind.UNIFORM)
    zeros = all(o.kind in registers and o.index == 255 and not o.absolute for o in (x, y))
    if not zeros or x.negated == y.negated or z.kind != Kind.IMMEDIATE or how >> 4:
        return None
    infinity = 0x7C00 if how == float_ops.F16 else 0x7F80
    halves = (z.value & 0xFFFF, z.value >> 16 & 0xFFFF)
    low, high = (0x7FFF if half & 0x7FFF > infinity else half for half in halves)
    return high << 16 | low


def lower_arithmetic(instruction: Instruction) -> MicroOp | None:
    """HADD2, HMUL2, HFMA2: packed results, or with .F32 one FP32 result."""
    modifiers, roles = Modifiers(instruction), _split(instruction)
    packed, wide, count = _ARITHMETIC[instruction.mnemonic.removeprefix("U")]
    beside = count == 3 and modifiers.take("MMA")
    how = _style(modifiers)
    if count == 3 and modifiers.take("OOB"):
        how |= ops.ZERO_OUTSIDE
    to_float = modifiers.take("F32")
    if modifiers.left or roles is None or len(roles.sources) != count:
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    if count == 2 and any(o.modifiers == ("F32",) for o in roles.sources):
        known = not to_float and how & ~15 in (0, ops.SATURATE)
        return _lower_narrow_sum(instruction, roles, packed, how) if known else None
    pipe = HALF_SINGLE if to_float else HALF_MMA if beside else BFLOAT if how & 15 == float_ops.BF16 else None
    swizzles = _swizzles(roles.sources)
    if swizzles is None or (to_float and how & (ops.SATURATE | ops.RELU | ops.ZERO_OUTSIDE)):
        return None
    if count == 3 and not to_float and (value := _constant(roles, how)) is not None:
        source = Source(roles.sources[2], immediate=value)
        return micro(integer_body.mov, instruction, roles, (source,), pipe=pipe)
    sources = tuple(map(_source, roles.sources))
    op = wide if to_float else packed
    return micro(op, instruction, roles, sources, flags=(how, swizzles), pipe=pipe)


def _lower_narrow_sum(instruction: Instruction, roles: Roles, op: int, how: int) -> MicroOp | None:
    """HADD2 R0, R2.F32, -RZ.H0_H0: how sm_75 cuts an FP32 number to half precision; with .SAT, into 0 to 1."""
    wide = [o.modifiers == ("F32",) for o in roles.sources]
    swizzles = _swizzles(tuple(replace(o, modifiers=()) if w else o for o, w in zip(roles.sources, wide)))
    if op != body.add_halves_float or swizzles is None:
        return None
    sources = tuple(float_source(o) if w else _source(o) for o, w in zip(roles.sources, wide))
    flags = (how, swizzles, wide[0] + 2 * wide[1])
    return micro(body.add_narrowed, instruction, roles, sources, flags=flags)


def lower_mixed(instruction: Instruction) -> MicroOp | None:
    """FHADD and FHFMA (sm_100): halves added or multiplied into an FP32 sum."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    mode = modifiers.choose(float_ops.ROUNDINGS, 0)
    style = float_ops.BF16 if modifiers.take("BF16") else float_ops.F16
    modifiers.take("F16")
    fused = instruction.mnemonic.endswith("FMA")
    if modifiers.left or roles is None or len(roles.sources) != 2 + fused:
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    places = {(): 0b10, ("H0",): 0b00, ("H1",): 0b11, ("H0_H0",): 0b00, ("H1_H1",): 0b11}
    halves = roles.sources[: 1 + fused]
    if any(o.modifiers not in places or o.inverted for o in halves) or roles.sources[-1].modifiers:
        return None
    swizzles = sum(places[o.modifiers] << 2 * i for i, o in enumerate(halves))
    sources = (*map(_source, halves), float_source(roles.sources[-1]))
    op = body.fused_mixed if fused else body.add_mixed
    return micro(op, instruction, roles, sources, flags=(style | mode << 4, swizzles))


def _comparison(instruction: Instruction, roles: Roles | None, op: Body, numeric: int) -> MicroOp | None:
    modifiers = Modifiers(instruction)
    modifiers.take("BF")
    how = _style(modifiers)
    how |= ops.BOTH if modifiers.take("H_AND") else 0
    code = modifiers.choose(integer_ops.COMPARISONS)
    join = modifiers.choose(integer_ops.JOINS, integer_ops.JOIN_AND)
    if code is None or modifiers.left or roles is None or len(roles.sources) != 2:
        return None
    if len(roles.predicate_sources) != 1 or how & (ops.SATURATE | ops.RELU):
        return None
    swizzles = _swizzles(roles.sources)
    if swizzles is None:
        return None
    flags = (how, swizzles, code | join << 4, numeric)
    return micro(op, instruction, roles, tuple(map(_source, roles.sources)), flags=flags)


def lower_compare(instruction: Instruction) -> MicroOp | None:
    """HSETP2: both halves compared, one predicate each."""
    if "BF" in instruction.modifiers:
        return None
    return _comparison(instruction, _split(instruction, writes_register=False), body.compare_halves, 0)


def lower_set(instruction: Instruction) -> MicroOp | None:
    """HSET2: both halves compared into all ones or (.BF) 1.0."""
    roles = _split(instruction)
    if roles is None or roles.predicate_destinations or "H_AND" in instruction.modifiers:
        return None
    return _comparison(instruction, roles, body.set_halves, int("BF" in instruction.modifiers))


def lower_minmax(instruction: Instruction) -> MicroOp | None:
    """HMNMX2 and VHMNMX: minimum where the predicate holds, else maximum, of each half."""
    modifiers, roles = Modifiers(instruction), _split(instruction)
    how = _style(modifiers)
    how |= ops.PROPAGATE_NAN if modifiers.take("NAN") else 0
    how |= ops.XOR_SIGN if modifiers.take("XORSIGN") else 0
    if modifiers.left or roles is None or len(roles.sources) not in (2, 3):
        return None
    if len(roles.predicate_sources) != 1 or how & ops.SATURATE:
        return None
    if any(d is not None for d in known_destinations(roles.predicate_destinations)):
        return None
    swizzles = _swizzles(roles.sources)
    if swizzles is None:
        return None
    op = body.minmax_halves_float if len(roles.sources) == 2 else body.minmax3_halves_float
    operands = with_signs(roles.sources, 0x80008000) if how & ops.XOR_SIGN else roles.sources
    if operands is None:
        return None
    return micro(op, instruction, roles, tuple(map(_source, operands)), flags=(how, swizzles))


OPCODES = (
    Opcode(
        mnemonic="HADD2", twin=True, summary="add 16-bit float pairs", lowering=lower_arithmetic,
        bodies=(body.add_halves_float, body.add_to_single, body.add_narrowed),
        pipe=HALF, other_pipes=(BFLOAT, HALF_SINGLE), coverage="float16 arithmetic", flops=fp16(2),
    ),
    Opcode(
        mnemonic="HMUL2", twin=True, summary="multiply 16-bit float pairs", lowering=lower_arithmetic,
        bodies=(body.multiply_halves, body.multiply_to_single),
        pipe=HALF, other_pipes=(BFLOAT, HALF_SINGLE), coverage="float16 arithmetic", flops=fp16(2),
    ),
    Opcode(
        mnemonic="HFMA2", twin=True, summary="fused multiply-add 16-bit float pairs", lowering=lower_arithmetic,
        bodies=(body.fused_halves, body.fused_to_single, integer_body.mov),
        pipe=HALF, other_pipes=(BFLOAT, HALF_MMA, HALF_SINGLE), coverage="float16 arithmetic", flops=fp16(4),
    ),
    Opcode(
        mnemonic="FHADD", twin=True, summary="add a 16-bit float to FP32", lowering=lower_mixed,
        bodies=(body.add_mixed,), pipe=FMA, coverage="float32 add or multiply", flops=fp32(1),
    ),
    Opcode(
        mnemonic="FHFMA", twin=True, summary="fused multiply-add of 16-bit floats into FP32", lowering=lower_mixed,
        bodies=(body.fused_mixed,), pipe=FMA, coverage="float32 fma", flops=fp32(2),
    ),
    Opcode(
        mnemonic="HSETP2", summary="compare 16-bit float pairs", lowering=lower_compare,
        bodies=(body.compare_halves,), pipe=HALF, coverage="float16 compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="HSET2", summary="compare 16-bit float pairs into a register", lowering=lower_set,
        bodies=(body.set_halves,), pipe=HALF, coverage="float16 compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="HMNMX2", summary="minimum or maximum of 16-bit float pairs", lowering=lower_minmax,
        bodies=(body.minmax_halves_float, body.minmax3_halves_float),
        pipe=ALU, coverage="float16 compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="VHMNMX", summary="minimum or maximum of 16-bit float pairs", lowering=lower_minmax,
        bodies=(body.minmax_halves_float, body.minmax3_halves_float),
        pipe=ALU, coverage="float16 compare", flops=NO_FLOPS,
    ),
)  # fmt: skip
