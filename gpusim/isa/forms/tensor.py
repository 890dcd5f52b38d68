"""The tensor cores: HMMA, QMMA, IMMA, BMMA, DMMA, and the matrix moves LDSM, STSM and MOVM.

Mental model: one instruction multiplies small matrices that lie spread over the registers of a warp. Its name
gives the shape (``16816`` is 16 x 8 x 16), then the formats. A register holds 32 bits of one row of A (or one
column of B), so a shape is a number of 8-row tiles and a number of register steps along k; which lane holds
what is the body's business (:mod:`gpusim.isa.bodies.tensor`, after the PTX ISA's fragment figures).

Hopper's asynchronous tensor instructions stand in :mod:`gpusim.isa.forms.warpgroup_products`, Blackwell's in
:mod:`gpusim.isa.forms.tensor_memory`.
"""

from __future__ import annotations

from gpusim.isa import float_ops
from gpusim.isa import tensor_ops as ops
from gpusim.isa.bodies import tensor as body
from gpusim.isa.bodies import tensor_blocks, tensor_integer
from gpusim.isa.body import Body
from gpusim.isa.form import Instruction, Kind, MicroOp, Operand, Source
from gpusim.isa.lowering import Modifiers
from gpusim.isa.opcode import TENSOR, Opcode
from gpusim.trace.record import MatrixType, PipeClass

#: Shapes as SASS writes them: rows of A, columns of B, depth.
SHAPES = {
    "884": (8, 8, 4),
    "8x8x4": (8, 8, 4),
    "1684": (16, 8, 4),
    "1688": (16, 8, 8),
    "16816": (16, 8, 16),
    "16832": (16, 8, 32),
    "16864": (16, 8, 64),
    "8816": (8, 8, 16),
    "8832": (8, 8, 32),
    "88128": (8, 8, 128),
    "168128": (16, 8, 128),
    "168256": (16, 8, 256),
    "16x8x4": (16, 8, 4),
    "16x8x8": (16, 8, 8),
    "16x8x16": (16, 8, 16),
}
EIGHT_BIT = {"E4M3": float_ops.E4M3, "E5M2": float_ops.E5M2}
#: What else stands in a byte for QMMA (sm_120).
IN_BYTES = EIGHT_BIT | {"E3M2": float_ops.E3M2, "E2M3": float_ops.E2M3, "E2M1": float_ops.E2M1}
INTEGERS = {"S8": (8, True), "U8": (8, False), "S4": (4, True), "U4": (4, False)}
ROUNDINGS = {"RM": 1, "RP": 2, "RZ": 3}
#: Bits of a row that all four lanes of a row hold in one register.
STEP_BITS = 128


def fragment(operand: Operand, words: int, allowed: tuple[tuple[str, ...], ...] = ((),)) -> Source | None:
    """A source of ``words`` registers without sign, or None."""
    if operand.kind != Kind.REGISTER or operand.modifiers not in allowed:
        return None
    if operand.negated or operand.inverted or operand.absolute:
        return None
    return Source(operand, words)


def _product(
    instruction: Instruction,
    op: Body,
    shape: tuple[int, int, int],
    element_bits: int,
    accumulator_words: int,
    matrix: MatrixType,
    flags: tuple[int, ...],
    layouts: tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, ...], ...]] = (((),), ((),)),
) -> MicroOp | None:
    """The micro-op of ``D = A x B + C``; ``flags`` may hold None where the tiles and steps are to stand."""
    rows, columns, depth = shape
    steps, odd = divmod(depth * element_bits, STEP_BITS)
    if odd or steps not in (1, 2) or len(instruction.operands) != 4:
        return None
    destination, a, b, c = instruction.operands
    tiles = rows // 8
    sources = (
        fragment(a, tiles * steps, layouts[0]),
        fragment(b, steps, layouts[1]),
        fragment(c, accumulator_words),
    )
    if None in sources or destination.kind != Kind.REGISTER or destination.modifiers:
        return None
    return MicroOp(
        op.number,
        sources=sources,
        destination=destination,
        words=accumulator_words,
        flags=tuple(tiles | steps << 4 if flag is None else flag for flag in flags),
        extra={"matrix": (matrix, rows * columns * depth)},
    )


