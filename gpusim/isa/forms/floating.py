"""The FP32 opcodes and those of the multi-function unit.

Mental model as in :mod:`gpusim.isa.forms.integer`; signs and absolute values are in the sources, rounding,
flushing and saturation in the flag ``how``. Bodies: :mod:`gpusim.isa.bodies.float`,
:mod:`gpusim.isa.bodies.mufu`. Conversions: :mod:`gpusim.isa.forms.convert`.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpusim.isa import float_ops as ops
from gpusim.isa import integer_ops
from gpusim.isa.bodies import float as body
from gpusim.isa.bodies import integer as integer_body
from gpusim.isa.bodies import mufu
from gpusim.isa.bodies.scalar import double_of, float_of, flush32
from gpusim.isa.body import Body, warp_body
from gpusim.isa.form import Instruction, Kind, Lower, MicroOp, Operand, Source, float_source
from gpusim.isa.forms.convert import CONVERSIONS
from gpusim.isa.lowering import Modifiers, Roles, known_destinations, micro, plain, split, with_signs
from gpusim.isa.opcode import NO_FLOPS, Opcode, fp32
from gpusim.trace.record import PipeClass

ALU_LITE, FMA, FMA_PAIRS = PipeClass.ALU_LITE, PipeClass.FMA, PipeClass.FMA_PAIRS


def _how(modifiers: Modifiers) -> int:
    """Rounding, flushing and saturation as one flag."""
    how = modifiers.choose(ops.ROUNDINGS, 0)
    how |= ops.FLUSH if modifiers.take("FTZ") else 0
    return how | (ops.SATURATE if modifiers.take("SAT") else 0)


def _values(instruction: Instruction, modifiers: Modifiers, count: int) -> Roles | None:
    """The roles, if exactly ``count`` plain sources and no predicates were written."""
    roles = split(instruction)
    if modifiers.left or roles is None or len(roles.sources) != count or not plain(roles.sources):
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    return None if any(o.inverted for o in roles.sources) else roles


def _arithmetic(op: Body, count: int, summary: str) -> Lower:
    """The lowering of an FP32 instruction with ``count`` plain sources and one result."""

    def lower(instruction: Instruction) -> MicroOp | None:
        modifiers = Modifiers(instruction)
        how = _how(modifiers)
        roles = _values(instruction, modifiers, count)
        if roles is None:
            return None
        sources = tuple(map(float_source, roles.sources))
        return micro(op, instruction, roles, sources, flags=(how,))

    lower.__doc__ = summary
    return lower


lower_add = _arithmetic(body.add_float, 2, "FADD: x + y.")
lower_fused = _arithmetic(body.fused_float, 3, "FFMA: x * y + z, rounded once.")

#: By which power of two FMUL multiplies (M) or divides (D) its product. That the product is rounded only then follows
#: from the unit, which adds to the exponent; both ways give the same unless a result is denormal.
_SCALES = {"D8": -3, "D4": -2, "D2": -1, "M2": 1, "M4": 2, "M8": 3}


@warp_body()
def multiply_float_scaled(f, p, xi, yi, zi, wi, q):
    """x * y * 2 ** ``f[1]``, rounded once; ``f[0]``: how."""
    scale = double_of((f[1] + 1023) << 52)
    for l in range(32):
        x, y = np.int64(xi[0, l]), np.int64(yi[0, l])
        if f[0] & ops.FLUSH:
            x, y = flush32(x), flush32(y)
        product = np.float64(float_of(x)) * np.float64(float_of(y))  # exact, as is its multiple
        wi[0, l] = np.int32(body.finished(product * scale, np.float64(0.0), np.int64(0), f[0]))


def lower_multiply(instruction: Instruction) -> MicroOp | None:
    """FMUL: x * y; .D2 to .D8 and .M2 to .M8 divide and multiply the product."""
    modifiers = Modifiers(instruction)
    how, scale = _how(modifiers), modifiers.choose(_SCALES)
    roles = _values(instruction, modifiers, 2)
    if roles is None:
        return None
    sources = tuple(map(float_source, roles.sources))
    if scale is None:
        return micro(body.multiply_float, instruction, roles, sources, flags=(how,))
    return micro(multiply_float_scaled, instruction, roles, sources, flags=(how, scale))


#: Which word of a pair the lower (bit 0) and the upper result (bit 1) read: both in order, swapped, or one number for
#: both. Read off code whose PTX puts pairs together: ``.NP`` changes the sign of the upper one alone, '-' that of both.
_PAIR_PICKS = {
    (): 0b10, ("F32x2",): 0b10, ("HI_LO",): 0b10, ("F32x2", "HI_LO"): 0b10, ("F32x2", "LO_HI"): 0b01, ("F32",): 0b00,
}  # fmt: skip


def _pair_source(operand: Operand) -> tuple[Source, int] | None:
    """Two FP32 numbers in two registers, or one that stands for both; and how they are picked (bodies/float.py)."""
    if operand.absolute or operand.inverted:
        return None
    if operand.kind == Kind.IMMEDIATE:
        value = operand.value & 0xFFFFFFFF
        return (Source(operand, 2, immediate=value << 32 | value), 0b10) if not operand.modifiers else None
    modifiers, signs = operand.modifiers, 0b1100 if operand.negated else 0
    if modifiers[-1:] == ("NP",):
        modifiers, signs = modifiers[:-1], signs ^ 0b1000
    picks = _PAIR_PICKS.get(modifiers)
    if picks is None:
        return None
    bare = replace(operand, negated=False)
    return Source(bare, 1 if modifiers == ("F32",) else 2), picks | signs


def lower_pair(instruction: Instruction) -> MicroOp | None:
    """FADD2, FMUL2, FFMA2 (sm_100): two FP32 numbers in a register pair, ``R2.F32x2.HI_LO``; swapped, ``.LO_HI``; the
    upper one with its sign changed, ``.NP``; or one number twice, ``R2.F32``."""
    modifiers = Modifiers(instruction)
    how = _how(modifiers)
    table = {
        "FADD2": (body.add_float_pairs, 2),
        "FMUL2": (body.multiply_float_pairs, 2),
        "FFMA2": (body.fused_float_pairs, 3),
    }
    op, count = table[instruction.mnemonic.removeprefix("U")]
    roles = split(instruction)
    if modifiers.left or roles is None or len(roles.sources) != count:
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    found = [_pair_source(operand) for operand in roles.sources]
    picks = sum(pair[1] << 4 * i for i, pair in enumerate(found) if pair is not None)
    sources = tuple(pair[0] for pair in found if pair is not None)
    return micro(op, instruction, roles, sources, words=2, flags=(how, picks)) if None not in found else None


def lower_minmax(instruction: Instruction) -> MicroOp | None:
    """FMNMX, FMNMX3: minimum where the predicate holds, else maximum."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    how = int(modifiers.take("FTZ"))
    how |= ops.PROPAGATE_NAN if modifiers.take("NAN") else 0
    how |= ops.XOR_SIGN if modifiers.take("XORSIGN") else 0
    three = instruction.mnemonic.endswith("3")
    if modifiers.left or roles is None or not plain(roles.sources):
        return None
    if len(roles.sources) != 2 + three or len(roles.predicate_sources) != 1:
        return None
    if any(d is not None for d in known_destinations(roles.predicate_destinations)):
        return None
    operands = with_signs(roles.sources, 0x80000000) if how & ops.XOR_SIGN else roles.sources
    op = body.minmax3_float if three else body.minmax_float
    if operands is None:
        return None
    return micro(op, instruction, roles, tuple(map(float_source, operands)), flags=(how,))


