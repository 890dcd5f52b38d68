"""Rows of the FP32 instructions and of the multi-function unit.

Mental model as in :mod:`gpusim.isa.forms.integer`; signs and absolute values are in the sources, rounding,
flushing and saturation in the flag ``how``. Bodies: :mod:`gpusim.isa.bodies.float`,
:mod:`gpusim.isa.bodies.mufu`. Conversions: :mod:`gpusim.isa.forms.convert`.
"""

from __future__ import annotations

from gpusim.isa import float_ops as ops
from gpusim.isa import integer_ops
from gpusim.isa.form import Instruction, Kind, Lower, MicroOp, Operand, Row, Source, float_source
from gpusim.isa.forms.convert import CONVERT_ROWS
from gpusim.isa.lowering import Modifiers, Roles, known_destinations, micro, plain, split, twins
from gpusim.trace.record import PipeClass

ALU, FMA = PipeClass.ALU, PipeClass.FMA


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


def _arithmetic(op: int, count: int, summary: str) -> Lower:
    """The lowering of an FP32 instruction with ``count`` plain sources and one result."""

    def lower(instruction: Instruction) -> MicroOp | None:
        modifiers = Modifiers(instruction)
        how = _how(modifiers)
        roles = _values(instruction, modifiers, count)
        if roles is None:
            return None
        sources = tuple(map(float_source, roles.sources))
        return micro(op, FMA, instruction, roles, sources, flags=(how,))

    lower.__doc__ = summary
    return lower


lower_add = _arithmetic(ops.ADD, 2, "FADD: x + y.")
lower_multiply = _arithmetic(ops.MULTIPLY, 2, "FMUL: x * y.")
lower_fused = _arithmetic(ops.FUSED, 3, "FFMA: x * y + z, rounded once.")


def _pair_source(operand: Operand) -> Source | None:
    """Two FP32 numbers in two registers; only whole-pair forms are known."""
    if operand.negated or operand.absolute or operand.inverted:
        return None
    if operand.kind == Kind.IMMEDIATE:
        value = operand.value & 0xFFFFFFFF
        return Source(operand, 2, immediate=value << 32 | value)
    return Source(operand, 2)


def lower_pair(instruction: Instruction) -> MicroOp | None:
    """FADD2, FMUL2, FFMA2 (sm_100): two FP32 lanes in a register pair."""
    modifiers = Modifiers(instruction)
    how = _how(modifiers)
    table = {"FADD2": (ops.ADD_PAIR, 2), "FMUL2": (ops.MULTIPLY_PAIR, 2), "FFMA2": (ops.FUSED_PAIR, 3)}
    op, count = table[instruction.mnemonic.removeprefix("U")]
    roles = split(instruction)
    if modifiers.left or roles is None or len(roles.sources) != count:
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    if any(o.modifiers not in ((), ("F32x2", "HI_LO"), ("F32x2",), ("HI_LO",)) for o in roles.sources):
        return None
    sources = tuple(map(_pair_source, roles.sources))
    if any(s is None for s in sources):
        return None
    return micro(op, FMA, instruction, roles, sources, words=2, flags=(how,))


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
    op = ops.MINMAX3 if three else ops.MINMAX
    return micro(op, ALU, instruction, roles, tuple(map(float_source, roles.sources)), flags=(how,))


def lower_select(instruction: Instruction) -> MicroOp | None:
    """FSEL: x where the predicate holds, else y, each with its sign changes."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    flush = modifiers.take("FTZ")
    if modifiers.left or roles is None or len(roles.sources) != 2 or not plain(roles.sources):
        return None
    if len(roles.predicate_sources) != 1 or roles.predicate_destinations:
        return None
    op = ops.SELECT_FLUSHED if flush else integer_ops.SELECT
    return micro(op, ALU, instruction, roles, tuple(map(float_source, roles.sources)))


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
    return micro(ops.COMPARE, ALU, instruction, roles, sources, flags=(code, join, flush))


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
    return micro(ops.SET, ALU, instruction, roles, sources, flags=(code, join, flush, numeric))


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
    return micro(ops.CHECK_DIVISION, PipeClass.MUFU, instruction, roles, sources)


def lower_multifunction(instruction: Instruction) -> MicroOp | None:
    """MUFU: one function of one number."""
    modifiers = Modifiers(instruction)
    op = modifiers.choose(ops.MUFU)
    roles = split(instruction)
    if op is None or roles is None or len(roles.sources) != 1:
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    flags: tuple[int, ...] = ()
    style = modifiers.choose({"F16": ops.F16, "BF16": ops.BF16, "F16_V2": -ops.F16, "BF16_V2": -ops.BF16})
    if style is not None:
        if op not in (ops.TANH, ops.EX2):
            return None
        op = ops.TANH_HALVES if op == ops.TANH else ops.EX2_HALVES
        place = {(): 0, ("H0",): 0, ("H1",): 16}.get(roles.sources[0].modifiers)
        if place is None or roles.sources[0].negated or roles.sources[0].absolute:
            return None
        flags = (abs(style), int(style < 0), place)
    elif not plain(roles.sources):
        return None
    if modifiers.left:
        return None
    source = float_source(roles.sources[0])
    return micro(op, PipeClass.MUFU, instruction, roles, (source,), flags=flags)


ROWS: list[Row] = [
    *twins("FADD", lower_add, "add FP32"),
    *twins("FMUL", lower_multiply, "multiply FP32"),
    *twins("FFMA", lower_fused, "fused multiply-add FP32"),
    *twins("FADD2", lower_pair, "add FP32 pairs"),
    *twins("FMUL2", lower_pair, "multiply FP32 pairs"),
    *twins("FFMA2", lower_pair, "fused multiply-add FP32 pairs"),
    *twins("FMNMX", lower_minmax, "minimum or maximum FP32"),
    *twins("FMNMX3", lower_minmax, "minimum or maximum of three FP32"),
    *twins("FSEL", lower_select, "select FP32 by predicate"),
    *twins("FSETP", lower_compare, "compare FP32"),
    *twins("FSET", lower_set, "compare FP32 into a register"),
    Row("FCHK", lower_check, "check the operands of a division"),
    Row("MUFU", lower_multifunction, "multi-function unit"),
    *CONVERT_ROWS,
]