def _shape(modifiers: Modifiers) -> tuple[int, int, int] | None:
    found = modifiers.left[0] if modifiers.left else ""
    if found not in SHAPES:
        return None
    modifiers.left.pop(0)
    return SHAPES[found]


def lower_half(instruction: Instruction) -> MicroOp | None:
    """``HMMA.16816.F32[.BF16|.TF32] Rd, Ra, Rb, Rc``, ``HMMA.1688.F16``; ``HMMA.884.*.STEPn`` of Turing; sparse
    ones."""
    modifiers = Modifiers(instruction)
    sparse, shape = modifiers.take("SP"), _shape(modifiers)
    if shape is None:
        return None
    if shape[0] == 8:
        return _lower_quad(instruction, modifiers)
    accumulator = modifiers.choose({"F32": ops.ACCUMULATE_F32, "F16": ops.ACCUMULATE_F16})
    style = modifiers.choose({"BF16": float_ops.BF16, "TF32": float_ops.TF32}, float_ops.F16)
    if accumulator is None or modifiers.left:
        return None
    wide = accumulator == ops.ACCUMULATE_F32
    if not wide and style != float_ops.F16:
        return None
    matrix = MatrixType.TF32 if style == float_ops.TF32 else MatrixType.F16 if wide else MatrixType.F16_F16
    bits = 32 if style == float_ops.TF32 else 16
    if sparse:
        op, code = tensor_blocks.multiply_sparse_floats, style | style << 8 | accumulator << 20
        return _sparse(instruction, op, shape, bits, 4 if wide else 2, matrix, code)
    flags = (style | style << 8, None, accumulator)
    return _product(instruction, body.multiply_floats, shape, bits, 4 if wide else 2, matrix, flags)


def _lower_quad(instruction: Instruction, modifiers: Modifiers) -> MicroOp | None:
    """``HMMA.884.F32.F16.STEP2 Rd, Ra.ROW, Rb.COL, Rc``: two registers of D, of one 8 x 8 x 4 product for each
    quarter of the warp."""
    step = modifiers.choose({f"STEP{i}": i for i in range(4)})
    formats = {"F32": ops.ACCUMULATE_F32, "F16": ops.ACCUMULATE_F16}
    if step is None or len(modifiers.left) != 2 or len(instruction.operands) != 4:
        return None
    to, of = (formats.get(name) for name in modifiers.left)
    destination, a, b, c = instruction.operands
    sources = (fragment(a, 2, (("ROW",), ("COL",))), fragment(b, 2, (("ROW",), ("COL",))), fragment(c, 2))
    if to is None or of is None or None in sources or (to and not of) or (to and step > 1):
        return None
    if destination.kind != Kind.REGISTER or destination.modifiers:
        return None
    order = (ops.A_BY_COLUMNS if a.modifiers == ("COL",) else 0) | (ops.B_BY_ROWS if b.modifiers == ("ROW",) else 0)
    matrix = MatrixType.F16_F16 if to else MatrixType.F16
    return MicroOp(
        body.multiply_quads.number,
        sources=sources,
        destination=destination,
        words=2,
        flags=(step, order, to, of),
        extra={"matrix": (matrix, 512 if to else 256)},
    )


