"""Rows of the packed 16-bit float instructions: HADD2, HMUL2, HFMA2, HSETP2, HSET2, HMNMX2.

Mental model as in :mod:`gpusim.sass.integer`: format and options become the flag ``how``, the half
selectors (``.H0_H0``) two bits a source. Bodies: :mod:`gpusim.capture.alu_half`.
"""

from __future__ import annotations

from dataclasses import replace

from gpusim.sass import float_ops, integer_ops
from gpusim.sass import half_ops as ops
from gpusim.sass.form import Instruction, Kind, MicroOp, Operand, Row, Source
from gpusim.sass.lowering import Modifiers, Roles, known_destinations, micro, split, twins
from gpusim.trace.record import PipeClass

HALF, ALU = PipeClass.HALF, PipeClass.ALU
_ARITHMETIC = {
    "HADD2": (ops.ADD, ops.ADD_WIDE, 2),
    "HMUL2": (ops.MULTIPLY, ops.MULTIPLY_WIDE, 2),
    "HFMA2": (ops.FUSED, ops.FUSED_WIDE, 3),
}


def _style(modifiers: Modifiers) -> int:
    """Format and options that all rows share."""
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
    return Source(operand, keep=keep, flip=0x80008000 if operand.negated else 0)


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
    modifiers.take("MMA")
    how = _style(modifiers)
    to_float = modifiers.take("F32")
    if modifiers.left or roles is None or len(roles.sources) != count:
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    swizzles = _swizzles(roles.sources)
    if swizzles is None or (to_float and how & (ops.SATURATE | ops.RELU)):
        return None
    if count == 3 and not to_float and (value := _constant(roles, how)) is not None:
        source = Source(roles.sources[2], immediate=value)
        return micro(integer_ops.MOV, HALF, instruction, roles, (source,))
    sources = tuple(map(_source, roles.sources))
    op = wide if to_float else packed
    return micro(op, HALF, instruction, roles, sources, flags=(how, swizzles))


def _comparison(instruction: Instruction, roles: Roles | None, op: int, numeric: int) -> MicroOp | None:
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
    return micro(op, HALF, instruction, roles, tuple(map(_source, roles.sources)), flags=flags)


def lower_compare(instruction: Instruction) -> MicroOp | None:
    """HSETP2: both halves compared, one predicate each."""
    if "BF" in instruction.modifiers:
        return None
    return _comparison(instruction, _split(instruction, writes_register=False), ops.COMPARE, 0)


def lower_set(instruction: Instruction) -> MicroOp | None:
    """HSET2: both halves compared into all ones or (.BF) 1.0."""
    roles = _split(instruction)
    if roles is None or roles.predicate_destinations or "H_AND" in instruction.modifiers:
        return None
    return _comparison(instruction, roles, ops.SET, int("BF" in instruction.modifiers))


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
    op = ops.MINMAX if len(roles.sources) == 2 else ops.MINMAX3
    sources = tuple(map(_source, roles.sources))
    return micro(op, ALU, instruction, roles, sources, flags=(how, swizzles))


ROWS: list[Row] = [
    *twins("HADD2", lower_arithmetic, "add 16-bit float pairs"),
    *twins("HMUL2", lower_arithmetic, "multiply 16-bit float pairs"),
    *twins("HFMA2", lower_arithmetic, "fused multiply-add 16-bit float pairs"),
    Row("HSETP2", lower_compare, "compare 16-bit float pairs"),
    Row("HSET2", lower_set, "compare 16-bit float pairs into a register"),
    Row("HMNMX2", lower_minmax, "minimum or maximum of 16-bit float pairs"),
    Row("VHMNMX", lower_minmax, "minimum or maximum of 16-bit float pairs"),
]
