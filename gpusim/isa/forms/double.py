"""The FP64 opcodes. Bodies: :mod:`gpusim.isa.bodies.double`."""

from __future__ import annotations

from gpusim.isa import float_ops, integer_ops
from gpusim.isa.bodies import double as body
from gpusim.isa.form import Instruction, MicroOp, float_source
from gpusim.isa.lowering import Modifiers, micro, plain, split
from gpusim.isa.opcode import NO_FLOPS, Opcode, fp64
from gpusim.trace.record import PipeClass

FP64 = PipeClass.FP64
_ARITHMETIC = {"DADD": (body.add_double, 2), "DMUL": (body.multiply_double, 2), "DFMA": (body.multiply_add_double, 3)}


def _doubles(operands):
    return tuple(float_source(operand, 2) for operand in operands)


def lower_arithmetic(instruction: Instruction) -> MicroOp | None:
    """DADD, DMUL, DFMA with any rounding."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    mode = modifiers.choose(float_ops.ROUNDINGS, 0)
    op, count = _ARITHMETIC[instruction.mnemonic]
    if modifiers.left or roles is None or len(roles.sources) != count or not plain(roles.sources):
        return None
    if roles.predicate_sources or roles.predicate_destinations:
        return None
    return micro(op, instruction, roles, _doubles(roles.sources), words=2, flags=(mode,))


def lower_compare(instruction: Instruction) -> MicroOp | None:
    """DSETP: comparisons into predicates; .MIN and .MAX say which operand a minimum or maximum takes."""
    modifiers = Modifiers(instruction)
    roles = split(instruction, writes_register=False)
    order = modifiers.choose({"MAX": 0, "MIN": 1})
    code = modifiers.choose(integer_ops.COMPARISONS) if order is None else 0
    join = modifiers.choose(integer_ops.JOINS, integer_ops.JOIN_AND)
    if code is None or modifiers.left or roles is None or len(roles.sources) != 2:
        return None
    if not plain(roles.sources) or len(roles.predicate_sources) != 1:
        return None
    if order is not None:
        if join != integer_ops.JOIN_AND:
            return None
        return micro(body.order_double, instruction, roles, _doubles(roles.sources), flags=(order, join))
    return micro(body.compare_double, instruction, roles, _doubles(roles.sources), flags=(code, join))


def lower_minmax(instruction: Instruction) -> MicroOp | None:
    """DMNMX: minimum where the predicate holds, else maximum."""
    modifiers, roles = Modifiers(instruction), split(instruction)
    if modifiers.left or roles is None or len(roles.sources) != 2 or not plain(roles.sources):
        return None
    if len(roles.predicate_sources) != 1 or roles.predicate_destinations:
        return None
    return micro(body.minmax_double, instruction, roles, _doubles(roles.sources), words=2)


OPCODES = (
    Opcode(
        mnemonic="DADD", summary="add FP64", lowering=lower_arithmetic,
        bodies=(body.add_double,), pipe=FP64, coverage="float64 arithmetic", flops=fp64(1),
    ),
    Opcode(
        mnemonic="DMUL", summary="multiply FP64", lowering=lower_arithmetic,
        bodies=(body.multiply_double,), pipe=FP64, coverage="float64 arithmetic", flops=fp64(1),
    ),
    Opcode(
        mnemonic="DFMA", summary="fused multiply-add FP64", lowering=lower_arithmetic,
        bodies=(body.multiply_add_double,), pipe=FP64, coverage="float64 arithmetic", flops=fp64(2),
    ),
    Opcode(
        mnemonic="DSETP", summary="compare FP64", lowering=lower_compare,
        bodies=(body.compare_double, body.order_double), pipe=FP64, coverage="float64 compare", flops=NO_FLOPS,
    ),
    Opcode(
        mnemonic="DMNMX", summary="minimum or maximum FP64", lowering=lower_minmax,
        bodies=(body.minmax_double,), pipe=FP64, coverage="float64 compare", flops=NO_FLOPS,
    ),
)  # fmt: skip