def lower_eight_bit(instruction: Instruction) -> MicroOp | None:
    """``QMMA.16832.F32.E4M3.E5M2 Rd, Ra, Rb, Rc``; sparse ones, and ``QMMA.SF.16832.F32.E4M3.E2M1.E8`` with scales."""
    modifiers = Modifiers(instruction)
    if modifiers.take("SF"):
        return _scaled(instruction, modifiers, 4)
    sparse, shape = modifiers.take("SP"), _shape(modifiers)
    accumulator = modifiers.choose({"F32": ops.ACCUMULATE_F32, "F16": ops.ACCUMULATE_F16})
    if shape is None or accumulator is None or len(modifiers.left) != 2:
        return None
    a, b = (IN_BYTES.get(name) for name in modifiers.left)
    if a is None or b is None:
        return None
    wide = accumulator == ops.ACCUMULATE_F32
    matrix = MatrixType.FP8 if wide else MatrixType.FP8_F16
    layouts = (((), ("ROW",)), ((), ("COL",)))
    if sparse:
        op, code = tensor_blocks.multiply_sparse_floats, a | b << 8 | accumulator << 20
        return _sparse(instruction, op, shape, 8, 4 if wide else 2, matrix, code)
    flags = (a | b << 8, None, accumulator)
    return _product(instruction, body.multiply_floats, shape, 8, 4 if wide else 2, matrix, flags, layouts)


def lower_integer(instruction: Instruction) -> MicroOp | None:
    """``IMMA.16832.S8.U8[.SAT] Rd, Ra.ROW, Rb.COL, Rc``; sparse ones."""
    modifiers = Modifiers(instruction)
    sparse = modifiers.take("SP")
    shape, saturate = _shape(modifiers), modifiers.take("SAT")
    if shape is None or len(modifiers.left) != 2 or any(name not in INTEGERS for name in modifiers.left):
        return None
    (bits, a_signed), (b_bits, b_signed) = (INTEGERS[name] for name in modifiers.left)
    if bits != b_bits:
        return None
    matrix = MatrixType.INT8 if bits == 8 else MatrixType.INT4
    signs = (ops.A_SIGNED if a_signed else 0) | (ops.B_SIGNED if b_signed else 0)
    if sparse:
        op, code = tensor_blocks.multiply_sparse_integers, bits | signs << 8 | int(saturate) << 20
        return _sparse(instruction, op, shape, bits, 4, matrix, code)
    flags = (bits | signs << 8, None, int(saturate))
    return _product(
        instruction,
        tensor_integer.multiply_integers,
        shape,
        bits,
        shape[0] // 4,
        matrix,
        flags,
        ((("ROW",),), (("COL",),)),
    )


def lower_bit(instruction: Instruction) -> MicroOp | None:
    """``BMMA.168256.XOR.POPC Rd, Ra.ROW, Rb.COL, Rc``: bits in common, or differing, counted."""
    modifiers = Modifiers(instruction)
    shape = _shape(modifiers)
    operation = modifiers.choose({"AND": ops.BIT_AND, "XOR": ops.BIT_XOR})
    if shape is None or operation is None or not modifiers.take("POPC") or modifiers.left:
        return None
    flags = (operation, None)
    return _product(
        instruction,
        tensor_integer.count_bits,
        shape,
        1,
        shape[0] // 4,
        MatrixType.BIT,
        flags,
        ((("ROW",),), (("COL",),)),
    )


def lower_double(instruction: Instruction) -> MicroOp | None:
    """``DMMA.884[.RZ] Rd, Ra, Rb, Rc`` (``DMMA.8x8x4`` since Hopper): one element of A and B a lane; of 16 x 8 x 4, 8
    and 16 (Hopper) two for each four along k."""
    modifiers = Modifiers(instruction)
    shape, mode = _shape(modifiers), modifiers.choose(ROUNDINGS, 0)
    if shape is not None and shape[0] == 16:
        return _lower_tall_double(instruction, modifiers, shape, mode)
    if shape != (8, 8, 4) or modifiers.left or len(instruction.operands) != 4:
        return None
    destination, a, b, c = instruction.operands
    sources = (fragment(a, 2), fragment(b, 2), fragment(c, 4))
    if None in sources or destination.kind != Kind.REGISTER or destination.modifiers:
        return None
    return MicroOp(
        body.multiply_doubles.number,
        sources=sources,
        destination=destination,
        words=4,
        flags=(mode,),
        extra={"matrix": (MatrixType.F64, 256)},
    )