def lower_select(instruction: Instruction) -> MicroOp | None:
    """FSEL: x where the predicate holds, else y, each with its sign changes."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    flush = modifiers.take("FTZ")
    if modifiers.left or roles is None or len(roles.sources) != 2 or not plain(roles.sources):
        return None
    if len(roles.predicate_sources) != 1 or roles.predicate_destinations:
        return None
    op = body.select_flushed if flush else integer_body.select
    return micro(op, instruction, roles, tuple(map(float_source, roles.sources)))


def _comparison(modifiers: Modifiers) -> tuple[int | None, int, int]:
    code = modifiers.choose(integer_ops.COMPARISONS)
    join = modifiers.choose(integer_ops.JOINS, integer_ops.JOIN_AND)
    return code, join, int(modifiers.take("FTZ"))


def lower_compare(instruction: Instruction) -> MicroOp | None:
    """FSETP: ordered and unordered comparisons into predicates."""
    modifiers = Modifiers(instruction)
    roles = split(instruction, writes_register=False)
    code, join, flush = _comparison(modifiers)
    if code is None or modifiers.left or roles is None or len(roles.sources) != 2:
        return None
    if not plain(roles.sources) or len(roles.predicate_sources) != 1:
        return None
    sources = tuple(map(float_source, roles.sources))
    return micro(body.compare_float, instruction, roles, sources, flags=(code, join, flush))


def lower_set(instruction: Instruction) -> MicroOp | None:
    """FSET: a comparison into a register, as all ones or (.BF) as 1.0."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    numeric = int(modifiers.take("BF"))
    code, join, flush = _comparison(modifiers)
    if code is None or modifiers.left or roles is None or len(roles.sources) != 2:
        return None
    if not plain(roles.sources) or len(roles.predicate_sources) != 1 or roles.predicate_destinations:
        return None
    sources = tuple(map(float_source, roles.sources))
    return micro(body.set_float, instruction, roles, sources, flags=(code, join, flush, numeric))


def lower_check(instruction: Instruction) -> MicroOp | None:
    """FCHK: whether x / y needs the slow path."""
    modifiers = Modifiers(instruction)
    roles = split(instruction, writes_register=False)
    modifiers.take("DIVIDE")
    if modifiers.left or roles is None or len(roles.sources) != 2 or not plain(roles.sources):
        return None
    if roles.predicate_sources:
        return None
    sources = tuple(map(float_source, roles.sources))
    return micro(body.check_division, instruction, roles, sources)


