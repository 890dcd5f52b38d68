"""Hopper's asynchronous tensor instructions (PTX ``wgmma``): HGMMA, QGMMA, IGMMA, BGMMA, and WARPGROUP's waits.

Mental model: four warps multiply a matrix of 64 rows with one of N columns; each warp has 16 rows of A and of D, and B
is common to them. B, and A unless it is in registers, lie in shared memory, where 64-bit descriptors in four uniform
registers say how (``gdesc[UR4]``: UR4 and UR5 A's, UR6 and UR7 B's). The instruction goes to the tensor core and the
warp goes on; ``gsb0`` closes a group of such products, and ``WARPGROUP.DEPBAR.LE gsb0, n`` waits until at most n groups
are under way.

Operands, as read off compiled code: D, A's registers if it has any, ``gdesc``, C (D again, or RZ), a uniform predicate
that says whether C counts (absent: it does), of sparse ones the metadata's register and of elements of 16 and 32 bits a
selector, ``gsb0``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpusim.isa import float_ops, tensor_ops
from gpusim.isa import system_ops as ops
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.isa.forms.tensor import EIGHT_BIT
from gpusim.isa.lowering import Modifiers
from gpusim.isa.opcode import NO_FLOPS, OTHER, TENSOR, Opcode
from gpusim.trace.record import Flag, MatrixType, PipeClass, Space

NO_REGISTER = 255
ROWS = 64
WARP_ROWS = 16
MOST_COLUMNS = 256
#: Bits of A's rows that a dense product takes.
DEPTH_BITS = 256
_SHAPE = re.compile(r"^64x(\d+)x(\d+)$")
_DESCRIPTORS = re.compile(r"^gdesc\[UR(\d+)\]((?:\.\w+)*)$")
_OF_DESCRIPTORS = {
    "tnspA": tensor_ops.A_TURNED,
    "tnspB": tensor_ops.B_TURNED,
    "negA": tensor_ops.A_NEGATED,
    "negB": tensor_ops.B_NEGATED,
}
_GROUP = "gsb0"
_BYTES = {"S8": tensor_ops.A_SIGNED, "U8": 0}


@dataclass(frozen=True)
class _Product:
    """What the name says: formats of A and B and of the accumulator, bits of an element, what is counted."""

    matrix: MatrixType
    bits: int
    styles: int
    accumulator: int = tensor_ops.ACCUMULATE_F32
    saturates: bool = False
    floating: bool = True


def _half(modifiers: Modifiers) -> _Product | None:
    accumulator = modifiers.choose({"F32": tensor_ops.ACCUMULATE_F32, "F16": tensor_ops.ACCUMULATE_F16})
    style = modifiers.choose({"BF16": float_ops.BF16, "TF32": float_ops.TF32}, float_ops.F16)
    if accumulator is None or style is None or (accumulator == tensor_ops.ACCUMULATE_F16 and style != float_ops.F16):
        return None
    wide = accumulator == tensor_ops.ACCUMULATE_F32
    matrix = MatrixType.TF32 if style == float_ops.TF32 else MatrixType.F16 if wide else MatrixType.F16_F16
    return _Product(matrix, 32 if style == float_ops.TF32 else 16, style | style << 8, accumulator)


def _eight_bit(modifiers: Modifiers) -> _Product | None:
    accumulator = modifiers.choose({"F32": tensor_ops.ACCUMULATE_F32, "F16": tensor_ops.ACCUMULATE_F16})
    if accumulator is None or len(modifiers.left) != 2 or not set(modifiers.left) <= set(EIGHT_BIT):
        return None
    a, b = (EIGHT_BIT[name] for name in modifiers.left)
    modifiers.left.clear()
    wide = accumulator == tensor_ops.ACCUMULATE_F32
    return _Product(MatrixType.FP8 if wide else MatrixType.FP8_F16, 8, a | b << 8, accumulator)


def _integer(modifiers: Modifiers) -> _Product | None:
    saturates = modifiers.take("SAT")
    if len(modifiers.left) != 2 or not set(modifiers.left) <= set(_BYTES):
        return None
    a, b = (_BYTES[name] for name in modifiers.left)
    modifiers.left.clear()
    signs = (tensor_ops.A_SIGNED if a else 0) | (tensor_ops.B_SIGNED if b else 0)
    return _Product(MatrixType.INT8, 8, signs, saturates=saturates, floating=False)


def _bit(modifiers: Modifiers) -> _Product | None:
    if not modifiers.take("AND") or not modifiers.take("POPC"):
        return None
    return _Product(MatrixType.BIT, 1, 0, floating=False)


_NAMES = {"HGMMA": _half, "QGMMA": _eight_bit, "IGMMA": _integer, "BGMMA": _bit}


def lower_product(instruction: Instruction) -> MicroOp | None:
    """``HGMMA.64x128x16.F32.BF16 Rd, gdesc[UR4].tnspB, Rd, UP0, gsb0`` and its kin; see the module docstring."""
    modifiers = Modifiers(instruction)
    sparse = modifiers.take("SP")
    shape = _SHAPE.match(modifiers.left.pop(0)) if modifiers.left else None
    product = _NAMES[instruction.mnemonic](modifiers)
    if shape is None or product is None or modifiers.left or (sparse and product.bits == 1):
        return None
    columns, depth = int(shape.group(1)), int(shape.group(2))
    if columns % 8 or not 8 <= columns <= MOST_COLUMNS or depth * product.bits != DEPTH_BITS << sparse:
        return None
    operands = list(instruction.operands)
    closes = bool(operands) and operands[-1].text == _GROUP
    if closes:
        operands.pop()
    taken = _operands(operands, sparse, product.bits)
    if taken is None:
        return None
    destination, a, descriptors, negated, accumulates, metadata, selector = taken
    known = _DESCRIPTORS.match(descriptors.text)
    if known is None:
        return None
    bits = tensor_ops.A_IN_SHARED if a is None else tensor_ops.A_NEGATED if negated else 0
    for name in filter(None, known.group(2).split(".")):
        if name not in _OF_DESCRIPTORS or (name.startswith("tnsp") and product.bits != 16):
            return None
        if name.endswith("A") and a is not None:
            return None
        bits |= _OF_DESCRIPTORS[name]
    if not product.floating and bits & ~tensor_ops.A_IN_SHARED:
        return None
    bits |= (tensor_ops.HALF_OF_A if sparse else 0) | (tensor_ops.SATURATES if product.saturates else 0)
    words = columns // (4 if product.accumulator == tensor_ops.ACCUMULATE_F16 else 2)
    return MicroOp(
        ops.WARPGROUP_PRODUCT,
        sources=(
            None if a is None else Source(a, 4),
            Source(Operand(Kind.UNIFORM, int(known.group(1))), 4),
            None if metadata is None else Source(metadata),
        ),
        destination=destination,
        words=words,
        predicate_sources=() if accumulates is None else (accumulates,),
        flags=(
            product.styles | product.accumulator << 16 | product.bits << 20,
            columns | (depth // 32 if product.bits == 1 else depth) << 16,
            bits | selector << 8,
            int(product.floating),
        ),
        space=Space.SHARED if a is None else Space.NONE,
        access_bytes=DEPTH_BITS // 8 << sparse,
        trace_flags=int(Flag.PRODUCT | Flag.PRODUCT_GROUP if closes else Flag.PRODUCT),
        extra={"matrix": (product.matrix, WARP_ROWS * columns * depth >> sparse)},
    )


def _operands(
    operands: list[Operand], sparse: bool, bits: int
) -> tuple[Operand, Operand | None, Operand, bool, Operand | None, Operand | None, int] | None:
    """(D, A's registers, descriptors, whether these are negated, whether C counts, metadata, selector)."""
    if len(operands) < 3 or not _plain_register(operands[0]):
        return None
    destination, rest = operands[0], operands[1:]
    a = rest.pop(0) if rest[0].kind == Kind.REGISTER else None
    negated = a is not None and a.negated
    if a is not None and (a.index == NO_REGISTER or a.modifiers or a.inverted or a.absolute):
        return None
    if len(rest) < 2 or rest[0].kind != Kind.OTHER:
        return None
    descriptors, c = rest.pop(0), rest.pop(0)
    accumulates = rest.pop(0) if rest and rest[0].kind == Kind.UNIFORM_PREDICATE else None
    zero = accumulates is not None and accumulates.index == 7 and accumulates.inverted
    if c.kind != Kind.REGISTER or c.index != (NO_REGISTER if zero else destination.index) or c.negated:
        return None
    metadata, selector = None, 0
    if sparse:
        metadata = rest.pop(0) if rest else None
        if metadata is None or not _plain_register(metadata):
            return None
        if bits > 8:
            if not rest or rest[0].kind != Kind.IMMEDIATE or rest[0].value > 1:
                return None
            selector = rest.pop(0).value
    if a is not None and negated:
        a = Operand(Kind.REGISTER, a.index, text=a.text)
    return None if rest else (destination, a, descriptors, negated, accumulates, metadata, selector)


def _plain_register(operand: Operand) -> bool:
    changed = operand.modifiers or operand.negated or operand.inverted or operand.absolute
    return operand.kind == Kind.REGISTER and operand.index != NO_REGISTER and not changed


def lower_warpgroup(instruction: Instruction) -> MicroOp | None:
    """``WARPGROUP.ARRIVE`` (wgmma.fence): what was written to registers before is seen by the products behind it, which
    it is already here. ``WARPGROUP.DEPBAR.LE gsb0, n`` waits for groups of products."""
    if instruction.modifiers == ("ARRIVE",) and not instruction.operands:
        return MicroOp(ops.NOP)
    if instruction.modifiers != ("DEPBAR", "LE") or len(instruction.operands) != 2:
        return None
    group, level = instruction.operands
    if group.text != _GROUP or level.kind != Kind.IMMEDIATE:
        return None
    return MicroOp(ops.WARPGROUP_WAIT, trace_flags=int(Flag.PRODUCT_WAIT), extra={"depbar_level": min(level.value, 63)})


_SUMMARIES = {
    "HGMMA": "warp group's matrix product of half, bfloat16 or TF32",
    "QGMMA": "warp group's matrix product of 8-bit floats",
    "IGMMA": "warp group's matrix product of 8-bit integers",
    "BGMMA": "warp group's matrix product of bits",
}

OPCODES = (
    *(
        Opcode(
            mnemonic=name, summary=summary, lowering=lower_product, bodies=(ops.WARPGROUP_PRODUCT,),
            pipe=PipeClass.TENSOR, coverage="matrix multiply", flops=TENSOR,
        )
        for name, summary in _SUMMARIES.items()
    ),
    Opcode(
        mnemonic="WARPGROUP", summary="order or wait for a warp group's products", lowering=lower_warpgroup,
        bodies=(ops.NOP, ops.WARPGROUP_WAIT), pipe=PipeClass.NONE, coverage=OTHER, flops=NO_FLOPS,
    ),
)  # fmt: skip