def _lower_tall_double(
    instruction: Instruction, modifiers: Modifiers, shape: tuple[int, int, int], mode: int
) -> MicroOp | None:
    if not instruction.modifiers[0].startswith("16x8x") or modifiers.left or len(instruction.operands) != 4:
        return None
    destination, a, b, c = instruction.operands
    zero = c.kind == Kind.REGISTER and c.index == 255
    sources = (fragment(a, shape[2]), fragment(b, shape[2] // 2), fragment(c, 1 if zero else 8))
    if None in sources or any(o.kind != Kind.REGISTER or o.index == 255 for o in (destination, a, b)):
        return None
    return MicroOp(
        body.multiply_tall_doubles.number,
        sources=sources,
        destination=destination,
        words=8,
        flags=(mode, shape[2], int(zero)),
        extra={"matrix": (MatrixType.F64, 128 * shape[2])},
    )


def _beside(operands: tuple[Operand, ...], source: Operand) -> bool:
    """Whether operands can be named by their distance from ``source``."""
    known = all(o.kind in (Kind.REGISTER, Kind.UNIFORM) and not o.modifiers and not o.negated for o in operands)
    return known and source.kind == Kind.REGISTER and source.index != 255


def _sparse(
    instruction: Instruction,
    op: Body,
    shape: tuple[int, int, int],
    element_bits: int,
    accumulator_words: int,
    matrix: MatrixType,
    code: int,
) -> MicroOp | None:
    """``HMMA.SP.16832.F32 Rd, Ra, Rb, Rc, Re, selector``: A holds half of its elements, Re which."""
    steps = shape[2] * element_bits // (2 * STEP_BITS)
    if shape[0] != 16 or steps not in (1, 2) or len(instruction.operands) != 6:
        return None
    destination, a, b, c, metadata, selector = instruction.operands
    sources = (
        fragment(a, 2 * steps, ((), ("ROW",))),
        fragment(b, 2 * steps, ((), ("COL",))),
        fragment(c, accumulator_words),
    )
    if None in sources or destination.kind != Kind.REGISTER or destination.modifiers:
        return None
    if not _beside((metadata,), a) or selector.kind != Kind.IMMEDIATE or selector.value > 3:
        return None
    # Which lane of four the metadata begins in: one of them, a pair, or all give it.
    lane = selector.value if element_bits >= 16 and steps == 1 else 2 * selector.value
    if lane > 3 or (element_bits < 16 and steps == 2 and lane):
        return None
    rows, columns, depth = shape
    return MicroOp(
        op.number,
        sources=sources,
        destination=destination,
        words=accumulator_words,
        flags=(code | steps << 16 | lane << 24,),
        extra={"matrix": (matrix, rows * columns * depth // 2), "beside": (metadata,)},
    )


#: Formats of a scale, and how many stand along k where ``.4X`` is not written.
_SCALES = {"E8": float_ops.E8M0, "UE4M3": float_ops.E4M3}


def _scaled(instruction: Instruction, modifiers: Modifiers, elements: int) -> MicroOp | None:
    """``QMMA.SF.16832.F32.E4M3.E2M1.E8 Rd, Ra, Rb, Rc, Rsa, Rsb, URx``: elements of A and B are multiplied by scales
    first. ``QMMA.SF.SP.16864.F32.E4M3.E2M1.E8 Rd, Ra, Rb, Rc, Re, Rsb, URx, selector``: A is sparse as well, and Re two
    registers, the metadata and the scales of A."""
    sparse, shape, four = modifiers.take("SP"), _shape(modifiers), modifiers.take("4X")
    if shape != (16, 8, 8 * elements << sparse) or not modifiers.take("F32") or len(modifiers.left) != 3:
        return None
    a_style, b_style = (IN_BYTES.get(name) for name in modifiers.left[:2])
    style = _SCALES.get(modifiers.left[2])
    if a_style is None or b_style is None or style is None or len(instruction.operands) != 7 + sparse:
        return None
    if elements == 8 and (a_style != float_ops.E2M1 or b_style != float_ops.E2M1):
        return None
    if (four and elements != 8) or (style == float_ops.E4M3 and not four):
        return None
    destination, a, b, c, *scales = instruction.operands
    if sparse:
        selector = scales.pop()
        if selector.kind != Kind.IMMEDIATE or selector.value:
            return None
    sources = (fragment(a, 4), fragment(b, 4 if sparse else 2), fragment(c, 4))
    if None in sources or destination.kind != Kind.REGISTER or destination.modifiers:
        return None
    if not _beside(tuple(scales), a):
        return None
    along = 4 if four else elements // 4
    # With a 6- or 4-bit operand in bytes they run as products without scales do.
    of_bytes = MatrixType.SCALED_FP8 if {a_style, b_style} <= set(EIGHT_BIT.values()) else MatrixType.FP8
    return MicroOp(
        (tensor_blocks.multiply_sparse_scaled if sparse else tensor_blocks.multiply_scaled).number,
        sources=sources,
        destination=destination,
        words=4,
        flags=(a_style | b_style << 8 | elements << 16 | along << 20 | style << 24,),
        extra={
            "matrix": (MatrixType.FP4 if elements == 8 else of_bytes, 128 * 8 * elements),
            "beside": tuple(scales),
            "beside_words": 1 + sparse,
        },
    )


def lower_four_bit(instruction: Instruction) -> MicroOp | None:
    """``OMMA.SF.16864.F32.E2M1.E2M1.E8[.4X] Rd, Ra, Rb, Rc, Rsa, Rsb, URx``: 4-bit floats, eight a register, with
    scales."""
    modifiers = Modifiers(instruction)
    return _scaled(instruction, modifiers, 8) if modifiers.take("SF") else None


OPCODES = (
    Opcode(
        mnemonic="HMMA", summary="matrix product of half, bfloat16 or TF32", lowering=lower_half,
        bodies=(body.multiply_floats, body.multiply_quads, tensor_blocks.multiply_sparse_floats),
        pipe=PipeClass.TENSOR, coverage="matrix multiply", flops=TENSOR,
    ),
    Opcode(
        mnemonic="QMMA", summary="matrix product of 8-bit floats", lowering=lower_eight_bit,
        bodies=(body.multiply_floats, tensor_blocks.multiply_sparse_floats, tensor_blocks.multiply_scaled, tensor_blocks.multiply_sparse_scaled), pipe=PipeClass.TENSOR, coverage="matrix multiply", flops=TENSOR,
    ),
    Opcode(
        mnemonic="IMMA", summary="matrix product of 8-bit or 4-bit integers", lowering=lower_integer,
        bodies=(tensor_integer.multiply_integers, tensor_blocks.multiply_sparse_integers), pipe=PipeClass.TENSOR, coverage="matrix multiply", flops=TENSOR,
    ),
    Opcode(
        mnemonic="BMMA", summary="matrix product of bits", lowering=lower_bit,
        bodies=(tensor_integer.count_bits,), pipe=PipeClass.TENSOR, coverage="matrix multiply", flops=TENSOR,
    ),
    Opcode(
        mnemonic="DMMA", summary="matrix product of FP64", lowering=lower_double,
        bodies=(body.multiply_doubles, body.multiply_tall_doubles),
        pipe=PipeClass.TENSOR, coverage="matrix multiply", flops=TENSOR,
    ),
    Opcode(
        mnemonic="OMMA", summary="matrix product of 4-bit floats with scales", lowering=lower_four_bit,
        bodies=(tensor_blocks.multiply_scaled, tensor_blocks.multiply_sparse_scaled), pipe=PipeClass.TENSOR, coverage="matrix multiply", flops=TENSOR,
    ),
)  # fmt: skip