_FUNCTIONS = {
    "RCP": mufu.reciprocal, "RSQ": mufu.reciprocal_root, "SQRT": mufu.square_root, "EX2": mufu.exponential,
    "LG2": mufu.logarithm, "SIN": mufu.sine, "COS": mufu.cosine, "TANH": mufu.tangent,
    "RCP64H": mufu.reciprocal_high, "RSQ64H": mufu.reciprocal_root_high,
}  # fmt: skip
_FUNCTIONS_OF_HALVES = {"TANH": mufu.tangent_halves, "EX2": mufu.exponential_halves}
#: Which 16-bit floats, negated where both of a word: sm_103 says so with ``x2``, others with ``_V2``.
_STYLES_OF_HALVES = {
    "F16": ops.F16, "BF16": ops.BF16, "F16_V2": -ops.F16, "BF16_V2": -ops.BF16, "F16x2": -ops.F16, "BF16x2": -ops.BF16,
}  # fmt: skip


def lower_multifunction(instruction: Instruction) -> MicroOp | None:
    """MUFU: one function of one number."""
    modifiers = Modifiers(instruction)
    name = next((name for name in modifiers.left if name in _FUNCTIONS), None)
    roles = split(instruction)
    if name is None or roles is None or len(roles.sources) != 1:
        return None
    modifiers.take(name)
    op = _FUNCTIONS[name]
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    flags: tuple[int, ...] = ()
    style = modifiers.choose(_STYLES_OF_HALVES)
    if style is not None:
        if name not in _FUNCTIONS_OF_HALVES:
            return None
        op = _FUNCTIONS_OF_HALVES[name]
        place = {(): 0, ("H0",): 0, ("H1",): 16}.get(roles.sources[0].modifiers)
        if place is None or roles.sources[0].negated or roles.sources[0].absolute:
            return None
        flags = (abs(style), int(style < 0), place)
    elif not plain(roles.sources):
        return None
    if modifiers.left:
        return None
    source = float_source(roles.sources[0])
    return micro(op, instruction, roles, (source,), flags=flags)


OPCODES = (
    Opcode(
        mnemonic="FADD", twin=True, summary="add FP32", lowering=lower_add,
        bodies=(body.add_float,), pipe=FMA, coverage="float32 add or multiply", flops=fp32(1),
    ),
    Opcode(
        mnemonic="FMUL", twin=True, summary="multiply FP32", lowering=lower_multiply,
        bodies=(body.multiply_float, multiply_float_scaled), pipe=FMA, coverage="float32 add or multiply", flops=fp32(1),
    ),
    Opcode(
        mnemonic="FFMA", twin=True, summary="fused multiply-add FP32", lowering=lower_fused,
        bodies=(body.fused_float,), pipe=FMA, coverage="float32 fma", flops=fp32(2),
    ),
    Opcode(
        mnemonic="FADD2", twin=True, summary="add FP32 pairs", lowering=lower_pair,
        bodies=(body.add_float_pairs,), pipe=FMA_PAIRS, coverage="float32 add or multiply", flops=fp32(2),
    ),
    Opcode(
        mnemonic="FMUL2", twin=True, summary="multiply FP32 pairs", lowering=lower_pair,
        bodies=(body.multiply_float_pairs,), pipe=FMA_PAIRS, coverage="float32 add or multiply", flops=fp32(2),
    ),
    Opcode(
        mnemonic="FFMA2", twin=True, summary="fused multiply-add FP32 pairs", lowering=lower_pair,
        bodies=(body.fused_float_pairs,), pipe=FMA_PAIRS, coverage="float32 fma", flops=fp32(4),
    ),
    Opcode(
        mnemonic="FMNMX", twin=True, summary="minimum or maximum FP32", lowering=lower_minmax,
        bodies=(body.minmax_float,), pipe=ALU_LITE, coverage="float32 compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="FMNMX3", twin=True, summary="minimum or maximum of three FP32", lowering=lower_minmax,
        bodies=(body.minmax3_float,), pipe=ALU_LITE, coverage="float32 compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="FSEL", twin=True, summary="select FP32 by predicate", lowering=lower_select,
        bodies=(integer_body.select, body.select_flushed), pipe=ALU_LITE, coverage="move and select", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="FSETP", twin=True, summary="compare FP32", lowering=lower_compare,
        bodies=(body.compare_float,), pipe=ALU_LITE, coverage="float32 compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="FSET", twin=True, summary="compare FP32 into a register", lowering=lower_set,
        bodies=(body.set_float,), pipe=ALU_LITE, coverage="float32 compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="FCHK", summary="check the operands of a division", lowering=lower_check,
        bodies=(body.check_division,), pipe=PipeClass.MUFU, coverage="float32 compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="MUFU", summary="multi-function unit", lowering=lower_multifunction,
        bodies=(*_FUNCTIONS.values(), *_FUNCTIONS_OF_HALVES.values()),
        pipe=PipeClass.MUFU, coverage="transcendental", flops=NO_FLOPS,
    ),
    *CONVERSIONS,
)  # fmt: skip
